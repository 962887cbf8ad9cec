"""Run the workload's programs as processes on this host, and read what they print.

The one idea: a test waits for a line, past ones included, with a deadline; what was printed is also the whole truth
about what was consumed. `lines_of` reads the same lines from elsewhere, for instance from a pod's log.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .ranges import Ranges, merged

HERE = Path(__file__).resolve().parent

Line = dict[str, Any]


def lines_of(text: str) -> list[Line]:
    """Parse JSON lines; what is not one (a traceback, a cut line) is left out."""
    found = []
    for each in text.splitlines():
        try:
            content = json.loads(each)
        except json.JSONDecodeError:
            continue
        if isinstance(content, dict) and "kind" in content:
            found.append(content)
    return found


def ranges_of(lines: Iterable[Line], kind: str, field: str = "offsets") -> dict[int, Ranges]:
    """Collect ranges by partition.

    Parameters
    ----------
    kind: `consumed` (of consumers) or `acked` (of the producer).
    field: `offsets` or `sequences`.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        if line["kind"] == kind:
            for partition, content in line["partitions"].items():
                found.setdefault(int(partition), []).extend((first, last) for first, last in content[field])
    return {partition: merged(ranges) for partition, ranges in found.items()}


class Program:
    """One process: `consumer` or `producer`, with the environment it is given and nothing else of ours.

    Parameters
    ----------
    name: `consumer` or `producer`.
    environment: its variables, as in a pod.
    """

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / f"{name}.py")], env={**kept, **environment}, stdout=subprocess.PIPE, text=True
        )
        self._changed = threading.Condition()
        self._lines: list[Line] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def lines(self) -> list[Line]:
        """What was printed so far."""
        with self._changed:
            return list(self._lines)

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def of_kind(self, kind: str) -> list[Line]:
        """Return the lines of a kind so far."""
        return [line for line in self.lines if line["kind"] == kind]

    def wait_for(self, is_wanted: Callable[[Line], bool], what: str, timeout_s: float = 30.0) -> Line:
        """Return the first line, past ones included, that is wanted."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = next((line for line in self._lines if is_wanted(line)), None)
                if found is not None:
                    return found
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"{what}: not within {timeout_s:.0f} s, last {self._lines[-5:]}")
                self._changed.wait(left_s)

    def wait_for_kind(self, kind: str, timeout_s: float = 30.0) -> Line:
        """Return the first line of a kind."""
        return self.wait_for(lambda line: line["kind"] == kind, kind, timeout_s)

    def exit_code(self, timeout_s: float = 30.0) -> int:
        """Wait for the end by itself, and for its last line."""
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Send SIGTERM, as the kubelet does, and return the exit code."""
        self._process.terminate()
        return self.exit_code(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._process.wait(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            with self._changed:
                self._lines += lines_of(text)
                self._changed.notify_all()
