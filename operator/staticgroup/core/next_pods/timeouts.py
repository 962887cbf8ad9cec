"""Session timeouts: how long a pod may be away, and what the broker lets us ask for; what holds now is in `in_force`.

Without history the need is estimated from the structure of the pod template; in mode Auto the fleet learner's
recommendation takes its place, inside every bound. The number goes into the next pods of a classic group by injection;
a KIP-848 group has one value at the broker, which is read and judged, never written here. A value outside the broker's
bounds kills a classic client at start (INVALID_SESSION_TIMEOUT), so nothing outside them ever leaves this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ...api.reasons import Reason
from ...api.recommendation import Setting, TimeoutBounds
from ...api.resources.staticgroup import SessionTimeout, TimeoutMode
from ...api.resources.status import TimeoutSource
from ..group import BrokerBounds, SessionBounds
from ..protocols import CLASSIC, Protocol
from ..workload import WorkloadView
from .advice import Advice, AdviceVerdict, judge_advice, quantised

SCHEDULING_AND_IMAGE_S = 20
"""Default for re-creating, scheduling, attaching volumes and pulling an image that the node mostly has."""
STARTUP_WITHOUT_PROBE_S = 30
"""Default start-up time of a container that has neither a startup nor a readiness probe."""
INIT_CONTAINER_S = 10
ASSUMED_MIN_MS = 6_000
ASSUMED_MAX_MS = 300_000
"""Bounds assumed while the broker's are unreadable: the default minimum, and the maximum that vendors often set."""


class TimeoutVerdict(StrEnum):
    """Whether the timeout outlasts a restart; the value is the reason of the TimeoutSufficient condition."""

    SUFFICIENT = "Sufficient"
    BELOW_NEED = "BelowNeed"
    OUTSIDE_BROKER_BOUNDS = "OutsideBrokerBounds"
    BOUNDS_UNREADABLE = "BoundsUnreadable"
    GROUP_CONFIG_TOO_SHORT = "GroupConfigTooShort"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The session timeouts that hold now.

    Parameters
    ----------
    shortest_ms, longest_ms: over the live pods, or the group's own; None when none is known.
    pods: how many pods live, seen or reported by the StatefulSet.
    unknown: of how many of them it is not known.
    such_as: name of one of these that was seen; "" when none was.
    """

    shortest_ms: int | None = None
    longest_ms: int | None = None
    pods: int = 0
    unknown: int = 0
    such_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPlan:
    """The timeout of one group.

    Parameters
    ----------
    inject_ms: value for the next pods; None where it must not be injected (KIP-848, or unknown protocol).
    group_ms: the group's own setting at the broker (KIP-848, streams); None for a classic group, or when unknown.
    in_force: what holds now.
    next_ms: what the next pods get: what is injected, or else their template, or the group's own; None when unknown.
    need_ms: what the timeout must reach: the estimated time away of one restart, without headroom, or what the
        fleet learner recommends.
    target_ms: structural need with headroom, before any bound.
    structural_ms: the structural need, whatever the source.
    advice_verdict: what became of the recommendation; None while no recommendations are read.
    message: what is short, and which setting to raise to what; "" when sufficient.
    """

    inject_ms: int | None
    group_ms: int | None = None
    need_ms: int
    target_ms: int
    source: TimeoutSource
    verdict: TimeoutVerdict
    message: str = ""
    broker_min_ms: int | None = None
    broker_max_ms: int | None = None
    structural_ms: int
    advice_verdict: AdviceVerdict | None = None
    in_force: InForce = InForce()
    next_ms: int | None = None

    @property
    def is_from_fleet(self) -> bool:
        """Whether `need_ms` is what the fleet learner recommends."""
        return self.advice_verdict is not None and self.advice_verdict.fleet_ms is not None and self.source is not TimeoutSource.FIXED

    @property
    def fleet_ms(self) -> int | None:
        """The fleet's value that classic pods get and that is kept when recommendations fail; None: it is not used."""
        return self.advice_verdict.fleet_ms if self.advice_verdict is not None and self.source is TimeoutSource.FLEET else None


