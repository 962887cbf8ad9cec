"""Session timeouts: nothing outside the broker's bounds is ever injected, and nothing at all into KIP-848 clients."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.staticgroup import SessionTimeout
from staticgroup.core.group import BrokerBounds, GroupType
from staticgroup.core.timeouts import (
    ASSUMED_MAX_MS,
    ASSUMED_MIN_MS,
    STEP_MS,
    TimeoutSource,
    TimeoutVerdict,
    plan_timeout,
    structural_need_ms,
)
from staticgroup.core.workload import ContainerBudget

from .builders import workload

bounds_ms = st.tuples(st.integers(1, 1_800_000), st.integers(1, 1_800_000)).map(sorted)
wishes = st.one_of(
    st.builds(
        lambda lower, more, headroom: SessionTimeout.model_validate(
            {"mode": "Auto", "minSeconds": lower, "maxSeconds": min(1800, lower + more), "headroomPercent": headroom}
        ),
        st.integers(1, 1800),
        st.integers(0, 1800),
        st.integers(0, 200),
    ),
    st.builds(
        lambda seconds: SessionTimeout.model_validate({"mode": "Fixed", "seconds": seconds}), st.integers(1, 1800)
    ),
)
workloads = st.builds(
    lambda grace, startup, inits: workload(
        2,
        termination_grace_s=grace,
        containers=(ContainerBudget(name="app", startup_budget_s=startup),),
        init_container_count=inits,
    ),
    st.integers(0, 3_600),
    st.one_of(st.none(), st.integers(0, 3_600)),
    st.integers(0, 5),
)


@settings(deadline=None)
@given(wish=wishes, view=st.one_of(st.none(), workloads), bounds=bounds_ms)
def test_injected_value_is_always_inside_the_brokers_bounds(wish, view, bounds) -> None:
    """INVALID_SESSION_TIMEOUT kills a classic client at start (GroupCoordinator checks min and max)."""
    low, high = bounds
    chosen = plan_timeout(wish, view, GroupType.CLASSIC, BrokerBounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    assert low <= chosen.inject_ms <= high
    assert chosen.effective_ms == chosen.inject_ms


@settings(deadline=None)
@given(wish=wishes, view=workloads)
def test_unreadable_bounds_are_assumed_narrow_enough_for_every_vendor(wish, view) -> None:
    chosen = plan_timeout(wish, view, GroupType.CLASSIC, None)
    assert chosen.inject_ms is not None
    assert ASSUMED_MIN_MS <= chosen.inject_ms <= ASSUMED_MAX_MS
    assert chosen.verdict is not TimeoutVerdict.SUFFICIENT


@settings(deadline=None)
@given(
    wish=wishes, view=workloads, session=st.one_of(st.none(), st.integers(1, 3_600_000)), maximum=st.integers(1, 10**7)
)
def test_kip_848_clients_never_get_a_session_timeout(wish, view, session, maximum) -> None:
    """ConsumerConfig refuses session.timeout.ms with group.protocol=consumer: the client would not start."""
    held = BrokerBounds(classic_min_ms=1, classic_max_ms=10**6, consumer_session_ms=session, consumer_max_ms=maximum)
    chosen = plan_timeout(wish, view, GroupType.CONSUMER, held)
    assert chosen.inject_ms is None
    assert chosen.effective_ms == session
    assert chosen.source is TimeoutSource.BROKER


@settings(deadline=None)
@given(wish=wishes, view=workloads)
def test_nothing_is_injected_while_the_protocol_is_unknown(wish, view) -> None:
    chosen = plan_timeout(wish, view, None, BrokerBounds(classic_min_ms=6_000, classic_max_ms=1_800_000))
    assert chosen.inject_ms is None
    assert chosen.verdict is TimeoutVerdict.UNKNOWN


@settings(deadline=None)
@given(wish=wishes, view=workloads, bounds=bounds_ms)
def test_estimated_value_is_a_multiple_of_five_seconds_unless_a_bound_cuts_it(wish, view, bounds) -> None:
    """Small changes of a probe must not become a new value of every pod."""
    low, high = bounds
    chosen = plan_timeout(wish, view, GroupType.CLASSIC, BrokerBounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    cuts = {low, high, wish.min_seconds * 1000, wish.max_seconds * 1000, (wish.seconds or 0) * 1000}
    assert chosen.inject_ms % STEP_MS == 0 or chosen.inject_ms in cuts


@settings(deadline=None)
@given(wish=wishes, view=workloads, bounds=bounds_ms)
def test_verdict_sufficient_means_that_a_restart_fits(wish, view, bounds) -> None:
    low, high = bounds
    chosen = plan_timeout(wish, view, GroupType.CLASSIC, BrokerBounds(classic_min_ms=low, classic_max_ms=high))
    assert chosen.inject_ms is not None
    if chosen.verdict is TimeoutVerdict.SUFFICIENT:
        assert chosen.inject_ms >= chosen.need_ms
        assert chosen.message == ""
    else:
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
    held = BrokerBounds(consumer_session_ms=45_000, consumer_max_ms=60_000)
    chosen = plan_timeout(SessionTimeout(), workload(2), GroupType.CONSUMER, held)
    assert chosen.verdict is TimeoutVerdict.GROUP_CONFIG_TOO_SHORT
    assert f"consumer.session.timeout.ms={chosen.need_ms} on the group" in chosen.message
    assert "group.consumer.max.session.timeout.ms" in chosen.message


def test_estimate_is_rounded_up_to_the_next_five_seconds() -> None:
    """73 s of need with 50 % headroom are 109.5 s."""
    free = BrokerBounds(classic_min_ms=6_000, classic_max_ms=1_800_000)
    wish = SessionTimeout.model_validate({"headroomPercent": 50, "minSeconds": 10, "maxSeconds": 1800})
    view = workload(2, termination_grace_s=30, containers=(ContainerBudget(name="app", startup_budget_s=20),))
    chosen = plan_timeout(wish, view, GroupType.CLASSIC, free)
    assert (chosen.target_ms, chosen.inject_ms) == (109_500, 110_000)
