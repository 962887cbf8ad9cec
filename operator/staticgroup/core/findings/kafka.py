"""What Kafka itself shows: whether the brokers answer and allow what the spec needs, and whether workers are static.

Figures of Connect were measured with real brokers and stock workers (docs/guide/kafka-connect.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from ...api import remedies
from ...api.names import REBALANCE_DELAY_VARIABLE
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.status import IssueKind
from ..group import GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from ..injection import AgentHindrance
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import CONNECT_ROLE
from ..seats import Seat, SeatTable
from ..snapshot import Snapshot
from ..timeouts.in_force import seconds
from . import Finding, Subject

CONNECTION_REASONS = {
    KafkaProblemKind.UNREACHABLE: Reason.BROKERS_UNREACHABLE,
    KafkaProblemKind.TLS_FAILED: Reason.TLS_FAILED,
    KafkaProblemKind.AUTHENTICATION_FAILED: Reason.AUTHENTICATION_FAILED,
    KafkaProblemKind.WRONG_CLUSTER: Reason.CLUSTER_ID_MISMATCH,
    KafkaProblemKind.BROKER_TOO_OLD: Reason.BROKER_TOO_OLD,
    KafkaProblemKind.COORDINATOR_UNAVAILABLE: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.UNEXPECTED_ANSWER: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.ANSWER_TOO_LARGE: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.UNSUPPORTED_GROUP: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.ADDRESS_REFUSED: Reason.ADDRESS_REFUSED,
    KafkaProblemKind.SECRET_MISSING: Reason.SECRET_NOT_FOUND,
    KafkaProblemKind.SECRET_INVALID: Reason.SECRET_KEY_MISSING,
    KafkaProblemKind.CONNECTION_MISSING: Reason.CONNECTION_NOT_FOUND,
    KafkaProblemKind.CONNECTION_INVALID: Reason.CONNECTION_NOT_FOUND,
    KafkaProblemKind.NAMESPACE_NOT_ALLOWED: Reason.NAMESPACE_NOT_ALLOWED,
    KafkaProblemKind.GROUP_NOT_ALLOWED: Reason.GROUP_NOT_ALLOWED,
}
_ABOUT_RIGHTS = (KafkaProblemKind.NOT_AUTHORIZED, KafkaProblemKind.UNSUPPORTED_GROUP)
_DELAY_VARIABLES: Final = (REBALANCE_DELAY_VARIABLE, "CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS")
"""Variables of a pod template that may set the delay, the winner first; images that map CONNECT_* read the second."""
_DIGITS_MAX: Final = 10


def connected(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the brokers answer."""
    group = snapshot.group
    problem = group if isinstance(group, KafkaProblem) else executed.refusal
    kind = ConditionType.CONNECTED
    if problem is not None and problem.kind not in _ABOUT_RIGHTS:
        return Finding(kind=kind, reason=CONNECTION_REASONS[problem.kind], sentence=problem.message)
    status = ConditionStatus.TRUE
    return Finding(kind=kind, reason=Reason.BROKERS_REACHABLE, status=status, sentence="The brokers answer.")


def authorized(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the connection's principal has every right that the spec needs."""
    group, problem, unset = snapshot.group, executed.refusal, executed.group_config_problem

    def said(
        reason: Reason, sentence: str, remedy: str = "", status: ConditionStatus = ConditionStatus.FALSE
    ) -> Finding:
        return Finding(kind=ConditionType.AUTHORIZED, reason=reason, status=status, sentence=sentence, remedy=remedy)

    if isinstance(group, KafkaProblem) and group.kind not in _ABOUT_RIGHTS:
        sentence = "Unknown while the brokers do not answer: see Connected."
        return said(Reason.NOT_OBSERVED_YET, sentence, status=ConditionStatus.UNKNOWN)
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
    return said(Reason.RIGHTS_SUFFICIENT, sentence, status=ConditionStatus.TRUE)


def _refused(executed: Executed) -> tuple[str, str] | None:
    """Return the call that was refused for want of a right, and the setting that avoids it; None where none was."""
    if LeaveOutcome.NOT_AUTHORIZED in executed.outcomes:
        return "LeaveGroup", "spec.mode to Observe"
    if ReleaseOutcome.NOT_AUTHORIZED in executed.release_outcomes:
        release = executed.releases[executed.release_outcomes.index(ReleaseOutcome.NOT_AUTHORIZED)]
        return release.by.value, "spec.removal to Departed"
    return None


# the workers of Kafka Connect


def way_to_agent(snapshot: Snapshot, plan: Plan) -> str:
    """Say how the agent comes into workers that are in the group without it, or what it says itself."""
    injection = plan.injection
    if injection is not None and injection.without_agent is not None:
        return remedies.SEE_WHAT_KEEPS_AGENT_OUT
    if injection is not None and injection.brings_agent and snapshot.workload is not None:
        return remedies.bring_agent(snapshot.namespace, snapshot.workload.name, snapshot.workload.kind)
    return remedies.run_agent()


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
        f"{len(missing)} Ready pods carry one that no member has, such as {missing[0].pod_name}: Kafka Connect drops "
        "it unless the agent runs in the worker",
        remedy=remedy,
    )


def agent_left_out(found: AgentHindrance) -> Finding:
    """Say that the next pods get no agent although the spec asks for it."""
    return Finding(
        kind=ConditionType.INJECTED,
        reason=Reason.AGENT_NOT_INJECTED,
        sentence=f"New pods get no agent, and so their workers do not use the ids: {found.cause}",
        remedy=remedies.make_room_for_agent(found.remedy),
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
            remedy=remedies.name_worker(seat.pod_name),
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
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None
