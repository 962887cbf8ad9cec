"""Judge, and where the spec says so choose, the one session timeout that a KIP-848 or streams group has at the brokers.

Clients of such groups refuse to start with session.timeout.ms set, so nothing is ever injected. What is chosen lies inside
the bounds that were read: nothing is written to a broker whose bounds are not known, because it could not be verified either. Whoever has
pods in the group counts with the one number that it wants by itself, so that all come to the same longest one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...api.reasons import Reason
from ...api.resources.staticgroup import SessionTimeout
from ...api.resources.status import TimeoutSource
from ...api.schema import TIMEOUT_MS_MAX
from ..group import SessionBounds
from ..protocols import Protocol
from ..workload import WorkloadView
from .advice import Advice, AdviceVerdict, judge_advice
from .bounds import Client, bounds_of
from .measured import Basis
from .timeouts import TimeoutPlan, TimeoutVerdict, need_words, plan_of
from .wishes import Experience, Wish, chosen_within, wish_of

ANY_SESSION: Final = Client(limit_ms=None)
"""Clients of such groups have no session timeout of their own that they could refuse."""


def plan_group(
    spec: SessionTimeout,
    workload: WorkloadView | None,
    protocol: Protocol,
    bounds: SessionBounds,
    advice: Advice | None,
    kept_ms: int | None,
    experience: Experience,
    asked_by_others_ms: int | None,
) -> TimeoutPlan:
    """Judge a group's own value.

    Parameters
    ----------
    kept_ms: the fleet's value that the operator has set; None: it has not.
    asked_by_others_ms: the longest that other StaticGroups want by themselves for the same setting, which is one for all of them: the
        longest wins, or they would set it in turns. None: the setting is not the operator's to write.

    Returns
    -------
    A plan whose `group_target_ms` is what is wanted; `shared_setting.settled` says what is set of it now.
    """
    beat_ms = bounds.heartbeat_ms or 1000 * protocol.heartbeat_interval_s
    judged = None
    if advice is not None:
        limits = bounds_of(spec, ANY_SESSION, beat_ms, bounds.min_ms or 0, bounds.max_ms or TIMEOUT_MS_MAX)
        judged = judge_advice(advice, spec, protocol.group_setting, limits, None if asked_by_others_ms is None else kept_ms)
    wish = wish_of(spec, workload, beat_ms, judged, experience)
    own_ms = chosen_within(wish, bounds_of(spec, ANY_SESSION, beat_ms, 0, TIMEOUT_MS_MAX))
    if asked_by_others_ms is None:
        return _judged_only(protocol, bounds, wish, own_ms)
    if bounds.group_ms is None or bounds.min_ms is None or bounds.max_ms is None:
        message = (
            f"{protocol.group_setting} of the group and its bounds are not known, so it is not set; once the brokers answer, this needs "
            "DESCRIBE_CONFIGS on the Group and the Cluster resource"
        )
        return plan_of(wish, bounds, verdict=TimeoutVerdict.BOUNDS_UNREADABLE, message=message, advice_verdict=wish.advice, own_ms=own_ms)
    target_ms = max(bounds.min_ms, min(max(own_ms, asked_by_others_ms), bounds.max_ms))
    verdict, message = _written_verdict(protocol, bounds, wish, target_ms, max(bounds.min_ms, min(own_ms, bounds.max_ms)))
    return plan_of(
        wish, bounds, group_target_ms=target_ms, verdict=verdict, message=message, advice_verdict=wish.advice, own_ms=own_ms
    )


def _judged_only(protocol: Protocol, bounds: SessionBounds, wish: Wish, own_ms: int) -> TimeoutPlan:
    """Judge a value that somebody else sets."""
    setting, holds_ms = protocol.group_setting, bounds.group_ms
    need_ms = wish.need_ms if wish.fleet_ms is None else wish.fleet_ms
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
        message = f"{need_words(need_ms, is_fleet=wish.fleet_ms is not None)} but the group's session ends after {holds_ms} ms; "
        if bounds.max_ms is not None and need_ms > bounds.max_ms:
            message += f"{_raise(protocol, need_ms)}, then "
        message += f"set {setting}={need_ms} on the group"
    told = replace(wish, need_ms=need_ms, basis=Basis.GROUP_CONFIG, why=f"the group's own setting, which the operator does not set; {wish.why}")
    return plan_of(
        told, bounds, source=TimeoutSource.BROKER, verdict=verdict, message=message, advice_verdict=_shown(protocol, bounds, wish.advice),
        own_ms=own_ms,
    )  # fmt: skip


def _written_verdict(
    protocol: Protocol, bounds: SessionBounds, wish: Wish, target_ms: int, own_ms: int
) -> tuple[TimeoutVerdict, str]:
    """Say whether the value that the operator sets outlasts a restart, and what to raise when it cannot."""
    need_ms, setting = wish.need_ms, protocol.group_setting
    need = need_words(need_ms, is_fleet=wish.source is TimeoutSource.FLEET)
    if target_ms < need_ms:
        short = f"{need} but {setting} of the group is set to {target_ms} ms"
        if bounds.max_ms is not None and bounds.max_ms < need_ms:
            return TimeoutVerdict.GROUP_CONFIG_TOO_SHORT, f"{short}; {_raise(protocol, need_ms)}"
        field_name = "spec.sessionTimeout.seconds" if wish.source is TimeoutSource.FIXED else "spec.sessionTimeout.maxSeconds"
        return TimeoutVerdict.BELOW_NEED, f"{short}; raise {field_name} to at least {-(-need_ms // 1000)}"
    if wish.source is TimeoutSource.FIXED and own_ms != wish.target_ms:
        return TimeoutVerdict.OUTSIDE_BROKER_BOUNDS, (
            f"spec.sessionTimeout.seconds asks for {wish.target_ms} ms but the broker allows {bounds.min_ms} to {bounds.max_ms} ms; "
            f"{setting} of the group is set to {target_ms} ms instead; change the field, or {protocol.prefix}min.session.timeout.ms or "
            f"{protocol.prefix}max.session.timeout.ms on the brokers"
        )
    if bounds.group_ms is not None and bounds.group_ms < need_ms:
        return TimeoutVerdict.BELOW_NEED, f"{need} but the group's session ends after {bounds.group_ms} ms; it is being set to {target_ms} ms"
    return TimeoutVerdict.SUFFICIENT, ""


def _raise(protocol: Protocol, need_ms: int) -> str:
    return f"raise {protocol.prefix}max.session.timeout.ms on the brokers to at least {need_ms} (needs a broker restart)"


def _shown(protocol: Protocol, bounds: SessionBounds, judged: AdviceVerdict | None) -> AdviceVerdict | None:
    """Say that a person or a program with the right to it has to make the setting that is recommended."""
    if judged is None or judged.reason is not Reason.RECOMMENDATION_USED or judged.fleet_ms == bounds.group_ms:
        return judged
    text = f"set {protocol.group_setting}={judged.fleet_ms} on the group"
    return replace(judged, reason=Reason.RECOMMENDATION_SHOWN, cause=text)
