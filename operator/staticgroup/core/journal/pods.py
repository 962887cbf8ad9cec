"""Ends and starts of processes: one fact for each id that a process holds, since a pod may hold several members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...api import journal as api
from ...api.identifiers import InvalidInstanceIdError, Ordinal
from ...api.injection import env_entries, identity_of
from ...api.resources.staticgroup import StaticGroupSpec
from ..ids.naming import Naming
from ..protocols import PROTOCOLS
from .look import Collector, short
from .runs import RETOLD_MS, RunChange

_OF_THE_GROUP = frozenset(p.told_as.value for p in PROTOCOLS.values() if p.group_setting and p.told_as is not None)
"""Protocols whose members hold a setting of their group, whatever their pods show."""


def tell_runs(collector: Collector) -> None:
    """Tell the ends and starts of processes, one record for each id that the process holds."""
    naming = collector.look.plan.naming
    for change in collector.look.runs if naming is not None else ():
        if collector.look.ended_ms - change.observed_at_ms > RETOLD_MS:
            continue
        for instance_id in _ids_of(change, naming, collector.look.spec) if naming is not None else ():
            _tell_run(collector, change, instance_id)


def _tell_run(collector: Collector, change: RunChange, instance_id: str) -> None:
    pod, timeout = change.pod, collector.look.plan.timeout
    group_ms = timeout.brokers.group_ms if timeout is not None else None
    own_ms = pod.session_timeout_ms if collector.remembered.protocol not in _OF_THE_GROUP else None
    collector.tell(
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
        image_digest=short(change.container.image_digest),
        rollout_id=short(pod.rollout_id),
        reason=short(change.reason),
        session_timeout_ms=own_ms if own_ms is not None else group_ms,
    )


def _ids_of(change: RunChange, naming: Naming, spec: StaticGroupSpec) -> Iterator[str]:
    """Yield the ids that the members in this container hold: those of the entry that names it, as the pod carries them."""
    index = change.pod.pod_name.rpartition("-")[2]
    if not (index.isascii() and index.isdigit()):
        return
    seen: set[str] = set()
    for entry in env_entries(identity_of(spec)):
        if entry.container != change.container.name and not (entry.container is None and change.container.is_first):
            continue
        for scheme in naming.schemes:
            if entry.suffix not in scheme.env_suffixes:
                continue
            with suppress(InvalidInstanceIdError):
                base = str(scheme.base_id(Ordinal(int(index)), entry.suffix))
                if base in change.pod.instance_ids:
                    seen.update(base + added for added in scheme.suffixes)
    yield from sorted(seen)
