"""Session timeouts: nothing outside the broker's bounds is ever injected, and nothing at all into KIP-848 clients."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from journal.recommendations import RecommendationReason, Setting
from staticgroup.api.reasons import Reason
from staticgroup.api.resources.staticgroup import SessionTimeout
from staticgroup.api.resources.status import TimeoutSource
from staticgroup.core import protocols
from staticgroup.core.group import BrokerBounds
from staticgroup.core.timeouts.bounds import ASSUMED_MAX_MS, ASSUMED_MIN_MS
from staticgroup.core.timeouts.desired import STEP_MS, Advice, structural_need_ms
from staticgroup.core.workload import ContainerBudget, WorkloadView
from support.bounds import broker_bounds
from support.recommendations import advice, advices, durations_ms

from .builders import workload
from .timeouts import fleet_ms, timeout_of

bounds_ms = st.tuples(st.integers(1, 1_800_000), st.integers(1, 1_800_000)).map(sorted)
session_timeouts = st.one_of(
    st.builds(
        lambda lower, more: SessionTimeout.model_validate(
            {"minSeconds": lower, "maxSeconds": min(1800, lower + more)}
        ),
        st.integers(1, 1800),
        st.integers(0, 1800),
    ),
    st.builds(lambda seconds: SessionTimeout.model_validate({"seconds": seconds}), st.integers(1, 1800)),
)


def workloads_of(longest_s: int) -> st.SearchStrategy[WorkloadView]:
    """Return workloads whose pods take up to twice so long to end and to begin."""
    return st.builds(
        lambda grace, startup, inits: workload(
            2,
            termination_grace_s=grace,
            containers=(ContainerBudget(name="app", startup_budget_s=startup),),
            init_container_count=inits,
        ),
        st.integers(0, longest_s),
        st.one_of(st.none(), st.integers(0, longest_s)),
        st.integers(0, 5),
    )


workloads = workloads_of(3_600)
modest_workloads = workloads_of(60)
"""Restarts that the session timeouts of most brokers and specs outlast."""


@settings(deadline=None)
@given(asked=session_timeouts, view=st.one_of(st.none(), workloads), bounds=bounds_ms)
def test_injected_value_is_always_inside_the_brokers_bounds(asked, view, bounds) -> None:
    """INVALID_SESSION_TIMEOUT kills a classic client at start (GroupCoordinator checks min and max)."""
    low, high = bounds
    chosen = timeout_of(asked, view, protocols.CLASSIC, broker_bounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    assert low <= chosen.inject_ms <= high
    assert chosen.brokers.group_ms is None


@settings(deadline=None)
@given(asked=session_timeouts, view=workloads)
def test_unreadable_bounds_are_assumed_narrow_enough_for_every_vendor(asked, view) -> None:
    chosen = timeout_of(asked, view, protocols.CLASSIC, BrokerBounds())
    assert chosen.inject_ms is not None
    assert ASSUMED_MIN_MS <= chosen.inject_ms <= ASSUMED_MAX_MS
    assert chosen.reason is not Reason.TIMEOUT_FITS


@settings(deadline=None)
@given(
    asked=session_timeouts, view=workloads, session=st.one_of(st.none(), st.integers(1, 3_600_000)), maximum=st.integers(1, 10**7)
)
def test_kip_848_clients_never_get_a_session_timeout(asked, view, session, maximum) -> None:
    """ConsumerConfig refuses session.timeout.ms with group.protocol=consumer: the client would not start."""
    held = broker_bounds(classic_min_ms=1, classic_max_ms=10**6, consumer_session_ms=session, consumer_max_ms=maximum)
    chosen = timeout_of(asked, view, protocols.CONSUMER, held)
    assert chosen.inject_ms is None
    assert chosen.brokers.group_ms == session
    assert chosen.desired.source is TimeoutSource.BROKER


@settings(deadline=None)
@given(asked=session_timeouts, view=workloads, session=st.none() | st.integers(1, 3_600_000), advised=st.none() | advices)
def test_streams_groups_are_judged_by_their_own_setting(asked, view, session, advised) -> None:
    """KIP-1071: streams.session.timeout.ms is a setting of the group, as consumer.session.timeout.ms is."""
    held = broker_bounds(consumer_session_ms=1, streams_session_ms=session, streams_min_ms=1, streams_max_ms=60_000)
    chosen = timeout_of(asked, view, protocols.STREAMS, held, advice=advised)
    assert (chosen.inject_ms, chosen.brokers.group_ms, chosen.brokers.max_ms) == (None, session, 60_000)
    assert "consumer.session" not in chosen.message
    if session is not None and session < chosen.desired.need_ms:
        assert f"streams.session.timeout.ms={chosen.desired.need_ms}" in chosen.message
    assert (chosen.desired.advice is None) == (advised is None)


@settings(deadline=None)
@given(asked=session_timeouts, view=workloads)
def test_nothing_is_injected_while_the_protocol_is_unknown(asked, view) -> None:
    chosen = timeout_of(asked, view, None, broker_bounds(classic_min_ms=6_000, classic_max_ms=1_800_000))
    assert chosen.inject_ms is None
    assert chosen.reason is Reason.TIMEOUT_UNKNOWN


@settings(deadline=None)
@given(asked=session_timeouts, view=workloads, bounds=bounds_ms)
def test_estimated_value_is_a_multiple_of_five_seconds_unless_a_bound_cuts_it(asked, view, bounds) -> None:
    """Small changes of a probe must not become a new value of every pod."""
    low, high = bounds
    chosen = timeout_of(asked, view, protocols.CLASSIC, broker_bounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    cuts = {low, high, 9_000, *(1000 * (s or 0) for s in (asked.min_seconds, asked.max_seconds, asked.seconds))}
    assert chosen.inject_ms % STEP_MS == 0 or chosen.inject_ms in cuts


@settings(deadline=None)
@given(asked=session_timeouts, view=modest_workloads, high=st.integers(600_000, 1_800_000))
def test_verdict_sufficient_means_that_a_restart_fits(asked, view, high) -> None:
    chosen = timeout_of(asked, view, protocols.CLASSIC, broker_bounds(classic_min_ms=6_000, classic_max_ms=high))
    assume(chosen.reason is Reason.TIMEOUT_FITS)
    assert chosen.inject_ms is not None
    assert chosen.inject_ms >= chosen.desired.need_ms
    assert chosen.message == ""


@settings(deadline=None)
@given(asked=session_timeouts, view=workloads, bounds=bounds_ms)
def test_any_other_verdict_says_what_is_wrong(asked, view, bounds) -> None:
    low, high = bounds
    chosen = timeout_of(asked, view, protocols.CLASSIC, broker_bounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    assume(chosen.reason is not Reason.TIMEOUT_FITS)
    assert chosen.message


def test_need_adds_grace_recreation_start_up_and_one_heartbeat() -> None:
    view = workload(2, termination_grace_s=30, containers=(ContainerBudget(name="app", startup_budget_s=20),))
    assert structural_need_ms(view) == 1000 * (30 + 20 + 20 + 3)


def test_longest_start_up_budget_counts_and_init_containers_add_up() -> None:
    budgets = (ContainerBudget(name="a", startup_budget_s=10), ContainerBudget(name="b", startup_budget_s=90))
    view = workload(2, termination_grace_s=0, containers=budgets, init_container_count=2)
    assert structural_need_ms(view) == 1000 * (20 + 2 * 10 + 90 + 3)


def test_container_without_probes_is_given_half_a_minute() -> None:
    view = workload(2, termination_grace_s=0, containers=(ContainerBudget(name="app"),))
    assert structural_need_ms(view) == 1000 * (20 + 30 + 3)


def test_group_whose_session_is_too_short_names_the_setting_of_the_group_and_of_the_broker() -> None:
    held = broker_bounds(consumer_session_ms=45_000, consumer_max_ms=60_000)
    chosen = timeout_of(SessionTimeout(), workload(2), protocols.CONSUMER, held)
    assert chosen.reason is Reason.BROKER_BOUND_TOO_LOW
    assert f"consumer.session.timeout.ms={chosen.desired.need_ms} on the group" in chosen.message
    assert "group.consumer.max.session.timeout.ms" in chosen.message


def test_estimate_is_rounded_up_to_the_next_five_seconds() -> None:
    """73 s of need and half as much again are 109.5 s."""
    free = broker_bounds(classic_min_ms=6_000, classic_max_ms=1_800_000)
    asked = SessionTimeout.model_validate({"minSeconds": 10, "maxSeconds": 1800})
    view = workload(2, termination_grace_s=30, containers=(ContainerBudget(name="app", startup_budget_s=20),))
    chosen = timeout_of(asked, view, protocols.CLASSIC, free)
    assert (chosen.desired.target_ms, chosen.inject_ms) == (109_500, 110_000)


# recommendations -------------------------------------------------------------------------------------------------

WIDE = broker_bounds(classic_min_ms=6_000, classic_max_ms=1_800_000)
STALE = Advice(reason=Reason.RECOMMENDATION_STALE, cause="the snapshot has expired")
AUTO = SessionTimeout.model_validate({"minSeconds": 10, "maxSeconds": 1800})
STRUCTURAL_MS = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE).inject_ms


def reason_of(chosen) -> tuple[Reason, str]:
    return chosen.desired.advice.reason, chosen.desired.advice.cause


@settings(deadline=None)
@given(
    asked=session_timeouts, view=st.one_of(st.none(), workloads), bounds=bounds_ms,
    advised=st.one_of(advices, st.just(STALE)), kept=durations_ms,
)
def test_whatever_is_recommended_the_value_stays_within_every_bound(asked, view, bounds, advised, kept) -> None:
    """The brokers' bounds before three heartbeats, and these before the user's."""
    low, high = bounds
    held = broker_bounds(classic_min_ms=low, classic_max_ms=high)
    chosen = timeout_of(asked, view, protocols.CLASSIC, held, advice=advised, kept_ms=kept)
    assert chosen.inject_ms is not None
    assert low <= chosen.inject_ms <= high
    if chosen.desired.source is TimeoutSource.FLEET:
        floor_ms, ceiling_ms = (max(low, min(max(9_000, 1000 * s), high)) for s in (asked.min_seconds, asked.max_seconds))
        assert floor_ms <= chosen.inject_ms <= ceiling_ms
        assert chosen.inject_ms % STEP_MS == 0 or chosen.inject_ms in {floor_ms, ceiling_ms, kept}
        assert fleet_ms(chosen) == chosen.inject_ms
    else:
        assert fleet_ms(chosen) is None
        assert chosen.inject_ms == timeout_of(asked, view, protocols.CLASSIC, held).inject_ms


@settings(deadline=None)
@given(
    advised=advices, kept=durations_ms, asked=session_timeouts, session=st.none() | st.integers(1, 10**7), high=st.integers(1, 10**7)
)
def test_a_recommendation_injects_nothing_into_kip_848_clients(advised, kept, asked, session, high) -> None:
    """ConsumerConfig refuses session.timeout.ms with group.protocol=consumer: the client would not start."""
    held = broker_bounds(consumer_session_ms=session, consumer_max_ms=high)
    chosen = timeout_of(asked, workload(2), protocols.CONSUMER, held, advice=advised, kept_ms=kept)
    assert (chosen.inject_ms, chosen.brokers.group_ms, fleet_ms(chosen)) == (None, session, None)
    assert chosen.desired.source is TimeoutSource.BROKER


@settings(deadline=None)
@given(advised=advices, kept=durations_ms, seconds=st.integers(1, 1800), bounds=bounds_ms)
def test_seconds_of_the_spec_never_give_way_to_one(advised, kept, seconds, bounds) -> None:
    asked = SessionTimeout.model_validate({"seconds": seconds})
    held = broker_bounds(classic_min_ms=bounds[0], classic_max_ms=bounds[1])
    chosen = timeout_of(asked, workload(2), protocols.CLASSIC, held, advice=advised, kept_ms=kept)
    assert chosen.inject_ms == timeout_of(asked, workload(2), protocols.CLASSIC, held).inject_ms
    assert chosen.desired.source is TimeoutSource.FIXED
    assert chosen.desired.advice is not None
    assert chosen.desired.advice.reason is not Reason.RECOMMENDATION_USED


def test_recommended_value_takes_the_place_of_the_estimate() -> None:
    chosen = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, advice=advice())
    assert (chosen.inject_ms, chosen.desired.source, chosen.reason) == (60_000, TimeoutSource.FLEET, Reason.TIMEOUT_FITS)
    assert chosen.inject_ms != STRUCTURAL_MS
    assert reason_of(chosen) == (
        Reason.RECOMMENDATION_USED,
        "60000 ms from 312 stops (CostOptimum, StepLimited), valid until 2027-01-17T08:00:00Z",
    )


@pytest.mark.parametrize(
    ("recommended_ms", "asked", "bounds", "injected_ms"),
    [
        (61_001, {}, (6_000, 1_800_000), 65_000),
        (1, {}, (6_000, 1_800_000), 45_000),
        (1, {"minSeconds": 10}, (6_000, 1_800_000), 10_000),
        (1, {"minSeconds": 1}, (6_000, 1_800_000), 9_000),
        (1, {"minSeconds": 1}, (12_345, 1_800_000), 12_345),
        (600_000, {"maxSeconds": 90}, (6_000, 1_800_000), 90_000),
        (600_000, {}, (6_000, 300_000), 300_000),
    ],
    ids=["grid", "default minimum", "spec minimum", "three heartbeats", "broker minimum", "spec maximum", "broker maximum"],
)
def test_each_bound_binds(recommended_ms: int, asked: dict[str, int], bounds, injected_ms: int) -> None:
    held = broker_bounds(classic_min_ms=bounds[0], classic_max_ms=bounds[1])
    spec = SessionTimeout.model_validate(asked)
    chosen = timeout_of(
        spec, workload(2), protocols.CLASSIC, held, advice=advice(recommended_ms=recommended_ms), kept_ms=45_000
    )
    assert (chosen.inject_ms, chosen.desired.source) == (injected_ms, TimeoutSource.FLEET)


def test_bound_that_cuts_a_recommendation_is_named_with_what_to_raise() -> None:
    held = broker_bounds(classic_min_ms=6_000, classic_max_ms=40_000)
    chosen = timeout_of(AUTO, workload(2), protocols.CLASSIC, held, advice=advice())
    assert (chosen.inject_ms, chosen.reason) == (40_000, Reason.TIMEOUT_BELOW_NEED)
    assert "recommends that a member may be away for 60000 ms" in chosen.message
    assert "raise group.max.session.timeout.ms on the brokers to at least 60000" in chosen.message


def test_brokers_maximum_binds_a_recommendation_before_the_users_minimum() -> None:
    asked = SessionTimeout.model_validate({"minSeconds": 120, "maxSeconds": 1800})
    held = broker_bounds(classic_min_ms=6_000, classic_max_ms=60_000)
    chosen = timeout_of(asked, workload(2), protocols.CLASSIC, held, advice=advice(), kept_ms=90_000)
    assert (chosen.desired.source, fleet_ms(chosen)) == (TimeoutSource.FLEET, 60_000)


def test_value_in_use_is_kept_while_there_is_nothing_to_use_and_dropped_when_reading_is_off() -> None:
    kept = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, advice=STALE, kept_ms=45_000)
    assert (kept.inject_ms, kept.desired.source, kept.reason) == (45_000, TimeoutSource.FLEET, Reason.TIMEOUT_FITS)
    assert reason_of(kept) == (Reason.RECOMMENDATION_STALE, "the snapshot has expired")
    off = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, kept_ms=45_000)
    assert (off.inject_ms, off.desired.source, off.desired.advice) == (STRUCTURAL_MS, TimeoutSource.STRUCTURAL, None)


def test_group_that_never_had_one_keeps_its_estimate_while_there_is_nothing_to_use() -> None:
    chosen = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, advice=STALE)
    assert (chosen.inject_ms, chosen.desired.source) == (STRUCTURAL_MS, TimeoutSource.STRUCTURAL)


@pytest.mark.parametrize(
    ("changes", "injected_ms", "says"),
    [
        ({"released": False}, 45_000, "60000 ms wait until the fleet's roll-out reaches this group"),
        (
            {"released": False, "reasons": (RecommendationReason.CANARY_ROLLED_BACK,)}, STRUCTURAL_MS,
            "it was rolled back in the fleet",
        ),
        ({"recommended_ms": None, "reasons": (RecommendationReason.TOO_FEW,)}, 45_000, "keep the present session timeout (TooFew)"),
    ],
    ids=["canary", "rolled back", "nothing recommended"],
)
def test_record_that_must_not_act_is_shown_only(changes, injected_ms: int, says: str) -> None:
    chosen = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, advice=advice(**changes), kept_ms=45_000)
    assert chosen.inject_ms == injected_ms
    reason, cause = reason_of(chosen)
    assert reason is Reason.RECOMMENDATION_SHOWN
    assert says in cause


def test_record_for_another_protocol_is_not_taken() -> None:
    """A group that was upgraded from KIP-848's setting, or Connect's delay under the same name."""
    for setting in set(Setting) - {Setting.SESSION_TIMEOUT}:
        chosen = timeout_of(AUTO, workload(2), protocols.CLASSIC, WIDE, advice=advice(setting=setting))
        assert (chosen.desired.source, reason_of(chosen)[0]) == (TimeoutSource.STRUCTURAL, Reason.RECOMMENDATION_ABSENT)


def test_kip_848_group_is_told_which_setting_to_make_and_is_content_when_it_is_made() -> None:
    advised = advice(setting=Setting.CONSUMER_SESSION_TIMEOUT, recommended_ms=52_000)
    held = broker_bounds(consumer_session_ms=45_000, consumer_min_ms=45_000, consumer_max_ms=60_000)
    short = timeout_of(AUTO, workload(2), protocols.CONSUMER, held, advice=advised)
    assert reason_of(short) == (Reason.RECOMMENDATION_SHOWN, "set consumer.session.timeout.ms=55000 on the group")
    assert short.reason is Reason.BROKER_BOUND_TOO_LOW
    assert "set consumer.session.timeout.ms=55000 on the group" in short.message
    made = broker_bounds(consumer_session_ms=55_000, consumer_min_ms=45_000, consumer_max_ms=60_000)
    content = timeout_of(AUTO, workload(2), protocols.CONSUMER, made, advice=advised)
    assert (reason_of(content)[0], content.reason) == (Reason.RECOMMENDATION_USED, Reason.TIMEOUT_FITS)


def test_streams_group_is_told_its_own_setting_and_no_other_recommendation_is_taken_for_it() -> None:
    held = broker_bounds(streams_session_ms=45_000, streams_min_ms=45_000, streams_max_ms=60_000)
    advised = advice(setting=Setting.STREAMS_SESSION_TIMEOUT, recommended_ms=52_000)
    short = timeout_of(AUTO, workload(2), protocols.STREAMS, held, advice=advised)
    assert reason_of(short) == (Reason.RECOMMENDATION_SHOWN, "set streams.session.timeout.ms=55000 on the group")
    assert short.inject_ms is None
    other = timeout_of(AUTO, workload(2), protocols.STREAMS, held, advice=advice(setting=Setting.CONSUMER_SESSION_TIMEOUT))
    assert other.desired.advice is not None
    assert other.desired.advice.fleet_ms is None


def test_recommendation_waits_while_the_protocol_is_unknown_and_the_value_in_use_is_remembered() -> None:
    chosen = timeout_of(AUTO, workload(2), None, WIDE, advice=advice(), kept_ms=45_000)
    assert (chosen.inject_ms, fleet_ms(chosen)) == (None, 60_000)
    assert reason_of(chosen)[0] is Reason.RECOMMENDATION_SHOWN
