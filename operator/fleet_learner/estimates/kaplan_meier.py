"""Estimate the survival curve of restart gaps with unseen ends.

The one idea: S(t) = P(a member is still away t after it stopped). A gap whose end was not seen (still away, removed by
a person) is only known to be longer than the observed part; the product-limit estimate uses exactly that. A
share that never returns makes the curve level off above zero, which is right and needs no model.
Sources: Kaplan & Meier 1958 (product limit); Greenwood 1926 (variance); Kalbfleisch & Prentice, The Statistical
Analysis of Failure Time Data, §1.4 (log-log band, which stays inside 0..1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from scipy.stats import norm


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalCurve:
    """Hold a step function that falls at the times at which a return was seen.

    Parameters
    ----------
    times_ms: (k,) float64, ascending, one for each distinct return.
    survival: (k,) float64, S just after each time.
    at_risk, returned: (k,) float64, members still away just before, and returned at, each time (weights when weighted).
    variance_sum: (k,) float64, Greenwood's Σ d/(r(r−d)); inf where the curve is 0.
    last_ms: the longest gap seen, returned or not; beyond it nothing is known. 0 when there is no gap.
    """

    times_ms: NDArray[np.float64]
    survival: NDArray[np.float64]
    at_risk: NDArray[np.float64]
    returned: NDArray[np.float64]
    variance_sum: NDArray[np.float64]
    last_ms: float

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Evaluate S, which is 1 before the first return and stays at its last value after the last one."""
        steps = np.concatenate(([1.0], self.survival))
        return steps[np.searchsorted(self.times_ms, time_ms, side="right")]

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Integrate S from 0 to each time: the expected time away when one waits no longer than that."""
        edges = np.concatenate(([0.0], self.times_ms))
        steps = np.concatenate(([1.0], self.survival))
        area = np.concatenate(([0.0], np.cumsum(steps[:-1] * np.diff(edges))))
        index = np.searchsorted(self.times_ms, time_ms, side="right")
        return area[index] + steps[index] * (np.asarray(time_ms, dtype=np.float64) - edges[index])

    def quantile_ms(self, share: float) -> float:
        """Give the first time by which this share has returned; inf when that was not seen."""
        return _first(self.times_ms, self.survival <= 1.0 - share + 1e-12)


def kaplan_meier(
    gaps_ms: NDArray[np.float64], is_returned: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> SurvivalCurve:
    """Estimate the curve.

    Parameters
    ----------
    gaps_ms: (n,) ≥ 0, time away; where `is_returned` is False, time away until it was last seen away.
    is_returned: (n,) whether the end was seen. Returns at a time count before losses at the same time.
    weights: (n,) > 0; None: 1 each. With weights the variance holds for weights that sum to the effective number.

    Returns
    -------
    SurvivalCurve
        Without a step if no return was seen.

    Raises
    ------
    ValueError
        When a gap is negative or not finite, or the shapes differ.
    """
    gaps = np.asarray(gaps_ms, dtype=np.float64)
    ended = np.asarray(is_returned, dtype=np.bool_)
    mass = np.ones_like(gaps) if weights is None else np.asarray(weights, dtype=np.float64)
    if gaps.ndim != 1 or gaps.shape != ended.shape or gaps.shape != mass.shape:
        raise ValueError(f"one gap, one end and one weight each: {gaps.shape}, {ended.shape}, {mass.shape}")
    if not np.all(np.isfinite(gaps)) or np.any(gaps < 0):
        raise ValueError("a gap is a finite number of milliseconds, not below 0")
    order = np.argsort(gaps, kind="stable")
    gaps, ended, mass = gaps[order], ended[order], mass[order]
    times, first = np.unique(gaps, return_index=True)
    at_risk = np.cumsum(mass[::-1])[::-1][first] if gaps.size else gaps
    returned = np.add.reduceat(mass * ended, first) if gaps.size else gaps
    seen = returned > 0
    times, at_risk, returned = times[seen], at_risk[seen], returned[seen]
    left = np.maximum(at_risk - returned, 0.0)
    left[left < 1e-9 * np.maximum(at_risk, 1.0)] = 0.0  # a rounding error in the sum of equal weights
    with np.errstate(divide="ignore"):
        variance_sum = np.cumsum(returned / (at_risk * left))
    return SurvivalCurve(
        times_ms=times,
        survival=np.cumprod(left / at_risk),
        at_risk=at_risk,
        returned=returned,
        variance_sum=variance_sum,
        last_ms=float(gaps[-1]) if gaps.size else 0.0,
    )


def log_log_band(
    curve: SurvivalCurve, confidence: float, *, design_effect: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the pointwise two-sided band S^exp(±z·se), se = √(Σ d/(r(r−d))) / |ln S|.

    Parameters
    ----------
    confidence: of the two sides together, in 0..1; a one-sided bound at 1−α is that side of the band at 1−2α.
    design_effect: factor on the variance because stops of one rollout resemble each other; ≥ 1.

    Returns
    -------
    tuple of (k,) arrays
        Lower and upper; where the curve is 0 the lower is 0 and the upper the last one that is defined (1 when none).
    """
    z = float(norm.ppf(0.5 + confidence / 2))
    survival = curve.survival
    inner = (survival > 0) & (survival < 1)
    log_survival = np.log(np.where(inner, survival, 0.5))
    spread = z * np.sqrt(design_effect * np.where(inner, curve.variance_sum, 0.0)) / -log_survival
    with np.errstate(over="ignore"):
        lower = np.where(inner, np.exp(log_survival * np.exp(spread)), np.where(survival >= 1, 1.0, 0.0))
        upper = np.where(inner, np.exp(log_survival * np.exp(-spread)), 1.0)
    if np.any(survival <= 0):
        before = upper[inner]
        upper = np.where(survival <= 0, before[-1] if before.size else 1.0, upper)
    return lower, np.maximum(upper, survival)


