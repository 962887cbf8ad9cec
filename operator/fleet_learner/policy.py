"""Decide which timeout a group gets next: bounds, hysteresis, freezes and canary waves, without any statistics.

The one idea: an estimate says where to go, the policy how. Up is allowed at once (a timeout that is too short expels
members today), down slowly, and neither for a trifle; a new image freezes the way down, because its restarts are not
known yet; and a fleet is changed in waves of 1, 10, 50 and 100 %, each of which has to show first that it does no harm.
Whatever comes in, the answer lies in [max(spec.min, broker.min, 3·heartbeat), min(spec.max, broker.max)], or there is
none. Pure functions of their arguments; property-tested.
Source of the sequential test: Robbins 1970 (mixture martingales), Ville 1939 (a bound at any time one looks).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from scipy.special import betaincc, betaln

from staticgroup.api.recommendation import RecommendationReason as Reason
from staticgroup.api.recommendation import TimeoutBounds

STEP_MS: Final = 5_000
CHANGE_MS_MIN: Final = 5_000
CHANGE_PERCENT_MIN: Final = 15
UP_FACTOR_MAX: Final = 2
DOWN_PERCENT: Final = 75
DOWN_INTERVAL_MS: Final = 7 * 86_400_000
STOPS_BETWEEN_CHANGES: Final = 30
PROBABILITY_MIN: Final = 0.9
Wave = Literal[1, 10, 50, 100]
WAVES: Final[tuple[Wave, ...]] = (1, 10, 50, 100)
WAVE_MS_MIN: Final = 86_400_000
WAVE_STOPS_MIN: Final = 100
LOCK_MS: Final = 14 * 86_400_000
ALARM_LEVEL: Final = 0.05
RATIO_TOLERATED: Final = 1.1
"""Treated groups may have this many times the evictions that the controls let expect: noise of the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """Hold what is known about a group's timeout now.

    Parameters
    ----------
    current_ms: in force; None when it is not known.
    changed_ms: Unix milliseconds of the last change; None: never seen one.
    stops_since_change: of members.
    image_is_new: its pods run an image that has not been through a rollout yet.
    """

    current_ms: int | None
    changed_ms: int | None = None
    stops_since_change: int = 0
    image_is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Hold the next timeout.

    Parameters
    ----------
    timeout_ms: inside the bounds; None when the bounds leave none, or none is wanted.
    goal_ms: the goal inside the bounds; None as above.
    is_change: whether it differs from what is in force.
    reasons: what shaped it, in order.
    """

    timeout_ms: int | None
    goal_ms: int | None
    is_change: bool
    reasons: tuple[Reason, ...]


def bounded(goal_ms: float, bounds: TimeoutBounds) -> tuple[int | None, tuple[Reason, ...]]:
    """Bring a goal onto the 5 s grid, rounded up, and inside the bounds, which win over the grid.

    Returns
    -------
    tuple[int | None, tuple[Reason, ...]]
        None when no timeout satisfies the bounds, with the reason INFEASIBLE.
    """
    if not bounds.is_feasible:
        return None, (Reason.INFEASIBLE,)
    stepped = math.ceil(min(goal_ms, bounds.maximum_ms + STEP_MS) / STEP_MS - 1e-9) * STEP_MS
    if stepped > bounds.maximum_ms:
        is_broker = bounds.broker_maximum_ms == bounds.maximum_ms
        # A goal that only the grid lifts above the maximum was not cut by it.
        cut = () if goal_ms <= bounds.maximum_ms else (Reason.BROKER_CAP if is_broker else Reason.SPEC_MAXIMUM,)
        return bounds.maximum_ms, cut
    if stepped < bounds.minimum_ms:
        floors = {
            Reason.BROKER_MINIMUM: bounds.broker_minimum_ms,
            Reason.SPEC_MINIMUM: bounds.spec_minimum_ms,
        }
        reason = next((each for each, value in floors.items() if value == bounds.minimum_ms), Reason.HEARTBEAT_MINIMUM)
        return bounds.minimum_ms, (reason,)
    return stepped, ()


def next_timeout(
    goal_ms: float | None, bounds: TimeoutBounds, state: GroupState, *, now_ms: int, probability_cheaper: float = 1.0
) -> Decision:
    """Take one step from what is in force towards a goal.

    Parameters
    ----------
    goal_ms: from an estimate, > 0; None: there is no estimate.
    now_ms: Unix milliseconds.
    probability_cheaper: that the goal costs less than what is in force.

    Returns
    -------
    Decision
        A value in force outside the bounds is brought inside at once, whatever hysteresis says.
    """
    if goal_ms is None:
        kept = None if state.current_ms is None else bounds.clamped_ms(state.current_ms)
        return _decided(kept, None, state, ())
    goal, reasons = bounded(goal_ms, bounds)
    if goal is None:
        return Decision(timeout_ms=None, goal_ms=None, is_change=False, reasons=reasons)
    if state.current_ms is None:
        return _decided(goal, goal, state, reasons)
    base = bounds.clamped_ms(state.current_ms)
    assert base is not None
    kept_because = _holds(base, goal, state, now_ms, probability_cheaper)
    if kept_because is not None:
        return _decided(base, goal, state, (*reasons, kept_because))
    step = _limited(base, goal)
    if step != goal:
        reasons = (*reasons, Reason.STEP_LIMITED)
    return _decided(bounds.clamped_ms(step), goal, state, reasons)


def _holds(base_ms: int, goal_ms: int, state: GroupState, now_ms: int, probability_cheaper: float) -> Reason | None:
    """Say why a change must not happen now; None when it may. First match wins."""
    change = abs(goal_ms - base_ms)
    if change < CHANGE_MS_MIN or 100 * change < CHANGE_PERCENT_MIN * base_ms or probability_cheaper < PROBABILITY_MIN:
        return Reason.SMALL_CHANGE
    is_down = goal_ms < base_ms
    if is_down and state.image_is_new:
        return Reason.NEW_IMAGE_FREEZE
    since_ms = math.inf if state.changed_ms is None else now_ms - state.changed_ms
    if is_down and since_ms < DOWN_INTERVAL_MS:
        return Reason.TOO_SOON
    if since_ms < DOWN_INTERVAL_MS and state.stops_since_change < STOPS_BETWEEN_CHANGES:
        return Reason.TOO_SOON
    return None


def _limited(base_ms: int, goal_ms: int) -> int:
    """Limit a step: up to twice as long, down to three quarters; on the grid, but always at least one step of it."""
    if goal_ms > base_ms:
        return min(goal_ms, max(UP_FACTOR_MAX * base_ms // STEP_MS, base_ms // STEP_MS + 1) * STEP_MS)
    lowest = base_ms * DOWN_PERCENT // 100
    return max(goal_ms, min(-(-lowest // STEP_MS) * STEP_MS, (base_ms - 1) // STEP_MS * STEP_MS))


def _decided(timeout_ms: int | None, goal_ms: int | None, state: GroupState, reasons: tuple[Reason, ...]) -> Decision:
    is_change = timeout_ms is not None and timeout_ms != state.current_ms
    return Decision(timeout_ms=timeout_ms, goal_ms=goal_ms, is_change=is_change, reasons=reasons)


# canary --------------------------------------------------------------------------------------------------------------


class CanaryVerdict(StrEnum):
    """Say what becomes of a wave."""

    WAIT = "Wait"
    ADVANCE = "Advance"
    ROLL_BACK = "RollBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Count stops and evictions of one arm, before and since the wave began; the control arm keeps its timeouts."""

    stops_before: int
    evictions_before: int
    stops: int
    evictions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryState:
    """Hold how far the fleet is.

    Parameters
    ----------
    wave: groups of this wave and earlier ones may act.
    began_ms: Unix milliseconds.
    locked_until_ms: nothing acts before; 0 when not locked.
    """

    wave: Wave
    began_ms: int
    locked_until_ms: int = 0


