"""Settle what a pod receives: the contract between the spec, the operator's status and the admission policy.

The one idea: the operator resolves the spec into flat lists (annotations with their suffix, variables with their value
or the annotation they read), so that the policy's CEL has nothing to decide. An id is composed of the pod's name, which
nothing changes while the pod lives; annotations and labels can be edited and are read again when a container starts. A
literal would be copied into debug copies of a pod, which would then fence the original: a copy has another name, and so
another id.
Source: `$(VAR)` in EnvVar.Value of core/v1.
"""

import re
from functools import lru_cache
from typing import Final

from . import names
from .resources.client import NUMBERS_ITS_MEMBERS, Client, ClientType, EnvEntry
from .resources.injected import (
    INJECTED_VALUE_MAX,
    InjectedEnv,
    InjectedId,
    InjectedMethod,
    InjectedStatus,
    InjectedWorker,
)

_POD_NAME: Final = "{podName}"
_DEBEZIUM_HOST: Final = "ADVERTISED_HOST_NAME"
"""Debezium's image makes rest.advertised.host.name of it; without it, it takes the pod's address."""
_CONSTANT: Final = re.compile(r"[a-zA-Z0-9._-]*")
_KAFKA: Final = ("KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS")
# Settings of connect_agent.
_AGENT: Final = ("STATICGROUP_CONNECT_INSTANCE_ID", "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS")
_SPRING: Final = "SPRING_KAFKA_CONSUMER_PROPERTIES"
_NAMES: Final = {
    ClientType.GENERIC: _KAFKA,
    ClientType.QUARKUS: _KAFKA,
    ClientType.OWN: _KAFKA,
    ClientType.SPRING_BOOT: (f"{_SPRING}_GROUP_INSTANCE_ID", f"{_SPRING}_SESSION_TIMEOUT_MS"),
    ClientType.KAFKA_STREAMS: ("KAFKA_STREAMS_GROUP_INSTANCE_ID", "KAFKA_STREAMS_SESSION_TIMEOUT_MS"),
    ClientType.CONNECT: _AGENT,
    ClientType.DEBEZIUM: _AGENT,
}
"""Variables that a framework reads as group.instance.id and as session.timeout.ms, in milliseconds; none for Custom.

Spring Boot binds the map `spring.kafka.consumer.properties` from the environment, underscores becoming dots;
Quarkus reads `KAFKA_*` into its default broker configuration (KafkaRuntimeConfigProducer), and `kafka-streams.…`
into that of Kafka Streams (KafkaStreamsPropertiesUtil): from a variable `KAFKA_STREAMS_…` only where the
application declares the key. librdkafka reads no environment: the application hands the two values on.
"""


def env_entries(client: Client) -> tuple[EnvEntry, ...]:
    """List the consumers of a pod with their variables, whether the user or the client's type named them; never empty.

    Raises
    ------
    ValueError: When type is Custom and env is empty, which the API server refuses too.
    """
    return tuple(client.env) if client.env else _entries_of(client.type, client.container)


@lru_cache(maxsize=64)
def _entries_of(client_type: ClientType, container: str | None) -> tuple[EnvEntry, ...]:
    """Return the one consumer that a type names."""
    if client_type is ClientType.CUSTOM:
        raise ValueError("spec.client.env must name the variables when type is Custom")
    instance_id_name, session_timeout_name = _NAMES[client_type]
    entry = EnvEntry(
        container=container, instance_id_name=instance_id_name, session_timeout_name=session_timeout_name
    )
    return (entry,)


def env_suffixes(client: Client) -> tuple[str, ...]:
    """List the suffixes of a pod's consumers, for `IdScheme`; `("",)` for the usual single consumer."""
    return tuple(entry.suffix for entry in env_entries(client))


def client_suffixes(client: Client) -> tuple[str, ...]:
    """List what the client appends to the id it is given, one entry for each member; `("",)` when it appends nothing.

    Notes
    -----
    `StreamsConfig.getMainConsumerConfigs` appends `-1` to `-N`, also with one thread; Spring's
    `ConcurrentMessageListenerContainer` with `alwaysClientIdSuffix` `-0` to `-(N-1)`, also at concurrency 1, and
    `KafkaMessageListenerContainer.checkGroupInstance` appends it to the id too.
    """
    if client.suffixes:
        return tuple(client.suffixes)
    if client.type not in NUMBERS_ITS_MEMBERS:
        return ("",)
    first = 1 if client.type is ClientType.KAFKA_STREAMS else 0
    return tuple(f"-{number}" for number in range(first, first + client.concurrency))


def injector(*, policy_served: bool, webhook_served: bool) -> InjectedMethod:
    """Return what injects ids, None where nothing does.

    Parameters
    ----------
    policy_served: the API server serves MutatingAdmissionPolicy v1, and ours is installed (KEP-3962, Kubernetes 1.36).
    webhook_served: our MutatingWebhookConfiguration is installed and trusts the operator's certificate.

    Notes
    -----
    The policy comes first, because it is in the API server and so there whenever a pod is created.
    """
    if policy_served:
        return InjectedMethod.POLICY
    return InjectedMethod.WEBHOOK if webhook_served else InjectedMethod.NONE


