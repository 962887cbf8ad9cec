"""What the pods of a StaticGroup may be to Kafka, as a user says it.

The one idea: a role decides which members a pod brings and in which groups they may be; what it means stands in `core.roles`.
"""

from enum import StrEnum


class RoleChoice(StrEnum):
    """Name what the pods are."""

    CONSUMER = "Consumer"
    STREAMS = "Streams"
    CONNECT = "Connect"
