"""A bounded sample of measured absences of one cause, weighted towards the new ones, that outlives the process.

The one idea: each absence draws a lot once, and the sample keeps the lowest of them in the order of an exponentially
biased reservoir (Efraimidis and Spirakis 2006, with the weights of Cormode's forward decay, 2009). A weight of
2^(t/half-life) only shifts a lot by the time of its absence, so which of two is kept never changes: the sample does
not depend on the order in which absences come, a copy changes nothing, and no state of a generator has to be
stored. The lot is drawn from the names of the process that ended and a seed that is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

SAMPLES_MAX: Final = 64
"""More than the 59 by which the largest bounds the 95th percentile with 95 % confidence."""
HALF_LIFE_S: Final = 30 * 86_400
"""An absence that is so much older has half the chance to be kept: images change, and with them how long a start takes."""
_LOTS: Final = 2**32


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Sample:
    """One measured absence.

    Parameters
    ----------
    shortest_ms, longest_ms: for how long the member was away, at least and at most; the looks of the operator lie apart.
    at_s: when it was back, whole seconds since the Unix epoch.
    lot: drawn once, 0 to 2^32 - 1; it tells the process that ended from others, so several members of it count once.
    """

    at_s: int
    lot: int
    longest_ms: int
    shortest_ms: int

    @property
    def rank(self) -> float:
        """Return the place in the order in which samples are kept, the lowest first."""
        return math.log(-math.log((self.lot + 0.5) / _LOTS)) - self.at_s * math.log(2) / HALF_LIFE_S


def lot_of(seed: str, pod_uid: str, restart_count: int) -> int:
    """Draw the lot of the absence that begins with the end of one run of a container."""
    return int.from_bytes(sha256(f"{seed}/{pod_uid}/{restart_count}".encode()).digest()[:4], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservoir:
    """What is kept of the absences of one cause.

    Parameters
    ----------
    samples: the newest last.
    seen: how many ended, kept or not.
    unmeasured: how many of them nobody knows the length of well enough, or that no restart explains; never among the samples.
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
    """Read what `text_of` wrote; what has not its form is left out, because a sample less harms nobody."""
    found = []
    for part in text.split(",") if text else ():
        lengths, _, rest = part.partition("@")
        shortest, _, longest = lengths.partition("-")
        at, _, lot = rest.partition(".")
        try:
            sample = Sample(at_s=int(at), lot=int(lot, 16), longest_ms=int(longest), shortest_ms=int(shortest))
        except ValueError:
            continue
        if 0 <= sample.shortest_ms <= sample.longest_ms and 0 <= sample.lot < _LOTS and sample.at_s >= 0:
            found.append(sample)
    return tuple(sorted(found)[-SAMPLES_MAX:])
