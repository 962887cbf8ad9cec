"""The ClusterKafkaConnection: a connection that belongs to no namespace and that some namespaces may use.

The one idea: its owner says which namespaces may use it, by default none, and only the owner sees its Secrets, which
are in a namespace of the owner.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from ..schema import ATOMIC, SET, ApiModel, ClusterObjectMeta, DnsLabel, rule, ruled
from .kafkaconnection import Connection, KafkaConnectionSpec

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY_MAX: Final = 317
"""A DNS subdomain of 253 characters, a slash and a name of 63."""
LabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LABEL_KEY_MAX, pattern=rf"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}$"),
]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=rf"^({_NAME})?$")]


class LabelOperator(StrEnum):
    """Name how a label is compared, as Kubernetes' label selectors do."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ApiModel):
    """Ask one thing of one label."""

    model_config = ruled(
        rule(
            "(self.operator in ['In', 'NotIn']) == (self.values.size() > 0)",
            "spec.allowedNamespaces[].selector.matchExpressions[].values is required with In and NotIn and forbidden "
            "with Exists and DoesNotExist",
            field_path=".values",
        )
    )

    key: LabelKey = Field(description="Label of the namespace.")
    operator: LabelOperator = Field(description="In, NotIn, Exists or DoesNotExist, as in every label selector.")
    values: Annotated[list[LabelValue], Field(max_length=32)] = Field(
        [], description="Values to compare with, for In and NotIn. Default: none.", json_schema_extra=ATOMIC
    )


class NamespaceSelector(ApiModel):
    """Select namespaces by their labels; all that is asked must hold."""

    model_config = ruled(
        rule(
            "has(self.matchLabels) || has(self.matchExpressions)",
            "spec.allowedNamespaces[].selector must ask for a label, because an empty one would select every "
            "namespace: for that, ask that kubernetes.io/metadata.name exists",
        )
    )

    match_labels: Annotated[dict[str, LabelValue], Field(min_length=1, max_length=16)] | None = Field(
        None, description="Labels that a namespace must have with these values. Default: none."
    )
    match_expressions: Annotated[list[LabelRequirement], Field(min_length=1, max_length=16)] | None = Field(
        None, description="More that is asked of labels. Default: nothing.", json_schema_extra=ATOMIC
    )


class AllowedNamespaces(ApiModel):
    """Say of some namespaces what their StaticGroups may do with the connection."""

    names: Annotated[list[DnsLabel], Field(max_length=500)] = Field(
        [], description="Namespaces by name. Default: none.", json_schema_extra=SET
    )
    selector: NamespaceSelector | None = Field(
        None,
        description="Namespaces by label, beside those by name. Anybody with the right to label a namespace can then "
        "let it in. Default: none.",
    )
    group_prefixes: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=249)]], Field(max_length=100)
    ] = Field(
        [],
        description="What spec.groupId of their StaticGroups must begin with, one of these. For any other group "
        "nothing is asked of the brokers. Default: any group that the principal may read.",
        json_schema_extra=SET,
    )
    allow_exclusive: bool = Field(
        False,
        description="Whether spec.assumeExclusive of their StaticGroups counts: the word of a namespace that ids "
        "without a scope are its own, by which members are removed. Default false. Give it only with groupPrefixes "
        "that are one namespace's, because members of another one, or of another cluster, may have the same ids.",
    )

    def has_group(self, group_id: str) -> bool:
        """Tell whether the StaticGroups of these namespaces may act on a Kafka group."""
        return not self.group_prefixes or group_id.startswith(tuple(self.group_prefixes))


class ClusterKafkaConnectionSpec(KafkaConnectionSpec):
    """Say how a Kafka cluster is reached, and from which namespaces."""

    secret_namespace: DnsLabel | None = Field(
        None,
        description="Namespace of the Secrets that are named here, and the one to which a tokenFile or awsMskIam must "
        "be shared. Default: the operator's own.",
    )
    allowed_namespaces: Annotated[list[AllowedNamespaces], Field(max_length=100)] = Field(
        [],
        description="Namespaces whose StaticGroups may use it, and for what; each entry that names or selects a "
        "namespace allows it something more. Default: none. One that is taken away is refused at once: nothing more is "
        "asked of the brokers for its StaticGroups, and no member is removed.",
        json_schema_extra=ATOMIC,
    )


class ClusterKafkaConnection(Connection):
    """A ClusterKafkaConnection says how a Kafka cluster is reached and as whom, for the namespaces that it allows."""

    kind: Literal["ClusterKafkaConnection"] = "ClusterKafkaConnection"
    metadata: ClusterObjectMeta
    spec: ClusterKafkaConnectionSpec = Field(description="How the cluster is reached, and from where.")
