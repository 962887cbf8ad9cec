"""Choose the session timeout of the next pods inside what the brokers allow.

The number goes into the next pods of a classic group by injection; a KIP-848 or streams group has one value at the broker, see
`group_timeouts`. A value outside the broker's bounds kills a classic client at start (INVALID_SESSION_TIMEOUT), so nothing
outside them ever leaves this module.
"""

from __future__ import annotations

from dataclasses import replace

from ...api.reasons import Reason
from ...api.resources.staticgroup import SessionTimeout
from ...api.resources.status import TimeoutSource
from ..group import BrokerBounds, SessionBounds
from ..protocols import CLASSIC, Protocol
from ..workload import WorkloadView
from .advice import SESSION_TIMEOUT, Advice, AdviceVerdict, judge_advice
from .bounds import UNKNOWN_CLIENT, Bounds, Client, bounds_of
from .group_timeouts import plan_group
from .timeouts import TimeoutPlan, TimeoutVerdict, need_words, plan_of
from .wishes import UNTRIED, Experience, chosen_within, wish_of

ASSUMED_MIN_MS = 6_000
ASSUMED_MAX_MS = 300_000
"""Bounds assumed while the broker's are unreadable: the default minimum, and the maximum that vendors often set."""


def plan_timeout(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    protocol: Protocol | None,
    bounds: BrokerBounds | None,
    *,
    client: Client = UNKNOWN_CLIENT,
    advice: Advice | None = None,
    kept_ms: int | None = None,
    experience: Experience = UNTRIED,
    asked_by_others_ms: int = 0,
    writes_group: bool = False,
) -> TimeoutPlan:
    """Choose the session timeout of the next pods and judge it; `in_force.judged` adds what holds.

    Parameters
    ----------
    protocol: None while it is not known.
    bounds: what the broker reports now; None or None-fields when it could not be read.
    client: of the next pods; a KIP-848 or streams group takes no session timeout from it.
    advice: what the fleet learner's recommendations say of the group; None while they are not read.
    kept_ms: the fleet's value in use, which holds on while there is advice but no record to use; None: none is.
    experience: what was measured of absences.
    writes_group, asked_by_others_ms: a group's own setting is the operator's to write, and others want it to be as long as this.
    """
    known = bounds or BrokerBounds()
    if protocol is not None and protocol.group_setting:
        found = known.of(protocol.group_type)
        return plan_group(spec, workload, protocol, found, advice, kept_ms, experience, asked_by_others_ms if writes_group else None)
    sessions = known.of((protocol or CLASSIC).group_type)
    return _plan_own(spec, workload, client, sessions, advice, kept_ms, experience, is_known=protocol is not None)


def _plan_own(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    client: Client,
    bounds: SessionBounds,
    advice: Advice | None,
    kept_ms: int | None,
    experience: Experience,
    *,
    is_known: bool,
) -> TimeoutPlan:
    """Choose the value that each member brings itself; it is injected only once it is known that they do."""
    beat_ms = client.heartbeat_ms or 1000 * CLASSIC.heartbeat_interval_s
    limits = bounds_of(spec, client, beat_ms, *_assumed(bounds))
    judged = None if advice is None else judge_advice(advice, spec, SESSION_TIMEOUT, limits, kept_ms)
    wish = wish_of(spec, workload, beat_ms, judged, experience)
    chosen_ms = chosen_within(wish, limits)
    verdict, message = _classic_verdict(
        wish.source, bounds, limits, wanted_ms=wish.target_ms, chosen_ms=chosen_ms, need_ms=wish.need_ms
    )
    if not is_known:
        verdict, message = TimeoutVerdict.UNKNOWN, (
            "the group's protocol is not known yet, so no session timeout is injected; set spec.protocol to decide it now"
        )
    return plan_of(
        wish,
        bounds,
        inject_ms=chosen_ms if is_known else None,
        verdict=verdict,
        message=message,
        advice_verdict=wish.advice if is_known else _until_known(wish.advice),
    )


def _assumed(bounds: SessionBounds) -> tuple[int, int]:
    """Return the least and the most that the broker allows, or is assumed to while it does not say."""
    least_ms = ASSUMED_MIN_MS if bounds.min_ms is None else bounds.min_ms
    return least_ms, ASSUMED_MAX_MS if bounds.max_ms is None else bounds.max_ms


def _until_known(judged: AdviceVerdict | None) -> AdviceVerdict | None:
    """Say that a recommendation waits, while the protocol is not known and nothing is injected."""
    if judged is None or judged.reason is not Reason.RECOMMENDATION_USED:
        return judged
    text = f"{judged.recommended_ms} ms are recommended, and the group's protocol is not known yet"
    return replace(judged, reason=Reason.RECOMMENDATION_SHOWN, cause=text)


def _classic_verdict(
    source: TimeoutSource, bounds: SessionBounds, limits: Bounds, *, wanted_ms: int, chosen_ms: int, need_ms: int
) -> tuple[TimeoutVerdict, str]:
    """Say whether the chosen classic timeout outlasts a restart, and what to raise when it does not."""
    is_fixed, readable = source is TimeoutSource.FIXED, bounds.min_ms is not None and bounds.max_ms is not None
    broker_min_ms, broker_max_ms = limits.broker_min_ms, limits.broker_max_ms
    if is_fixed and chosen_ms != wanted_ms:
        knob = "group.max.session.timeout.ms" if wanted_ms > broker_max_ms else "group.min.session.timeout.ms"
        relation = "raise" if wanted_ms > broker_max_ms else "lower"
        known = "" if readable else " (assumed, the broker's bounds are unreadable)"
        return TimeoutVerdict.OUTSIDE_BROKER_BOUNDS, (
            f"spec.sessionTimeout.seconds asks for {wanted_ms} ms but the broker allows {broker_min_ms} to {broker_max_ms} ms"
            f"{known}; {chosen_ms} ms is injected instead; {relation} {knob} to {wanted_ms} on the brokers or change the field"
        )
    if chosen_ms < need_ms:
        need = need_words(need_ms, is_fleet=source is TimeoutSource.FLEET)
        way = limits.way_to(need_ms, fixed_ms=wanted_ms if is_fixed else None)
        return TimeoutVerdict.BELOW_NEED, f"{need} but the next pods get {chosen_ms} ms; {way}"
    if not readable:
        return TimeoutVerdict.BOUNDS_UNREADABLE, (
            f"the broker's bounds are not known, {ASSUMED_MIN_MS} to {ASSUMED_MAX_MS} ms are assumed; once the brokers answer, "
            "this needs DESCRIBE_CONFIGS on the Cluster resource"
        )
    return TimeoutVerdict.SUFFICIENT, ""
