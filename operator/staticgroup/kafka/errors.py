"""What each error code of a broker means to us, in one table, and when a refused call is made again.

Why: an error must never be read as an empty answer, and the user must read which right to grant or what to wait
for. One idea: (call, code) → verdict; the verdict says which problem it is and whether asking again can help.
Source: org.apache.kafka.common.protocol.Errors; KafkaApis and GroupCoordinatorService of Kafka 4.4.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kio.schema.errors import ErrorCode

from ..api.remedies import GRANT_BY_ACL
from ..core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from .wire import Api

Code = ErrorCode
"""Kafka's error numbers; those that have a meaning here are in the tables below."""
BACK_OFF_FIRST_S = 0.05
BACK_OFF_MAX_S = 1.0


class Recovery(StrEnum):
    """Whether asking again can help."""

    NONE = "None"
    BACK_OFF = "BackOff"
    FIND_COORDINATOR = "FindCoordinator"
    READ_TYPE = "ReadType"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of one code.

    Parameters
    ----------
    text: what happened and what to do, with {group}, {api} and {principal}.
    acl: template of the missing right, with {group}; "" when the code is not about rights.
    """

    kind: KafkaProblemKind
    text: str
    recovery: Recovery = Recovery.NONE
    acl: str = ""


def _retry(recovery: Recovery, text: str) -> Verdict:
    return Verdict(KafkaProblemKind.COORDINATOR_UNAVAILABLE, text, recovery)


def _denied(acl: str, consequence: str = "") -> Verdict:
    text = f"{{principal}} lacks {acl}{consequence}; {GRANT_BY_ACL}"
    return Verdict(KafkaProblemKind.NOT_AUTHORIZED, text, acl=acl)


def _unexpected(text: str) -> Verdict:
    return Verdict(KafkaProblemKind.UNEXPECTED_ANSWER, text)


def _too_old(text: str) -> Verdict:
    return Verdict(KafkaProblemKind.BROKER_TOO_OLD, text)


_HIDDEN = ", so the broker hides its members (they are not gone)"

COMMON: Mapping[int, Verdict] = {
    Code.unknown_server_error: _unexpected("the broker failed to answer {api} (UNKNOWN_SERVER_ERROR); see its log"),
    Code.request_timed_out: _retry(Recovery.BACK_OFF, "the broker timed out on {api}; it is asked again"),
    Code.network_exception: _retry(Recovery.FIND_COORDINATOR, "the broker lost a connection during {api}"),
    Code.coordinator_load_in_progress: _retry(
        Recovery.BACK_OFF,
        "the coordinator of group {group!r} is loading its state after a fail-over; it is asked again",
    ),
    Code.coordinator_not_available: _retry(
        Recovery.FIND_COORDINATOR,
        "group {group!r} has no coordinator now; if this lasts, check the replicas of __consumer_offsets",
    ),
    Code.not_coordinator: _retry(
        Recovery.FIND_COORDINATOR, "the coordinator of group {group!r} has moved; it is looked up again"
    ),
    Code.invalid_group_id: _unexpected(
        "the broker refuses group id {group!r} (INVALID_GROUP_ID); create a StaticGroup with the right spec.groupId"
    ),
    Code.group_authorization_failed: _denied("DESCRIBE on Group '{group}'"),
    Code.cluster_authorization_failed: _denied("DESCRIBE on Cluster 'kafka-cluster'"),
    Code.unsupported_version: _too_old(
        "the broker does not serve this version of {api}; StaticGroup needs Kafka 2.4, for KIP-848 groups 3.8, "
        "for streams groups 4.4"
    ),
    Code.invalid_request: _unexpected("the broker calls our {api} invalid (INVALID_REQUEST); please report this"),
}
"""Meaning of a code whatever was asked."""

BY_API: Mapping[Api, Mapping[int, Verdict]] = {
    Api.DESCRIBE_GROUPS: {
        Code.group_id_not_found: _retry(Recovery.READ_TYPE, "group {group!r} is not a classic group (any more)"),
    },
    Api.CONSUMER_GROUP_DESCRIBE: {
        Code.group_id_not_found: _retry(Recovery.READ_TYPE, "group {group!r} is not a KIP-848 group (any more)"),
        Code.topic_authorization_failed: _denied("DESCRIBE on the Topics that group '{group}' subscribes to", _HIDDEN),
    },
    Api.STREAMS_GROUP_DESCRIBE: {
        Code.group_id_not_found: _retry(Recovery.READ_TYPE, "group {group!r} is not a streams group (any more)"),
        Code.topic_authorization_failed: _denied(
            "DESCRIBE on the Topics that group '{group}' reads and writes", _HIDDEN
        ),
    },
    Api.JOIN_GROUP: {
        Code.group_authorization_failed: _denied("READ on Group '{group}'", ", so it is not rebalanced"),
        Code.inconsistent_group_protocol: _retry(
            Recovery.NONE, "the members of group {group!r} have agreed on another assignor meanwhile; it is read again"
        ),
        Code.invalid_session_timeout: _unexpected(
            "the brokers allow no session of 6 s (group.min.session.timeout.ms), so group {group!r} is not rebalanced; "
            "scale down by one until that member has left the group, and back"
        ),
        Code.group_max_size_reached: _unexpected(
            "group {group!r} has as many members as group.max.size allows, so the operator cannot join to "
            "rebalance it; scale down by one until that member has left the group, and back"
        ),
    },
    Api.LEAVE_GROUP: {
        Code.group_authorization_failed: _denied("READ on Group '{group}'", ", so departed members are not removed"),
    },
    Api.CONSUMER_GROUP_HEARTBEAT: {
        Code.group_authorization_failed: _denied("READ on Group '{group}'", ", so crashed members are not released"),
    },
    Api.STREAMS_GROUP_HEARTBEAT: {
        Code.group_authorization_failed: _denied(
            "READ on Group '{group}'", ", so departed members are not removed and crashed ones not released"
        ),
        # throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures of Kafka 4.1 to 4.3, before anything is done.
        Code.invalid_request: _too_old(
            "the coordinator of streams group {group!r} takes no group.instance.id (INVALID_REQUEST), as brokers "
            "before Kafka 4.4: upgrade the brokers, or let the application use the classic protocol, or have dynamic "
            "members (spec.client.type Own)"
        ),
    },
    Api.HEARTBEAT: {Code.group_authorization_failed: _denied("READ on Group '{group}'")},
    Api.DESCRIBE_CONFIGS: {
        Code.group_authorization_failed: _denied("DESCRIBE_CONFIGS on Group '{group}'"),
        Code.cluster_authorization_failed: _denied("DESCRIBE_CONFIGS on Cluster 'kafka-cluster'"),
        Code.invalid_config: _unexpected("the broker refuses to show settings of group {group!r} (INVALID_CONFIG)"),
    },
    Api.INCREMENTAL_ALTER_CONFIGS: {
        Code.group_authorization_failed: _denied(
            "ALTER_CONFIGS on Group '{group}'", ", so its session timeout is not set"
        ),
        Code.invalid_config: _unexpected(
            "the brokers refuse the settings of group {group!r} (INVALID_CONFIG): a value that is set on it is outside "
            "their bounds, or its heartbeat interval is not below its session timeout; compare kafka-configs.sh "
            "--describe --entity-type groups"
        ),
        Code.policy_violation: _unexpected(
            "the brokers' alter.config.policy refuses the settings of group {group!r} (POLICY_VIOLATION); change the "
            "policy, or set spec.sessionTimeout.writeGroupConfig to false"
        ),
        Code.invalid_request: _too_old(
            "the brokers keep no settings of groups (INVALID_REQUEST), as those before Kafka 4.0; upgrade them, or set "
            "spec.sessionTimeout.writeGroupConfig to false"
        ),
    },
}
"""Meaning of a code that depends on what was asked; wins over COMMON."""

LEAVE_OUTCOMES: Mapping[int, LeaveOutcome] = {
    Code.none: LeaveOutcome.REMOVED,
    Code.unknown_member_id: LeaveOutcome.UNKNOWN,
    Code.fenced_instance_id: LeaveOutcome.FENCED,
    Code.group_authorization_failed: LeaveOutcome.NOT_AUTHORIZED,
}
"""Meaning of the code of one entry of LeaveGroup; any other is RETRY (describe again, then decide)."""

STREAMS_LEAVE_OUTCOMES: Mapping[int, LeaveOutcome] = {
    Code.none: LeaveOutcome.REMOVED,
    Code.unknown_member_id: LeaveOutcome.UNKNOWN,
    Code.group_id_not_found: LeaveOutcome.UNKNOWN,
    Code.fenced_instance_id: LeaveOutcome.FENCED,
}
"""Meaning of the code of a member's leave from a streams group, where it is about the member."""

