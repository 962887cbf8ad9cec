"""The end of a demonstration: one exit code for each way to end, and everything taken away in all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from support.demo.ending import DIFFERS, FAILED, INTERRUPTED, KEPT, perform_and_finish


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Give the test's process its handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def fail() -> int:
    raise RuntimeError("no cluster")


def be_terminated() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    return KEPT


def be_interrupted() -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("run", "code", "code_with_something_left"),
    [
        (lambda: KEPT, KEPT, FAILED),
        (lambda: DIFFERS, DIFFERS, FAILED),
        (fail, FAILED, FAILED),
        (be_terminated, INTERRUPTED, INTERRUPTED),
        (be_interrupted, INTERRUPTED, INTERRUPTED),
    ],
)
def test_each_end_has_its_code_and_takes_everything_away(
    run: Callable[[], int], code: int, code_with_something_left: int
) -> None:
    taken_away: list[bool] = []

    def finish() -> bool:
        os.kill(os.getpid(), signal.SIGINT)  # a second Ctrl-C disturbs nothing
        taken_away.append(True)
        return len(taken_away) == 1

    assert perform_and_finish(run, finish) == code
    assert perform_and_finish(run, finish) == code_with_something_left
    assert len(taken_away) == 2
