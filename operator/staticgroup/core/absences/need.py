"""How long a member may be away, by the absences that were measured.

A percentile of few absences is mostly guessed too low, so an upper bound of it is taken that holds with 95 % confidence whatever
the law of the absences is: an order statistic. Where they are too few for that, the longest one is stretched by (n+1)/n, which
estimates the end of an even distribution without bias.
Source: Hahn & Meeker, Statistical Intervals, 5.2 (order statistics as tolerance bounds).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .causes import Cause
from .reservoir import Reservoir

CONFIDENCE: Final = 0.95
SAMPLES_MIN: Final = 5
"""Fewer say little: the chance that the next one is longer than all of five is one in six."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNeed:
    """What the measured absences ask for.

    Parameters
    ----------
    need_ms: how long a member may be away by them, one heartbeat interval included: the last heartbeat may be so much
        older than the end of the process.
    samples: how many it rests on. longest_ms: the longest of these.
    cause: of the absences that ask for most; Rollout stands for Drain too.
    is_bound: it bounds the percentile; else it is the longest one, stretched.
    is_enough: it takes the place of the estimate from the pod template, also where that is longer.
    """

    need_ms: int
    samples: int
    longest_ms: int
    cause: Cause
    is_bound: bool
    is_enough: bool


def samples_needed(percent: int) -> int:
    """Return how many samples a bound of a percentile needs: n >= ln(1 - confidence) / ln(share); 59 for 95 %."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(percent / 100) - 1e-9)


def rank_of_bound(number: int, percent: int) -> int | None:
    """Return the rank of the smallest order statistic that bounds a percentile.

    Returns
    -------
    1..number: min r with P(Bin(n, share) <= r - 1) >= confidence; None when not even the largest is a bound.
    """
    share, reached = percent / 100, 0.0
    for successes in range(number):
        reached += math.comb(number, successes) * share**successes * (1 - share) ** (number - successes)
        if reached >= CONFIDENCE - 1e-12:
            return successes + 1
    return None


def measured_need(absences: Mapping[Cause, Reservoir], *, percent: int, heartbeat_ms: int) -> MeasuredNeed | None:
    """Return what the absences ask for; None before the first.

    Notes
    -----
    Crashes count once there are enough of them, because one crash loop says nothing, and never in place of rollouts; a
    lost node never does, because it lasts too long for any session (docs/guide/timeouts.md).
    """
    lengths = {cause: tuple(s.longest_ms for s in kept.samples) for cause, kept in absences.items()}
    planned = (*lengths.get(Cause.ROLLOUT, ()), *lengths.get(Cause.DRAIN, ()))
    crashes = lengths.get(Cause.CRASH, ())
    found = [_need(planned, Cause.ROLLOUT, percent, heartbeat_ms)] if planned else []
    if len(crashes) >= SAMPLES_MIN:
        is_enough = bool(found) and found[0].is_enough
        found.append(replace(_need(crashes, Cause.CRASH, percent, heartbeat_ms), is_enough=is_enough))
    return max(found, key=lambda need: need.need_ms, default=None)


def _need(lengths_ms: Sequence[int], cause: Cause, percent: int, heartbeat_ms: int) -> MeasuredNeed:
    number, longest_ms = len(lengths_ms), max(lengths_ms)
    rank = rank_of_bound(number, percent)
    bound_ms = sorted(lengths_ms)[rank - 1] if rank is not None else -(-longest_ms * (number + 1) // number)
    return MeasuredNeed(
        need_ms=bound_ms + heartbeat_ms,
        samples=number,
        longest_ms=longest_ms,
        cause=cause,
        is_bound=rank is not None,
        is_enough=number >= SAMPLES_MIN,
    )
