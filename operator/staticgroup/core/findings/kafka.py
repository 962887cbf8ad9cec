"""What Kafka itself shows: whether brokers answer and allow what the spec needs, whether members consume and stay.

Figures of Connect were measured with real brokers and stock workers (docs/guide/kafka-connect.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final

from ...api import remedies
from ...api.names import REBALANCE_DELAY_VARIABLE
from ...api.reasons import ConditionType, Reason
from ...api.resources.status import IssueKind
from ..consuming import SETTLED_S, STUCK_AFTER_S, RebalanceGuard
from ..group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import CONNECT_ROLE
from ..seats import Seat, SeatTable
from ..snapshot import Snapshot
from ..timeouts.in_force import seconds
from . import Finding, Subject, counted
from .slots import slots_pass_on
from .workload import unlisted

_ABOUT_RIGHTS = (KafkaProblemKind.NOT_AUTHORIZED, KafkaProblemKind.UNSUPPORTED_GROUP)
_OTHERWISE_NAMED = {
    KafkaProblemKind.CONNECTION_INVALID: Reason.CONNECTION_NOT_FOUND,
    KafkaProblemKind.UNEXPECTED_ANSWER: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.ANSWER_TOO_LARGE: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.UNSUPPORTED_GROUP: Reason.COORDINATOR_UNAVAILABLE,
}
CONNECTION_REASONS: Final[Mapping[KafkaProblemKind, Reason]] = {
    kind: _OTHERWISE_NAMED.get(kind) or Reason(kind.value)
    for kind in KafkaProblemKind
    if kind is not KafkaProblemKind.NOT_AUTHORIZED
}
"""The reason of Connected for each problem but a missing right."""
_DELAY_VARIABLES: Final = (REBALANCE_DELAY_VARIABLE, "CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS")
"""Variables of a pod template that may set the delay, the winner first; images that map CONNECT_* read the second."""
_consuming: Final = partial(Finding, kind=ConditionType.CONSUMING)
NAMED_MAX: Final = 3
MEMBER_ID_SHOWN: Final = 60
_ONCE: Final = "during that rebalance, members with an eager assignor stand still"
_WHAT_FOLLOWS: Final = {
    None: "The group is rebalanced once now.",
    RebalanceGuard.NOT_KNOWN: "Looked at again once the group is Stable and what its members subscribe can be read.",
    RebalanceGuard.NOT_AT_REST: (
        f"The group is rebalanced once, as soon as every pod is Ready, every member joined, nobody else is in the "
        f"group and it has been at rest for {SETTLED_S:.0f} s; {_ONCE}. To prevent it set spec.onTopicChange to Report."
    ),
    RebalanceGuard.OTHERS_IN_GROUP: (
        "The operator rebalances the group once the members that are not of this StaticGroup have left it (see "
        "status.issues); or scale down by one until that pod's member has left the group, and back."
    ),
    RebalanceGuard.NOT_ASKED_FOR: (
        "Set spec.mode to Manage, the chart's operator.forceObserve to false and spec.onTopicChange to Rebalance, and "
        "the operator rebalances the group once; or scale down by one until that pod's member has left the group, and "
        "back (a restart is not enough)."
    ),
    RebalanceGuard.DONE_BEFORE: (
        "A rebalance was asked for once, and that changed nothing: read what the members log about these topics."
    ),
    RebalanceGuard.DONE_LATELY: (
        "The group was rebalanced for other topics lately; half an hour after that it is rebalanced once more."
    ),
    RebalanceGuard.KAFKA_STREAMS: (
        "Scale down by one until that pod's members have left the group, and back (a restart is not enough): the "
        "operator cannot join a group of Kafka Streams to rebalance it."
    ),
}
_PASSES: Final = (None, RebalanceGuard.NOT_KNOWN, RebalanceGuard.NOT_AT_REST, RebalanceGuard.DONE_LATELY)


def connected(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the brokers answer."""
    group = snapshot.group
    problem = group if isinstance(group, KafkaProblem) else executed.refusal
    kind = ConditionType.CONNECTED
    if problem is not None and problem.kind not in _ABOUT_RIGHTS:
        return Finding(kind=kind, reason=CONNECTION_REASONS[problem.kind], sentence=problem.message)
    return Finding(kind=kind, reason=Reason.BROKERS_REACHABLE, sentence="The brokers answer.")


