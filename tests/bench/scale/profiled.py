"""The operator under a profiler: `BENCH_PROFILE=<folder> python -m bench.scale …` runs it through this module.

SIGUSR1 writes where every task waits; SIGUSR2 writes the profile of the part that has ended, and with `BENCH_TRACEMALLOC=1`
who holds the memory. Figures of a run that is profiled say nothing: it changes what is measured.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import io
import os
import pstats
import signal
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "BENCH_PROFILE"
_TRACEMALLOC = "BENCH_TRACEMALLOC"


def _write_tasks(folder: Path) -> None:
    out = io.StringIO()
    for task in asyncio.all_tasks():
        out.write(f"== {task.get_name()}\n")
        task.print_stack(file=out)
    (folder / f"tasks-{int(time.time())}.txt").write_text(out.getvalue())


class _Profile:
    """One profile of processor time after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._running = cProfile.Profile(time.process_time)
        self._running.enable()

    def next(self) -> None:
        """Write the one that runs, and begin another."""
        self._running.disable()
        self._count += 1
        name = self._folder / f"{os.getpid()}-{self._count}"
        self._running.dump_stats(f"{name}.prof")
        with name.with_suffix(".txt").open("w") as out:
            for order in ("tottime", "cumtime"):
                pstats.Stats(self._running, stream=out).sort_stats(order).print_stats(60)
        if tracemalloc.is_tracing():
            gc.collect()
            lines = [str(each) for each in tracemalloc.take_snapshot().statistics("lineno")[:60]]
            name.with_suffix(".memory.txt").write_text("\n".join(lines) + "\n")
        self._running = cProfile.Profile(time.process_time)
        self._running.enable()


def main() -> int:
    """Run the operator."""
    folder = Path(os.environ.pop(FOLDER_VARIABLE))
    folder.mkdir(parents=True, exist_ok=True)
    if os.environ.pop(_TRACEMALLOC, ""):
        tracemalloc.start()
    from staticgroup import cli  # what it imports is to be traced

    run = asyncio.run

    def hooked(work: Any, **options: Any) -> Any:
        async def with_signals() -> Any:
            loop, profile = asyncio.get_running_loop(), _Profile(folder)
            loop.add_signal_handler(signal.SIGUSR1, _write_tasks, folder)
            loop.add_signal_handler(signal.SIGUSR2, profile.next)
            return await work

        return run(with_signals(), **options)

    asyncio.run = hooked  # type: ignore[assignment]
    return cli.main(["run"])


if __name__ == "__main__":
    sys.exit(main())
