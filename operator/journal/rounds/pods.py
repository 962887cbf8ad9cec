"""Ends and starts of processes: one fact for each id that a process holds, since a pod may hold several members."""

from __future__ import annotations

from contextlib import suppress

from staticgroup.api.identifiers import InvalidInstanceIdError, Ordinal
from staticgroup.api.injection import env_entries
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.ids.naming import Naming
from staticgroup.core.protocols import PROTOCOLS

from .. import records as api
from ..runs import RECENT_MS, RunChange
from .recorder import Recorder

_OF_THE_GROUP = frozenset(p.reported_as.value for p in PROTOCOLS.values() if p.group_setting and p.reported_as)
"""Protocols whose members hold a setting of their group, whatever their pods show."""


def record_runs(recorder: Recorder) -> None:
    """Record the recent ends and starts of processes, once for each id that the process holds."""
    naming = recorder.plan.naming
    if naming is None:
        return
    injected = recorder.plan.history.injected
    for change in recorder.runs:
        if recorder.ended_ms - change.observed_at_ms <= RECENT_MS:
            chosen = (injected.container if injected is not None else "") or change.pod.required[0].name
            for instance_id in _ids_of(change, naming, recorder.spec, chosen):
                _record_run(recorder, change, instance_id)


def _ids_of(change: RunChange, naming: Naming, spec: StaticGroupSpec, chosen: str) -> list[str]:
    """Return the ids of the `client.env` entries of the container, as the pod carries them.

    Parameters
    ----------
    chosen: the container of entries that name none.
    """
    index = change.pod.name.rpartition("-")[2]
    if not (index.isascii() and index.isdigit()):
        return []
    found: set[str] = set()
    for entry in env_entries(spec.client):
        if change.container.name != (entry.container or chosen):
            continue
        for scheme in naming.schemes:
            if entry.suffix not in scheme.env_suffixes:
                continue
            with suppress(InvalidInstanceIdError):
                base = str(scheme.base_id(Ordinal(int(index)), entry.suffix))
                if base in change.pod.instance_ids:
                    found.update(base + added for added in scheme.suffixes)
    return sorted(found)


def _record_run(recorder: Recorder, change: RunChange, instance_id: str) -> None:
    pod, timeout = change.pod, recorder.plan.timeout
    group_ms = timeout.brokers.group_ms if timeout is not None else None
    own_ms = min(pod.session_timeouts_ms, default=None) if recorder.remembered.protocol not in _OF_THE_GROUP else None
    recorder.record(
        f"{pod.uid}/{change.restart_count}/{instance_id}/{'up' if change.is_up else 'down'}",
        api.MemberUp if change.is_up else api.MemberDown,
        observed_at_ms=change.observed_at_ms,
        source_time_ms=change.source_time_ms,
        time_lo_ms=change.lo_ms,
        time_hi_ms=change.hi_ms,
        instance_id=instance_id,
        pod_name=pod.name,
        pod_uid=pod.uid,
        restart_count=change.restart_count,
        node_name=pod.node_name,
        image_digest=api.short(change.container.image_digest),
        rollout_id=api.short(pod.revision),
        reason=api.short(change.reason),
        session_timeout_ms=own_ms if own_ms is not None else group_ms,
    )
