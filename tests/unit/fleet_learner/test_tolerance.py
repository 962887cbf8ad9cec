"""Bounds of a high quantile: their ranks by the definition, their factors by the tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fleet_learner.estimates.tolerance import (
    lognormal_bound_ms,
    order_statistic_bound_ms,
    order_statistic_rank,
    stops_needed,
)


@pytest.mark.parametrize(("confidence", "number"), [(0.9, 230), (0.95, 299)])
def test_a_distribution_free_bound_of_the_99th_percentile_needs_so_many(confidence: float, number: int) -> None:
    """Hahn & Meeker §5.2: n ≥ ln α / ln q."""
    assert stops_needed(0.99, confidence) == number
    assert order_statistic_rank(number - 1, 0.99, confidence) is None
    assert order_statistic_rank(number, 0.99, confidence) == number


@given(st.integers(1, 3000), st.sampled_from([0.8, 0.9, 0.99]), st.sampled_from([0.5, 0.9, 0.95]))
def test_the_rank_is_the_smallest_that_is_a_bound(number: int, share: float, confidence: float) -> None:
    """min r with P(Bin(n, q) ≤ r − 1) ≥ 1 − α."""
    rank = order_statistic_rank(number, share, confidence)
    if rank is None:
        assert binom.cdf(number - 1, number, share) < confidence
        return
    assert binom.cdf(rank - 1, number, share) >= confidence - 1e-12
    assert rank == 1 or binom.cdf(rank - 2, number, share) < confidence


def test_the_lognormal_factor_is_the_one_of_the_tables() -> None:
    """k = 2.911 for n = 10, 95 % of the law at 95 % confidence (Hahn & Meeker, table A.12)."""
    logs = np.array([-1.5, -1.0, -0.7, -0.3, -0.1, 0.1, 0.3, 0.7, 1.0, 1.5])
    bound = lognormal_bound_ms(np.exp(10 + logs), 0.95, 0.95)
    assert (math.log(bound) - 10) / logs.std(ddof=1) == pytest.approx(2.911, abs=5e-4)


def test_correlated_stops_count_less() -> None:
    """500 stops with a design effect of 2 are 250: the bound is a higher order statistic, and 400 are too few."""
    gaps = np.arange(1.0, 501.0)
    assert order_statistic_bound_ms(gaps, 0.99, 0.9) < order_statistic_bound_ms(gaps, 0.99, 0.9, design_effect=2.0)
    assert math.isinf(order_statistic_bound_ms(gaps[:400], 0.99, 0.9, design_effect=2.0))


def test_too_few_stops_have_no_bound() -> None:
    assert math.isinf(lognormal_bound_ms(np.array([1.0]), 0.99, 0.9))
