"""Simulated timeouts against the closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fleet_learner.estimates.cost import CostRates, cost_per_day, evictions_per_day, ghost_seconds_per_day
from fleet_learner.estimates.laws import LognormalLaw, MixtureLaw, NeverLaw
from fleet_learner.what_if import gap_table_ms, rates_of, simulate

LAW = LognormalLaw(mean=math.log(25_000), deviation=0.6)
RATES = CostRates(
    stops_per_day=36.0,
    member_partitions=4.0,
    eviction_partition_seconds=384.0,
    heartbeat_interval_ms=3_000.0,
    dead_share=0.05,
    operator_availability=0.9,
)
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


def test_a_member_that_never_returns_is_always_late() -> None:
    """Its place is kept for the whole timeout."""
    law = MixtureLaw((0.8, 0.2), (LAW, NeverLaw()))
    gaps = gap_table_ms(law, 1_800_000.0)
    assert np.isinf(gaps).mean() == pytest.approx(0.2, abs=1e-3)
    prices = replace(RATES, dead_share=0.0)
    found = simulate("k", "g", gaps, prices, np.array([1_700_000.0]), replicates=400)
    mean, error = found.mean_and_error("evictions_per_day")
    assert abs(float(mean[0]) - 0.2 * 36) < 4 * float(error[0])


def test_all_timeouts_see_the_same_gaps() -> None:
    """A timeout's figures do not depend on which others are asked for, and evictions fall with it in every replicate."""
    gaps = gap_table_ms(LAW, 1_800_000.0)
    every = simulate("k", "g", gaps, RATES, TIMEOUTS, replicates=50)
    one = simulate("k", "g", gaps, RATES, TIMEOUTS[4:5], replicates=50)
    np.testing.assert_allclose(every.evictions_per_day[:, 4], one.evictions_per_day[:, 0])
    np.testing.assert_allclose(every.ghost_seconds_per_day[:, 4], one.ghost_seconds_per_day[:, 0], rtol=1e-12)
    assert np.all(np.diff(every.evictions_per_day, axis=1) <= 0)


def test_groups_differ_and_repeat() -> None:
    """The key is the seed and the group, whatever process asks."""
    gaps = gap_table_ms(LAW, 1_800_000.0)
    first, again, other, reseeded = (
        simulate("k", name, gaps, RATES, TIMEOUTS, replicates=5, seed=seed).cost_per_day
        for name, seed in (("a", 0), ("a", 0), ("b", 0), ("a", 1))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, reseeded)


def test_a_timeout_below_a_heartbeat_interval_is_refused() -> None:
    """No client could hold it."""
    with pytest.raises(ValueError, match="below the heartbeat interval"):
        simulate("k", "g", np.array([1_000.0]), RATES, np.array([2_000.0]))


def test_no_stops_cost_nothing() -> None:
    """A group that never restarts."""
    quiet = simulate("k", "g", np.array([1_000.0]), replace(RATES, stops_per_day=0.0), TIMEOUTS, replicates=3)
    assert not quiet.cost_per_day.any()


def test_rates_of_a_group_that_does_not_exist_yet() -> None:
    """12 members, 3 deploys a day, 0.02 failures of a member a day."""
    prices = rates_of(
        members=12, partitions=48, deploys_per_day=3, failures_per_member_day=0.02, eviction_partition_seconds=384
    )
    assert prices.stops_per_day == pytest.approx(36.24)
    assert prices.rent_or_buy_ms == 96_000
