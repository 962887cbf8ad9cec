"""What the owner of a ClusterKafkaConnection allows a StaticGroup; one with a connection of its own namespace may do as it likes."""

from __future__ import annotations

from ...api.resources.clusterkafkaconnection import AllowedNamespaces, ClusterKafkaConnection
from ...api.resources.staticgroup import StaticGroup
from ...core.allowance import entries_of
from ...core.group import KafkaProblem, KafkaProblemKind
from ..stores import Stores


def refusal(stores: Stores, group: StaticGroup) -> KafkaProblem | None:
    """Say why a StaticGroup may not use its connection; None where it may, or where the connection itself is lacking or wrong."""
    ref, namespace = group.spec.connection_ref, group.metadata.namespace
    if ref.key(namespace)[0]:
        return None
    if stores.cluster_connections_problem:
        text = f"ClusterKafkaConnection {ref.name} cannot be read: {stores.cluster_connections_problem}"
        return KafkaProblem(kind=KafkaProblemKind.CONNECTION_MISSING, message=text)
    connection, found = stores.connections.get(ref.key(namespace)), _entries(stores, group)
    if not isinstance(connection, ClusterKafkaConnection) or any(e.has_group(group.spec.group_id) for e in found):
        return None
    if found:
        prefixes = ", ".join(sorted({prefix for e in found for prefix in e.group_prefixes}))
        text = f"ClusterKafkaConnection {ref.name} allows namespace {namespace} no group {group.spec.group_id}, only those that begin with {prefixes}: "
        text += "correct spec.groupId, or have the owner of the connection add a prefix to groupPrefixes in spec.allowedNamespaces"
        return KafkaProblem(kind=KafkaProblemKind.GROUP_NOT_ALLOWED, message=text)
    text = f"ClusterKafkaConnection {ref.name} does not allow namespace {namespace}: its owner adds the namespace to"
    text = f"{text} spec.allowedNamespaces"
    if stores.namespaces.problem and any(e.selector is not None for e in connection.spec.allowed_namespaces):
        text = f"{text} by name, because labels of namespaces cannot be read ({stores.namespaces.problem})"
    return KafkaProblem(kind=KafkaProblemKind.NAMESPACE_NOT_ALLOWED, message=text)


def may_use(stores: Stores, group: StaticGroup) -> bool:
    """Tell whether a StaticGroup may use its connection now; of its own namespace it always may."""
    key = group.spec.connection_ref.key(group.metadata.namespace)
    return bool(key[0]) or (key in stores.connections and refusal(stores, group) is None)


def may_be_exclusive(stores: Stores, group: StaticGroup) -> bool:
    """Tell whether `identity.exclusive` counts: members are removed by that word alone, and here with credentials of somebody else."""
    is_own = bool(group.spec.connection_ref.key(group.metadata.namespace)[0])
    return is_own or any(e.allow_exclusive and e.has_group(group.spec.group_id) for e in _entries(stores, group))


def _entries(stores: Stores, group: StaticGroup) -> tuple[AllowedNamespaces, ...]:
    """Return what a ClusterKafkaConnection says of the namespace of a StaticGroup."""
    namespace = group.metadata.namespace
    connection = stores.connections.get(group.spec.connection_ref.key(namespace))
    if not isinstance(connection, ClusterKafkaConnection):
        return ()
    return entries_of(connection.spec.allowed_namespaces, namespace, stores.namespaces.labels_of(namespace))
