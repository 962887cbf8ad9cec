"""Progress lines for steps that may take minutes.

The one idea: a waiting user sees a line when a step starts, one every 30 s while it runs, and one when it ends.
All lines go to standard error, because standard output belongs to the answer (`kind get clusters`).
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_S = 30.0


def say(text: str) -> None:
    """Print one line for a waiting user."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a step, its heartbeat every 30 s, and how it ended after how many seconds."""
    started = time.monotonic()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S):
            say(f"   … {title}: {time.monotonic() - started:.0f} s")

    threading.Thread(target=beat, daemon=True, name="progress").start()
    say(f" • {title}")
    try:
        yield
    except BaseException:
        say(f" ✗ {title}: failed after {time.monotonic() - started:.1f} s")
        raise
    finally:
        ended.set()
    say(f" ✓ {title}: {time.monotonic() - started:.1f} s")


def await_condition(what: str, holds: Callable[[], bool], deadline_s: float, poll_s: float = 0.1) -> None:
    """Wait until a condition holds.

    Parameters
    ----------
    what: the condition in words, for the error.
    holds: a callable without parameters that returns whether the condition holds.
    deadline_s, poll_s: seconds to wait at most, and between two checks.
    """
    ends = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"{what}: not within {deadline_s:.0f} s")
        time.sleep(poll_s)
