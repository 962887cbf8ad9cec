"""Slower restarts are detected, with few false alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fleet_learner.estimates.drift import (
    THRESHOLD,
    age_weights,
    average_run_length,
    cusum,
    effective_number,
    rollout_means,
    slower_since,
)


@given(arrays(np.float64, st.integers(0, 50), elements=st.floats(-10, 10)))
def test_the_sum_is_pages_recursion(values: np.ndarray) -> None:
    """S_i = max(0, S_{i−1} + z_i − k) (Page 1954)."""
    expected, state = [], 0.0
    for value in values.tolist():
        state = max(0.0, state + value - 0.5)
        expected.append(state)
    np.testing.assert_allclose(cusum(values), expected, atol=1e-9)


def test_the_run_length_is_that_of_the_tables() -> None:
    """One-sided, k = 0.5, h = 5: 930 in control, 10.4 after a shift of one deviation (Montgomery, table 9.3: 2 ×
    465)."""
    assert average_run_length() == pytest.approx(930, rel=0.02)
    assert average_run_length(shift=1.0) == pytest.approx(10.4, abs=0.15)


@pytest.mark.parametrize(("shift", "length"), [(0.0, 10_000), (1.0, 120)])
def test_the_run_length_is_what_simulation_finds(shift: float, length: int) -> None:
    """2000 workloads whose mean and deviation are known: within three Monte Carlo errors and Siegmund's own 2 %."""
    rng = np.random.Generator(np.random.Philox(key=[33, length]))
    first = []
    for _ in range(2000):
        sums = cusum(rng.standard_normal(length) + shift)
        assert np.any(sums > THRESHOLD) or shift == 0
        first.append(int(np.argmax(sums > THRESHOLD)) + 1 if np.any(sums > THRESHOLD) else length)
    error = float(np.std(first)) / math.sqrt(len(first))
    assert abs(float(np.mean(first)) - average_run_length(shift=shift)) <= 3 * error + 0.02 * average_run_length(
        shift=shift
    )


def test_a_slow_image_is_found_soon_with_its_begin() -> None:
    """Gaps 1.5 times as long, rollouts' means ±0.2 in the logarithm: two deviations."""
    rng = np.random.Generator(np.random.Philox(key=[32, 0]))
    delays, begins, ratios = [], [], []
    for _ in range(300):
        means = 10 + 0.2 * rng.standard_normal(70)
        means[40:] += math.log(1.5)
        found = slower_since(means, baseline=30)
        if found.alarm >= 40:
            delays.append(found.alarm - 40)
            begins.append(found.begin - 40)
            ratios.append(found.ratio)
    assert len(delays) > 280
    assert np.mean(delays) < 8
    assert abs(float(np.median(begins))) <= 1
    assert np.median(ratios) == pytest.approx(1.5, rel=0.1)


def test_faster_restarts_are_no_alarm() -> None:
    means = np.concatenate((10 + 0.1 * np.sin(np.arange(20.0)), np.full(40, 8.0)))
    assert slower_since(means, baseline=20) is None


def test_too_short_a_past_says_nothing() -> None:
    assert slower_since(np.array([1.0] * 7 + [9.0] * 9), baseline=7) is None


def test_weights_halve_in_a_fortnight() -> None:
    """2^(−age/14 d); n equal weights are worth n, one heavy one little more than 1 (Kish)."""
    assert age_weights(np.array([0.0, 14.0, 28.0])).tolist() == [1.0, 0.5, 0.25]
    assert effective_number(np.full(40, 0.3)) == pytest.approx(40)
    assert effective_number(np.array([1.0, 0.01, 0.01])) == pytest.approx(1.04, abs=0.01)


def test_means_keep_the_order_of_the_rollouts() -> None:
    means = rollout_means(np.array([1.0, 3.0, 10.0, 20.0]), np.array([9, 9, 2, 2]))
    assert means.tolist() == [2.0, 15.0]
