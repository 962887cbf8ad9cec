"""Which session timeout a group should have, before anybody's bounds, and why that one.

Sources in order, of which the first that has a value wins:
1. `spec.sessionTimeout.seconds`;
2. the fleet learner's recommendation, unless as many absences were measured here as are behind it;
3. the measured absences (`absences.samples`); fewer than `SAMPLES_MIN` only where they ask for more than the estimate;
4. the estimate from the pod template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ...api.reasons import Reason
from ...api.resources.staticgroup import SessionTimeout
from ...api.resources.status import TimeoutSource
from ..absences.samples import SAMPLES_MIN, Cause, Reservoir, measured_need, samples_needed
from ..protocols import CLASSIC
from ..workload import WorkloadView
from .bounds import Bounds

SESSION_TIMEOUT: Final = "session.timeout.ms"
"""The setting that each member of a classic group brings itself."""
PERCENTILE: Final = 95
"""Which share of the restarts the session timeout outlasts without the reserve, in percent."""
HEADROOM_PERCENT: Final = 50
"""The reserve, in percent of the estimate, for restarts that get slower under load."""
STEP_MS: Final = 5_000
MOMENT_MS_MAX: Final = 253_402_300_799_000
"""The last second of the year 9999, with which datetime and metav1.Time end."""
SCHEDULING_AND_IMAGE_S: Final = 20
"""Default for re-creating, scheduling, attaching volumes and pulling an image that the node mostly has."""
STARTUP_WITHOUT_PROBE_S: Final = 30
"""Default start-up time of a container that has neither a startup nor a readiness probe."""
INIT_CONTAINER_S: Final = 10
RESTART_MAX_MS: Final = 300_000
"""An absence longer than this, and than the pod template lets expect, has another cause than a restart."""
LOWER_AFTER_S: Final = 86_400.0
"""A lower value is taken when for so long no higher one was asked for."""


class Basis(StrEnum):
    """Name what a session timeout rests on; the value is what appears in status."""

    FIXED = "Fixed"
    STRUCTURAL = "Structural"
    FEW_ABSENCES = "FewAbsences"
    LONGEST_ABSENCE = "LongestAbsence"
    ORDER_STATISTIC = "OrderStatistic"
    FLEET = "Fleet"
    GROUP_CONFIG = "GroupConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutHysteresis:
    """A measured value in use, before any bound, which rises at once and falls after `LOWER_AFTER_S`; durable.

    Parameters
    ----------
    lower_since_s: since when only lower ones were asked for, seconds since the Unix epoch; None: none is.
    lower_ms: the highest of these.
    """

    timeout_ms: int
    lower_since_s: float | None = None
    lower_ms: int = 0

    def after(self, asked_ms: int, now_s: float) -> TimeoutHysteresis:
        """Return what is in use once `asked_ms` is asked for."""
        if asked_ms >= self.timeout_ms:
            return TimeoutHysteresis(timeout_ms=asked_ms)
        if self.lower_since_s is None:
            return replace(self, lower_since_s=now_s, lower_ms=asked_ms)
        lower_ms = max(self.lower_ms, asked_ms)
        if now_s - self.lower_since_s < LOWER_AFTER_S:
            return replace(self, lower_ms=lower_ms)
        if lower_ms == asked_ms:
            return TimeoutHysteresis(timeout_ms=lower_ms)
        return TimeoutHysteresis(timeout_ms=lower_ms, lower_since_s=now_s, lower_ms=asked_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTimeout:
    """What the fleet learner recommends for one group.

    Parameters
    ----------
    setting: of Kafka, that the number is for.
    recommended_ms: None: the present value is to stay.
    uncapped_ms: the number without any bound; None: not known.
    stops, method, reasons: what it rests on, and what shaped it, for people.
    is_released: the fleet's canary lets this group act on it now. is_rolled_back: the canary was rolled back.
    is_capped: the brokers' maximum shortened it.
    """

    setting: str
    recommended_ms: int | None
    uncapped_ms: int | None = None
    stops: int
    method: str
    reasons: tuple[str, ...] = ()
    is_released: bool
    is_rolled_back: bool = False
    is_capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the recommendations say of one group now; verified, and valid at the moment of the snapshot.

    Parameters
    ----------
    record: None when there is none to use; `reason` and `cause` then say why.
    valid_until_ms: Unix milliseconds; 0 without a record.
    cause: with a record, what is wrong with a newer snapshot; "" when nothing is.
    """

    record: FleetTimeout | None = None
    valid_until_ms: int = 0
    reason: Reason = Reason.RECOMMENDATION_USED
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceVerdict:
    """What became of a recommendation.

    Parameters
    ----------
    fleet_ms: the timeout to use, inside all bounds: the recommended one, or the one in use that is kept. None: the next
        source decides.
    recommended_ms: what the record recommends, inside all bounds, whether or not it is used; None when nothing.
    reason, cause: of the condition RecommendationCurrent.
    """

    fleet_ms: int | None
    recommended_ms: int | None = None
    record: FleetTimeout | None = None
    reason: Reason
    cause: str = ""

    def shown(self, cause: str) -> AdviceVerdict:
        """Return a verdict on a recommendation that is shown only."""
        return replace(self, reason=Reason.RECOMMENDATION_SHOWN, cause=cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTimeout:
    """A session timeout before any bound, and what it rests on.

    Parameters
    ----------
    need_ms: what it must reach: the time away of one restart, estimated, measured or recommended, without headroom.
    target_ms: the same with headroom.
    samples, why: from how many restarts, and why on this basis.
    hysteresis: what measured absences have put in use; None: they have not.
    advice: what became of the recommendation; None while none are read.
    """

    need_ms: int
    target_ms: int
    source: TimeoutSource
    basis: Basis
    samples: int = 0
    why: str = ""
    hysteresis: TimeoutHysteresis | None = None
    advice: AdviceVerdict | None = None

    @property
    def is_from_fleet(self) -> bool:
        """Whether `need_ms` is what the fleet learner recommends."""
        return self.advice is not None and self.advice.fleet_ms is not None

    @property
    def is_measured(self) -> bool:
        """Whether `need_ms` is what measured absences ask for."""
        return self.basis in (Basis.FEW_ABSENCES, Basis.LONGEST_ABSENCE, Basis.ORDER_STATISTIC)

    def within(self, bounds: Bounds) -> int:
        """Return the value to use: rounded up to 5 s and inside the bounds; a user's own number inside the brokers'."""
        if self.advice is not None and self.advice.fleet_ms is not None:
            return self.advice.fleet_ms
        if self.source is TimeoutSource.FIXED:
            return max(bounds.broker_min_ms, min(self.target_ms, bounds.broker_max_ms))
        return bounds.clamped_ms(quantised(self.target_ms))


def quantised(value_ms: int) -> int:
    """Round up to the step of 5 s, so that small changes of an estimate do not become a new value of every pod."""
    return -(-value_ms // STEP_MS) * STEP_MS


def desired_timeout(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    heartbeat_ms: int,
    advice: AdviceVerdict | None,
    absences: Mapping[Cause, Reservoir],
    in_use: TimeoutHysteresis | None,
    now_s: float,
) -> DesiredTimeout:
    """Choose a value from the sources; `advice` and `in_use` (`hysteresis`) are as in `DesiredTimeout`."""
    # Step 1: what is chosen here, by measured absences or the pod template.
    own = _own_choice(spec, workload, heartbeat_ms, absences, in_use, now_s)

    # Step 2: what comes before it in the order of sources.
    if spec.seconds is not None:
        return replace(
            own,
            target_ms=spec.seconds * 1000,
            source=TimeoutSource.FIXED,
            basis=Basis.FIXED,
            why="spec.sessionTimeout.seconds says so",
            hysteresis=None,
            advice=advice,
        )
    if advice is None or advice.fleet_ms is None:
        return replace(own, advice=advice)
    is_used = advice.reason is Reason.RECOMMENDATION_USED
    stops = advice.record.stops if advice.record is not None else None
    if stops is not None and is_used and own.hysteresis is not None and own.samples >= stops:
        recommended = f"{advice.recommended_ms} ms are recommended from {stops} stops"
        cause = f"{recommended}, and {own.samples} absences were measured here"
        why = f"{own.why}; the recommendation of the fleet learner rests on {stops}"
        return replace(own, why=why, advice=replace(advice, fleet_ms=None).shown(cause))
    asked_ms = advice.record.recommended_ms if is_used and advice.record is not None else None
    behind = (
        "kept while there is no newer one"
        if stops is None
        else f"{stops} restarts are behind it, {own.samples} were measured here"
    )
    return replace(
        own,
        need_ms=asked_ms or advice.fleet_ms,
        source=TimeoutSource.FLEET,
        basis=Basis.FLEET,
        samples=stops or 0,
        why=f"the fleet learner's: {behind}",
        advice=advice,
    )


def structural_need_ms(
    workload: WorkloadView | None, *, heartbeat_ms: int = 1000 * CLASSIC.heartbeat_interval_s
) -> int:
    """Estimate how long one restart keeps a member away, from the pod template alone.

    Returns
    -------
    Milliseconds: termination grace + re-creation + init containers + the longest start-up budget + one heartbeat.

    Notes
    -----
    Classic clients heartbeat until close() ends, so the grace period is an upper bound of that share.
    """
    grace_s = workload.termination_grace_s if workload else 30
    budgets = [c.startup_budget_s for c in workload.containers if c.startup_budget_s is not None] if workload else []
    startup_s = max(budgets) if budgets else STARTUP_WITHOUT_PROBE_S
    inits_s = INIT_CONTAINER_S * (workload.init_container_count if workload else 0)
    return 1000 * (grace_s + SCHEDULING_AND_IMAGE_S + inits_s + startup_s) + heartbeat_ms


def longest_restart_ms(workload: WorkloadView | None) -> int:
    """Return how long a restart takes at most, whatever goes wrong with it."""
    return max(RESTART_MAX_MS, 2 * structural_need_ms(workload))


def _own_choice(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    heartbeat_ms: int,
    absences: Mapping[Cause, Reservoir],
    in_use: TimeoutHysteresis | None,
    now_s: float,
) -> DesiredTimeout:
    """Return what the operator chooses if neither user nor fleet learner does; parameters as for `desired_timeout`."""
    # Step 1: the estimate holds until enough was measured, unless the few that were ask for more.
    structural_ms = structural_need_ms(workload, heartbeat_ms=heartbeat_ms)
    found = measured_need(absences, percent=PERCENTILE, heartbeat_ms=heartbeat_ms) if absences else None
    is_estimated = found is None or not (found.is_enough or found.need_ms > structural_ms)
    need_ms = structural_ms if found is None or is_estimated else found.need_ms
    target_ms = need_ms * (100 + HEADROOM_PERCENT) // 100
    why = "no absence was measured yet"
    if found is not None:
        why = f"{found.samples} measured absences are fewer than {SAMPLES_MIN} and stretch to {found.need_ms} ms only"
    own = DesiredTimeout(
        need_ms=need_ms,
        target_ms=target_ms,
        source=TimeoutSource.STRUCTURAL,
        basis=Basis.STRUCTURAL,
        samples=found.samples if found is not None else 0,
        why=f"{structural_ms} ms is the estimate from the pod template; {why}",
    )
    if found is None or is_estimated:
        return own

    # Step 2: rounding up carries no target beyond twice the longest absence, where the need allows the step below.
    twice_ms = 2 * found.longest_ms
    lower_ms = twice_ms // STEP_MS * STEP_MS
    if target_ms <= twice_ms < quantised(target_ms) and lower_ms >= need_ms:
        target_ms = lower_ms

    # Step 3: say what it rests on.
    of = f"{found.samples} measured absences ({found.cause.value})"
    why = f"{need_ms} ms bounds the {PERCENTILE}th percentile of {of}"
    basis = Basis.ORDER_STATISTIC if found.is_bound else Basis.LONGEST_ABSENCE
    if not found.is_bound:
        needs = f"a bound of the {PERCENTILE}th percentile needs {samples_needed(PERCENTILE)}"
        why = f"the longest of {of}, {found.longest_ms} ms, stretched to {need_ms} ms, because {needs}"

    # Step 4: up at once, down after a day; what few absences ask for is not kept.
    if not found.is_enough:
        return replace(own, target_ms=target_ms, basis=Basis.FEW_ABSENCES, why=why)
    hysteresis = in_use.after(target_ms, now_s) if in_use is not None else TimeoutHysteresis(timeout_ms=target_ms)
    if hysteresis.timeout_ms > target_ms:
        target_ms = hysteresis.timeout_ms
        why += f"; {target_ms} ms are kept until less was asked for during a whole day"
    return replace(own, target_ms=target_ms, basis=basis, why=why, hysteresis=hysteresis)


def judge_advice(
    advice: Advice, spec: SessionTimeout, setting: str, bounds: Bounds, kept_ms: int | None
) -> AdviceVerdict:
    """Decide what becomes of a recommendation; whatever is wrong with it leaves the present value as it is.

    Parameters
    ----------
    setting: the one that the group's protocol reads; a record for another one is not about this group as it is.
    kept_ms: the fleet's value that is in use; None: another source's is.

    Returns
    -------
    `fleet_ms` lies within `bounds`, or is None; it is None where the spec says seconds.
    """
    is_auto, record = spec.seconds is None, advice.record
    present_ms = bounds.clamped_ms(kept_ms) if is_auto and kept_ms is not None else None
    if record is None:
        return AdviceVerdict(fleet_ms=present_ms, reason=advice.reason, cause=advice.cause)
    if record.setting != setting:
        cause = f"the record is for {record.setting}, the group's protocol reads {setting}"
        return AdviceVerdict(fleet_ms=present_ms, reason=Reason.RECOMMENDATION_ABSENT, cause=cause)
    recommended_ms = None if record.recommended_ms is None else bounds.clamped_ms(quantised(record.recommended_ms))
    because = ", ".join(record.reasons) or record.method
    newer = f"; a newer snapshot is not used: {advice.cause}" if advice.cause else ""
    is_rolled_back = record.is_rolled_back and not record.is_released
    found = AdviceVerdict(
        fleet_ms=None if is_rolled_back else present_ms,
        recommended_ms=recommended_ms,
        record=record,
        reason=Reason.RECOMMENDATION_USED,
    )
    if recommended_ms is None:
        return found.shown(f"it is to keep the present session timeout ({because}){newer}")
    if not is_auto:
        fixed = "spec.sessionTimeout.seconds is set; remove it to use them"
        return found.shown(f"{recommended_ms} ms are recommended, and {fixed}{newer}")
    if is_rolled_back:
        return found.shown(f"it was rolled back in the fleet, so the estimate from the pod template holds{newer}")
    if not record.is_released:
        return found.shown(f"{recommended_ms} ms wait until the fleet's roll-out reaches this group{newer}")
    until = datetime.fromtimestamp(min(advice.valid_until_ms, MOMENT_MS_MAX) // 1000, tz=UTC)
    is_capped = record.is_capped and record.uncapped_ms is not None
    beyond = f"; without the brokers' maximum it would be {record.uncapped_ms} ms" if is_capped else ""
    valid = f"valid until {until:%Y-%m-%dT%H:%M:%SZ}"
    cause = f"{recommended_ms} ms from {record.stops} stops ({because}), {valid}{beyond}{newer}"
    return replace(found, fleet_ms=recommended_ms, cause=cause)
