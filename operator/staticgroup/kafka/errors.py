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

from ..api.remedies import GRANT_BY_ACL
from ..core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from .wire import Api

BACK_OFF_FIRST_S = 0.05
BACK_OFF_MAX_S = 1.0


class Recovery(StrEnum):
    """Whether asking again can help."""

    NONE = "None"
    BACK_OFF = "BackOff"
    FIND_COORDINATOR = "FindCoordinator"
    READ_TYPE = "ReadType"


class Code:
    """Kafka's error numbers that have a meaning here (org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    REQUEST_TIMED_OUT = 7
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNRELEASED_INSTANCE_ID = 111


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
    Code.UNKNOWN_SERVER_ERROR: _unexpected("the broker failed to answer {api} (UNKNOWN_SERVER_ERROR); see its log"),
    Code.REQUEST_TIMED_OUT: _retry(Recovery.BACK_OFF, "the broker timed out on {api}; it is asked again"),
    Code.NETWORK_EXCEPTION: _retry(Recovery.FIND_COORDINATOR, "the broker lost a connection during {api}"),
    Code.COORDINATOR_LOAD_IN_PROGRESS: _retry(
        Recovery.BACK_OFF,
        "the coordinator of group {group!r} is loading its state after a fail-over; it is asked again",
    ),
    Code.COORDINATOR_NOT_AVAILABLE: _retry(
        Recovery.FIND_COORDINATOR,
        "group {group!r} has no coordinator now; if this lasts, check the replicas of __consumer_offsets",
    ),
    Code.NOT_COORDINATOR: _retry(
        Recovery.FIND_COORDINATOR, "the coordinator of group {group!r} has moved; it is looked up again"
    ),
    Code.INVALID_GROUP_ID: _unexpected(
        "the broker refuses group id {group!r} (INVALID_GROUP_ID); correct spec.groupId"
    ),
    Code.GROUP_AUTHORIZATION_FAILED: _denied("DESCRIBE on Group '{group}'"),
    Code.CLUSTER_AUTHORIZATION_FAILED: _denied("DESCRIBE on Cluster 'kafka-cluster'"),
    Code.UNSUPPORTED_VERSION: _too_old(
        "the broker does not serve this version of {api}; StaticGroup needs Kafka 2.4, for KIP-848 groups 3.8, "
        "for streams groups 4.4"
    ),
    Code.INVALID_REQUEST: _unexpected("the broker calls our {api} invalid (INVALID_REQUEST); please report this"),
}
"""Meaning of a code whatever was asked."""

BY_API: Mapping[Api, Mapping[int, Verdict]] = {
    Api.DESCRIBE_GROUPS: {
        Code.GROUP_ID_NOT_FOUND: _retry(Recovery.READ_TYPE, "group {group!r} is not a classic group (any more)"),
    },
    Api.CONSUMER_GROUP_DESCRIBE: {
        Code.GROUP_ID_NOT_FOUND: _retry(Recovery.READ_TYPE, "group {group!r} is not a KIP-848 group (any more)"),
        Code.TOPIC_AUTHORIZATION_FAILED: _denied("DESCRIBE on the Topics that group '{group}' subscribes to", _HIDDEN),
    },
    Api.STREAMS_GROUP_DESCRIBE: {
        Code.GROUP_ID_NOT_FOUND: _retry(Recovery.READ_TYPE, "group {group!r} is not a streams group (any more)"),
        Code.TOPIC_AUTHORIZATION_FAILED: _denied(
            "DESCRIBE on the Topics that group '{group}' reads and writes", _HIDDEN
        ),
    },
    Api.JOIN_GROUP: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied("READ on Group '{group}'", ", so it is not rebalanced"),
        Code.INCONSISTENT_GROUP_PROTOCOL: _retry(
            Recovery.NONE, "the members of group {group!r} have agreed on another assignor meanwhile; it is read again"
        ),
        Code.INVALID_SESSION_TIMEOUT: _unexpected(
            "the brokers allow no session of 6 s (group.min.session.timeout.ms), so group {group!r} is not rebalanced; "
            "let all members be stopped for longer than their session timeout"
        ),
        Code.GROUP_MAX_SIZE_REACHED: _unexpected(
            "group {group!r} has as many members as group.max.size allows, so nobody can join to rebalance it; raise "
            "that setting of the brokers, or let all members be stopped for longer than their session timeout"
        ),
    },
    Api.LEAVE_GROUP: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied("READ on Group '{group}'", ", so departed members are not removed"),
    },
    Api.CONSUMER_GROUP_HEARTBEAT: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied("READ on Group '{group}'", ", so crashed members are not released"),
    },
    Api.STREAMS_GROUP_HEARTBEAT: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied(
            "READ on Group '{group}'", ", so departed members are not removed and crashed ones not released"
        ),
        # throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures of Kafka 4.1 to 4.3, before anything is done.
        Code.INVALID_REQUEST: _too_old(
            "the coordinator of streams group {group!r} takes no group.instance.id (INVALID_REQUEST), as brokers "
            "before Kafka 4.4: upgrade the brokers, or let the application use the classic protocol, or have dynamic "
            "members (spec.client.type Own)"
        ),
    },
    Api.HEARTBEAT: {Code.GROUP_AUTHORIZATION_FAILED: _denied("READ on Group '{group}'")},
    Api.DESCRIBE_CONFIGS: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied("DESCRIBE_CONFIGS on Group '{group}'"),
        Code.CLUSTER_AUTHORIZATION_FAILED: _denied("DESCRIBE_CONFIGS on Cluster 'kafka-cluster'"),
        Code.INVALID_CONFIG: _unexpected("the broker refuses to show settings of group {group!r} (INVALID_CONFIG)"),
    },
    Api.INCREMENTAL_ALTER_CONFIGS: {
        Code.GROUP_AUTHORIZATION_FAILED: _denied(
            "ALTER_CONFIGS on Group '{group}'", ", so its session timeout is not set"
        ),
        Code.INVALID_CONFIG: _unexpected(
            "the brokers refuse the settings of group {group!r} (INVALID_CONFIG): a value that is set on it is outside "
            "their bounds, or its heartbeat interval is not below its session timeout; compare kafka-configs.sh "
            "--describe --entity-type groups"
        ),
        Code.POLICY_VIOLATION: _unexpected(
            "the brokers' alter.config.policy refuses the settings of group {group!r} (POLICY_VIOLATION); change the "
            "policy, or set spec.sessionTimeout.writeGroupConfig to false"
        ),
        Code.INVALID_REQUEST: _too_old(
            "the brokers keep no settings of groups (INVALID_REQUEST), as those before Kafka 4.0; upgrade them, or set "
            "spec.sessionTimeout.writeGroupConfig to false"
        ),
    },
}
"""Meaning of a code that depends on what was asked; wins over COMMON."""

LEAVE_OUTCOMES: Mapping[int, LeaveOutcome] = {
    Code.NONE: LeaveOutcome.REMOVED,
    Code.UNKNOWN_MEMBER_ID: LeaveOutcome.UNKNOWN,
    Code.FENCED_INSTANCE_ID: LeaveOutcome.FENCED,
    Code.GROUP_AUTHORIZATION_FAILED: LeaveOutcome.NOT_AUTHORIZED,
}
"""Meaning of the code of one entry of LeaveGroup; any other is RETRY (describe again, then decide)."""

STREAMS_LEAVE_OUTCOMES: Mapping[int, LeaveOutcome] = {
    Code.NONE: LeaveOutcome.REMOVED,
    Code.UNKNOWN_MEMBER_ID: LeaveOutcome.UNKNOWN,
    Code.GROUP_ID_NOT_FOUND: LeaveOutcome.UNKNOWN,
    Code.FENCED_INSTANCE_ID: LeaveOutcome.FENCED,
}
"""Meaning of the code of a member's leave from a streams group, where it is about the member."""

RELEASE_OUTCOMES: Mapping[int, ReleaseOutcome] = {
    Code.NONE: ReleaseOutcome.RELEASED,
    Code.UNKNOWN_MEMBER_ID: ReleaseOutcome.UNKNOWN,
    Code.GROUP_ID_NOT_FOUND: ReleaseOutcome.UNKNOWN,
    Code.FENCED_INSTANCE_ID: ReleaseOutcome.FENCED,
    Code.UNRELEASED_INSTANCE_ID: ReleaseOutcome.FENCED,
    Code.GROUP_AUTHORIZATION_FAILED: ReleaseOutcome.NOT_AUTHORIZED,
}
"""Meaning of the code of a temporary leave, where it is about the member or the right."""

ACTED_MAYBE = frozenset({Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION, Code.COORDINATOR_NOT_AVAILABLE})
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