def follows_annotation(client: Client, id_template: str) -> bool:
    """Tell whether a pod's id changes when somebody edits the pod's annotations and a container starts again.

    Returns
    -------
    False when the id is composed of the pod's name and constants. True for a template with `{ordinal}`, which only a
    label tells, and when the spec itself names the variable that ids are composed of.
    """
    if not _CONSTANT.fullmatch(id_template.replace(_POD_NAME, "")):
        return True
    return any(
        names.POD_NAME_VARIABLE in (entry.instance_id_name, entry.session_timeout_name)
        for entry in env_entries(client)
    )


def _composed(id_template: str, suffix: str) -> str | None:
    """Write the value of which the kubelet makes the id; None when it does not fit into the status."""
    value = id_template.replace(_POD_NAME, f"$({names.POD_NAME_VARIABLE})") + suffix
    return value if len(value) <= INJECTED_VALUE_MAX else None


def resolve_injected(
    client: Client,
    *,
    method: InjectedMethod,
    scope: str,
    id_template: str,
    session_timeout_ms: int | None,
    container: str = "",
    by_slot: bool = False,
) -> InjectedStatus:
    """Resolve the spec into what the admission policy injects.

    Parameters
    ----------
    scope: 8 hex digits, see `identifiers.identity_scope`.
    id_template: See `identifiers.resolve_template`.
    session_timeout_ms: In milliseconds, from 1; None: not injected (KIP-848 clients refuse to start with one).
    container: Receives the variables that name none; empty: the first one.
    by_slot: The pods are a Deployment's, so their variables read the file of their slot.

    Returns
    -------
    For `status.injected`. Composed ids name their annotation too, which repeats them.
    """
    return InjectedStatus(
        scope=scope,
        method=method,
        id_template=id_template,
        session_timeout_ms=session_timeout_ms,
        container=container,
        ids=[InjectedId(annotation=instance_id_annotation(suffix), suffix=suffix) for suffix in env_suffixes(client)],
        env=_variables(client, id_template, container, has_timeout=session_timeout_ms is not None, by_slot=by_slot),
        worker=_worker(client, container),
    )


def options_may_be_absent(client: Client) -> bool:
    """Tell whether KAFKA_OPTS may be written into a container that has none: whether its image is known to set none.

    A variable of a pod replaces that of its image. Debezium's images set none (Dockerfiles kafka and connect-base), and
    their entry point adds to what it finds; only the user knows about other images.
    """
    return client.type is ClientType.DEBEZIUM


def _worker(client: Client, container: str) -> InjectedWorker | None:
    """Resolve what a Connect worker's container receives besides its variables; None where it is nothing."""
    is_injected, is_debezium = client.inject_agent, client.type is ClientType.DEBEZIUM
    if not is_injected and not is_debezium:
        return None
    return InjectedWorker(
        container=client.container or container,
        agent=is_injected,
        options_may_be_absent=options_may_be_absent(client),
        host_variable=_DEBEZIUM_HOST if is_debezium else "",
    )


def _variables(
    client: Client, id_template: str, chosen: str, *, has_timeout: bool, by_slot: bool
) -> list[InjectedEnv]:
    composes = not follows_annotation(client, id_template)
    variables: list[InjectedEnv] = []
    for number, entry in enumerate(env_entries(client)):
        container = entry.container or chosen
        annotation = instance_id_annotation(entry.suffix)
        value, key = _composed(id_template, entry.suffix) if composes else None, None
        if by_slot:
            value, key = id_template.replace(_POD_NAME, "%s") + entry.suffix, f"ID_{number}"
        name = entry.instance_id_name
        variables.append(InjectedEnv(container=container, name=name, annotation=annotation, value=value, key=key))
        if entry.session_timeout_name and has_timeout:
            name = entry.session_timeout_name
            timeout = InjectedEnv(container=container, name=name, annotation=names.SESSION_TIMEOUT_ANNOTATION)
            if timeout not in variables:  # two consumers of a container may share the one timeout variable
                variables.append(timeout)
    return variables


def instance_id_annotation(suffix: str) -> str:
    """Name the pod annotation that carries the id issued with this env suffix.

    Parameters
    ----------
    suffix: The suffix of one `client.env` entry: empty, or a separator (`.`, `_` or `-`) followed by a name that
        begins and ends with a letter or digit, at most 40 characters in all.

    Returns
    -------
    `staticgroup.io/instance-id`, or `staticgroup.io/instance-id.<name>` without the separator: an annotation name has
    at most 63 characters and may not end in a separator.
    """
    return f"{names.INSTANCE_ID_ANNOTATION}.{suffix[1:]}" if suffix else names.INSTANCE_ID_ANNOTATION
