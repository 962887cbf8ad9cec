"""The bytes Connect workers put into JoinGroup and SyncGroup, and the protocols they may be in."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .work import NOTHING, ConnectorsAndTasks, ConnectorTaskId

Value = TypeVar("Value")

PROTOCOL_TYPE = "connect"
CONNECTOR_TASK = -1
"""The task number that stands for the connector instance itself (ConnectProtocol.CONNECTOR_TASK)."""


class SchemaError(ValueError):
    """Bytes that are not a Connect metadata or assignment (Kafka's SchemaException)."""


class AssignmentError(enum.IntEnum):
    """Errors a leader may put into an assignment (ConnectProtocol.Assignment)."""

    NO_ERROR = 0
    CONFIG_MISMATCH = 1


class ConnectProtocolCompatibility(enum.Enum):
    """The values of `connect.protocol`, each the newest protocol a worker offers (ConnectProtocolCompatibility)."""

    EAGER = ("default", 0)
    COMPATIBLE = ("compatible", 1)
    SESSIONED = ("sessioned", 2)

    @property
    def protocol(self) -> str:
        """The name in JoinGroup."""
        return self.value[0]

    @property
    def version(self) -> int:
        """The int16 at the start of metadata and assignment."""
        return self.value[1]

    @classmethod
    def from_protocol(cls, name: str) -> ConnectProtocolCompatibility:
        """Find the mode of a JoinGroup protocol name; ValueError for a name Connect never used."""
        for mode in cls:
            if mode.protocol == name.lower():
                return mode
        raise ValueError(f"not a Connect protocol: {name}")

    def offered(self) -> tuple[ConnectProtocolCompatibility, ...]:
        """The protocols a worker in this mode offers, most preferred first.

        COMPATIBLE also offers eager, SESSIONED offers all three
        (IncrementalCooperativeConnectProtocol.metadataRequest).
        """
        return tuple(mode for mode in reversed(ConnectProtocolCompatibility) if mode.version <= self.version)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells one worker (Connect's ExtendedAssignment); version 0 has neither revocations nor delay."""

    version: int
    error: AssignmentError
    leader: str
    leader_url: str
    config_offset: int
    assigned: ConnectorsAndTasks = NOTHING
    revoked: ConnectorsAndTasks = NOTHING
    delay_ms: int = 0

    @property
    def failed(self) -> bool:
        """Whether the leader could not assign anything."""
        return self.error != AssignmentError.NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker tells the leader (Connect's ExtendedWorkerState); allocation None means it holds no assignment."""

    url: str
    config_offset: int
    allocation: Assignment | None = None


def encode_string(text: str) -> bytes:
    """Encode a string of Kafka's protocol types (int16 length)."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def encode_work(work: ConnectorsAndTasks) -> bytes:
    """Encode connectors and tasks by connector; the connector itself is task -1."""
    by_connector: dict[str, list[int]] = {name: [CONNECTOR_TASK] for name in work.connectors}
    for task in work.tasks:
        by_connector.setdefault(task.connector, []).append(task.task)
    parts = [struct.pack(">i", len(by_connector))]
    for name, numbers in by_connector.items():
        parts.append(encode_string(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


class Reader:
    """The bytes of one message, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def done(self) -> bool:
        """Tell whether nothing is left."""
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        """Take so many bytes; SchemaError when there are not."""
        if count < 0 or self._at + count > len(self._data):
            raise SchemaError(f"{count} bytes wanted at {self._at} of {len(self._data)}")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, form: str) -> int:
        """Take one number of a struct format."""
        value: int = struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0]
        return value

    def string(self) -> str:
        """Take a string."""
        return self.take(self.number("h")).decode()

    def optional(self, read: Callable[[], Value], default: Value) -> Value:
        """Take a field that older versions lack."""
        # versions 0 and 1 are read by one schema, in which fields at the end may be missing
        return default if self.done() else read()

    def nullable_bytes(self) -> bytes | None:
        """Take bytes; None where the length is negative."""
        length = self.number("i")
        return None if length < 0 else self.take(length)

    def work(self) -> ConnectorsAndTasks:
        """Take what `encode_work` wrote."""
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(self.number("i")):
            name = self.string()
            for _ in range(self.number("i")):
                number = self.number("i")
                if number == CONNECTOR_TASK:
                    connectors.append(name)
                else:
                    tasks.append(ConnectorTaskId(name, number))
        return ConnectorsAndTasks.of(connectors, tasks)

    def version(self) -> int:
        """Take the version that begins a message; SchemaError for an unknown one."""
        version = self.number("h")
        if version < 0:
            raise SchemaError(f"unsupported version {version}")
        return version


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode a MemberAssignment (ConnectProtocol for version 0, IncrementalCooperativeConnectProtocol from 1 on)."""
    data = (
        struct.pack(">hh", assignment.version, assignment.error)
        + encode_string(assignment.leader)
        + encode_string(assignment.leader_url)
        + struct.pack(">q", assignment.config_offset)
        + encode_work(assignment.assigned)
    )
    if assignment.version == 0:
        return data
    return data + encode_work(assignment.revoked) + struct.pack(">i", assignment.delay_ms)


def decode_assignment(data: bytes) -> Assignment:
    """Decode a MemberAssignment; raises SchemaError for bytes that are none."""
    return read_assignment(Reader(data))


def read_assignment(reader: Reader) -> Assignment:
    """Take a MemberAssignment; what follows its fields stays, as Connect ignores it."""
    version = reader.version()
    return Assignment(
        version=version,
        error=AssignmentError(reader.number("h")),
        leader=reader.string(),
        leader_url=reader.string(),
        config_offset=reader.number("q"),
        assigned=reader.work(),
        revoked=reader.optional(reader.work, NOTHING),
        delay_ms=reader.optional(lambda: reader.number("i"), 0),
    )


def encode_metadata(state: WorkerState, mode: ConnectProtocolCompatibility) -> bytes:
    """Encode a MemberMetadata for one of the offered protocols; the allocation travels in all but the eager one."""
    data = struct.pack(">h", mode.version) + encode_string(state.url) + struct.pack(">q", state.config_offset)
    if mode is ConnectProtocolCompatibility.EAGER:
        return data
    if state.allocation is None:
        return data + struct.pack(">i", -1)
    allocation = encode_assignment(state.allocation)
    return data + struct.pack(">i", len(allocation)) + allocation


def decode_metadata(data: bytes) -> WorkerState:
    """Decode a MemberMetadata of any version; raises SchemaError for bytes that are none."""
    return read_metadata(Reader(data))


def read_metadata(reader: Reader) -> WorkerState:
    """Take a MemberMetadata; what follows its fields stays, as Connect ignores it."""
    reader.version()
    url, offset = reader.string(), reader.number("q")
    allocation = reader.optional(reader.nullable_bytes, None)
    return WorkerState(url, offset, None if allocation is None else decode_assignment(allocation))
