"""List every reason a condition may give, with the sentence that users read.

The one idea: a reason is not free text. It belongs to certain conditions, stands for one status, and has a standard
sentence: what is so, why, and what to do. `conditions.condition` fills in named facts and nothing else, so that no
secret and no client library's error text reaches an object that everybody may read; whoever composes a sentence of
his own (`conditions.stated`) must see to that himself. Source: KEP-1623 (standard conditions).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter
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
    TIMEOUT_SUFFICIENT = "TimeoutSufficient"
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
    DEGRADED = "Degraded"
    CONFLICTING_STATIC_GROUPS = "ConflictingStaticGroups"
    # WorkloadFound
    WORKLOAD_EXISTS = "WorkloadExists"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WORKLOAD_TOO_LARGE = "WorkloadTooLarge"
    WORKLOAD_UNREADABLE = "WorkloadUnreadable"
    # Connected
    BROKERS_REACHABLE = "BrokersReachable"
    CONNECTION_NOT_FOUND = "ConnectionNotFound"
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
    # Injected
    IDS_INJECTED = "IdsInjected"
    INJECTION_OFF = "InjectionOff"
    POLICY_NOT_SERVED = "PolicyNotServed"
    PODS_WITHOUT_ID = "PodsWithoutId"
    IDENTITY_INVALID = "IdentityInvalid"
    # MembershipComplete
    ALL_MEMBERS_JOINED = "AllMembersJoined"
    MEMBERS_AWAY = "MembersAway"
    MEMBERS_MISSING = "MembersMissing"
    GROUP_NOT_FOUND = "GroupNotFound"
    SUFFIX_MISMATCH = "SuffixMismatch"
    PROTOCOL_MISMATCH = "ProtocolMismatch"
    MEMBERSHIP_UNKNOWN = "MembershipUnknown"
    # TimeoutSufficient
    TIMEOUT_FITS = "TimeoutFits"
    TIMEOUT_BELOW_NEED = "TimeoutBelowNeed"
    BROKER_BOUND_TOO_LOW = "BrokerBoundTooLow"
    SPEC_BOUND_TOO_LOW = "SpecBoundTooLow"
    TIMEOUT_UNKNOWN = "TimeoutUnknown"
    # RemovalSettled
    NOTHING_TO_REMOVE = "NothingToRemove"
    REMOVED = "Removed"
    REMOVAL_OFF = "RemovalOff"
    REMOVAL_HELD = "RemovalHeld"
    REMOVAL_IN_PROGRESS = "RemovalInProgress"
    DEATH_NOT_PROVEN = "DeathNotProven"
    WATCH_GAP = "WatchGap"
    UNSCOPED_IDS = "UnscopedIds"
    REMOVAL_REFUSED = "RemovalRefused"
    # RecommendationCurrent
    RECOMMENDATION_USED = "RecommendationUsed"
    RECOMMENDATION_SHOWN = "RecommendationShown"
    RECOMMENDATION_ABSENT = "RecommendationAbsent"
    RECOMMENDATION_INFEASIBLE = "RecommendationInfeasible"
    RECOMMENDATION_UNREACHABLE = "RecommendationUnreachable"
    RECOMMENDATION_CORRUPT = "RecommendationCorrupt"
    RECOMMENDATION_UNSUPPORTED = "RecommendationUnsupported"
    RECOMMENDATION_STALE = "RecommendationStale"
    RECOMMENDATION_FROM_THE_FUTURE = "RecommendationFromTheFuture"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonText:
    """Hold what a reason stands for.

    Parameters
    ----------
    types
        The conditions that may carry the reason.
    status
        The status it stands for.
    template
        What is so, why, and what to do; `{name}` marks a fact that must be given.
    """

    types: frozenset[ConditionType]
    status: ConditionStatus
    template: str

    def facts(self) -> frozenset[str]:
        """Name the facts the template needs.

        Returns
        -------
        frozenset[str]
            Empty when the text is fixed.
        """
        return frozenset(name for _, name, _, _ in Formatter().parse(self.template) if name)


def _yes(template: str, *types: ConditionType) -> ReasonText:
    return ReasonText(types=frozenset(types), status=ConditionStatus.TRUE, template=template)


def _no(template: str, *types: ConditionType) -> ReasonText:
    return ReasonText(types=frozenset(types), status=ConditionStatus.FALSE, template=template)


def _unknown(template: str, *types: ConditionType) -> ReasonText:
    return ReasonText(types=frozenset(types), status=ConditionStatus.UNKNOWN, template=template)


_T = ConditionType
_KAFKA = (_T.CONNECTED, _T.READY)

_READY_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.RECONCILED: _yes("Everything the spec asks for has been seen to be so.", _T.READY),
    Reason.OBSERVING: _yes(
        "Observed only: nothing is injected or removed, because mode is Observe here or in the operator's settings. "
        "Set spec.mode to Manage to act.",
        _T.READY,
    ),
    Reason.SUSPENDED: _no("Nothing is done because spec.suspend is true. Set it to false to go on.", _T.READY),
    Reason.NOT_OBSERVED_YET: _unknown(
        "Not observed yet since the operator started. If this stays for more than a minute, read the operator's log.",
        *_T,
    ),
    Reason.DEGRADED: _no("{condition} is not True: see that condition for the cause and what to do.", _T.READY),
    Reason.CONFLICTING_STATIC_GROUPS: _no(
        "StaticGroup {other} covers the same workload and group, so neither removes members. Delete one of the two.",
        _T.READY,
        _T.REMOVAL_SETTLED,
    ),
    Reason.WORKLOAD_EXISTS: _yes(
        "StatefulSet {workload} asks for {replicas} pods, ordinals {ordinals}.", _T.WORKLOAD_FOUND
    ),
    Reason.WORKLOAD_NOT_FOUND: _no(
        "There is no StatefulSet {workload} in this namespace. Create it, or delete this StaticGroup and create one "
        "with the right spec.workloadRef.name.",
        _T.WORKLOAD_FOUND,
    ),
    Reason.WORKLOAD_TOO_LARGE: _no(
        "StatefulSet {cause}. Nothing is decided about it: departed members leave when their session expires. Lower "
        "spec.replicas of the StatefulSet or spec.identity.membersPerPod, or divide the consumers among several StatefulSets "
        "with a StaticGroup each.",
        _T.WORKLOAD_FOUND,
    ),
    Reason.WORKLOAD_UNREADABLE: _unknown(
        "StatefulSet {workload} cannot be read: the operator lacks get, list and watch on statefulsets in this "
        "namespace. Grant them (chart value watchNamespaces).",
        _T.WORKLOAD_FOUND,
    ),
}

_CONNECTION_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.BROKERS_REACHABLE: _yes("Cluster {cluster_id} answers with {brokers} brokers.", _T.CONNECTED),
    Reason.CONNECTION_NOT_FOUND: _no(
        "There is no KafkaConnection {connection} in this namespace. Create it, or correct spec.connectionRef.name.",
        *_KAFKA,
    ),
    Reason.SECRET_NOT_FOUND: _no(
        "Secret {secret}, named by {field}, is not in this namespace, or the operator may not read it. Create it or "
        "grant get on it.",
        *_KAFKA,
    ),
    Reason.SECRET_KEY_MISSING: _no(
        "Secret {secret} has no usable key {key}, named by {field}. Add the key or name another.", *_KAFKA
    ),
    Reason.BROKERS_UNREACHABLE: _no(
        "None of {bootstrap_servers} answered within {timeout_s} s. Check the addresses, the network policy, and "
        "whether the listener expects TLS.",
        *_KAFKA,
    ),
    Reason.ADDRESS_REFUSED: _no(
        "Broker address {address} is loopback or link-local and was not dialled. Correct the listener, or for a "
        "test cluster set the operator's STATICGROUP_ALLOW_LOOPBACK and spec.allowLoopback.",
        *_KAFKA,
    ),
    Reason.AUTHENTICATION_FAILED: _no(
        "The brokers refused the {mechanism} login. Check the Secret named by {field}; a changed Secret is tried "
        "again at once.",
        *_KAFKA,
    ),
    Reason.TLS_FAILED: _no(
        "The TLS handshake with {address} failed ({cause}). Check spec.tls.caSecretRef, the host name in the broker's "
        "certificate, and its dates.",
        *_KAFKA,
    ),
    Reason.CLUSTER_ID_MISMATCH: _no(
        "The brokers are cluster {found}, spec.clusterId expects {expected}. Nothing is done on another cluster: "
        "correct the addresses or the id.",
        *_KAFKA,
    ),
    Reason.COORDINATOR_UNAVAILABLE: _no(
        "The coordinator of group {group_id} does not answer (error {error}). It is asked again with back-off; if it "
        "stays, check the partitions of __consumer_offsets.",
        *_KAFKA,
    ),
    Reason.BROKER_TOO_OLD: _no(
        "The brokers do not speak {api} version {version}, which a safe removal needs, so this group is only "
        "observed. Upgrade the brokers to Kafka 2.4 or newer.",
        *_KAFKA,
        _T.REMOVAL_SETTLED,
    ),
    Reason.RIGHTS_SUFFICIENT: _yes("The principal holds every right that the spec needs.", _T.AUTHORIZED),
    Reason.DESCRIBE_GROUP_DENIED: _no(
        "Describing group {group_id} was refused. Allow DESCRIBE on the group to the connection's principal.",
        _T.AUTHORIZED,
    ),
    Reason.DESCRIBE_TOPIC_DENIED: _no(
        "The members of group {group_id} are hidden. Allow DESCRIBE on its topics to the connection's principal.",
        _T.AUTHORIZED,
    ),
    Reason.READ_GROUP_DENIED: _no(
        "Removing a member of group {group_id} was refused. Allow READ on the group to the connection's principal, or "
        "set spec.mode to Observe.",
        _T.AUTHORIZED,
    ),
}

_INJECTION_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.IDS_INJECTED: _yes("All {pods} pods carry the id that was issued to them.", _T.INJECTED),
    Reason.INJECTION_OFF: _yes(
        "Nothing is injected ({cause}); the ids that the pods set themselves are only verified.", _T.INJECTED
    ),
    Reason.POLICY_NOT_SERVED: _no(
        "This API server does not serve MutatingAdmissionPolicy v1 (it does from 1.36), so pods get no id. Upgrade, "
        "or set the id in the pod template and spec.identity.method to None.",
        _T.INJECTED,
    ),
    Reason.PODS_WITHOUT_ID: _no(
        "{count} pods run without the id they should have, such as {pod}: they were created before injection was in "
        "force, or were exempted. Delete these pods, one after the other; their successors get an id.",
        _T.INJECTED,
    ),
    Reason.IDENTITY_INVALID: _no(
        "The ids of this spec cannot be issued: {cause}. Correct spec.identity.", _T.INJECTED, _T.READY
    ),
}

_MEMBERSHIP_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.ALL_MEMBERS_JOINED: _yes("All {expected} expected members are in the group.", _T.MEMBERSHIP_COMPLETE),
    Reason.MEMBERS_AWAY: _no(
        "{away} of {expected} members are away while their pods restart. Nothing to do unless it outlasts the session "
        "timeout of {session_timeout_s} s.",
        _T.MEMBERSHIP_COMPLETE,
    ),
    Reason.MEMBERS_MISSING: _no(
        "{missing} of {expected} members are not in the group though their pods are Ready, such as {pod}. A fenced "
        "client does not come back by itself: restart that pod.",
        _T.MEMBERSHIP_COMPLETE,
    ),
    Reason.GROUP_NOT_FOUND: _no(
        "The brokers know no group {group_id}. It appears when the first consumer joins; if consumers run, compare "
        "their group.id with spec.groupId.",
        _T.MEMBERSHIP_COMPLETE,
    ),
    Reason.SUFFIX_MISMATCH: _no(
        "{count} members nearly match, such as {instance_id} for pod {pod}: {cause}. Set {remedy}. Until then they count as foreign "
        "and are not removed when their pods have ended.",
        _T.MEMBERSHIP_COMPLETE,
    ),
    Reason.PROTOCOL_MISMATCH: _no(
        "Group {group_id} is of type {found}, spec.protocol expects {expected}. Set spec.protocol to Auto or to what "
        "the consumers use.",
        _T.MEMBERSHIP_COMPLETE,
        _T.READY,
    ),
    Reason.MEMBERSHIP_UNKNOWN: _unknown(
        "The members cannot be listed: see the conditions Connected and Authorized.", _T.MEMBERSHIP_COMPLETE
    ),
}

_TIMEOUT_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.TIMEOUT_FITS: _yes(
        "The session timeout of {effective_s} s outlasts the {needed_s} s that a restart needs.", _T.TIMEOUT_SUFFICIENT
    ),
    Reason.TIMEOUT_BELOW_NEED: _no(
        "The session timeout of {effective_s} s is shorter than the {needed_s} s that a restart needs, so restarts "
        "rebalance the group. Raise spec.sessionTimeout.seconds, or set its mode to Auto.",
        _T.TIMEOUT_SUFFICIENT,
    ),
    Reason.BROKER_BOUND_TOO_LOW: _no(
        "A restart needs {needed_s} s, the brokers allow {bound_s} s. Raise {setting} on the brokers to at least "
        "{setting_ms}.",
        _T.TIMEOUT_SUFFICIENT,
    ),
    Reason.SPEC_BOUND_TOO_LOW: _no(
        "A restart needs {needed_s} s, spec.sessionTimeout.maxSeconds allows {bound_s} s. Raise it.",
        _T.TIMEOUT_SUFFICIENT,
    ),
    Reason.TIMEOUT_UNKNOWN: _unknown(
        "The session timeout in force is not known yet: see the conditions WorkloadFound and Connected.",
        _T.TIMEOUT_SUFFICIENT,
    ),
}

_REMOVAL_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.NOTHING_TO_REMOVE: _yes("No departed member is in the group.", _T.REMOVAL_SETTLED),
    Reason.REMOVED: _yes(
        "{count} departed members were removed and the group is stable without them.", _T.REMOVAL_SETTLED
    ),
    Reason.REMOVAL_OFF: _no(
        "{departed} departed members stay until their session expires ({cause}). Set spec.mode to Manage and "
        "spec.removal.policy to WhenDead to have them removed.",
        _T.REMOVAL_SETTLED,
    ),
    Reason.REMOVAL_HELD: _no(
        "{departed} departed members are kept for now ({cause}); looked at again in {seconds} s. Lower "
        "spec.removal.holdSeconds or raise spec.removal.maxPercentOfGroup to go faster.",
        _T.REMOVAL_SETTLED,
    ),
    Reason.REMOVAL_IN_PROGRESS: _no(
        "{count} removals are acknowledged and not yet seen to last. Nothing to do.", _T.REMOVAL_SETTLED
    ),
    Reason.DEATH_NOT_PROVEN: _no(
        "{count} departed members are kept because the process of {pod} on node {node} is not proven dead. It settles "
        "when the node is back or its session expires; `staticgroup explain` tells which proof is missing, see also the "
        "guide to scaling down.",
        _T.REMOVAL_SETTLED,
    ),
    Reason.WATCH_GAP: _no(
        "{departed} departed members are kept because pods may have lived unseen while the watch was interrupted "
        "({cause}). They leave when their session expires; nothing to do, but see staticgroup confirm-gap --list.",
        _T.REMOVAL_SETTLED,
    ),
    Reason.UNSCOPED_IDS: _no(
        "Departed members are kept because spec.identity.template has no {{scope}}: another cluster could use the "
        "same ids. Add {{scope}}, or set spec.identity.exclusive to true if nobody else issues them.",
        _T.REMOVAL_SETTLED,
    ),
    Reason.REMOVAL_REFUSED: _no(
        "The coordinator refused to remove {instance_id} with error {error}. It is tried again; if it stays, see the "
        "condition Authorized.",
        _T.REMOVAL_SETTLED,
    ),
}

_KEPT = "The session timeout stays as it is."

_RECOMMENDATION_TEXTS: Final[Mapping[Reason, ReasonText]] = {
    Reason.RECOMMENDATION_USED: _yes(
        "The session timeout is the one that the fleet learner recommends: {cause}.", _T.RECOMMENDATION_CURRENT
    ),
    Reason.RECOMMENDATION_SHOWN: _yes(
        "There is a recommendation of the fleet learner, and it is not in force: {cause}.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_ABSENT: _unknown(
        "There is no recommendation for this group: {cause}. " + _KEPT + " It appears once the fleet learner has read "
        "enough of the journal of this group.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_INFEASIBLE: _no(
        "The recommendation is not used because no session timeout is within all bounds: at least {minimum_ms} ms, at "
        "most {maximum_ms} ms. Raise spec.sessionTimeout.maxSeconds or the brokers' maximum, or lower the minimum.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_UNREACHABLE: _no(
        "The recommendations cannot be read: {cause}. " + _KEPT + " Check the operator's setting "
        "STATICGROUP_RECOMMENDATIONS_SOURCE and that the fleet learner has published there.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_CORRUPT: _no(
        "The recommendations are refused as a whole: {cause}. " + _KEPT + " Publish them "
        "again and check that every file arrives; while a copy is under way this passes by itself.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_UNSUPPORTED: _no(
        "The recommendations are of a version that this operator does not read: {cause}. " + _KEPT + " Upgrade the older "
        "of the two, operator or fleet learner.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_STALE: _no(
        "The recommendations are out of date: {cause}. " + _KEPT + " Run the fleet learner again and see that it publishes.",
        _T.RECOMMENDATION_CURRENT,
    ),
    Reason.RECOMMENDATION_FROM_THE_FUTURE: _no(
        "The recommendations are newer than the operator's clock: {cause}. " + _KEPT + " Set the clocks of both machines.",
        _T.RECOMMENDATION_CURRENT,
    ),
}

REASON_TEXTS: Final[Mapping[Reason, ReasonText]] = MappingProxyType(
    {
        **_READY_TEXTS,
        **_CONNECTION_TEXTS,
        **_INJECTION_TEXTS,
        **_MEMBERSHIP_TEXTS,
        **_TIMEOUT_TEXTS,
        **_REMOVAL_TEXTS,
        **_RECOMMENDATION_TEXTS,
    }
)
"""What each reason stands for; a test holds it complete."""
