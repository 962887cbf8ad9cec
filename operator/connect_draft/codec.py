"""The bytes of the draft's records: int16 key version and plain strings in keys, flexible (compact, tagged) values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

from coordinator_model.connect.protocol import Reader, SchemaError, encode_string
from coordinator_model.connect.work import ConnectorsAndTasks, ConnectorTaskId

from .records import (
    Assignor,
    ClassicWorker,
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecord,
    DraftRecordType,
    GroupConfiguration,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
    TargetMember,
    Value,
)

Item = TypeVar("Item")
NO_TAGS = b"\x00"
VALUE_VERSION = 0


def encode_key(record_type: DraftRecordType, key: tuple[str, ...]) -> bytes:
    """Encode a record key: its type as int16, then the group id and, for members, the member id."""
    return struct.pack(">h", record_type) + b"".join(encode_string(part) for part in key)


def decode_key(data: bytes) -> tuple[DraftRecordType, tuple[str, ...]]:
    """Decode a record key; raises SchemaError for bytes that are none."""
    reader = Reader(data)
    number = reader.number("h")
    if number not in DraftRecordType.__members__.values():
        raise SchemaError(f"key version {number}")
    parts = []
    while not reader.done():
        parts.append(reader.string())
    return DraftRecordType(number), tuple(parts)


def encode_value(value: Value) -> bytes:
    """Encode a record value, with its int16 version in front."""
    writer = _Writer()
    writer.number("h", VALUE_VERSION)
    _ENCODERS[type(value)](writer, value)
    writer.raw(NO_TAGS)
    return writer.data()


def decode_record(key: bytes, value: bytes | None) -> DraftRecord:
    """Decode a whole record; value None is a tombstone. Raises SchemaError for bytes that are none."""
    record_type, parts = decode_key(key)
    if value is None:
        return DraftRecord(record_type, parts, None)
    reader = _ValueReader(value)
    if reader.number("h") != VALUE_VERSION:
        raise SchemaError("unknown value version")
    decoded = _DECODERS[record_type](reader)
    reader.tags()
    return DraftRecord(record_type, parts, decoded)


class _Writer:
    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def data(self) -> bytes:
        return b"".join(self._parts)

    def raw(self, data: bytes) -> None:
        self._parts.append(data)

    def number(self, form: str, value: int) -> None:
        self.raw(struct.pack(f">{form}", value))

    def length(self, count: int | None) -> None:
        """A compact length is one more than the count; 0 is null."""
        left = 0 if count is None else count + 1
        while left >= 0x80:
            self.raw(bytes([left & 0x7F | 0x80]))
            left >>= 7
        self.raw(bytes([left]))

    def blob(self, data: bytes) -> None:
        self.length(len(data))
        self.raw(data)

    def string(self, text: str | None) -> None:
        if text is None:
            self.length(None)
        else:
            self.blob(text.encode())

    def array(self, items: Iterable[Item], write: Callable[[Item], None]) -> None:
        """An array of structures, each with its empty tag section."""
        items = list(items)
        self.length(len(items))
        for item in items:
            write(item)
            self.raw(NO_TAGS)

    def work(self, work: ConnectorsAndTasks) -> None:
        self.length(len(work.connectors))
        for connector in work.connectors:
            self.string(connector)
        self.array(work.tasks, self._task)

    def _task(self, task: ConnectorTaskId) -> None:
        self.string(task.connector)
        self.number("i", task.task)

    def pair(self, pair: tuple[str, bytes]) -> None:
        self.string(pair[0])
        self.blob(pair[1])

    def held_back(self, entry: tuple[str, ConnectorsAndTasks]) -> None:
        self.string(entry[0])
        self.work(entry[1])

    def setting(self, pair: tuple[str, str]) -> None:
        self.string(pair[0])
        self.string(pair[1])

    def assignor(self, assignor: Assignor) -> None:
        self.string(assignor.name)
        for value, form in (
            (assignor.minimum_version, "h"),
            (assignor.maximum_version, "h"),
            (assignor.reason, "b"),
            (assignor.version, "h"),
        ):
            self.number(form, value)
        self.blob(assignor.metadata)

    def target_member(self, member: TargetMember) -> None:
        self.string(member.member_id)
        self.number("b", member.error)
        self.work(member.work)
        self.number("h", member.version)
        self.blob(member.metadata)


class _ValueReader(Reader):
    def length(self) -> int | None:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return None if value == 0 else value - 1
            shift += 7

    def tags(self) -> None:
        if self.take(1) != NO_TAGS:
            raise SchemaError("unknown tagged fields")

    def blob(self) -> bytes:
        length = self.length()
        if length is None:
            raise SchemaError("null where bytes are wanted")
        return self.take(length)

    def text(self) -> str:
        return self.blob().decode()

    def optional_text(self) -> str | None:
        length = self.length()
        return None if length is None else self.take(length).decode()

    def array(self, read: Callable[[], Item]) -> tuple[Item, ...]:
        items = []
        for _ in range(self.length() or 0):
            items.append(read())
            self.tags()
        return tuple(items)

    def compact_work(self) -> ConnectorsAndTasks:
        connectors = tuple(self.text() for _ in range(self.length() or 0))
        return ConnectorsAndTasks(connectors, self.array(lambda: ConnectorTaskId(self.text(), self.number("i"))))

    def pair(self) -> tuple[str, bytes]:
        return self.text(), self.blob()

    def held_back(self) -> tuple[str, ConnectorsAndTasks]:
        return self.text(), self.compact_work()

    def setting(self) -> tuple[str, str]:
        return self.text(), self.text()

    def assignor(self) -> Assignor:
        return Assignor(
            self.text(), self.number("h"), self.number("h"), self.number("b"), self.number("h"), self.blob()
        )

    def target_member(self) -> TargetMember:
        return TargetMember(self.text(), self.number("b"), self.compact_work(), self.number("h"), self.blob())


def _write_group(w: _Writer, v: GroupMetadata) -> None:
    w.number("i", v.epoch)
    w.string(v.assignor_worker)


def _read_group(r: _ValueReader) -> GroupMetadata:
    return GroupMetadata(r.number("i"), r.text())


def _write_connectors(w: _Writer, v: ConnectorsTasksMetadata) -> None:
    w.number("i", v.epoch)
    w.work(v.work)
    w.number("q", v.config_offset)


def _read_connectors(r: _ValueReader) -> ConnectorsTasksMetadata:
    return ConnectorsTasksMetadata(r.number("i"), r.compact_work(), r.number("q"))


def _write_member(w: _Writer, v: MemberMetadata) -> None:
    w.number("i", v.group_epoch)
    w.string(v.instance_id)
    w.string(v.client_id)
    w.string(v.client_host)
    w.number("i", v.rebalance_timeout_ms)
    w.array(v.assignors, w.assignor)
    w.number("b", -1 if v.classic is None else 1)
    if v.classic is not None:
        w.number("i", v.classic.session_timeout_ms)
        w.array(v.classic.protocols, w.pair)


def _read_member(r: _ValueReader) -> MemberMetadata:
    return MemberMetadata(
        group_epoch=r.number("i"),
        instance_id=r.optional_text(),
        client_id=r.text(),
        client_host=r.text(),
        rebalance_timeout_ms=r.number("i"),
        assignors=r.array(r.assignor),
        classic=ClassicWorker(r.number("i"), r.array(r.pair)) if r.number("b") == 1 else None,
    )


def _write_target(w: _Writer, v: TargetAssignment) -> None:
    w.number("i", v.assignment_epoch)
    w.number("b", v.error)
    w.array(v.members, w.target_member)
    w.array(v.held_back, w.held_back)


def _read_target(r: _ValueReader) -> TargetAssignment:
    return TargetAssignment(r.number("i"), r.number("b"), r.array(r.target_member), r.array(r.held_back))


def _write_current(w: _Writer, v: CurrentMemberAssignment) -> None:
    w.number("i", v.member_epoch)
    w.number("i", v.previous_epoch)
    w.number("b", v.error)
    w.work(v.assigned)
    w.work(v.revoking)
    w.number("h", v.version)
    w.blob(v.metadata)


def _read_current(r: _ValueReader) -> CurrentMemberAssignment:
    return CurrentMemberAssignment(
        member_epoch=r.number("i"),
        previous_epoch=r.number("i"),
        error=r.number("b"),
        assigned=r.compact_work(),
        revoking=r.compact_work(),
        version=r.number("h"),
        metadata=r.blob(),
    )


def _write_configuration(w: _Writer, v: GroupConfiguration) -> None:
    w.array(v.configurations, w.setting)


def _read_configuration(r: _ValueReader) -> GroupConfiguration:
    return GroupConfiguration(r.array(r.setting))


_ENCODERS: dict[type, Callable[..., None]] = {
    GroupMetadata: _write_group,
    ConnectorsTasksMetadata: _write_connectors,
    MemberMetadata: _write_member,
    TargetAssignment: _write_target,
    CurrentMemberAssignment: _write_current,
    GroupConfiguration: _write_configuration,
}
_DECODERS: dict[DraftRecordType, Callable[[_ValueReader], Value]] = {
    DraftRecordType.GROUP_METADATA: _read_group,
    DraftRecordType.CONNECTORS_TASKS_METADATA: _read_connectors,
    DraftRecordType.MEMBER_METADATA: _read_member,
    DraftRecordType.TARGET_ASSIGNMENT: _read_target,
    DraftRecordType.CURRENT_MEMBER_ASSIGNMENT: _read_current,
    DraftRecordType.GROUP_CONFIGURATION: _read_configuration,
}