def wave_of(kafka_cluster_id: str, group_id: str, salt: str = "") -> Wave:
    """Put a group into a wave by a hash: 1 % of all groups, the next 9 %, the next 40 %, the rest.

    Parameters
    ----------
    salt: of the policy's version, so that not the same groups are first for ever.
    """
    percentile = zlib.crc32(f"canary/{salt}/{kafka_cluster_id}/{group_id}".encode()) % 10_000 / 100
    return next(wave for wave in WAVES if percentile < wave)


def is_released(wave: Wave, state: CanaryState, *, now_ms: int) -> bool:
    """Say whether a group of this wave may act now."""
    return now_ms >= state.locked_until_ms and wave <= state.wave


def harm_evidence(treated: Arm, control: Arm) -> float:
    """Weigh the evidence that the treated groups are expelled more than the controls let expect.

    Parameters
    ----------
    treated, control: counts; the rates before the wave are the two arms' own baselines (difference in differences).

    Returns
    -------
    float
        An e-value: if there is no harm, it ever exceeds 1/α with a chance of at most α, however often one looks. 1
        while there is no eviction or no baseline.

    Notes
    -----
    Given that an eviction happened, without harm it falls on the treated arm with chance θ₀ at most: its share of the
    evictions expected from baselines × stops, with RATIO_TOLERATED. The alternative is spread evenly over (θ₀, 1); the
    mixture of likelihood ratios is a non-negative supermartingale for every θ ≤ θ₀.
    """
    expected_treated = RATIO_TOLERATED * _baseline(treated, control) * treated.stops
    expected_control = _baseline(control, treated) * control.stops
    total = treated.evictions + control.evictions
    if total == 0 or expected_treated <= 0 or expected_control <= 0:
        return 1.0
    theta = expected_treated / (expected_treated + expected_control)
    alpha, beta = treated.evictions + 1, control.evictions + 1
    mass = float(betaincc(alpha, beta, theta))
    if mass <= 0.0:
        return 0.0
    log_mixture = float(betaln(alpha, beta)) + math.log(mass) - math.log1p(-theta)
    log_null = treated.evictions * math.log(theta) + control.evictions * math.log1p(-theta)
    return math.exp(min(log_mixture - log_null, 700.0))


