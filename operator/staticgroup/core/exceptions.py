"""The list of what is not as it should be: one row per id or pod, most urgent first, bounded.

A row says what is so and what to do; `since` survives as long as the row does, so that a user sees how old it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ..api import status as api
from .chain import Incarnation, IncarnationState, way_out
from .guards import Guard
from .plan import Plan
from .snapshot import Snapshot

MESSAGE_MAX = 300
_KINDS = {
    Guard.ZOMBIE: api.ExceptionKind.ZOMBIE,
    Guard.CONFLICT: api.ExceptionKind.CONFLICTING,
    Guard.DUPLICATE: api.ExceptionKind.CONFLICTING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry before it has an age; None where it concerns no id or no pod."""

    kind: api.ExceptionKind
    reason: str
    message: str
    instance_id: str | None = None
    pod_name: str | None = None


def exceptions_of(
    plan: Plan, snapshot: Snapshot, ledger: Sequence[Incarnation], before: Sequence[api.MemberException], now: datetime
) -> list[api.MemberException]:
    """Return at most 50 rows; a row that was there before keeps its `since`."""
    since = {(e.kind, e.instance_id, e.pod_name, e.reason): e.since for e in before}
    stamp = now.replace(microsecond=0)
    return [
        api.MemberException(
            kind=row.kind,
            instance_id=row.instance_id[:249] if row.instance_id else None,
            pod_name=row.pod_name,
            reason=row.reason,
            message=row.message[:MESSAGE_MAX],
            since=since.get((row.kind, row.instance_id and row.instance_id[:249], row.pod_name, row.reason), stamp),
        )
        for row in islice(_rows(plan, snapshot, ledger), api.EXCEPTIONS_MAX)
    ]


def _rows(plan: Plan, snapshot: Snapshot, ledger: Sequence[Incarnation]) -> Iterator[Row]:
    yield from _pods_to_restart(plan, snapshot)
    for h in plan.held:
        pod_name = plan.identity.pod_name_of(h.instance_id) if plan.identity else None
        kind = _KINDS.get(h.guard, api.ExceptionKind.HELD)
        yield Row(kind=kind, instance_id=h.instance_id, pod_name=pod_name, reason=h.guard.value, message=h.message)
    for s in ledger:
        if s.state is IncarnationState.SUSPECT:
            hint = f"; {way_out(s)}"
            message = f"uid {s.uid} on node {s.node_name or 'unknown'}: {s.refusal}"[: MESSAGE_MAX - len(hint)] + hint
            yield Row(kind=api.ExceptionKind.SUSPECT, pod_name=s.pod_name, reason="DeathNotProven", message=message)
    yield from _outsiders(plan)


def _pods_to_restart(plan: Plan, snapshot: Snapshot) -> Iterator[Row]:
    """Yield pods that a person has to restart, each with the command."""
    namespace = snapshot.namespace
    for i in plan.membership.missing if plan.membership and plan.identity else ():
        pod = plan.identity.pod_name_of(i) if plan.identity else None
        near = plan.suffix.for_pod(pod) if plan.suffix else None
        reason, message = (
            "ReadyButNotJoined",
            f"the pod is Ready but its member is not in the group; restart it: kubectl -n {namespace} delete pod {pod}",
        )
        if near is not None and plan.suffix is not None:
            reason, message = "UnknownSuffix", f"set {plan.suffix.remedy}; a member of its pod holds {near.instance_id}"
        yield Row(kind=api.ExceptionKind.MISSING, instance_id=i, pod_name=pod, reason=reason, message=message)
    for p in plan.pods_without_id:
        workload = snapshot.workload.name if snapshot.workload else p.pod_name.rpartition("-")[0]
        message = f"runs without its id; give it one: kubectl -n {namespace} rollout restart statefulset/{workload}"
        yield Row(kind=api.ExceptionKind.WITHOUT_ID, pod_name=p.pod_name, reason="StartedWithoutId", message=message)


def _outsiders(plan: Plan) -> Iterator[Row]:
    """Yield members that are not ours."""
    for f in plan.membership.foreign if plan.membership else ():
        near = plan.suffix.of(f.instance_id) if plan.suffix else None
        reason, pod, message = "NotIssuedHere", None, "a static member whose id this StaticGroup never issued; never touched"
        if near is not None and plan.suffix is not None:
            reason, pod = "UnknownSuffix", near.pod_name
            message = f"set {plan.suffix.remedy}; it is the id of this pod but for what the client appends, never touched until then"
        yield Row(kind=api.ExceptionKind.FOREIGN, instance_id=f.instance_id, pod_name=pod, reason=reason, message=message)
    for d in plan.membership.dynamic if plan.membership else ():
        message = f"member {d.member_id[:120]} has no group.instance.id; never touched"
        yield Row(kind=api.ExceptionKind.DYNAMIC, reason="NoInstanceId", message=message)