def seconds(value_ms: int) -> str:
    """Return milliseconds as people read them, such as 125 s or 90.5 s."""
    return f"{value_ms / 1000:g} s"


def in_short(t: TimeoutPlan) -> str | None:
    """Return what holds and what the next pods get, such as 125s, 125s→300s or ?→125s; None when neither is known.

    Notes
    -----
    With an arrow only where they differ. Of pods that differ among themselves those are named that have not yet what the
    next ones get.
    """
    held = sorted({t.in_force.shortest_ms, t.in_force.longest_ms} - {None, t.next_ms})  # type: ignore[type-var]
    others = "-".join(f"{value_ms / 1000:g}s" for value_ms in held if value_ms is not None)
    if t.in_force.unknown:
        others = "?" if t.next_ms is not None or others else ""
    if t.next_ms is None:
        return others or None
    if not others and t.in_force.shortest_ms is not None:
        return f"{t.next_ms / 1000:g}s"
    return f"{others}→{t.next_ms / 1000:g}s"


def structural_need_ms(workload: WorkloadView | None, *, heartbeat_interval_s: int = CLASSIC.heartbeat_interval_s) -> int:
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
    return 1000 * (grace_s + SCHEDULING_AND_IMAGE_S + inits_s + startup_s + heartbeat_interval_s)


def _quantised(value_ms: int, lower_ms: int, upper_ms: int) -> int:
    """Round up to the step, then clamp; the bounds win over the step."""
    stepped = quantised(value_ms)
    return max(lower_ms, min(stepped, upper_ms))


def plan_timeout(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    protocol: Protocol | None,
    bounds: BrokerBounds | None,
    *,
    advice: Advice | None = None,
    kept_ms: int | None = None,
) -> TimeoutPlan:
    """Choose the session timeout of the next pods and judge it; `in_force.judged` adds what holds.

    Parameters
    ----------
    protocol: None while it is not known.
    bounds: what the broker reports now; None or None-fields when it could not be read.
    advice: what the fleet learner's recommendations say of the group; None while they are not read.
    kept_ms: the fleet's value in use, which holds on while there is advice but no record to use; None: none is.
    """
    known = bounds or BrokerBounds()
    if protocol is not None and protocol.group_setting:
        return _judge_group(spec, workload, protocol, known.of(protocol.group_type), advice)
    sessions = known.of((protocol or CLASSIC).group_type)
    return _plan_own(spec, workload, sessions, advice, kept_ms, is_known=protocol is not None)


def _plan_own(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    bounds: SessionBounds,
    advice: Advice | None,
    kept_ms: int | None,
    *,
    is_known: bool,
) -> TimeoutPlan:
    """Choose the value that each member brings itself; it is injected only once it is known that they do."""
    structural_ms = need_ms = structural_need_ms(workload)
    target_ms = need_ms * (100 + spec.headroom_percent) // 100
    fixed_ms = spec.seconds * 1000 if spec.mode is TimeoutMode.FIXED and spec.seconds is not None else None
    wanted_ms = target_ms if fixed_ms is None else fixed_ms
    broker_min_ms, broker_max_ms = _assumed(bounds)
    judged = None
    if advice is not None:
        limits = _limits(spec, broker_min_ms, broker_max_ms, CLASSIC.heartbeat_interval_s)
        judged = judge_advice(advice, spec, Setting.SESSION_TIMEOUT, limits, kept_ms)
    source = TimeoutSource.STRUCTURAL
    if fixed_ms is not None:
        source = TimeoutSource.FIXED
        chosen_ms = max(broker_min_ms, min(wanted_ms, broker_max_ms))
    elif judged is not None and judged.fleet_ms is not None:
        source, chosen_ms = TimeoutSource.FLEET, judged.fleet_ms
        need_ms = judged.asked_ms if judged.reason is Reason.RECOMMENDATION_USED and judged.asked_ms else chosen_ms
    else:
        lower_ms = max(spec.min_seconds * 1000, broker_min_ms)
        chosen_ms = _quantised(
            wanted_ms, min(lower_ms, broker_max_ms), max(min(spec.max_seconds * 1000, broker_max_ms), broker_min_ms)
        )
    verdict, message = _classic_verdict(source, bounds, wanted_ms=wanted_ms, chosen_ms=chosen_ms, need_ms=need_ms)
    if not is_known:
        verdict, message = TimeoutVerdict.UNKNOWN, (
            "the group's protocol is not known yet, so no session timeout is injected; set spec.protocol to decide it now"
        )
    return TimeoutPlan(
        inject_ms=chosen_ms if is_known else None,
        need_ms=need_ms,
        target_ms=target_ms,
        source=source,
        verdict=verdict,
        message=message,
        broker_min_ms=bounds.min_ms,
        broker_max_ms=bounds.max_ms,
        structural_ms=structural_ms,
        advice_verdict=judged if is_known else _until_known(judged),
    )


