"""Which session timeout a group should have, before anybody's bounds, and why that one.

Who is asked, in this order: the spec, the fleet learner where more restarts are behind its word than were measured here, the
absences that were measured here, and the structure of the pod template while these are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ...api.reasons import Reason
from ...api.resources.staticgroup import SessionTimeout, TimeoutMode
from ...api.resources.status import TimeoutSource
from ..absences.causes import Cause
from ..absences.reservoir import Reservoir
from ..protocols import CLASSIC
from ..workload import WorkloadView
from .advice import STEP_MS, AdviceVerdict, quantised
from .bounds import Bounds
from .measured import SAMPLES_MIN, Basis, Held, MeasuredNeed, held, measured_need, samples_needed

SCHEDULING_AND_IMAGE_S = 20
"""Default for re-creating, scheduling, attaching volumes and pulling an image that the node mostly has."""
STARTUP_WITHOUT_PROBE_S = 30
"""Default start-up time of a container that has neither a startup nor a readiness probe."""
INIT_CONTAINER_S = 10
RESTART_MAX_MS: Final = 300_000
"""Whoever is away longer than this, and than the pod template lets expect, is away for another reason than a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What was measured up to now.

    Parameters
    ----------
    absences: what is kept of them, by cause.
    in_use: what they have put in use; None: they have not.
    now_s: seconds since the Unix epoch.
    """

    absences: Mapping[Cause, Reservoir] = field(default_factory=lambda: MappingProxyType({}))
    in_use: Held | None = None
    now_s: float = 0.0


UNTRIED: Final = Experience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted.

    Parameters
    ----------
    need_ms, target_ms, structural_ms, basis, samples, why, held: see `timeouts.TimeoutPlan`.
    fleet_ms: the fleet's value, inside all bounds and with its own reserve; None unless `source` is Fleet.
    advice: what became of the recommendation; None while none are read.
    """

    need_ms: int
    target_ms: int
    structural_ms: int
    source: TimeoutSource
    basis: Basis
    samples: int = 0
    why: str = ""
    held: Held | None = None
    fleet_ms: int | None = None
    advice: AdviceVerdict | None = None


def structural_need_ms(workload: WorkloadView | None, *, heartbeat_interval_ms: int = 1000 * CLASSIC.heartbeat_interval_s) -> int:
    """Estimate how long one restart keeps a member away, from the pod template alone.

    Returns
    -------
    Milliseconds: termination grace + re-creation + init containers + the longest start-up budget + one heartbeat.

    Notes
    -----
    Classic clients heartbeat until close() ends, so the grace period is an upper bound of that share. See
    facts on `ordinals` and probes in KEP-3335 and the API's Probe type.
    """
    grace_s = workload.termination_grace_s if workload else 30
    budgets = [c.startup_budget_s for c in workload.containers if c.startup_budget_s is not None] if workload else []
    startup_s = max(budgets) if budgets else STARTUP_WITHOUT_PROBE_S
    inits_s = INIT_CONTAINER_S * (workload.init_container_count if workload else 0)
    return 1000 * (grace_s + SCHEDULING_AND_IMAGE_S + inits_s + startup_s) + heartbeat_interval_ms


def longest_restart_ms(workload: WorkloadView | None) -> int:
    """Return how long a restart takes at most, whatever goes wrong with it."""
    return max(RESTART_MAX_MS, 2 * structural_need_ms(workload))


def wish_of(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    heartbeat_interval_ms: int,
    judged: AdviceVerdict | None,
    experience: Experience,
) -> Wish:
    """Say what is wanted.

    Parameters
    ----------
    judged: what became of the fleet's recommendation so far; None while none are read.
    """
    structural_ms = structural_need_ms(workload, heartbeat_interval_ms=heartbeat_interval_ms)
    own = _own_wish(spec, structural_ms, heartbeat_interval_ms, experience)
    if spec.mode is TimeoutMode.FIXED and spec.seconds is not None:
        why = "spec.sessionTimeout.mode is Fixed"
        return replace(
            own, target_ms=spec.seconds * 1000, source=TimeoutSource.FIXED, basis=Basis.FIXED, why=why, held=None, advice=judged
        )
    if judged is None or judged.fleet_ms is None:
        return replace(own, advice=judged)
    stops = judged.record.stops if judged.record is not None else None
    if stops is not None and judged.reason is Reason.RECOMMENDATION_USED and own.held is not None and own.samples >= stops:
        return replace(own, why=f"{own.why}; the fleet learner's word rests on {stops}", advice=_outvoted(judged, own.samples, stops))
    asked_ms = judged.asked_ms if judged.reason is Reason.RECOMMENDATION_USED else None
    behind = "kept while there is no newer one" if stops is None else f"{stops} restarts are behind it, {own.samples} were measured here"
    return Wish(
        need_ms=asked_ms or judged.fleet_ms,
        target_ms=own.target_ms,
        structural_ms=structural_ms,
        source=TimeoutSource.FLEET,
        basis=Basis.FLEET,
        samples=stops or 0,
        why=f"the fleet learner's: {behind}",
        held=own.held,
        fleet_ms=judged.fleet_ms,
        advice=judged,
    )


