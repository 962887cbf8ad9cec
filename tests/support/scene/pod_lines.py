"""Everything that the pods of a namespace ever printed, those that are long gone included.

Why: `kubectl logs` ends with the pod, and what a consumer said last (what it consumed before it was stopped) is half of
the proof that nothing was lost. The one idea: read the kubelet's own files on this machine, and keep each one open: an
open file can be read to its end after the kubelet has removed its name.
"""

from __future__ import annotations

import glob
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from support.devcluster.cluster import Cluster
from support.workload.process import Line, lines_of

POLL_S = 0.1


@dataclass(slots=True, kw_only=True)
class PodVoice:
    """What the container `app` of one pod printed over all its restarts, in the order in which it was read."""

    pod_name: str
    uid: str
    lines: list[Line] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Line]:
        return [line for line in list(self.lines) if line["kind"] == kind]

    def instance_id(self) -> str | None:
        """Return the id with which the process says it started; None for a dynamic member or before its first line."""
        return next((line["instance_id"] for line in self.of_kind("started")), None)


@dataclass(slots=True, kw_only=True)
class _LogFile:
    """One file in the container runtime's form: `<time> <stream> <F or P> <text>`, P being a part of a long line."""

    voice: PodVoice
    file: BinaryIO
    rest: bytes = b""
    parts: dict[bytes, bytes] = field(default_factory=dict)

    def read(self) -> None:
        complete, _, self.rest = (self.rest + self.file.read()).rpartition(b"\n")
        for entry in complete.split(b"\n") if complete else ():
            _, stream, tag, text = entry.split(b" ", 3)
            self.parts[stream] = self.parts.get(stream, b"") + text
            if tag == b"F":
                self.voice.lines += lines_of(self.parts.pop(stream).decode(errors="replace"))


class PodLines:
    """Follow the log files of one namespace's pods on all nodes of a cluster of this machine."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._roots = [Path(node.record.directory) / "pod-logs" for node in cluster.nodes]
        self._namespace = namespace
        self._open: dict[Path, _LogFile] = {}
        self._voices: dict[str, PodVoice] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"pod-lines-{namespace}")

    def start(self) -> PodLines:
        """Begin to follow."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Read the rest and close all files."""
        self._ended.set()
        self._thread.join()
        self.read()
        with self._lock:
            self._is_closed = True
            for each in self._open.values():
                each.file.close()
            self._open.clear()

    def voices(self, pod_name: str | None = None) -> list[PodVoice]:
        """Return what was said up to now, one entry for each pod UID, in the order of appearance."""
        self.read()
        with self._lock:
            return [voice for voice in self._voices.values() if pod_name in (None, voice.pod_name)]

    def lines(self, *kinds: str) -> list[Line]:
        """Return the lines of all pods, of some kinds or of all, in the order of their time."""
        found = [line for voice in self.voices() for line in list(voice.lines) if not kinds or line["kind"] in kinds]
        return sorted(found, key=lambda line: line["at_ms"])

    def read(self) -> None:
        """Take what has been written since the last time; nothing more after `stop`."""
        with self._lock:
            if self._is_closed:
                return
            self._discover()
            for file in self._open.values():
                file.read()

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            self.read()

    def _discover(self) -> None:
        for root in self._roots:
            # A folder may vanish meanwhile, at which Path.glob raises.
            for path in map(Path, glob.iglob(f"{root}/{self._namespace}_*/app/*.log")):
                if path in self._open:
                    continue
                _, pod_name, uid = path.parts[-3].split("_")
                try:
                    file = path.open("rb")
                except FileNotFoundError:
                    continue
                voice = self._voices.setdefault(uid, PodVoice(pod_name=pod_name, uid=uid))
                self._open[path] = _LogFile(voice=voice, file=file)


@contextmanager
def collected_lines(cluster: Cluster, namespace: str) -> Iterator[PodLines]:
    """Collect the lines that the pods of a namespace print meanwhile; they are kept afterwards."""
    lines = PodLines(cluster, namespace).start()
    try:
        yield lines
    finally:
        lines.stop()
