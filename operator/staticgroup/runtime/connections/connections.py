"""Whether a StaticGroup may use its connection, and the settings of that, made of its Secrets without a watch of them.

The operator holds only `get` on Secrets. It uses a Secret for a short while and reads it again, so a rotated one needs
no restart; an authentication failure drops it at once. The owner of a ClusterKafkaConnection decides which namespaces
and groups may use it; a KafkaConnection is for its own namespace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...api.resources.clusterkafkaconnection import AllowedNamespaces, ClusterKafkaConnection
from ...api.resources.kafkaconnection import Connection, KafkaConnectionSpec
from ...api.resources.staticgroup import StaticGroup
from ...core.allowance import entries_of
from ...core.group import KafkaProblem, KafkaProblemKind
from ...kafka.login.credentials import ConnectionSettings, resolve
from ...kafka.login.shared_credentials import SharedCredentials
from ...kube.gateway import KubeGateway
from ...kube.problem import KubeProblem
from ..stores import Stores, connection_of
from ..work_queue import Key

RETIRED_MAX = 64
"""Settings whose secrets were rotated away and may still appear in a late log line."""


@dataclass(slots=True)
class Connections:
    """Resolve connections to settings.

    Parameters
    ----------
    max_age_s: how long a read Secret is used.
    allow_loopback: whether a KafkaConnection may allow itself brokers at loopback and link-local addresses.
    shared: tokens and AWS identities that namespaces may log in with.
    own_namespace: the operator's, where the Secrets of a ClusterKafkaConnection are that names no other.
    """

    kube: KubeGateway
    stores: Stores
    monotonic_s: Callable[[], float]
    max_age_s: float = 20.0
    allow_loopback: bool = False
    shared: SharedCredentials = field(default_factory=SharedCredentials)
    own_namespace: str = ""
    _secrets: dict[Key, tuple[Mapping[str, bytes], float]] = field(default_factory=dict)
    """Each with the time when it was read, monotonic seconds."""
    _locks: dict[Key, asyncio.Lock] = field(default_factory=dict)
    _resolved: dict[Key, ConnectionSettings] = field(default_factory=dict)
    _made_of: dict[Key, tuple[Connection, Mapping[str, Mapping[str, bytes]]]] = field(default_factory=dict)
    _retired: deque[ConnectionSettings] = field(default_factory=lambda: deque(maxlen=RETIRED_MAX))

    async def settings_for(self, group: StaticGroup) -> ConnectionSettings | KafkaProblem:
        """Return the settings of the connection that a StaticGroup names, or why it gets none."""
        key = connection_of(group.spec, group.metadata.namespace)
        settings = refusal(self.stores, group) or await self.settings(key)
        return refusal(self.stores, group) or settings  # it may have been taken away while Secrets were read

    async def settings(self, key: Key) -> ConnectionSettings | KafkaProblem:
        """Return the settings of a connection, or why there are none; whether it may be used is not checked here.

        Parameters
        ----------
        key: (namespace, name) of the KafkaConnection; its Secrets are read only from that namespace. An empty one
            means a ClusterKafkaConnection, whose Secrets are read from the one that it names, or the operator's.
        """
        shown = f"KafkaConnection {key[0]}/{key[1]}" if key[0] else f"ClusterKafkaConnection {key[1]}"
        if key in self.stores.invalid_connections:
            return KafkaProblem(
                kind=KafkaProblemKind.CONNECTION_INVALID,
                message=f"{shown} is invalid: {self.stores.invalid_connections[key]}",
            )
        connection = self.stores.connections.get(key)
        if connection is None:
            return KafkaProblem(
                kind=KafkaProblemKind.CONNECTION_MISSING,
                message=f"{shown} does not exist. Create it or correct spec.connectionRef.name.",
            )
        namespace = self._secret_namespace(connection)
        contents: dict[str, Mapping[str, bytes]] = {}
        for name in secret_names(connection.spec):
            content = await self._secret((namespace, name))
            if isinstance(content, KubeProblem):
                return KafkaProblem(
                    kind=KafkaProblemKind.SECRET_MISSING, message=f"Secret {name} could not be read: {content.message}"
                )
            if content is not None:
                contents[name] = content
        if self._made_of.get(key) == (connection, contents):  # each round of each StaticGroup asks
            return self._resolved[key]
        settings = resolve(
            connection.spec,
            contents,
            namespace=namespace,
            name="/".join(key) if key[0] else f"{connection.kind}/{key[1]}",
            allow_loopback=self.allow_loopback,
            shared=self.shared,
        )
        if isinstance(settings, ConnectionSettings):
            before = self._resolved.get(key)
            if before is not None and before.fingerprint != settings.fingerprint:
                self._retired.append(before)
            self._resolved[key], self._made_of[key] = settings, (connection, contents)
        return settings

    def _secret_namespace(self, connection: Connection) -> str:
        """Return the only namespace from which Secrets of a connection are read."""
        if isinstance(connection, ClusterKafkaConnection):
            return connection.spec.secret_namespace or self.own_namespace
        return connection.metadata.namespace

    async def _secret(self, key: Key) -> Mapping[str, bytes] | KubeProblem | None:
        """Return a Secret's content, read at most every `max_age_s`; None when it does not exist."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            known, read_at_s = self._secrets.get(key, (None, 0.0))
            if known is not None and self.monotonic_s() - read_at_s < self.max_age_s:
                return known
            self._secrets.pop(key, None)
            content = await self.kube.read_secret(*key)
            if content is not None and not isinstance(content, KubeProblem):
                self._secrets[key] = content, self.monotonic_s()
            return content

    def distrust(self, key: Key) -> None:
        """Read the connection's Secrets again next time, after the broker refused them."""
        connection = self.stores.connections.get(key)
        if connection is None:
            return
        for name in secret_names(connection.spec):
            self._secrets.pop((self._secret_namespace(connection), name), None)

    def forget(self, key: Key) -> None:
        """Drop what is held of a connection that is gone; its secrets stay masked for a while."""
        self.distrust(key)
        self._made_of.pop(key, None)
        gone = self._resolved.pop(key, None)
        if gone is not None:
            self._retired.append(gone)

    def secret_texts(self) -> Iterator[str]:
        """Yield every secret value held now or lately, for the log filter."""
        for settings in (*self._resolved.values(), *self._retired):
            if settings.tls is not None and settings.tls.key_pem is not None:
                yield settings.tls.key_pem.reveal()
            if settings.sasl is not None:
                yield settings.sasl.password.reveal()
                if settings.sasl.oauth is not None:
                    yield settings.sasl.oauth.client_secret.reveal()


