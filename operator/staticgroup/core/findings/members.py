"""Whether all expected members have joined and all departed ones are gone, and what is wrong with some ids or pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...api import remedies
from ...api.identifiers import first_that_may_become
from ...api.protocols import ProtocolChoice
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.client import ClientType
from ...api.resources.staticgroup import Removal, StaticGroupSpec
from ...api.resources.status import ExceptionKind
from ..group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome
from ..guards import Guard
from ..ids.suffixes import SuffixMismatch
from ..injection import InjectionVerdict
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import CONNECT_ROLE, ROLES, STREAMS_ROLE, chosen_by, role_of
from ..seats import Seat, SeatTable, Standing
from ..snapshot import Snapshot
from . import Finding, Subject, counted, ended
from .kafka import connect_notes, misaddressed, way_to_agent, without_agent
from .workload import way_to_id, why_unknown

UNKNOWN_SUFFIX: Final = "UnknownSuffix"
MEMBER_ID_SHOWN: Final = 80
"""A Connect worker's id begins with its advertised address; a longer one would crowd out the rest of the message."""
_COMPLETE, _SETTLED = ConditionType.MEMBERSHIP_COMPLETE, ConditionType.REMOVAL_SETTLED
_LASTING: Final = (Standing.UNISSUED, Standing.LOCKED_OUT, Standing.MISSING, Standing.OVERDUE, Standing.WITHOUT_POD)
_RACE_OUTCOMES: Final = frozenset({LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN})
"""Answers by which the compare-and-set tells that the group changed meanwhile; the next round describes it again."""
_REASONS: Final = {
    Guard.POD_PRESENT: Reason.END_NOT_SEEN,
    Guard.SUSPECT: Reason.END_NOT_SEEN,
    Guard.UNATTRIBUTED: Reason.END_NOT_SEEN,
    Guard.JOINED_BEFORE_WATCH: Reason.END_NOT_SEEN,
    Guard.UNSCOPED: Reason.UNSCOPED_IDS,
    Guard.POLICY_NEVER: Reason.REMOVAL_OFF,
    Guard.SUSPENDED: Reason.REMOVAL_OFF,
}
_NO_IDS: Final = {InjectionVerdict.CONFLICTING: remedies.DIVIDE_IDS, InjectionVerdict.HINDERED: remedies.SEE_WHY_NO_ID}

# every expected member has joined


