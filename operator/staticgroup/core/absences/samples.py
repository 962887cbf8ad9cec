"""The measured absences that are kept of each cause, and how long a member may be away by them.

The sample is bounded and outlives the process. Each absence draws a lot once, and the sample keeps the lowest in the
order of an exponentially biased reservoir (Efraimidis and Spirakis 2006, with the weights of Cormode's forward decay,
2009). A weight of 2^(t/half-life) only shifts a lot by the time of its absence, so which of two is kept never changes:
neither the order of absences nor a copy changes the sample, and no generator's state is stored.

A percentile of few absences is mostly guessed too low, so an upper bound replaces it that holds with 95 % confidence
for any distribution: an order statistic. Where the absences are too few for that, the longest one is stretched by
(n+1)/n, which estimates the end of a uniform distribution without bias.
Source: Hahn & Meeker, Statistical Intervals, 5.2 (order statistics as tolerance bounds).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final

SAMPLES_MAX: Final = 64
"""More than the 59 by which the largest bounds the 95th percentile with 95 % confidence."""
HALF_LIFE_S: Final = 30 * 86_400
"""An absence older by this much is half as likely to be kept: images change, and with them how long a start takes."""
CONFIDENCE: Final = 0.95
SAMPLES_MIN: Final = 5
"""Fewer say little: the chance that the next one is longer than all of five is one in six."""
_WRITTEN: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})@([0-9]{1,15})\.([0-9a-f]{1,8})")


class Cause(StrEnum):
    """Name why a member was away; the value is what appears in status.

    Causes are kept apart because they take different times: a frequent short one would hide a rare long one.
    """

    ROLLOUT = "Rollout"
    DRAIN = "Drain"
    CRASH = "Crash"
    NODE_LOSS = "NodeLoss"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Sample:
    """One measured absence.

    Parameters
    ----------
    shortest_ms, longest_ms: for how long the member was away, at least and at most; readings of the group lie apart.
    at_s: when it was back, whole seconds since the Unix epoch.
    lot: drawn once, 0 to 2^32 - 1; it differs by the process that ended, so several members of one count once.
    """

    at_s: int
    lot: int
    longest_ms: int
    shortest_ms: int

    @property
    def rank(self) -> float:
        """Return the place in the order in which samples are kept, the lowest first."""
        return math.log(-math.log((self.lot + 0.5) / 2**32)) - self.at_s * math.log(2) / HALF_LIFE_S


def lot_of(seed: str, pod_uid: str, run: str) -> int:
    """Draw the lot of the absence that begins with the end of a pod ("") or of one run of a container of it."""
    return int.from_bytes(sha256(f"{seed}/{pod_uid}/{run}".encode()).digest()[:4], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservoir:
    """What is kept of the absences of one cause.

    Parameters
    ----------
    samples: the newest last.
    seen: how many ended, kept or not.
    unmeasured: how many have no exact enough length, or one that no restart explains; never among the samples.
    """

    samples: tuple[Sample, ...] = ()
    seen: int = 0
    unmeasured: int = 0

    def with_sample(self, sample: Sample) -> Reservoir:
        """Return it with one more; of the members of one process the one that was away longest counts."""
        twin = next((s for s in self.samples if s.lot == sample.lot), None)
        if twin is not None:
            longer = max(twin, sample, key=lambda s: s.longest_ms)
            others = (s for s in self.samples if s is not twin)
            return self if longer is twin else replace(self, samples=tuple(sorted((*others, sample))))
        kept = sorted((*self.samples, sample), key=lambda s: s.rank)[:SAMPLES_MAX]
        return replace(self, samples=tuple(sorted(kept)), seen=self.seen + 1)

    def with_unmeasured(self) -> Reservoir:
        """Return it with one more that has no length."""
        return replace(self, seen=self.seen + 1, unmeasured=self.unmeasured + 1)

    @property
    def longest_ms(self) -> int | None:
        """Return the longest of the samples; None without any."""
        return max((s.longest_ms for s in self.samples), default=None)


def text_of(samples: Iterable[Sample]) -> str:
    """Write samples as `<shortest ms>-<longest ms>@<Unix seconds>.<lot>`, with commas between them."""
    return ",".join(f"{s.shortest_ms}-{s.longest_ms}@{s.at_s}.{s.lot:08x}" for s in samples)


def samples_from(text: str) -> tuple[Sample, ...]:
    """Read what `text_of` wrote; what has another form is left out, because a sample less harms nobody."""
    written = (match for part in text.split(",") if (match := _WRITTEN.fullmatch(part)) is not None)
    found = (Sample(shortest_ms=int(m[1]), longest_ms=int(m[2]), at_s=int(m[3]), lot=int(m[4], 16)) for m in written)
    return tuple(sorted(s for s in found if s.shortest_ms <= s.longest_ms)[-SAMPLES_MAX:])


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
