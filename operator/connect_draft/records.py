"""Records of the draft's own topic `__worker_offsets`, as values and as bytes (item 83).

The draft numbers its keys 3 to 8. In `__consumer_offsets` these numbers became Kafka's consumer-group records, so they
are a namespace of their own here and never mix with RecordType. Slips of the draft, decided: the target's key says
field version 5 under key version 6 (it is 6); the member value has leftover topic fields (left out); a task number is
an int8 (an int32, as on today's wire). Fields marked "ours" have no counterpart in the draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks


class DraftRecordType(IntEnum):
    """Key types of `__worker_offsets`."""

    GROUP_METADATA = 3
    CONNECTORS_TASKS_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT = 6
    CURRENT_MEMBER_ASSIGNMENT = 7
    GROUP_CONFIGURATION = 8


@dataclass(frozen=True, slots=True)
class Assignor:
    """One client-side assignor a worker supports (item 63); version is the one its metadata is encoded in."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int = 0
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """ConnectWorkerGroupMetadataValue; `assignor_worker` (ours): the last one that assigned, "" for none (item 70)."""

    epoch: int
    assignor_worker: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorsTasksMetadata:
    """ConnectWorkerGroupConnectorsTasksMetadataValue; `config_offset` (ours): the offset it was read at."""

    epoch: int
    work: ConnectorsAndTasks
    config_offset: int


@dataclass(frozen=True, slots=True)
class ClassicWorker:
    """What of a worker of the old protocol must survive (ours, after KIP-848's ClassicMemberMetadata)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """ConnectWorkerGroupMemberMetadataValue; `rebalance_timeout_ms` and `classic` are ours."""

    group_epoch: int
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    assignors: tuple[Assignor, ...]
    classic: ClassicWorker | None = None


@dataclass(frozen=True, slots=True)
class TargetMember:
    """One worker's part of the target assignment."""

    member_id: str
    error: int
    work: ConnectorsAndTasks
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """ConnectWorkerGroupTargetAssignmentValue: the whole target in one record.

    `error` is in the draft's data model but not in its schema; `held_back` (ours): work without an owner, by former
    owner.
    """

    assignment_epoch: int
    error: int
    members: tuple[TargetMember, ...]
    held_back: tuple[tuple[str, ConnectorsAndTasks], ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentMemberAssignment:
    """ConnectWorkerGroupCurrentMemberAssignmentValue; `previous_epoch` and `revoking` are ours.

    Without `revoking` a new coordinator would give away what a worker has not stopped yet.
    """

    member_epoch: int
    previous_epoch: int
    error: int
    assigned: ConnectorsAndTasks = NOTHING
    revoking: ConnectorsAndTasks = NOTHING
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupConfiguration:
    """ConnectWorkerGroupConfigurationValue: the group's own settings by name."""

    configurations: tuple[tuple[str, str], ...]


Value = (
    GroupMetadata
    | ConnectorsTasksMetadata
    | MemberMetadata
    | TargetAssignment
    | CurrentMemberAssignment
    | GroupConfiguration
)


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """One record: key is (group id,) or (group id, member id); value None is a tombstone."""

    record_type: DraftRecordType
    key: tuple[str, ...]
    value: Value | None
