"""Decide which timeout a group gets next: bounds, hysteresis and freezes, without any statistics.

The one idea: an estimate says where to go, the policy how. Up is allowed at once (a timeout that is too short expels
members today), down slowly, and neither for a trifle; a new image freezes the way down, because its restarts are not
known yet. Whatever comes in, the answer lies in [max(spec.min, broker.min, 3·heartbeat), min(spec.max, broker.max)],
or there is none. Pure functions of their arguments; property-tested. Which groups may act at all: `canary.py`.
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
    """Hold what is known about a group's timeout now.

    Parameters
    ----------
    current_ms: in force; None when it is not known.
    changed_ms: Unix milliseconds of the last change; None: never seen one.
    stops_since_change: of members.
    image_is_new: its pods run an image that has not been through a rollout yet.
    source: of the timeout in force, as the operator tells it (Fixed, Structural, Broker, Fleet); None: not known.
    recommended_ms: what the run before recommended; None: nothing, or there was none.
    advised_ms: everything that was recommended before, the newest last.
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
    goal_ms: float | None, bounds: TimeoutBounds, state: GroupState, *, now_ms: int, probability_better: float = 1.0
) -> Decision:
    """Take one step from what is in force towards a goal.

    Parameters
    ----------
    goal_ms: from an estimate, > 0; None: there is no estimate.
    now_ms: Unix milliseconds.
    probability_better: that the goal is better than what is in force.

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
    kept_because = _holds(base, goal, state, now_ms, probability_better)
    if kept_because is not None:
        return _decided(base, goal, state, (*reasons, kept_because))
    step = bounds.clamped_ms(_limited(base, goal))
    assert step is not None
    if step != goal:
        reasons = (*reasons, Reason.STEP_LIMITED)
    return _decided(_as_said(state.recommended_ms, base, step, bounds), goal, state, reasons)


def _as_said(said_ms: int | None, base_ms: int, step_ms: int, bounds: TimeoutBounds) -> int:
    """Keep to what the run before said and nobody did yet, when the step is no more than a trifle away from it."""
    if said_ms is None or not _is_trifle(said_ms, step_ms) or bounds.clamped_ms(said_ms) != said_ms:
        return step_ms
    is_same_way = said_ms != base_ms and (said_ms > base_ms) == (step_ms > base_ms)
    return said_ms if is_same_way and _limited(base_ms, said_ms) == said_ms else step_ms


def _is_trifle(from_ms: int, to_ms: int) -> bool:
    change = abs(to_ms - from_ms)
    return change < CHANGE_MS_MIN or 100 * change < CHANGE_PERCENT_MIN * from_ms


def _holds(base_ms: int, goal_ms: int, state: GroupState, now_ms: int, probability_better: float) -> Reason | None:
    """Say why a change must not happen now; None when it may. First match wins."""
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
