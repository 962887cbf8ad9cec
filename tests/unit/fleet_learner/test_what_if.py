"""Simulated timeouts against the closed form."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import poisson

from fleet_learner.estimates.cost import CostRates, cost_per_day, evictions_per_day, ghost_seconds_per_day
from fleet_learner.estimates.laws import LognormalLaw, MixtureLaw, NeverLaw
from fleet_learner.recommendations import what_if
from fleet_learner.recommendations.what_if import gap_table_ms, rates_of, simulate, weekly_evictions

LAW = LognormalLaw(mean=math.log(25_000), deviation=0.6)
RATES = CostRates(
    stops_per_day=36.0, member_partitions=4.0, eviction_partition_seconds=384.0, heartbeat_interval_ms=3_000.0,
    dead_share=0.05, operator_availability=0.9,
)  # fmt: skip
TIMEOUTS = np.array([3_000.0, 6_000.0, 10_000.0, 30_000.0, 45_000.0, 60_000.0, 120_000.0, 300_000.0])
MEASURES = {
    "evictions_per_day": evictions_per_day,
    "ghost_seconds_per_day": ghost_seconds_per_day,
    "cost_per_day": cost_per_day,
}


@pytest.mark.parametrize("measure", list(MEASURES))
def test_the_simulation_agrees_with_the_closed_form(measure: str) -> None:
    """|simulated − C(T)| < 3 standard errors at every timeout, from one heartbeat interval to 5 min."""
    found = simulate("k", "g", gap_table_ms(LAW, 1_800_000.0), RATES, TIMEOUTS, replicates=2_000)
    mean, error = found.mean_and_error(measure)
    formula = MEASURES[measure](LAW, RATES, TIMEOUTS)
    if measure == "evictions_per_day":  # where none was drawn, the sample has no error of its own
        error = np.maximum(error, np.sqrt(formula / (2_000 * 7)))
    assert np.all(np.abs(mean - formula) <= 3 * error), (mean, formula, error)


def test_weeks_spread_as_a_poisson_process_does() -> None:
    """Stops come independently, and each is late or not by itself: evictions of a week are Poisson."""
    found = weekly_evictions("k", "g", LAW, RATES, [45_000, 1_000, 20_000], replicates=4_000)
    assert sorted(found) == [20_000, 45_000], "1 s is below the heartbeat interval"
    for timeout_ms, (low, high) in found.items():
        mean = 7 * float(evictions_per_day(LAW, RATES, np.array([float(timeout_ms)]))[0])
        assert abs(low - poisson.ppf(0.05, mean)) <= 1 + 0.02 * mean
        assert abs(high - poisson.ppf(0.95, mean)) <= 1 + 0.02 * mean
        assert low < mean < high
    assert weekly_evictions("k", "g", LAW, RATES, [1_000]) == {}


def test_a_member_that_never_returns_is_always_late() -> None:
    """The group keeps it for the whole timeout."""
    law = MixtureLaw((0.8, 0.2), (LAW, NeverLaw()))
    gaps = gap_table_ms(law, 1_800_000.0)
    assert np.isinf(gaps).mean() == pytest.approx(0.2, abs=1e-3)
    prices = replace(RATES, dead_share=0.0)
    found = simulate("k", "g", gaps, prices, np.array([1_700_000.0]), replicates=400)
    mean, error = found.mean_and_error("evictions_per_day")
    assert abs(float(mean[0]) - 0.2 * 36) < 4 * float(error[0])


def plainly(
    gaps_ms: NDArray[np.float64], rates: CostRates, timeouts_ms: NDArray[np.float64], replicates: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Judge every gap by every timeout, one after the other: evictions and ghost-seconds per day, (replicates, g)
    each."""
    rng = np.random.Generator(np.random.Philox(key=[0, zlib.crc32(b"k/g")]))
    counts = rng.poisson(rates.stops_per_day * what_if.WEEK_DAYS, replicates)
    rng.poisson(0.0, replicates)
    evictions, ghosts = np.zeros((replicates, timeouts_ms.size)), np.zeros((replicates, timeouts_ms.size))
    for replicate, count in enumerate(counts):
        for drawn in rng.random(count) * gaps_ms.size:
            gap_ms, age_ms = gaps_ms[int(drawn)], (drawn - int(drawn)) * rates.heartbeat_interval_ms
            is_late = gap_ms + age_ms > timeouts_ms
            evictions[replicate] += is_late
            ghosts[replicate] += np.minimum(gap_ms, timeouts_ms - age_ms)
    return evictions / what_if.WEEK_DAYS, ghosts / 1000.0 / what_if.WEEK_DAYS


times = st.floats(min_value=1_000.0, max_value=60_000.0)


@given(
    gaps=st.lists(st.one_of(times, st.just(math.inf)), min_size=1, max_size=7),
    timeouts=st.lists(times, min_size=1, max_size=12), interval_ms=st.floats(min_value=0.0, max_value=1_000.0),
    block_gaps=st.sampled_from([1, 5, 10_000]), stops_per_day=st.sampled_from([0.0, 0.1, 2.0]),
)  # fmt: skip
@settings(deadline=None)
def test_every_gap_is_judged_by_every_timeout(
    gaps: list[float], timeouts: list[float], interval_ms: float, block_gaps: int, stops_per_day: float
) -> None:
    """However close the timeouts are to each other, whatever never returns, and in blocks of any length."""
    prices = replace(RATES, dead_share=0.0, stops_per_day=stops_per_day, heartbeat_interval_ms=interval_ms)
    gaps_ms, timeouts_ms = np.sort(gaps), np.sort(timeouts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(what_if, "BLOCK_GAPS", block_gaps)
        found = simulate("k", "g", gaps_ms, prices, timeouts_ms, replicates=6)
    evictions, ghosts = plainly(gaps_ms, prices, timeouts_ms, 6)
    np.testing.assert_array_equal(found.evictions_per_day, evictions)
    np.testing.assert_allclose(found.ghost_seconds_per_day, ghosts, rtol=1e-9, atol=1e-9)


def test_gaps_that_do_not_ascend_are_refused() -> None:
    """They could not be sorted into the grid at once."""
    with pytest.raises(ValueError, match="do not ascend"):
        simulate("k", "g", np.array([2_000.0, 1_000.0]), RATES, TIMEOUTS)


def test_groups_differ_and_repeat() -> None:
    """The key is the seed and the group, in any process."""
    gaps = gap_table_ms(LAW, 1_800_000.0)
    first, again, other, reseeded = (
        simulate("k", name, gaps, RATES, TIMEOUTS, replicates=5, seed=seed).cost_per_day
        for name, seed in (("a", 0), ("a", 0), ("b", 0), ("a", 1))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, reseeded)


def test_a_timeout_below_a_heartbeat_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="below the heartbeat interval"):
        simulate("k", "g", np.array([1_000.0]), RATES, np.array([2_000.0]))


def test_rates_of_a_group_that_does_not_exist_yet() -> None:
    """12 members, 3 deploys a day, 0.02 failures of a member a day."""
    prices = rates_of(
        members=12, partitions=48, deploys_per_day=3, failures_per_member_day=0.02, eviction_partition_seconds=384
    )
    assert prices.stops_per_day == pytest.approx(36.24)
    assert prices.rent_or_buy_ms == 96_000
