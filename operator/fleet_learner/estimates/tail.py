"""Extrapolate the far tail of a class of workloads by a generalised Pareto law above a high threshold.

The one idea: whatever the law of the gaps, its excesses over a high threshold follow a generalised Pareto law (Pickands
1975, Balkema & de Haan 1974). One workload never has enough of them, so it is fitted to a class, and never extrapolated
beyond what the data support. Source: Hosking & Wallis 1987, probability-weighted moments, which stay stable where
maximum likelihood does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kaplan_meier import kaplan_meier

EXCESSES_MIN = 50
SHAPE_MIN, SHAPE_MAX = -0.3, 0.9
"""The moments need ξ < 1; below -0.3 the law ends too early to be credible."""
BEYOND_DATA = 10
"""Quantiles are computed down to p = 1/(10 n), not beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoTail:
    """Hold the tail of a class.

    Parameters
    ----------
    threshold_ms: where the tail begins.
    shape, scale_ms: ξ and σ of the generalised Pareto law of the excesses.
    number: gaps in all.
    share: of the gaps above the threshold.
    """

    threshold_ms: float
    shape: float
    scale_ms: float
    number: int
    share: float

    def exceedance(self, gap_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Estimate P(gap > gap_ms) at or above the threshold."""
        over = np.maximum(np.asarray(gap_ms, dtype=np.float64) - self.threshold_ms, 0.0) / self.scale_ms
        if abs(self.shape) < 1e-9:
            left = np.exp(-over)
        else:
            left = np.maximum(1.0 + self.shape * over, 0.0) ** (-1.0 / self.shape)
        return self.share * left

    def quantile_ms(self, exceedance: float) -> float | None:
        """Give the gap that is exceeded with this chance: u + σ/ξ·(((n/N_u)·p)^−ξ − 1).

        Returns
        -------
        float | None
            Milliseconds; None for a chance above that of the threshold, or below 1/(10 n).
        """
        if exceedance > self.share or exceedance < 1.0 / (BEYOND_DATA * self.number):
            return None
        ratio = exceedance / self.share
        if abs(self.shape) < 1e-9:
            return self.threshold_ms - self.scale_ms * float(np.log(ratio))
        return self.threshold_ms + self.scale_ms / self.shape * (ratio**-self.shape - 1.0)


def pareto_moments(excesses_ms: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> tuple[float, float]:
    """Fit shape ξ and scale σ of a generalised Pareto law by probability-weighted moments.

    Parameters
    ----------
    excesses_ms: (n,) > 0.
    weights: (n,) share of the law that each stands for; None: equal shares.

    Returns
    -------
    tuple[float, float]
        (ξ, σ); ξ is not clipped. With plotting positions (i − 0.35)/n as Hosking & Wallis advise.
    """
    order = np.argsort(excesses_ms)
    ordered = excesses_ms[order]
    mass = np.full(ordered.size, 1.0 / ordered.size) if weights is None else weights[order] / weights.sum()
    positions = np.cumsum(mass) - 0.35 * mass
    first = float((mass * ordered).sum())
    second = float((mass * ordered * (1.0 - positions)).sum())
    shape = 2.0 - first / (first - 2.0 * second)
    return shape, 2.0 * first * second / (first - 2.0 * second)


def fit_tail(
    gaps_ms: NDArray[np.float64],
    is_returned: NDArray[np.bool_] | None = None,
    counts: NDArray[np.float64] | None = None,
    threshold_share: float = 0.9,
) -> ParetoTail | None:
    """Fit the tail of a class of workloads.

    Parameters
    ----------
    gaps_ms: (n,) of all workloads of the class.
    is_returned: (n,); None: all ended. The Kaplan–Meier weights of the others compensate for unseen ends, because long
        gaps are the ones cut off.
    counts: (n,) whole, how many gaps have that length; None: one each.
    threshold_share: the quantile at which the tail begins.

    Returns
    -------
    ParetoTail | None
        With ξ clipped to -0.3..0.9 (σ then keeps the mean of the excesses); None below 50 excesses.
    """
    ended = np.ones(gaps_ms.shape, dtype=np.bool_) if is_returned is None else is_returned
    curve = kaplan_meier(gaps_ms, ended, counts)
    threshold = curve.quantile_ms(threshold_share)
    beyond = curve.times_ms > threshold
    excesses = curve.times_ms[beyond] - threshold
    if int(curve.returned[beyond].sum()) < EXCESSES_MIN:
        return None
    weights = -np.diff(np.concatenate(([1.0], curve.survival)))[beyond]
    shape, scale = pareto_moments(excesses, weights)
    clipped = min(max(shape, SHAPE_MIN), SHAPE_MAX)
    if clipped != shape:
        scale = float((excesses * weights).sum() / weights.sum()) * (1.0 - clipped)
    return ParetoTail(
        threshold_ms=threshold,
        shape=clipped,
        scale_ms=scale,
        number=gaps_ms.size if counts is None else int(counts.sum()),
        share=float(curve.at(threshold)),
    )
