"""How far a timeout may go at once: bounds, hysteresis, freezes, waves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner import policy
from fleet_learner.policy import Arm, CanaryState, CanaryVerdict, GroupState, bounded, next_timeout
from staticgroup.api.recommendation import RecommendationReason as Reason
from staticgroup.api.recommendation import TimeoutBounds

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
    stops_since_change=st.integers(0, 100), image_is_new=st.booleans(),
)  # fmt: skip
GOALS = st.none() | st.floats(0, 1e9)


@given(GOALS, BOUNDS, STATES, st.floats(0, 1))
def test_the_timeout_is_inside_every_bound_or_there_is_none(
    goal: float | None, bounds: TimeoutBounds, state: GroupState, probability: float
) -> None:
    """[max(spec.min, broker.min, 3·heartbeat), min(spec.max, broker.max)], whatever is recommended."""
    decision = next_timeout(goal, bounds, state, now_ms=NOW, probability_cheaper=probability)
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
        assert decision.timeout_ms is not None
        if not decision.is_change:
            break
        state = replace(state, current_ms=decision.timeout_ms, changed_ms=now, stops_since_change=30)
        now += 8 * DAY
    else:
        pytest.fail("it never settles")
    assert decision.goal_ms is not None
    change = abs(decision.goal_ms - decision.timeout_ms)
    assert change < max(5_000, 0.15 * decision.timeout_ms)


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
    """Up at most ×2 at once, down at most ×0.75 a week, no trifles, no way down under a new image."""
    decision = next_timeout(1000 * goal_s, WIDE, state, now_ms=NOW)
    assert decision.timeout_ms == 1000 * timeout_s
    assert (reason in decision.reasons) if reason else not decision.reasons


def test_an_unsure_gain_is_no_reason_to_change() -> None:
    """P(cost falls) ≥ 0.9."""
    assert not next_timeout(90_000, WIDE, at(45), now_ms=NOW, probability_cheaper=0.89).is_change
    assert next_timeout(90_000, WIDE, at(45), now_ms=NOW, probability_cheaper=0.9).is_change


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
        (1_000, TimeoutBounds(broker_minimum_ms=6_000, heartbeat_interval_ms=4_000), (12_000, (Reason.HEARTBEAT_MINIMUM,))),
        (1_000, TimeoutBounds(spec_minimum_ms=2, spec_maximum_ms=1), (None, (Reason.INFEASIBLE,))),
    ],
)  # fmt: skip
def test_the_bound_that_cuts_is_named(
    goal: float, bounds: TimeoutBounds, expected: tuple[int | None, tuple[Reason, ...]]
) -> None:
    """Rounded up to 5 s; the bounds win over the grid."""
    assert bounded(goal, bounds) == expected


class TestCanary:
    """Waves of 1, 10, 50 and 100 %, each of which has to show that it does no harm."""

    began = CanaryState(wave=1, began_ms=NOW)
    baseline = Arm(stops_before=10_000, evictions_before=500, stops=0, evictions=0)

    def arms(self, treated: tuple[int, int], control: tuple[int, int]) -> tuple[Arm, Arm]:
        return (
            replace(self.baseline, stops=treated[0], evictions=treated[1]),
            replace(self.baseline, stops=control[0], evictions=control[1]),
        )

    def test_waves_hold_their_share_of_the_groups(self) -> None:
        waves = [policy.wave_of("k", f"group-{index}") for index in range(20_000)]
        for wave in policy.WAVES:
            share = sum(each <= wave for each in waves) / 20_000
            assert share == pytest.approx(wave / 100, abs=4 * math.sqrt(0.25 / 20_000))
        assert waves != [policy.wave_of("k", f"group-{index}", salt="2") for index in range(20_000)]

    def test_a_group_acts_from_its_wave_on_and_never_while_locked(self) -> None:
        assert policy.is_released(1, self.began, now_ms=NOW)
        assert not policy.is_released(10, self.began, now_ms=NOW)
        assert policy.is_released(10, replace(self.began, wave=50), now_ms=NOW)
        assert not policy.is_released(1, replace(self.began, locked_until_ms=NOW + 1), now_ms=NOW)

    def test_a_day_and_a_hundred_stops_without_harm_advance(self) -> None:
        good = self.arms((100, 5), (10_000, 500))
        assert policy.judge_wave(self.began, *good, now_ms=NOW + DAY) is CanaryVerdict.ADVANCE
        assert policy.judge_wave(self.began, *good, now_ms=NOW + DAY - 1) is CanaryVerdict.WAIT
        few = self.arms((99, 5), (10_000, 500))
        assert policy.judge_wave(self.began, *few, now_ms=NOW + DAY) is CanaryVerdict.WAIT

    def test_harm_rolls_back_at_once_and_locks(self) -> None:
        bad = self.arms((60, 20), (10_000, 500))
        verdict = policy.judge_wave(self.began, *bad, now_ms=NOW + 1)
        assert verdict is CanaryVerdict.ROLL_BACK
        after = policy.next_canary(replace(self.began, wave=50), verdict, now_ms=NOW)
        assert (after.wave, after.locked_until_ms) == (1, NOW + 14 * DAY)
        assert policy.judge_wave(after, *self.arms((500, 20), (9_000, 450)), now_ms=NOW + DAY) is CanaryVerdict.WAIT

    def test_the_waves_end_at_all(self) -> None:
        state = self.began
        seen = []
        for _ in range(5):
            seen.append(state.wave)
            state = policy.next_canary(state, CanaryVerdict.ADVANCE, now_ms=NOW)
        assert seen == [1, 10, 50, 100, 100]

    def test_a_treated_arm_that_was_worse_before_is_not_blamed(self) -> None:
        """Difference in differences: twice the rate of the controls, before and since."""
        treated = Arm(stops_before=5_000, evictions_before=500, stops=1_000, evictions=100)
        control = Arm(stops_before=50_000, evictions_before=2_500, stops=10_000, evictions=500)
        assert policy.harm_evidence(treated, control) < 1

    def test_no_eviction_is_no_evidence(self) -> None:
        assert policy.harm_evidence(*self.arms((0, 0), (0, 0))) == 1.0

    def test_looking_all_the_time_does_not_raise_false_alarms(self) -> None:
        """600 waves without harm, looked at after every 50 stops: at most 5 % ever alarm (Ville 1939)."""
        rng = np.random.Generator(np.random.Philox(key=[51, 0]))
        false, power = 0, 0
        for _ in range(600):
            control = np.cumsum(rng.binomial(450, 0.05, 40))
            same, worse = np.cumsum(rng.binomial(50, 0.05, 40)), np.cumsum(rng.binomial(50, 0.10, 40))
            for kind, evictions in (("same", same), ("worse", worse)):
                is_alarm = any(
                    policy.harm_evidence(*self.arms((50 * n, int(evictions[n - 1])), (450 * n, int(control[n - 1]))))
                    >= 20
                    for n in range(4, 41, 4)
                )
                false += is_alarm and kind == "same"
                power += is_alarm and kind == "worse"
        assert false <= 0.05 * 600
        assert power >= 0.9 * 600
