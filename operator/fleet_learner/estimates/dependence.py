"""Discount dependent stops: a hundred of one rollout tell less than a hundred of a hundred rollouts.

The one idea: pods of one rollout share image, registry and node pool, so their gaps resemble each other. With
intraclass correlation ρ and m stops in a rollout, n stops are worth n / (1 + (m−1)ρ). Intervals that ignore this are
too narrow; the design effect widens them, and a bootstrap draws whole rollouts. Sources: Kish, Survey Sampling, §5.4
(design effect); Donner & Koval 1980 (ANOVA estimate of ρ); Field & Welsh 2007 (bootstrap of clusters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CORRELATION_ASSUMED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Hold the sums of squares of one workload, which add up over workloads.

    Parameters
    ----------
    number, clusters: stops and rollouts, each stop outside a rollout counted as its own.
    cluster_size: Σm²/n, the size of the rollout that a stop finds itself in.
    between, within: sums of squares of the rollouts' means, and inside rollouts.
    """

    number: int
    clusters: int
    cluster_size: float
    between: float
    within: float

    def design_effect(self, correlation: float) -> float:
        """Return the factor on the variance of the mean: 1 + (m−1)ρ."""
        return 1.0 + (self.cluster_size - 1.0) * correlation

    def degrees(self, correlation: float) -> float:
        """Return the variance's effective degrees of freedom; correlated squares weigh by ρ²."""
        return max(self.number - 1.0, 0.0) / (1.0 + (self.cluster_size - 1.0) * correlation**2)

    def variance_factor(self, correlation: float) -> float:
        """Return the factor on the sample's variance, which lacks the variation between its few rollouts."""
        if self.number < 2:
            return 1.0
        return 1.0 / max(1.0 - correlation * (self.cluster_size - 1.0) / (self.number - 1.0), 0.1)


def spread(values: NDArray[np.float64], cluster: NDArray[np.int64]) -> Spread:
    """Split one workload's stops by rollout.

    Parameters
    ----------
    values: (n,) usually ln gap; n ≥ 1.
    cluster: (n,) code of the rollout; a stop outside a rollout has a code of its own.
    """
    _, code, size = np.unique(cluster, return_inverse=True, return_counts=True)
    means = np.bincount(code, values) / size
    return Spread(
        number=values.size,
        clusters=size.size,
        cluster_size=float((size**2).sum() / values.size),
        between=float((size * (means - values.mean()) ** 2).sum()),
        within=float(((values - means[code]) ** 2).sum()),
    )


def intraclass_correlation(spreads: Sequence[Spread]) -> float:
    """Estimate ρ by analysis of variance over one workload or all workloads of a class.

    Returns
    -------
    float
        0..1; 0 when no rollout has two stops. CORRELATION_ASSUMED when no workload has two rollouts: then the rollout's
        and the workload's common variation cannot be distinguished.

    Notes
    -----
    One workload has a handful of rollouts, too few to estimate ρ; a class has hundreds.
    """
    between_degrees = sum(each.clusters - 1 for each in spreads)
    within_degrees = sum(each.number - each.clusters for each in spreads)
    if within_degrees == 0:
        return 0.0
    if between_degrees == 0:
        return CORRELATION_ASSUMED
    between = sum(each.between for each in spreads) / between_degrees
    within = sum(each.within for each in spreads) / within_degrees
    size = sum(each.number - each.cluster_size for each in spreads) / between_degrees
    total = between + (size - 1.0) * within
    return min(max((between - within) / total, 0.0), 1.0) if total > 0 else 0.0
