"""Show the progress of a long stage: finished steps, and tasks, rows and time left of the current one.

The one idea: Spark knows how many tasks of the running stages are done; a thread polls it and writes one line to
standard error. On a terminal the line is rewritten; in a log a line appears every 15 s.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from .report.units import amount, duration
from .terminal import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TERMINAL_S: Final = 1.0
_LOG_S: Final = 15.0
ELAPSED_S_MIN: Final = 1.0
"""The start time of a stage seen for the first time is unknown."""


def line(step: str, done: int, total: int, elapsed_s: float, rows: int | None = None) -> str:
    """Return the progress of a step as one line.

    Parameters
    ----------
    done, total: tasks of the running stages.
    elapsed_s: since these stages began.
    rows: of the whole step, when known; the finished share is estimated by tasks.

    Returns
    -------
    `step: 12 of 40 tasks, about 3,000 of 10,000 rows, 8 s left`; the time appears once a task is done and the stages
    were watched for a second.
    """
    share = done / total if total else 0.0
    about = f", about {amount(rows * share)} of {amount(rows)} rows" if rows else ""
    is_known = 0 < share < 1 and elapsed_s >= ELAPSED_S_MIN
    left = f", {duration(1000 * elapsed_s * (1 - share) / share)} left" if is_known else ""
    return f"{step}: {done} of {total} tasks{about}{left}"


class Progress:
    """Show steps while a run lasts.

    Parameters
    ----------
    spark: whose stages are watched; None shows steps only.
    output: where lines go.
    """

    def __init__(self, spark: SparkSession | None = None, output: TextIO | None = None) -> None:
        self._tracker: Any = None if spark is None else spark.sparkContext.statusTracker()
        self._output = output or sys.stderr
        self._is_terminal = self._output.isatty()
        self._began_s = time.monotonic()
        self._step = "starting"
        self._rows: int | None = None
        self._stages: tuple[int, ...] = ()
        self._stages_began_s = self._began_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._tracker is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin(self, step: str, rows: int | None = None) -> None:
        """Begin a step with this name and number of rows."""
        self._step, self._rows = step, rows

    def done(self, text: str) -> None:
        """Write that a step has ended."""
        self._write(f"{duration(1000 * (time.monotonic() - self._began_s)):>12}  {text}", stays=True)

    def _watch(self) -> None:
        while not self._over.wait(_TERMINAL_S if self._is_terminal else _LOG_S):
            stages = tuple(sorted(self._tracker.getActiveStageIds()))
            infos = [info for info in map(self._tracker.getStageInfo, stages) if info is not None]
            if stages != self._stages:
                self._stages, self._stages_began_s = stages, time.monotonic()
            total = sum(info.numTasks for info in infos)
            if total:
                elapsed_s = time.monotonic() - self._stages_began_s
                done = sum(info.numCompletedTasks for info in infos)
                self._write(line(self._step, done, total, elapsed_s, self._rows), stays=not self._is_terminal)

    def _write(self, text: str, *, stays: bool) -> None:
        start = "\r\033[K" if self._is_terminal else ""
        self._output.write(f"{start}{printable(text)}{chr(10) if stays else ''}")
        self._output.flush()
