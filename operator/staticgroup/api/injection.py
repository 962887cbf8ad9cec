"""Settle what a pod receives: the contract between the spec, the operator's status and the admission policy.

The one idea: the operator resolves the spec into flat lists (annotations with their suffix, variables with their value
or the annotation they read), so that the policy's CEL has nothing to decide. An id is composed of the pod's name, which
nothing changes while the pod lives; annotations and labels can be edited and are read again when a container starts. A
literal would be copied into debug copies of a pod, which would then fence the original: a copy has another name, and so
another id.
Source: `$(VAR)` in EnvVar.Value of core/v1.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from . import names
from .identifiers import SuffixStyle
from .protocols import RoleChoice
from .resources.durable import (
    INJECTED_VALUE_MAX,
    InjectedEnv,
    InjectedId,
    InjectedMethod,
    InjectedStatus,
    InjectedWorker,
)
from .resources.identity import IMPLIED_SUFFIXES, AgentSource, EnvEntry, Identity, InjectionMethod, Preset
from .resources.staticgroup import StaticGroupSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvNames:
    """Name the two variables of one consumer.

    Parameters
    ----------
    instance_id: Read by the client as group.instance.id.
    session_timeout: Read by the client as session.timeout.ms, in milliseconds.
    """

    instance_id: str
    session_timeout: str


_POD_NAME: Final = "{podName}"
ENTRIES_KEPT: Final = 64
_DEBEZIUM_HOST: Final = "ADVERTISED_HOST_NAME"
"""Debezium's image makes rest.advertised.host.name of it; without it, it takes the pod's address."""
_CONSTANT: Final = re.compile(r"[a-zA-Z0-9._-]*")


def identity_of(spec: StaticGroupSpec) -> Identity:
    """Return the identity that a spec asks for, with what its role implies in the place of defaults.

    Every function here takes this one. An application of Kafka Streams gives each thread the id that it was given and
    -1 to -N (StreamsConfig.getMainConsumerConfigs), whatever its variables are called.
    """
    wish = spec.identity
    if spec.role is RoleChoice.CONNECT and wish.preset is Preset.GENERIC and not wish.env:
        return wish.model_copy(update={"preset": Preset.CONNECT})
    if spec.role is not RoleChoice.STREAMS:
        return wish
    implied: dict[str, object] = {}
    if wish.preset is Preset.GENERIC and not wish.env:
        implied["preset"] = Preset.KAFKA_STREAMS
    if wish.suffix is SuffixStyle.AUTO:
        implied["suffix"] = SuffixStyle.STREAMS
    return wish.model_copy(update=implied)


def implied_preset(spec: StaticGroupSpec) -> Preset | None:
    """Return the preset that a spec asks for by its role alone; None where it says itself which."""
    preset = identity_of(spec).preset
    return preset if preset is not spec.identity.preset else None


def env_names(preset: Preset) -> EnvNames | None:
    """Name the variables that a framework reads; None for Custom: then `identity.env` names them.

    Spring Boot binds the map `spring.kafka.consumer.properties` from the environment, underscores becoming dots;
    Quarkus reads `KAFKA_*` into its default broker configuration (KafkaRuntimeConfigProducer), and `kafka-streams.…`
    into that of Kafka Streams (KafkaStreamsPropertiesUtil): from a variable `KAFKA_STREAMS_…` only where the
    application declares the key.
    librdkafka reads no environment: the application hands the two values on.
    """
    match preset:
        case Preset.GENERIC | Preset.LIBRDKAFKA | Preset.QUARKUS:
            return _names_of("KAFKA")
        case Preset.SPRING_BOOT:
            return _names_of("SPRING_KAFKA_CONSUMER_PROPERTIES")
        case Preset.KAFKA_STREAMS:
            return _names_of("KAFKA_STREAMS")
        case Preset.CONNECT | Preset.DEBEZIUM:  # Settings of connect_agent
            return EnvNames(
                instance_id="STATICGROUP_CONNECT_INSTANCE_ID", session_timeout="STATICGROUP_CONNECT_SESSION_TIMEOUT_MS"
            )
        case Preset.CUSTOM:
            return None


def _names_of(prefix: str) -> EnvNames:
    return EnvNames(instance_id=f"{prefix}_GROUP_INSTANCE_ID", session_timeout=f"{prefix}_SESSION_TIMEOUT_MS")


def env_entries(identity: Identity) -> tuple[EnvEntry, ...]:
    """List the consumers of a pod with their variables, whether the user or the preset named them; never empty.

    Raises
    ------
    ValueError: When preset is Custom and env is empty, which the API server refuses too.
    """
    return tuple(identity.env) if identity.env else _entries_of(identity.preset, identity.container)


@lru_cache(maxsize=ENTRIES_KEPT)
def _entries_of(preset: Preset, container: str | None) -> tuple[EnvEntry, ...]:
    """Return the one consumer that a preset names."""
    preset_names = env_names(preset)
    if preset_names is None:
        raise ValueError("spec.identity.env must name the variables when preset is Custom")
    return (
        EnvEntry(
            container=container,
            instance_id_name=preset_names.instance_id,
            session_timeout_name=preset_names.session_timeout,
        ),
    )


def env_suffixes(identity: Identity) -> tuple[str, ...]:
    """List the suffixes of a pod's consumers, for `IdScheme`; `("",)` for the usual single consumer."""
    return tuple(entry.suffix for entry in env_entries(identity))


