"""Scaling, rollouts and the session timeout: what people and the plan change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.workload import WorkloadView

from .. import records as api
from .recorder import Recorder, Rollout


def record_workload(recorder: Recorder) -> None:
    """Record scaling and rollouts; a StatefulSet that cannot be read, or is older than what was read, is no news."""
    now, before = recorder.snapshot.workload, recorder.remembered.workload
    if now is None:
        return
    if before is not None and before.uid != now.uid:
        before = None
        recorder.remembered = replace(recorder.remembered, rollout=None)
    if before is not None and _is_older(now, before):
        return
    if before is not None and before.replicas != now.replicas:
        _record(
            recorder,
            f"{now.uid}/{now.metadata_generation}/scaled",
            api.WorkloadScaled,
            replicas_before=before.replicas,
            replicas_after=now.replicas,
        )
    _record_rollout(recorder, before, now)
    recorder.remembered = replace(recorder.remembered, workload=now)


def _record_rollout(recorder: Recorder, before: WorkloadView | None, now: WorkloadView) -> None:
    running, is_rolling = recorder.remembered.rollout, _is_rolling(now)
    went_by = before is not None and bool(before.update_revision) and before.update_revision != now.update_revision
    if running is None or running.revision != now.update_revision:
        if not is_rolling and not went_by:
            recorder.remembered = replace(recorder.remembered, rollout=None)
            return
        running = Rollout(
            revision=now.update_revision,
            metadata_generation=now.metadata_generation,
            rebalances=recorder.rebalances,
        )
        _record(
            recorder,
            f"{now.uid}/{now.metadata_generation}/{running.revision}/rollout-started",
            api.RolloutStarted,
            rollout_id=running.revision,
            replicas=now.replicas,
        )
    if not is_rolling:
        _record(
            recorder,
            f"{now.uid}/{running.metadata_generation}/{running.revision}/rollout-finished",
            api.RolloutFinished,
            rollout_id=running.revision,
            replicas=now.replicas,
            rebalances=recorder.rebalances - running.rebalances,
        )
    recorder.remembered = replace(recorder.remembered, rollout=running if is_rolling else None)


def _record(recorder: Recorder, fact_id: str, data_type: type[api.GroupData], **fields: Any) -> None:
    bounds = {"time_lo_ms": recorder.last_ms, "time_hi_ms": recorder.ended_ms}
    recorder.record(f"{recorder.snapshot.uid}/{fact_id}", data_type, **(bounds | fields))


def record_timeout(recorder: Recorder) -> None:
    """Record another session timeout for the next pods, or of the group, than the status had."""
    timeout, before_ms = recorder.plan.timeout, recorder.timeout_before_ms
    after_ms = None
    if timeout is not None:
        after_ms = timeout.inject_ms if timeout.inject_ms is not None else timeout.brokers.group_ms
    if timeout is None or after_ms is None or after_ms == before_ms:
        return
    generation = recorder.snapshot.metadata_generation
    fact_id = f"{generation}/timeout-changed/{after_ms}"
    if before_ms is not None:  # it may have been this one before, so only the time tells the two changes apart
        fact_id = f"{generation}/timeout-changed/{before_ms}-{after_ms}/{recorder.ended_ms}"
    _record(
        recorder,
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
