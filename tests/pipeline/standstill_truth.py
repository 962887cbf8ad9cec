"""Real groups that are restarted, killed and scaled, while every consumer logs its own work as the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.waiting import until
from support.workload import recorded

PARTITIONS = 6
TOPIC = "orders"
SESSION_MS = 6_000
EVENTUALLY_S = 60.0
Span = tuple[int, int]
"""The times between which a record was processed."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The settings of a group's consumers.

    Parameters
    ----------
    client: more of librdkafka's settings.
    commit_ms, batch_ms, restore_ms: see recorded.py.
    """

    name: str
    client: Mapping[str, Any] = field(default_factory=dict)
    is_static: bool = False
    commit_ms: int = 1_000
    batch_ms: int = 0
    restore_ms: int = 0


class Group:
    """A group of recorded consumers."""

    def __init__(self, bootstrap: str, kind: Kind, folder: Path) -> None:
        self.kind, self._bootstrap, self._folder = kind, bootstrap, folder
        self.members: dict[int, subprocess.Popen[bytes]] = {}
        self._changed_ms = 0
        folder.mkdir()

    def start(self, ordinal: int) -> None:
        client = {"bootstrap.servers": self._bootstrap, "group.id": self.kind.name, **self.kind.client}
        client["client.id"] = f"{self.kind.name}-{ordinal}"
        if self.kind.client.get("group.protocol") != "consumer":
            client |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
        if self.kind.is_static:
            client["group.instance.id"] = f"{self.kind.name}-{ordinal}"
        settings = {
            "client": client, "topic": TOPIC, "file": str(self._folder / str(ordinal)),
            "commit_ms": self.kind.commit_ms,
            "batch_ms": self.kind.batch_ms, "restore_ms": self.kind.restore_ms,
        }  # fmt: skip
        self._changed_ms = recorded.now_ms()
        command = [sys.executable, recorded.__file__, json.dumps(settings)]
        self.members[ordinal] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def end(self, ordinal: int, *, is_killed: bool = False) -> None:
        """End a member as the kubelet does, or as a crash does."""
        process = self.members.pop(ordinal)
        if is_killed:
            process.kill()
        else:
            process.terminate()
        process.wait(30)

    def close(self) -> None:
        for ordinal in list(self.members):
            self.end(ordinal, is_killed=True)

    def worked(self) -> dict[int, list[Span]]:
        """Return the times in which each partition was processed, in order."""
        found: dict[int, list[Span]] = defaultdict(list)
        for file in self._folder.iterdir():
            for line in file.read_text().splitlines():
                partition, _, taken_ms, done_ms = map(int, line.split())
                found[partition].append((taken_ms, done_ms))
        return {partition: sorted(spans) for partition, spans in found.items()}

    def lives_on(self, for_ms: int) -> None:
        """Wait until every partition was processed for so long without a real pause since the last change."""

        def steady() -> bool:
            for ordinal in [ordinal for ordinal, process in self.members.items() if process.poll() is not None]:
                self.start(ordinal)  # like the kubelet: a client that was fenced ends itself
            since = {p: [s for s in spans if s[0] > self._changed_ms] for p, spans in self.worked().items()}
            return len(since) == PARTITIONS and all(spans and _steady_ms(spans) >= for_ms for spans in since.values())

        until(steady, deadline_s=EVENTUALLY_S, what=f"{self.kind.name} works on all partitions for {for_ms} ms")


def _steady_ms(spans: list[Span]) -> int:
    """Return how long a partition has been processed without a pause."""
    since = spans[-1][0]
    for (before, done_ms), (taken_ms, _) in reversed(list(pairwise(spans))):
        if taken_ms - done_ms > 2_500:
            break
        since = before
    return spans[-1][1] - since


def stood_still_ms(spans: list[Span], from_ms: int, to_ms: int) -> int:
    """Return the longest time without processing in a window, between two records.

    A commit may fall right before or after such a time; the time belongs to the window that contains most of it.
    """
    first = max(0, bisect_left(spans, (from_ms, 0)) - 1)
    last = min(len(spans), bisect_left(spans, (to_ms, 0)) + 1)
    pauses = [(one[1], other[0]) for one, other in pairwise(spans[first:last]) if other[0] > one[1]]
    return max((b - a for a, b in pauses if 2 * (min(b, to_ms) - max(a, from_ms)) > b - a), default=0)


def folder_of(base: Path, kind: Kind) -> Path:
    """Return the partition of a group's records."""
    return base / f"{kind.name}-{os.getpid()}"
