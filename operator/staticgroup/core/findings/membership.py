"""Whether the group is the one that the spec speaks of, and every expected member is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...api import remedies
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.staticgroup import StaticGroupSpec
from ..group import GroupType, GroupView, KafkaProblem, KafkaProblemKind
from ..ids.suffixes import SuffixMismatch
from ..plan import Plan
from ..protocols import chosen_by
from ..roles import CONNECT, ROLES, Role, role_of
from ..seats import Seat, SeatTable, Standing
from ..snapshot import Snapshot
from . import Finding, connect
from .workload import TOO_LARGE, UNREAD

_KIND = ConditionType.MEMBERSHIP_COMPLETE


def membership_complete(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether every expected member is in the group."""
    group, table = snapshot.group, plan.table
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.UNSUPPORTED_GROUP:
        return Finding(kind=_KIND, reason=Reason.PROTOCOL_MISMATCH, sentence=group.message)
    if plan.too_large or not isinstance(group, GroupView) or table is None:
        sentence = TOO_LARGE if plan.too_large else "The members cannot be listed: see the conditions Connected and Authorized."
        sentence = UNREAD if snapshot.workload_problem else sentence
        return Finding(kind=_KIND, reason=Reason.MEMBERSHIP_UNKNOWN, status=ConditionStatus.UNKNOWN, sentence=sentence)
    sentence = f"All {len(table.wanted)} expected members are in the group.{connect.notes(snapshot, plan)}"
    agent = connect.way_to_agent(snapshot, plan)
    return (
        _wrong_group(spec, group)
        or _wrong_suffix(plan.suffix)
        or _misled(snapshot, plan, table)
        or connect.without_agent(table, agent)
        or _fencing(table)
        or _absent_members(group, table, snapshot.namespace, agent)
        or Finding(kind=_KIND, reason=Reason.ALL_MEMBERS_JOINED, status=ConditionStatus.TRUE, sentence=sentence)
    )


def _wrong_group(spec: StaticGroupSpec, group: GroupView) -> Finding | None:
    """Say that the group is not the one the spec speaks of; None when it may be."""
    role = role_of(spec)
    wanted = chosen_by(spec.protocol)
    if wanted is not None and role.protocol is None and group.members and group.group_type is not wanted.group_type:
        return Finding(
            kind=_KIND,
            reason=Reason.PROTOCOL_MISMATCH,
            sentence=f"Group {group.group_id} is of type {group.group_type.value}, spec.protocol expects {spec.protocol.value}.",
            remedy=f"Set spec.protocol to Auto or to what the {role.plural} use.",
        )
    if not role.may_be_in(group):
        what = f"of protocol type {group.protocol_type}"
        if group.group_type not in role.group_types:
            what = f"of type {group.group_type.value}"
        sentence = f"Group {group.group_id} is a group {what}, not of {role.plural}."
        return Finding(kind=_KIND, reason=Reason.PROTOCOL_MISMATCH, sentence=sentence, remedy=_right_group(role, group))
    return None


def _right_group(role: Role, group: GroupView) -> str:
    """Say how the spec comes to speak of the right group."""
    others = sorted(choice.value for choice, other in ROLES.items() if other.may_be_in(group))
    remedy = f"Set spec.role to {others[0]}, or correct spec.groupId." if others else "Correct spec.groupId."
    if role is not CONNECT:
        return remedy
    return f"{remedy} That of workers is their group.id, not connect-<connector>, the group of a sink connector's tasks."


def _wrong_suffix(found: SuffixMismatch | None) -> Finding | None:
    """Say that members hold our ids but for what their client appends; None when none does."""
    if found is None:
        return None
    first = found.nearly[0]
    return Finding(
        kind=_KIND,
        reason=Reason.SUFFIX_MISMATCH,
        sentence=f"{len(found.nearly)} members nearly match, such as {first.instance_id} for pod {first.pod_name}: {found.cause}.",
        remedy=f"Set {found.remedy}. Until then they count as foreign and are not removed when their pods have ended.",
    )


