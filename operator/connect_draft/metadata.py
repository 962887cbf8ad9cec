"""What a worker says of itself in its assignors' metadata."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_model.connect.protocol import (
    ConnectProtocolCompatibility,
    Reader,
    WorkerState,
    decode_metadata,
    encode_metadata,
    encode_work,
)
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """A worker's URL and what it read in the config topic.

    The draft says "reuse the current metadata", and gives the coordinator no other way to learn what is configured,
    although it must count added connectors and tasks as triggers (item 65) and check that all are assigned (item 71).
    So here today's eager metadata (version, URL, config offset) is followed by the configured connectors and tasks.
    """

    url: str
    config_offset: int
    configured: ConnectorsAndTasks


def encode_worker_metadata(url: str, config: ClusterConfig) -> bytes:
    """Encode a worker's metadata."""
    return encode_metadata(WorkerState(url, config.offset), ConnectProtocolCompatibility.EAGER) + encode_work(
        config.configured()
    )


def decode_worker_metadata(data: bytes) -> WorkerMetadata:
    """Decode a worker's metadata; raises SchemaError for bytes that are none."""
    reader = Reader(data)
    reader.version()
    return WorkerMetadata(reader.string(), reader.number("q"), reader.work().sorted())


def worker_url(data: bytes) -> str:
    """Return the URL in the metadata of either protocol; both start alike."""
    reader = Reader(data)
    reader.version()
    return reader.string()


def classic_allocation(data: bytes) -> ConnectorsAndTasks:
    """Return what a worker of the old protocol says it runs; nothing for an eager one, which stops before it joins."""
    allocation = decode_metadata(data).allocation
    return allocation.assigned if allocation else ConnectorsAndTasks()
