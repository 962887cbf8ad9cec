"""Describe the facts of the journal, one model for each type, and the record that carries one.

Readers keep what they do not know: a field that a newer operator adds survives; a change of meaning is a new type
with the suffix `.v2`. Two clocks stand side by side, and differences are taken within one of them only:
`source_time_ms` is the kubelet's or the API server's, `observed_at_ms` the operator's. What is known only from two
looks has bounds instead.
Sources: CloudEvents 1.0 (JSON format, partitioning extension); KIP-345, KIP-848.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, StringConstraints

TYPE_PREFIX: Final = "io.staticgroup."
TYPE_SUFFIX: Final = ".v1"
BEAT_INTERVAL_MS: Final = 30_000
UNREACHABLE_MAX: Final = 100
CERTIFICATES_MAX: Final = 64
TEXT_MAX: Final = 1000
ID_MAX: Final = 2000
_INT64_MAX: Final = 2**63 - 1
_YEAR_10000_MS: Final = 253_402_300_800_000
_TIME_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"

Text = Annotated[str, StringConstraints(max_length=TEXT_MAX)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_MAX)]
EventId = Annotated[str, StringConstraints(min_length=1, max_length=ID_MAX)]
UnixMs = Annotated[int, Field(ge=0, lt=_YEAR_10000_MS)]
DurationMs = Annotated[int, Field(ge=0, le=_INT64_MAX)]
Count = Annotated[int, Field(ge=0, le=_INT64_MAX)]


class RemovalOutcome(StrEnum):
    """Name what became of an acknowledged LeaveGroup."""

    REMOVED = "Removed"
    RESURRECTED = "Resurrected"


class _Model(BaseModel):
    """Be strict about what is known and keep what is not: nothing is coerced, unknown fields survive."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class Data(_Model):
    """Hold what every record says about its observation."""

    noun: ClassVar[str]

    operator_id: Name = Field(description="The operator process; a restarted one has another id.")
    seq: Count = Field(description="Counts the records of this operator_id from 0; a hole is a lost record.")
    observed_at_ms: UnixMs = Field(description="When the operator saw it, its own clock, Unix milliseconds.")
    watch_scope: Text = Field(
        "",
        description="The namespaces that this operator serves, sorted, with commas, or a digest if they are many; "
        "empty: all. A beat counts for records of the same scope only.",
    )
    source_time_ms: UnixMs | None = Field(
        None, description="When it happened by the kubelet's or the API server's clock, Unix milliseconds; often whole "
        "seconds."
    )  # fmt: skip
    time_lo_ms: UnixMs | None = Field(
        None,
        description="It did not happen before this, the operator's clock; null when nothing bounds it or "
        "source_time_ms says it.",
    )
    time_hi_ms: UnixMs | None = Field(
        None, description="It did not happen after this, the operator's clock; null when source_time_ms says it."
    )


class GroupData(Data):
    """Hold what every record about a group says."""

    kafka_cluster_id: Text = Field(description="The cluster.id that the brokers report; empty while never reached.")
    group_id: Name = Field(description="The consumer group.")
    namespace: Name = Field(description="Namespace of the StaticGroup.")
    static_group: Name = Field(description="Name of the StaticGroup.")
    workload: Name = Field(description="Name of the StatefulSet.")
    protocol: Name = Field(description="Classic, Consumer, Streams or Unknown.")


class _ContainerChange(GroupData):
    instance_id: Name = Field(description="The group.instance.id that the pod carries.")
    pod_name: Name = Field(description="The pod.")
    pod_uid: Name = Field(description="UID of the pod.")
    restart_count: Count = Field(description="restartCount of the container; for an end: of the run that ended.")
    node_name: Text = Field(description="The node; empty while unbound.")
    image_digest: Text = Field("", description="Image that the kubelet reports for the container; empty if unknown.")
    rollout_id: Text = Field("", description="controller-revision-hash of the pod.")
    reason: Text = Field("", description="Reason of the container state, or Deleted, Evicted or Unknown.")
    session_timeout_ms: DurationMs | None = Field(
        None,
        description="Session timeout that this process was started with, or its group's (KIP-848, KIP-1071), in "
        "milliseconds; null while unknown.",
    )


