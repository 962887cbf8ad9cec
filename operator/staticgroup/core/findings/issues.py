"""What is wrong with single ids, pods and members: one finding for each that may need a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...api import remedies
from ...api.identifiers import first_that_may_become
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.resources.status import IssueKind
from ..ids.own_ids import UNEXPANDED
from ..plan import Plan
from ..protocols import CONNECT_ROLE
from ..seats import SeatTable, Standing
from ..snapshot import Snapshot
from . import Finding, Subject
from .kafka import misaddressed, way_to_agent
from .members import absent_remedy
from .workload import way_to_id

UNKNOWN_SUFFIX: Final = "UnknownSuffix"
MEMBER_ID_SHOWN: Final = 80
"""A Connect worker's id begins with its advertised address; a longer one would crowd out the rest of the message."""

_GONE: Final = (
    "its object is gone, and its end was not seen",
    "nothing to do: after a scale-down, a member with its id may stay until its session expires; this entry goes by "
    "itself",
)
_LOST_A_CONTAINER: Final = (
    "a container of it was lost by its kubelet or runtime",
    "if the pod still exists, delete it when it suits you; meanwhile departed members with its id leave when their "
    "session expires",
)


def findings_of_seats(spec: StaticGroupSpec, plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each id or pod that may need a person."""
    yield from _pods_to_restart(spec, plan, snapshot)
    yield from (finding for finding in plan.locked_out if not finding.is_transient)
    yield from plan.held
    yield from _suspects(plan, snapshot)
    if plan.table is not None:
        yield from misaddressed(plan.table)
        yield from _copies(plan.table, snapshot)
        yield from _replaced(plan.table)
        yield from _outsiders(plan, plan.table, snapshot)


def _suspects(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods whose end was not seen, which hold the removal of members that joined while they may have run."""
    for suspect in plan.history.members.suspects:
        where = "" if suspect.namespace == snapshot.namespace else f" of namespace {suspect.namespace}"
        what, remedy = _LOST_A_CONTAINER if suspect.has_lost_run else _GONE
        yield Finding(
            kind=IssueKind.SUSPECT,
            reason="EndNotSeen",
            sentence=f"uid {suspect.uid}{where}{f' on node {suspect.node_name}' if suspect.node_name else ''}: {what}",
            remedy=remedy,
            subject=Subject(pod_name=suspect.pod_name),
        )


def _pods_to_restart(spec: StaticGroupSpec, plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield pods that a person has to restart, each with the command."""
    missing = plan.table.of(Standing.MISSING) if plan.table is not None else ()
    agent = way_to_agent(snapshot, plan) if missing else ""
    for seat in missing:
        near = plan.suffix.for_pod(seat.pod_name) if plan.suffix is not None else None
        reason, sentence = "ReadyButNotJoined", "the pod is Ready but its member is not in the group"
        remedy = absent_remedy(spec, snapshot, plan, seat.pod_name, agent)
        if snapshot.collisions:  # a restart gives its client the same ids again
            remedy = remedies.SEE_INJECTED
        if plan.injection is not None and plan.injection.lacking_container:  # a restart gives its client no id
            remedy = remedies.NAME_CONTAINER
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, f"a member of its pod holds {near.instance_id}"
            remedy = plan.suffix.in_a_row
        own = plan.own_ids
        if own is not None and (own.is_shared or seat.pod_name in own.pod_of.values()):  # a restart changes nothing
            reason, sentence = "JoinedUnderOwnId", "the pod is Ready, and nobody holds its id"
            remedy = own.remedy
        subject = Subject(instance_id=seat.key, pod_name=seat.pod_name)
        yield Finding(kind=IssueKind.MISSING, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    for pod in plan.pods_without_id:
        yield Finding(
            kind=IssueKind.WITHOUT_ID,
            reason="StartedWithoutId",
            sentence="runs without its id",
            remedy=way_to_id(snapshot, plan, pod.pod_name),
            subject=Subject(pod_name=pod.pod_name),
        )


def _copies(table: SeatTable, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods that carry a copy of a wanted id: the coordinator fences or refuses one of two such processes."""
    seats = sorted(table.wanted, key=lambda seat: seat.key) if snapshot.copies else []
    keys = [seat.key for seat in seats]
    for pod in snapshot.copies:
        found = (first_that_may_become(i, keys) for i in sorted(pod.instance_ids))
        seat = next((seats[at] for at in found if at is not None), None)
        if seat is not None:
            yield Finding(
                kind=IssueKind.CONFLICTING,
                reason="IdCarriedTwice",
                sentence=f"pod {pod.namespace}/{pod.pod_name} carries a copy of this id, so it and {seat.pod_name} "
                "fence or refuse each other; neither is removed",
                remedy="give that pod its own id, or delete what creates it",
                subject=Subject(instance_id=seat.key, pod_name=seat.pod_name),
            )


def _replaced(table: SeatTable) -> Iterator[Finding]:
    """Yield the seats whose member was replaced beside a Ready pod: maybe by a process outside this cluster."""
    for seat in table.wanted:
        if seat.memory.replaced is not None:
            yield Finding(
                kind=IssueKind.CONFLICTING,
                reason="MemberReplaced",
                sentence="another member took over this id while the pod stayed Ready, and neither is removed: its "
                "client joined again (session expired?), or another consumer uses this id, in the same pod or "
                "elsewhere",
                remedy=f"if the log of {seat.pod_name} shows FENCED_INSTANCE_ID, stop the other consumer, then restart "
                "the pod",
                subject=Subject(instance_id=seat.key, member_id=seat.memory.replaced[0], pod_name=seat.pod_name),
            )


def _outsiders(plan: Plan, table: SeatTable, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield members that are not ours."""
    for member in table.foreign:
        near = plan.suffix.of(member.instance_id) if plan.suffix is not None else None
        reason, sentence = "NotIssuedHere", "a static member whose id this StaticGroup never issued; never touched"
        remedy = ""
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, "the id of this pod but for what the client appends; never touched"
            remedy = plan.suffix.in_a_row
        pod_name = near.pod_name if near is not None else None
        own = plan.own_ids
        if near is None and own is not None and (member.instance_id or "") in own.pod_of:
            reason, pod_name = "IdOfTheApplication", own.pod_of[member.instance_id or ""] or None
            what = "an id that the application brings itself"
            if UNEXPANDED in (member.instance_id or ""):
                what = "the text of a variable that its container lacks"
            sentence = f"{what}; never touched: see MembershipComplete"
        subject = Subject(instance_id=member.instance_id, member_id=member.member_id, pod_name=pod_name)
        yield Finding(kind=IssueKind.FOREIGN, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    is_connect = table.role is CONNECT_ROLE
    for member in table.dynamic:
        dropped = ": StaticGroup's Connect agent is not active in it" if is_connect else ""
        yield Finding(
            kind=IssueKind.DYNAMIC,
            reason="NoInstanceId",
            sentence=f"member {member.member_id[:MEMBER_ID_SHOWN]} has no group.instance.id{dropped}; never touched",
            remedy=way_to_agent(snapshot, plan) if is_connect else "",
            subject=Subject(member_id=member.member_id),
        )