def _outvoted(judged: AdviceVerdict, samples: int, stops: int) -> AdviceVerdict:
    """Say that a recommendation is not taken, because more was measured here."""
    text = f"{judged.recommended_ms} ms are recommended from {stops} stops, and {samples} absences were measured here"
    return replace(judged, fleet_ms=None, reason=Reason.RECOMMENDATION_SHOWN, cause=text)


def _own_wish(spec: SessionTimeout, structural_ms: int, heartbeat_interval_ms: int, experience: Experience) -> Wish:
    """Say what is wanted by what was measured here, and by the pod template while that is little."""
    found = measured_need(experience.absences, percent=spec.percentile, heartbeat_interval_ms=heartbeat_interval_ms)
    is_few = found is not None and not found.is_enough
    if found is None or (is_few and found.need_ms <= structural_ms):
        return Wish(
            need_ms=structural_ms,
            target_ms=_with_headroom(structural_ms, spec),
            structural_ms=structural_ms,
            source=TimeoutSource.STRUCTURAL,
            basis=Basis.STRUCTURAL,
            samples=found.samples if found is not None else 0,
            why=_why_structural(structural_ms, found),
        )
    target_ms = _at_most_twice(_with_headroom(found.need_ms, spec), found)
    in_use = held(experience.in_use, target_ms, experience.now_s) if found.is_enough else None
    return Wish(
        need_ms=found.need_ms,
        target_ms=in_use.timeout_ms if in_use is not None else target_ms,
        structural_ms=structural_ms,
        source=TimeoutSource.STRUCTURAL,
        basis=found.basis,
        samples=found.samples,
        why=_why_measured(found, spec.percentile) + _why_higher(in_use, target_ms),
        held=in_use,
    )


def _with_headroom(need_ms: int, spec: SessionTimeout) -> int:
    return need_ms * (100 + spec.headroom_percent) // 100


def _at_most_twice(target_ms: int, found: MeasuredNeed) -> int:
    """Return a target that rounding up does not carry beyond twice the longest absence; less only where that is what is needed."""
    twice_ms = 2 * found.longest_ms
    lower_ms = twice_ms // STEP_MS * STEP_MS
    is_by_rounding = target_ms <= twice_ms < quantised(target_ms)
    return lower_ms if is_by_rounding and lower_ms >= found.need_ms else target_ms


def _why_structural(structural_ms: int, found: MeasuredNeed | None) -> str:
    estimate = f"{structural_ms} ms is the estimate from the pod template"
    if found is None:
        return f"{estimate}; no absence was measured yet"
    return f"{estimate}; {found.samples} measured absences are fewer than {SAMPLES_MIN} and stretch to {found.need_ms} ms only"


def _why_measured(found: MeasuredNeed, percentile: int) -> str:
    longest = f"the longest of {found.samples} measured absences ({found.cause.value}), {found.longest_ms} ms"
    if found.basis is Basis.ORDER_STATISTIC:
        return f"{found.need_ms} ms bounds the {percentile}th percentile of {found.samples} measured absences ({found.cause.value})"
    return f"{longest}, stretched to {found.need_ms} ms, because a bound of the {percentile}th percentile needs {samples_needed(percentile)}"


def _why_higher(in_use: Held | None, target_ms: int) -> str:
    if in_use is None or in_use.timeout_ms <= target_ms:
        return ""
    return f"; {in_use.timeout_ms} ms are kept until less was asked for during a whole day"


def chosen_within(wish: Wish, bounds: Bounds) -> int:
    """Return the value to use: the wish rounded up to 5 s and brought inside the bounds, or the user's number inside the brokers'."""
    if wish.fleet_ms is not None:
        return wish.fleet_ms
    if wish.source is TimeoutSource.FIXED:
        return max(bounds.broker_min_ms, min(wish.target_ms, bounds.broker_max_ms))
    return bounds.clamped_ms(quantised(wish.target_ms))