def beta_product_upper(curve: SurvivalCurve, confidence: float, *, design_effect: float = 1.0) -> NDArray[np.float64]:
    """Bound the survival curve from above, one-sided and pointwise, with a coverage that holds in the far tail too.

    Parameters
    ----------
    confidence: one-sided.
    design_effect: numbers at risk and returned count divided by it.

    Returns
    -------
    (k,) float64, at `times_ms`. Without censoring it is the Clopper–Pearson limit exactly.

    Notes
    -----
    Fay, Brittain & Proschan 2013, beta product confidence procedure by the method of moments: the upper limit is a
    quantile of Π Beta(Y−d+1, d), matched by one Beta. The log-log band relies on the normal law, which at the 99th
    percentile of a few hundred stops covers less than it states (see the validation tables).
    """
    after = (curve.at_risk - curve.returned) / design_effect + 1.0
    ended = curve.returned / design_effect
    first = np.exp(np.cumsum(np.log(after) - np.log(after + ended)))
    ratio = np.log(after + 1.0) - np.log(after + ended + 1.0)
    second = first * np.exp(np.cumsum(ratio))
    variance = np.maximum(second - first**2, 1e-300)
    scale = np.maximum(first * (1.0 - first) / variance - 1.0, 1e-12)
    return betaincinv(first * scale, (1.0 - first) * scale, confidence)


def upper_quantile_ms(curve: SurvivalCurve, share: float, confidence: float, *, design_effect: float = 1.0) -> float:
    """Bound a quantile of the gap from above: the first time at which the upper limit is at or below 1 − share.

    Parameters
    ----------
    share: of the gaps that shall be covered, e.g. 0.99.
    confidence: one-sided.

    Returns
    -------
    float
        Milliseconds; inf when the limit never gets there: then the data give no bound.

    Notes
    -----
    Brookmeyer & Crowley 1982: the interval of a quantile is where the band crosses its level. Without censoring it is
    the order statistic of `tolerance.order_statistic_bound_ms`.
    """
    upper = beta_product_upper(curve, confidence, design_effect=design_effect)
    return _first(curve.times_ms, upper <= 1.0 - share + 1e-12)


def _first(times_ms: NDArray[np.float64], holds: NDArray[np.bool_]) -> float:
    return float(times_ms[int(np.argmax(holds))]) if np.any(holds) else float("inf")
