"""The membership protocols by name: as a user asks for one, and as statuses and journals tell it.

The one idea: each protocol has one word, the group type that ListGroups v5 gives it. Source: GroupType of Kafka's common package.
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
