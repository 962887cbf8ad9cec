"""The generalised Pareto tail of a class."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import genpareto

from fleet_learner.estimates.tail import SHAPE_MAX, SHAPE_MIN, ParetoTail, fit_tail, pareto_moments


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.3, 0.6])
def test_the_law_is_recovered(shape: float) -> None:
    """Hosking & Wallis 1987, on 200 000 excesses."""
    rng = np.random.Generator(np.random.Philox(key=[21, int(100 * shape) % 1000]))
    excesses = genpareto.ppf(rng.random(200_000), shape, scale=5_000.0)
    found_shape, found_scale = pareto_moments(excesses)
    assert found_shape == pytest.approx(shape, abs=0.03)
    assert found_scale == pytest.approx(5_000.0, rel=0.03)


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.4])
def test_exceedance_is_the_law_and_quantile_its_inverse(shape: float) -> None:
    """x_p = u + σ/ξ·(((n/N_u)·p)^−ξ − 1), against SciPy's law."""
    tail = ParetoTail(threshold_ms=60_000.0, shape=shape, scale_ms=9_000.0, number=5_000, share=0.1)
    times = np.array([60_000.0, 70_000.0, 90_000.0])
    expected = 0.1 * genpareto.sf(times - 60_000.0, shape, scale=9_000.0)
    np.testing.assert_allclose(tail.exceedance(times), expected, rtol=1e-9)
    quantile = tail.quantile_ms(0.01)
    assert float(tail.exceedance(quantile)) == pytest.approx(0.01, rel=1e-9)


def test_it_is_not_asked_beyond_the_data() -> None:
    """Not below 1/(10 n), not above the threshold's own share."""
    tail = ParetoTail(threshold_ms=1.0, shape=0.1, scale_ms=1.0, number=1_000, share=0.1)
    assert tail.quantile_ms(0.11) is None
    assert tail.quantile_ms(0.99e-4) is None
    assert tail.quantile_ms(1.01e-4) is not None


def test_fifty_excesses_are_needed_and_the_shape_is_clipped() -> None:
    """450 gaps have 45 above their 90th percentile."""
    rng = np.random.Generator(np.random.Philox(key=[22, 0]))
    assert fit_tail(rng.lognormal(10, 0.5, 450)) is None
    wild = fit_tail((1 - rng.random(5_000)) ** -1.5)
    tame = fit_tail(rng.random(5_000) ** 0.1)
    assert (wild.shape, tame.shape) == (SHAPE_MAX, SHAPE_MIN)


def test_cut_off_ends_are_made_up_for() -> None:
    """Half of the gaps above the mean are cut off; the ended ones alone put the far tail much too low."""
    rng = np.random.Generator(np.random.Philox(key=[23, 0]))
    gaps = 30_000 * (1 - rng.random(40_000)) ** -0.4
    limits = rng.exponential(150_000.0, 40_000)
    seen, ended = np.minimum(gaps, limits), gaps <= limits
    truth = 30_000 * 0.01**-0.4
    weighted, naive = fit_tail(seen, ended), fit_tail(seen[ended])
    assert weighted.quantile_ms(0.01) == pytest.approx(truth, rel=0.06)
    assert naive.quantile_ms(0.01) < 0.85 * truth  # type: ignore[operator]
