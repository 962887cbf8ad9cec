"""Hold what a process uses at most, while something runs in it, against a bound: the kernel's own account (proc(5))."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESET_PEAK = "5"


def _status_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


@contextmanager
def memory_bound(mib: float) -> Iterator[None]:
    """Fail when this process at any moment meanwhile uses so many MiB more than before."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    before_mib = _status_mib("VmRSS")
    yield
    grown_mib = _status_mib("VmHWM") - before_mib
    assert grown_mib <= mib, f"{grown_mib:.0f} MiB more than before, allowed are {mib:.0f}"