def injector(wish: InjectionMethod, *, policy_served: bool, webhook_served: bool) -> InjectedMethod:
    """Return what injects the ids that a spec asks for, None where nothing does.

    Parameters
    ----------
    wish: `spec.identity.method`.
    policy_served: the API server serves MutatingAdmissionPolicy v1, and ours is installed (KEP-3962, Kubernetes 1.36).
    webhook_served: our MutatingWebhookConfiguration is installed and trusts the operator's certificate.

    Notes
    -----
    Auto prefers the policy, which is in the API server and so there whenever a pod is created.
    """
    if policy_served and wish in (InjectionMethod.AUTO, InjectionMethod.POLICY):
        return InjectedMethod.POLICY
    if webhook_served and wish in (InjectionMethod.AUTO, InjectionMethod.WEBHOOK):
        return InjectedMethod.WEBHOOK
    return InjectedMethod.NONE


def suffix_follows_preset(identity: Identity, before: bool | None) -> bool:
    """Tell whether suffix Auto stands for what the preset's client appends, or for nothing.

    Parameters
    ----------
    before: What `status.injected.suffixFollowsPreset` says, False where it is absent; None while no id was issued.

    Returns
    -------
    False where ids were issued with suffix None and nothing else was asked for since. None was the default once, and an
    API server applies today's default where the field is left out: a manifest that is replaced, or taken over by
    server-side apply, would otherwise give other ids to members that run.

    Notes
    -----
    The answer may be asked again of itself: with it as `before`, it is the same.
    """
    if before or identity.members_per_pod > 1:  # several members of a pod cannot have been issued one id
        return True
    if identity.suffix is SuffixStyle.AUTO:
        return before is None or identity.preset not in IMPLIED_SUFFIXES
    return identity.suffix is not SuffixStyle.NONE


def suffix_in_force(identity: Identity, before: bool | None) -> SuffixStyle:
    """Resolve what the client appends to its id, never to Auto; parameters as for `suffix_follows_preset`."""
    if identity.suffix is not SuffixStyle.AUTO:
        return identity.suffix
    implied = IMPLIED_SUFFIXES.get(identity.preset, SuffixStyle.NONE)
    return implied if suffix_follows_preset(identity, before) else SuffixStyle.NONE


