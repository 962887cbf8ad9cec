"""Compare the survival curve with a slow textbook version, and its limits with known values."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm

from fleet_learner.estimates.kaplan_meier import beta_product_upper, kaplan_meier, log_log_band, upper_quantile_ms
from fleet_learner.estimates.tolerance import order_statistic_bound_ms

GAPS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=60)


def textbook(gaps: list[tuple[int, bool]]) -> list[tuple[float, float, float]]:
    """(time, survival, Greenwood's sum) at each return, by the definition of Kaplan & Meier 1958, one time at a
    time."""
    rows = []
    survival, greenwood = 1.0, 0.0
    for time in sorted({gap for gap, ended in gaps if ended}):
        at_risk = sum(1 for gap, _ in gaps if gap >= time)
        returned = sum(1 for gap, ended in gaps if gap == time and ended)
        survival *= 1 - returned / at_risk
        left = at_risk - returned
        greenwood += returned / (at_risk * left) if left else math.inf
        rows.append((float(time), survival, greenwood))
    return rows


def arrays(gaps: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(gap) for gap, _ in gaps]), np.array([ended for _, ended in gaps])


@given(GAPS)
def test_the_curve_equals_the_textbook(gaps: list[tuple[int, bool]]) -> None:
    """To 1e-12, with ties, censored ends and a curve that ends at zero."""
    curve = kaplan_meier(*arrays(gaps))
    expected = textbook(gaps)
    assert curve.times_ms.tolist() == [row[0] for row in expected]
    np.testing.assert_allclose(curve.survival, [row[1] for row in expected], rtol=0, atol=1e-12)
    np.testing.assert_allclose(curve.variance_sum, [row[2] for row in expected], rtol=1e-12)


@given(GAPS, st.integers(1, 4))
def test_weights_count_like_copies(gaps: list[tuple[int, bool]], copies: int) -> None:
    gaps_ms, ended = arrays(gaps)
    weighted = kaplan_meier(gaps_ms, ended, np.full(gaps_ms.size, float(copies)))
    copied = kaplan_meier(np.repeat(gaps_ms, copies), np.repeat(ended, copies))
    np.testing.assert_allclose(weighted.survival, copied.survival, atol=1e-12)
    np.testing.assert_allclose(weighted.variance_sum, copied.variance_sum, rtol=1e-9)


@given(GAPS, st.floats(0, 60))
def test_the_integral_is_the_area_under_the_steps(gaps: list[tuple[int, bool]], until: float) -> None:
    """Restricted mean: ∫₀ᵗ S(u) du, by a fine sum over the steps."""
    curve = kaplan_meier(*arrays(gaps))
    edges = np.unique(np.concatenate(([0.0, until], curve.times_ms[curve.times_ms < until])))
    area = sum(float(curve.at(left)) * (right - left) for left, right in pairwise(edges))
    assert float(curve.integral_ms(until)) == pytest.approx(area, abs=1e-9)


@given(GAPS)
def test_the_band_is_the_log_log_formula(gaps: list[tuple[int, bool]]) -> None:
    """S^exp(±z·se) with se = √Σ/|ln S| (Kalbfleisch & Prentice), where 0 < S < 1."""
    curve = kaplan_meier(*arrays(gaps))
    lower, upper = log_log_band(curve, 0.8, design_effect=2.0)
    z = norm.ppf(0.9)
    for at, low, high in zip(textbook(gaps), lower, upper, strict=True):
        _, survival, greenwood = at
        assert low <= survival + 1e-12 <= high + 2e-12
        if 0 < survival < 1:
            error = z * math.sqrt(2 * greenwood) / abs(math.log(survival))
            assert low == pytest.approx(survival ** math.exp(error), abs=1e-12)
            assert high == pytest.approx(survival ** math.exp(-error), abs=1e-12)


@pytest.mark.parametrize("number", [5, 40, 300])
def test_without_censoring_the_beta_product_is_clopper_and_pearson(number: int) -> None:
    """Fay, Brittain & Proschan 2013, §2.3: the procedure reduces to the exact binomial limit."""
    curve = kaplan_meier(np.arange(1.0, number + 1), np.ones(number, dtype=bool))
    returned = np.arange(1, number + 1)
    exact = beta.ppf(0.9, number - returned + 1, returned)
    np.testing.assert_allclose(beta_product_upper(curve, 0.9), exact, rtol=1e-8)


@pytest.mark.parametrize("number", [229, 230, 500, 1000])
def test_without_censoring_the_bound_is_the_order_statistic(number: int) -> None:
    """Two ways to the same distribution-free bound; below 230 stops there is none (Hahn & Meeker §5.2)."""
    rng = np.random.Generator(np.random.Philox(key=[7, number]))
    gaps = rng.lognormal(10, 0.5, number)
    own = upper_quantile_ms(kaplan_meier(gaps, np.ones(number, dtype=bool)), 0.99, 0.9)
    assert own == order_statistic_bound_ms(gaps, 0.99, 0.9)
    assert math.isinf(own) == (number < 230)


def test_a_share_that_never_returns_levels_off() -> None:
    """S stays at π; no quantile beyond it exists (design: a cure model needs no law)."""
    gaps = np.concatenate((np.full(90, 20_000.0), np.full(10, 600_000.0)))
    curve = kaplan_meier(gaps, gaps < 100_000)
    assert float(curve.at(500_000.0)) == pytest.approx(0.1)
    assert curve.quantile_ms(0.9) == 20_000.0
    assert math.isinf(curve.quantile_ms(0.95))


@pytest.mark.parametrize(("gaps", "ended"), [([-1.0], [True]), ([math.nan], [True]), ([1.0, 2.0], [True])])
def test_impossible_stops_are_refused(gaps: list[float], ended: list[bool]) -> None:
    """A negative gap is a fault of the data before, never a short restart."""
    with pytest.raises(ValueError, match="gap"):
        kaplan_meier(np.array(gaps), np.array(ended))


def test_no_stop_gives_a_curve_without_steps() -> None:
    curve = kaplan_meier(np.array([]), np.array([], dtype=bool))
    assert (float(curve.at(1e9)), curve.last_ms) == (1.0, 0.0)
