"""Start a process and watch how much memory it and its children take together.

The one idea: memory is the proportional set size (PSS) of the whole tree, because a page that the JVM's and Python's
processes share counts once. Source: proc(5), smaps_rollup.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INTERVAL_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The last line of a process that ended well, and the most memory it took."""

    last_line: str
    pss_bytes_max: int


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


def watch(command: Sequence[str]) -> Watched:
    """Run a command to its end.

    Raises
    ------
    ProcessFailedError
        With what it wrote to its standard error.
    """
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    ended = threading.Event()
    peak = 0

    def sample() -> None:
        nonlocal peak
        while not ended.wait(INTERVAL_S):
            peak = max(peak, sum(map(pss_bytes, tree(process.pid))))

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        output, errors = process.communicate()
    finally:
        ended.set()
        watcher.join()
    if process.returncode != 0:
        raise ProcessFailedError(f"{' '.join(command)}: status {process.returncode}\n{errors[-4000:]}")
    return Watched(last_line=output.strip().splitlines()[-1] if output.strip() else "", pss_bytes_max=peak)
