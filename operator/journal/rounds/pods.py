"""Ends and starts of processes: one fact for each id that a process holds, since a pod may hold several members."""

from __future__ import annotations

from staticgroup.core.absences.member_runs import by_member
from staticgroup.core.absences.runs import RunChange
from staticgroup.core.protocols import PROTOCOLS

from .. import records as api
from .recorder import Recorder

_OF_THE_GROUP = frozenset(p.reported_as.value for p in PROTOCOLS.values() if p.group_setting and p.reported_as is not None)
"""Protocols whose members hold a setting of their group, whatever their pods show."""


def record_runs(recorder: Recorder) -> None:
    """Record the ends and starts of processes, once for each id that the process holds."""
    naming = recorder.plan.naming
    if naming is not None:
        for change, instance_id in by_member(recorder.runs, naming, recorder.spec, recorder.ended_ms):
            _record_run(recorder, change, instance_id)


def _record_run(recorder: Recorder, change: RunChange, instance_id: str) -> None:
    pod, timeout = change.pod, recorder.plan.timeout
    group_ms = timeout.brokers.group_ms if timeout is not None else None
    own_ms = pod.session_timeout_ms if recorder.remembered.protocol not in _OF_THE_GROUP else None
    recorder.record(
        f"{pod.uid}/{change.restart_count}/{instance_id}/{'up' if change.is_up else 'down'}",
        api.MemberUp if change.is_up else api.MemberDown,
        observed_at_ms=change.observed_at_ms,
        source_time_ms=change.source_time_ms,
        time_lo_ms=change.lo_ms,
        time_hi_ms=change.hi_ms,
        instance_id=instance_id,
        pod_name=pod.pod_name,
        pod_uid=pod.uid,
        restart_count=change.restart_count,
        node_name=pod.node_name,
        image_digest=api.short(change.container.image_digest),
        rollout_id=api.short(pod.rollout_id),
        reason=api.short(change.reason),
        session_timeout_ms=own_ms if own_ms is not None else group_ms,
    )