RELEASE_OUTCOMES: Mapping[int, ReleaseOutcome] = {
    Code.none: ReleaseOutcome.RELEASED,
    Code.unknown_member_id: ReleaseOutcome.UNKNOWN,
    Code.group_id_not_found: ReleaseOutcome.UNKNOWN,
    Code.fenced_instance_id: ReleaseOutcome.FENCED,
    Code.unreleased_instance_id: ReleaseOutcome.FENCED,
    Code.group_authorization_failed: ReleaseOutcome.NOT_AUTHORIZED,
}
"""Meaning of the code of a temporary leave, where it is about the member or the right."""

ACTED_MAYBE = frozenset({Code.request_timed_out, Code.network_exception, Code.coordinator_not_available})
"""A coordinator maps failed or late writes to these (CoordinatorOperationExceptionHelper): it may have acted."""


def verdict_of(api: Api, code: int) -> Verdict:
    """Return the meaning of an error code; a code that nobody documented is an unexpected answer."""
    verdict = BY_API.get(api, {}).get(code) or COMMON.get(code)
    return verdict or _unexpected(f"the broker answered {{api}} with the unknown error code {code}")


def problem_of(api: Api, code: int, *, group_id: str = "", principal: str = "the operator's principal") -> KafkaProblem:
    """Word an error code for the user, with `missing_acl` when a right is missing.

    Parameters
    ----------
    principal: as the broker sees us, as far as known ("User:op").
    """
    verdict = verdict_of(api, code)
    words = {"group": group_id, "api": api.name, "principal": principal}
    acl = verdict.acl.format(**words)
    if acl and principal.startswith("User:"):
        acl = f"{acl} for {principal}"
    return KafkaProblem(kind=verdict.kind, message=verdict.text.format(**words), missing_acl=acl)


