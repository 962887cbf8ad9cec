"""Whether all expected members have joined and all departed ones are gone, and what is wrong with some ids or pods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...api import remedies
from ...api.injection import env_entries
from ...api.protocols import ProtocolChoice
from ...api.reasons import ConditionType, Reason
from ...api.resources.client import ClientType
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ..group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome
from ..guards import Guard
from ..ids.own_ids import OwnIds
from ..ids.suffixes import SuffixMismatch
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import CONNECT_ROLE, ROLES, STREAMS_ROLE, chosen_by, role_of
from ..seats import Seat, Standing
from ..snapshot import Snapshot
from . import Finding, as_sentence, counted, ended
from .kafka import connect_notes, way_to_agent, without_agent
from .workload import unlisted

_complete: Final = partial(Finding, kind=ConditionType.MEMBERSHIP_COMPLETE)
_removal: Final = partial(Finding, kind=ConditionType.REMOVAL_SETTLED)
_LASTING: Final = (Standing.UNISSUED, Standing.LOCKED_OUT, Standing.MISSING, Standing.OVERDUE, Standing.WITHOUT_POD)
_RACE_OUTCOMES: Final = frozenset({LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN})
"""Answers by which the compare-and-set tells that the group changed meanwhile; the next round describes it again."""
_REASONS: Final = {
    Guard.SUSPECT: Reason.END_NOT_SEEN,
    Guard.UNATTRIBUTED: Reason.END_NOT_SEEN,
    Guard.JOINED_BEFORE_WATCH: Reason.END_NOT_SEEN,
    Guard.UNSCOPED: Reason.UNSCOPED_IDS,
    Guard.POLICY_NEVER: Reason.REMOVAL_OFF,
    Guard.SUSPENDED: Reason.REMOVAL_OFF,
}

def membership_complete(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether every expected member is in the group."""
    group, table = snapshot.group, plan.table
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.UNSUPPORTED_GROUP:
        return _complete(reason=Reason.PROTOCOL_MISMATCH, sentence=group.message)
    if plan.too_large or not isinstance(group, GroupView) or table is None:
        return unlisted(ConditionType.MEMBERSHIP_COMPLETE, Reason.MEMBERSHIP_UNKNOWN, snapshot, plan)
    wanted = table.wanted
    missing = [seat for seat in wanted if seat.standing is Standing.MISSING]
    agent = way_to_agent(snapshot, plan) if missing else ""
    found = (
        _wrong_group(spec, group)
        or _wrong_suffix(plan.suffix)
        or _under_own_ids(plan.own_ids)
        or _misled(snapshot, plan, missing, len(wanted))
        or without_agent(table, missing, agent)
        or _fencing(wanted)
        or _absent_members(spec, snapshot, plan, group, wanted, agent)
    )
    if found is None and plan.history.injected is None:
        sentence = "No id is issued yet: see Injected."
        return _complete(reason=Reason.MEMBERSHIP_UNKNOWN, sentence=sentence)
    sentence = f"All {len(wanted)} expected members are in the group.{connect_notes(snapshot, plan)}"
    return found or _complete(reason=Reason.ALL_MEMBERS_JOINED, sentence=sentence)