def membership_complete(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether every expected member is in the group."""
    group, table = snapshot.group, plan.table
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.UNSUPPORTED_GROUP:
        return Finding(kind=_COMPLETE, reason=Reason.PROTOCOL_MISMATCH, sentence=group.message)
    if plan.too_large or not isinstance(group, GroupView) or table is None:
        return _unknown(_COMPLETE, snapshot, plan)
    wanted = table.wanted
    missing = [seat for seat in wanted if seat.standing is Standing.MISSING]
    agent = way_to_agent(snapshot, plan) if missing else ""
    found = (
        _wrong_group(spec, group)
        or _wrong_suffix(plan.suffix)
        or _misled(snapshot, plan, missing, len(wanted))
        or without_agent(table, missing, agent)
        or _fencing(wanted)
        or _absent_members(group, table, wanted, snapshot.namespace, agent)
    )
    sentence = f"All {len(wanted)} expected members are in the group.{connect_notes(snapshot, plan)}"
    if found:
        return found
    return Finding(kind=_COMPLETE, reason=Reason.ALL_MEMBERS_JOINED, status=ConditionStatus.TRUE, sentence=sentence)


def _unknown(kind: ConditionType, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say why the members are not known."""
    sentence = (
        why_unknown(snapshot, plan) or "The members cannot be listed: see the conditions Connected and Authorized."
    )
    return Finding(kind=kind, reason=Reason.MEMBERSHIP_UNKNOWN, status=ConditionStatus.UNKNOWN, sentence=sentence)


def _wrong_group(spec: StaticGroupSpec, group: GroupView) -> Finding | None:
    """Say that the group is not the one the spec means; None when it may be."""
    role = role_of(spec)
    wanted = chosen_by(spec.group_protocol)
    if wanted is not None and role.protocol is None and group.members and group.group_type is not wanted.group_type:
        return Finding(
            kind=_COMPLETE,
            reason=Reason.PROTOCOL_MISMATCH,
            sentence=f"Group {group.group_id} is of type {group.group_type.value}, spec.groupProtocol expects "
            f"{spec.group_protocol.value}.",
            remedy=f"Set spec.groupProtocol to Auto or to what the {role.plural} use.",
        )
    if not role.may_be_in(group):
        what = f"of protocol type {group.protocol_type}"
        if group.group_type not in role.group_types:
            what = f"of type {group.group_type.value}"
        sentence = f"Group {group.group_id} is a group {what}, not of {role.plural}."
        remedy = _right_group(spec, group)
        return Finding(kind=_COMPLETE, reason=Reason.PROTOCOL_MISMATCH, sentence=sentence, remedy=remedy)
    return None


def _right_group(spec: StaticGroupSpec, group: GroupView) -> str:
    """Say how the spec names the right group."""
    others = [f"spec.client.type to {role.client.value}" for role in ROLES.values() if role.may_be_in(group)]
    if spec.client.type is ClientType.OWN and STREAMS_ROLE.may_be_in(group):  # its ids stay its own
        others = [f"spec.groupProtocol to {ProtocolChoice.STREAMS.value}"]
    remedy = f"Set {others[0]}, or correct spec.groupId." if others else "Correct spec.groupId."
    if role_of(spec) is not CONNECT_ROLE:
        return remedy
    return (
        f"{remedy} That of workers is their group.id, not connect-<connector>, the group of a sink connector's tasks."
    )


def _wrong_suffix(found: SuffixMismatch | None) -> Finding | None:
    """Say that members hold our ids but for what their client appends; None when none does."""
    if found is None:
        return None
    first = found.nearly[0]
    return Finding(
        kind=_COMPLETE,
        reason=Reason.SUFFIX_MISMATCH,
        sentence=f"{len(found.nearly)} members nearly match, such as {first.instance_id} for pod {first.pod_name}: "
        f"{found.cause}.",
        remedy=f"Set {found.remedy}. Until then they count as foreign and are not removed when their pods have ended.",
    )


def _misled(snapshot: Snapshot, plan: Plan, missing: Sequence[Seat], expected: int) -> Finding | None:
    """Say that members are missing because their clients got another StaticGroup's ids, or none; None if impossible."""
    is_misled = snapshot.collisions or (plan.injection is not None and plan.injection.lacking_container)
    if not is_misled or not missing:
        return None
    sentence = f"{len(missing)} of {expected} members are not in the group though their pods are Ready: see Injected."
    return Finding(kind=_COMPLETE, reason=Reason.MEMBERS_MISSING, sentence=sentence)


def _fencing(wanted: Sequence[Seat]) -> Finding | None:
    """Say that members of one id replace each other; None where none did twice while its pod stayed Ready."""
    fencing = [seat for seat in wanted if seat.memory.replaced is not None and seat.memory.replaced[2] > 1]
    if not fencing:
        return None
    pod_name = fencing[0].pod_name
    return Finding(
        kind=_COMPLETE,
        reason=Reason.MEMBERS_FENCE_EACH_OTHER,
        sentence=f"The members of {len(fencing)} ids were replaced again and again while their pods stayed Ready, such "
        f"as that of pod {pod_name}.",
        remedy="If its log shows FENCED_INSTANCE_ID, two consumers use this id: give each consumer of a pod its own id "
        "(spec.client.concurrency or spec.client.env), or stop the other consumer. If not, find out why its "
        "session expires.",
    )


def _absent_members(
    group: GroupView, table: SeatTable, wanted: Sequence[Seat], namespace: str, agent: str
) -> Finding | None:
    """Say which expected members are not in the group, the most specific cause first; None when all are."""
    if group.group_type is GroupType.ABSENT and wanted:
        return Finding(
            kind=_COMPLETE,
            reason=Reason.GROUP_NOT_FOUND,
            sentence=f"The brokers know no group {group.group_id}.",
            remedy=f"It appears when the first {table.role.singular} joins; if {table.role.plural} run, compare their "
            "group.id with spec.groupId.",
        )
    first = min((seat.standing for seat in wanted if seat.standing in _LASTING), key=_LASTING.index, default=None)
    if first is not None:
        return _lasting([seat for seat in wanted if seat.standing is first], len(wanted), table, namespace, agent)
    away = [seat for seat in wanted if seat.standing is Standing.AWAY]
    if away:
        return Finding(
            kind=_COMPLETE,
            reason=Reason.MEMBERS_AWAY,
            sentence=f"{len(away)} of {len(wanted)} members are away while their pods restart.",
            remedy="Nothing to do unless it outlasts the session timeout.",
            is_transient=True,
        )
    return None


def absent_remedy(table: SeatTable, namespace: str, pod_name: str, agent: str) -> str:
    """Say what brings back a member whose pod is Ready but which is not in the group; `agent`: see `way_to_agent`."""
    if table.role is CONNECT_ROLE:
        return agent if table.dynamic else remedies.restart_worker(namespace, pod_name)
    return remedies.take_ids() if table.dynamic else remedies.restart_pod(namespace, pod_name)


def _lasting(seats: Sequence[Seat], expected: int, table: SeatTable, namespace: str, agent: str) -> Finding:
    """Say why members are not in the group that do not join by themselves."""
    pod, many = seats[0].pod_name, f"{len(seats)} of {expected} members"
    workload_name = pod.rpartition("-")[0]
    sentence, remedy = {
        Standing.UNISSUED: (
            f"{many} cannot be identified, because their pods run without their ids: see Injected.", ""
        ),
        Standing.LOCKED_OUT: (
            f"{many} are held by processes that have crashed, so their successors are refused, such as that of pod "
            f"{pod}",
            remedies.wait_for_session(namespace, pod),
        ),
        Standing.MISSING: (
            f"{many} are not in the group though their pods are Ready, such as {pod}",
            absent_remedy(table, namespace, pod, agent),
        ),
        Standing.OVERDUE: (
            f"{many} have been away for longer than a restart takes, such as that of pod {pod}.",
            f"See why with kubectl -n {namespace} describe pod {pod}",
        ),
        Standing.WITHOUT_POD: (
            f"{many} have been away for longer than a restart takes, because their pods do not exist, such as {pod}.",
            f"See why with kubectl -n {namespace} describe statefulset {workload_name}",
        ),
    }[seats[0].standing]
    return Finding(kind=_COMPLETE, reason=Reason.MEMBERS_MISSING, sentence=sentence, remedy=remedy)


# every departed member is gone


def removal_settled(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed) -> Finding:
    """Say whether no departed member is left."""
    if plan.table is None:
        return _unknown(_SETTLED, snapshot, plan)
    refused = [o for o in executed.outcomes if o is not LeaveOutcome.REMOVED and o not in _RACE_OUTCOMES]
    if executed.problem is not None or refused:
        cause = executed.problem.message if executed.problem else f"the coordinator answered {refused[0].value}"
        sentence = f"A removal failed: {cause}. The next round decides again."
        return Finding(kind=_SETTLED, reason=Reason.REMOVAL_REFUSED, sentence=sentence)
    if executed.observe_only and plan.actions:
        count = sum(len(a.removals) for a in plan.actions)
        return Finding(
            kind=_SETTLED,
            reason=Reason.REMOVAL_OFF,
            sentence=f"{counted(count, 'departed member', 'departed members')} would be removed now, but the operator "
            "may only observe.",
            remedy="Set spec.mode to Manage (or lift the operator's forced Observe).",
        )
    lasting = [finding for finding in plan.held if not finding.is_transient]
    return _kept(spec, lasting) if lasting else _in_progress(plan, executed) or _settled(plan)


def _kept(spec: StaticGroupSpec, held: Sequence[Finding]) -> Finding:
    """Say which guard holds the first departed member; the exceptions list every one of them."""
    first = held[0]
    reason = _REASONS.get(Guard(first.reason), Reason.REMOVAL_HELD)
    if spec.removal is Removal.NEVER:
        reason = Reason.REMOVAL_OFF
    many = counted(len(held), "departed member is", "departed members are")
    text = f"{many} held back; {first.subject.instance_id} ({first.reason}): {first.text}"
    return Finding(kind=_SETTLED, reason=reason, sentence=ended(text))


def _in_progress(plan: Plan, executed: Executed) -> Finding | None:
    """Say what a removal waits for that passes by itself; None when nothing is under way."""
    pending = sum(r.settled_at_s is None for r in plan.history.removals)
    if plan.held:
        first = plan.held[0]
        many = counted(len(plan.held), "departed member leaves", "departed members leave")
        text = f"{many} soon; {first.subject.instance_id} ({first.reason}): {first.text}"
    elif plan.actions and not executed.removed:
        text = "A departed member is removed after one more read of the group. Nothing to do."
    elif pending:
        many = counted(pending, "removal is", "removals are")
        text = f"{many} acknowledged and not yet confirmed by a later read of the group. Nothing to do."
    else:
        return None
    return Finding(kind=_SETTLED, reason=Reason.REMOVAL_IN_PROGRESS, sentence=ended(text), is_transient=True)


def _settled(plan: Plan) -> Finding:
    """Say that no departed member is left."""
    count = len(plan.history.removals)
    many = counted(count, "departed member was", "departed members were")
    sentence = f"{many} removed, and a later read of the group confirmed it."
    return Finding(
        kind=_SETTLED,
        reason=Reason.REMOVED if count else Reason.NOTHING_TO_REMOVE,
        status=ConditionStatus.TRUE,
        sentence=sentence if count else "No departed member is in the group.",
    )


# single ids, pods and members


def findings_of_seats(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each id or pod that may need a person."""
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
    """Yield the pods whose end was not seen, which hold the removal of members that joined while they may have run."""
    for suspect in plan.history.members.suspects:
        where = "" if suspect.namespace == snapshot.namespace else f" of namespace {suspect.namespace}"
        lost, gone = "a run of it was lost by its kubelet or runtime", "its object is gone, and its end was not seen"
        what = lost if suspect.has_lost_run else gone
        yield Finding(
            kind=ExceptionKind.SUSPECT,
            reason="EndNotSeen",
            sentence=f"uid {suspect.uid}{where}{f' on node {suspect.node_name}' if suspect.node_name else ''}: {what}",
            remedy="nothing to do: members that joined beside it leave when their session expires, and this entry once "
            "the pod is gone and has been silent for long",
            subject=Subject(pod_name=suspect.pod_name),
        )


def _pods_to_restart(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield pods that a person has to restart, each with the command."""
    missing = plan.table.of(Standing.MISSING) if plan.table is not None else ()
    agent = way_to_agent(snapshot, plan) if missing else ""
    for seat in missing:
        near = plan.suffix.for_pod(seat.pod_name) if plan.suffix is not None else None
        reason, sentence = "ReadyButNotJoined", "the pod is Ready but its member is not in the group"
        remedy = absent_remedy(plan.table, snapshot.namespace, seat.pod_name, agent) if plan.table is not None else ""
        if snapshot.collisions:  # a restart gives its client the same ids again
            remedy = snapshot.collisions[0].remedy
        if plan.injection is not None and plan.injection.lacking_container:  # a restart gives its client no id
            remedy = remedies.name_container()
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, f"a member of its pod holds {near.instance_id}"
            remedy = plan.suffix.in_a_row
        subject = Subject(instance_id=seat.key, pod_name=seat.pod_name)
        yield Finding(kind=ExceptionKind.MISSING, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    no_ids = _NO_IDS.get(plan.injection.verdict) if plan.injection is not None else None
    for pod in plan.pods_without_id:
        yield Finding(
            kind=ExceptionKind.WITHOUT_ID,
            reason="StartedWithoutId",
            sentence="runs without its id",
            remedy=no_ids or way_to_id(snapshot, plan, pod.pod_name),
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
                kind=ExceptionKind.CONFLICTING,
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
                kind=ExceptionKind.CONFLICTING,
                reason="MemberReplaced",
                sentence="another member took over this id while the pod stayed Ready, and neither is removed: its "
                "client joined again (session expired?), or another consumer uses this id, in the same pod or "
                "elsewhere",
                remedy=f"if the log of {seat.pod_name} shows FENCED_INSTANCE_ID, stop the other consumer, then restart "
                "the pod",
                subject=Subject(instance_id=seat.key, member_id=seat.memory.replaced[0], pod_name=seat.pod_name),
            )


def _outsiders(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield members that are not ours."""
    for member in plan.table.foreign if plan.table is not None else ():
        near = plan.suffix.of(member.instance_id) if plan.suffix is not None else None
        reason, sentence = "NotIssuedHere", "a static member whose id this StaticGroup never issued; never touched"
        remedy = ""
        if near is not None and plan.suffix is not None:
            reason, sentence = UNKNOWN_SUFFIX, "the id of this pod but for what the client appends; never touched"
            remedy = plan.suffix.in_a_row
        pod_name = near.pod_name if near is not None else None
        subject = Subject(instance_id=member.instance_id, member_id=member.member_id, pod_name=pod_name)
        yield Finding(kind=ExceptionKind.FOREIGN, reason=reason, sentence=sentence, remedy=remedy, subject=subject)
    is_connect = plan.table is not None and plan.table.role is CONNECT_ROLE
    for member in plan.table.dynamic if plan.table is not None else ():
        dropped = ", which Kafka Connect drops unless the agent keeps it" if is_connect else ""
        yield Finding(
            kind=ExceptionKind.DYNAMIC,
            reason="NoInstanceId",
            sentence=f"member {member.member_id[:MEMBER_ID_SHOWN]} has no group.instance.id{dropped}; never touched",
            remedy=way_to_agent(snapshot, plan) if is_connect else "",
            subject=Subject(member_id=member.member_id),
        )
