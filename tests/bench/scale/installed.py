"""An operator in a process as an installation has it: without the libraries that only tests bring.

kopf and kio import some of them where they find them (pykube-ng, hypothesis), which costs up to 170 MiB. With
`BENCH_PROFILE=<folder>` our own operator is profiled: SIGUSR1 writes where every task waits, SIGUSR2 the profile of the
part that has ended, and with `BENCH_TRACEMALLOC=1` which code holds the memory. Figures of a profiled run are not
valid.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import io
import os
import pstats
import runpy
import signal
import sys
import time
import tracemalloc
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER_VARIABLE = "BENCH_PROFILE"
TESTS_ONLY = frozenset({"hypothesis", "pykube"})
_TRACEMALLOC = "BENCH_TRACEMALLOC"


class _NotInstalled:
    """Finds nothing of what is not there, before others find it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Say that a module is not there, as the import system does."""
        if name.partition(".")[0] in TESTS_ONLY:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


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


def _profile(folder: Path) -> None:
    """Have whatever runs in a loop profiled."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.environ.pop(_TRACEMALLOC, ""):
        tracemalloc.start()
    run = asyncio.run

    def hooked(work: Any, **options: Any) -> Any:
        async def with_signals() -> Any:
            loop, profile = asyncio.get_running_loop(), _Profile(folder)
            loop.add_signal_handler(signal.SIGUSR1, _write_tasks, folder)
            loop.add_signal_handler(signal.SIGUSR2, profile.next)
            return await work

        return run(with_signals(), **options)

    asyncio.run = hooked  # type: ignore[assignment]


def main() -> None:
    """Run the module that is named, with its arguments."""
    sys.meta_path.insert(0, _NotInstalled())
    if folder := os.environ.pop(FOLDER_VARIABLE, ""):
        _profile(Path(folder))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
