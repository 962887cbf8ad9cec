"""Detect that restarts became slower, and since when: a new image, a slow registry, a new node pool.

The one idea: compare each rollout's mean ln gap with the workload's earlier mean, in units of its own standard
deviation, and add up what exceeds a slack. The sum stays near zero while nothing changed and climbs steadily after a
change. One value for each rollout, not for each restart, because the restarts of a rollout are not independent.
Sources: Page 1954 (CUSUM); Siegmund 1985, §2.6 (run length with the +1.166 correction); exponential weights for age.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLACK = 0.5
"""Slack in standard deviations: tuned to changes of one deviation, the usual choice."""
THRESHOLD = 5.0
"""Threshold with one false alarm in about 930 rollouts of a workload (one-sided, k = 0.5)."""
HALF_LIFE_DAYS = 14.0
BASELINE_MIN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A detected slowdown of restarts.

    Parameters
    ----------
    alarm: index of the value at which the sum crossed the threshold.
    begin: index of the first value after the change: where the sum last left zero.
    ratio: how many times longer the gaps are since then (ratio of geometric means).
    """

    alarm: int
    begin: int
    ratio: float


def age_weights(age_days: NDArray[np.float64], half_life_days: float = HALF_LIFE_DAYS) -> NDArray[np.float64]:
    """Weigh stops by age: 2^(−age / half-life)."""
    return np.exp2(-np.asarray(age_days, dtype=np.float64) / half_life_days)


def effective_number(weights: NDArray[np.float64]) -> float:
    """Compute the effective number of weighted stops: (Σw)² / Σw² (Kish)."""
    total = float(weights.sum())
    return total * total / float((weights**2).sum()) if total > 0 else 0.0


def cusum(values: NDArray[np.float64], slack: float = SLACK) -> NDArray[np.float64]:
    """Compute the upper CUSUM S_i = max(0, S_{i−1} + z_i − k).

    Parameters
    ----------
    values: (n,) standardised, mean 0 and deviation 1 while nothing changed.

    Returns
    -------
    (n,) float64. Closed form: running sum minus its running minimum.
    """
    total = np.cumsum(np.asarray(values, dtype=np.float64) - slack)
    return total - np.minimum(np.minimum.accumulate(total), 0.0)


def average_run_length(threshold: float = THRESHOLD, slack: float = SLACK, shift: float = 0.0) -> float:
    """Approximate after how many values an alarm comes (Siegmund): false alarms at shift 0, delay otherwise."""
    drift = shift - slack
    level = threshold + 1.166
    if abs(drift) < 1e-9:
        return level**2
    return (math.exp(-2.0 * drift * level) + 2.0 * drift * level - 1.0) / (2.0 * drift**2)


def rollout_means(log_gaps: NDArray[np.float64], cluster: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average ln gap by rollout, in the order in which the rollouts appear."""
    _, first, code = np.unique(cluster, return_index=True, return_inverse=True)
    means = np.bincount(code, log_gaps) / np.bincount(code)
    return means[np.argsort(first, kind="stable")]


def slower_since(
    means: NDArray[np.float64], *, baseline: int, threshold: float = THRESHOLD, slack: float = SLACK
) -> Drift | None:
    """Look for a change to longer gaps.

    Parameters
    ----------
    means: (n,) ln gap of the rollouts, oldest first.
    baseline: number of first values that define the former level; ≥ 8.

    Returns
    -------
    Drift | None
        None without an alarm, or with too short a baseline. Indexes count from the first value of `means`.

    Notes
    -----
    The baseline's mean is known to ±s/√n only: it is raised by that much, which keeps false alarms near the design.
    """
    if baseline < BASELINE_MIN or means.size <= baseline:
        return None
    head, tail = means[:baseline], means[baseline:]
    deviation = float(head.std(ddof=1)) * math.sqrt((baseline - 1) / (baseline - 3))
    if deviation <= 0:
        return None
    centre = float(head.mean()) + deviation / math.sqrt(baseline)
    sums = cusum((tail - centre) / deviation, slack)
    if not np.any(sums > threshold):
        return None
    alarm = int(np.argmax(sums > threshold))
    zeros = np.flatnonzero(sums[:alarm] == 0.0)
    begin = int(zeros[-1]) + 1 if zeros.size else 0
    ratio = math.exp(float(tail[begin : alarm + 1].mean()) - float(head.mean()))
    return Drift(alarm=baseline + alarm, begin=baseline + begin, ratio=ratio)