def _misled(snapshot: Snapshot, plan: Plan, table: SeatTable) -> Finding | None:
    """Say that members are missing because their clients got another StaticGroup's ids, or none; None when that cannot be."""
    missing = table.of(Standing.MISSING)
    is_misled = snapshot.collisions or (plan.injection is not None and plan.injection.lacking_container)
    if not is_misled or not missing:
        return None
    sentence = f"{len(missing)} of {len(table.wanted)} members are not in the group though their pods are Ready: see Injected."
    return Finding(kind=_KIND, reason=Reason.MEMBERS_MISSING, sentence=sentence)


def _fencing(table: SeatTable) -> Finding | None:
    """Say that members of one id take its place from each other; None where none did twice while its pod stayed Ready."""
    fencing = [seat for seat in table.wanted if seat.memory.replaced is not None and seat.memory.replaced[2] > 1]
    if not fencing:
        return None
    pod_name = fencing[0].pod_name
    return Finding(
        kind=_KIND,
        reason=Reason.MEMBERS_FENCE_EACH_OTHER,
        sentence=f"The members of {len(fencing)} ids were replaced again and again while their pods stayed Ready, such as that of pod {pod_name}.",
        remedy="If its log tells FENCED_INSTANCE_ID, two consumers have this id: give each consumer of a pod an id of its own "
        "(spec.identity.membersPerPod or spec.identity.env), or stop who else has it. If not, see why its session expires.",
    )


def _absent_members(group: GroupView, table: SeatTable, namespace: str, agent: str) -> Finding | None:
    """Say which expected members are not in the group, the most telling cause first; None when all are."""
    if group.group_type is GroupType.ABSENT and table.wanted:
        return Finding(
            kind=_KIND,
            reason=Reason.GROUP_NOT_FOUND,
            sentence=f"The brokers know no group {group.group_id}.",
            remedy=f"It appears when the first {table.role.singular} joins; if {table.role.plural} run, compare their group.id with "
            "spec.groupId.",
        )
    found = ((standing, table.of(standing)) for standing in _LASTING)
    lasting = next(((standing, seats) for standing, seats in found if seats), None)
    if lasting is not None:
        return _lasting(*lasting, table, namespace, agent)
    away = table.of(Standing.AWAY)
    if away:
        return Finding(
            kind=_KIND,
            reason=Reason.MEMBERS_AWAY,
            sentence=f"{len(away)} of {len(table.wanted)} members are away while their pods restart.",
            remedy="Nothing to do unless it outlasts the session timeout.",
            is_transient=True,
        )
    return None


def absent_remedy(table: SeatTable, namespace: str, pod_name: str, agent: str) -> str:
    """Say what brings back a member whose pod is Ready but which is not in the group; `agent`: see `connect.way_to_agent`."""
    if table.role is CONNECT:
        return agent if table.dynamic else remedies.restart_worker(namespace, pod_name)
    return remedies.take_ids() if table.dynamic else remedies.restart_pod(namespace, pod_name)


_LASTING: Final = (Standing.UNISSUED, Standing.LOCKED_OUT, Standing.MISSING, Standing.OVERDUE, Standing.WITHOUT_POD)


def _lasting(standing: Standing, seats: Sequence[Seat], table: SeatTable, namespace: str, agent: str) -> Finding:
    """Say why members are not in the group that do not come by themselves."""
    pod, many = seats[0].pod_name, f"{len(seats)} of {len(table.wanted)} members"
    workload_name = pod.rpartition("-")[0]
    sentence, remedy = {
        Standing.UNISSUED: (
            f"{many} cannot be told apart, because their pods run without the id they should have: see Injected.", ""
        ),
        Standing.LOCKED_OUT: (
            f"{many} are held by processes that have crashed, so their successors are refused, such as that of pod {pod}",
            remedies.wait_for_session(namespace, pod),
        ),
        Standing.MISSING: (
            f"{many} are not in the group though their pods are Ready, such as {pod}",
            absent_remedy(table, namespace, pod, agent),
        ),
        Standing.OVERDUE: (
            f"{many} have been away for longer than a restart takes, such as that of pod {pod}.",
            f"Look at it with kubectl -n {namespace} describe pod {pod}",
        ),
        Standing.WITHOUT_POD: (
            f"{many} have been away for longer than a restart takes, because there is no pod for them, such as {pod}.",
            f"See why with kubectl -n {namespace} describe statefulset {workload_name}",
        ),
    }[standing]
    return Finding(kind=_KIND, reason=Reason.MEMBERS_MISSING, sentence=sentence, remedy=remedy)
