"""Session timeouts of worlds in which no pod runs yet, so that only what is chosen for the next ones counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from staticgroup.api.protocols import ProtocolChoice
from staticgroup.api.resources.staticgroup import Mode, SessionTimeout
from staticgroup.core.absences.samples import Cause, Reservoir, Sample
from staticgroup.core.group import BrokerBounds, GroupType, GroupView
from staticgroup.core.injection import InjectionPlan, InjectionVerdict
from staticgroup.core.protocols import Protocol
from staticgroup.core.snapshot import History
from staticgroup.core.timeouts.desired import Advice, TimeoutHysteresis
from staticgroup.core.timeouts.group_config import GroupConfigRecord
from staticgroup.core.timeouts.in_force import TimeoutPlan, plan_timeouts
from staticgroup.core.workload import WorkloadView

from .builders import NOW_S, departure, group, history, injected, spec

SPEC = spec()


def rollouts(*lengths_ms: int) -> Mapping[Cause, Reservoir]:
    """Return measured absences of rollouts, each so long."""
    samples = (Sample(at_s=n, lot=n, shortest_ms=0, longest_ms=ms) for n, ms in enumerate(lengths_ms))
    return {Cause.ROLLOUT: Reservoir(samples=tuple(samples), seen=len(lengths_ms))}


def described(protocol: Protocol, *members: Any) -> GroupView:
    """Return the group as it is described."""
    return group(*members, group_type=protocol.group_type, group_epoch=5, assignment_epoch=5)


def timeout_of(
    wish: SessionTimeout,
    view: WorkloadView | None,
    protocol: Protocol | None,
    bounds: BrokerBounds,
    *,
    absences: Mapping[Cause, Reservoir] | None = None,
    advice: Advice | None = None,
    kept_ms: int | None = None,
    in_use: TimeoutHysteresis | None = None,
    record: GroupConfigRecord | None = None,
    writes: bool = False,
    mode: Mode = Mode.MANAGE,
    now_s: float = NOW_S,
    **world: Any,
) -> TimeoutPlan:
    """Return what is decided for a group of this protocol; None: it is not known."""
    choice = protocol.chosen_by if protocol is not None else ProtocolChoice.AUTO
    wish = wish.model_copy(update={"write_group_config": writes})
    wanted = SPEC.model_copy(update={"session_timeout": wish, "group_protocol": choice, "mode": mode})
    snapshot = departure(
        workload=replace(view, status_replicas=0) if view is not None else None,
        pods=(),
        group=described(protocol) if protocol is not None else group(group_type=GroupType.ABSENT),
        bounds=bounds,
        advice=advice,
        chains={},
        fresh={},
        **({"known": ()} | world),
    )
    before = replace(
        history(absences=absences or {}), fleet_timeout_ms=kept_ms, measured=in_use,
        group_config=record or GroupConfigRecord(),
    )
    injection = InjectionPlan(injected=injected(session_timeout_ms=None), templates=(), verdict=InjectionVerdict.ACTIVE)
    return plan_timeouts(wanted, snapshot, before, injection, now_s)


def fleet_ms(plan: TimeoutPlan) -> int | None:
    """Return the fleet learner's value that is kept for later rounds."""
    return plan.remembered(History()).fleet_timeout_ms