def judge_wave(state: CanaryState, treated: Arm, control: Arm, *, now_ms: int) -> CanaryVerdict:
    """Decide about the wave that is under way.

    Returns
    -------
    CanaryVerdict
        ROLL_BACK as soon as harm is shown at 5 %; ADVANCE after a day and 100 stops without; else WAIT.
    """
    if harm_evidence(treated, control) >= 1.0 / ALARM_LEVEL:
        return CanaryVerdict.ROLL_BACK
    is_seen = now_ms - state.began_ms >= WAVE_MS_MIN and treated.stops >= WAVE_STOPS_MIN
    return CanaryVerdict.ADVANCE if is_seen and now_ms >= state.locked_until_ms else CanaryVerdict.WAIT


def next_canary(state: CanaryState, verdict: CanaryVerdict, *, now_ms: int) -> CanaryState:
    """Carry a verdict out: the next wave; or the first one, locked for 14 days; or the same."""
    match verdict:
        case CanaryVerdict.ADVANCE:
            later = next((wave for wave in WAVES if wave > state.wave), state.wave)
            return CanaryState(wave=later, began_ms=now_ms if later != state.wave else state.began_ms)
        case CanaryVerdict.ROLL_BACK:
            return CanaryState(wave=WAVES[0], began_ms=now_ms + LOCK_MS, locked_until_ms=now_ms + LOCK_MS)
        case CanaryVerdict.WAIT:
            return state


def _baseline(arm: Arm, other: Arm) -> float:
    """Estimate an arm's evictions per stop before the wave, drawn to that of both arms by one pseudo-stop in ten."""
    stops = arm.stops_before + other.stops_before
    both = (arm.evictions_before + other.evictions_before + 0.5) / (stops + 1.0)
    weight = 20.0
    return (arm.evictions_before + weight * both) / (arm.stops_before + weight)
