"""Which session timeout the measured absences ask for, and how it comes down again.

A percentile of few absences is mostly guessed too low, so an upper bound of it is taken that holds with 95 % confidence whatever
the law of the absences is: an order statistic. Where they are too few for that, the longest one is stretched by (n+1)/n, which
estimates the end of an even distribution without bias; and while there are hardly any, the structural estimate holds unless
that is longer. Going up happens at once, going down after a day in which less would have done.
Sources: Hahn & Meeker, Statistical Intervals, 5.2 (order statistics as tolerance bounds).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..absences.causes import Cause
from ..absences.reservoir import Reservoir

CONFIDENCE: Final = 0.95
SAMPLES_MIN: Final = 5
"""Fewer say little: the chance that the next one is longer than all of five is one in six."""
LOWER_AFTER_S: Final = 86_400.0
"""A lower value is taken when for so long no higher one was asked for."""


class Basis(StrEnum):
    """Name what a session timeout rests on; the value is what appears in status."""

    FIXED = "Fixed"
    STRUCTURAL = "Structural"
    FEW_ABSENCES = "FewAbsences"
    LONGEST_ABSENCE = "LongestAbsence"
    ORDER_STATISTIC = "OrderStatistic"
    FLEET = "Fleet"
    GROUP_CONFIG = "GroupConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNeed:
    """What the measured absences ask for.

    Parameters
    ----------
    need_ms: how long a member may be away by them, one heartbeat interval included: the last heartbeat may be so much older
        than the end of the process.
    samples: how many it rests on. longest_ms: the longest of these.
    cause: of the absences that ask for most; Rollout stands for Drain too.
    """

    need_ms: int
    basis: Basis
    samples: int
    longest_ms: int
    cause: Cause

    @property
    def is_enough(self) -> bool:
        """True where it takes the place of the structural estimate, also where that is longer."""
        return self.basis is not Basis.FEW_ABSENCES


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The value that measured absences have put in force, before any bound; durable.

    Parameters
    ----------
    timeout_ms: in use.
    lower_since_s: since when only lower ones were asked for, seconds since the Unix epoch; None: none is.
    lower_ms: the highest of these.
    """

    timeout_ms: int
    lower_since_s: float | None = None
    lower_ms: int = 0


def samples_needed(percent: int) -> int:
    """Return how many samples a bound of a percentile needs: n >= ln(1 - confidence) / ln(share); 59 for 95 %."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(percent / 100) - 1e-9)


def rank_of_bound(number: int, percent: int) -> int | None:
    """Return the rank of the smallest order statistic that bounds a percentile: min r with P(Bin(n, share) <= r - 1) >= confidence.

    Returns
    -------
    1..number; None when not even the largest is a bound.
    """
    share, reached = percent / 100, 0.0
    for successes in range(number):
        reached += math.comb(number, successes) * share**successes * (1 - share) ** (number - successes)
        if reached >= CONFIDENCE - 1e-12:
            return successes + 1
    return None


def measured_need(
    reservoirs: Mapping[Cause, Reservoir], *, percent: int, heartbeat_interval_ms: int
) -> MeasuredNeed | None:
    """Return what the absences ask for; None before the first.

    Notes
    -----
    Crashes count once there are enough of them, because one crash loop says nothing; a lost node never does, because it lasts
    too long for any session (docs/guide/timeouts.md).
    """
    planned = (*_lengths_ms(reservoirs, Cause.ROLLOUT), *_lengths_ms(reservoirs, Cause.DRAIN))
    crashes = _lengths_ms(reservoirs, Cause.CRASH)
    found = []
    if planned:
        found.append(_need(planned, Cause.ROLLOUT, percent, heartbeat_interval_ms))
    if len(crashes) >= SAMPLES_MIN:
        found.append(_need(crashes, Cause.CRASH, percent, heartbeat_interval_ms))
    if not found:
        return None
    if planned and not found[0].is_enough:  # that crashes are short tells nothing of rollouts
        return found[0] if len(found) == 1 or found[0].need_ms >= found[1].need_ms else _few(found[1])
    return max(found, key=lambda need: need.need_ms) if planned else _few(found[0])


def _few(need: MeasuredNeed) -> MeasuredNeed:
    return MeasuredNeed(
        need_ms=need.need_ms, basis=Basis.FEW_ABSENCES, samples=need.samples, longest_ms=need.longest_ms, cause=need.cause
    )


def _lengths_ms(reservoirs: Mapping[Cause, Reservoir], cause: Cause) -> tuple[int, ...]:
    return tuple(sample.longest_ms for sample in reservoirs.get(cause, Reservoir()).samples)


def _need(lengths_ms: Sequence[int], cause: Cause, percent: int, heartbeat_interval_ms: int) -> MeasuredNeed:
    number, longest_ms = len(lengths_ms), max(lengths_ms)
    rank = rank_of_bound(number, percent)
    if rank is not None:
        basis, bound_ms = Basis.ORDER_STATISTIC, sorted(lengths_ms)[rank - 1]
    else:
        basis = Basis.LONGEST_ABSENCE if number >= SAMPLES_MIN else Basis.FEW_ABSENCES
        bound_ms = -(-longest_ms * (number + 1) // number)
    return MeasuredNeed(
        need_ms=bound_ms + heartbeat_interval_ms, basis=basis, samples=number, longest_ms=longest_ms, cause=cause
    )


def held(before: Held | None, asked_ms: int, now_s: float) -> Held:
    """Return the value to use: up at once, down after `LOWER_AFTER_S`.

    Parameters
    ----------
    before: the value in use; None: none that was measured is.
    asked_ms: what is asked for now, with headroom, before any bound.
    now_s: seconds since the Unix epoch.
    """
    if before is None or asked_ms >= before.timeout_ms:
        return Held(timeout_ms=asked_ms)
    if before.lower_since_s is None:
        return Held(timeout_ms=before.timeout_ms, lower_since_s=now_s, lower_ms=asked_ms)
    lower_ms = max(before.lower_ms, asked_ms)
    if now_s - before.lower_since_s >= LOWER_AFTER_S:
        return Held(timeout_ms=lower_ms) if lower_ms == asked_ms else Held(
            timeout_ms=lower_ms, lower_since_s=now_s, lower_ms=asked_ms
        )
    return Held(timeout_ms=before.timeout_ms, lower_since_s=before.lower_since_s, lower_ms=lower_ms)
