"""Pass on what the watches report: into the stores, to the journal, and as requests for rounds to the queues.

The informers call it for every object that appeared, changed or vanished. Nothing is decided here and nothing waits. A
standby receives all of it too, so that its stores are warm, and only asks for no rounds.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from ..core.evidence.chain import KnownPod
from ..core.evidence.pod import PodVersion
from ..kube.nodes.store import NodeStore
from ..kube.pods.store import PodStore, PodStoreHooks
from ..kube.problem import KubeProblem
from ..kube.translate import MalformedObject, workload_view
from .connections.connections import Connections
from .connections.reporter import ConnectionReporter
from .process.fleet import JournalPort
from .process.metrics import Metrics
from .reconciler import Reconciler
from .stores import Stores, uid_of
from .work_queue import Key, WorkQueue

log = logging.getLogger(__name__)


class Parts(Protocol):
    """The parts of a process that a change concerns; asked for at each call, because every term makes its queues again.

    `is_active` is True while rounds may begin here.
    """

    is_active: bool
    metrics: Metrics
    stores: Stores
    nodes: NodeStore
    pods: PodStore
    connections: Connections
    reconciler: Reconciler
    connection_reporter: ConnectionReporter
    queue: WorkQueue
    slot_queue: WorkQueue
    connection_queue: WorkQueue
    journal: JournalPort | None


class Listener:
    """Receive what the informers and the pod store report; `informer.OnObject` explains methods named after a kind.

    Parameters
    ----------
    parts: read at each call, because every term makes its queues again.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stores = parts.stores

    def pod_hooks(self) -> PodStoreHooks:
        """Return what the pod store calls."""
        return PodStoreHooks(
            node_of=self._parts.nodes.node_of,
            is_managed=lambda namespace, name: bool(self._stores.groups_of_workload(namespace, name)),
            on_change=self._pod_changed,
            on_end=self._pod_ended,
            on_gap=lambda reason: self._parts.metrics.watch_gaps.inc(),
            on_anchor=self._anchored,
            on_uncertified=lambda reason: self._parts.metrics.certificate_refusals.labels(reason).inc(),
            on_version=self._pod_seen,
        )

    def static_group_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a StaticGroup; those on its workload are concerned too, before the change and after it."""
        key = _key_of(raw)
        neighbours = self._neighbours(key)
        if is_deleted:
            if not self._stores.drop_group(key, uid_of(raw)):
                return
            self._parts.queue.forget(key)
            self._parts.slot_queue.forget(key)
            self._parts.reconciler.forget(key)
        else:
            is_due = self._stores.put_group(key, raw)
            if not is_due and not self._parts.reconciler.memories.is_overwritten(key):
                return
            self.request_round(key, at_once=True)
        self._request_rounds((neighbours | self._neighbours(key)) - {key})

    def _neighbours(self, key: Key) -> frozenset[Key]:
        """Return the StaticGroups on the workload of a StaticGroup."""
        group = self._stores.groups.get(key)
        return self._stores.groups_of_workload(key[0], group.spec.workload_ref.name) if group else frozenset()

    def cluster_connections_readable(self, problem: KubeProblem | None) -> None:
        """Note that ClusterKafkaConnections cannot be read, or with None that they can."""
        message = problem.message if problem is not None else ""
        if self._stores.cluster_connections_problem != message:
            self._stores.cluster_connections_problem = message
            self._request_rounds(self._stores.users_of_cluster_connections())

    def namespaces_readable(self, problem: KubeProblem | None) -> None:
        """Note that the labels of namespaces cannot be read, or with None that they can."""
        message = problem.message if problem is not None else ""
        if self._stores.namespaces.problem != message:
            self._stores.namespaces.problem = message
            self._request_rounds(self._stores.users_of_cluster_connections())

    def namespace_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a namespace."""
        name = _key_of(raw)[1]
        if self._stores.namespaces.drop(name) if is_deleted else self._stores.namespaces.put(raw):
            self._request_rounds(self._stores.users_of_cluster_connections(name))

    def connection_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a connection of either kind."""
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
        self._request_rounds(self._stores.groups_of_connection(key))

    def stateful_set_changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a StatefulSet."""
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
            self._request_rounds(self._stores.groups_of_workload(*key))

    def _pod_seen(self, version: PodVersion) -> None:
        if self._parts.journal is not None:
            self._parts.journal.pod_seen(version)

    def _pod_changed(self, pod: KnownPod) -> None:
        if self._parts.journal is not None:
            self._parts.journal.pod_changed(pod.namespace, pod.pod_name, self._parts.pods)
        # A pod that waits has heard nothing yet, or its claim, which the watch has shown, may be fulfilled.
        waits = (slot for slot in pod.slots if slot.is_waiting and not slot.given)
        is_urgent = any(slot.claimed or not slot.count for slot in waits)
        self._request_rounds(self._groups_of_pod(pod))
        self._request_hand_outs(pod, at_once=is_urgent)

    def _pod_ended(self, pod: KnownPod) -> None:
        """Ask for a round at once: a pod's object proves its end better than its absence, and it may soon be back."""
        self._request_rounds(self._groups_of_pod(pod), at_once=True)
        self._request_hand_outs(pod, at_once=True)

    def _request_hand_outs(self, pod: KnownPod, *, at_once: bool) -> None:
        for key in sorted(self._groups_of_pod(pod)) if pod.slots and self._parts.is_active else ():
            (self._parts.slot_queue.add if at_once else self._parts.slot_queue.add_soon)(key)

    def _groups_of_pod(self, pod: KnownPod) -> frozenset[Key]:
        names = {pod.owner_name, pod.workload_name}
        return frozenset(key for name in names for key in self._stores.groups_of_workload(pod.namespace, name))

    def node_changed(self, node_name: str) -> None:
        """Note that facts of a node are others now."""
        self._request_rounds(self._parts.reconciler.memories.with_suspects_on(node_name))

    def _anchored(self, watch: str) -> None:
        log.info("pod watch anchored", extra={"watch": watch, "pods": len(self._parts.pods)})
        self.request_all_rounds()

    def request_round(self, key: Key, *, at_once: bool = False) -> None:
        """Ask for a round of a changed StaticGroup if this replica is active: at once, or with further changes."""
        if self._parts.is_active:
            self._parts.reconciler.memories.mark_changed(key)
            (self._parts.queue.add if at_once else self._parts.queue.add_soon)(key)

    def _request_rounds(self, keys: frozenset[Key], *, at_once: bool = False) -> None:
        for key in sorted(keys):
            self.request_round(key, at_once=at_once)

    def request_all_rounds(self) -> None:
        """Ask for a round of every StaticGroup."""
        self._request_rounds(frozenset(self._stores.groups))

    def request_everything(self) -> None:
        """Ask for a round of every StaticGroup and a probe of every connection; only for a replica that is active."""
        self.request_all_rounds()
        for key in self._stores.connections:
            self._parts.connection_queue.add(key)


def _key_of(body: dict[str, Any]) -> Key:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
