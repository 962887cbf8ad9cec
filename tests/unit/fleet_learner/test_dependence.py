"""The correlation of the stops of a rollout."""

from __future__ import annotations

import numpy as np
import pytest

from fleet_learner.estimates.dependence import CORRELATION_ASSUMED, intraclass_correlation, spread


def correlated(rollouts: int, size: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    shared = np.repeat(rng.standard_normal(rollouts), size)
    return np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.standard_normal(rollouts * size), np.repeat(
        np.arange(rollouts), size
    )


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7])
def test_the_correlation_is_found(rho: float) -> None:
    """Analysis of variance (Donner & Koval 1980); error of 2000 rollouts of 5 is below 0.02."""
    assert intraclass_correlation([spread(*correlated(2000, 5, rho, 1))]) == pytest.approx(rho, abs=0.04)


def test_workloads_with_two_rollouts_each_add_up() -> None:
    """One workload tells nothing, a class of 500 does; their different means do not look like correlation."""
    parts = []
    for seed in range(500):
        values, cluster = correlated(2, 6, 0.4, 100 + seed)
        parts.append(spread(values + 3 * seed, cluster))
    assert intraclass_correlation(parts) == pytest.approx(0.4, abs=0.08)


def test_one_rollout_each_leaves_it_open() -> None:
    """Without a second rollout the correlation cannot be estimated: the assumed one is used."""
    assert intraclass_correlation([spread(*correlated(1, 8, 0.4, seed)) for seed in range(20)]) == CORRELATION_ASSUMED


def test_stops_outside_rollouts_are_independent() -> None:
    part = spread(np.arange(10.0), np.arange(10))
    assert intraclass_correlation([part]) == 0.0
    assert (part.design_effect(0.5), part.degrees(0.5), part.variance_factor(0.5)) == (1.0, 9.0, 1.0)


def test_the_design_effect_is_the_variance_of_the_mean() -> None:
    """Kish: Var(mean) = σ²/n · (1 + (m−1)ρ), seen over 4000 samples."""
    samples = [correlated(4, 10, 0.5, 1000 + seed) for seed in range(4000)]
    seen = np.var([values.mean() for values, _ in samples]) * 40
    part = spread(*samples[0])
    assert part.design_effect(0.5) == 5.5
    assert seen == pytest.approx(5.5, rel=0.1)
    mean_square = np.mean([values.var(ddof=1) for values, _ in samples])
    assert mean_square * part.variance_factor(0.5) == pytest.approx(1.0, rel=0.05)
