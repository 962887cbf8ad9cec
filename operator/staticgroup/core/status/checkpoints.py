"""The durable form of what is known of the seats' histories, to and from the StaticGroup's status."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from ...api.ordinals import Ordinals
from ...api.resources import continuity as api
from ...api.resources.status import StaticGroupStatus
from ..evidence.chain import Incarnation, IncarnationState
from ..evidence.continuity import Checkpoint, SeatedPod, SettledWorkload
from ..evidence.spans import BlindSpan

_DURABLE = {"continuity", "injected", "issued", "ledger", "settling"}
LISTED = 1
"""resourceVersion of an incarnation that only a seat names: below every real one, so that a LIST decides about it."""


def checkpoint_from(status: api.Continuity | None) -> Checkpoint | None:
    """Read a checkpoint; None when there is none."""
    if status is None:
        return None
    workload = status.workload
    return Checkpoint(
        epoch=status.watch_epoch,
        timeline=status.timeline,
        at_s=status.at.timestamp(),
        workload_name=status.workload_name,
        group_uid=status.static_group_uid,
        ids_by_hand=status.ids_by_hand,
        seats=tuple(
            SeatedPod(ordinal=s.ordinal, uid=s.uid, node_name=s.node_name, restarts=s.restarts, has_other_ids=s.other_ids)
            for s in status.seats
        ),
        is_complete=status.all_seats,
        workload=None if workload is None else SettledWorkload(
            uid=workload.uid, generation=workload.generation, start=workload.start, replicas=workload.replicas
        ),
        blind=tuple(
            BlindSpan(
                ordinals=Ordinals.parse(s.ordinals),
                since_s=s.since.timestamp(),
                until_s=s.until.timestamp(),
                reason=s.reason,
                after_epoch=s.watch_epoch,
            )
            for s in status.blind
        ),
    )


def sealed(status: StaticGroupStatus) -> StaticGroupStatus:
    """Return the status with the digest of what the next operator goes on from; as it is while there is no history."""
    if status.continuity is None:
        return status
    continuity = status.continuity.model_copy(update={"digest": digest_of(status)})
    return status.model_copy(update={"continuity": continuity})


def is_sealed(status: StaticGroupStatus | None, uid: str) -> bool:
    """True when nothing of what a status remembers was changed since it was written for the StaticGroup with this uid."""
    known = status.continuity if status is not None else None
    return status is not None and known is not None and (known.static_group_uid, known.digest) == (uid, digest_of(status))


def digest_of(status: StaticGroupStatus) -> str:
    """Return 32 hex digits over the durable parts of a status, whatever order and form the API server keeps them in.

    Notes
    -----
    `suffixFollowsPreset` does not count: an operator from before it was known does not read it and has to go on from this
    status all the same. Whoever changes it makes members foreign or expected; what proves their end stays as it is. Nor
    does the namespace of an incarnation, for the same reason: without it a suspect stays one; nor `worker`, which is no evidence.
    """
    wire = status.model_dump(mode="json", exclude_none=True, include=_DURABLE)
    parts = {name: wire.get(name) for name in _DURABLE}
    parts["continuity"] = {k: v for k, v in (parts["continuity"] or {}).items() if k != "digest"}
    if parts["injected"] is not None:
        parts["injected"] = {k: v for k, v in parts["injected"].items() if k not in ("suffixFollowsPreset", "worker")}
    if parts["ledger"] is not None:
        entries = parts["ledger"].get("incarnations") or ()
        kept = [{k: v for k, v in entry.items() if k != "namespace"} for entry in entries]
        parts["ledger"] = parts["ledger"] | ({"incarnations": kept} if entries else {})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def wire_continuity(checkpoint: Checkpoint | None) -> api.Continuity | None:
    """Write a checkpoint; None for none."""
    if checkpoint is None:
        return None
    workload = checkpoint.workload
    return api.Continuity(
        watch_epoch=checkpoint.epoch,
        timeline=checkpoint.timeline,
        at=wire_time(checkpoint.at_s),
        workload_name=checkpoint.workload_name,
        static_group_uid=checkpoint.group_uid,
        ids_by_hand=checkpoint.ids_by_hand,
        seats=[
            api.Seat(
                ordinal=s.ordinal, uid=s.uid, node_name=s.node_name, restarts=s.restarts, other_ids=s.has_other_ids
            )
            for s in checkpoint.seats
        ],
        all_seats=checkpoint.is_complete,
        workload=workload and api.SettledWorkload(
            uid=workload.uid, generation=workload.generation, start=workload.start, replicas=workload.replicas
        ),
        blind=[
            api.BlindSpan(
                ordinals=s.ordinals.text,
                since=wire_time(s.since_s),
                until=wire_time(s.until_s),
                reason=s.reason,
                watch_epoch=s.after_epoch,
            )
            for s in checkpoint.blind
        ],
    )


def seated(namespace: str, status: StaticGroupStatus) -> tuple[Incarnation, ...]:
    """Return the objects that had the names of seats, as far as a status tells."""
    continuity = status.continuity
    if continuity is None:
        return ()
    return tuple(
        Incarnation(
            namespace=namespace,
            pod_name=f"{continuity.workload_name}-{seat.ordinal}",
            uid=seat.uid,
            instance_ids=frozenset() if seat.other_ids else _ids(status, continuity.workload_name, seat.ordinal),
            node_name=seat.node_name,
            state=IncarnationState.LIVE,
            since_s=continuity.at.timestamp(),
            resource_version=LISTED,
            restarts=seat.restarts or 0,
            ids_are_fixed=seat.restarts is None,
        )
        for seat in continuity.seats
    )


def _ids(status: StaticGroupStatus, workload_name: str, ordinal: int) -> frozenset[str]:
    """Return the ids that the status' own injection gives to an ordinal."""
    if status.injected is None:
        return frozenset()
    pod_name = f"{workload_name}-{ordinal}"
    base = status.injected.id_template.replace("{podName}", pod_name).replace("{ordinal}", str(ordinal))
    return frozenset(base + injected.suffix for injected in status.injected.ids)


def wire_time(seconds: float) -> datetime:
    """Write seconds since the Unix epoch as metav1.Time keeps them, whole."""
    return datetime.fromtimestamp(int(seconds), tz=UTC)
