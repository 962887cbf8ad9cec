"""Who decides on the session timeout: the spec, the fleet, what was measured here, or the pod template; and how a group's is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.recommendations import Setting
from staticgroup.api.reasons import Reason
from staticgroup.api.resources.staticgroup import SessionTimeout
from staticgroup.api.resources.status import TimeoutSource
from staticgroup.core import protocols
from staticgroup.core.timeouts.desired import LOWER_AFTER_S, Advice, Basis, TimeoutHysteresis
from staticgroup.core.timeouts.in_force import TimeoutPlan
from support.bounds import broker_bounds
from support.recommendations import advice, advices

from .builders import workload
from .test_timeouts import AUTO, WIDE, bounds_ms, session_timeouts
from .timeouts import fleet_ms, rollouts, timeout_of

STRUCTURAL_NEED_MS = 73_000
"""Of `builders.workload`: 30 + 20 + 20 + 3 s."""
STALE = Advice(reason=Reason.RECOMMENDATION_STALE, cause="the snapshot has expired")


def rests_on(stops: int) -> Advice:
    advised = advice()
    assert advised.record is not None
    return replace(advised, record=replace(advised.record, stops=stops))


def chosen(*lengths_ms: int, spec: SessionTimeout = AUTO, bounds: Any = WIDE, **world: Any) -> TimeoutPlan:
    return timeout_of(spec, workload(2), protocols.CLASSIC, bounds, absences=rollouts(*lengths_ms), **world)


def test_enough_measured_absences_take_the_place_of_a_longer_estimate() -> None:
    """Six of at most 48 s: 48 x 7/6 + 3 s, and half as much again, rounded up to 5 s."""
    t = chosen(20_000, 30_000, 48_000, 25_000, 26_000, 27_000)
    assert (t.desired.need_ms, t.inject_ms) == (59_000, 90_000)
    assert (t.desired.source, t.desired.basis, t.desired.samples) == (TimeoutSource.STRUCTURAL, Basis.LONGEST_ABSENCE, 6)
    assert "the longest of 6 measured absences (Rollout), 48000 ms, stretched to 59000 ms" in t.desired.why
    assert t.reason is Reason.TIMEOUT_FITS


@pytest.mark.parametrize(
    ("longest_ms", "expected_ms"),
    [
        (32_000, 60_000),  # 32 x 7/6 + 3 s, and half as much again, are 60.5 s: up to 65 s were more than 64
        (33_000, 65_000),
    ],
)
def test_rounding_up_carries_no_value_beyond_twice_the_longest_absence(longest_ms: int, expected_ms: int) -> None:
    spec = AUTO.model_copy(update={"min_seconds": 1})
    assert chosen(5_000, 5_000, 5_000, 5_000, 5_000, longest_ms, spec=spec).inject_ms == expected_ms


def test_rounding_down_to_twice_the_longest_absence_never_undercuts_the_need() -> None:
    """Twice the longest of 2.3 s is less than the first step of 5 s."""
    assert chosen(*[50] * 98, 2_300).desired.target_ms == 4_575


def test_few_short_absences_leave_the_estimate_and_say_so() -> None:
    t = chosen(20_000, 21_000)
    assert (t.desired.need_ms, t.inject_ms, t.desired.basis, t.desired.hysteresis) == (STRUCTURAL_NEED_MS, 110_000, Basis.STRUCTURAL, None)
    assert "2 measured absences are fewer than 5" in t.desired.why


def test_one_long_absence_is_more_than_the_estimate_at_once() -> None:
    t = chosen(100_000)
    assert (t.desired.need_ms, t.inject_ms, t.desired.basis, t.desired.samples) == (203_000, 305_000, Basis.FEW_ABSENCES, 1)


def test_bounds_of_spec_and_brokers_cut_what_was_measured_and_name_what_to_raise() -> None:
    slow = [200_000] * 10
    narrow = broker_bounds(classic_min_ms=6_000, classic_max_ms=120_000)
    t = chosen(*slow, bounds=narrow)
    assert (t.inject_ms, t.reason) == (120_000, Reason.TIMEOUT_BELOW_NEED)
    assert "raise group.max.session.timeout.ms on the brokers to at least 223000" in t.message
    spec = SessionTimeout.model_validate({"maxSeconds": 150})
    t = chosen(*slow, spec=spec)
    assert (t.inject_ms, t.reason) == (150_000, Reason.TIMEOUT_BELOW_NEED)
    assert "raise spec.sessionTimeout.maxSeconds to at least 223" in t.message


def test_value_in_use_is_kept_for_a_day_and_said_to_be() -> None:
    quick, before = [20_000] * 10, TimeoutHysteresis(timeout_ms=90_000)
    first = chosen(*quick, in_use=before, now_s=1_000.0)
    assert (first.inject_ms, first.desired.hysteresis) == (90_000, TimeoutHysteresis(timeout_ms=90_000, lower_since_s=1_000.0, lower_ms=37_500))
    assert "90000 ms are kept until less was asked for during a whole day" in first.desired.why
    later = chosen(*quick, in_use=first.desired.hysteresis, now_s=1_000.0 + LOWER_AFTER_S)
    assert (later.inject_ms, later.desired.hysteresis) == (40_000, TimeoutHysteresis(timeout_ms=37_500))


def test_many_absences_bound_their_95th_percentile() -> None:
    """The longest of 100 is an outlier; half of the bound on top of it."""
    lengths = [*range(1_000, 100_000, 1_000), 300_000]
    t = chosen(*lengths)
    assert (t.desired.basis, t.desired.need_ms, t.inject_ms) == (Basis.ORDER_STATISTIC, 102_000, 155_000)
    assert "bounds the 95th percentile of 100 measured absences" in t.desired.why


def test_seconds_are_the_users_number_and_are_judged_by_what_was_measured() -> None:
    spec = SessionTimeout.model_validate({"seconds": 60})
    t = chosen(*[70_000] * 10, spec=spec)
    assert (t.inject_ms, t.desired.source, t.desired.basis, t.reason) == (60_000, TimeoutSource.FIXED, Basis.FIXED, Reason.TIMEOUT_BELOW_NEED)


# the fleet ----------------------------------------------------------------------------------------------------------


def test_fleet_wins_where_more_restarts_are_behind_it() -> None:
    t = chosen(*[40_000] * 10, advice=advice())
    assert (t.desired.source, t.desired.basis, t.inject_ms, t.desired.samples) == (TimeoutSource.FLEET, Basis.FLEET, 60_000, 312)
    assert t.desired.why == "the fleet learner's: 312 restarts are behind it, 10 were measured here"


def test_more_measured_here_than_behind_the_recommendation_wins_and_says_so() -> None:
    few = rests_on(10)
    t = chosen(*[40_000] * 10, advice=few)
    assert (t.desired.source, t.desired.basis, t.inject_ms) == (TimeoutSource.STRUCTURAL, Basis.LONGEST_ABSENCE, 75_000)
    assert t.desired.why.endswith("the recommendation of the fleet learner rests on 10")
    assert t.desired.advice.reason is Reason.RECOMMENDATION_SHOWN
    assert t.desired.advice.cause == "60000 ms are recommended from 10 stops, and 10 absences were measured here"
    assert fleet_ms(t) is None


def test_few_absences_never_outvote_the_fleet() -> None:
    few = rests_on(2)
    assert chosen(40_000, 41_000, 42_000, advice=few).desired.source is TimeoutSource.FLEET


def test_fleets_value_in_use_outlasts_its_record_whatever_was_measured() -> None:
    t = chosen(*[40_000] * 10, advice=STALE, kept_ms=45_000)
    assert (t.desired.source, t.inject_ms) == (TimeoutSource.FLEET, 45_000)


# a group's own setting ------------------------------------------------------------------------------------------------

GROUP = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, consumer_heartbeat_ms=5_000)


def of_group(
    *lengths_ms: int, spec: SessionTimeout = AUTO, bounds: Any = GROUP, writes: bool = True, **world: Any
) -> TimeoutPlan:
    absences = rollouts(*lengths_ms)
    return timeout_of(spec, workload(2), protocols.CONSUMER, bounds, absences=absences, writes=writes, **world)


def test_group_that_may_be_set_gets_what_was_measured_and_is_short_until_then() -> None:
    t = of_group(*[40_000] * 10)
    assert (t.inject_ms, t.brokers.group_ms, t.group_config.target_ms, t.desired.need_ms) == (None, 45_000, 75_000, 49_000)
    assert t.reason is Reason.TIMEOUT_BELOW_NEED
    assert t.message.endswith("the group's session ends after 45000 ms; it is being set to 75000 ms")


def test_group_that_may_not_be_set_is_judged_by_what_was_measured() -> None:
    t = of_group(*[50_000] * 10, writes=False)
    assert (t.group_config.target_ms, t.desired.source, t.desired.basis) == (None, TimeoutSource.BROKER, Basis.GROUP_CONFIG)
    assert t.message.endswith("set consumer.session.timeout.ms=60000 on the group")


def test_brokers_maximum_below_the_need_is_named_with_the_number_to_raise_it_to() -> None:
    low = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=60_000, consumer_session_ms=60_000)
    t = of_group(*[70_000] * 10, bounds=low)
    assert (t.group_config.target_ms, t.reason) == (60_000, Reason.BROKER_BOUND_TOO_LOW)
    assert "raise group.consumer.max.session.timeout.ms on the brokers to at least 82000" in t.message


@pytest.mark.parametrize("hole", ["consumer_min_ms", "consumer_max_ms", "consumer_session_ms"])
def test_nothing_is_set_on_brokers_whose_bounds_or_setting_cannot_be_read(hole: str) -> None:
    read = {"consumer_min_ms": 45_000, "consumer_max_ms": 60_000, "consumer_session_ms": 45_000} | {hole: None}
    t = of_group(*[20_000] * 10, bounds=broker_bounds(**read))
    assert (t.group_config.target_ms, t.reason) == (None, Reason.TIMEOUT_UNKNOWN)


def test_slower_heartbeats_of_the_group_make_the_need_longer() -> None:
    slow = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, consumer_heartbeat_ms=15_000)
    need_ms = of_group(*[40_000] * 10).desired.need_ms
    assert of_group(*[40_000] * 10, bounds=slow).desired.need_ms == need_ms + 10_000


def test_recommendation_is_taken_for_a_group_that_may_be_set_and_kept() -> None:
    advised = advice(setting=Setting.CONSUMER_SESSION_TIMEOUT)
    t = of_group(advice=advised)
    assert (t.desired.source, t.group_config.target_ms, fleet_ms(t)) == (TimeoutSource.FLEET, 60_000, 60_000)
    assert t.desired.advice.reason is Reason.RECOMMENDATION_USED
    kept = of_group(advice=STALE, kept_ms=60_000)
    assert (kept.desired.source, kept.group_config.target_ms) == (TimeoutSource.FLEET, 60_000)


def test_of_several_that_set_one_group_the_longest_wins_within_the_bounds() -> None:
    """Two workloads in one group have one setting; each would undo what the other one has set."""
    quick = [40_000] * 10
    assert of_group(*quick, asked_by_others_ms=91_000).group_config.target_ms == 91_000
    assert of_group(*quick, asked_by_others_ms=61_000).group_config.target_ms == 75_000
    assert of_group(*quick, asked_by_others_ms=900_000).group_config.target_ms == 300_000
    assert of_group(*quick, asked_by_others_ms=91_000, writes=False).group_config.target_ms is None


def test_what_one_wants_by_itself_does_not_depend_on_others_or_on_the_right_to_set_it() -> None:
    quick, narrow = [40_000] * 10, broker_bounds(consumer_min_ms=45_000, consumer_max_ms=60_000, consumer_session_ms=45_000)
    for world in ({}, {"asked_by_others_ms": 91_000}, {"writes": False}, {"bounds": broker_bounds()}):
        assert of_group(*quick, **world).chosen_ms == 75_000
    assert of_group(*quick, spec=SessionTimeout.model_validate({"maxSeconds": 62})).chosen_ms == 62_000
    assert of_group(*quick, bounds=narrow).chosen_ms == 60_000


@settings(deadline=None)
@given(
    asked=session_timeouts, others=st.integers(0, 10**7), bounds=bounds_ms, holds=st.integers(1, 1_800_000), advised=st.none() | advices, kept=st.none() | st.integers(0, 10**7),
    lengths=st.lists(st.integers(0, 900_000), max_size=70),
)  # fmt: skip
def test_whatever_is_known_a_group_is_never_set_outside_the_brokers_bounds(
    asked, others, bounds, holds, advised, kept, lengths
) -> None:
    """IncrementalAlterConfigs answers INVALID_CONFIG outside them."""
    low, high = bounds
    held = broker_bounds(consumer_min_ms=low, consumer_max_ms=high, consumer_session_ms=holds)
    t = of_group(*lengths, spec=asked, bounds=held, advice=advised, kept_ms=kept, asked_by_others_ms=others)
    assert t.group_config.target_ms is not None
    assert low <= t.group_config.target_ms <= high
    assert t.inject_ms is None
    assert (t.reason is Reason.TIMEOUT_FITS) == (t.message == "")
