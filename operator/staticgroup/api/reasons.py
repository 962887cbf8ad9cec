"""List every reason a condition may give: one stable word that users and alerts match on.

Findings (`core.findings`) word the messages beside it, without secrets or a client library's error text. Source:
KEP-1623 (standard conditions).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ConditionType(StrEnum):
    """Name the conditions, all of positive polarity: True is good."""

    READY = "Ready"
    WORKLOAD_FOUND = "WorkloadFound"
    CONNECTED = "Connected"
    AUTHORIZED = "Authorized"
    INJECTED = "Injected"
    MEMBERSHIP_COMPLETE = "MembershipComplete"
    CONSUMING = "Consuming"
    TIMEOUT_SUFFICIENT = "TimeoutSufficient"
    ROLLS_QUIETLY = "RollsQuietly"
    REMOVAL_SETTLED = "RemovalSettled"
    RECOMMENDATION_CURRENT = "RecommendationCurrent"


class ConditionStatus(StrEnum):
    """Give a condition's answer."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Name every reason; users and alerts match on these words."""

    # Ready
    RECONCILED = "Reconciled"
    OBSERVING = "Observing"
    SUSPENDED = "Suspended"
    NOT_OBSERVED_YET = "NotObservedYet"
    CONFLICTING_STATIC_GROUPS = "ConflictingStaticGroups"
    # WorkloadFound
    WORKLOAD_EXISTS = "WorkloadExists"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WORKLOAD_TOO_LARGE = "WorkloadTooLarge"
    WORKLOAD_UNREADABLE = "WorkloadUnreadable"
    # Connected
    BROKERS_REACHABLE = "BrokersReachable"
    CONNECTION_NOT_FOUND = "ConnectionNotFound"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    GROUP_NOT_ALLOWED = "GroupNotAllowed"
    SECRET_NOT_FOUND = "SecretNotFound"
    SECRET_KEY_MISSING = "SecretKeyMissing"
    BROKERS_UNREACHABLE = "BrokersUnreachable"
    ADDRESS_REFUSED = "AddressRefused"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    TLS_FAILED = "TlsFailed"
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"
    COORDINATOR_UNAVAILABLE = "CoordinatorUnavailable"
    BROKER_TOO_OLD = "BrokerTooOld"
    # Authorized
    RIGHTS_SUFFICIENT = "RightsSufficient"
    DESCRIBE_GROUP_DENIED = "DescribeGroupDenied"
    DESCRIBE_TOPIC_DENIED = "DescribeTopicDenied"
    READ_GROUP_DENIED = "ReadGroupDenied"
    ALTER_CONFIGS_DENIED = "AlterConfigsDenied"
    # Injected
    IDS_INJECTED = "IdsInjected"
    INJECTION_OFF = "InjectionOff"
    INJECTION_NOT_SERVED = "InjectionNotServed"
    PODS_WITHOUT_ID = "PodsWithoutId"
    AGENT_NOT_INJECTED = "AgentNotInjected"
    IDENTITY_INVALID = "IdentityInvalid"
    IDS_HELD_ELSEWHERE = "IdsHeldElsewhere"
    TOO_MANY_MEMBERS = "TooManyMembers"
    # MembershipComplete
    ALL_MEMBERS_JOINED = "AllMembersJoined"
    MEMBERS_AWAY = "MembersAway"
    MEMBERS_MISSING = "MembersMissing"
    NOT_ROLLED_YET = "NotRolledYet"
    WORKERS_WITHOUT_AGENT = "WorkersWithoutAgent"
    GROUP_NOT_FOUND = "GroupNotFound"
    SUFFIX_MISMATCH = "SuffixMismatch"
    OWN_IDS = "OwnIds"
    MEMBERS_FENCE_EACH_OTHER = "MembersFenceEachOther"
    PROTOCOL_MISMATCH = "ProtocolMismatch"
    MEMBERSHIP_UNKNOWN = "MembershipUnknown"
    # Consuming
    ALL_TOPICS_READ = "AllTopicsRead"
    TOPICS_UNREAD = "TopicsUnread"
    REBALANCE_STUCK = "RebalanceStuck"
    NOTHING_ASSIGNED = "NothingAssigned"
    # TimeoutSufficient
    TIMEOUT_FITS = "TimeoutFits"
    TIMEOUT_BELOW_NEED = "TimeoutBelowNeed"
    BROKER_BOUND_TOO_LOW = "BrokerBoundTooLow"
    TIMEOUT_UNKNOWN = "TimeoutUnknown"
    # RollsQuietly
    MEMBERS_STAY = "MembersStay"
    MEMBERS_LEAVE_ON_CLOSE = "MembersLeaveOnClose"
    # RemovalSettled
    NOTHING_TO_REMOVE = "NothingToRemove"
    REMOVED = "Removed"
    REMOVAL_OFF = "RemovalOff"
    REMOVAL_HELD = "RemovalHeld"
    REMOVAL_IN_PROGRESS = "RemovalInProgress"
    END_NOT_SEEN = "EndNotSeen"
    UNSCOPED_IDS = "UnscopedIds"
    REMOVAL_REFUSED = "RemovalRefused"
    # RecommendationCurrent
    RECOMMENDATION_USED = "RecommendationUsed"
    RECOMMENDATION_SHOWN = "RecommendationShown"
    RECOMMENDATION_ABSENT = "RecommendationAbsent"
    RECOMMENDATION_UNREACHABLE = "RecommendationUnreachable"
    RECOMMENDATION_CORRUPT = "RecommendationCorrupt"
    RECOMMENDATION_UNSUPPORTED = "RecommendationUnsupported"
    RECOMMENDATION_STALE = "RecommendationStale"
    RECOMMENDATION_FROM_THE_FUTURE = "RecommendationFromTheFuture"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Hold the status that a reason stands for, and the conditions that may carry it."""

    status: ConditionStatus
    types: frozenset[ConditionType]


def _yes(*types: ConditionType) -> Meaning:
    return Meaning(ConditionStatus.TRUE, frozenset(types))


def _no(*types: ConditionType) -> Meaning:
    return Meaning(ConditionStatus.FALSE, frozenset((*types, ConditionType.READY)))  # Ready takes the cause over


def _unknown(*types: ConditionType) -> Meaning:
    return Meaning(ConditionStatus.UNKNOWN, frozenset((*types, ConditionType.READY)))


_T = ConditionType
_KAFKA = (_T.CONNECTED, _T.READY)
MEANINGS: Final[Mapping[Reason, Meaning]] = MappingProxyType(
    {
        Reason.RECONCILED: _yes(_T.READY),
        Reason.OBSERVING: _yes(_T.READY),
        Reason.SUSPENDED: _no(_T.READY),
        Reason.NOT_OBSERVED_YET: _unknown(*_T),
        Reason.CONFLICTING_STATIC_GROUPS: _no(_T.READY, _T.REMOVAL_SETTLED, _T.INJECTED),
        Reason.WORKLOAD_EXISTS: _yes(_T.WORKLOAD_FOUND),
        Reason.WORKLOAD_NOT_FOUND: _no(_T.WORKLOAD_FOUND),
        Reason.WORKLOAD_TOO_LARGE: _no(_T.WORKLOAD_FOUND),
        Reason.WORKLOAD_UNREADABLE: _unknown(_T.WORKLOAD_FOUND),
        Reason.BROKERS_REACHABLE: _yes(_T.CONNECTED),
        Reason.CONNECTION_NOT_FOUND: _no(*_KAFKA),
        Reason.NAMESPACE_NOT_ALLOWED: _no(*_KAFKA),
        Reason.GROUP_NOT_ALLOWED: _no(*_KAFKA),
        Reason.SECRET_NOT_FOUND: _no(*_KAFKA),
        Reason.SECRET_KEY_MISSING: _no(*_KAFKA),
        Reason.BROKERS_UNREACHABLE: _no(*_KAFKA),
        Reason.ADDRESS_REFUSED: _no(*_KAFKA),
        Reason.AUTHENTICATION_FAILED: _no(*_KAFKA),
        Reason.TLS_FAILED: _no(*_KAFKA),
        Reason.CLUSTER_ID_MISMATCH: _no(*_KAFKA),
        Reason.COORDINATOR_UNAVAILABLE: _no(*_KAFKA),
        Reason.BROKER_TOO_OLD: _no(_T.READY, _T.CONNECTED, _T.REMOVAL_SETTLED),
        Reason.RIGHTS_SUFFICIENT: _yes(_T.AUTHORIZED),
        Reason.DESCRIBE_GROUP_DENIED: _no(_T.AUTHORIZED),
        Reason.DESCRIBE_TOPIC_DENIED: _no(_T.AUTHORIZED),
        Reason.READ_GROUP_DENIED: _no(_T.AUTHORIZED),
        Reason.ALTER_CONFIGS_DENIED: _no(_T.AUTHORIZED),
        Reason.IDS_INJECTED: _yes(_T.INJECTED),
        Reason.INJECTION_OFF: _yes(_T.INJECTED),
        Reason.INJECTION_NOT_SERVED: _no(_T.INJECTED),
        Reason.PODS_WITHOUT_ID: _no(_T.INJECTED),
        Reason.AGENT_NOT_INJECTED: _no(_T.INJECTED),
        Reason.IDENTITY_INVALID: _no(_T.READY, _T.INJECTED),
        Reason.IDS_HELD_ELSEWHERE: _no(_T.INJECTED),
        Reason.TOO_MANY_MEMBERS: _no(_T.INJECTED),
        Reason.ALL_MEMBERS_JOINED: _yes(_T.MEMBERSHIP_COMPLETE),
        Reason.MEMBERS_AWAY: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.MEMBERS_MISSING: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.NOT_ROLLED_YET: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.WORKERS_WITHOUT_AGENT: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.GROUP_NOT_FOUND: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.SUFFIX_MISMATCH: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.OWN_IDS: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.MEMBERS_FENCE_EACH_OTHER: _no(_T.MEMBERSHIP_COMPLETE),
        Reason.PROTOCOL_MISMATCH: _no(_T.READY, _T.MEMBERSHIP_COMPLETE),
        Reason.MEMBERSHIP_UNKNOWN: _unknown(_T.INJECTED, _T.MEMBERSHIP_COMPLETE, _T.REMOVAL_SETTLED),
        Reason.ALL_TOPICS_READ: _yes(_T.CONSUMING),
        Reason.TOPICS_UNREAD: _no(_T.CONSUMING),
        Reason.REBALANCE_STUCK: _no(_T.CONSUMING),
        Reason.NOTHING_ASSIGNED: _no(_T.CONSUMING),
        Reason.TIMEOUT_FITS: _yes(_T.TIMEOUT_SUFFICIENT),
        Reason.TIMEOUT_BELOW_NEED: _no(_T.TIMEOUT_SUFFICIENT),
        Reason.BROKER_BOUND_TOO_LOW: _no(_T.TIMEOUT_SUFFICIENT),
        Reason.TIMEOUT_UNKNOWN: _unknown(_T.TIMEOUT_SUFFICIENT),
        Reason.MEMBERS_STAY: _yes(_T.ROLLS_QUIETLY),
        Reason.MEMBERS_LEAVE_ON_CLOSE: _no(_T.ROLLS_QUIETLY),
        Reason.NOTHING_TO_REMOVE: _yes(_T.REMOVAL_SETTLED),
        Reason.REMOVED: _yes(_T.REMOVAL_SETTLED),
        Reason.REMOVAL_OFF: _no(_T.REMOVAL_SETTLED),
        Reason.REMOVAL_HELD: _no(_T.REMOVAL_SETTLED),
        Reason.REMOVAL_IN_PROGRESS: _no(_T.REMOVAL_SETTLED),
        Reason.END_NOT_SEEN: _no(_T.REMOVAL_SETTLED),
        Reason.UNSCOPED_IDS: _no(_T.REMOVAL_SETTLED),
        Reason.REMOVAL_REFUSED: _no(_T.REMOVAL_SETTLED),
        Reason.RECOMMENDATION_USED: _yes(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_SHOWN: _yes(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_ABSENT: _unknown(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_UNREACHABLE: _no(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_CORRUPT: _no(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_UNSUPPORTED: _no(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_STALE: _no(_T.RECOMMENDATION_CURRENT),
        Reason.RECOMMENDATION_FROM_THE_FUTURE: _no(_T.RECOMMENDATION_CURRENT),
    }
)
"""What each reason stands for; tests hold it complete, and every finding to it."""
