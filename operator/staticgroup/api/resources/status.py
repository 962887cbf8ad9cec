"""Describe what the operator reports about a StaticGroup.

The one idea: status is a projection, written as a whole by server-side apply, with one exception: what must survive a
restart (`durable`, `members`). Every list and text is bounded, because an object has 1.5 MiB in etcd.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from ..protocols import GroupProtocol
from ..schema import (
    ATOMIC,
    CONDITIONS_MAX,
    INT32_MAX,
    NULLABLE,
    ApiModel,
    Condition,
    Count,
    Generation,
    InstanceIdText,
    MemberIdText,
    TimeoutMs,
    Timestamp,
    list_map,
)
from . import members as internal
from .absences import Absences
from .durable import (
    SETTLING_MAX,
    InjectedStatus,
    Issued,
    PodName,
    Settling,
    ShortText,
)

EXCEPTIONS_MAX: Final = 50
CONNECT_WORKERS_MAX: Final = 50
RECOMMENDATION_REASONS_MAX: Final = 20
UNREAD_TOPICS_MAX: Final = 20
TopicName = Annotated[str, StringConstraints(min_length=1, max_length=249)]
# No enum: a status with a word that an older schema does not list would be refused as a whole.
CamelCaseWord = Annotated[str, StringConstraints(max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")]


class ExceptionKind(StrEnum):
    """Name what is out of order with one id."""

    MISSING = "Missing"
    WITHOUT_ID = "WithoutId"
    SUSPECT = "Suspect"
    HELD = "Held"
    CONFLICTING = "Conflicting"
    FOREIGN = "Foreign"
    DYNAMIC = "Dynamic"
    MISADDRESSED = "Misaddressed"


class TimeoutSource(StrEnum):
    """Say where the session timeout comes from."""

    FIXED = "Fixed"
    STRUCTURAL = "Structural"
    BROKER = "Broker"
    FLEET = "Fleet"


class RecommendationSource(StrEnum):
    """Say who recommends a session timeout."""

    STRUCTURAL = "Structural"
    FLEET = "Fleet"


class Columns(ApiModel):
    """Hold the texts of the columns of kubectl get that are not a plain field."""

    members: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None, description="Joined and expected members, such as 3/4."
    )
    timeout: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None,
        description="The session timeout in force, such as 60s; with an arrow when the next pods get another one, such "
        "as 125s→300s; with ? for pods that show none.",
    )


class MembersStatus(ApiModel):
    """Count the members of the group by what is known of them."""

    expected: Count = Field(0, description="Ids that the workload's replicas call for.")
    joined: Count = Field(0, description="Expected ids that are in the group, their pod running.")
    away: Count = Field(0, description="Expected ids whose pod is restarting, inside the session timeout.")
    missing: Count = Field(0, description="Expected ids that are not in the group though their pod is Ready.")
    departed: Count = Field(0, description="Issued ids that are in the group but no longer wanted.")
    foreign: Count = Field(0, description="Static members whose id this StaticGroup never issued; never touched.")
    dynamic: Count = Field(0, description="MembersStatus without a group.instance.id; never touched.")
    conflicting: Count = Field(0, description="Ids that more than one pod or StaticGroup lays claim to; never touched.")


class MemberException(ApiModel):
    """Report one id or pod that is not as it should be."""

    instance_id: Annotated[str, StringConstraints(max_length=249)] | None = Field(
        None, description="The group.instance.id concerned, when there is one."
    )
    pod_name: PodName | None = Field(None, description="The pod concerned, when there is one.")
    kind: ExceptionKind = Field(description="What is out of order.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="One CamelCase word for the cause."
    )
    message: ShortText = Field(description="What is so and what to do, for people.")
    since: Timestamp = Field(description="When it was first seen.")


class LastRemoval(ApiModel):
    """Report the latest removal that was seen to last."""

    at: Timestamp = Field(description="When the coordinator acknowledged it.")
    instance_id: InstanceIdText = Field(description="The id; the first one of a batch.")
    member_id: MemberIdText = Field(description="The member id that went with it.")
    evidence: ShortText = Field("", description="What the removal rests on, for people.")
    reason: ShortText = Field(description="The reason given to the coordinator.")
    count: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(1, description="MembersStatus removed in the same batch.")


class Recommended(ApiModel):
    """Give the session timeout that the workload needs, with its uncertainty."""

    lower_ms: TimeoutMs = Field(description="Lower end of the estimate, in milliseconds.")
    target_ms: TimeoutMs = Field(description="The recommended session timeout, in milliseconds, inside all bounds.")
    upper_ms: TimeoutMs = Field(description="Upper end of the estimate, in milliseconds.")
    uncapped_ms: TimeoutMs = Field(description="What would be recommended without any bound, in milliseconds.")
    source: RecommendationSource = Field(
        RecommendationSource.STRUCTURAL,
        description="Structural: chosen by this operator, from measured absences or from the pod template. Fleet: from "
        "the restarts that the fleet learner saw.",
    )
    valid_until: Timestamp | None = Field(
        None,
        description="Until when the fleet's recommendation may be used; null for a structural estimate.",
        json_schema_extra=NULLABLE,
    )
    reasons: Annotated[list[CamelCaseWord], Field(max_length=RECOMMENDATION_REASONS_MAX)] = Field(
        [],
        description="What shaped the fleet's recommendation, in the order in which it applied, at most 20.",
        json_schema_extra=ATOMIC,
    )


class Timeout(ApiModel):
    """Report the session timeouts that hold, the one that comes, and where that comes from."""

    effective_ms: TimeoutMs | None = Field(
        None,
        description="Shortest session timeout in force, in milliseconds: of a classic group over its live pods, each "
        "with what it was started with; else the group's setting at the broker. Null while none is known.",
        json_schema_extra=NULLABLE,
    )
    effective_max_ms: TimeoutMs | None = Field(
        None,
        description="Longest session timeout in force, in milliseconds; another one than effectiveMs while pods that "
        "were started with different ones live.",
        json_schema_extra=NULLABLE,
    )
    next_ms: TimeoutMs | None = Field(
        None,
        description="Session timeout that the next pods get, in milliseconds: what is injected, else what the pod "
        "template sets; of a KIP-848 or Streams group its setting at the broker. Null when unknown.",
        json_schema_extra=NULLABLE,
    )
    own_ms: TimeoutMs | None = Field(
        None,
        description="Session timeout that this StaticGroup by itself wants its KIP-848 or Streams group to have at the "
        "brokers, in milliseconds, inside all bounds. The longest of all StaticGroups of the group in the namespace is "
        "set. Null in a classic group, or while the protocol was never known.",
        json_schema_extra=NULLABLE,
    )
    written_ms: TimeoutMs | None = Field(
        None,
        description="The session timeout that the operator has set on the group at the brokers and read back, in "
        "milliseconds. Where another one is stored there, somebody else has set it since, and the operator sets it no "
        "more. Null where it has set none.",
        json_schema_extra=NULLABLE,
    )
    unknown_pods: Count = Field(
        0, description="Live pods that show no session timeout in their environment; effectiveMs is not about them."
    )
    recommended: Recommended | None = Field(None, description="What the workload needs.", json_schema_extra=NULLABLE)
    samples: Count = Field(
        0, description="Measured restarts behind the recommendation; 0 while nothing but the structural estimate is."
    )
    source: TimeoutSource = Field(
        description="Fixed by the spec, Structural: chosen by this operator, from measured absences or from the pod "
        "template, see basis; the Broker's, or the Fleet's."
    )
    # Beside source, because an operator that knows no further words there would refuse the whole status.
    basis: CamelCaseWord | None = Field(
        None,
        description="What the session timeout rests on: Fixed, Structural (the pod template), FewAbsences, "
        "LongestAbsence or OrderStatistic (measured ones, ever more of them), Fleet, or GroupConfig (the group's "
        "setting, which somebody else made).",
    )
    why: ShortText | None = Field(
        None, description="Why this one and no other, with the number of samples, for people."
    )
    broker_min_ms: TimeoutMs | None = Field(
        None, description="Lowest session timeout the brokers allow, in milliseconds.", json_schema_extra=NULLABLE
    )
    broker_max_ms: TimeoutMs | None = Field(
        None, description="Highest session timeout the brokers allow, in milliseconds.", json_schema_extra=NULLABLE
    )


class ConnectWorker(ApiModel):
    """Report what one static worker of a Connect cluster holds."""

    instance_id: InstanceIdText = Field(description="The group.instance.id of the worker.")
    connectors: Count = Field(description="Connectors that it holds.")
    tasks: Count = Field(description="Tasks that it holds.")


class Connect(ApiModel):
    """Report what the workers of a Connect cluster hold, as the group itself tells it."""

    connectors: Count = Field(
        description="Connectors that the workers hold together, dynamic and foreign ones included."
    )
    tasks: Count = Field(description="Tasks that they hold together.")
    unknown: Count = Field(0, description="Workers of which it cannot be read what they hold.")
    rebalance_delay_ms: TimeoutMs = Field(
        0,
        description="How long, as of the last rebalance, the leader keeps the work of a lost worker back for its "
        "return, in milliseconds (scheduled.rebalance.max.delay.ms, or what was left of it); 0: it keeps none back.",
    )
    waiting: Count | None = Field(
        None,
        description="Connectors and tasks that are kept back, by what was held before; null when that is not known.",
        json_schema_extra=NULLABLE,
    )
    workers: Annotated[list[ConnectWorker], Field(max_length=CONNECT_WORKERS_MAX)] = Field(
        [], description="The expected workers, by ordinal, the first 50.", json_schema_extra=list_map("instanceId")
    )


class UnreadTopicsStatus(ApiModel):
    """Tell which topics members subscribe and nobody reads, and what was done about it."""

    topics: Annotated[list[TopicName], Field(max_length=UNREAD_TOPICS_MAX)] = Field(
        description="Their names, the first 20.", json_schema_extra=ATOMIC
    )
    since: Timestamp = Field(description="Since when these are unread.")
    rebalanced_for: Annotated[list[TopicName], Field(max_length=UNREAD_TOPICS_MAX)] = Field(
        [], description="The topics for which the group was rebalanced last.", json_schema_extra=ATOMIC
    )
    rebalanced_at: Timestamp | None = Field(
        None, description="When it was; null: never, since there are unread ones.", json_schema_extra=NULLABLE
    )


class LeftOnCloseStatus(ApiModel):
    """Tell which static member left last when its pod was stopped."""

    instance_id: InstanceIdText = Field(description="The id of the member that left last.")
    pod_name: PodName = Field(description="The pod that was stopped.")
    at: Timestamp = Field(description="When it was first not described any more.")
    count: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(
        description="How many have left so, since the last one that was seen to stay."
    )


class Writer(ApiModel):
    """Tell under which holding of the operator's Lease this status was written, so that an outdated replica desists."""

    lease_uid: Annotated[str, StringConstraints(max_length=64)] = Field(description="metadata.uid of the Lease.")
    lease_transitions: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(
        description="spec.leaseTransitions of the Lease while the writer held it."
    )


