"""Describe how the application reads its id: the part of the spec with most rules, as a shared id fences a live member.

The one idea: whatever would give two consumers one id is refused by the API server, with the field and the remedy in
the message. Sources: KIP-345; StreamsConfig (client suffix from 1); Spring Kafka's concurrent container (from 0).
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import ATOMIC, SET, ApiModel, DnsLabel, EnvName, rule, ruled

ENV_ENTRIES_MAX: Final = 8
CONCURRENCY_MAX: Final = 64

_SUFFIX_PATTERN = r"^([._-][a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?)?$"
_OPTIONAL_ENV_PATTERN = r"^([-._a-zA-Z][-._a-zA-Z0-9]*)?$"
_CLIENT_SUFFIX_PATTERN = r"^([._-][a-zA-Z0-9._-]*)?$"
_CONTAINER = (
    "Container that receives the variables. Default: the one that has the variable already, else the first that is no "
    "known sidecar, such as istio-proxy; see status.injected.container."
)


class ClientType(StrEnum):
    """Name the framework that reads the id, or say that the application brings its own."""

    GENERIC = "Generic"
    SPRING_BOOT = "SpringBoot"
    QUARKUS = "Quarkus"
    KAFKA_STREAMS = "KafkaStreams"
    CONNECT = "Connect"
    DEBEZIUM = "Debezium"
    CUSTOM = "Custom"
    OWN = "Own"


WORKER_TYPES: Final = frozenset({ClientType.CONNECT, ClientType.DEBEZIUM})
"""Clients that are workers of a Kafka Connect cluster."""
JAVA_TYPES: Final = WORKER_TYPES | {ClientType.SPRING_BOOT, ClientType.QUARKUS, ClientType.KAFKA_STREAMS}
"""Clients known to be Apache Kafka's for Java; that of any other type may be librdkafka."""
NUMBERS_ITS_MEMBERS: Final = frozenset({ClientType.SPRING_BOOT, ClientType.KAFKA_STREAMS})
"""Clients that append a number to the id, even when a pod has only one member; others append nothing.

Sources: see `identifiers.client_suffixes`. SmallRye's Kafka connector (of Quarkus) and librdkafka use the id as it is.
"""
TAKES_ENV: Final = (ClientType.KAFKA_STREAMS, ClientType.CONNECT, ClientType.CUSTOM, ClientType.OWN)


class EnvEntry(ApiModel):
    """Name the variables of one consumer of the pod."""

    container: DnsLabel | None = Field(None, description=_CONTAINER)
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


def names(types: tuple[ClientType, ...] | frozenset[ClientType]) -> str:
    """Write types as a list of CEL, in the order in which they are declared."""
    return f"[{', '.join(repr(each.value) for each in ClientType if each in types)}]"


_SAME_CONTAINER = "(has(e.container) ? e.container : '') == (has(f.container) ? f.container : '')"
_HAS_ENV = "size(self.env) > 0"


