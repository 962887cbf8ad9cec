"""Processes with an instance id in the cgroups of a cluster's pods, and the moment at which each ended.

Why beside the process table of all drills: that one samples, so it knows an end to some tenths of a second on a busy
machine. The one idea: the kernel reports the end of a process to each holder of its file descriptor (pidfd_open(2)),
so the end is known to the millisecond.
"""

from __future__ import annotations

import os
import re
import selectors
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from support.devcluster import cgroups
from support.devcluster.cluster import Cluster
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent
from support.devcluster.process import start_time_ticks
from support.scene.witnesses import instance_ids, is_operators

SCAN_S = 0.2
_EXEC_WITHIN_S = 10.0
"""A container's process gets its environment with the exec that follows its birth, on a busy machine seconds later."""
_BOOTED_AT_MS = (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1_000_000
_ID_VARIABLE = re.compile(rb"[A-Z0-9_]*INSTANCE_ID=(.+)", re.DOTALL)
_POD = re.compile(r"/pod([0-9a-f-]{36})(?:/|$)", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class PodLife:
    """One process of a pod that carries an instance id.

    Parameters
    ----------
    born_at_ms: from the kernel, exact to 10 ms. seen_at_ms: when it was first found, with its id. ended_at_ms: when the
        kernel reported its end; None while it lives.
    """

    pid: int
    pod_uid: str
    instance_id: str
    born_at_ms: int
    seen_at_ms: int
    ended_at_ms: int | None = None


class PodLives:
    """Follow the processes of pods that carry an instance id.

    Parameters
    ----------
    groups: the cgroups below which pods are, relative to the root of a hierarchy.
    """

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = tuple(groups)
        self._lives: dict[int, list[PodLife]] = {}
        self._passed: dict[tuple[int, int], float] = {}
        self._selector = selectors.DefaultSelector()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="pod-lives")

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Follow all pods of a cluster."""
        return cls([f"{node.record.cgroup}/{cgroups.PODS}" for node in cluster.nodes])

    def __enter__(self) -> Self:
        self._scan()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            os.close(int(key.fd))
        self._selector.close()

    def of_pod(self, uid: str) -> list[PodLife]:
        """Return every process seen of a pod, oldest first."""
        return [life for lives in list(self._lives.values()) for life in lives if life.pod_uid == uid]

    def is_alive(self, uid: str) -> bool:
        """Say whether a process of a pod that carries an id lives."""
        return any(life.ended_at_ms is None for life in self.of_pod(uid))

    def ended_at_ms(self, uid: str) -> int | None:
        """Return when the last process of a pod ended; None while one lives, or when none was seen."""
        ends = [life.ended_at_ms for life in self.of_pod(uid)]
        return None if None in ends else max((e for e in ends if e is not None), default=None)

    def accusations(self, events: list[GroupEvent]) -> list[str]:
        """Return a message for each removal by the operator while a process with the member's id lived."""
        ids = instance_ids(events)
        lives = [life for found in list(self._lives.values()) for life in found]
        return [
            f"{event.member_id} of {event.group_id} was removed at {event.at_ms}, and pid {life.pid} of pod "
            f"{life.pod_uid} "
            f"lived from {life.seen_at_ms} to {life.ended_at_ms}"
            for event in filter(is_operators, events)
            for life in lives
            if life.instance_id == ids.get(event.member_id or "") and life.seen_at_ms <= event.at_ms
            and (life.ended_at_ms is None or event.at_ms < life.ended_at_ms)
        ]  # fmt: skip

    def _run(self) -> None:
        scan_s = time.monotonic()
        while not self._ended.is_set():
            for key, _ in self._selector.select(max(0.0, scan_s - time.monotonic())):
                self._note_end(int(key.fd), key.data)
            if time.monotonic() >= scan_s:
                self._scan()
                scan_s = time.monotonic() + SCAN_S

    def _note_end(self, descriptor: int, pid: int) -> None:
        at_ms = now_ms()
        self._selector.unregister(descriptor)
        os.close(descriptor)
        for life in self._lives[pid]:
            life.ended_at_ms = at_ms if life.ended_at_ms is None else life.ended_at_ms

    def _scan(self) -> None:
        for pid in self._processes():
            known = self._lives.get(pid)
            if known and any(life.ended_at_ms is None for life in known):
                continue
            with suppress(OSError):
                self._take(pid)

    def _processes(self) -> list[int]:
        """Return the processes of all pods; a node in which a cgroup ended meanwhile waits for the next scan."""
        found: list[int] = []
        for group in self._groups:
            with suppress(OSError):
                found += cgroups.processes(group)
        return found

    def _take(self, pid: int) -> None:
        """Follow a process that carries an id; one without an id is read again until it has surely called exec."""
        descriptor = os.pidfd_open(pid)
        try:
            found = self._born(pid)
            if found:
                self._lives.setdefault(pid, []).extend(found)
                self._selector.register(descriptor, selectors.EVENT_READ, pid)
                descriptor = -1
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _born(self, pid: int) -> list[PodLife]:
        place = _POD.search(Path(f"/proc/{pid}/cgroup").read_text())
        ticks = start_time_ticks(pid) or 0
        key, born_at_ms = (pid, ticks), _BOOTED_AT_MS + ticks * 1000 // os.sysconf("SC_CLK_TCK")
        if place is None or time.monotonic() - self._passed.setdefault(key, time.monotonic()) > _EXEC_WITHIN_S:
            return []
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        ids = {match[1].decode() for v in variables if (match := _ID_VARIABLE.fullmatch(v))}
        seen = {"born_at_ms": born_at_ms, "seen_at_ms": now_ms()}
        return [PodLife(pid=pid, pod_uid=place[1], instance_id=i, **seen) for i in sorted(ids)]