class StaticGroupStatus(ApiModel):
    """Report what the operator sees, did, and did not do."""

    observed_generation: Generation | None = Field(
        None, description="metadata.generation of the spec that this status is about."
    )
    static_group_uid: internal.Uid | None = Field(
        None,
        description="UID of the StaticGroup that this status is about; one of another, as from a backup, is not gone "
        "on from.",
    )
    conditions: Annotated[list[Condition], Field(max_length=CONDITIONS_MAX)] = Field(
        [],
        description="Ready sums up; WorkloadFound, Connected, Authorized, Injected, MembershipComplete, Consuming, "
        "TimeoutSufficient, RollsQuietly, RemovalSettled and, where recommendations are read, RecommendationCurrent "
        "say where it fails. True is always the good answer.",
        json_schema_extra=list_map("type"),
    )
    protocol: GroupProtocol | None = Field(None, description="Protocol that the brokers report for the group.")
    group_state: Annotated[str, StringConstraints(max_length=32)] | None = Field(
        None, description="State of the group in Kafka's words, such as Stable or PreparingRebalance."
    )
    columns: Columns | None = Field(None, description="Texts for kubectl get.")
    injected: InjectedStatus | None = Field(
        None, description="What the next pod receives; the admission policy reads this and injects nothing without it."
    )
    issued: Issued | None = Field(None, description="Every id ever issued, compactly.")
    members: MembersStatus | None = Field(
        None, description="MembersStatus of the group, counted by what is known of them."
    )
    exceptions: Annotated[list[MemberException], Field(max_length=EXCEPTIONS_MAX)] = Field(
        [], description="Ids and pods that are not as they should be, at most 50.", json_schema_extra=ATOMIC
    )
    settling: Annotated[list[Settling], Field(max_length=SETTLING_MAX)] = Field(
        [],
        description="Acknowledged removals whose id is not wanted again, at most 100; settledAt says which were seen "
        "to last.",
        json_schema_extra=ATOMIC,
    )
    last_removal: LastRemoval | None = Field(None, description="The latest removal.")
    timeout: Timeout | None = Field(None, description="The session timeouts: in force, to come, needed, allowed.")
    absences: Absences | None = Field(
        None,
        description="For how long members were away when their process ended; absent before the first was measured.",
    )
    unread_topics: UnreadTopicsStatus | None = Field(
        None, description="Topics that members of a classic group subscribe and nobody reads; absent: there are none."
    )
    left_on_close: LeftOnCloseStatus | None = Field(
        None, description="Members that leave when their pods are stopped; absent: the last one that was seen stayed."
    )
    connect: Connect | None = Field(
        None, description="What the workers of a Connect cluster hold; absent for other roles and before it was seen."
    )
    watch: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        None, description="Internal: name of the pod watch under which no pod can have joined unseen; null: none."
    )
    seats: Annotated[list[internal.SeatMember], Field(max_length=internal.SEATS_MAX)] = Field(
        [], description="Internal: the members, each with the pods that may hold it.", json_schema_extra=ATOMIC
    )
    suspects: Annotated[list[internal.SuspectStatus], Field(max_length=internal.SUSPECTS_MAX)] = Field(
        [], description="Internal: pods whose processes may live unseen.", json_schema_extra=ATOMIC
    )
    seal: Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$", max_length=16)] | None = Field(
        None,
        description="Internal: digest of watch, seats and suspects; where it is another one, seats and watch are not "
        "believed.",
    )
    writer: Writer | None = Field(
        None,
        description="The holding of the operator's Lease under which this was written; absent without leader election.",
    )


def _or_none(status: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(status)
    except ValidationError:
        return None


ReadableStatus = Annotated[StaticGroupStatus | None, WrapValidator(_or_none)]
"""A status that does not parse, because it was edited, is read as None and overwritten; the StaticGroup stays valid."""
