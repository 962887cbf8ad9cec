"""Start a process and measure the memory and CPU of it and its children.

The one idea: memory is the proportional set size (PSS) of the whole tree, because a page that the JVM's and Python's
processes share counts once. CPU time is each process's usage when it was last seen. Source: proc(5), smaps_rollup
and stat.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INTERVAL_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The output of a successful process, its duration, and the peak memory of it and its children."""

    output: str
    pss_bytes_max: int
    wall_s: float
    cpu_s: float

    @property
    def last_line(self) -> str:
        """Return the last line that it wrote."""
        return self.output.strip().splitlines()[-1] if self.output.strip() else ""


class ProcessFailedError(RuntimeError):
    """The process ended with a status other than 0."""


def tree(root: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    todo = [root]
    while todo:
        pid = todo.pop()
        yield pid
        todo += children.get(pid, [])


def pss_bytes(pid: int) -> int:
    """Return a process's proportional set size; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of one process, without its children; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(command: Sequence[str]) -> Watched:
    """Run a command to its end.

    Raises
    ------
    ProcessFailedError
        With its standard error.
    """
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    ended = threading.Event()
    peak = 0
    used: dict[int, float] = {}
    started = time.perf_counter()

    def sample() -> None:
        nonlocal peak
        while not ended.wait(INTERVAL_S):
            pids = list(tree(process.pid))
            peak = max(peak, sum(map(pss_bytes, pids)))
            used.update({pid: max(cpu_s(pid), used.get(pid, 0.0)) for pid in pids})

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        output, errors = process.communicate()
    finally:
        ended.set()
        watcher.join()
    if process.returncode != 0:
        raise ProcessFailedError(f"{' '.join(command)}: status {process.returncode}\n{errors[-4000:]}")
    wall_s = time.perf_counter() - started
    return Watched(output=output, pss_bytes_max=peak, wall_s=wall_s, cpu_s=sum(used.values()))
