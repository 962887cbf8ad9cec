"""What is not as it should be with one id, pod or member: most urgent first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...api import remedies
from ...api.resources.status import ExceptionKind
from ..evidence.chain import Incarnation, IncarnationState, way_out
from ..plan import Plan
from ..seats import Standing
from ..snapshot import Snapshot
from . import Finding, Subject

UNKNOWN_SUFFIX: Final = "UnknownSuffix"


def findings_of_seats(plan: Plan, snapshot: Snapshot, ledger: Sequence[Incarnation]) -> Iterator[Finding]:
    """Yield a finding for each id or pod that a person may have to look at.

    Parameters
    ----------
    ledger: incarnations whose fate is remembered; the suspects among them are told.
    """
    yield from _pods_to_restart(plan, snapshot)
    yield from plan.held
    for suspect in ledger:
        if suspect.state is IncarnationState.SUSPECT:
            is_near = suspect.namespace == snapshot.namespace
            where = "" if is_near else f" of namespace {suspect.namespace}"
            yield Finding(
                kind=ExceptionKind.SUSPECT,
                reason="DeathNotProven",
                sentence=f"uid {suspect.uid}{where} on node {suspect.node_name or 'unknown'}: {suspect.refusal}",
                remedy=way_out(suspect) if is_near else remedies.confirm_end_elsewhere(suspect.namespace),
                subject=Subject(pod_name=suspect.pod_name),
            )
    yield from _outsiders(plan)


def _pods_to_restart(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield pods that a person has to restart, each with the command."""
    namespace = snapshot.namespace
    for seat in plan.table.of(Standing.MISSING) if plan.table is not None else ():
        near = plan.suffix.for_pod(seat.pod_name) if plan.suffix is not None else None
        reason, sentence = "ReadyButNotJoined", "the pod is Ready but its member is not in the group"
        remedy = remedies.restart_pod(namespace, seat.pod_name)
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, f"set {plan.suffix.remedy}"
            remedy = f"a member of its pod holds {near.instance_id}"
        subject = Subject(instance_id=seat.key, pod_name=seat.pod_name)
        yield Finding(kind=ExceptionKind.MISSING, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    for pod in plan.pods_without_id:
        workload = snapshot.workload.name if snapshot.workload else pod.pod_name.rpartition("-")[0]
        yield Finding(
            kind=ExceptionKind.WITHOUT_ID,
            reason="StartedWithoutId",
            sentence="runs without its id",
            remedy=remedies.give_ids(namespace, workload),
            subject=Subject(pod_name=pod.pod_name),
        )


def _outsiders(plan: Plan) -> Iterator[Finding]:
    """Yield members that are not ours."""
    for member in plan.table.foreign if plan.table is not None else ():
        near = plan.suffix.of(member.instance_id) if plan.suffix is not None else None
        reason, sentence = "NotIssuedHere", "a static member whose id this StaticGroup never issued; never touched"
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, (
                f"set {plan.suffix.remedy}; it is the id of this pod but for what the client appends, never touched until then"
            )
        pod_name = near.pod_name if near is not None else None
        subject = Subject(instance_id=member.instance_id, member_id=member.member_id, pod_name=pod_name)
        yield Finding(kind=ExceptionKind.FOREIGN, reason=reason, sentence=sentence, subject=subject)
    for member in plan.table.dynamic if plan.table is not None else ():
        yield Finding(
            kind=ExceptionKind.DYNAMIC,
            reason="NoInstanceId",
            sentence=f"member {member.member_id[:120]} has no group.instance.id; never touched",
            subject=Subject(member_id=member.member_id),
        )
