"""Decide which timeout a group gets next: bounds, hysteresis and freezes, without any statistics.

The one idea: an estimate sets the goal, the policy the steps. Increases are allowed at once (a too short timeout expels
members today), decreases slowly, and small changes not at all; a new image freezes decreases, because its restarts are
not known yet. For any input the answer lies in [max(spec.min, broker.min, 3·heartbeat), min(spec.max, broker.max)], or
is None. Pure functions of their arguments; property-tested. Which groups may act at all: `canary.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from journal.recommendations import RecommendationReason as Reason

from .timeout_bounds import TimeoutBounds

STEP_MS: Final = 5_000
CHANGE_MS_MIN: Final = 5_000
CHANGE_PERCENT_MIN: Final = 15
UP_FACTOR_MAX: Final = 2
DOWN_PERCENT: Final = 75
DOWN_INTERVAL_MS: Final = 7 * 86_400_000
STOPS_BETWEEN_CHANGES: Final = 30
PROBABILITY_MIN: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """Hold the present state of a group's timeout.

    Parameters
    ----------
    current_ms: in force; None when it is not known.
    changed_ms: Unix milliseconds of the last change; None: no change was seen.
    stops_since_change: of members.
    image_is_new: its pods run an image whose restarts are still unknown.
    source: of the timeout in force, as the operator reports it (Fixed, Structural, Broker, Fleet); None: not known.
    recommended_ms: the previous run's recommendation; None: nothing, or no run.
    advised_ms: all earlier recommendations, the newest last.
    """

    current_ms: int | None
    changed_ms: int | None = None
    stops_since_change: int = 0
    image_is_new: bool = False
    source: str | None = None
    recommended_ms: int | None = None
    advised_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Hold the next timeout.

    Parameters
    ----------
    timeout_ms: inside the bounds; None if the bounds exclude all, or none is wanted.
    goal_ms: the goal inside the bounds; None as above.
    is_change: whether it differs from the timeout in force.
    reasons: of the decision, in order.
    """

    timeout_ms: int | None
    goal_ms: int | None
    is_change: bool
    reasons: tuple[Reason, ...]


def bounded(goal_ms: float, bounds: TimeoutBounds) -> tuple[int | None, tuple[Reason, ...]]:
    """Round a goal up to the 5 s grid, and clip it to the bounds, which win over the grid.

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
        # A goal that exceeds the maximum only by the rounding was not capped.
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
    goal_ms: float | None, bounds: TimeoutBounds, state: GroupState, *, now_ms: int, probability_better: float = 1.0
) -> Decision:
    """Take one step from the timeout in force towards a goal.

    Parameters
    ----------
    goal_ms: from an estimate, > 0; None: there is no estimate.
    now_ms: Unix milliseconds.
    probability_better: that the goal is better than the timeout in force.

    Returns
    -------
    Decision
        A value outside the bounds is brought inside at once, regardless of hysteresis.
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
    kept_because = _holds(base, goal, state, now_ms, probability_better)
    if kept_because is not None:
        return _decided(base, goal, state, (*reasons, kept_because))
    step = bounds.clamped_ms(_limited(base, goal))
    assert step is not None
    if step != goal:
        reasons = (*reasons, Reason.STEP_LIMITED)
    return _decided(_as_said(state.recommended_ms, base, step, bounds), goal, state, reasons)


def _as_said(said_ms: int | None, base_ms: int, step_ms: int, bounds: TimeoutBounds) -> int:
    """Repeat the previous recommendation, if it was not followed yet and the new step hardly differs."""
    if said_ms is None or not _is_trifle(said_ms, step_ms) or bounds.clamped_ms(said_ms) != said_ms:
        return step_ms
    is_same_way = said_ms != base_ms and (said_ms > base_ms) == (step_ms > base_ms)
    return said_ms if is_same_way and _limited(base_ms, said_ms) == said_ms else step_ms


def _is_trifle(from_ms: int, to_ms: int) -> bool:
    change = abs(to_ms - from_ms)
    return change < CHANGE_MS_MIN or 100 * change < CHANGE_PERCENT_MIN * from_ms


def _holds(base_ms: int, goal_ms: int, state: GroupState, now_ms: int, probability_better: float) -> Reason | None:
    """Return why a change must not happen now; None if it may. The first match wins."""
    if _is_trifle(base_ms, goal_ms) or probability_better < PROBABILITY_MIN:
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
