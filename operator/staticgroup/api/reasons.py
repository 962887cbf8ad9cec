"""List every reason a condition may give: one stable word that users and alerts match on.

Findings (`core.findings`) word the messages beside it, without secrets or a client library's error text. Source:
KEP-1623 (standard conditions).
"""

from enum import StrEnum
from typing import Self


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


_T = ConditionType
_Meaning = tuple[str, ConditionStatus, frozenset[ConditionType]]


def _yes(word: str, *types: ConditionType) -> _Meaning:
    return word, ConditionStatus.TRUE, frozenset(types)


def _no(word: str, *types: ConditionType) -> _Meaning:
    return word, ConditionStatus.FALSE, frozenset((*types, ConditionType.READY))  # Ready takes the cause over


def _unknown(word: str, *types: ConditionType) -> _Meaning:
    return word, ConditionStatus.UNKNOWN, frozenset((*types, ConditionType.READY))


class Reason(StrEnum):
    """Name every reason, with the status that it stands for and the conditions that may carry it.

    Users and alerts match on these words; tests hold every finding to what a reason stands for.
    """

    _value_: str
    status: ConditionStatus
    types: frozenset[ConditionType]

    def __new__(
        cls, word: str, status: ConditionStatus = ConditionStatus.UNKNOWN, types: frozenset[ConditionType] = frozenset()
    ) -> Self:
        """Make one of the reasons below; the defaults only let `Reason(word)` look one up in the eyes of mypy."""
        reason = str.__new__(cls, word)
        reason._value_, reason.status, reason.types = word, status, types
        return reason

    RECONCILED = _yes("Reconciled", _T.READY)
    OBSERVING = _yes("Observing", _T.READY)
    SUSPENDED = _no("Suspended", _T.READY)
    NOT_OBSERVED_YET = _unknown("NotObservedYet", *_T)
    CONFLICTING_STATIC_GROUPS = _no("ConflictingStaticGroups", _T.REMOVAL_SETTLED, _T.INJECTED)
    WORKLOAD_EXISTS = _yes("WorkloadExists", _T.WORKLOAD_FOUND)
    WORKLOAD_NOT_FOUND = _no("WorkloadNotFound", _T.WORKLOAD_FOUND)
    WORKLOAD_TOO_LARGE = _no("WorkloadTooLarge", _T.WORKLOAD_FOUND)
    WORKLOAD_UNREADABLE = _unknown("WorkloadUnreadable", _T.WORKLOAD_FOUND)
    BROKERS_REACHABLE = _yes("BrokersReachable", _T.CONNECTED)
    CONNECTION_NOT_FOUND = _no("ConnectionNotFound", _T.CONNECTED)
    NAMESPACE_NOT_ALLOWED = _no("NamespaceNotAllowed", _T.CONNECTED)
    GROUP_NOT_ALLOWED = _no("GroupNotAllowed", _T.CONNECTED)
    SECRET_NOT_FOUND = _no("SecretNotFound", _T.CONNECTED)
    SECRET_KEY_MISSING = _no("SecretKeyMissing", _T.CONNECTED)
    BROKERS_UNREACHABLE = _no("BrokersUnreachable", _T.CONNECTED)
    ADDRESS_REFUSED = _no("AddressRefused", _T.CONNECTED)
    AUTHENTICATION_FAILED = _no("AuthenticationFailed", _T.CONNECTED)
    TLS_FAILED = _no("TlsFailed", _T.CONNECTED)
    CLUSTER_ID_MISMATCH = _no("ClusterIdMismatch", _T.CONNECTED)
    COORDINATOR_UNAVAILABLE = _no("CoordinatorUnavailable", _T.CONNECTED)
    BROKER_TOO_OLD = _no("BrokerTooOld", _T.CONNECTED, _T.REMOVAL_SETTLED)
    RIGHTS_SUFFICIENT = _yes("RightsSufficient", _T.AUTHORIZED)
    DESCRIBE_GROUP_DENIED = _no("DescribeGroupDenied", _T.AUTHORIZED)
    DESCRIBE_TOPIC_DENIED = _no("DescribeTopicDenied", _T.AUTHORIZED)
    READ_GROUP_DENIED = _no("ReadGroupDenied", _T.AUTHORIZED)
    ALTER_CONFIGS_DENIED = _no("AlterConfigsDenied", _T.AUTHORIZED)
    IDS_INJECTED = _yes("IdsInjected", _T.INJECTED)
    INJECTION_OFF = _yes("InjectionOff", _T.INJECTED)
    INJECTION_NOT_SERVED = _no("InjectionNotServed", _T.INJECTED)
    PODS_WITHOUT_ID = _no("PodsWithoutId", _T.INJECTED)
    AGENT_NOT_INJECTED = _no("AgentNotInjected", _T.INJECTED)
    IDENTITY_INVALID = _no("IdentityInvalid", _T.INJECTED)
    IDS_HELD_ELSEWHERE = _no("IdsHeldElsewhere", _T.INJECTED)
    TOO_MANY_MEMBERS = _no("TooManyMembers", _T.INJECTED)
    ALL_MEMBERS_JOINED = _yes("AllMembersJoined", _T.MEMBERSHIP_COMPLETE)
    MEMBERS_AWAY = _no("MembersAway", _T.MEMBERSHIP_COMPLETE)
    MEMBERS_MISSING = _no("MembersMissing", _T.MEMBERSHIP_COMPLETE)
    NOT_ROLLED_YET = _no("NotRolledYet", _T.MEMBERSHIP_COMPLETE)
    WORKERS_WITHOUT_AGENT = _no("WorkersWithoutAgent", _T.MEMBERSHIP_COMPLETE)
    GROUP_NOT_FOUND = _no("GroupNotFound", _T.MEMBERSHIP_COMPLETE)
    SUFFIX_MISMATCH = _no("SuffixMismatch", _T.MEMBERSHIP_COMPLETE)
    OWN_IDS = _no("OwnIds", _T.MEMBERSHIP_COMPLETE)
    MEMBERS_FENCE_EACH_OTHER = _no("MembersFenceEachOther", _T.MEMBERSHIP_COMPLETE)
    PROTOCOL_MISMATCH = _no("ProtocolMismatch", _T.MEMBERSHIP_COMPLETE)
    MEMBERSHIP_UNKNOWN = _unknown("MembershipUnknown", _T.INJECTED, _T.MEMBERSHIP_COMPLETE, _T.REMOVAL_SETTLED)
    ALL_TOPICS_READ = _yes("AllTopicsRead", _T.CONSUMING)
    TOPICS_UNREAD = _no("TopicsUnread", _T.CONSUMING)
    REBALANCE_STUCK = _no("RebalanceStuck", _T.CONSUMING)
    NOTHING_ASSIGNED = _no("NothingAssigned", _T.CONSUMING)
    TIMEOUT_FITS = _yes("TimeoutFits", _T.TIMEOUT_SUFFICIENT)
    TIMEOUT_BELOW_NEED = _no("TimeoutBelowNeed", _T.TIMEOUT_SUFFICIENT)
    BROKER_BOUND_TOO_LOW = _no("BrokerBoundTooLow", _T.TIMEOUT_SUFFICIENT)
    TIMEOUT_UNKNOWN = _unknown("TimeoutUnknown", _T.TIMEOUT_SUFFICIENT)
    MEMBERS_STAY = _yes("MembersStay", _T.ROLLS_QUIETLY)
    SLOTS_PASS_ON = _yes("SlotsPassOn", _T.ROLLS_QUIETLY)
    SLOTS_STAY = _no("SlotsStay", _T.ROLLS_QUIETLY)
    SURGE_NEEDS_SLOT = _no("SurgeNeedsSlot", _T.ROLLS_QUIETLY)
    MEMBERS_LEAVE_ON_CLOSE = _no("MembersLeaveOnClose", _T.ROLLS_QUIETLY)
    NOTHING_TO_REMOVE = _yes("NothingToRemove", _T.REMOVAL_SETTLED)
    REMOVED = _yes("Removed", _T.REMOVAL_SETTLED)
    REMOVAL_OFF = _no("RemovalOff", _T.REMOVAL_SETTLED)
    REMOVAL_HELD = _no("RemovalHeld", _T.REMOVAL_SETTLED)
    REMOVAL_IN_PROGRESS = _no("RemovalInProgress", _T.REMOVAL_SETTLED)
    END_NOT_SEEN = _no("EndNotSeen", _T.REMOVAL_SETTLED)
    UNSCOPED_IDS = _no("UnscopedIds", _T.REMOVAL_SETTLED)
    REMOVAL_REFUSED = _no("RemovalRefused", _T.REMOVAL_SETTLED)
    RECOMMENDATION_USED = _yes("RecommendationUsed", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_SHOWN = _yes("RecommendationShown", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_ABSENT = _unknown("RecommendationAbsent", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_UNREACHABLE = _no("RecommendationUnreachable", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_CORRUPT = _no("RecommendationCorrupt", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_UNSUPPORTED = _no("RecommendationUnsupported", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_STALE = _no("RecommendationStale", _T.RECOMMENDATION_CURRENT)
    RECOMMENDATION_FROM_THE_FUTURE = _no("RecommendationFromTheFuture", _T.RECOMMENDATION_CURRENT)
