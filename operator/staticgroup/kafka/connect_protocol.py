"""Read what a Connect worker reports in JoinGroup and is assigned in SyncGroup, as DescribeGroups shows both.

Workers and their leader write these bytes, so anything may be in them: what cannot be read costs knowledge of one
worker, never the reading of its group. A worker holds what it reported and what it was given since, without what it was
to give up; where the agent for static workers stores a whole allocation (`Whole` of `connect_agent`), it holds that.
Source: ConnectProtocol (version 0), IncrementalCooperativeConnectProtocol (versions 1 and 2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ..core.group import WorkerView

PROTOCOL_TYPE: Final = "connect"
WHOLE_MARK: Final = b"SGwhole1"
"""Begins the bytes behind an assignment that holds a whole allocation; Connect reads nothing behind its fields."""
_EAGER, _COMPATIBLE, _SESSIONED = 0, 1, 2
_CONNECTOR: Final = -1
"""The task number that stands for the connector itself (ConnectProtocol.CONNECTOR_TASK)."""

Work = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assignment:
    version: int
    assigned: Work
    revoked: Work = frozenset()
    delay_ms: int = 0
    is_whole: bool = False


class _Reader:
    """The fields of one message from the front; ValueError or struct.error where the bytes are none of these."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._content)

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._content):
            raise ValueError("the bytes end before the field does")
        self._at += count
        return self._content[self._at - count : self._at]

    def number(self, form: str) -> int:
        return int(struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0])

    def text(self) -> str:
        return self.take(self.number("h")).decode()

    def work(self) -> Work:
        """Read connectors, each with numbers of tasks; an array that is null holds nothing."""
        found: set[tuple[str, int]] = set()
        for _ in range(self.number("i")):
            name = self.text()
            count = max(0, self.number("i"))
            found.update((name, task) for task in struct.unpack(f">{count}i", self.take(4 * count)))
        return frozenset(found)

    def version(self) -> int:
        version = self.number("h")
        if not _EAGER <= version <= _SESSIONED:
            raise ValueError("a version that no Connect writes")
        return version


def worker_of(metadata: bytes, assignment: bytes) -> WorkerView:
    """Return what is known of a worker; during a rebalance the coordinator shows neither, and nothing is.

    Parameters
    ----------
    metadata: of the protocol that the group chose. assignment: as the coordinator stores it.
    """
    host = ""
    reported: Work | None = None
    try:
        reader = _Reader(metadata)
        version = reader.version()
        host_of_url = urlsplit(reader.text()).hostname or ""
        reader.number("q")  # config offset
        length = -1 if version == _EAGER or reader.is_done else reader.number("i")
        reported = frozenset() if length < 0 else _assignment(reader.take(length)).assigned
        host = host_of_url if host_of_url.isprintable() else ""
    except (ValueError, struct.error):
        pass  # its assignment may be readable all the same
    try:
        given = _assignment(assignment)
    except (ValueError, struct.error):
        return WorkerView(host=host)
    work: Work | None = given.assigned
    if given.version != _EAGER and not given.is_whole:
        work = None if reported is None else (reported | given.assigned) - given.revoked
    connectors = None if work is None else sum(task == _CONNECTOR for _, task in work)
    return WorkerView(
        host=host,
        connectors=connectors,
        tasks=None if work is None or connectors is None else len(work) - connectors,
        delay_ms=max(0, given.delay_ms),
        is_whole=given.is_whole,
    )


def _assignment(content: bytes) -> _Assignment:
    reader = _Reader(content)
    version = reader.version()
    reader.number("h")  # error
    reader.text()  # leader
    reader.text()  # its URL
    reader.number("q")  # config offset
    assigned = reader.work()
    if version == _EAGER:
        return _Assignment(version=version, assigned=assigned)
    # Versions 0 and 1 are read by one schema, in which fields at the end may be missing.
    revoked = frozenset() if reader.is_done else reader.work()
    delay_ms = 0 if reader.is_done else reader.number("i")
    return _Assignment(
        version=version, assigned=assigned, revoked=revoked, delay_ms=delay_ms, is_whole=_is_marked_whole(reader)
    )


def _is_marked_whole(reader: _Reader) -> bool:
    """Return whether all that is left is what the agent writes; it takes anything else for nothing (Whole.read)."""
    try:
        if reader.take(len(WHOLE_MARK)) != WHOLE_MARK:
            return False
        reader.text()  # instance id of the leader
        reader.text()  # the worker's own URL
        for _ in range(reader.number("i")):
            reader.text()
            reader.work()  # what another one was given
    except (ValueError, struct.error):
        return False
    return reader.is_done
