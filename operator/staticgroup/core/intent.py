"""The session timeout of the next pods, and what becomes of the one that the group has at the brokers."""

from __future__ import annotations

from dataclasses import replace

from ..api.resources.staticgroup import Mode, StaticGroupSpec
from .next_pods.agent import with_init_container
from .next_pods.bounds import client_of
from .next_pods.choice import plan_timeout
from .next_pods.group_config import GroupConfigRecord, GroupConfigWrite, heartbeat_ms, held_over_ms, plan_group_config
from .next_pods.shared_setting import SharedSetting, settled
from .next_pods.timeouts import TimeoutPlan
from .next_pods.wishes import Experience
from .protocols import protocol_in_force
from .roles import protocol_asked_for
from .snapshot import History, Snapshot


def next_pods(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> TimeoutPlan:
    """Decide the session timeout of the next pods."""
    return plan_timeout(
        spec.session_timeout,
        with_init_container(spec, snapshot.workload),
        protocol_in_force(protocol_asked_for(spec), snapshot.group),
        snapshot.bounds,
        client=client_of(spec, snapshot.workload),
        advice=snapshot.advice,
        kept_ms=history.fleet_timeout_ms,
        experience=Experience(absences=history.absences, in_use=history.measured, now_s=snapshot.described_at_s),
        asked_by_others_ms=snapshot.asked_by_others_ms,
        writes_group=_writes_group(spec),
    )


def group_setting(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, timeout: TimeoutPlan, now_s: float
) -> tuple[TimeoutPlan, GroupConfigWrite | None, GroupConfigRecord | None, SharedSetting | None]:
    """Decide what becomes of the session timeout that the group has at the brokers.

    Parameters
    ----------
    timeout: as `next_pods` returns it.

    Returns
    -------
    The plan with what is set of what is wanted; the write, None when there is none to do now; and what is remembered of the last
    write and of the setting.
    """
    protocol, bounds, last = protocol_in_force(protocol_asked_for(spec), snapshot.group), snapshot.bounds, history.group_config
    known = history.shared_setting if _writes_group(spec) else None
    timeout, setting = settled(timeout, protocol, bounds, known, last, snapshot.unheard, now_s)
    again_after_s = setting.raise_again_after_s if setting is not None else 0.0
    write, record = plan_group_config(timeout, protocol, bounds, snapshot.group, last, now_s, again_after_s=again_after_s)
    if protocol is not None:
        timeout = replace(timeout, slow_ms=held_over_ms(record, heartbeat_ms(protocol, bounds), now_s))
    return timeout, write, record, setting


def _writes_group(spec: StaticGroupSpec) -> bool:
    return spec.session_timeout.write_group_config and spec.mode is Mode.MANAGE
