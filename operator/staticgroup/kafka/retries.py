"""When a call that was refused is made again."""

from __future__ import annotations

import random

from ..core.group import KafkaProblemKind
from .errors import Recovery, Refusal

BACK_OFF_FIRST_S = 0.05
BACK_OFF_MAX_S = 1.0


def back_off_s(attempt: int, rng: random.Random) -> float:
    """Return the pause before attempt+1: doubling from 50 ms to 1 s, half of it random."""
    full_s = min(BACK_OFF_FIRST_S * 2.0**attempt, BACK_OFF_MAX_S)
    return full_s * (0.5 + rng.random() / 2)


def may_retry(refused: Refusal, attempt: int) -> bool:
    """Say whether a read is asked again: a lost connection once, a coordinator on the move until the deadline."""
    if refused.recovery is Recovery.NONE:
        return False
    return refused.problem.kind is not KafkaProblemKind.UNREACHABLE or attempt == 0
