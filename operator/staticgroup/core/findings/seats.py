"""What is not as it should be with one id, pod or member: most urgent first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from ...api import remedies
from ...api.identifiers import SEPARATORS, may_become
from ...api.resources.status import ExceptionKind
from ..next_pods.injection import InjectionVerdict
from ..plan import Plan
from ..roles import CONNECT
from ..seats import SeatTable, Standing
from ..snapshot import Snapshot
from . import Finding, Subject
from .connect import misaddressed, way_to_agent
from .membership import absent_remedy
from .workload import way_to_id

UNKNOWN_SUFFIX: Final = "UnknownSuffix"
_SILENCED: Final = {InjectionVerdict.CONFLICTING: remedies.DIVIDE_IDS, InjectionVerdict.HINDERED: remedies.SEE_WHY_NO_ID}
MEMBER_ID_SHOWN: Final = 80
"""A Connect worker's begins with its advertised address; an exception that shows more has no place for what is so of it."""


def findings_of_seats(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each id or pod that a person may have to look at."""
    yield from _pods_to_restart(plan, snapshot)
    yield from (finding for finding in plan.locked_out if not finding.is_transient)
    yield from plan.held
    yield from _suspects(plan, snapshot)
    if plan.table is not None:
        yield from misaddressed(plan.table)
        yield from _copies(plan.table, snapshot)
        yield from _replaced(plan.table)
    yield from _outsiders(plan, snapshot)


def _suspects(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods that may live unseen, which hold the removal of members that joined beside them."""
    for suspect in plan.history.members.suspects:
        where = "" if suspect.namespace == snapshot.namespace else f" of namespace {suspect.namespace}"
        what = "a run of it was lost by its kubelet or runtime" if suspect.lost_boot else "its object is gone, and its end was not seen"
        yield Finding(
            kind=ExceptionKind.SUSPECT,
            reason="EndNotSeen",
            sentence=f"uid {suspect.uid}{where}{f' on node {suspect.node_name}' if suspect.node_name else ''}: {what}",
            remedy="nothing to do: members that joined beside it leave when their session expires, and it is forgotten once it is silent",
            subject=Subject(pod_name=suspect.pod_name),
        )


def _pods_to_restart(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield pods that a person has to restart, each with the command."""
    namespace, agent = snapshot.namespace, way_to_agent(snapshot, plan)
    for seat in plan.table.of(Standing.MISSING) if plan.table is not None else ():
        near = plan.suffix.for_pod(seat.pod_name) if plan.suffix is not None else None
        reason, sentence = "ReadyButNotJoined", "the pod is Ready but its member is not in the group"
        remedy = absent_remedy(plan.table, namespace, seat.pod_name, agent) if plan.table is not None else ""
        if snapshot.collisions:  # a restart gives its client the same ids again
            remedy = snapshot.collisions[0].remedy
        if plan.injection is not None and plan.injection.lacking_container:  # a restart gives its client no id
            remedy = remedies.name_container()
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, f"set {plan.suffix.remedy}"
            remedy = f"a member of its pod holds {near.instance_id}"
        subject = Subject(instance_id=seat.key, pod_name=seat.pod_name)
        yield Finding(kind=ExceptionKind.MISSING, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    silenced = _SILENCED.get(plan.injection.verdict) if plan.injection is not None else None
    for pod in plan.pods_without_id:
        yield Finding(
            kind=ExceptionKind.WITHOUT_ID,
            reason="StartedWithoutId",
            sentence="runs without its id",
            remedy=silenced or way_to_id(snapshot, plan, pod.pod_name),
            subject=Subject(pod_name=pod.pod_name),
        )


def _copies(table: SeatTable, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods that carry a copy of a wanted id: of two processes with one id one is fenced or refused, whoever came first."""
    seats = sorted(table.wanted, key=lambda seat: seat.key) if snapshot.copies else []
    keys = [seat.key for seat in seats]
    for pod in snapshot.copies:
        seat = next((seats[at] for i in sorted(pod.instance_ids) if (at := _first_of(i, keys)) is not None), None)
        if seat is not None:
            yield Finding(
                kind=ExceptionKind.CONFLICTING,
                reason="IdCarriedTwice",
                sentence=f"pod {pod.namespace}/{pod.pod_name} carries a copy of this id, so it and {seat.pod_name} fence or refuse each "
                "other; neither is removed",
                remedy="give that pod an id of its own, or delete what makes it",
                subject=Subject(instance_id=seat.key, pod_name=seat.pod_name),
            )


def _replaced(table: SeatTable) -> Iterator[Finding]:
    """Yield the seats whose member was replaced beside a pod that stayed Ready: maybe by a process that no API server shows."""
    for seat in table.wanted:
        if seat.memory.replaced is not None:
            yield Finding(
                kind=ExceptionKind.CONFLICTING,
                reason="MemberReplaced",
                sentence="another member took this place while the pod stayed Ready, and neither is removed: its client joined anew "
                "(session expired?), or another consumer has this id, of the same pod or elsewhere",
                remedy=f"if the log of {seat.pod_name} tells FENCED_INSTANCE_ID, stop who else has the id, then restart it",
                subject=Subject(instance_id=seat.key, member_id=seat.memory.replaced[0], pod_name=seat.pod_name),
            )


def _first_of(carried: str, keys: Sequence[str]) -> int | None:
    """Return the index of the first of the ids, in order, that a client may hold which is given an id; None when there is none."""
    for start in (carried, *(carried + separator for separator in SEPARATORS)):
        at = bisect_left(keys, start)
        if at < len(keys) and may_become(carried, keys[at]):
            return at
    return None


def _outsiders(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
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
    is_connect = plan.table is not None and plan.table.role is CONNECT
    for member in plan.table.dynamic if plan.table is not None else ():
        dropped = ", which Kafka Connect drops unless the agent keeps it" if is_connect else ""
        yield Finding(
            kind=ExceptionKind.DYNAMIC,
            reason="NoInstanceId",
            sentence=f"member {member.member_id[:MEMBER_ID_SHOWN]} has no group.instance.id{dropped}; never touched",
            remedy=way_to_agent(snapshot, plan) if is_connect else "",
            subject=Subject(member_id=member.member_id),
        )
