"""Bootstrap survival curves by drawing rollouts with replacement, a hundred at once.

The one idea: a drawn sample is the sample itself with every stop counted as often as its rollout was drawn. So the gaps
are put in order once, and a hundred Kaplan–Meier curves are sums along rows of a table of counts. Source: Efron 1981,
"Censored data and the bootstrap", drawn by cluster as Davison & Hinkley 1997, §3.8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .tail import ParetoTail

_CELLS_MAX = 1 << 20
"""Largest part of the table of counts at a time: a hundred draws of a large group would not fit."""


def rollout_counts(cluster: NDArray[np.int64], replicates: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw rollouts with replacement.

    Parameters
    ----------
    cluster: (n,) code of the rollout of each stop.
    replicates: how many samples.

    Returns
    -------
    (replicates, n) int64
        How often each stop is in each sample; stops of one rollout are in it equally often.
    """
    codes = np.unique(cluster, return_inverse=True)[1]
    rollouts = int(codes.max(initial=-1)) + 1
    drawn = np.stack([np.bincount(rng.integers(0, rollouts, rollouts), minlength=rollouts) for _ in range(replicates)])
    return drawn[:, codes]


def drawn_survivals(
    gaps_ms: NDArray[np.float64],
    is_returned: NDArray[np.bool_],
    weights: NDArray[np.float64] | None,
    counts: NDArray[np.int64],
    times_ms: NDArray[np.float64],
    *,
    tail: ParetoTail | None,
    at_risk_min: float,
) -> NDArray[np.float64]:
    """Estimate the survival curve of every drawn sample.

    Parameters
    ----------
    gaps_ms, is_returned, weights: (n,) of the sample, as for `kaplan_meier`; weights None: 1 each.
    counts: (b, n) of `rollout_counts`.
    times_ms: (t,) at which the curves are evaluated.
    tail: of the class, as a ratio to the median; beyond the last time at which `at_risk_min` are still away, a curve
        falls like the tail. None: it stays constant.

    Returns
    -------
    (b, t) float64: P(gap > time).
    """
    order = np.argsort(gaps_ms, kind="stable")
    mass = None if weights is None else weights[order]
    step = max(_CELLS_MAX // max(gaps_ms.size, 1), 1)
    parts = [
        _survivals(
            gaps_ms[order],
            is_returned[order],
            _masses(counts[start : start + step, order], mass),
            times_ms,
            tail,
            at_risk_min,
        )
        for start in range(0, counts.shape[0], step)
    ]
    return np.concatenate(parts)


def _masses(counts: NDArray[np.int64], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Scale the weights of each draw to sum to the effective number, (Σw)²/Σw²."""
    if weights is None:
        return counts.astype(np.float64)
    masses = counts * weights
    sums, squares = masses.sum(axis=1, keepdims=True), (masses * weights).sum(axis=1, keepdims=True)
    return masses * (sums / squares)


def _survivals(
    gaps_ms: NDArray[np.float64],
    is_returned: NDArray[np.bool_],
    masses: NDArray[np.float64],
    times_ms: NDArray[np.float64],
    tail: ParetoTail | None,
    at_risk_min: float,
) -> NDArray[np.float64]:
    ends_ms, first = np.unique(gaps_ms, return_index=True)
    at_risk = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1][:, first]
    returned = np.add.reduceat(masses * is_returned, first, axis=1)
    is_seen = returned > 0
    left = np.maximum(at_risk - returned, 0.0)
    left[left < 1e-9 * np.maximum(at_risk, 1.0)] = 0.0  # what rounding leaves, as in `kaplan_meier`
    survival = np.cumprod(np.divide(left, at_risk, out=np.ones_like(left), where=is_seen), axis=1)
    steps = np.concatenate((np.ones((survival.shape[0], 1)), survival), axis=1)
    own = steps[:, np.searchsorted(ends_ms, times_ms, side="right")]
    if tail is None:
        return own
    rows = np.arange(own.shape[0])
    is_half = survival <= 0.5 + 1e-12
    centre = np.maximum(ends_ms[np.argmax(is_half, axis=1)], 1.0)
    is_known = is_seen & (at_risk >= at_risk_min)
    last = ends_ms.size - 1 - np.argmax(is_known[:, ::-1], axis=1)
    cut, level = ends_ms[last], survival[rows, last]
    reference = np.maximum(tail.exceedance(np.maximum(cut / centre, tail.threshold_ms)), 1e-12)
    beyond = tail.exceedance(np.maximum(times_ms / centre[:, None], tail.threshold_ms)) / reference[:, None]
    far = np.maximum(own, level[:, None] * np.minimum(beyond, 1.0))
    has_tail = (is_half.any(axis=1) & is_known.any(axis=1))[:, None]
    return np.where(has_tail & (times_ms > cut[:, None]), far, own)
