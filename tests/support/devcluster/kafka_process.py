"""Start, recognise and end broker processes that outlive the program which started them.

Why: a demo or a test session attaches to brokers that another process started, and may find the remains of a crash.
One idea: a process is known by pid *and* start time *and* boot, so a reused pid is never mistaken for a broker,
and signals go through a pidfd, so it cannot be reused between the check and the signal.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from support.devcluster.process import machine_boot_id, start_time_ticks

_MAIN_CLASSES = frozenset((b"kafka.Kafka", b"kafka.tools.StorageTool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStamp:
    """What identifies one process for ever."""

    pid: int
    start_ticks: int
    boot_id: str


def spawn(argv: Sequence[str], *, log: Path, cwd: Path) -> ProcessStamp:
    """Start a detached process whose output is appended to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(  # the pid file, not this object, is the handle
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd, start_new_session=True
        )
    start_ticks = start_time_ticks(child.pid)
    if start_ticks is None:
        raise RuntimeError(f"{argv[0]} ended at once, see {log}")
    child.returncode = 0  # detached on purpose: silences the ResourceWarning of Popen.__del__
    return ProcessStamp(pid=child.pid, start_ticks=start_ticks, boot_id=machine_boot_id())


def is_alive(stamp: ProcessStamp) -> bool:
    """Say whether exactly this process still runs; a zombie does not."""
    _reap(stamp.pid)
    return start_time_ticks(stamp.pid) == stamp.start_ticks and stamp.boot_id == machine_boot_id()


def end(stamp: ProcessStamp, *, signals: Sequence[tuple[signal.Signals, float]]) -> bool:
    """Send signals one after the other until the process has ended.

    Parameters
    ----------
    signals: pairs of a signal and the seconds to wait for the end after it.

    Returns
    -------
    bool
        Whether the process is gone.
    """
    try:
        handle = os.pidfd_open(stamp.pid)
    except ProcessLookupError:
        return True
    try:
        for number, patience_s in signals:
            if not is_alive(stamp):  # checked while the pidfd pins the process of this pid
                return True
            signal.pidfd_send_signal(handle, number)
            select.select([handle], [], [], patience_s)
        return not is_alive(stamp)
    finally:
        os.close(handle)


def send(stamp: ProcessStamp, number: signal.Signals) -> None:
    """Send one signal (SIGSTOP, SIGCONT) to exactly this process."""
    handle = os.pidfd_open(stamp.pid)
    try:
        if not is_alive(stamp):
            raise ProcessLookupError(stamp.pid)
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def write_stamp(path: Path, stamp: ProcessStamp) -> None:
    """Write a pid file in one step."""
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(asdict(stamp)))
    scratch.rename(path)


def read_stamp(path: Path) -> ProcessStamp | None:
    """Read a pid file; None when there is none or a crash left it unreadable."""
    try:
        return ProcessStamp(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def processes_naming(path: Path) -> list[ProcessStamp]:
    """List brokers and formatters that have an argument below `path`, with or without a pid file."""
    prefix = f"{path}/".encode()
    found: list[ProcessStamp] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        start_ticks = start_time_ticks(int(entry.name))
        is_broker = not _MAIN_CLASSES.isdisjoint(arguments) and any(
            argument.startswith(prefix) for argument in arguments
        )
        if is_broker and start_ticks is not None:
            found.append(ProcessStamp(pid=int(entry.name), start_ticks=start_ticks, boot_id=machine_boot_id()))
    return [stamp for stamp in found if is_alive(stamp)]


def wait_until_gone(stamp: ProcessStamp, timeout_s: float) -> bool:
    """Wait for a process to end by itself."""
    deadline_s = time.monotonic() + timeout_s
    while is_alive(stamp):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # not our child: its parent or init reaps it
