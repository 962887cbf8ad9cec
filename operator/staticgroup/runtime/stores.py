"""What the watches have shown: StaticGroups, KafkaConnections and workloads, parsed once at the edge.

The informers put objects in, and under one name the end of one before its successor; the reconciler reads them. Nothing
here decides, and nothing destructive is decided from here: departures are confirmed by consistent reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ..api.reasons import Reason
from ..api.resources.clusterkafkaconnection import ClusterKafkaConnection
from ..api.resources.kafkaconnection import Connection, KafkaConnection
from ..api.resources.staticgroup import ConnectionKind, StaticGroup, StaticGroupSpec
from ..api.workloads import STATEFUL_SET
from ..core.ids.naming import Naming
from ..core.ids.schemes import schemes_of
from ..core.workload import WorkloadView
from ..kube.namespaces import Namespaces
from .work_queue import Key

Name = TypeVar("Name")


def violations(error: ValidationError) -> str:
    """Say in one line which fields of an object are wrong, without repeating their values."""
    parts = [
        f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}"
        for e in error.errors(include_input=False, include_url=False)
    ]
    return "; ".join(parts)[:500]


def uid_of(body: dict[str, Any]) -> str:
    """Return the uid of a raw object."""
    return str((body.get("metadata") or {}).get("uid", ""))


def connection_of(spec: StaticGroupSpec, namespace: str) -> Key:
    """Return (namespace, name) of the connection of a StaticGroup; the namespace is empty where it has none."""
    ref = spec.connection_ref
    return "" if ref.kind is ConnectionKind.CLUSTER_KAFKA_CONNECTION else namespace, ref.name


@dataclass(slots=True)
class Stores:
    """Objects by (namespace, name), each the newest version its watch delivered.

    Attributes
    ----------
    connections: KafkaConnections, and with an empty namespace ClusterKafkaConnections.
    cluster_connections_problem: why ClusterKafkaConnections cannot be read; empty while they can.
    """

    groups: dict[Key, StaticGroup] = field(default_factory=dict)
    invalid_groups: dict[Key, str] = field(default_factory=dict)
    group_uids: dict[Key, str] = field(default_factory=dict)
    connections: dict[Key, Connection] = field(default_factory=dict)
    invalid_connections: dict[Key, str] = field(default_factory=dict)
    cluster_connections_problem: str = ""
    namespaces: Namespaces = field(default_factory=Namespaces)
    workloads: dict[Key, WorkloadView] = field(default_factory=dict)
    by_workload: dict[Key, set[Key]] = field(default_factory=dict)
    by_connection: dict[Key, set[Key]] = field(default_factory=dict)
    _workload_of_invalid: dict[Key, Key] = field(default_factory=dict)
    group_id_of_invalid: dict[Key, str] = field(default_factory=dict)
    by_group_id: dict[str, set[Key]] = field(default_factory=dict)
    _namings: dict[Key, tuple[StaticGroup | None, Naming]] = field(default_factory=dict)

    def put_group(self, key: Key, body: dict[str, Any]) -> bool:
        """Store a StaticGroup.

        Returns
        -------
        True when a round is due: it is new, its spec changed, or another uid took its name. A change of status alone,
        which is mostly our own write, is stored and asks for nothing.
        """
        before = self.groups.get(key)
        try:
            group = StaticGroup.from_wire(body)
        except ValidationError as error:
            self._drop_group(key)
            self.invalid_groups[key] = violations(error)
            self.group_uids[key] = uid_of(body)
            # Its pods may carry ids all the same, and a version that can read it again goes on from its status.
            spec = body.get("spec") or {}
            if isinstance(spec.get("groupId"), str):
                self.group_id_of_invalid[key] = spec["groupId"]
            name = (spec.get("workloadRef") or {}).get("name")
            if isinstance(name, str):
                self._workload_of_invalid[key] = (key[0], name)
                self.by_workload.setdefault((key[0], name), set()).add(key)
            return True
        self._unlink_invalid(key)
        self.group_uids[key] = uid_of(body)
        if before is not None:
            self._unlink(key, before)
            if before.spec == group.spec:  # nearly always: each write of a status shows the object anew
                group = group.model_copy(update={"spec": before.spec})
        self.groups[key] = group
        self.by_workload.setdefault((key[0], group.spec.workload_ref.name), set()).add(key)
        self.by_connection.setdefault(connection_of(group.spec, key[0]), set()).add(key)
        self.by_group_id.setdefault(group.spec.group_id, set()).add(key)
        if before is None:
            return True
        return before.metadata.uid != group.metadata.uid or before.metadata.generation != group.metadata.generation

    def drop_group(self, key: Key, uid: str) -> bool:
        """Forget a StaticGroup; False, and nothing is forgotten, when another one has its name by now."""
        if self.group_uids.get(key, uid) != uid:
            return False
        self._drop_group(key)
        return True

    def _drop_group(self, key: Key) -> None:
        self.group_uids.pop(key, None)
        self._namings.pop(key, None)
        self._unlink_invalid(key)
        group = self.groups.pop(key, None)
        if group is not None:
            self._unlink(key, group)

    def _unlink_invalid(self, key: Key) -> None:
        self.invalid_groups.pop(key, None)
        self.group_id_of_invalid.pop(key, None)
        workload = self._workload_of_invalid.pop(key, None)
        if workload is not None:
            _discard(self.by_workload, workload, key)

    def _unlink(self, key: Key, group: StaticGroup) -> None:
        _discard(self.by_workload, (key[0], group.spec.workload_ref.name), key)
        _discard(self.by_connection, connection_of(group.spec, key[0]), key)
        _discard(self.by_group_id, group.spec.group_id, key)

    def put_connection(self, key: Key, body: dict[str, Any]) -> bool:
        """Store a KafkaConnection (without namespace: a ClusterKafkaConnection); True if its spec is new or changed."""
        before = self.connections.get(key)
        try:
            connection = (KafkaConnection if key[0] else ClusterKafkaConnection).from_wire(body)
        except ValidationError as error:
            self.connections.pop(key, None)
            self.invalid_connections[key] = violations(error)
            return True
        self.invalid_connections.pop(key, None)
        self.connections[key] = connection
        return before is None or before.spec != connection.spec or before.metadata.uid != connection.metadata.uid

    def drop_connection(self, key: Key) -> None:
        """Forget a connection."""
        self.connections.pop(key, None)
        self.invalid_connections.pop(key, None)

    def put_workload(self, view: WorkloadView) -> bool:
        """Store a workload; returns True when anything about it is new."""
        key = workload_key(view.namespace, view.kind.kind, view.name)
        before, self.workloads[key] = self.workloads.get(key), view
        return before != view

    def drop_workload(self, key: Key) -> bool:
        """Forget a workload; False when it is unknown."""
        return self.workloads.pop(key, None) is not None

    def kafka_cluster_id_of(self, spec: StaticGroupSpec, namespace: str) -> str | None:
        """Return the id of the cluster that a StaticGroup's connection leads to; None while it is not known."""
        return self.kafka_cluster_id(connection_of(spec, namespace))

    def kafka_cluster_id(self, connection_key: Key, *, is_answered: bool = False) -> str | None:
        """Return what the brokers of a connection call their cluster.

        Parameters
        ----------
        is_answered: only if they said so themselves; else spec.clusterId is taken for it until they do.

        Returns
        -------
        None while they were not reached since the spec was edited, or are of another cluster than it asks for; "" when
        they were and do not tell.
        """
        connection = self.connections.get(connection_key)
        if connection is None:
            return None
        status = connection.status
        if status is not None and not connection.is_about_these_brokers(status):
            status = None
        if status is not None and any(c.reason == Reason.CLUSTER_ID_MISMATCH for c in status.conditions):
            return None
        if status is not None and status.cluster_id is None and status.brokers:
            return ""
        answered = status.cluster_id if status is not None else None
        return answered if is_answered else answered or connection.spec.cluster_id

    def groups_of_workload(self, namespace: str, workload_name: str) -> frozenset[Key]:
        """Return the StaticGroups that point at a workload."""
        return frozenset(self.by_workload.get((namespace, workload_name), ()))

    def lane_of(self, key: Key) -> Key:
        """Return the lane in which a StaticGroup's rounds wait: its namespace, and its connection as that sees it.

        A cluster-wide connection is one lane in each namespace that uses it, so that namespaces take turns there too.
        """
        group = self.groups.get(key)
        if group is None:
            return key[0], ""
        ref = group.spec.connection_ref
        is_own = ref.kind is ConnectionKind.KAFKA_CONNECTION
        return key[0], ref.name if is_own else f"{ref.kind}/{ref.name}"

    def users_of_cluster_connections(self, namespace: str = "") -> frozenset[Key]:
        """Return the StaticGroups that name a ClusterKafkaConnection, of a namespace or of all."""
        users = (k for connection, keys in self.by_connection.items() if not connection[0] for k in keys)
        return frozenset(k for k in users if not namespace or k[0] == namespace)

    def groups_of_connection(self, key: Key) -> frozenset[Key]:
        """Return the StaticGroups that use a connection."""
        return frozenset(self.by_connection.get(key, ()))

    def naming_of(self, key: Key) -> Naming:
        """Return every id that a StaticGroup issues or has issued, by its object; no schemes if it is unreadable."""
        group = self.groups.get(key)
        known = self._namings.get(key)
        if known is None or known[0] is not group:
            known = self._namings[key] = (group, Naming(schemes=schemes_of(group) if group is not None else ()))
        return known[1]

def workload_key(namespace: str, kind: str, name: str) -> Key:
    """Return under which key a workload is stored: workloads of two kinds may have one name."""
    return namespace, name if kind == STATEFUL_SET.kind else f"{kind}/{name}"


def _discard(index: dict[Name, set[Key]], name: Name, key: Key) -> None:
    """Take a key out of an index that holds no empty entries."""
    keys = index.get(name)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[name]