def authorized(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the connection's principal has every right that the spec needs."""
    group, problem, unset = snapshot.group, executed.refusal, executed.group_config_problem

    def said(reason: Reason, sentence: str, remedy: str = "") -> Finding:
        return Finding(kind=ConditionType.AUTHORIZED, reason=reason, sentence=sentence, remedy=remedy)

    if isinstance(group, KafkaProblem) and group.kind not in _ABOUT_RIGHTS:
        return said(Reason.NOT_OBSERVED_YET, "Unknown while the brokers do not answer: see Connected.")
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.NOT_AUTHORIZED:
        is_topic = "topic" in group.missing_acl.lower()
        return said(Reason.DESCRIBE_TOPIC_DENIED if is_topic else Reason.DESCRIBE_GROUP_DENIED, group.message)
    if problem is not None and problem.kind is KafkaProblemKind.NOT_AUTHORIZED:
        return said(Reason.READ_GROUP_DENIED, problem.message)
    refused = _refused(executed)
    if refused is not None and isinstance(group, GroupView):
        call, instead = refused
        sentence = f"{call} was refused: the connection's principal lacks READ on Group '{group.group_id}'"
        return said(Reason.READ_GROUP_DENIED, sentence, f"{remedies.GRANT_BY_ACL}, or set {instead}.")
    if unset is not None and unset.kind is KafkaProblemKind.NOT_AUTHORIZED:
        missing = unset.missing_acl or "ALTER_CONFIGS"
        sentence = f"The session timeout of the group is not set: the connection's principal lacks {missing}"
        remedy = f"{remedies.GRANT_BY_ACL}, or set spec.sessionTimeout.writeGroupConfig to false."
        return said(Reason.ALTER_CONFIGS_DENIED, sentence, remedy)
    sentence = "The brokers refused no request. READ on the group is needed for removals and rebalances only."
    return said(Reason.RIGHTS_SUFFICIENT, sentence)


def _refused(executed: Executed) -> tuple[str, str] | None:
    """Return the call that was refused for want of a right, and the setting that avoids it; None where none was."""
    if LeaveOutcome.NOT_AUTHORIZED in executed.outcomes:
        return "LeaveGroup", "spec.removal to Never"
    if ReleaseOutcome.NOT_AUTHORIZED in executed.release_outcomes:
        release = executed.releases[executed.release_outcomes.index(ReleaseOutcome.NOT_AUTHORIZED)]
        return release.by.value, "spec.removal to Departed"
    return None


def way_to_agent(snapshot: Snapshot, plan: Plan) -> str:
    """Say how the agent comes into workers that are in the group without it, or what it says itself."""
    injection = plan.injection
    if injection is not None and injection.without_agent is not None:
        return remedies.SEE_WHAT_KEEPS_AGENT_OUT
    if injection is not None and injection.brings_agent and snapshot.workload is not None:
        return remedies.bring_agent(snapshot.namespace, snapshot.workload.name, snapshot.workload.kind)
    return remedies.RUN_AGENT


def without_agent(table: SeatTable, missing: Sequence[Seat], remedy: str) -> Finding | None:
    """Say that workers drop the ids that their pods carry; None where none does, or one may only not have joined yet.

    Parameters
    ----------
    missing: the seats whose pods are Ready and whose members are not in the group.
    """
    if table.role is not CONNECT_ROLE or not table.dynamic or not missing:
        return None
    return Finding(
        kind=ConditionType.MEMBERSHIP_COMPLETE,
        reason=Reason.WORKERS_WITHOUT_AGENT,
        sentence=f"{len(table.dynamic)} Connect workers are in the group without group.instance.id, though "
        f"{len(missing)} Ready pods carry one that no member has, such as {missing[0].pod_name}: "
        "StaticGroup's Connect agent, which keeps it, is not active there",
        remedy=remedy,
    )


def misaddressed(table: SeatTable) -> Iterator[Finding]:
    """Yield each worker whose advertised address is not its pod's name, and is of one life only or shared."""
    if table.role is not CONNECT_ROLE:
        return
    held = [(seat, seat.holders[0].worker) for seat in table.wanted if seat.holders]
    advertised = [(seat, worker.host) for seat, worker in held if worker is not None]
    sharing = Counter(host for _, host in advertised)
    for seat, host in advertised:
        if not host or host.partition(".")[0].lower() == seat.pod_name.lower():
            continue
        if _is_fleeting(host):
            reason, sentence = "AddressNotThePods", (
                f"its worker advertises {host} instead of its pod's name: a restart may change it, which costs a "
                "rebalance, and REST requests that other workers forward to it fail"
            )
        elif others := sharing[host] - 1:
            reason, sentence = "AddressShared", (
                f"its worker advertises {host}, as {others} other{'s do' if others > 1 else ' does'}, so REST requests "
                "that are forwarded to one of them reach any"
            )
        else:
            continue
        yield Finding(
            kind=IssueKind.MISADDRESSED,
            reason=reason,
            sentence=sentence,
            remedy=remedies.NAME_WORKER,
            subject=Subject(instance_id=seat.key, pod_name=seat.pod_name),
        )


def _is_fleeting(host: str) -> bool:
    """True for an address, which a pod has for one life; a name is its own, or whatever a DNS makes of it."""
    if host.lower() == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def connect_notes(snapshot: Snapshot, plan: Plan) -> str:
    """Say of a complete cluster what waits for a lost worker, and warn of a delay that only dynamic workers need."""
    load, notes = plan.load, ""
    if load is not None and load.waiting:
        notes = f" {load.waiting} connectors and tasks wait for a worker that was lost, until its rebalance delay ends."
    configured_ms = _configured_delay_ms(snapshot)
    if load is None or not load.is_whole or configured_ms == 0 or (configured_ms is None and not load.delay_ms):
        return notes
    known = f"is {seconds(configured_ms)}" if configured_ms is not None else "is not 0"
    return (
        f"{notes} scheduled.rebalance.max.delay.ms {known}, which static workers do not need: a restarted worker keeps "
        "its tasks without it, and the tasks of a worker that is gone for good wait for it (measured: 63 s with 60 s, "
        f"3 s with 0). Set {REBALANCE_DELAY_VARIABLE} to 0 in the pod template."
    )


def _configured_delay_ms(snapshot: Snapshot) -> int | None:
    """Return the delay that the pod template sets; None when it sets none, or none that a worker takes."""
    containers = snapshot.workload.containers if snapshot.workload is not None else ()
    set_to = {name: value for container in containers for name, value in container.env_values}
    text = next((set_to[name] for name in _DELAY_VARIABLES if name in set_to), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def consuming(snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether members read what they subscribe."""
    group = snapshot.group
    if plan.table is None or not isinstance(group, GroupView):
        return unlisted(ConditionType.CONSUMING, Reason.NOT_OBSERVED_YET, snapshot, plan)
    found = _stuck(snapshot, group, plan) or _unread(plan) or _idle(group, plan.table)
    if found is not None:
        return found
    if plan.table.wanted and not group.members:
        sentence = "No member is in the group: see MembershipComplete."
        return _consuming(reason=Reason.NOT_OBSERVED_YET, sentence=sentence, is_transient=True)
    sentence = "Nothing that members subscribe is known to be unread."
    hidden = sorted(topic for topic, _ in group.topics or () if topic not in (snapshot.partitions or ()))
    if snapshot.partitions is not None and not hidden:
        sentence = "Every partition of the topics that members subscribe is assigned."
    elif snapshot.partitions is not None:  # brokers do not tell the one from the other
        sentence += f" These topics do not exist, or the connection's principal lacks DESCRIBE on them: {_few(hidden)}."
    return _consuming(reason=Reason.ALL_TOPICS_READ, sentence=sentence)


def _stuck(snapshot: Snapshot, group: GroupView, plan: Plan) -> Finding | None:
    """Say that a rebalance does not end, and who is waited for; None while it lasts no longer than usual."""
    if not plan.is_stuck or snapshot.workload is None or snapshot.workload.is_rolling:
        return None
    seats = {seat.key: seat.pod_name for seat in plan.table.seats} if plan.table is not None else {}
    behind = [m for m in group.members if m.member_epoch is not None and m.member_epoch != group.assignment_epoch]
    named = sorted(seats.get(m.instance_id or "") or m.client_id or m.member_id[:MEMBER_ID_SHOWN] for m in behind)
    waits = "it waits for a member that does not poll; which one the brokers do not tell"
    if named:
        waits = f"it waits for {_few(named)} to take or give up partitions"
    what, remedy = "some partitions are not consumed", (
        "Restart the pod whose log shows that it does not call poll(); else it is given up after its "
        "max.poll.interval.ms."
    )
    if group.group_type is GroupType.CLASSIC:  # KIP-345: no static member is given up before its session ends
        what, remedy = "with an eager assignor nobody consumes", (
            "Restart the pod whose log does not say that it rejoins: it does not call poll(). Else the others wait for "
            "max.poll.interval.ms, and its partitions for its session timeout more."
        )
    return _consuming(
        reason=Reason.REBALANCE_STUCK,
        sentence=f"The group has been {group.state} for more than {STUCK_AFTER_S:.0f} s, and {what}: {waits}.",
        remedy=remedy,
    )


def _unread(plan: Plan) -> Finding | None:
    """Say that nobody reads some topics, and what follows; None where all are read."""
    unread = plan.topics.unread
    if unread is None:
        return None
    held_by = plan.topics.held_by
    return _consuming(
        reason=Reason.TOPICS_UNREAD,
        sentence=f"{counted(len(unread.topics), 'topic has', 'topics have')} partitions that nobody reads: "
        f"{_few(unread.topics)}. Static members that restart cause no rebalance, so nobody was given them.",
        remedy=_WHAT_FOLLOWS[held_by],
        is_transient=held_by in _PASSES,
    )


def _few(names: Sequence[str]) -> str:
    """Name the first ones."""
    return ", ".join(names[:NAMED_MAX]) + (" …" if len(names) > NAMED_MAX else "")


def _idle(group: GroupView, table: SeatTable) -> Finding | None:
    """Say that no member has any partition; None where one has, or it is not known."""
    held = [m.assigned_partitions for m in group.members]
    if not held or not group.is_settled or any(count is None or count for count in held):
        return None
    return _consuming(
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
        return unlisted(kind, Reason.NOT_OBSERVED_YET, snapshot, plan)
    if left is None:
        slots = slots_pass_on(snapshot, plan.history.members)
        if slots is not None:
            return slots
        sentence = "No member was seen to leave the group when its pod was stopped."
        return Finding(kind=kind, reason=Reason.MEMBERS_STAY, sentence=sentence)
    many = counted(left.count, "member has", "members have")
    return Finding(
        kind=kind,
        reason=Reason.MEMBERS_LEAVE_ON_CLOSE,
        sentence=f"{many} left the group on closing, although static, the last one that of pod {left.pod_name}, so "
        "every restart rebalances the group twice.",
        remedy="Do not ask the client to leave: no CloseOptions with LEAVE_GROUP, no leaveGroup(true) in Kafka "
        "Streams, no leave-group-on-close in Spring; @platformatic/kafka always leaves, so use another client.",
    )
