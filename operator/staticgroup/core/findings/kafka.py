"""Whether the brokers answer, and whether they allow what the spec needs."""

from __future__ import annotations

from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.remedies import GRANT_BY_ACL
from ..group import KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from ..outcomes import Executed
from ..snapshot import Snapshot
from . import Finding

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


def connected(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the brokers answer."""
    problem = snapshot.group if isinstance(snapshot.group, KafkaProblem) else executed.problem or executed.release_problem
    kind = ConditionType.CONNECTED
    if problem is not None and problem.kind not in _ABOUT_RIGHTS:
        return Finding(kind=kind, reason=CONNECTION_REASONS[problem.kind], sentence=problem.message)
    status = ConditionStatus.TRUE
    return Finding(kind=kind, reason=Reason.BROKERS_REACHABLE, status=status, sentence="The brokers answer.")


def authorized(snapshot: Snapshot, executed: Executed) -> Finding:
    """Say whether the connection's principal has every right that the spec needs."""
    group, kind = snapshot.group, ConditionType.AUTHORIZED
    if isinstance(group, KafkaProblem) and group.kind not in _ABOUT_RIGHTS:
        return Finding(
            kind=kind,
            reason=Reason.NOT_OBSERVED_YET,
            status=ConditionStatus.UNKNOWN,
            sentence="Not known while the brokers do not answer: see Connected.",
        )
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.NOT_AUTHORIZED:
        is_topic = "topic" in group.missing_acl.lower()
        reason = Reason.DESCRIBE_TOPIC_DENIED if is_topic else Reason.DESCRIBE_GROUP_DENIED
        return Finding(kind=kind, reason=reason, sentence=group.message)
    problem = executed.problem or executed.release_problem
    if problem is not None and problem.kind is KafkaProblemKind.NOT_AUTHORIZED:
        return Finding(kind=kind, reason=Reason.READ_GROUP_DENIED, sentence=problem.message)
    if LeaveOutcome.NOT_AUTHORIZED in executed.outcomes and not isinstance(group, KafkaProblem):
        return Finding(
            kind=kind,
            reason=Reason.READ_GROUP_DENIED,
            sentence=f"LeaveGroup was refused: the connection's principal lacks READ on Group '{group.group_id}'",
            remedy=f"{GRANT_BY_ACL}, or set spec.mode to Observe.",
        )
    if ReleaseOutcome.NOT_AUTHORIZED in executed.release_outcomes and not isinstance(group, KafkaProblem):
        call = executed.releases[executed.release_outcomes.index(ReleaseOutcome.NOT_AUTHORIZED)].by
        return Finding(
            kind=kind,
            reason=Reason.READ_GROUP_DENIED,
            sentence=f"{call.value} was refused: the connection's principal lacks READ on Group '{group.group_id}'",
            remedy=f"{GRANT_BY_ACL}, or set spec.crashRelease to Report.",
        )
    unset = executed.group_config_problem
    if unset is not None and unset.kind is KafkaProblemKind.NOT_AUTHORIZED:
        return _not_set(unset)
    return Finding(
        kind=kind,
        reason=Reason.RIGHTS_SUFFICIENT,
        status=ConditionStatus.TRUE,
        sentence="The brokers refused nothing that was asked of them. READ on the group is asked for at a removal only.",
    )


def _not_set(problem: KafkaProblem) -> Finding:
    """Say that the session timeout of the group may not be set."""
    return Finding(
        kind=ConditionType.AUTHORIZED,
        reason=Reason.ALTER_CONFIGS_DENIED,
        sentence=f"The session timeout of the group is not set: the connection's principal lacks {problem.missing_acl or 'ALTER_CONFIGS'}",
        remedy=f"{GRANT_BY_ACL}, or set spec.sessionTimeout.writeGroupConfig to false.",
    )
