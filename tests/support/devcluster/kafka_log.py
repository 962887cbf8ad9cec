"""The group coordinator's own account of what happened, read from the brokers' logs.

Why: DescribeGroups shows no generation, so "this deploy caused no rebalance" can only be proved by what the
coordinator wrote. One idea: every line of interest becomes one typed record (kafka_log_lines.py); tests count records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind, LogParser

__all__ = ["GroupEvent", "GroupEventKind", "GroupLog", "LogParser", "now_ms"]

_POLL_S = 0.05
_K = GroupEventKind


class _NodeLog:
    """Reads the complete lines that were added to one file since the last time."""

    def __init__(self, node_id: int, path: Path) -> None:
        self._path = path
        self._parser = LogParser(node_id)
        self._position = 0

    def read(self) -> list[GroupEvent]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                fresh = file.read()
        except FileNotFoundError:
            return []
        complete = fresh[: fresh.rfind(b"\n") + 1]  # a line that is being written waits for the next time
        self._position += len(complete)
        return list(self._parser.parse(complete.decode(errors="replace").split("\n")))


class GroupLog:
    """What the coordinators of a cluster logged, in the order of time.

    Parameters
    ----------
    paths: node id to log file; a file may appear later.
    """

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._nodes = [_NodeLog(node_id, path) for node_id, path in sorted(paths.items())]
        self._events: list[GroupEvent] = []

    def events(
        self, group_id: str | None = None, *, since_ms: int = 0, kind: GroupEventKind | None = None
    ) -> list[GroupEvent]:
        """Return the records so far.

        Parameters
        ----------
        group_id: none means every group.
        since_ms: earliest time, milliseconds since 1970.
        """
        fresh = [event for node in self._nodes for event in node.read()]
        if fresh:
            # the sort is stable, so what one node logged within a millisecond keeps its order
            self._events = sorted((*self._events, *fresh), key=lambda event: event.at_ms)
        return [
            event
            for event in self._events
            if event.at_ms >= since_ms
            and (group_id is None or event.group_id == group_id)
            and (kind is None or event.kind is kind)
        ]

    def count_rebalances(self, group_id: str, since_ms: int = 0) -> int:
        """Count the rebalances of a classic group: how often it was prepared for one."""
        return len(self.events(group_id, since_ms=since_ms, kind=_K.REBALANCE_PREPARED))

    def count_epoch_bumps(self, group_id: str, since_ms: int = 0) -> int:
        """Count how often the group epoch of a KIP-848 or KIP-1071 group grew, which is what makes it reassign."""
        return len(self.events(group_id, since_ms=since_ms, kind=_K.EPOCH_BUMPED))

    def wait_for(
        self, condition: Callable[[GroupEvent], bool], *, group_id: str | None = None, since_ms: int = 0,
        timeout_s: float = 30.0,
    ) -> GroupEvent:  # fmt: skip
        """Return the first record that fulfils a condition, waiting for it."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            events = self.events(group_id, since_ms=since_ms)
            for event in events:
                if condition(event):
                    return event
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the coordinator did not log it in {timeout_s:.0f} s; last: {events[-5:]}")
            time.sleep(_POLL_S)

    def wait_for_kind(
        self, kind: GroupEventKind, group_id: str, *, since_ms: int = 0, timeout_s: float = 30.0
    ) -> GroupEvent:
        """Return the first record of a kind in a group, waiting for it."""
        return self.wait_for(
            lambda event: event.kind is kind, group_id=group_id, since_ms=since_ms, timeout_s=timeout_s
        )


def now_ms() -> int:
    """Return the wall clock of this machine, which is also the brokers', in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
