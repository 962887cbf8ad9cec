"""Describe what the operator reports about a StaticGroup.

The one idea: status is a projection, written as a whole by server-side apply, with one exception: what must survive a
restart is in `memory`. Every list and text is bounded, because an object has 1.5 MiB in etcd. Times are in seconds.
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
    Seconds,
    Timestamp,
    list_map,
)
from .injected import InjectedStatus
from .memory import PodName, ShortText, StatusMemory

ISSUES_MAX: Final = 50
CONNECT_WORKERS_MAX: Final = 50
SLOTS_SHOWN_MAX: Final = 50


class IssueKind(StrEnum):
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


class MembersStatus(ApiModel):
    """Count the members of the group by what is known of them."""

    expected: Count = Field(0, description="Ids that the workload's replicas call for.")
    joined: Count = Field(0, description="Expected ids that are in the group, their pod running.")
    away: Count = Field(0, description="Expected ids whose pod is restarting, inside the session timeout.")
    missing: Count = Field(0, description="Expected ids that are not in the group though their pod is Ready.")
    departed: Count = Field(0, description="Issued ids that are in the group but no longer wanted.")
    foreign: Count = Field(0, description="Static members whose id this StaticGroup never issued; never touched.")
    dynamic: Count = Field(0, description="Members without a group.instance.id; never touched.")
    conflicting: Count = Field(0, description="Ids that more than one pod or StaticGroup lays claim to; never touched.")


class MemberIssue(ApiModel):
    """Report one id or pod that is not as it should be."""

    instance_id: Annotated[str, StringConstraints(max_length=249)] | None = Field(
        None, description="The group.instance.id concerned, when there is one."
    )
    pod_name: PodName | None = Field(None, description="The pod concerned, when there is one.")
    kind: IssueKind = Field(description="What is out of order.")
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
    count: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(1, description="Members removed in the same batch.")


class SessionTimeoutStatus(ApiModel):
    """Report the session timeouts that hold, the one that comes, and where that comes from."""

    summary: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None,
        description="What is in force, such as 60s; with an arrow when the next pods get another one, such as "
        "125s→300s; with ? for pods that show none.",
    )
    seconds: Seconds | None = Field(
        None,
        description="Shortest session timeout in force, rounded down: of a classic group over its live pods, each "
        "with what it was started with; else the group's setting at the broker. Null while none is known.",
        json_schema_extra=NULLABLE,
    )
    longest_seconds: Seconds | None = Field(
        None,
        description="Longest session timeout in force, rounded up; another one than seconds while pods that were "
        "started with different ones live.",
        json_schema_extra=NULLABLE,
    )
    next_seconds: Seconds | None = Field(
        None,
        description="Session timeout that the next pods get: what is injected, else what the pod template sets; of a "
        "KIP-848 or Streams group its setting at the broker. Null when unknown.",
        json_schema_extra=NULLABLE,
    )
    recommended_seconds: Seconds | None = Field(
        None,
        description="Session timeout that the workload needs, inside all bounds: the fleet learner's where there is "
        "one, else this operator's. Null when unknown.",
        json_schema_extra=NULLABLE,
    )
    unknown_pods: Count = Field(
        0, description="Live pods that show no session timeout in their environment; seconds is not about them."
    )
    source: TimeoutSource = Field(
        description="Fixed by the spec, Structural: chosen by this operator, from measured absences or from the pod "
        "template; the Broker's, or the Fleet's."
    )
    why: ShortText | None = Field(
        None, description="Why this one and no other, with the number of samples, for people."
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
    rebalance_delay_seconds: Seconds = Field(
        0,
        description="How long, as of the last rebalance, the leader keeps the work of a lost worker back for its "
        "return (scheduled.rebalance.max.delay.ms, or what was left of it), rounded up; 0: it keeps none back.",
    )
    waiting: Count | None = Field(
        None,
        description="Connectors and tasks that are kept back, by what was held before; null when that is not known.",
        json_schema_extra=NULLABLE,
    )
    workers: Annotated[list[ConnectWorker], Field(max_length=CONNECT_WORKERS_MAX)] = Field(
        [], description="The expected workers, by ordinal, the first 50.", json_schema_extra=list_map("instanceId")
    )


class Slots(ApiModel):
    """Report the slots of a Deployment's pods."""

    held: Count = Field(description="Slots that pods have.")
    kept: Count = Field(description="Slots of pods that end or have ended, kept for pods to come.")
    pods: Annotated[list[ShortText], Field(max_length=SLOTS_SHOWN_MAX)] = Field(
        [], description="The first 50 slots that pods have, each with its pod.", json_schema_extra=ATOMIC
    )
    waiting: Annotated[list[ShortText], Field(max_length=SLOTS_SHOWN_MAX)] = Field(
        [], description="The first 50 pods that wait, each with what its next note does.", json_schema_extra=ATOMIC
    )


class StaticGroupStatus(ApiModel):
    """Report what the operator sees, did, and did not do."""

    observed_generation: Generation | None = Field(
        None, description="metadata.generation of the spec that this status is about."
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
    injected: InjectedStatus | None = Field(
        None, description="What the next pod receives; the admission policy reads this and injects nothing without it."
    )
    members: MembersStatus | None = Field(None, description="Members of the group, counted by what is known of them.")
    issues: Annotated[list[MemberIssue], Field(max_length=ISSUES_MAX)] = Field(
        [], description="Ids and pods that are not as they should be, at most 50.", json_schema_extra=ATOMIC
    )
    last_removal: LastRemoval | None = Field(None, description="The latest removal.")
    session_timeout: SessionTimeoutStatus | None = Field(
        None, description="The session timeouts: in force, to come, recommended."
    )
    slots: Slots | None = Field(None, description="The slots of a Deployment's pods; absent for other workloads.")
    connect: Connect | None = Field(
        None, description="What the workers of a Connect cluster hold; absent for other roles and before it was seen."
    )
    memory: StatusMemory = Field(
        StatusMemory(),
        description="Internal: what the operator remembers for its next process. Nothing here is for people or tools.",
    )


def _or_none(status: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(status)
    except ValidationError:
        return None


ReadableStatus = Annotated[StaticGroupStatus | None, WrapValidator(_or_none)]
"""A status that does not parse, because it was edited, is read as None and overwritten; the StaticGroup stays valid."""