def _assumed(bounds: SessionBounds) -> tuple[int, int]:
    """Return the least and the most that the broker allows, or is assumed to while it does not say."""
    least_ms = ASSUMED_MIN_MS if bounds.min_ms is None else bounds.min_ms
    return least_ms, ASSUMED_MAX_MS if bounds.max_ms is None else bounds.max_ms


def _limits(
    spec: SessionTimeout, broker_min_ms: int | None, broker_max_ms: int | None, heartbeat_interval_s: int
) -> TimeoutBounds:
    """Gather every bound on what the fleet learner may set; the spec's hold in mode Auto only, as its documentation says."""
    is_auto = spec.mode is TimeoutMode.AUTO
    return TimeoutBounds(
        spec_minimum_ms=spec.min_seconds * 1000 if is_auto else None,
        spec_maximum_ms=spec.max_seconds * 1000 if is_auto else None,
        broker_minimum_ms=broker_min_ms,
        broker_maximum_ms=broker_max_ms,
        heartbeat_interval_ms=heartbeat_interval_s * 1000,
    )


def _until_known(judged: AdviceVerdict | None) -> AdviceVerdict | None:
    """Say that a recommendation waits, while the protocol is not known and nothing is injected."""
    if judged is None or judged.reason is not Reason.RECOMMENDATION_USED:
        return judged
    text = f"{judged.recommended_ms} ms are recommended, and the group's protocol is not known yet"
    return replace(judged, reason=Reason.RECOMMENDATION_SHOWN, cause=text)


def _classic_verdict(
    source: TimeoutSource, bounds: SessionBounds, *, wanted_ms: int, chosen_ms: int, need_ms: int
) -> tuple[TimeoutVerdict, str]:
    """Say whether the chosen classic timeout outlasts a restart, and what to raise when it does not."""
    is_fixed, readable = source is TimeoutSource.FIXED, bounds.min_ms is not None and bounds.max_ms is not None
    broker_min_ms, broker_max_ms = _assumed(bounds)
    if is_fixed and chosen_ms != wanted_ms:
        knob = "group.max.session.timeout.ms" if wanted_ms > broker_max_ms else "group.min.session.timeout.ms"
        relation = "raise" if wanted_ms > broker_max_ms else "lower"
        known = "" if readable else " (assumed, the broker's bounds are unreadable)"
        return TimeoutVerdict.OUTSIDE_BROKER_BOUNDS, (
            f"spec.sessionTimeout.seconds asks for {wanted_ms} ms but the broker allows {broker_min_ms} to {broker_max_ms} ms"
            f"{known}; {chosen_ms} ms is injected instead; {relation} {knob} to {wanted_ms} on the brokers or change the field"
        )
    if chosen_ms < need_ms:
        if broker_max_ms < need_ms:
            fix = f"raise group.max.session.timeout.ms on the brokers to at least {need_ms}"
        else:
            field_name = "spec.sessionTimeout.seconds" if is_fixed else "spec.sessionTimeout.maxSeconds"
            fix = f"raise {field_name} to at least {-(-need_ms // 1000)}"
        return (
            TimeoutVerdict.BELOW_NEED,
            f"{need_words(need_ms, is_fleet=source is TimeoutSource.FLEET)} but the next pods get {chosen_ms} ms; {fix}",
        )
    if not readable:
        return TimeoutVerdict.BOUNDS_UNREADABLE, (
            f"the broker's bounds are not known, {ASSUMED_MIN_MS} to {ASSUMED_MAX_MS} ms are assumed; once the brokers answer, "
            "this needs DESCRIBE_CONFIGS on the Cluster resource"
        )
    return TimeoutVerdict.SUFFICIENT, ""


