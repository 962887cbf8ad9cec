"""Two witnesses that owe the operator nothing: the process table, and a pod watch of their own.

The process table knows which process carried which instance id from when to when; joined with the brokers' log it says
whether a removed member was alive. The pod watch notes when the terminal phase of a pod became visible to a client.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.devcluster.apiserver_client import ApiServerClient
from support.devcluster.kafka_log import GroupLog
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind

_ID_VARIABLE = re.compile(rb"[A-Z0-9_]*INSTANCE_ID=(.+)", re.DOTALL)
"""Of all types of clients, and those that tests name themselves; a process with several consumers carries several."""
POLL_S = 0.05
SETTLED_MS, AGAIN_MS = 30_000, 1_000
"""Processes of that age without an id, most of the machine's, have called exec long ago and are read less often."""
OPERATOR_REASON = "staticgroup "
"""Every removal of the operator begins its reason with this."""
_CLASSIC_MEMBER = re.compile(r".+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_JOINS = (GroupEventKind.MEMBER_JOINED, GroupEventKind.STATIC_MEMBER_REPLACED)


@dataclass(slots=True, kw_only=True)
class Life:
    """One process that carried an instance id.

    Parameters
    ----------
    started_at_ms: from the kernel, exact to 10 ms.
    last_seen_ms: last sample in which it was there and no zombie.
    """

    pid: int
    instance_id: str
    started_at_ms: int
    last_seen_ms: int
    bootstrap: str = ""


class ProcessTable:
    """Sample the machine's processes and remember those with an instance id, and when."""

    def __init__(self) -> None:
        self._lives: dict[tuple[int, int], tuple[Life, ...]] = {}
        self._without: dict[tuple[int, int], bytes] = {}
        self._again_at_ms: dict[int, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="process-table")
        # Not `btime` of /proc/stat: it is cut to whole seconds, and lives would seem to begin up to a second early.
        self._boot_ms = (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1_000_000

    def start(self) -> ProcessTable:
        """Begin to sample."""
        self._sample()
        self._thread.start()
        return self

    def stop(self) -> None:
        """End sampling."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            self._sample()

    def _sample(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        for name in os.listdir("/proc"):
            if not name.isdigit() or self._again_at_ms.get(int(name), 0) > now_ms:
                continue
            with suppress(OSError, IndexError, ValueError):
                entry = Path("/proc", name)
                program, _, rest = (entry / "stat").read_bytes().rpartition(b") ")
                fields = rest.split()
                if fields[0] in (b"Z", b"X"):
                    continue
                key = (int(name), int(fields[19]))
                with self._lock:
                    if key not in self._lives:
                        if now_ms - self._boot_ms - key[1] * 10 > SETTLED_MS:
                            self._again_at_ms[key[0]] = now_ms + AGAIN_MS
                        if self._without.get(key) == program:
                            continue
                        born = self._born(entry, key, now_ms)
                        if not born:
                            if born is not None:
                                self._without[key] = program
                            continue
                        self._lives[key] = born
                    for life in self._lives[key]:
                        life.last_seen_ms = now_ms

    def _born(self, entry: Path, key: tuple[int, int], now_ms: int) -> tuple[Life, ...] | None:
        """Read a new process' environment: a life for each id in it; None while it may not have called exec yet."""
        environment = (entry / "environ").read_bytes().split(b"\0")
        started_at_ms = self._boot_ms + key[1] * 10
        found = {match[1].decode() for e in environment if (match := _ID_VARIABLE.fullmatch(e))}
        if not found:
            # A container's process gets its environment only with the exec that follows some milliseconds later, on a
            # busy machine seconds; its name is another one from then on, and it is read again.
            return () if now_ms - started_at_ms > 5_000 else None
        bootstrap = next((e[len(b"BOOTSTRAP=") :] for e in environment if e.startswith(b"BOOTSTRAP=")), b"").decode()
        return tuple(
            Life(pid=key[0], instance_id=each, started_at_ms=started_at_ms, last_seen_ms=now_ms, bootstrap=bootstrap)
            for each in sorted(found)
        )

    def lives(self, instance_id: str | None = None) -> list[Life]:
        """Return every process seen with an id, oldest first."""
        with self._lock:
            found = [life for lives in self._lives.values() for life in lives]
        return sorted((x for x in found if instance_id in (None, x.instance_id)), key=lambda x: x.started_at_ms)

    def is_alive(self, instance_id: str) -> bool:
        """Say whether some process carries this id now."""
        now_ms = time.time_ns() // 1_000_000
        return any(now_ms - life.last_seen_ms < 10 * POLL_S * 1000 for life in self.lives(instance_id))


def is_operators(event: GroupEvent) -> bool:
    """Say whether a line of the brokers' log is a removal by the operator."""
    return event.kind is GroupEventKind.REMOVED and (event.reason or "").startswith(OPERATOR_REASON)


def instance_ids(events: Iterable[GroupEvent]) -> dict[str, str]:
    """Return member id to instance id: as logged at the join or, for classic groups, from the member id's own form.

    Notes
    -----
    A classic static member is called `<instance id>-<uuid>` (ClassicGroup.generateMemberId).
    """
    found = {}
    for event in events:
        member_id = event.member_id or ""
        if event.instance_id:
            found[member_id] = event.instance_id
        elif _CLASSIC_MEMBER.fullmatch(member_id):
            found.setdefault(member_id, member_id[:-37])
    return found


def live_removals(log: GroupLog, table: ProcessTable) -> list[str]:
    """Return every removal by the operator whose process was alive, in words; empty is the promise.

    Notes
    -----
    A member belongs to the process that carried its id when it joined. Several at that moment: any of them that
    outlived the removal counts, which errs on the side of accusing the operator.
    """
    events = log.events()
    joins = {e.member_id: e.at_ms for e in events if e.kind in _JOINS and e.member_id}
    ids = instance_ids(events)
    accusations = []
    for event in filter(is_operators, events):
        instance_id = ids.get(event.member_id or "", "")
        joined_at_ms = joins.get(event.member_id or "")
        for life in table.lives():
            carries = bool(instance_id) and (
                life.instance_id == instance_id or instance_id.startswith(f"{life.instance_id}-")
            )
            was_there = joined_at_ms is None or life.started_at_ms <= joined_at_ms <= life.last_seen_ms
            if carries and was_there and life.started_at_ms < event.at_ms < life.last_seen_ms:
                accusations.append(
                    f"member {event.member_id} of group {event.group_id} was removed at {event.at_ms} while pid "
                    f"{life.pid} lived from {life.started_at_ms} to {life.last_seen_ms}"
                )
    return accusations


@dataclass(slots=True, kw_only=True)
class PodSighting:
    """What the witness' own watch saw of one pod, milliseconds since 1970; None while it did not."""

    name: str
    uid: str
    instance_id: str | None = None
    deletion_asked_at_ms: int | None = None
    terminal_at_ms: int | None = None
    deleted_at_ms: int | None = None
    versions: list[str] = field(default_factory=list)


class PodWatch:
    """Watch the pods of one namespace and note when their end became visible."""

    def __init__(self, client: ApiServerClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._ended = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"pod-watch-{namespace}")
        self.pods: dict[str, PodSighting] = {}

    def start(self) -> PodWatch:
        """Begin to watch."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(2)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError, http.client.HTTPException, ValueError):
                for event in self._events():
                    self._note(event)
            self._ended.wait(POLL_S)  # an API server that is away is asked often, but not all the time

    def _events(self) -> Iterator[Mapping[str, Any]]:
        address = urlsplit(self._client.url)
        context = ssl.create_default_context(cafile=str(self._client.ca_file))
        self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
        path = f"/api/v1/namespaces/{self._namespace}/pods?watch=true&timeoutSeconds=600"
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {self._client.token}"})
        answer = self._connection.getresponse()
        while not self._ended.is_set() and (line := answer.readline()):
            yield json.loads(line)

    def _note(self, event: Mapping[str, Any]) -> None:
        now_ms = time.time_ns() // 1_000_000
        pod = event["object"]
        if pod.get("kind") != "Pod":
            return
        metadata, status = pod["metadata"], pod.get("status", {})
        annotations = metadata.get("annotations", {})
        sighting = self.pods.setdefault(metadata["uid"], PodSighting(name=metadata["name"], uid=metadata["uid"]))
        sighting.instance_id = annotations.get("staticgroup.io/instance-id") or sighting.instance_id
        sighting.versions.append(f"{event['type']} {status.get('phase')}")
        if metadata.get("deletionTimestamp") and sighting.deletion_asked_at_ms is None:
            sighting.deletion_asked_at_ms = now_ms
        if status.get("phase") in ("Succeeded", "Failed") and sighting.terminal_at_ms is None:
            sighting.terminal_at_ms = now_ms
        if event["type"] == "DELETED" and sighting.deleted_at_ms is None:
            sighting.deleted_at_ms = now_ms
