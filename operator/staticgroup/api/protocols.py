"""The membership protocols and the roles of pods by name: as users ask for them and statuses and journals show them.

The one idea: each protocol has one word, the group type that ListGroups v5 gives it (GroupType of Kafka's common code).
"""

from enum import StrEnum


class ProtocolChoice(StrEnum):
    """Name the group protocol the user expects."""

    AUTO = "Auto"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    STREAMS = "Streams"


class GroupProtocol(StrEnum):
    """Name the protocol the brokers report for the group."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    STREAMS = "Streams"
    UNKNOWN = "Unknown"


class RoleChoice(StrEnum):
    """Name what the pods are."""

    CONSUMER = "Consumer"
    STREAMS = "Streams"
    CONNECT = "Connect"
