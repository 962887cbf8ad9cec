"""Describe the journal: what the operator saw and did, one fact per record, for programs that read many clusters.

The one idea: a record is a CloudEvent whose id is derived from the fact, so an operator that records a fact again
(restarted, or taken over from another) makes the same id, and readers drop the copy. `facts` are the facts, `lines`
their way to a line of text and back, `schemas` what is published of them: `python -m journal --write DIR`.
"""

from .facts import (
    BEAT_INTERVAL_MS,
    CERTIFICATES_MAX,
    DATA_TYPES,
    ID_MAX,
    TEXT_MAX,
    TYPE_PREFIX,
    TYPE_SUFFIX,
    UNREACHABLE_MAX,
    Count,
    CoverageBeat,
    Data,
    GroupData,
    GroupRebalanced,
    MemberDeparted,
    MemberDown,
    MemberFenced,
    MemberRejoined,
    MemberReleased,
    MemberRemoved,
    MemberUp,
    Record,
    RemovalHeld,
    RemovalOutcome,
    RolloutFinished,
    RolloutStarted,
    TimeoutChanged,
    WorkloadScaled,
    type_of,
)  # fmt: skip
from .lines import (
    Defect,
    JournalError,
    beat_record,
    fact_of,
    group_record,
    read,
    short,
    timestamp,
    watch_scope_of,
    write,
)  # fmt: skip
from .schemas import json_schema, main

__all__ = [
    "BEAT_INTERVAL_MS", "CERTIFICATES_MAX", "DATA_TYPES", "ID_MAX", "TEXT_MAX", "TYPE_PREFIX", "TYPE_SUFFIX",
    "UNREACHABLE_MAX", "Count", "CoverageBeat", "Data", "Defect", "GroupData", "GroupRebalanced", "JournalError",
    "MemberDeparted", "MemberDown", "MemberFenced", "MemberRejoined", "MemberReleased", "MemberRemoved", "MemberUp",
    "Record", "RemovalHeld", "RemovalOutcome", "RolloutFinished", "RolloutStarted", "TimeoutChanged",
    "WorkloadScaled", "beat_record", "fact_of", "group_record", "json_schema", "main", "read", "short", "timestamp",
    "type_of", "watch_scope_of", "write",
]  # fmt: skip