class Refusal(Exception):
    """Carries a problem through the layers of this package; never leaves the gateway.

    Parameters
    ----------
    recovery: whether asking again, in which way, can help.
    sent: the request may have reached the broker.
    """

    def __init__(self, problem: KafkaProblem, *, recovery: Recovery = Recovery.NONE, sent: bool = False) -> None:
        super().__init__(problem.kind)
        self.problem = problem
        self.kind = problem.kind
        self.recovery = recovery
        self.sent = sent

    def may_retry(self, attempt: int) -> bool:
        """Return whether a read is repeated: a lost connection once, a coordinator on the move until the deadline."""
        if self.recovery is Recovery.NONE:
            return False
        return self.kind is not KafkaProblemKind.UNREACHABLE or attempt == 0


def refusal(kind: KafkaProblemKind, message: str, *, recovery: Recovery = Recovery.NONE) -> Refusal:
    """Return the refusal by a problem for which there is no error code."""
    return Refusal(KafkaProblem(kind=kind, message=message), recovery=recovery)


def refusal_by(api: Api, code: int, group_id: str, principal: str) -> Refusal:
    """Return the refusal by an error code."""
    problem = problem_of(api, code, group_id=group_id, principal=principal)
    return Refusal(problem, recovery=verdict_of(api, code).recovery)


def back_off_s(attempt: int, rng: random.Random) -> float:
    """Return the pause before attempt+1: doubling from 50 ms to 1 s, half of it random."""
    return min(BACK_OFF_FIRST_S * 2.0**attempt, BACK_OFF_MAX_S) * (0.5 + rng.random() / 2)