class MemberDown(_ContainerChange):
    """Say that the process of a member ended."""

    noun = "member.down"


class MemberUp(_ContainerChange):
    """Say that the process of a member started; it has not joined yet."""

    noun = "member.up"


class MemberRejoined(GroupData):
    """Say that an instance id is held by another member.id than before."""

    noun = "member.rejoined"

    instance_id: Name = Field(description="The group.instance.id.")
    member_id: Name = Field(description="The member.id that holds it now.")
    previous_member_id: Text | None = Field(
        None, description="The member.id seen before; null when this id was not seen in the group before."
    )
    group_epoch: Count | None = Field(None, description="Epoch of a KIP-848 or streams group; null for a classic one.")
    absorbed: bool = Field(description="No rebalance was seen since the former holder was: static membership worked.")
    members: Count | None = Field(None, description="Members of the group at that look; null when unknown.")
    partitions_total: Count | None = Field(None, description="Assigned partitions at that look; null when unknown.")


class MemberDeparted(GroupData):
    """Say that a pod whose id nobody wants any more has ended."""

    noun = "member.departed"

    instance_id: Name = Field(description="The group.instance.id.")
    pod_uid: Name = Field(description="UID of the pod that has ended.")
    certificate: Name = Field(description="How its end was seen, such as E1 (ended).")


class MemberRemoved(GroupData):
    """Say that the coordinator acknowledged a removal, or that an acknowledged removal did not last."""

    noun = "member.removed"

    instance_id: Name = Field(description="The group.instance.id.")
    member_id: Name = Field(description="The member.id of the compare-and-set.")
    attempt: Count = Field(1, description="How often this pair has been sent.")
    certificates: list[Name] = Field(
        [],
        max_length=CERTIFICATES_MAX,
        description="Certificates of the pods of its id, each `<pod uid> <kind>`; empty when an earlier process "
        "removed it.",
    )
    reason: Text = Field("", description="The reason given to the coordinator; empty when an earlier process did.")
    outcome: Name = Field(description="Removed, or Resurrected when it is described again after that.")


class MemberFenced(GroupData):
    """Say that a removal met FENCED_INSTANCE_ID: another process holds the id by now, and nothing was removed."""

    noun = "member.fenced"

    instance_id: Name = Field(description="The group.instance.id.")
    member_id: Name = Field(description="The member.id that does not hold it any more.")


class MemberReleased(GroupData):
    """Say that the coordinator released a crashed member for a while, so that its restart may join (KIP-848)."""

    noun = "member.released"

    instance_id: Name = Field(description="The group.instance.id.")
    member_id: Name = Field(description="The member.id of the compare-and-set.")
    pod_uid: Name = Field(description="UID of the pod, one of whose containers has ended and is started again.")
    outcome: Name = Field(description="Released, or Retry when the answer was lost.")


class GroupRebalanced(GroupData):
    """Say that a rebalance was seen; a KIP-848 or streams group has one record for each epoch."""

    noun = "group.rebalanced"

    group_epoch: Count | None = Field(None, description="The epoch reached; null for a classic group.")
    state_before: Text = Field(
        "", description="State of the group at the last look before this one, in Kafka's words; empty if unknown."
    )
    members: Count | None = Field(None, description="Members afterwards; null for an epoch that passed between looks.")
    partitions_total: Count | None = Field(None, description="Assigned partitions afterwards; null when unknown.")
    partitions_moved: Count | None = Field(
        None,
        description="At least so many partitions changed their owner, by the members' counts; null when unknown.",
    )


class RolloutStarted(GroupData):
    """Say that the StatefulSet controller began to replace pods."""

    noun = "rollout.started"

    rollout_id: Name = Field(description="controller-revision-hash that the pods go to.")
    replicas: Count = Field(description="spec.replicas at that look.")


class RolloutFinished(GroupData):
    """Say that all pods are of the new revision."""

    noun = "rollout.finished"

    rollout_id: Name = Field(description="controller-revision-hash that the pods have now.")
    replicas: Count = Field(description="spec.replicas at that look.")
    rebalances: Count = Field(description="Rebalances seen since it started; those before a restart are not in it.")


class WorkloadScaled(GroupData):
    """Say that spec.replicas changed."""

    noun = "workload.scaled"

    replicas_before: Count = Field(description="spec.replicas at the look before.")
    replicas_after: Count = Field(description="spec.replicas now.")


