"""The next step of a timeout: bounds, hysteresis, freezes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.recommendations.policy import DOWN_INTERVAL_MS, STEP_MS, GroupState, bounded, next_timeout
from fleet_learner.recommendations.timeout_bounds import TimeoutBounds
from journal.recommendations import RecommendationReason as Reason

DAY = 86_400_000
NOW = 100 * DAY
WIDE = TimeoutBounds(
    spec_minimum_ms=10_000, spec_maximum_ms=1_800_000, broker_minimum_ms=6_000, broker_maximum_ms=1_800_000,
    heartbeat_interval_ms=3_000,
)  # fmt: skip
MS = st.integers(0, 2_000_000)
MAYBE_MS = st.none() | MS
BOUNDS = st.builds(
    TimeoutBounds, spec_minimum_ms=MAYBE_MS, spec_maximum_ms=MAYBE_MS, broker_minimum_ms=MAYBE_MS,
    broker_maximum_ms=MAYBE_MS, heartbeat_interval_ms=st.none() | st.integers(0, 60_000),
)  # fmt: skip
STATES = st.builds(
    GroupState, current_ms=MAYBE_MS, changed_ms=st.none() | st.integers(NOW - 30 * DAY, NOW),
    stops_since_change=st.integers(0, 100), image_is_new=st.booleans(), recommended_ms=MAYBE_MS,
)  # fmt: skip
GOALS = st.none() | st.floats(0, 1e9)


@given(GOALS, BOUNDS, STATES, st.floats(0, 1))
def test_the_timeout_is_inside_every_bound_or_there_is_none(
    goal: float | None, bounds: TimeoutBounds, state: GroupState, probability: float
) -> None:
    """[max(spec.min, broker.min, 3·heartbeat), min(spec.max, broker.max)], whatever is recommended."""
    decision = next_timeout(goal, bounds, state, now_ms=NOW, probability_better=probability)
    lower = max(bounds.spec_minimum_ms or 0, bounds.broker_minimum_ms or 0, 3 * (bounds.heartbeat_interval_ms or 0))
    upper = min(
        86_400_000 if bounds.spec_maximum_ms is None else bounds.spec_maximum_ms,
        86_400_000 if bounds.broker_maximum_ms is None else bounds.broker_maximum_ms,
    )
    for value in (decision.timeout_ms, decision.goal_ms):
        assert value is None or lower <= value <= upper
    if lower > upper:
        assert decision.timeout_ms is None
        assert not decision.is_change
    assert decision.is_change == (decision.timeout_ms is not None and decision.timeout_ms != state.current_ms)


@given(st.floats(1, 1_800_000), STATES.filter(lambda state: state.current_ms is not None))
def test_steps_lead_to_the_goal_and_stop_there(goal: float, state: GroupState) -> None:
    """Applied again and again, a week apart, the timeout arrives within 15 % or 5 s and does not move any more."""
    now, state = NOW, replace(state, image_is_new=False, changed_ms=None)
    for _ in range(40):
        decision = next_timeout(goal, WIDE, state, now_ms=now)
        if not decision.is_change:
            break
        state = replace(state, current_ms=decision.timeout_ms, changed_ms=now, stops_since_change=30)
        now += 8 * DAY
    else:
        pytest.fail("it never settles")
    change = abs(decision.goal_ms - decision.timeout_ms)
    assert change < max(5_000, 0.15 * decision.timeout_ms)


@given(GOALS, STATES, st.floats(0, 1))
def test_one_step_is_at_most_twice_or_three_quarters(goal: float | None, state: GroupState, probability: float) -> None:
    """Or one step of 5 s, where those are less; from a value inside the bounds, which else win. Again gives the
    same."""
    decision = next_timeout(goal, WIDE, state, now_ms=NOW, probability_better=probability)
    assert decision == next_timeout(goal, WIDE, state, now_ms=NOW, probability_better=probability)
    base = state.current_ms
    if base is None or WIDE.clamped_ms(base) != base:
        return
    assert decision.timeout_ms <= max(2 * base, base + STEP_MS)
    assert decision.timeout_ms >= min(0.75 * base, base - STEP_MS)


@given(st.lists(st.tuples(st.floats(1, 1_800_000), st.integers(0, 40)), min_size=8, max_size=40), st.integers(10, 600))
def test_no_week_takes_more_than_a_quarter_away(days: list[tuple[float, int]], first_s: int) -> None:
    """With a run a day, any goals and any stops in between, the timeout decreases at most once a week."""
    state, now = at(first_s), NOW
    seen = [(now, state.current_ms or 0)]
    for goal, stops in days:
        now += DAY
        decision = next_timeout(goal, WIDE, state, now_ms=now)
        state = replace(state, stops_since_change=state.stops_since_change + stops, recommended_ms=decision.timeout_ms)
        if decision.is_change:
            last_change_ms = state.changed_ms
            if decision.timeout_ms < seen[-1][1] and last_change_ms is not None:
                assert now - last_change_ms >= DOWN_INTERVAL_MS
            state = replace(state, current_ms=decision.timeout_ms, changed_ms=now, stops_since_change=0)
        seen.append((now, decision.timeout_ms))
    for index, (then, before) in enumerate(seen):
        for later, after in seen[index:]:
            if later - then < DOWN_INTERVAL_MS:
                assert after >= min(0.75 * before, before - STEP_MS)


def at(current_s: float, **how: object) -> GroupState:
    return GroupState(current_ms=int(1000 * current_s), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("goal_s", "state", "timeout_s", "reason"),
    [
        (93.2, GroupState(current_ms=None), 95, None),
        (300, at(45), 90, Reason.STEP_LIMITED),
        (45, at(300), 225, Reason.STEP_LIMITED),
        (50, at(45), 45, Reason.SMALL_CHANGE),
        (111, at(100), 115, None),
        (100, at(100), 100, Reason.SMALL_CHANGE),
        (113, at(105), 105, Reason.SMALL_CHANGE),
        (45, at(100, image_is_new=True), 100, Reason.NEW_IMAGE_FREEZE),
        (95, at(50, image_is_new=True), 95, None),
        (45, at(100, changed_ms=NOW - 6 * DAY, stops_since_change=99), 100, Reason.TOO_SOON),
        (45, at(100, changed_ms=NOW - 7 * DAY), 75, Reason.STEP_LIMITED),
        (95, at(50, changed_ms=NOW - DAY, stops_since_change=29), 50, Reason.TOO_SOON),
        (95, at(50, changed_ms=NOW - DAY, stops_since_change=30), 95, None),
        (7, at(10), 10, Reason.SMALL_CHANGE),
        (15, at(6), 15, None),
    ],
)
def test_each_rule(goal_s: float, state: GroupState, timeout_s: float, reason: Reason | None) -> None:
    """At most ×2 up at once, at most ×0.75 down a week, no small changes, no decrease under a new image."""
    decision = next_timeout(1000 * goal_s, WIDE, state, now_ms=NOW)
    assert decision.timeout_ms == 1000 * timeout_s
    assert (reason in decision.reasons) if reason else not decision.reasons


def test_an_unsure_gain_is_no_reason_to_change() -> None:
    """P(cost falls) ≥ 0.9."""
    assert not next_timeout(90_000, WIDE, at(45), now_ms=NOW, probability_better=0.89).is_change
    assert next_timeout(90_000, WIDE, at(45), now_ms=NOW, probability_better=0.9).is_change


def test_a_value_outside_the_bounds_is_brought_inside_at_once() -> None:
    """The bounds win over hysteresis, also without an estimate."""
    tight = TimeoutBounds(broker_minimum_ms=45_000, broker_maximum_ms=60_000)
    frozen = at(300, image_is_new=True, changed_ms=NOW)
    assert next_timeout(50_000, tight, frozen, now_ms=NOW).timeout_ms == 60_000
    assert next_timeout(None, tight, frozen, now_ms=NOW).timeout_ms == 60_000
    assert next_timeout(None, tight, GroupState(current_ms=None), now_ms=NOW).timeout_ms is None


@pytest.mark.parametrize(
    ("goal", "bounds", "expected"),
    [
        (93_000, TimeoutBounds(), (95_000, ())),
        (95_000, TimeoutBounds(), (95_000, ())),
        (500_000, TimeoutBounds(broker_maximum_ms=60_000), (60_000, (Reason.BROKER_CAP,))),
        (500_000, TimeoutBounds(spec_maximum_ms=61_234), (61_234, (Reason.SPEC_MAXIMUM,))),
        (61_000, TimeoutBounds(spec_maximum_ms=61_234), (61_234, ())),
        (1_000, TimeoutBounds(broker_minimum_ms=6_000), (6_000, (Reason.BROKER_MINIMUM,))),
        (1_000, TimeoutBounds(spec_minimum_ms=10_000, broker_minimum_ms=6_000), (10_000, (Reason.SPEC_MINIMUM,))),
        (1_000, TimeoutBounds(broker_minimum_ms=6_000, heartbeat_interval_ms=4_000),
         (12_000, (Reason.HEARTBEAT_MINIMUM,))),
        (1_000, TimeoutBounds(spec_minimum_ms=2, spec_maximum_ms=1), (None, (Reason.INFEASIBLE,))),
    ],
)  # fmt: skip
def test_the_bound_that_cuts_is_named(
    goal: float, bounds: TimeoutBounds, expected: tuple[int | None, tuple[Reason, ...]]
) -> None:
    """Rounded up to 5 s; the bounds win over the grid."""
    assert bounded(goal, bounds) == expected


@pytest.mark.parametrize(
    ("goal_s", "current_s", "said_s", "timeout_s"),
    [
        (64, 45, None, 65),
        (64, 45, 60, 60),  # it stays when the goal moves by less than a sixth
        (56, 45, 60, 60),
        (75, 45, 60, 75),
        (200, 45, 60, 90),
        (46, 45, 60, 45),  # not the other way, not further than a step
        (80, 100, 105, 80),
        (95, 45, 94, 90),
    ],
)
def test_a_recommendation_that_was_not_followed_yet_changes_only_with_its_goal(
    goal_s: float, current_s: float, said_s: float | None, timeout_s: float
) -> None:
    state = at(current_s, recommended_ms=None if said_s is None else int(1000 * said_s))
    assert next_timeout(1000 * goal_s, WIDE, state, now_ms=NOW).timeout_ms == 1000 * timeout_s


def test_a_recommendation_that_was_not_followed_yet_is_no_way_out_of_the_bounds() -> None:
    narrow = TimeoutBounds(broker_minimum_ms=6_000, broker_maximum_ms=60_000)
    assert next_timeout(62_000, narrow, at(45, recommended_ms=64_000), now_ms=NOW).timeout_ms == 60_000
