"""How a demonstration ends: its exit code, and everything taken away whatever happened.

0: as promised. 1: something differed. 2: it could not be run, or left something behind. 130: interrupted.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from types import FrameType

from support.devcluster.progress import say

KEPT, DIFFERS, FAILED, INTERRUPTED = 0, 1, 2, 130


def perform_and_finish(run: Callable[[], int], finish: Callable[[], bool]) -> int:
    """Run a demonstration and then take everything away, undisturbed by a second Ctrl-C.

    Parameters
    ----------
    run: returns KEPT or DIFFERS.
    finish: returns whether nothing is left behind.

    Returns
    -------
    The exit code.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    code = FAILED
    try:
        code = run()
    except KeyboardInterrupt:
        say("Interrupted.")
        code = INTERRUPTED
    except (RuntimeError, LookupError, ValueError, AssertionError, OSError, subprocess.SubprocessError) as error:
        say(f"ERROR: {error}")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        is_clean = finish()
    return code if is_clean else max(code, FAILED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