class TimeoutChanged(GroupData):
    """Say that the session timeout changed: of the next pods (classic), or of the group (KIP-848, KIP-1071)."""

    noun = "timeout.changed"

    session_timeout_ms_before: DurationMs | None = Field(None, description="In milliseconds; null: none was known.")
    session_timeout_ms_after: DurationMs = Field(description="In milliseconds.")
    timeout_source: Name = Field(description="Fixed, Structural, Broker or Fleet.")


class RemovalHeld(GroupData):
    """Say that a guard keeps a departed member; recorded once for each member.id and guard."""

    noun = "removal.held"

    instance_id: Name = Field(description="The group.instance.id.")
    member_id: Name = Field(description="The member.id that is kept.")
    guard: Name = Field(description="The guard, as in the status: Suspect, HoldWindow, ...")
    message: Text = Field(description="What the guard saw, for people.")


class CoverageBeat(Data):
    """Say that somebody looks: without beats, silence is no evidence that nothing happened."""

    noun = "coverage.beat"

    static_groups: Count = Field(description="StaticGroups that this operator watches.")
    watch_epoch: Text = Field(description="Name of the pod watch; another one means a gap in between.")
    interval_ms: DurationMs = Field(BEAT_INTERVAL_MS, description="When the next beat is due, in milliseconds.")
    unreachable_groups: list[Name] = Field(
        [],
        max_length=UNREACHABLE_MAX,
        description="StaticGroups (`<namespace>/<name>`) whose group could not be read at their last look, sorted; "
        "the first 100.",
    )
    unreachable_total: Count = Field(0, description="How many there are in all.")


DataT_co = TypeVar("DataT_co", bound=Data, covariant=True)


class Record(_Model, Generic[DataT_co]):
    """Be one line of the journal: a CloudEvent 1.0 in the structured JSON format."""

    specversion: Literal["1.0"]
    id: EventId = Field(description="Derived from the fact. Readers tell copies by source and id.")
    source: Name = Field(description="Where it was seen: /k8s/<cluster uid>/ns/<namespace>/staticgroup/<name>, or "
        "/k8s/<cluster uid>/operator/<operator id> for a beat.")  # fmt: skip
    type: Name = Field(description="io.staticgroup.<noun>.v1.")
    subject: Name = Field(description="<kafka cluster id>/<group id>[/<instance id>], or of a beat its operator.")
    time: Annotated[str, StringConstraints(pattern=_TIME_PATTERN)] = Field(
        description="observed_at_ms as RFC 3339 in UTC with milliseconds."
    )
    datacontenttype: Literal["application/json"]
    dataschema: Name = Field(description="urn:staticgroup:journal:<noun>:1, the $id of this schema.")
    partitionkey: Name = Field(description="Key of the Kafka record: all of a group keep their order.")
    data: SerializeAsAny[DataT_co]


DATA_TYPES: Final[tuple[type[Data], ...]] = (
    MemberDown,
    MemberUp,
    MemberRejoined,
    MemberDeparted,
    MemberRemoved,
    MemberFenced,
    MemberReleased,
    GroupRebalanced,
    RolloutStarted,
    RolloutFinished,
    WorkloadScaled,
    TimeoutChanged,
    RemovalHeld,
    CoverageBeat,
)


def type_of(data_type: type[Data]) -> str:
    """Return the CloudEvents type of one kind of data, such as `io.staticgroup.member.down.v1`."""
    return f"{TYPE_PREFIX}{data_type.noun}{TYPE_SUFFIX}"


def schema_id(data_type: type[Data]) -> str:
    """Return the name of its schema, such as `urn:staticgroup:journal:member.down:1`."""
    return f"urn:staticgroup:journal:{data_type.noun}:1"


BY_TYPE: Final[Mapping[str, type[Data]]] = MappingProxyType({type_of(d): d for d in DATA_TYPES})
"""The data model of every type this version knows."""
RECORD_BY_TYPE: Final[Mapping[str, type[Record[Data]]]] = MappingProxyType(
    {name: Record[data_type] for name, data_type in BY_TYPE.items()}  # type: ignore[valid-type]
)
