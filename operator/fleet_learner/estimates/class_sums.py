"""Learn from all workloads of a class by sums that merge, so that each workload is summed where its stops are.

The one idea: a class needs the eight moments of each workload, and the number of gaps of each length. Lengths are
counted on a grid of ln(gap / the workload's own centre), 20,000 steps to a factor of e: integer counts add up the same
in any order, and a class has some ten thousand of them for any number of stops. The grid moves a length by a 400th of a
per cent at most; a gap is known to a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .dependence import intraclass_correlation
from .gap_law import ClassModel, GapSample, SampleMoments, moments
from .pooling import class_prior
from .tail import fit_tail

STEPS = 20_000
"""Steps of the grid to a factor of e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCounts:
    """Count gaps by length: (k,) each, ascending.

    Parameters
    ----------
    step: ln of the gap over its workload's centre, in steps.
    returned, censored: gaps that ended at this length, and that were not seen beyond it.
    """

    step: NDArray[np.int64]
    returned: NDArray[np.int64]
    censored: NDArray[np.int64]

    @classmethod
    def of(cls, sample: GapSample, mean: float) -> Self:
        """Count the gaps of one workload. `mean`: of its ln gap."""
        steps = np.rint(STEPS * (np.log(np.maximum(sample.gaps_ms, 1.0)) - mean)).astype(np.int64)
        ended = sample.is_returned.astype(np.int64)
        return cls(step=steps, returned=ended, censored=1 - ended).merged()

    @classmethod
    def union(cls, parts: Iterable[GapCounts]) -> Self:
        """Add counts up."""
        every = [(each.step, each.returned, each.censored) for each in parts] or [(_NONE, _NONE, _NONE)]
        step, returned, censored = (np.concatenate(column) for column in zip(*every, strict=True))
        return cls(step=step, returned=returned, censored=censored).merged()

    def merged(self) -> Self:
        """Add up counts of the same length."""
        step, index = np.unique(self.step, return_inverse=True)
        sums = [np.zeros(step.size, np.int64) for _ in range(2)]
        for total, part in zip(sums, (self.returned, self.censored), strict=True):
            np.add.at(total, index, part)
        return type(self)(step=step, returned=sums[0], censored=sums[1])

    @property
    def ratios(self) -> NDArray[np.float64]:
        """Return the lengths, over their workloads' centres."""
        return np.exp(self.step / STEPS)


_NONE: NDArray[np.int64] = np.zeros(0, np.int64)


def class_of_sums(found: Sequence[SampleMoments], gaps: GapCounts) -> ClassModel:
    """Learn from the sums of a class.

    Parameters
    ----------
    found: of its workloads, in an order that does not depend on how the work was split.
    gaps: of all of them.
    """
    known = [each for each in found if each.number > 0]
    if not known:
        return ClassModel(prior=None, correlation=0.0, tail=None)
    correlation = intraclass_correlation([each.spread for each in known if each.spread is not None])
    number, mean, variance, degrees = np.array([each.corrected(correlation) for each in known]).T
    lengths = np.tile(gaps.ratios, 2)
    ended: NDArray[np.bool_] = np.arange(lengths.size) < gaps.step.size
    counts = np.concatenate((gaps.returned, gaps.censored))
    seen = counts > 0
    tail = fit_tail(lengths[seen], ended[seen], counts[seen].astype(np.float64))
    return ClassModel(prior=class_prior(number, mean, variance, degrees), correlation=correlation, tail=tail)


def class_model(samples: Iterable[GapSample]) -> ClassModel:
    """Learn from all workloads of a class."""
    pairs = [(sample, moments(sample)) for sample in samples]
    parts = (GapCounts.of(sample, each.mean) for sample, each in pairs if not math.isnan(each.mean))
    return class_of_sums([each for _, each in pairs], GapCounts.union(parts))