def follows_annotation(identity: Identity, id_template: str) -> bool:
    """Tell whether a pod's id changes when somebody edits the pod's annotations and a container starts again.

    Parameters
    ----------
    id_template: See `identifiers.resolve_template`.

    Returns
    -------
    False when the id is composed of the pod's name and constants. True for a template with `{ordinal}`, which only a
    label tells, and when the spec itself names the variable that ids are composed of.
    """
    if not _CONSTANT.fullmatch(id_template.replace(_POD_NAME, "")):
        return True
    return any(
        names.POD_NAME_VARIABLE in (entry.instance_id_name, entry.session_timeout_name)
        for entry in env_entries(identity)
    )


def _composed(id_template: str, suffix: str) -> str | None:
    """Write the value of which the kubelet makes the id; None when it does not fit into the status."""
    value = id_template.replace(_POD_NAME, f"$({names.POD_NAME_VARIABLE})") + suffix
    return value if len(value) <= INJECTED_VALUE_MAX else None


def resolve_injected(
    identity: Identity,
    *,
    method: InjectedMethod,
    scope: str,
    id_template: str,
    session_timeout_ms: int | None,
    suffix_follows_preset: bool = False,
) -> InjectedStatus:
    """Resolve the spec into what the admission policy injects.

    Parameters
    ----------
    method: In force: Auto already decided.
    scope: 8 hex digits, see `identifiers.identity_scope`.
    id_template: See `identifiers.resolve_template`.
    session_timeout_ms: In milliseconds, from 1; None: not injected (KIP-848 clients refuse to start with one).
    suffix_follows_preset: See the function of that name.

    Returns
    -------
    For `status.injected`. Composed ids name their annotation too, which repeats them.
    """
    return InjectedStatus(
        scope=scope,
        method=method,
        id_template=id_template,
        session_timeout_ms=session_timeout_ms,
        suffix_follows_preset=suffix_follows_preset or None,
        ids=[InjectedId(annotation=instance_id_annotation(suffix), suffix=suffix) for suffix in env_suffixes(identity)],
        env=_variables(identity, id_template, has_timeout=session_timeout_ms is not None),
        worker=_worker(identity),
    )


def options_may_be_absent(identity: Identity) -> bool:
    """Tell whether KAFKA_OPTS may be written into a container that has none: whether its image is known to set none.

    A variable of a pod replaces that of its image. Debezium's images set none (Dockerfiles kafka and connect-base), and
    their entry point adds to what it finds; only the user knows about other images.
    """
    return identity.preset is Preset.DEBEZIUM


def _worker(identity: Identity) -> InjectedWorker | None:
    """Resolve what a Connect worker's container receives besides its variables; None where it is nothing."""
    is_injected, is_debezium = identity.agent is AgentSource.INJECT, identity.preset is Preset.DEBEZIUM
    if not is_injected and not is_debezium:
        return None
    return InjectedWorker(
        container=identity.container or "",
        agent=is_injected,
        options_may_be_absent=options_may_be_absent(identity),
        host_variable=_DEBEZIUM_HOST if is_debezium else "",
    )


def _variables(identity: Identity, id_template: str, *, has_timeout: bool) -> list[InjectedEnv]:
    composes = not follows_annotation(identity, id_template)
    variables: list[InjectedEnv] = []
    for entry in env_entries(identity):
        container = entry.container or ""
        key = instance_id_annotation(entry.suffix)
        value = _composed(id_template, entry.suffix) if composes else None
        variables.append(InjectedEnv(container=container, name=entry.instance_id_name, annotation=key, value=value))
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
    suffix: The suffix of one `identity.env` entry: empty, or a separator (`.`, `_` or `-`) followed by a name that
        begins and ends with a letter or digit, at most 40 characters in all.

    Returns
    -------
    `staticgroup.io/instance-id`, or `staticgroup.io/instance-id.<name>` without the separator: an annotation name has
    at most 63 characters and may not end in a separator.
    """
    return f"{names.INSTANCE_ID_ANNOTATION}.{suffix[1:]}" if suffix else names.INSTANCE_ID_ANNOTATION
