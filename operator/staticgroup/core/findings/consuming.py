"""Whether the members consume what they subscribe, and whether they stay when their pods restart."""

from __future__ import annotations

from typing import Final

from ...api.reasons import ConditionStatus, ConditionType, Reason
from ..consuming.topics import SETTLED_S, STUCK_AFTER_S, RebalanceGuard
from ..group import GroupType, GroupView
from ..plan import Plan
from ..seats import SeatTable
from ..snapshot import Snapshot
from . import Finding, counted
from .workload import why_unknown

_CONSUMING: Final = ConditionType.CONSUMING
NAMED_MAX: Final = 3
MEMBER_ID_SHOWN: Final = 60
_ONCE: Final = "until it is done, members with an eager assignor stand still"
_WHAT_FOLLOWS: Final = {
    None: "The group is rebalanced once now.",
    RebalanceGuard.NOT_AT_REST: (
        f"The group is rebalanced once, as soon as every pod is Ready, every member joined, nobody else is in the "
        f"group and it has been at rest for {SETTLED_S:.0f} s; {_ONCE}. To prevent it set spec.onTopicChange to Report."
    ),
    RebalanceGuard.NOT_ASKED_FOR: (
        "Restart all pods at once, or set spec.mode to Manage and spec.onTopicChange to Rebalance, and the operator "
        "rebalances the group once."
    ),
    RebalanceGuard.DONE_BEFORE: (
        "One rebalance was begun for it, and that changed nothing: read what the members log about these topics."
    ),
    RebalanceGuard.DONE_LATELY: (
        "The group was rebalanced for other topics lately; it is rebalanced once more in half an hour."
    ),
    RebalanceGuard.KAFKA_STREAMS: (
        "Restart all instances at once: a running Kafka Streams application cannot be rebalanced from outside."
    ),
}


def consuming(snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether members read what they subscribe."""
    group = snapshot.group
    if plan.table is None or not isinstance(group, GroupView):
        sentence = why_unknown(snapshot, plan) or "The members cannot be listed: see the conditions above."
        return Finding(
            kind=_CONSUMING, reason=Reason.NOT_OBSERVED_YET, status=ConditionStatus.UNKNOWN, sentence=sentence
        )
    found = _stuck(snapshot, group, plan) or _unread(plan) or _idle(group, plan.table)
    if found is not None:
        return found
    sentence = "Nothing that members subscribe is known to be unread."
    if snapshot.partitions is not None:
        sentence = "Every partition of the topics that members subscribe is assigned."
    return Finding(kind=_CONSUMING, reason=Reason.ALL_TOPICS_READ, status=ConditionStatus.TRUE, sentence=sentence)


def _stuck(snapshot: Snapshot, group: GroupView, plan: Plan) -> Finding | None:
    """Say that a rebalance does not end, and who is waited for; None while it lasts no longer than usual."""
    if not plan.is_stuck or snapshot.workload is None or snapshot.workload.is_rolling:
        return None
    seats = {seat.key: seat.pod_name for seat in plan.table.seats} if plan.table is not None else {}
    behind = [m for m in group.members if m.member_epoch is not None and m.member_epoch != group.assignment_epoch]
    named = sorted(seats.get(m.instance_id or "") or m.client_id or m.member_id[:MEMBER_ID_SHOWN] for m in behind)
    waits = "it waits for a member that does not poll; which one the brokers do not tell"
    if named:
        more = " …" if len(named) > NAMED_MAX else ""
        waits = f"it waits for {', '.join(named[:NAMED_MAX])}{more} to take or give up partitions"
    what = "nobody consumes" if group.group_type is GroupType.CLASSIC else "some partitions are not consumed"
    return Finding(
        kind=_CONSUMING,
        reason=Reason.REBALANCE_STUCK,
        sentence=f"The group has been {group.state} for more than {STUCK_AFTER_S:.0f} s and {what}: {waits}.",
        remedy="Look in the members' logs for the one that does not call poll(), and restart its pod; else it is given "
        "up after its max.poll.interval.ms.",
    )


def _unread(plan: Plan) -> Finding | None:
    """Say that nobody reads some topics, and what follows; None where all are read."""
    unread = plan.topics.unread
    if unread is None:
        return None
    named = ", ".join(unread.topics[:NAMED_MAX]) + (" …" if len(unread.topics) > NAMED_MAX else "")
    held_by = plan.topics.held_by
    return Finding(
        kind=_CONSUMING,
        reason=Reason.TOPICS_UNREAD,
        sentence=f"{counted(len(unread.topics), 'topic has', 'topics have')} partitions that nobody reads: {named}. "
        "Static members that restart with another subscription cause no rebalance.",
        remedy=_WHAT_FOLLOWS[held_by],
        is_transient=held_by in (None, RebalanceGuard.NOT_AT_REST, RebalanceGuard.DONE_LATELY),
    )


def _idle(group: GroupView, table: SeatTable) -> Finding | None:
    """Say that no member has any partition; None where one has, or it is not known."""
    held = [m.assigned_partitions for m in group.members]
    if not held or not group.is_settled or any(count is None or count for count in held):
        return None
    return Finding(
        kind=_CONSUMING,
        reason=Reason.NOTHING_ASSIGNED,
        sentence=f"The group has {counted(len(held), table.role.singular, table.role.plural)}, and none of them has a "
        "partition.",
        remedy="Compare the topics that the application subscribes with those that exist, and look whether its "
        "principal may describe them.",
    )


def rolls_quietly(snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether members stay in the group when their pods are stopped, so that a restart causes no rebalance."""
    kind, left = ConditionType.ROLLS_QUIETLY, plan.history.left_on_close
    if plan.table is None:
        sentence = why_unknown(snapshot, plan) or "The members cannot be listed: see the conditions above."
        return Finding(kind=kind, reason=Reason.NOT_OBSERVED_YET, status=ConditionStatus.UNKNOWN, sentence=sentence)
    if left is None:
        sentence = "No member was seen to leave the group when its pod was stopped."
        return Finding(kind=kind, reason=Reason.MEMBERS_STAY, status=ConditionStatus.TRUE, sentence=sentence)
    many = counted(left.count, "member has", "members have")
    return Finding(
        kind=kind,
        reason=Reason.MEMBERS_LEAVE_ON_CLOSE,
        sentence=f"{many} left the group on closing, although static, the last one that of pod {left.pod_name}, so "
        "every restart rebalances the group twice.",
        remedy="Do not ask the client to leave: no CloseOptions with LEAVE_GROUP, no leaveGroup(true) in Kafka "
        "Streams, no leave-group-on-close in Spring; kafkajs and @platformatic/kafka always leave.",
    )
