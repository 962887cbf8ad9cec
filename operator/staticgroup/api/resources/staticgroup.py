"""Describe the StaticGroup: one consumer group whose members are the pods of one workload.

The one idea: the spec says what the user wants of a group and nothing about how it is reached; everything has a
default that is safe for an unknown cluster, so the shortest useful object names a workload, a connection and a group.
Sources: KIP-345 and KIP-848 (static membership), KIP-1071 and Spring Kafka (client suffixes).
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from ..protocols import ProtocolChoice, RoleChoice
from ..schema import ApiModel, DnsSubdomain, ObjectMeta, immutable, rule, ruled, rules
from ..workloads import KIND_OF, SLOT_KINDS, WorkloadKind
from .client import WORKER_TYPES, Client, ClientType, names
from .status import ReadableStatus

_TEMPLATE_CEL = r"^([a-zA-Z0-9._-]|[{](podName|ordinal|namespace|workloadName|groupName|scope)[}])+$"
_ONE_LINE = r"^[^\n\r]*$"
_ANOTHER_WORKLOAD = (
    "delete this StaticGroup and create one for the other workload; its ids stay in the group until removed"
)
SESSION_TIMEOUT_SECONDS_MAX: Final = 1800  # group.max.session.timeout.ms of a stock broker: 30 min


class Mode(StrEnum):
    """Say whether the operator acts, only watches, or does nothing."""

    MANAGE = "Manage"
    OBSERVE = "Observe"
    SUSPENDED = "Suspended"


class RemovalPolicy(StrEnum):
    """Say which members are removed."""

    DEPARTED = "Departed"
    DEPARTED_AND_CRASHED = "DepartedAndCrashed"
    NEVER = "Never"


class OnTopicChange(StrEnum):
    """Say what is done when the members of a classic group consume other topics than before."""

    REBALANCE = "Rebalance"
    REPORT = "Report"


class WorkloadRef(ApiModel):
    """Point at the workload whose pods are the members."""

    model_config = ruled(
        rule(
            "self.kind != 'ReplicaSet'",
            "spec.workloadRef.kind must not be ReplicaSet, which each change of a Deployment makes anew: name the "
            "Deployment",
            field_path=".kind",
        ),
        rule(
            "self.kind in ['StatefulSet', 'Deployment', 'Rollout', 'StrimziPodSet', 'ReplicaSet']",
            "spec.workloadRef.kind must be StatefulSet, Deployment, Rollout or StrimziPodSet: the operator knows how "
            "pods of these get ids; for a KafkaConnect of Strimzi name its StrimziPodSet, <name>-connect",
            field_path=".kind",
        ),
        rule(
            "self.kind != 'StatefulSet' || self.apiVersion == 'apps/v1'",
            "spec.workloadRef.apiVersion must be apps/v1, the version that serves StatefulSet",
            field_path=".apiVersion",
        ),
        rule(
            "self.kind != 'Deployment' || self.apiVersion == 'apps/v1'",
            "spec.workloadRef.apiVersion must be apps/v1, the version that serves Deployment",
            field_path=".apiVersion",
        ),
        rule(
            "self.kind != 'Rollout' || self.apiVersion == 'argoproj.io/v1alpha1'",
            "spec.workloadRef.apiVersion must be argoproj.io/v1alpha1, the version that serves Rollout",
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
        "core.strimzi.io/v1beta2, whichever the API server serves; of a Rollout argoproj.io/v1alpha1."
    )
    kind: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        "StatefulSet",
        description="Kind of the workload: StatefulSet, whose pods keep name and id over a restart; Deployment, whose "
        "pods wait in an init container for the id of a pod that has ended, or get a new one (chart value "
        "workloads.deployments, Kubernetes 1.35); Rollout of Argo, likewise (workloads.argoRollouts); or StrimziPodSet "
        "for the workers of Strimzi's KafkaConnect (chart value workloads.strimzi). Default StatefulSet. Immutable.",
        json_schema_extra=rules(immutable("spec.workloadRef.kind", _ANOTHER_WORKLOAD)),
    )
    name: DnsSubdomain = Field(
        description="Name of the workload, in the namespace of this StaticGroup. Immutable.",
        json_schema_extra=rules(immutable("spec.workloadRef.name", _ANOTHER_WORKLOAD)),
    )

    @property
    def known_kind(self) -> WorkloadKind:
        """What is known of the kind; a KeyError where a later release knows it."""
        return KIND_OF[self.kind]


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
            "!has(self.seconds) || (!has(self.minSeconds) && !has(self.maxSeconds))",
            "spec.sessionTimeout.seconds fixes the timeout, so minSeconds and maxSeconds bound nothing: remove them, "
            "or seconds to have it chosen between them",
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

    seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None,
        description="The session timeout in seconds, 1 to 1800. Default: chosen from how long the members of this "
        "workload were away when they were restarted, or, before enough of that was measured, from the pod template; "
        "within minSeconds, maxSeconds and what the brokers allow.",
    )
    min_seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None,
        description="Lowest timeout that is chosen, in seconds, 1 to 1800. Default: 45, as clients have it. Raise "
        "it when members are expelled in long garbage collections, or when restarts get slower under load.",
    )
    max_seconds: Annotated[int, Field(ge=1, le=SESSION_TIMEOUT_SECONDS_MAX)] | None = Field(
        None,
        description="Highest timeout that is chosen, in seconds, 1 to 1800. Default: 1800 for Java clients (by "
        "client.type) and for KIP-848 and Streams groups; else 300, or the max.poll.interval.ms that the pod template "
        "shows, above which librdkafka does not start. Lower it to bound how long the partitions or tasks of a crashed "
        "pod may stand still.",
    )
    write_group_config: bool = Field(
        False,
        description="True: the operator sets the session timeout of a KIP-848 or Streams group at the brokers, "
        "consumer.session.timeout.ms or streams.session.timeout.ms of the group, and repairs it; that needs "
        "ALTER_CONFIGS on the Group. Default false: it is read and judged only. Of no effect in a classic group.",
    )


_IS_WORKER: Final = f"self.client.type in {names(WORKER_TYPES)}"
_HAS_SLOTS: Final = f"self.workloadRef.kind in {[known.kind for known in SLOT_KINDS]}"
_OF_OWN_PODS: Final = names(WORKER_TYPES | {ClientType.OWN})
_SPEAKS_STREAMS: Final = names((ClientType.KAFKA_STREAMS, ClientType.OWN))


class StaticGroupSpec(ApiModel):
    """Say what the user wants."""

    model_config = ruled(
        rule(
            "self.removal != 'DepartedAndCrashed' || self.groupProtocol != 'Classic'",
            "spec.removal DepartedAndCrashed is for KIP-848 and Streams groups, and spec.groupProtocol is Classic: in "
            "a classic group the restart takes its seat over by itself; set spec.removal to Departed",
            field_path=".removal",
        ),
        rule(
            f"self.removal != 'DepartedAndCrashed' || !({_IS_WORKER})",
            "spec.removal DepartedAndCrashed is for KIP-848 and Streams groups, and Connect workers are in classic "
            "ones: set spec.removal to Departed",
            field_path=".removal",
        ),
        rule(
            f"self.groupProtocol != 'Streams' || self.client.type in {_SPEAKS_STREAMS}",
            "spec.groupProtocol Streams (KIP-1071) is spoken by Kafka Streams only: set spec.client.type to "
            "KafkaStreams, or spec.groupProtocol to Auto",
            field_path=".groupProtocol",
        ),
        rule(
            "self.groupProtocol != 'Consumer' || self.client.type != 'KafkaStreams'",
            "spec.groupProtocol Consumer (KIP-848) is not spoken by Kafka Streams: set spec.groupProtocol to Auto, "
            "Classic or Streams",
            field_path=".groupProtocol",
        ),
        rule(
            f"self.groupProtocol != 'Consumer' || !({_IS_WORKER})",
            "spec.groupProtocol Consumer is KIP-848, which Connect workers do not speak: set spec.groupProtocol to "
            "Auto or Classic",
            field_path=".groupProtocol",
        ),
        rule(
            f"!({_HAS_SLOTS}) || !(self.client.type in {_OF_OWN_PODS})",
            "spec.client.type must not be Connect, Debezium or Own when spec.workloadRef.kind is Deployment or "
            "Rollout: workers need names that last, and ids of its pods are injected; use a StatefulSet, or another "
            "spec.client.type",
            field_path=".client.type",
        ),
        rule(
            f"!({_HAS_SLOTS}) || !has(self.idTemplate) || "
            "(self.idTemplate.contains('{podName}') && !self.idTemplate.contains('{ordinal}'))",
            "spec.idTemplate must contain {podName} and not {ordinal} when spec.workloadRef.kind is Deployment or "
            "Rollout, whose pods have no ordinal: {podName} is then the pod's slot, <workload>-<number>",
            field_path=".idTemplate",
        ),
    )

    mode: Mode = Field(
        Mode.MANAGE,
        description="Manage (default): inject, verify and remove. Observe: look and report only; nothing is injected "
        "and nobody is removed; start with it to see what would be done. Suspended: nothing at all; the group is not "
        "even looked at.",
    )
    workload_ref: WorkloadRef = Field(description="The workload whose pods are the members of the group.")
    connection_ref: ConnectionRef = Field(description="The connection through which the group is reached.")
    group_id: Annotated[str, StringConstraints(min_length=1, max_length=249, pattern=_ONE_LINE)] = Field(
        description="group.id of the consumers or Connect workers (application.id for Kafka Streams), 1 to 249 "
        "characters. Immutable.",
        json_schema_extra=rules(
            immutable("spec.groupId", "delete this StaticGroup and create one for the other group")
        ),
    )
    group_protocol: ProtocolChoice = Field(
        ProtocolChoice.AUTO,
        description="Kafka's group.protocol. Auto (default): whatever the brokers report. Classic: the protocol before "
        "KIP-848. Consumer: KIP-848, group.protocol=consumer. Streams: KIP-1071, group.protocol=streams, with static "
        "members from Kafka 4.4 on. Set it to get a warning when the members use another one.",
    )
    client: Client = Field(
        Client(), description="What the application is, and how it reads its group.instance.id."
    )
    id_template: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None,
        description="How the id of a pod is built. Placeholders: {podName}, {ordinal}, {namespace}, {workloadName}, "
        "{groupName} (the name of this StaticGroup) and {scope} (8 hex digits that are unique to this StaticGroup, "
        "across clusters). Must contain {podName} or {ordinal}. Of a Deployment, {podName} is the pod's slot, which "
        "passes from pod to pod, and {ordinal} does not exist. Default {podName}.{scope}; with client.type Own "
        "{podName}. Without {scope} departed members are removed only when assumeExclusive is true.",
        json_schema_extra=rules(
            rule(
                "self.contains('{podName}') || self.contains('{ordinal}')",
                "spec.idTemplate must contain {podName} or {ordinal}: without it all pods would carry one id "
                "and fence each other",
            ),
            rule(
                f"self.matches('{_TEMPLATE_CEL}')",
                "spec.idTemplate may hold letters, digits, '.', '_', '-' and the placeholders {podName} "
                "{ordinal} {namespace} {workloadName} {groupName} {scope}; remove everything else",
            ),
        ),
    )
    assume_exclusive: bool = Field(
        False,
        description="Your word that nobody else, in this cluster or another, uses these ids in this Kafka group. "
        "Default false. Needed for removal only when the ids have no {scope}: the broker cannot tell our departed "
        "member from another cluster's living one of the same id.",
    )
    session_timeout: SessionTimeout = Field(
        SessionTimeout(),
        description="How long a member may be silent before the coordinator gives its partitions, or its connectors "
        "and tasks, away.",
    )
    removal: RemovalPolicy = Field(
        RemovalPolicy.DEPARTED,
        description="Which members are removed, each only once every pod that was there when it joined has ended. "
        "Departed (default): those of pods that are gone for good, after a scale-down. DepartedAndCrashed: also that "
        "of a process of a KIP-848 or Streams group that crashed, for which its restart would be refused until the "
        "session ends (UNRELEASED_INSTANCE_ID); the restart then joins at once with the same partitions. Never: all of "
        "them stay until their session ends; crashed pods that are locked out are named all the same.",
    )
    on_topic_change: OnTopicChange = Field(
        OnTopicChange.REBALANCE,
        description="What is done when a roll of a classic group has left topics or partitions unread that all members "
        "subscribe, because static members that come back cause no rebalance (KAFKA-12759). Rebalance (default): "
        "exactly one rebalance, announced beforehand. Report: say so only.",
    )

    @property
    def role(self) -> RoleChoice:
        """What the members are, by the type of the client."""
        if self.client.type in WORKER_TYPES:
            return RoleChoice.CONNECT
        speaks_streams = self.client.type is ClientType.KAFKA_STREAMS or self.group_protocol is ProtocolChoice.STREAMS
        return RoleChoice.STREAMS if speaks_streams else RoleChoice.CONSUMER

    @property
    def template(self) -> str:
        """The template of the ids, with the default of the client's type."""
        default = "{podName}" if self.client.type is ClientType.OWN else "{podName}.{scope}"
        return self.id_template or default


class StaticGroup(ApiModel):
    """A StaticGroup makes the pods of a StatefulSet or Deployment static members of a Kafka consumer group, safely."""

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: Literal["StaticGroup"] = "StaticGroup"
    metadata: ObjectMeta
    spec: StaticGroupSpec = Field(description="What the user wants.")
    status: ReadableStatus = Field(None, description="What the operator sees and did.")