def _wrong_group(spec: StaticGroupSpec, group: GroupView) -> Finding | None:
    """Say that the group is not the one the spec means; None when it may be."""
    role = role_of(spec)
    wanted = chosen_by(spec.group_protocol)
    if wanted is not None and role.protocol is None and group.members and group.group_type is not wanted.group_type:
        return _complete(
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
        return _complete(reason=Reason.PROTOCOL_MISMATCH, sentence=sentence, remedy=remedy)
    return None


def _right_group(spec: StaticGroupSpec, group: GroupView) -> str:
    """Say how the spec names the right group."""
    others = [f"spec.client.type to {role.client.value}" for role in ROLES.values() if role.may_be_in(group)]
    if spec.client.type is ClientType.OWN and STREAMS_ROLE.may_be_in(group):  # its ids stay its own
        others = [f"spec.groupProtocol to {ProtocolChoice.STREAMS.value}"]
    another = "create a StaticGroup with the right spec.groupId."
    remedy = f"Set {others[0]}, or {another}" if others else f"{another[0].upper()}{another[1:]}"
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
    return _complete(
        reason=Reason.SUFFIX_MISMATCH,
        sentence=f"{len(found.nearly)} members nearly match, such as {first.instance_id} for pod {first.pod_name}: "
        f"{found.cause}.",
        remedy=f"Set {found.remedy}. Until then they count as foreign and are not removed when their pods have ended.",
    )


def _under_own_ids(found: OwnIds | None) -> Finding | None:
    """Say that members joined under ids of the application's own; None when none did."""
    if found is None:
        return None
    sentence, remedy = as_sentence(found.sentence), as_sentence(found.remedy)
    return _complete(reason=Reason.OWN_IDS, sentence=sentence, remedy=remedy)


def _misled(snapshot: Snapshot, plan: Plan, missing: Sequence[Seat], expected: int) -> Finding | None:
    """Say that members are missing because their clients got another StaticGroup's ids, or none; None if impossible."""
    is_misled = snapshot.collisions or (plan.injection is not None and plan.injection.lacking_container)
    if not is_misled or not missing:
        return None
    sentence = f"{len(missing)} of {expected} members are not in the group though their pods are Ready: see Injected."
    return _complete(reason=Reason.MEMBERS_MISSING, sentence=sentence)


def _fencing(wanted: Sequence[Seat]) -> Finding | None:
    """Say that members of one id replace each other; None where none did twice while its pod stayed Ready."""
    fencing = [seat for seat in wanted if seat.memory.replaced is not None and seat.memory.replaced[2] > 1]
    if not fencing:
        return None
    pod_name = fencing[0].pod_name
    return _complete(
        reason=Reason.MEMBERS_FENCE_EACH_OTHER,
        sentence=f"The members of {len(fencing)} ids were replaced again and again while their pods stayed Ready, such "
        f"as that of pod {pod_name}.",
        remedy="If its log shows FENCED_INSTANCE_ID, two consumers use this id: give each consumer of a pod its own id "
        "(spec.client.concurrency or spec.client.env), or stop the other consumer. If not, find out why its "
        "session expires.",
    )


def _absent_members(
    spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, group: GroupView, wanted: Sequence[Seat], agent: str
) -> Finding | None:  # fmt: skip
    """Say which expected members are not in the group, the most specific cause first; None when all are."""
    role = role_of(spec)
    if group.group_type is GroupType.ABSENT and wanted:
        return _complete(
            reason=Reason.GROUP_NOT_FOUND,
            sentence=f"The brokers know no group {group.group_id}.",
            remedy=f"It appears when the first {role.singular} joins; if {role.plural} run, compare their "
            "group.id with spec.groupId.",
        )
    first = min((seat.standing for seat in wanted if seat.standing in _LASTING), key=_LASTING.index, default=None)
    if first is not None:
        seats = [seat for seat in wanted if seat.standing is first]
        return _lasting(spec, snapshot, plan, seats, len(wanted), agent)
    away = [seat for seat in wanted if seat.standing is Standing.AWAY]
    if away:
        return _complete(
            reason=Reason.MEMBERS_AWAY,
            sentence=f"{len(away)} of {len(wanted)} members are away while their pods restart.",
            remedy="Nothing to do unless it outlasts the session timeout.",
            is_transient=True,
        )
    return None


def absent_remedy(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, pod_name: str, agent: str) -> str:
    """Say what brings back a member whose pod is Ready but which is not in the group; `agent`: see `way_to_agent`."""
    is_connect = role_of(spec) is CONNECT_ROLE
    if plan.table is None or not plan.table.dynamic:
        restart = remedies.restart_worker if is_connect else remedies.restart_pod
        return restart(snapshot.namespace, pod_name)
    if is_connect:
        return agent
    entry, injected = env_entries(spec.client)[0], plan.history.injected
    variable = "" if spec.client.type is ClientType.OWN else entry.instance_id_name
    container = entry.container or (injected.container if injected is not None else "")
    return remedies.take_ids(variable, container)


def _lasting(
    spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, seats: Sequence[Seat], expected: int, agent: str
) -> Finding:  # fmt: skip
    """Say why members are not in the group that do not join by themselves."""
    pod, many = seats[0].pod_name, f"{len(seats)} of {expected} members"
    namespace, workload = snapshot.namespace, f"{spec.workload_ref.kind.lower()} {spec.workload_ref.name}"
    roll = as_sentence(remedies.ACT) if spec.mode is Mode.OBSERVE else "See Injected."
    sentence, remedy = {
        Standing.UNISSUED: (f"{many} are not static yet, because their pods run without their ids.", roll),
        Standing.LOCKED_OUT: (
            f"{many} are refused while a crashed process holds their id, such as that of pod {pod}",
            remedies.wait_for_session(namespace, pod),
        ),
        Standing.MISSING: (
            f"{many} are not in the group though their pods are Ready, such as {pod}",
            absent_remedy(spec, snapshot, plan, pod, agent),
        ),
        Standing.OVERDUE: (
            f"{many} have been away for longer than a restart takes, such as that of pod {pod}.",
            f"See why with kubectl -n {namespace} describe pod {pod}",
        ),
        Standing.WITHOUT_POD: (
            f"{many} have been away for longer than a restart takes, because their pods do not exist, such as {pod}.",
            f"See why with kubectl -n {namespace} describe {workload}",
        ),
    }[seats[0].standing]
    reason = Reason.NOT_ROLLED_YET if seats[0].standing is Standing.UNISSUED else Reason.MEMBERS_MISSING
    return _complete(reason=reason, sentence=sentence, remedy=remedy)


def removal_settled(snapshot: Snapshot, plan: Plan, executed: Executed) -> Finding:
    """Say whether no departed member is left."""
    if plan.table is None:
        return unlisted(ConditionType.REMOVAL_SETTLED, Reason.MEMBERSHIP_UNKNOWN, snapshot, plan)
    refused = [o for o in executed.outcomes if o is not LeaveOutcome.REMOVED and o not in _RACE_OUTCOMES]
    if (executed.problem is not None and plan.actions) or refused:
        return _removal(reason=Reason.REMOVAL_REFUSED, sentence=_failed(executed, refused))
    if executed.observe_only and plan.actions:
        count = sum(len(a.removals) for a in plan.actions)
        return _removal(
            reason=Reason.REMOVAL_OFF,
            sentence=f"{counted(count, 'departed member', 'departed members')} would be removed now, but the operator "
            "may only observe.",
            remedy=as_sentence(remedies.MANAGE),
        )
    lasting = [finding for finding in plan.held if not finding.is_transient]
    return _kept(lasting) if lasting else _in_progress(plan, executed) or _settled(plan)


def _failed(executed: Executed, refused: Sequence[LeaveOutcome]) -> str:
    """Say why a removal failed."""
    if executed.problem is not None:
        return f"A removal failed and is tried again: {ended(executed.problem.message)}"
    if LeaveOutcome.NOT_AUTHORIZED in refused:
        return "A removal failed for want of a right: see Authorized."
    return "A removal failed and is tried again. If this lasts, read the coordinator's log."


def _kept(held: Sequence[Finding]) -> Finding:
    """Say which guard holds the first departed member; the issues list every one of them."""
    first = held[0]
    reason = _REASONS.get(Guard(first.reason), Reason.REMOVAL_HELD)
    many = counted(len(held), "departed member is", "departed members are")
    text = f"{many} held back; {first.subject.instance_id} ({first.reason}): {first.text}"
    return _removal(reason=reason, sentence=ended(text))


def _in_progress(plan: Plan, executed: Executed) -> Finding | None:
    """Say what a removal waits for that passes by itself; None when nothing is under way."""
    pending = sum(r.settled_at_s is None for r in plan.history.removals)
    if plan.held:
        first = plan.held[0]
        many = counted(len(plan.held), "departed member is", "departed members are")
        text = f"{many} not removed yet; {first.subject.instance_id} ({first.reason}): {first.text}"
    elif plan.actions and not executed.removed:
        text = "A departed member is removed after one more read of the group. Nothing to do."
    elif pending:
        many = counted(pending, "removal is", "removals are")
        text = f"{many} acknowledged and not yet confirmed by a later read of the group. Nothing to do."
    else:
        return None
    return _removal(reason=Reason.REMOVAL_IN_PROGRESS, sentence=ended(text), is_transient=True)


def _settled(plan: Plan) -> Finding:
    """Say that no departed member is left."""
    count = len(plan.history.removals)
    many = counted(count, "departed member was", "departed members were")
    sentence = f"{many} removed, and a later read of the group confirmed it."
    return _removal(
        reason=Reason.REMOVED if count else Reason.NOTHING_TO_REMOVE,
        sentence=sentence if count else "No departed member is in the group.",
    )
