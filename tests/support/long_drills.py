"""Short and long forms of a drill: `make test` repeats a claim often enough, `make full` until failures are rare.

LONG_DRILLS=1 asks for the long forms. A whole test that is only ever long carries the marker `long` instead, and the
suites leave it out without that variable.
"""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "LONG_DRILLS"
T = TypeVar("T")


def are_drills_long() -> bool:
    """Tell whether the long forms are asked for."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def by_length(*, short: T, long: T) -> T:
    """Return what belongs to the form that is asked for."""
    return long if are_drills_long() else short
