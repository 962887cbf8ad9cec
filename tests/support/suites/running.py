"""Runs suites in their order, and keeps of each how it ended, how long it took and what it complained about.

No suite begins once one has failed, but for the one that takes the ground away, and what runs on the rest of the machine is told to end.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from support.suites.table import ALWAYS, E2E_CLUSTER, Order, Suite

REPOSITORY = Path(__file__).parents[3]
CORES = 2
COMPLAINTS = 12
"""So many lines of each suite that failed are said again at the end, where whoever reads only that finds them."""
PRINTING = threading.Lock()
YIELDING = ("setsid", "sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec "$@"', "yielding")
"""Idle processes yield to those of their own session only; where sessions share the machine (autogroup, sched(7)), one of its own yields as a whole."""


def start(suite: Suite, output: IO[bytes] | None = None, *, is_idle: bool = False) -> subprocess.Popen[bytes]:
    """Start one suite, its output to the terminal or to a file.

    Parameters
    ----------
    is_idle: it and all that it starts run only when nobody else wants a core (SCHED_IDLE, sched(7)).
    """
    paths = os.pathsep.join(str(REPOSITORY / each) for each in ("operator", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, "E2E_CLUSTER": E2E_CLUSTER}
    # It can be ended as by Ctrl-C, also where a shell in the background has that ignored.
    command = (*YIELDING, "env", "--default-signal=INT", "chrt", "--idle", "0", *suite.command) if is_idle else suite.command
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a suite.

    Parameters
    ----------
    complaints: the lines of its output that say what failed.
    """

    suite: Suite
    status: int
    seconds: float
    complaints: tuple[str, ...] = ()


def run_alone(suite: Suite) -> Ran:
    """Run one suite, its output to the terminal as it comes.

    Through a file and not a pipe: what a suite leaves running, as a cluster, would hold a pipe open.
    """
    began_s = time.monotonic()
    _announce(suite)
    with tempfile.TemporaryFile() as output:
        process, shown = start(suite, output), 0
        while process.poll() is None:
            shown = _show(output, shown)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        _show(output, shown)
        return Ran(suite, process.returncode, time.monotonic() - began_s, _complaints(output, process.returncode))


def _show(output: IO[bytes], shown: int) -> int:
    """Print what a file has beyond its first `shown` bytes, and return how many it has; the writer's place stays."""
    new = os.pread(output.fileno(), os.fstat(output.fileno()).st_size - shown, shown)
    print(new.decode(errors="replace"), end="", flush=True)
    return shown + len(new)


def _complaints(output: IO[bytes], status: int) -> tuple[str, ...]:
    """Return the lines of a failed suite's output that say what failed, or its last ones where none does."""
    if not status:
        return ()
    lines = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace").splitlines()
    return tuple([line[:200] for line in lines if line.startswith(("E  ", "FAILED ", "ERROR "))] or lines)[-COMPLAINTS:]


def run_beside_each_other(suites: Sequence[Suite], has_failed: threading.Event) -> list[Ran]:
    """Run suites as many at a time as there are cores; begins no more once one has failed."""
    waiting = _queue(suites)
    with ThreadPoolExecutor(CORES) as workers:
        lanes = [workers.submit(run_next_ones, waiting, has_failed) for _ in range(CORES)]
        return [ran for lane in lanes for ran in lane.result()]


def run_next_ones(waiting: SimpleQueue[Suite], has_failed: threading.Event, *, are_idle: bool = False) -> list[Ran]:
    """Run suites that wait, one after the other, until none does or one has failed, here or elsewhere.

    Parameters
    ----------
    are_idle: they take what others leave of the machine, and do not hold up the word that one has failed.
    """
    done: list[Ran] = []
    while not has_failed.is_set():
        try:
            suite = waiting.get_nowait()
        except Empty:
            break
        began_s = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = start(suite, output, is_idle=are_idle)
            status = _ended(process, has_failed) if are_idle else process.wait()
            if status is None:
                break
            seconds = time.monotonic() - began_s
            if status:
                has_failed.set()
            with PRINTING:
                _announce(suite)
                _show(output, 0)
                print(flush=True)
            done.append(Ran(suite, status, seconds, _complaints(output, status)))
    return done


def _ended(process: subprocess.Popen[bytes], has_failed: threading.Event) -> int | None:
    """Wait for a process, or end it as Ctrl-C does once something has failed; returns its status, None when it was ended."""
    while process.poll() is None:
        if has_failed.wait(0.2):
            process.send_signal(signal.SIGINT)  # so that a suite takes its brokers with it
            process.wait()
            return None
    return process.returncode


def _queue(suites: Sequence[Suite]) -> SimpleQueue[Suite]:
    waiting: SimpleQueue[Suite] = SimpleQueue()
    for suite in suites:
        waiting.put(suite)
    return waiting


def _announce(suite: Suite) -> None:
    print(f"\n=== {suite.name} (budget {suite.budget_s} s): {shlex.join(suite.command)[:160]}", flush=True)


def run_in_order(order: Order) -> list[Ran]:
    """Run suites; begins no more at the first failure, except for what takes the ground away."""
    waiting, has_failed = _queue(order.spare), threading.Event()
    with ThreadPoolExecutor(CORES) as workers:
        spare = [workers.submit(run_next_ones, waiting, has_failed, are_idle=True) for _ in range(CORES)]
        try:
            done = run_beside_each_other(order.beside, has_failed)
            return done + run_alone_in_order(order.alone, has_failed) + [ran for lane in spare for ran in lane.result()]
        except KeyboardInterrupt:
            has_failed.set()  # which ends the spare ones, for the terminal tells a session of their own nothing
            raise


def run_alone_in_order(suites: Sequence[Suite], has_failed: threading.Event) -> list[Ran]:
    """Run suites that have the machine to themselves; begins no more once one has failed, but what takes the ground away."""
    done: list[Ran] = []
    for suite in suites:
        if not has_failed.is_set() or (suite.name == ALWAYS and done):
            done.append(run_alone(suite))
            if done[-1].status:
                has_failed.set()
    return done
