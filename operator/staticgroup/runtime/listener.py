"""What the watches say, passed on: into the stores, to the journal, and to the queues as *look again*.

An informer calls it for every object that came, changed or went. Nothing is decided here and nothing waits; a standby
hears all of it too, so that its stores are warm, and only looks at nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from ..core.evidence.pod import PodVersion
from ..kube.nodes.store import NodeStore
from ..kube.pods.hooks import PodStoreHooks
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem
from ..kube.translate import MalformedObject, workload_view
from .connections import Connections
from .connections.reporter import ConnectionReporter
from .fleet import JournalPort
from .metrics import Metrics
from .reconciler import Reconciler
from .stores import Stores, uid_of
from .work_queue import Key, WorkQueue

log = logging.getLogger(__name__)


class Parts(Protocol):
    """The parts of a process that hear of news; asked for at each call, because every term makes its queues again.

    Attributes
    ----------
    is_active: True while rounds may begin here.
    """

    is_active: bool
    metrics: Metrics
    stores: Stores
    nodes: NodeStore
    pods: PodStore
    connections: Connections
    journal: JournalPort
    reconciler: Reconciler
    connection_reporter: ConnectionReporter
    queue: WorkQueue
    connection_queue: WorkQueue


class Listener:
    """Hear the informers and the pod store of one process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stores = parts.stores

    def pod_hooks(self) -> PodStoreHooks:
        """Return what the pod store calls."""
        return PodStoreHooks(
            node_of=self._parts.nodes.node_of,
            is_managed=self._is_managed,
            on_change=self._pod_changed,
            on_end=self._pod_ended,
            on_gap=self._gap_opened,
            on_anchor=self._anchored,
            on_uncertified=self._uncertified,
            on_version=self._pod_seen,
        )

    def static_group_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a StaticGroup as it is now, or the end of one; see `informer.Tell`."""
        key = _key_of(raw)
        neighbours = self._neighbours(key)
        if is_deleted:
            if not self._stores.drop_group(key, uid_of(raw)):
                return
            self._forget_group(key)
        else:
            is_due = self._stores.put_group(key, raw)
            if not is_due and not self._parts.reconciler.memories.is_overwritten(key):
                return
            self.look_at(key, at_once=True)
        self.look_at_all((neighbours | self._neighbours(key)) - {key})

    def _neighbours(self, key: Key) -> frozenset[Key]:
        """Return the StaticGroups on the workload of a StaticGroup."""
        group = self._stores.groups.get(key)
        return self._stores.groups_of_workload(key[0], group.spec.workload_ref.name) if group else frozenset()

    def _forget_group(self, key: Key) -> None:
        self._parts.queue.forget(key)
        self._parts.reconciler.forget(key)

    def cluster_connections_readable(self, problem: KubeProblem | None) -> None:
        """Take the news that ClusterKafkaConnections cannot be read, or with None that they can."""
        said = problem.message if problem is not None else ""
        if self._stores.cluster_connections_problem != said:
            self._stores.cluster_connections_problem = said
            self.look_at_all(self._stores.users_of_cluster_connections())

    def namespaces_readable(self, problem: KubeProblem | None) -> None:
        """Take the news that the labels of namespaces cannot be read, or with None that they can."""
        said = problem.message if problem is not None else ""
        if self._stores.namespaces.problem != said:
            self._stores.namespaces.problem = said
            self.look_at_all(self._stores.users_of_cluster_connections())

    def namespace_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a namespace as it is now, or the end of one; see `informer.Tell`."""
        name = _key_of(raw)[1]
        is_news = self._stores.namespaces.drop(name) if is_deleted else self._stores.namespaces.put(raw)
        if is_news:
            self.look_at_all(self._stores.users_of_cluster_connections(name))

    def connection_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a connection of either kind as it is now, or the end of one; see `informer.Tell`."""
        key = _key_of(raw)
        if is_deleted:
            self._parts.connection_reporter.forget(uid_of(raw))
            self._stores.drop_connection(key)
            self._parts.connections.forget(key)
            self._parts.connection_queue.forget(key)
        elif self._stores.put_connection(key, raw):
            self._parts.connections.distrust(key)
            if self._parts.is_active:
                self._parts.connection_queue.add(key)
        else:
            return
        self.look_at_all(self._stores.groups_of_connection(key))

    def stateful_set_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a StatefulSet as it is now, or the end of one; see `informer.Tell`."""
        key = _key_of(raw)
        if is_deleted:
            is_news = self._stores.drop_workload(key)
        else:
            view = workload_view(raw)
            if isinstance(view, MalformedObject):
                log.error("StatefulSet cannot be read", extra={"field": view.field, "found": view.found})
                return
            is_news = self._stores.put_workload(view)
        if is_news:
            self.look_at_all(self._stores.groups_of_workload(*key))

    def _pod_seen(self, version: PodVersion) -> None:
        self._parts.journal.pod_seen(version)

    def _pod_changed(self, namespace: str, owner_name: str, pod_name: str) -> None:
        self._parts.journal.pod_changed(namespace, pod_name, self._parts.pods)
        self.look_at_all(self._groups_of_pod(namespace, owner_name, pod_name))

    def _pod_ended(self, namespace: str, owner_name: str, pod_name: str) -> None:
        """Look at once: the object of a pod proves its end more easily than its absence does, and a crashed process is soon back."""
        self.look_at_all(self._groups_of_pod(namespace, owner_name, pod_name), at_once=True)

    def _groups_of_pod(self, namespace: str, owner_name: str, pod_name: str) -> frozenset[Key]:
        names = {owner_name, _workload_of(pod_name)}
        return frozenset(key for name in names for key in self._stores.groups_of_workload(namespace, name))

    def node_changed(self, node_name: str) -> None:
        """Take the news that facts of a node are others now."""
        self._parts.pods.node_changed(node_name)
        self.look_at_all(self._parts.reconciler.memories.with_suspects_on(node_name))

    def _is_managed(self, namespace: str, pod_name: str) -> bool:
        return bool(self._stores.groups_of_workload(namespace, _workload_of(pod_name)))

    def _gap_opened(self, reason: str) -> None:
        self._parts.metrics.watch_gaps.inc()

    def _uncertified(self, reason: str) -> None:
        self._parts.metrics.certificate_refusals.labels(reason).inc()

    def _anchored(self, watch: str) -> None:
        log.info("pod watch anchored", extra={"watch": watch, "pods": len(self._parts.pods)})
        self.look_at_all_groups()

    def look_at(self, key: Key, *, at_once: bool = False) -> None:
        """Queue a StaticGroup if this replica is active; at once, or together with further changes that come now."""
        if self._parts.is_active:
            self._parts.reconciler.mark_changed(key)
            (self._parts.queue.add if at_once else self._parts.queue.add_soon)(key)

    def look_at_all(self, keys: frozenset[Key], *, at_once: bool = False) -> None:
        """Have StaticGroups looked at again, in the order of their names."""
        for key in sorted(keys):
            self.look_at(key, at_once=at_once)

    def look_at_all_groups(self) -> None:
        """Have every StaticGroup looked at again."""
        self.look_at_all(frozenset(self._stores.groups))

    def look_at_everything(self) -> None:
        """Have all that is known looked at again; only for a replica that is active."""
        self.look_at_all_groups()
        for key in self._stores.connections:
            self._parts.connection_queue.add(key)


def _key_of(body: dict[str, Any]) -> Key:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _workload_of(pod_name: str) -> str:
    return pod_name.rpartition("-")[0]
