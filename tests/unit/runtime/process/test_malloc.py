"""What a process no longer needs goes back to the machine, although what it keeps lies between; measured in a process of its own."""

import platform
import subprocess
import sys

import pytest

from staticgroup.runtime.process import malloc
from staticgroup.runtime.process.malloc import give_back_early, give_back_now

MIB = 1024 * 1024
ANSWERS = """
import sys
from staticgroup.runtime.process.heap import resident_bytes
from staticgroup.runtime.process.malloc import give_back_early
if sys.argv[1] == "early":
    give_back_early()
del (first := [bytearray(8 * 1024 * 1024)])[0]  # glibc takes the next ones for such as come and go, and cuts them from one heap
before, kept = resident_bytes(), []
for _ in range(12):
    answers = [bytearray(4 * 1024 * 1024) for _ in range(2)]
    kept.append(b"k" * 100_000)  # above all that is free
del answers
print(resident_bytes() - before)
"""


def _left(how: str) -> int:
    answered = subprocess.run([sys.executable, "-c", ANSWERS, how], capture_output=True, text=True, check=True, timeout=60)
    return int(answered.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_large_answers_leave_nothing_behind_although_something_small_is_kept_after_each() -> None:
    """mallopt(3): a large block that is freed raises the threshold below which blocks come from the heap, unless one was set."""
    assert _left("as it comes") > 6 * MIB
    assert _left("early") < 3 * MIB


def test_where_there_is_no_glibc_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "_libc", object)
    give_back_early()
    give_back_now()
