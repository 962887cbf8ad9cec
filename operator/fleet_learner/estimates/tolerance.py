"""Bound a high quantile of the restart gap from above, with a stated confidence, from few or many gaps.

The one idea: a sample's own 99th percentile is too low half of the time. A tolerance bound says instead "with 90 %
confidence at least 99 % of all gaps are shorter", and says *no bound* when the sample is too small for that.
Sources: Hahn & Meeker, Statistical Intervals, §5.2 (order statistics: distribution-free) and §4.6 (normal, noncentral
t); Vovk et al. 2005 (conformal: holds on average over workloads, not for each).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, nct, norm

from .cost import windows_ms
from .laws import Law

SHARE_ABSORBED = 0.995
"""Share of restarts that the timeout of a group without a known price absorbs."""


def stops_needed(share: float, confidence: float) -> int:
    """Count how many gaps the distribution-free bound needs: n ≥ ln(1−confidence) / ln(share).

    Returns
    -------
    int
        230 for 99 % at 90 %, 299 for 99 % at 95 %.
    """
    return math.ceil(math.log(1 - confidence) / math.log(share) - 1e-9)


def order_statistic_rank(number: int, share: float, confidence: float) -> int | None:
    """Find the rank of the smallest order statistic that is a bound: min r with P(Bin(n, share) ≤ r−1) ≥ confidence.

    Returns
    -------
    int | None
        1..n; None when not even the largest gap is a bound.
    """
    if number < stops_needed(share, confidence):
        return None
    return int(binom.ppf(confidence, number, share)) + 1


def order_statistic_bound_ms(
    gaps_ms: NDArray[np.float64], share: float, confidence: float, *, design_effect: float = 1.0
) -> float:
    """Bound a quantile without a law of the gaps.

    Parameters
    ----------
    gaps_ms: (n,), all of them ended (no censoring).
    design_effect: n counts as n / design_effect gaps; the rank is taken for that number, and its share of the sample.

    Returns
    -------
    float
        Milliseconds; inf when the sample is too small for a bound.
    """
    effective = math.floor(gaps_ms.size / design_effect + 1e-9)
    rank = order_statistic_rank(effective, share, confidence)
    if rank is None:
        return math.inf
    own_rank = min(math.ceil(rank / effective * gaps_ms.size - 1e-9), gaps_ms.size)
    return float(np.partition(gaps_ms, own_rank - 1)[own_rank - 1])


def lognormal_bound_ms(gaps_ms: NDArray[np.float64], share: float, confidence: float) -> float:
    """Bound a quantile of gaps that follow a lognormal law, from one workload alone: exp(m + k·s), k by noncentral t.

    Returns
    -------
    float
        Milliseconds; inf below two gaps. Too low when the tail is heavier than the law's: see the validation tables.
    """
    if gaps_ms.size < 2:
        return math.inf
    logs = np.log(np.maximum(gaps_ms, 1.0))
    number = logs.size
    factor = nct.ppf(confidence, number - 1, norm.ppf(share) * math.sqrt(number)) / math.sqrt(number)
    return float(np.exp(logs.mean() + factor * logs.std(ddof=1)))


def expelled_share(law: Law, timeouts_ms: NDArray[np.float64], heartbeat_interval_ms: float) -> NDArray[np.float64]:
    """Compute the share of restarts that a timeout expels: P(gap > T − u), u uniform on 0..heartbeat interval.

    Returns
    -------
    (g,) float64, or (b, g) for b laws at once.
    """
    return law.at(windows_ms(timeouts_ms, heartbeat_interval_ms)).mean(axis=-2)


def absorbing(
    law: Law, timeouts_ms: NDArray[np.float64], heartbeat_interval_ms: float, *, share: float = SHARE_ABSORBED
) -> NDArray[np.int64]:
    """Find the index of the shortest timeout that absorbs a share of the restarts.

    Parameters
    ----------
    timeouts_ms: (g,) ascending.

    Returns
    -------
    () int64, or (b,) for b laws at once; the last index when none does.
    """
    is_enough = expelled_share(law, timeouts_ms, heartbeat_interval_ms) <= 1.0 - share
    return np.where(is_enough.any(axis=-1), np.argmax(is_enough, axis=-1), timeouts_ms.size - 1)
