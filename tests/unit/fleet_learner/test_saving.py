"""The saving of a change: under the same laws before and after, including the price's uncertainty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.estimates.class_sums import class_model
from fleet_learner.estimates.cost import cost_per_day, dynamic_cost_per_day, evictions_per_day, ghost_seconds_per_day
from fleet_learner.estimates.gap_law import LawEstimate, estimate_law
from fleet_learner.estimates.laws import Law
from fleet_learner.estimates.price import Price
from fleet_learner.recommendations.group_history import GroupHistory
from fleet_learner.recommendations.recommend import HORIZON_MS
from fleet_learner.recommendations.saving import saving
from journal.recommendations import PriceSource
from journal.recommendations import RecommendationReason as Reason
from unit.fleet_learner import group_histories
from unit.fleet_learner.group_histories import STATED, recommended, sample

MEASURED = Price(seconds=4.0, lower_seconds=1.0, upper_seconds=9.0, source=PriceSource.MEASURED, rebalances=12)


def history(price: Price = STATED, stops: int = 600, **changes: object) -> GroupHistory:
    return group_histories.history(price=price, sample=sample(stops), **changes)


def estimated(known: GroupHistory) -> tuple[LawEstimate, Law]:
    estimate = estimate_law(known.sample, class_model([known.sample]), horizon_ms=HORIZON_MS)
    return estimate, estimate.drawn(np.random.Generator(np.random.Philox(key=3)))


def test_the_value_is_the_difference_of_both_costs() -> None:
    known = history()
    estimate, laws = estimated(known)
    costs = cost_per_day(estimate.law, known.rates, np.array([45_000.0, 90_000.0]))
    found = saving(known, estimate, laws, from_ms=45_000, to_ms=90_000, is_dynamic=False)
    assert found.value == pytest.approx(float(costs[0] - costs[1]), abs=1e-3)
    dynamic = saving(known, estimate, laws, from_ms=45_000, to_ms=90_000, is_dynamic=True)
    assert dynamic.value == pytest.approx(float(costs[0]) - dynamic_cost_per_day(estimate.law, known.rates), abs=1e-3)


def test_a_price_that_is_known_less_well_makes_the_interval_wider() -> None:
    """At the ends of its own interval the price makes another saving of the same evictions."""
    found = []
    for price in (STATED, MEASURED):
        known = history(price)
        estimate, laws = estimated(known)
        found.append(saving(known, estimate, laws, from_ms=45_000, to_ms=90_000, is_dynamic=False))
    stated, measured = found
    at = np.array([45_000.0, 90_000.0])
    evictions = evictions_per_day(estimate.law, known.rates, at)
    waiting = ghost_seconds_per_day(estimate.law, known.rates, at) * known.rates.member_partitions
    dearest = 9 / 4 * known.rates.eviction_partition_seconds * (evictions[0] - evictions[1]) + waiting[0] - waiting[1]
    assert measured.lower < stated.lower < stated.upper < measured.upper
    assert measured.upper >= dearest


@settings(max_examples=20, deadline=None)
@given(st.integers(9_000, 600_000), st.integers(9_000, 600_000), st.booleans())
def test_the_way_back_costs_what_the_way_there_saves(one: int, other: int, is_measured: bool) -> None:
    known = history(MEASURED if is_measured else STATED, stops=300)
    estimate, laws = estimated(known)
    there = saving(known, estimate, laws, from_ms=one, to_ms=other, is_dynamic=False)
    back = saving(known, estimate, laws, from_ms=other, to_ms=one, is_dynamic=False)
    assert there.lower <= there.value <= there.upper
    assert back.value == pytest.approx(-there.value, abs=1e-3)
    assert back.lower == pytest.approx(-there.upper, rel=1e-6, abs=1e-3)
    assert back.upper == pytest.approx(-there.lower, rel=1e-6, abs=1e-3)


def test_without_a_known_price_nothing_is_said() -> None:
    known = history(Price.given(4.0, is_stated=False))
    estimate, laws = estimated(known)
    assert saving(known, estimate, laws, from_ms=45_000, to_ms=90_000, is_dynamic=False) is None
    assert saving(history(), estimate, laws, from_ms=None, to_ms=90_000, is_dynamic=False) is None
    assert saving(history(), None, None, from_ms=45_000, to_ms=90_000, is_dynamic=False) is None


def test_a_record_tells_what_its_advice_saves() -> None:
    cheap, dear = recommended(history(), history(Price.given(0.3, is_stated=True), group_id="cheap", stopped_share=1 / 12))
    assert Reason.USE_DYNAMIC in cheap.reasons
    assert cheap.saved_partition_seconds_per_day.lower > 0.9 * cheap.before.cost_partition_seconds_per_day.value - 100
    saved = dear.before.cost_partition_seconds_per_day.value - dear.after.cost_partition_seconds_per_day.value
    assert dear.saved_partition_seconds_per_day.value == pytest.approx(saved, abs=1e-3)
    assert dear.saved_partition_seconds_per_day.lower > 0
