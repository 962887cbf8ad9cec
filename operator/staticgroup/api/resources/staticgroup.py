"""Describe the StaticGroup: one consumer group whose members are the pods of one StatefulSet.

The one idea: the spec says what the user wants of a group and nothing about how it is reached; everything has a
default that is safe for an unknown cluster, so the shortest useful object names a workload, a connection and a group.
Sources: KIP-345 and KIP-848 (static membership), KIP-1071 and Spring Kafka (client suffixes).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from ..identifiers import SuffixStyle
from ..protocols import ProtocolChoice, RoleChoice
from ..schema import ApiModel, DnsSubdomain, ObjectMeta, immutable, rule, ruled, rules
from .identity import PRESETS_OF_THE_AGENT, TELLS_MEMBERS_APART, Identity, Preset
from .status import ReadableStatus

SESSION_TIMEOUT_SECONDS_MAX: Final = 1800  # group.max.session.timeout.ms of a stock broker: 30 min


class Mode(StrEnum):
    """Say whether the operator acts or only watches."""

    MANAGE = "Manage"
    OBSERVE = "Observe"


class TimeoutMode(StrEnum):
    """Say who chooses the session timeout."""

    AUTO = "Auto"
    FIXED = "Fixed"


class RemovalPolicy(StrEnum):
    """Say whether departed members are removed."""

    WHEN_DEAD = "WhenDead"
    NEVER = "Never"


class CrashRelease(StrEnum):
    """Say what is done for a pod whose crashed process locks its successor out (KIP-848)."""

    OFF = "Off"
    REPORT = "Report"
    RELEASE = "Release"


class WorkloadRef(ApiModel):
    """Point at the workload whose pods are the members."""

    model_config = ruled(
        rule(
            "self.kind != 'Deployment' && self.kind != 'ReplicaSet'",
            "spec.workloadRef.kind must be StatefulSet: a Deployment's pods have no ordinal, so no id could "
            "outlive a restart; migrate to a StatefulSet, see docs/guide/migrate-deployment.md",
            field_path=".kind",
        ),
        rule(
            "self.kind in ['StatefulSet', 'StrimziPodSet', 'Deployment', 'ReplicaSet']",
            "spec.workloadRef.kind must be StatefulSet or StrimziPodSet: only their pods keep their name and ordinal "
            "over a restart",
            field_path=".kind",
        ),
        rule(
            "self.kind == 'StrimziPodSet' || self.apiVersion == 'apps/v1'",
            "spec.workloadRef.apiVersion must be apps/v1, the version that serves StatefulSet",
            field_path=".apiVersion",
        ),
        rule(
            "self.kind != 'StrimziPodSet' || self.apiVersion in ['core.strimzi.io/v1', 'core.strimzi.io/v1beta2']",
            "spec.workloadRef.apiVersion must be core.strimzi.io/v1 or core.strimzi.io/v1beta2, which serve "
            "StrimziPodSet",
            field_path=".apiVersion",
        ),
    )

    api_version: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(
        "apps/v1", description="API version of the workload. Default apps/v1; of a StrimziPodSet core.strimzi.io/v1 or "
        "core.strimzi.io/v1beta2, whichever the API server serves."
    )
    kind: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        "StatefulSet",
        description="Kind of the workload: StatefulSet, or StrimziPodSet for the workers of Strimzi's KafkaConnect "
        "(chart value workloads.strimzi). Default StatefulSet. Static membership needs pods whose name and ordinal "
        "outlive a restart. Immutable.",
        json_schema_extra=rules(
            immutable(
                "spec.workloadRef.kind",
                "delete this StaticGroup and create one for the other workload; its ids stay in the group until "
                "removed",
            )
        ),
    )
    name: DnsSubdomain = Field(
        description="Name of the workload, in the namespace of this StaticGroup. Immutable.",
        json_schema_extra=rules(
            immutable(
                "spec.workloadRef.name",
                "delete this StaticGroup and create one for the other workload; its ids stay in the group until "
                "removed",
            )
        ),
    )


class ConnectionKind(StrEnum):
    """Name the kinds of connection."""

    KAFKA_CONNECTION = "KafkaConnection"
    CLUSTER_KAFKA_CONNECTION = "ClusterKafkaConnection"


class ConnectionRef(ApiModel):
    """Point at the description of the Kafka cluster."""

    kind: ConnectionKind = Field(
        ConnectionKind.KAFKA_CONNECTION,
        description="Kind of the connection: KafkaConnection, of this namespace, or ClusterKafkaConnection, which must "
        "allow this namespace. Default KafkaConnection.",
    )
    name: DnsSubdomain = Field(
        description="Name of the connection. It may be changed, for instance to use another principal; the group must "
        "be on the same Kafka cluster."
    )


class SessionTimeout(ApiModel):
    """Say how the session timeout is chosen."""

    model_config = ruled(
        rule(
            "self.mode != 'Fixed' || has(self.seconds)",
            "spec.sessionTimeout.seconds is required when mode is Fixed: give 1 to 1800, or set mode to Auto",
            field_path=".seconds",
            reason="FieldValueRequired",
        ),
        rule(
            "self.mode == 'Fixed' || !has(self.seconds)",
            "spec.sessionTimeout.seconds is used only when mode is Fixed: set spec.sessionTimeout.mode to Fixed or "
            "remove seconds",
            field_path=".seconds",
            reason="FieldValueForbidden",
        ),
        rule(
            "!has(self.minSeconds) || !has(self.maxSeconds) || self.minSeconds <= self.maxSeconds",
            "spec.sessionTimeout.minSeconds must not exceed maxSeconds: lower it or raise "
            "spec.sessionTimeout.maxSeconds",
            field_path=".minSeconds",
        ),
    )

    mode: TimeoutMode = Field(
        TimeoutMode.AUTO,
        description="Auto (default): from how long the members of this workload were away when they were restarted, "
        "or, before enough of that was measured, from the pod template; within minSeconds, maxSeconds and what the "
        "brokers allow. Fixed: seconds.",
    )
    seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None, description="The session timeout in seconds, 1 to 1800; required with mode Fixed and refused with Auto."
    )
    min_seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None,
        description="Lowest timeout that Auto chooses, in seconds, 1 to 1800. Default: 45, as clients have it. Raise "
        "it when members are expelled in long garbage collections. Three heartbeat intervals bound it too.",
    )
    max_seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None,
        description="Highest timeout that Auto chooses, in seconds, 1 to 1800. Default: 1800 for Java clients (by role "
        "and preset) and for KIP-848 and Streams groups; else 300, or the max.poll.interval.ms that the pod template "
        "shows, above which librdkafka does not start. Lower it to bound how long the partitions or tasks of a crashed "
        "pod may stand still.",
    )
    headroom_percent: Annotated[int, Field(ge=0, le=400)] = Field(
        50,
        description="Reserve added to the estimate, in percent of it, 0 to 400. Default 50. Raise it when restarts get "
        "slower under load.",
    )
    percentile: Annotated[int, Field(ge=50, le=95)] = Field(
        95,
        description="Which share of the restarts the timeout is to outlast without the reserve, in percent, 50 to 95; "
        "Auto takes an upper bound of it that holds with 95 % confidence. Default 95. Lower it where a rare slow "
        "restart may rebalance the group.",
    )
    write_group_config: bool = Field(
        False,
        description="True: the operator sets the session timeout of a KIP-848 or Streams group at the brokers, "
        "consumer.session.timeout.ms or streams.session.timeout.ms of the group, and repairs it; that needs "
        "ALTER_CONFIGS on the Group. Default false: it is read and judged only. Of no effect in a classic group.",
    )


class RemovalSpec(ApiModel):
    """Say when a departed member is removed from the group."""

    policy: RemovalPolicy = Field(
        RemovalPolicy.WHEN_DEAD,
        description="WhenDead (default): a member whose ordinal is no longer wanted is removed as soon as every pod "
        "that was there when it joined has ended. Never: departed members stay until their session expires.",
    )
    hold_seconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        0,
        description="Seconds to wait after the ordinal left the wanted range, 0 to 3600. Default 0. Raise it when an "
        "autoscaler often scales down and up again within minutes.",
    )
    max_percent_of_group: Annotated[int, Field(ge=1, le=100)] = Field(
        100,
        description="Largest share of the group's members that one round may remove, in percent, 1 to 100; at least "
        "one member may always go. Default 100. Lower it to be safe from a mistaken scale-down.",
    )


PRESETS_OF_STREAMS: Final = (Preset.GENERIC, Preset.KAFKA_STREAMS, Preset.CUSTOM)
SUFFIXES_OF_STREAMS: Final = (SuffixStyle.AUTO, SuffixStyle.STREAMS)
"""What may be asked for with role Streams; `injection.identity_of` says what the first of each stands for."""


def _names(values: Sequence[StrEnum]) -> str:
    """Write values as a list of CEL."""
    return f"[{', '.join(repr(value.value) for value in values)}]"
_IS_CONNECT: Final = f"self.role == '{RoleChoice.CONNECT.value}'"
_CONNECT_RULES: Final = (
    rule(
        f"!({_IS_CONNECT}) || self.protocol != 'Consumer'",
        "spec.protocol Consumer is KIP-848, which Connect workers do not speak, and spec.role is Connect: set "
        "spec.protocol to Auto or Classic",
        field_path=".protocol",
    ),
    rule(
        f"!({_IS_CONNECT}) || self.crashRelease != 'Release'",
        "spec.crashRelease Release is for KIP-848 groups, and Connect workers are in classic ones: set "
        "spec.crashRelease to Report",
        field_path=".crashRelease",
    ),
    rule(
        f"!({_IS_CONNECT}) || self.identity.preset in ['Connect', 'Debezium', 'Custom'] || "
        "(self.identity.preset == 'Generic' && size(self.identity.env) == 0)",
        "spec.identity.preset names variables that no Connect worker reads, and spec.role is Connect: leave it out, "
        "which means Connect, for the agent, or set it to Custom and name the variables in spec.identity.env",
        field_path=".identity",
    ),
    rule(
        f"{_IS_CONNECT} || !(self.identity.preset in {PRESETS_OF_THE_AGENT})",
        "spec.role must be Connect while spec.identity.preset is Connect or Debezium, whose variables only the agent "
        "in a Connect worker reads: set spec.role to Connect, or choose another preset",
        field_path=".role",
    ),
    rule(
        f"!({_IS_CONNECT}) || (self.identity.membersPerPod == 1 && self.identity.suffix in ['Auto', 'None'])",
        "spec.identity must be of one member without suffix while spec.role is Connect, because a Connect worker is "
        "one member and appends nothing: set spec.identity.membersPerPod to 1 and spec.identity.suffix to Auto",
        field_path=".identity",
    ),
    rule(
        f"{_IS_CONNECT} || self.identity.agent != 'Inject'",
        "spec.identity.agent Inject brings the agent of Connect workers into the pods, and spec.role is not Connect: "
        "set spec.role to Connect, or spec.identity.agent to Provided",
        field_path=".identity",
    ),
)


class StaticGroupSpec(ApiModel):
    """Say what the user wants."""

    model_config = ruled(
        rule(
            "self.crashRelease != 'Release' || self.protocol != 'Classic' || self.role != 'Consumer'",
            "spec.crashRelease Release is for KIP-848 groups, and spec.protocol is Classic: set spec.crashRelease to "
            "Report, or spec.protocol to Auto or Consumer",
            field_path=".crashRelease",
        ),
        rule(
            "self.crashRelease != 'Release' || self.protocol != 'Classic' || self.role != 'Streams'",
            "spec.crashRelease Release is for groups of the streams protocol (KIP-1071), and spec.protocol is Classic: "
            "set spec.crashRelease to Report, or spec.protocol to Auto or Streams",
            field_path=".crashRelease",
        ),
        rule(
            TELLS_MEMBERS_APART,
            "spec.identity.membersPerPod must be 1 while suffix is Auto and the preset's client appends nothing, or "
            "the members of a pod would share one id: set spec.identity.suffix to what the client appends (Streams or "
            "Spring where it numbers its members), or spec.role to Streams, or list the consumers in spec.identity.env",
            field_path=".identity.membersPerPod",
        ),
        rule(
            f"self.role != 'Streams' || self.identity.preset in {_names(PRESETS_OF_STREAMS)}",
            "spec.identity.preset must be KafkaStreams or Custom while spec.role is Streams: leave it out, which means "
            "KafkaStreams, or set it to Custom and name the variables that the application reads in spec.identity.env",
            field_path=".identity.preset",
        ),
        rule(
            "self.role != 'Streams' || self.identity.preset != 'Generic' || size(self.identity.env) == 0",
            "spec.identity.env replaces the variables of Kafka Streams that spec.role Streams implies, and its default "
            "names are not theirs: name the variables in full and set spec.identity.preset to Custom",
            field_path=".identity.env",
            reason="FieldValueForbidden",
        ),
        rule(
            f"self.role != 'Streams' || self.identity.suffix in {_names(SUFFIXES_OF_STREAMS)}",
            "spec.identity.suffix must be Streams while spec.role is Streams, because a Kafka Streams client appends "
            "-1 to -N to the id that it is given: remove spec.identity.suffix, or set spec.role to Consumer",
            field_path=".identity.suffix",
        ),
        rule(
            "self.protocol != 'Streams' || self.role == 'Streams'",
            "spec.protocol Streams (KIP-1071) is spoken by Kafka Streams only: set spec.role to Streams, or "
            "spec.protocol to Auto",
            field_path=".protocol",
        ),
        rule(
            "self.role != 'Streams' || self.protocol != 'Consumer'",
            "spec.protocol Consumer (KIP-848) is not spoken by Kafka Streams: set spec.protocol to Auto, Classic or "
            "Streams",
            field_path=".protocol",
        ),
        *_CONNECT_RULES,
    )

    mode: Mode = Field(
        Mode.MANAGE,
        description="Manage (default): inject, verify and remove. Observe: look and report only; nothing is injected "
        "and nobody is removed. Start with Observe to see what would be done.",
    )
    suspend: bool = Field(
        False,
        description="True stops all work on this group until set to false: nothing is observed or removed, and new "
        "pods get no id. Default false.",
    )
    workload_ref: WorkloadRef = Field(description="The StatefulSet whose pods are the members of the group.")
    connection_ref: ConnectionRef = Field(description="The connection through which the group is reached.")
    group_id: Annotated[str, StringConstraints(min_length=1, max_length=249)] = Field(
        description="group.id of the consumers or Connect workers (application.id for Kafka Streams), 1 to 249 "
        "characters. Immutable.",
        json_schema_extra=rules(
            immutable("spec.groupId", "delete this StaticGroup and create one for the other group")
        ),
    )
    role: RoleChoice = Field(
        RoleChoice.CONSUMER,
        description="What the pods are. Consumer (default): consumers of the group. Streams: instances of a Kafka "
        "Streams application, each thread a member: implies preset KafkaStreams and suffix Streams. Connect: workers "
        "of a Kafka Connect cluster, with the agent that keeps their ids (docs/guide/kafka-connect.md): implies preset "
        "Connect.",
    )
    protocol: ProtocolChoice = Field(
        ProtocolChoice.AUTO,
        description="Group protocol. Auto (default): whatever the brokers report. Classic: the protocol before "
        "KIP-848. Consumer: KIP-848, group.protocol=consumer. Streams: KIP-1071, group.protocol=streams, with static "
        "members from Kafka 4.4 on; only with role Streams. Set it to get a warning when the members use another one.",
    )
    identity: Identity = Field(
        Identity(), description="The group.instance.id of the pods: how it is built, and how a pod comes to it."
    )
    session_timeout: SessionTimeout = Field(
        SessionTimeout(),
        description="How long a member may be silent before the coordinator gives its partitions, or its connectors "
        "and tasks, away.",
    )
    removal: RemovalSpec = Field(
        RemovalSpec(),
        description="What is done with members whose pod is gone for good, after a scale-down. A member is only "
        "removed once every pod that was there when it joined has ended, whatever is set here.",
    )
    crash_release: CrashRelease = Field(
        CrashRelease.REPORT,
        description="What is done when a process of a KIP-848 group crashes: its member stays until its session "
        "expires, and the restarted process is refused meanwhile (UNRELEASED_INSTANCE_ID). Report (default): say which "
        "pod is locked out, since when, and what to do. Release: let the crashed member leave for a while, once its "
        "kubelet has said that the very process has ended; the restart joins at once with the same partitions. Off: "
        "neither. Classic groups need none of it: there the restart takes its seat over.",
    )


class StaticGroup(ApiModel):
    """A StaticGroup makes the pods of a StatefulSet static members of a Kafka consumer group, safely."""

    model_config = ruled(
        rule(
            "has(oldSelf.spec.identity.scope) || !has(self.spec.identity.scope) || (has(oldSelf.status) && "
            "has(oldSelf.status.injected) && oldSelf.status.injected.scope == self.spec.identity.scope)",
            "spec.identity.scope can be written later only as status.injected.scope says, because another one renames "
            "every member: write that one, or delete this StaticGroup and create one with the scope that you want",
            field_path=".spec.identity.scope",
            reason="FieldValueForbidden",
        )
    )

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: Literal["StaticGroup"] = "StaticGroup"
    metadata: ObjectMeta
    spec: StaticGroupSpec = Field(description="What the user wants.")
    status: ReadableStatus = Field(None, description="What the operator sees and did.")
