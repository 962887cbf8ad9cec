"""Describe which ids the pods carry: the part of the spec with most rules, because a shared id fences a living member.

The one idea: whatever would give two consumers one id is refused by the API server, with the field and the remedy in
the message. Sources: KIP-345; StreamsConfig (client suffix from 1); Spring Kafka's concurrent container (from 0).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..identifiers import SuffixStyle
from ..schema import ATOMIC, SET, ApiModel, DnsLabel, EnvName, rule, ruled

ENV_ENTRIES_MAX: Final = 8
MEMBERS_PER_POD_MAX: Final = 64

_TEMPLATE_CEL = r"^([a-zA-Z0-9._-]|[{](podName|ordinal|namespace|workloadName|groupName|scope)[}])+$"
_SUFFIX_PATTERN = r"^([._-][a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?)?$"
_OPTIONAL_ENV_PATTERN = r"^([-._a-zA-Z][-._a-zA-Z0-9]*)?$"
_CLIENT_SUFFIX_PATTERN = r"^[._-][a-zA-Z0-9._-]*$"
# As the operator makes it: ids are found by their scope, which a word that people like would be in by chance.
SCOPE_PATTERN: Final = "^[0-9a-f]{8}$"


class Preset(StrEnum):
    """Name the framework whose environment variables are used."""

    GENERIC = "Generic"
    LIBRDKAFKA = "Librdkafka"
    SPRING_BOOT = "SpringBoot"
    QUARKUS = "Quarkus"
    KAFKA_STREAMS = "KafkaStreams"
    CONNECT = "Connect"
    DEBEZIUM = "Debezium"
    CUSTOM = "Custom"


IMPLIED_SUFFIXES: Final[Mapping[Preset, SuffixStyle]] = MappingProxyType(
    {Preset.SPRING_BOOT: SuffixStyle.SPRING, Preset.KAFKA_STREAMS: SuffixStyle.STREAMS}
)
"""What a preset's client appends to the id it is given, even when a pod has only one member; others append nothing.

Sources: see `identifiers.client_suffixes`. SmallRye's Kafka connector (of Quarkus) and librdkafka use the id as it is.
"""


JAVA_PRESETS: Final = frozenset(
    {Preset.SPRING_BOOT, Preset.QUARKUS, Preset.KAFKA_STREAMS, Preset.CONNECT, Preset.DEBEZIUM}
)
"""Presets of which the client is known to be Apache Kafka's for Java; that of any other may be librdkafka."""


class InjectionMethod(StrEnum):
    """Say how a pod comes to its id."""

    AUTO = "Auto"
    POLICY = "Policy"
    WEBHOOK = "Webhook"
    NONE = "None"


class AgentSource(StrEnum):
    """Say how the agent comes into a Connect worker."""

    PROVIDED = "Provided"
    INJECT = "Inject"


class EnvEntry(ApiModel):
    """Name the variables of one consumer of the pod."""

    container: DnsLabel | None = Field(
        None, description="Container that receives the variables. Default: the first container of the pod."
    )
    instance_id_name: EnvName = Field(
        "KAFKA_GROUP_INSTANCE_ID",
        description="Variable that receives the id, for the client's group.instance.id. Default "
        "KAFKA_GROUP_INSTANCE_ID.",
    )
    # Empty, not null: a client-side `kubectl apply` drops a null, and the default would come back in silence.
    session_timeout_name: Annotated[str, StringConstraints(max_length=128, pattern=_OPTIONAL_ENV_PATTERN)] = Field(
        "KAFKA_SESSION_TIMEOUT_MS",
        description="Variable that receives the session timeout in milliseconds, for the client's session.timeout.ms. "
        'Default KAFKA_SESSION_TIMEOUT_MS; "": no timeout is injected for this consumer.',
    )
    suffix: Annotated[str, StringConstraints(max_length=40, pattern=_SUFFIX_PATTERN)] = Field(
        "",
        description="Appended to the id, so that several consumers of a pod differ: a separator (. _ or -) and then "
        "letters, digits and separators, ending in a letter or digit, such as -orders. Default: nothing. The pod "
        "annotation staticgroup.io/instance-id.<suffix without its separator> then carries the id.",
    )


PRESETS_OF_THE_AGENT: Final = f"['{Preset.CONNECT.value}', '{Preset.DEBEZIUM.value}']"
"""CEL: the presets whose variables the agent in a Connect worker reads."""
_PRESETS_WITH_SUFFIX: Final = f"[{', '.join(repr(preset.value) for preset in IMPLIED_SUFFIXES)}]"
_HAS_IMPLIED_SUFFIX: Final = f"self.preset in {_PRESETS_WITH_SUFFIX}"
TELLS_MEMBERS_APART: Final = (
    "self.identity.suffix != 'Auto' || self.identity.membersPerPod == 1 || self.role == 'Streams' || "
    f"self.identity.preset in {_PRESETS_WITH_SUFFIX}"
)
"""CEL over the whole spec: whatever appends nothing has one member in a pod."""
_SAME_CONTAINER = "(has(e.container) ? e.container : '') == (has(f.container) ? f.container : '')"


