"""Scaling, rollouts and the session timeout: what people and the plan change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...api import journal as api
from ..workload import WorkloadView
from .look import Collector, Rollout


def tell_workload(collector: Collector) -> None:
    """Tell scaling and rollouts; a StatefulSet that cannot be read, or is older than what was read, is no news."""
    now, before = collector.look.snapshot.workload, collector.remembered.workload
    if now is None:
        return
    if before is not None and before.uid != now.uid:
        before = None
        collector.remembered = replace(collector.remembered, rollout=None)
    if before is not None and _is_older(now, before):
        return
    if before is not None and before.replicas != now.replicas:
        _tell_of_workload(
            collector,
            f"{now.uid}/{now.metadata_generation}/scaled",
            api.WorkloadScaled,
            replicas_before=before.replicas,
            replicas_after=now.replicas,
        )
    _tell_rollout(collector, before, now)
    collector.remembered = replace(collector.remembered, workload=now)


def _tell_rollout(collector: Collector, before: WorkloadView | None, now: WorkloadView) -> None:
    running, is_rolling = collector.remembered.rollout, _is_rolling(now)
    went_by = before is not None and bool(before.update_revision) and before.update_revision != now.update_revision
    if running is None or running.revision != now.update_revision:
        if not is_rolling and not went_by:
            collector.remembered = replace(collector.remembered, rollout=None)
            return
        running = Rollout(
            revision=now.update_revision,
            metadata_generation=now.metadata_generation,
            rebalances=collector.remembered.rebalances,
        )
        _tell_of_workload(
            collector,
            f"{now.uid}/{now.metadata_generation}/{running.revision}/rollout-started",
            api.RolloutStarted,
            rollout_id=running.revision,
            replicas=now.replicas,
        )
    if not is_rolling:
        _tell_of_workload(
            collector,
            f"{now.uid}/{running.metadata_generation}/{running.revision}/rollout-finished",
            api.RolloutFinished,
            rollout_id=running.revision,
            replicas=now.replicas,
            rebalances=collector.remembered.rebalances - running.rebalances,
        )
    collector.remembered = replace(collector.remembered, rollout=running if is_rolling else None)


def _tell_of_workload(collector: Collector, fact_id: str, data_type: type[api.GroupData], **fields: Any) -> None:
    lo_ms = None if collector.is_first else collector.remembered.seen_ms
    bounds = {"time_lo_ms": lo_ms, "time_hi_ms": collector.look.ended_ms}
    collector.tell(f"{collector.look.snapshot.uid}/{fact_id}", data_type, **(bounds | fields))


def tell_timeout(collector: Collector) -> None:
    """Tell another session timeout for the next pods, or of the group, than the status had."""
    timeout, before_ms = collector.look.plan.timeout, collector.look.timeout_before_ms
    after_ms = None
    if timeout is not None:
        after_ms = timeout.inject_ms if timeout.inject_ms is not None else timeout.brokers.group_ms
    if timeout is None or after_ms is None or after_ms == before_ms:
        return
    generation = collector.look.snapshot.metadata_generation
    fact_id = f"{generation}/timeout-changed/{after_ms}"
    if before_ms is not None:  # it may have been this one before, so only the time tells the two changes apart
        fact_id = f"{generation}/timeout-changed/{before_ms}-{after_ms}/{collector.look.ended_ms}"
    _tell_of_workload(
        collector,
        fact_id,
        api.TimeoutChanged,
        session_timeout_ms_before=before_ms,
        session_timeout_ms_after=after_ms,
        timeout_source=timeout.desired.source.value,
    )


def _is_older(now: WorkloadView, before: WorkloadView) -> bool:
    """True for a reading from before the last one: an API server's cache may lag behind what another one has shown."""
    lost_status = bool(before.update_revision) and not now.update_revision
    return now.metadata_generation < before.metadata_generation or lost_status


def _is_rolling(workload: WorkloadView) -> bool:
    """True while pods of the update revision are missing or not Ready (status as the StatefulSet controller writes it).

    `currentRevision` is no measure of the end: with a partition it never becomes the update revision.
    """
    if workload.update_revision == workload.current_revision:
        return False
    wanted = max(0, workload.replicas - workload.partition)
    return workload.updated_replicas < wanted or workload.ready_replicas < workload.replicas
