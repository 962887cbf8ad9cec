"""Today's Kafka Connect group: the leader's assignors, the workers' reactions, and a cluster in virtual time.

To the coordinator, workers are dynamic members of a classic group of protocol type `connect`; everything that is
Connect's own happens in the workers, so it is modelled here as the leader's assignor and the worker's steps. Connect has
no static membership (WorkerCoordinator.onLeaderElected refuses skipAssignment).
"""

from __future__ import annotations

from .cluster import CompletedRound, ConnectCluster, select_protocol
from .eager import assign_eagerly
from .incremental import ClusterAssignment, IncrementalCooperativeAssignor, Round
from .protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    SchemaError,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from .work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId
from .worker import ConnectWorker

__all__ = [
    "Assignment",
    "AssignmentError",
    "ClusterAssignment",
    "ClusterConfig",
    "CompletedRound",
    "ConnectCluster",
    "ConnectProtocolCompatibility",
    "ConnectWorker",
    "ConnectorTaskId",
    "ConnectorsAndTasks",
    "IncrementalCooperativeAssignor",
    "Round",
    "SchemaError",
    "WorkerState",
    "assign_eagerly",
    "decode_assignment",
    "decode_metadata",
    "encode_assignment",
    "encode_metadata",
    "select_protocol",
]