class Identity(ApiModel):
    """Say which ids the pods carry and how they come to them."""

    model_config = ruled(
        rule(
            "self.template.contains('{podName}') || self.template.contains('{ordinal}')",
            "spec.identity.template must contain {podName} or {ordinal}: without it all pods would carry one id "
            "and fence each other",
            field_path=".template",
        ),
        rule(
            f"self.template.matches('{_TEMPLATE_CEL}')",
            "spec.identity.template may hold letters, digits, '.', '_', '-' and the placeholders {podName} "
            "{ordinal} {namespace} {workloadName} {groupName} {scope}; remove everything else",
            field_path=".template",
        ),
        rule(
            "self.suffix != 'None' || self.membersPerPod == 1",
            "spec.identity.membersPerPod must be 1 while suffix is None, or the members of a pod would share one "
            "id: set spec.identity.suffix to what the client appends, or list the consumers in spec.identity.env",
            field_path=".membersPerPod",
        ),
        rule(
            "self.suffix != 'Custom' || (has(self.customSuffixes) && "
            "size(self.customSuffixes) == self.membersPerPod)",
            "spec.identity.customSuffixes must list one suffix for each of spec.identity.membersPerPod members "
            "when suffix is Custom: make the two numbers equal",
            field_path=".customSuffixes",
            reason="FieldValueRequired",
        ),
        rule(
            "self.suffix == 'Custom' || !has(self.customSuffixes) || size(self.customSuffixes) == 0",
            "spec.identity.customSuffixes is used only when suffix is Custom: set spec.identity.suffix to Custom "
            "or remove the list",
            field_path=".customSuffixes",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.preset != 'Custom' || size(self.env) > 0",
            "spec.identity.env must name the variables when preset is Custom: add an entry or choose another "
            "preset",
            field_path=".env",
            reason="FieldValueRequired",
        ),
        rule(
            f"size(self.env) == 0 || !({_HAS_IMPLIED_SUFFIX})",
            "spec.identity.env replaces the preset's variables, and its default names are not those of this "
            "preset: name the variables in full and set spec.identity.preset to Custom",
            field_path=".env",
            reason="FieldValueForbidden",
        ),
        rule(
            f"size(self.env) == 0 || !(self.preset in {PRESETS_OF_THE_AGENT})",
            "spec.identity.env replaces the variables of presets Connect and Debezium, which are those that the agent "
            "in a worker reads: remove it and name the container in spec.identity.container, or set "
            "spec.identity.preset to Custom",
            field_path=".env",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.method != 'None' || self.env.all(e, e.instanceIdName.upperAscii().contains('INSTANCE_ID'))",
            "spec.identity.env[].instanceIdName must contain INSTANCE_ID when method is None: the operator finds the "
            "ids that pods set themselves in variables of such a name; rename the variable",
            field_path=".env",
        ),
        rule(
            "size(self.env) == 0 || !has(self.container)",
            "spec.identity.container is used only while env is empty: name the container in each entry of "
            "spec.identity.env and remove this field",
            field_path=".container",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.env.all(e, self.env.exists_one(f, (f.suffix == '' ? '' : f.suffix.substring(1)) == "
            "(e.suffix == '' ? '' : e.suffix.substring(1))))",
            "spec.identity.env entries must differ in suffix (not only in its separator), or two consumers of a "
            "pod would carry one id and fence each other: give each entry its own suffix",
            field_path=".env",
        ),
        rule(
            f"self.env.all(e, self.env.exists_one(f, {_SAME_CONTAINER} && f.instanceIdName == e.instanceIdName))",
            "spec.identity.env must not set the same instanceIdName twice in one container: give each consumer its "
            "own variable",
            field_path=".env",
        ),
        rule(
            f"self.env.all(e, !self.env.exists(f, {_SAME_CONTAINER} && f.sessionTimeoutName == e.instanceIdName))",
            "spec.identity.env must not use one variable for both instanceIdName and sessionTimeoutName: rename "
            "one",
            field_path=".env",
        ),
        rule(
            "self.agent != 'Inject' || self.method != 'None'",
            "spec.identity.agent Inject is done by what injects the ids, and spec.identity.method is None: set "
            "spec.identity.agent to Provided, or spec.identity.method to Auto",
            field_path=".agent",
        ),
        rule(
            "self.agent != 'Inject' || self.preset != 'Custom'",
            "spec.identity.agent Inject is of no use while spec.identity.preset is Custom, whose variables the agent "
            "does not read: leave spec.identity.preset out, or set spec.identity.agent to Provided",
            field_path=".agent",
        ),
        rule(
            "!has(self.scope) || self.template.contains('{scope}')",
            "spec.identity.scope is of no use while spec.identity.template has no {scope}: put {scope} into "
            "spec.identity.template, or leave spec.identity.scope out of a new StaticGroup",
            field_path=".scope",
            reason="FieldValueForbidden",
        ),
        rule(
            "!has(oldSelf.scope) || (has(self.scope) && self.scope == oldSelf.scope)",
            "spec.identity.scope is immutable and stays, because another one renames every member: leave it as it is, "
            "or delete this StaticGroup and create one with the other scope, or without",
            field_path=".scope",
            reason="FieldValueForbidden",
        ),
    )

    template: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        "{podName}.{scope}",
        description="How the id of a pod is built. Placeholders: {podName}, {ordinal}, {namespace}, {workloadName}, "
        "{groupName} (the name of this StaticGroup) and {scope} (8 hex digits that are unique to this StaticGroup, "
        "across clusters, unless scope says which). Must contain {podName} or {ordinal}. Default {podName}.{scope}. "
        "Without {scope} departed members are removed only when exclusive is true. Change it only to adopt ids that "
        "are in use already.",
    )
    scope: Annotated[str, StringConstraints(min_length=8, max_length=8, pattern=SCOPE_PATTERN)] | None = Field(
        None,
        description="What {scope} stands for: 8 hex digits, and your word that no other cluster, namespace or "
        "StaticGroup of this Kafka group uses them. So a StaticGroup that is created again keeps its ids, and a "
        "repository can hold them. Default: drawn by the operator, other ones for each StaticGroup. Immutable; a "
        "StaticGroup that exists takes only what status.injected.scope says. Ids may then be older than the "
        "StaticGroup: members that are described before its pods were watched for ten minutes (the operator's settle) "
        "are removed only once they have joined again. Over a ClusterKafkaConnection it counts for removals only where "
        "that allows exclusive.",
    )
    exclusive: bool = Field(
        False,
        description="Your word that nobody else, in this cluster or another, issues these ids. Default false. Needed "
        "for removal only when template has no {scope}: the broker cannot tell our departed member from another "
        "cluster's living one of the same id.",
    )
    members_per_pod: Annotated[int, Field(ge=1, le=MEMBERS_PER_POD_MAX)] = Field(
        1,
        description="Group members that one injected id becomes, 1 to 64: Kafka Streams' num.stream.threads or "
        "Spring's concurrency. Default 1. Must match the client, or its extra members count as foreign. More than 1 "
        "needs a suffix, given or implied by preset or role.",
    )
    suffix: SuffixStyle = Field(
        SuffixStyle.AUTO,
        description="What the client itself appends to the id. Auto (default): Streams where spec.role is Streams, "
        "else what the client of preset appends, Spring for SpringBoot, Streams for KafkaStreams, else nothing; None: "
        "nothing; Streams: -1 to -N; Spring: -0 to -(N-1); Custom: customSuffixes. N is membersPerPod. A StaticGroup "
        "that issued its ids with None keeps to it under Auto, see status.injected.suffixFollowsPreset.",
    )
    custom_suffixes: (
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=_CLIENT_SUFFIX_PATTERN)]],
            Field(max_length=MEMBERS_PER_POD_MAX),
        ]
        | None
    ) = Field(
        None,
        description="What the client appends, one entry for each member of a pod, each beginning with a separator (. _ "
        "or -). Only with suffix Custom.",
        json_schema_extra=SET,
    )
    preset: Preset = Field(
        Preset.GENERIC,
        description="Whose variables are injected while env is empty. Generic (default; KafkaStreams or Connect where "
        "that is spec.role), Librdkafka and Quarkus: KAFKA_GROUP_INSTANCE_ID and KAFKA_SESSION_TIMEOUT_MS; SpringBoot: "
        "SPRING_KAFKA_CONSUMER_PROPERTIES_...; KafkaStreams: KAFKA_STREAMS_...; Connect: STATICGROUP_CONNECT_..., "
        "which the agent in a Connect worker reads; Debezium: the same and, where the container has none and no "
        "envFrom, ADVERTISED_HOST_NAME, by which Debezium's image advertises the pod's name; Custom: those of env.",
    )
    container: DnsLabel | None = Field(
        None, description="Container that receives the preset's variables. Default: the first container of the pod."
    )
    env: Annotated[list[EnvEntry], Field(max_length=ENV_ENTRIES_MAX)] = Field(
        [],
        description="Variables to inject, one entry for each consumer of a pod, at most 8. Default empty: the preset's "
        "names, into the container named by container. Variables of the same name in the pod are replaced.",
        json_schema_extra=ATOMIC,
    )
    method: InjectionMethod = Field(
        InjectionMethod.AUTO,
        description="How a new pod comes to its id. Policy: an admission policy of the API server (Kubernetes 1.36 or "
        "newer); Webhook: the operator, which the API server asks (any version; a pod that is created while no replica "
        "answers gets none, and is named); None: you set the id yourself and the operator verifies it; Auto (default): "
        "Policy where it is served, Webhook where not. status.injected.method says which it is.",
    )
    agent: AgentSource = Field(
        AgentSource.PROVIDED,
        description="How the agent that keeps a Connect worker's id comes into its process; only with role Connect. "
        "Provided (default): it is in the pod template. Inject: with the id, the next pods get an init container of "
        "the operator's image that brings it, a volume, and -javaagent behind the KAFKA_OPTS of the worker's "
        "container, which must stand there as text, if only empty; with preset Debezium it may be absent.",
    )
