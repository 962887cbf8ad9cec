"""Partial pooling: what it learns, what it gives back, and that its bound covers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import polygamma
from scipy.stats import norm

from fleet_learner.estimates.pooling import ClassPrior, Posterior, censored_log_moments, class_prior, posterior

PRIOR = ClassPrior(degrees=8.0, variance=0.25, mean=10.0, mean_variance=0.16, workloads=100)


def test_the_class_is_recovered() -> None:
    """4000 workloads of 8 gaps from a known class (Smyth 2004: d₀, s₀²; Paule & Mandel: τ²)."""
    rng = np.random.Generator(np.random.Philox(key=[11, 0]))
    variances = 0.25 * 8.0 / rng.chisquare(8.0, 4000)
    means = 10.0 + 0.4 * rng.standard_normal(4000)
    logs = means[:, None] + np.sqrt(variances)[:, None] * rng.standard_normal((4000, 8))
    prior = class_prior(np.full(4000, 8.0), logs.mean(axis=1), logs.var(axis=1, ddof=1))
    assert prior.degrees == pytest.approx(8.0, rel=0.15)
    assert prior.variance == pytest.approx(0.25, rel=0.05)
    assert prior.mean == pytest.approx(10.0, abs=0.03)
    assert prior.mean_variance == pytest.approx(0.16, rel=0.1)


def test_equal_workloads_need_no_own_variance() -> None:
    """When variances differ no more than chance allows, d₀ is without limit."""
    rng = np.random.Generator(np.random.Philox(key=[12, 0]))
    logs = 10.0 + 0.5 * rng.standard_normal((3000, 6))
    prior = class_prior(np.full(3000, 6.0), logs.mean(axis=1), logs.var(axis=1, ddof=1))
    assert prior.degrees > 100
    assert prior.mean_variance < 0.005


@pytest.mark.parametrize("value", [1e-4, 0.03, 1.0, 25.0])
def test_trigamma_is_inverted(value: float) -> None:
    """ψ'(x) = value, by way of a class whose log variances spread just so."""
    from fleet_learner.estimates.pooling import _inverse_trigamma

    assert float(polygamma(1, _inverse_trigamma(value))) == pytest.approx(value, rel=1e-6)


def test_no_gaps_give_the_class_and_many_give_the_workload() -> None:
    none = posterior(PRIOR, 0.0, math.nan, 0.0)
    assert (none.mean, none.mean_variance, none.variance, none.degrees) == (10.0, 0.16, 0.25, 8.0)
    many = posterior(PRIOR, 1e6, 12.0, 0.09)
    assert many.mean == pytest.approx(12.0, abs=1e-4)
    assert many.variance == pytest.approx(0.09, rel=1e-4)
    few = posterior(PRIOR, 5.0, 12.0, 0.09)
    assert 10.0 < few.mean < 12.0
    assert 0.09 < few.variance < 0.25


@pytest.mark.parametrize("number", [0.0, 3.0, 30.0])
def test_bound_and_prediction_agree_with_draws(number: float) -> None:
    """The quadrature over σ against 400 000 draws of the posterior (5 s.e.)."""
    known = posterior(PRIOR, number, 10.3, 0.2)
    rng = np.random.Generator(np.random.Philox(key=[13, int(number)]))
    sigma = np.sqrt(known.degrees * known.variance / rng.chisquare(known.degrees, 400_000))
    mean = known.mean + math.sqrt(known.mean_variance) * rng.standard_normal(400_000)
    bound = known.quantile_bound_ms(0.99, 0.9)
    assert (mean + norm.ppf(0.99) * sigma <= math.log(bound)).mean() == pytest.approx(0.9, abs=0.004)
    gaps = np.exp(mean + sigma * rng.standard_normal(400_000))
    for time in (10_000.0, 30_000.0, 80_000.0):
        assert float(known.survival(time)) == pytest.approx((gaps > time).mean(), abs=0.004)


def test_the_prediction_has_a_heavier_tail_than_its_centre() -> None:
    """The uncertainty of mean and deviation adds risk."""
    known = posterior(PRIOR, 4.0, 10.0, 0.25)
    plugged = 1 - norm.cdf((math.log(200_000.0) - known.mean) / math.sqrt(known.variance))
    assert float(known.survival(200_000.0)) > 2 * plugged


def test_censored_moments_are_the_maximum_likelihood() -> None:
    """Against a numerical maximum of the censored normal likelihood; the variance with its n−1 factor taken off."""
    rng = np.random.Generator(np.random.Philox(key=[14, 0]))
    logs = 10 + 0.5 * rng.standard_normal(60)
    limit = 10.2 + 0.4 * rng.standard_normal(60)
    ended, seen = logs <= limit, np.minimum(logs, limit)

    def loss(at: np.ndarray) -> float:
        scaled = (seen - at[0]) / math.exp(at[1])
        return -float(np.where(ended, norm.logpdf(scaled) - at[1], norm.logsf(scaled)).sum())

    best = minimize(loss, x0=np.array([10.0, -0.7]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    number, mean, variance = censored_log_moments(np.exp(seen), ended)
    assert mean == pytest.approx(best.x[0], abs=1e-4)
    assert math.sqrt(variance * (number - 1) / number) == pytest.approx(math.exp(best.x[1]), rel=1e-3)
    assert ended.sum() < number < 60


def test_nothing_ended_says_so() -> None:
    number, mean, _ = censored_log_moments(np.array([1000.0, 2000.0]), np.array([False, False]))
    assert number == 0
    assert math.isnan(mean)
    assert class_prior(np.array([5.0, 5.0]), np.array([1.0, 2.0]), np.array([0.1, 0.1])) is None


def test_posterior_is_total() -> None:
    """One gap has a mean and no variance of its own."""
    known = posterior(PRIOR, 1.0, 11.0, 0.0)
    assert isinstance(known, Posterior)
    assert known.variance == pytest.approx(0.25)
    assert math.isfinite(known.quantile_bound_ms(0.99, 0.9))
