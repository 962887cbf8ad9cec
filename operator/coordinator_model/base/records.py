"""Records of `__consumer_offsets` as the model writes and replays them.

A record's type and key are Kafka's; the value is a dataclass of the module that owns the record type, or None for a
tombstone. Source: group-coordinator/src/main/resources/common/message (key type = the schemas' `apiKey`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class RecordType(IntEnum):
    """Key types of `__consumer_offsets`; TRANSACTION_END, which has none, is the control record of a transaction."""

    TRANSACTION_END = -1
    OFFSET_COMMIT = 1
    CLASSIC_GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_PARTITION_METADATA = 18
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Parameters
    ----------
    key: the group id, then what the key type adds (member id; topic and partition); of TRANSACTION_END the producer id.
    value: a frozen dataclass of the owning module; None is a tombstone.
    """

    record_type: RecordType
    key: tuple[str | int, ...]
    value: object | None

    @property
    def group_id(self) -> str:
        """Return the group this record belongs to."""
        return str(self.key[0])