class Client(ApiModel):
    """Say what the application is and how it reads its group.instance.id."""

    model_config = ruled(
        rule(
            f"self.type != 'Custom' || {_HAS_ENV}",
            "spec.client.env must name the variables when type is Custom: add an entry, such as {instanceIdName: "
            "MY_GROUP_INSTANCE_ID}, or choose another type",
            field_path=".env",
            reason="FieldValueRequired",
        ),
        rule(
            f"!({_HAS_ENV}) || self.type in {names(TAKES_ENV)}",
            "spec.client.env is used only with type Custom, KafkaStreams, Connect or Own; any other type "
            "knows its variables: set spec.client.type to Custom, or remove env",
            field_path=".env",
            reason="FieldValueForbidden",
        ),
        rule(
            f"self.concurrency == 1 || self.type in {names(NUMBERS_ITS_MEMBERS)}",
            "spec.client.concurrency must be 1 unless type is SpringBoot or KafkaStreams, whose clients number their "
            "members, or the members of a pod would share one id: list what your client appends in "
            "spec.client.suffixes, or its consumers in spec.client.env",
            field_path=".concurrency",
        ),
        rule(
            "size(self.suffixes) == 0 || self.concurrency == 1",
            "spec.client.suffixes says itself how many members a pod has: remove spec.client.concurrency, or "
            "spec.client.suffixes",
            field_path=".suffixes",
            reason="FieldValueForbidden",
        ),
        rule(
            f"size(self.suffixes) == 0 || !(self.type in {names(WORKER_TYPES | {ClientType.KAFKA_STREAMS})})",
            "spec.client.suffixes is not for type KafkaStreams, Connect or Debezium, whose clients append what they "
            "always do: remove spec.client.suffixes, and say how many stream threads a pod has in "
            "spec.client.concurrency",
            field_path=".suffixes",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.type != 'Own' || self.env.all(e, e.instanceIdName.upperAscii().contains('INSTANCE_ID'))",
            "spec.client.env[].instanceIdName must contain INSTANCE_ID when type is Own: the operator finds the "
            "ids that pods set themselves in variables of such a name; rename the variable",
            field_path=".env",
        ),
        rule(
            f"!({_HAS_ENV}) || !has(self.container)",
            "spec.client.container is used only while env is empty: name the container in each entry of "
            "spec.client.env and remove this field",
            field_path=".container",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.env.all(e, self.env.exists_one(f, (f.suffix == '' ? '' : f.suffix.substring(1)) == "
            "(e.suffix == '' ? '' : e.suffix.substring(1))))",
            "spec.client.env entries must differ in suffix (not only in its separator), or two consumers of a "
            "pod would carry one id and fence each other: give each entry its own suffix",
            field_path=".env",
        ),
        rule(
            f"self.env.all(e, self.env.exists_one(f, {_SAME_CONTAINER} && f.instanceIdName == e.instanceIdName))",
            "spec.client.env must not set the same instanceIdName twice in one container: give each consumer its "
            "own variable",
            field_path=".env",
        ),
        rule(
            f"self.env.all(e, !self.env.exists(f, {_SAME_CONTAINER} && f.sessionTimeoutName == e.instanceIdName))",
            "spec.client.env must not use one variable for both instanceIdName and sessionTimeoutName: rename "
            "one",
            field_path=".env",
        ),
        rule(
            f"!self.injectAgent || self.type in {names(WORKER_TYPES)}",
            "spec.client.injectAgent brings the agent of Connect workers into the pods, and spec.client.type is not "
            "Connect or Debezium: set spec.client.type to Connect, or remove injectAgent",
            field_path=".injectAgent",
        ),
        rule(
            f"!self.injectAgent || !({_HAS_ENV})",
            "spec.client.injectAgent is of no use while spec.client.env names variables that the agent does not read: "
            "remove spec.client.env, or injectAgent",
            field_path=".injectAgent",
        ),
    )

    type: ClientType = Field(
        ClientType.GENERIC,
        description="What reads the id, and so which variables are injected. Generic (default) and Quarkus: "
        "KAFKA_GROUP_INSTANCE_ID and KAFKA_SESSION_TIMEOUT_MS, which the application hands to its client; SpringBoot: "
        "SPRING_KAFKA_CONSUMER_PROPERTIES_...; KafkaStreams: KAFKA_STREAMS_...; Connect: STATICGROUP_CONNECT_..., "
        "which the agent in a Connect worker reads (docs/guide/kafka-connect.md); Debezium: the same and, where the "
        "container has none and no envFrom, ADVERTISED_HOST_NAME, by which Debezium's image advertises the pod's name; "
        "Custom: those of env; Own: none, because the application has its own ids, which idTemplate tells; they are "
        "verified, and removed as any other.",
    )
    container: DnsLabel | None = Field(None, description=_CONTAINER)
    concurrency: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)] = Field(
        1,
        description="Members of a pod, 1 to 64: Kafka Streams' num.stream.threads or Spring's concurrency, whose "
        "clients append a number to the id (-1 to -N, -0 to -(N-1)). Default 1. Must match the client, or its extra "
        "members count as foreign.",
    )
    suffixes: Annotated[
        list[Annotated[str, StringConstraints(max_length=40, pattern=_CLIENT_SUFFIX_PATTERN)]],
        Field(max_length=CONCURRENCY_MAX),
    ] = Field(
        [],
        description='What the client itself appends to the id, one entry for each member of a pod, "" for nothing, '
        "else beginning with a separator (. _ or -). Default: what clients of this type append. Needed for a client "
        'that does otherwise, such as [""] for Spring with alwaysClientIdSuffix false.',
        json_schema_extra=SET,
    )
    env: Annotated[list[EnvEntry], Field(max_length=ENV_ENTRIES_MAX)] = Field(
        [],
        description="Variables to inject, one entry for each consumer of a pod, at most 8; with type Custom, or in "
        "place of those of KafkaStreams or Connect. Default: those of the type. Variables of the same name in the pod "
        "are replaced. With type Own: where the application's ids and timeouts stand; nothing is written.",
        json_schema_extra=ATOMIC,
    )
    inject_agent: bool = Field(
        False,
        description="True: with the id, the next pods of Connect workers get an init container of the operator's image "
        "that brings the agent, a volume, and -javaagent behind the KAFKA_OPTS of the worker's container, which must "
        "stand there as text, if only empty; with type Debezium it may be absent. Default false: the agent is in the "
        "pod template.",
    )