def secret_names(spec: KafkaConnectionSpec) -> tuple[str, ...]:
    """List the Secrets that `resolve` needs, each once."""
    references = [spec.tls.ca_secret_ref, spec.tls.client_certificate_secret_ref] if spec.tls.enabled else []
    oauth = spec.sasl.oauth if spec.sasl else None
    logins = [spec.sasl.credentials_secret_ref if spec.sasl else None, oauth.client_secret_ref if oauth else None]
    return tuple(dict.fromkeys(each.name for each in (*references, *logins) if each))


def refusal(stores: Stores, group: StaticGroup) -> KafkaProblem | None:
    """Say why a StaticGroup may not use its connection; None if it may, or if the connection is absent or wrong."""
    ref, namespace = group.spec.connection_ref, group.metadata.namespace
    if connection_of(group.spec, namespace)[0]:
        return None
    if stores.cluster_connections_problem:
        text = f"ClusterKafkaConnection {ref.name} cannot be read: {stores.cluster_connections_problem}"
        return KafkaProblem(kind=KafkaProblemKind.CONNECTION_MISSING, message=text)
    connection, found = stores.connections.get(connection_of(group.spec, namespace)), _entries(stores, group)
    if not isinstance(connection, ClusterKafkaConnection) or any(e.has_group(group.spec.group_id) for e in found):
        return None
    if found:
        prefixes = ", ".join(sorted({prefix for e in found for prefix in e.group_prefixes}))
        text = f"ClusterKafkaConnection {ref.name} allows namespace {namespace} no group {group.spec.group_id}, "
        text += f"only those that begin with {prefixes}: create a StaticGroup of such a group, or have its owner "
        text += "add a prefix to groupPrefixes in spec.allowedNamespaces"
        return KafkaProblem(kind=KafkaProblemKind.GROUP_NOT_ALLOWED, message=text)
    text = f"ClusterKafkaConnection {ref.name} does not allow namespace {namespace}: "
    text += "have its owner add the namespace to spec.allowedNamespaces"
    if stores.namespaces.problem and any(e.selector is not None for e in connection.spec.allowed_namespaces):
        text = f"{text} by name, because labels of namespaces cannot be read ({stores.namespaces.problem})"
    return KafkaProblem(kind=KafkaProblemKind.NAMESPACE_NOT_ALLOWED, message=text)


def may_use(stores: Stores, group: StaticGroup) -> bool:
    """Return whether a StaticGroup may use its connection now; always true for one of its own namespace."""
    key = connection_of(group.spec, group.metadata.namespace)
    return bool(key[0]) or (key in stores.connections and refusal(stores, group) is None)


def may_be_exclusive(stores: Stores, group: StaticGroup) -> bool:
    """Return whether `assumeExclusive` counts: it alone removes members, here with another owner's credentials."""
    is_own = bool(connection_of(group.spec, group.metadata.namespace)[0])
    return is_own or any(e.allow_exclusive and e.has_group(group.spec.group_id) for e in _entries(stores, group))


def _entries(stores: Stores, group: StaticGroup) -> tuple[AllowedNamespaces, ...]:
    """Return what a ClusterKafkaConnection allows the namespace of a StaticGroup."""
    namespace = group.metadata.namespace
    connection = stores.connections.get(connection_of(group.spec, namespace))
    if not isinstance(connection, ClusterKafkaConnection):
        return ()
    return entries_of(connection.spec.allowed_namespaces, namespace, stores.namespaces.labels_of(namespace))