def need_words(need_ms: int, *, is_fleet: bool) -> str:
    """Say what a session timeout must reach, and who says so."""
    if is_fleet:
        return f"the fleet learner recommends that a member may be away for {need_ms} ms"
    return f"a restart may keep a member away for {need_ms} ms"


def _judge_group(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    protocol: Protocol,
    bounds: SessionBounds,
    advice: Advice | None,
) -> TimeoutPlan:
    """Judge a group's own value (KIP-848, KIP-1071); clients of such groups refuse to start with session.timeout.ms set."""
    setting, holds_ms = protocol.group_setting, bounds.group_ms
    judged = None
    if advice is not None and protocol.recommended_as is not None:
        judged = _group_advice(advice, spec, protocol, protocol.recommended_as, bounds)
    structural_ms = need_ms = structural_need_ms(workload, heartbeat_interval_s=protocol.heartbeat_interval_s)
    target_ms = need_ms * (100 + spec.headroom_percent) // 100
    is_fleet = judged is not None and judged.fleet_ms is not None
    if judged is not None and judged.fleet_ms is not None:
        need_ms = judged.fleet_ms
    if holds_ms is None:
        verdict, message = (
            TimeoutVerdict.BOUNDS_UNREADABLE,
            f"{setting} of the group is not known; once the brokers answer, this needs DESCRIBE_CONFIGS on the "
            "Group resource",
        )
    elif holds_ms >= need_ms:
        verdict, message = TimeoutVerdict.SUFFICIENT, ""
    else:
        verdict = TimeoutVerdict.GROUP_CONFIG_TOO_SHORT
        message = (
            f"{need_words(need_ms, is_fleet=is_fleet)} but the group's session ends after {holds_ms} ms; "
        )
        if bounds.max_ms is not None and need_ms > bounds.max_ms:
            knob = f"{protocol.prefix}max.session.timeout.ms"
            message += f"raise {knob} on the brokers to at least {need_ms} (needs a broker restart), then "
        message += f"set {setting}={need_ms} on the group"
    return TimeoutPlan(
        inject_ms=None,
        group_ms=holds_ms,
        need_ms=need_ms,
        target_ms=target_ms,
        source=TimeoutSource.BROKER,
        verdict=verdict,
        message=message,
        broker_min_ms=bounds.min_ms,
        broker_max_ms=bounds.max_ms,
        structural_ms=structural_ms,
        advice_verdict=judged,
    )


def _group_advice(
    advice: Advice, spec: SessionTimeout, protocol: Protocol, recommended_as: Setting, bounds: SessionBounds
) -> AdviceVerdict:
    """Judge a recommendation for a group's own setting, which a person or a program with the right to it makes."""
    limits = _limits(spec, bounds.min_ms, bounds.max_ms, protocol.heartbeat_interval_s)
    judged = judge_advice(advice, spec, recommended_as, limits, None)
    if judged.reason is not Reason.RECOMMENDATION_USED or judged.fleet_ms == bounds.group_ms:
        return judged
    text = f"set {protocol.group_setting}={judged.fleet_ms} on the group"
    return replace(judged, reason=Reason.RECOMMENDATION_SHOWN, cause=text)
