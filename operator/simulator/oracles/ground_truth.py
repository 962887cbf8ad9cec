"""What is really so, gathered from the process table and from everything that was ever written to the API server.

Only oracles and reports ask it. It reads the whole history of pods, specs of StaticGroups, workloads and the Lease, so
that an id keeps its carriers and its owner when their objects are long gone. It never reads what an operator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from staticgroup.api.names import OUT_OF_SERVICE_TAINT

from ..clients.processes import ProcessTable
from ..engine.loop import SimulationLoop
from ..kubernetes.api_server import ApiServer
from ..kubernetes.node.container_status import environment
from ..kubernetes.objects import LEASES, NODES, PODS, STATEFULSETS, STATIC_GROUPS, Json
from ..kubernetes.watch_log import Event
from .issued_ids import GroupLife, Issue, scope_of
from .promises import ROUND_MAX_S

NEVER_S = float("-inf")
TOLD_SLACK_S = 20.0
"""A leave may already wait for a connection, up to the gateway's own deadline, when the user says stop."""


ID_VARIABLES = "INSTANCE_ID"
"""Part of the name of every variable that carries an id."""

REFERRED_TO = ("annotations", "labels")
"""What a variable may refer to and somebody may change."""

Workload = tuple[str, str]
"""Namespace and name of a StatefulSet."""


@dataclass(slots=True)
class PodLife:
    """Everything that was ever written of one pod.

    Parameters
    ----------
    ids: those it was given, before a client appends anything. shown: the containers of which an id was ever shown.
    node: where it was bound, as the how many-th event; gone_at: its object's end, likewise.
    reaped_s: since when its node's kubelet must have ended it, because it has started a pod that was bound after the object had gone, and
        the grace period is over.
    has_word: whoever owns the cluster has sworn that nothing runs on its node.
    """

    uid: str
    namespace: str
    name: str
    created_s: float
    ids: set[str] = field(default_factory=set)
    was_bound: bool = False
    shown: set[str] = field(default_factory=set)
    has_proof: bool = False
    has_end: bool = False
    is_gone: bool = False
    is_forgotten: bool = False
    node: str = ""
    bound_at: int = 0
    gone_at: int = 0
    grace_s: float = 30.0
    reaped_s: float = math.inf
    has_word: bool = False

    @property
    def is_certified(self) -> bool:
        """Whether some component has written down that nothing of this pod runs, or that nothing ever did.

        Notes
        -----
        A restored etcd may have forgotten a pod that no operator that could write has seen: that is for a person to tell
        (`staticgroup restored`), who is not there here. Of those that showed no container no proof is asked; whether a
        process of theirs lives is asked of all (S1).
        """
        return self.has_proof or self.has_word or (
            not self.shown and (self.has_end or self.is_forgotten or (self.is_gone and not self.was_bound))
        )


class GroundTruth:
    """The answers to what oracles ask.

    Parameters
    ----------
    cluster_uid: of the cluster, which every scope depends on.
    stopped_since_s: (operator, group id) → when the operator was told to stop writing; None: it was not.
    reporting_since_s: likewise when it was told not to release anybody.
    is_deletion_sworn, is_taint_sworn: a Node object is deleted, or tainted out-of-service, only when its machine is off.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        processes: ProcessTable,
        observers: list[Callable[[str, Event], None]],
        cluster_uid: str,
        stopped_since_s: Callable[[str, str], float | None],
        reporting_since_s: Callable[[str, str], float | None],
        *,
        is_deletion_sworn: bool = False,
        is_taint_sworn: bool = False,
    ) -> None:
        self._loop = loop
        self._processes = processes
        self._cluster_uid = cluster_uid
        self._stopped_since_s = stopped_since_s
        self._reporting_since_s = reporting_since_s
        self.pods: dict[str, PodLife] = {}
        self.groups: dict[str, GroupLife] = {}
        self.renewals: dict[str, float] = {}
        self._is_deletion_sworn = is_deletion_sworn
        self._is_taint_sworn = is_taint_sworn
        self._hosts: dict[str, str] = {}
        self._hosts_read = 0
        self._events = 0
        self._replicas: dict[Workload, list[tuple[float, range]]] = {}
        self._takers: Mapping[str, Callable[[Event], None]] = {
            PODS: self._pod,
            STATIC_GROUPS: self._group,
            STATEFULSETS: self._workload,
            LEASES: self._lease,
            NODES: self._node,
        }
        observers.append(self._observe)

    def sworn(self) -> None:
        """Take a user's word that no pod which is gone has a process any more: `identity.exclusive` of a new StaticGroup.

        Notes
        -----
        What a StaticGroup of before remembered of such pods goes with it, so nobody is asked for another proof of their ends;
        whether a process lives is asked of all (S1).
        """
        for pod in self.pods.values():
            pod.has_proof = pod.has_proof or pod.is_gone

    # what oracles ask -----------------------------------------------------------------------------------------------

    def is_alive(self, member_id: str) -> bool:
        """Whether any process of the pod that created this member runs, frozen or not."""
        return self._processes.pod_alive(member_id)

    def is_running(self, member_id: str) -> bool:
        """Whether the very process that created this member runs, frozen or not; True for one outside the table."""
        return self._processes.alive(member_id)

    def is_told_to_report(self, operator: str, group_id: str) -> bool:
        """Whether this operator was told not to release so long ago that nothing of its may be under way any more."""
        since_s = self._reporting_since_s(operator, group_id)
        return since_s is not None and self._loop.time() - since_s > TOLD_SLACK_S

    def whereabouts(self, member_id: str) -> str:
        """Say whose process created a member."""
        creator = self._processes.creator(member_id)
        if creator is None:
            return "a client outside the cluster"
        return f"pod {creator.namespace}/{creator.pod_name} ({creator.pod_uid[:8]}) on {creator.node}"

    def uncertified(self, instance_id: str, member_id: str) -> Sequence[str]:
        """UIDs of pods that may be the member and of whose end no component has written a proof."""
        creator = self._processes.creator(member_id)
        bases = {instance_id} | {issue.base for life in self.groups.values() for issue in life.issued(instance_id)}
        return [
            p.uid
            for p in self.pods.values()
            if not p.is_certified
            and p.reaped_s > self._loop.time()
            and (
                (creator is not None and p.uid == creator.pod_uid)
                or (bases & p.ids and p.created_s < self._loop.time() - ROUND_MAX_S)
            )
        ]

    def owner_of(self, group_id: str, instance_id: str) -> str | None:
        """Name of a StaticGroup, living or gone, that makes or made this id for this group; None: nobody did."""
        for life in self.groups.values():
            if life.group_id == group_id and life.issued(instance_id):
                return life.name
        return None

    def undesired_since_s(self, instance_id: str) -> float | None:
        """When a workload last wanted the id; None: one wants it now and has for a while.

        A StaticGroup that is gone still speaks for its pods, until it is made again and its successor says what it wants.
        """
        now_s = self._loop.time()
        last = {(life.namespace, life.name): life for life in self.groups.values()}
        speak = [life for life in self.groups.values() if not life.is_gone or life is last[life.namespace, life.name]]
        found = (self._wanted_since_s(life, *made) for life in speak if (made := life.current(instance_id)))
        since = [s for s in found if s is not None]
        return None if since and now_s - min(since) > ROUND_MAX_S else now_s

    def _wanted_since_s(self, life: GroupLife, made_since_s: float, issue: Issue) -> float | None:
        """Return since when a workload has wanted an ordinal under an id; None: it does not."""
        wanted_since_s: float | None = None
        for at_s, ordinals in self._replicas.get((life.namespace, life.workload), []):
            is_wanted = issue.ordinal in ordinals
            wanted_since_s = (at_s if wanted_since_s is None else wanted_since_s) if is_wanted else None
        return None if wanted_since_s is None else max(wanted_since_s, made_since_s)

    def is_told_to_stop(self, operator: str, group_id: str) -> bool:
        """Whether this operator was told to stop so long ago that nothing of its may be under way any more."""
        since_s = self._stopped_since_s(operator, group_id)
        return since_s is not None and self._loop.time() - since_s > TOLD_SLACK_S

    def lease_renewed_s(self, operator: str) -> float:
        """When this operator last renewed the Lease, by the API server's truth; -inf: never."""
        return self.renewals.get(operator, NEVER_S)

    def desired(self, workload: str, namespace: str = "") -> range:
        """Return the ordinals that a workload wants now; empty when it does not exist.

        Parameters
        ----------
        namespace: "" means that of the first workload of this name.
        """
        for (home, name), history in self._replicas.items():
            if name == workload and namespace in ("", home):
                return history[-1][1] if history else range(0)
        return range(0)

    def desired_ids(self, group_id: str) -> frozenset[str]:
        """Return the ids that the present members of a group should have, by every StaticGroup of it."""
        return frozenset(
            i
            for life in self.groups.values()
            if life.group_id == group_id and not life.is_gone
            for i in life.ids_of(self.desired(life.workload, life.namespace))
        )

    def resync(self, server: ApiServer) -> None:
        """Look again after etcd was set back, which tells nobody."""
        present = {(b["metadata"]["namespace"], b["metadata"]["name"]): b for b in server.list(STATEFULSETS)}
        for key in {*self._replicas, *present}:
            self._set_ordinals(key, present.get(key))
        pods = {body["metadata"]["uid"] for body in server.list(PODS)}
        for uid, pod in self.pods.items():
            pod.is_forgotten = pod.is_forgotten or not (pod.is_gone or uid in pods)
        groups = {body["metadata"]["uid"]: body for body in server.list(STATIC_GROUPS)}
        for uid, life in self.groups.items():
            life.is_gone = uid not in groups
            if not life.is_gone:
                life.take(groups[uid]["spec"], self._loop.time())

    # what was written -----------------------------------------------------------------------------------------------

    def _observe(self, resource: str, event: Event) -> None:
        take = self._takers.get(resource)
        if take is not None:
            take(event)

    def _pod(self, event: Event) -> None:
        body = event.current if event.current is not None else event.previous
        assert body is not None
        metadata, status = body["metadata"], body.get("status") or {}
        life = self.pods.get(metadata["uid"])
        if life is None:
            namespace, name = metadata["namespace"], metadata["name"]
            life = self.pods[metadata["uid"]] = PodLife(metadata["uid"], namespace, name, self._loop.time())
        if event.previous is None or any(event.previous["metadata"].get(k) is not metadata.get(k) for k in REFERRED_TO):
            life.ids |= _carried(body)
        life.was_bound = life.was_bound or bool(body["spec"].get("nodeName"))
        life.is_gone = event.current is None
        self._note_node(life, body)
        shown = _statuses(status)
        life.shown |= {s["name"] for s in shown if s.get("containerID")}
        is_over = status.get("phase") in ("Succeeded", "Failed")
        life.has_end = life.has_end or is_over
        if is_over and _all_ended(body, shown, life.shown):
            life.has_proof = True

    def _note_node(self, life: PodLife, body: Json) -> None:
        """Note where a pod is bound and when its object went, and what a container that runs there says of those that went before."""
        self._events += 1
        node = str(body["spec"].get("nodeName") or "")
        if node and not life.node:
            life.node, life.bound_at = node, self._events
            life.grace_s = float(body["spec"].get("terminationGracePeriodSeconds") or 30)
        if life.is_gone:
            life.gone_at = life.gone_at or self._events
            return
        if any((s.get("state") or {}).get("running") for s in _statuses(body.get("status") or {})):
            for other in self.pods.values():
                is_earlier = other.is_gone and other.node == life.node and other.gone_at < life.bound_at
                if is_earlier and self._host(other.uid) in ("", self._host(life.uid)):
                    other.reaped_s = min(other.reaped_s, self._loop.time() + other.grace_s)

    def _host(self, uid: str) -> str:
        """Return the machine that a pod ran on last; "" where it never ran."""
        for process in self._processes.history[self._hosts_read :]:
            self._hosts[process.pod_uid] = process.node
        self._hosts_read = len(self._processes.history)
        return self._hosts.get(uid, "")

    def _node(self, event: Event) -> None:
        """Take the word of whoever deletes a Node, or taints it, where that is given only of machines that are off."""
        body = event.current if event.current is not None else event.previous
        assert body is not None
        taints = (body.get("spec") or {}).get("taints") or ()
        is_sworn = self._is_deletion_sworn if event.current is None else self._is_taint_sworn and any(
            t["key"] == OUT_OF_SERVICE_TAINT for t in taints
        )
        if is_sworn:
            for pod in self.pods.values():
                pod.has_word = pod.has_word or pod.node == body["metadata"]["name"]

    def _group(self, event: Event) -> None:
        body = event.current if event.current is not None else event.previous
        assert body is not None
        spec, metadata = body["spec"], body["metadata"]
        life = self.groups.get(metadata["uid"])
        if life is None:
            place = metadata["namespace"], metadata["name"]
            # It is written from the beginning, or later as it is drawn.
            scope = (spec.get("identity") or {}).get("scope") or scope_of(self._cluster_uid, *place, metadata["uid"])
            life = self.groups[metadata["uid"]] = GroupLife(*place, spec["groupId"], spec["workloadRef"]["name"], scope)
        life.is_gone = event.current is None
        life.take(spec, self._loop.time())

    def _workload(self, event: Event) -> None:
        body = event.current if event.current is not None else event.previous
        assert body is not None
        self._set_ordinals((body["metadata"]["namespace"], body["metadata"]["name"]), event.current)

    def _set_ordinals(self, key: Workload, body: Json | None) -> None:
        ordinals = range(0)
        if body is not None:
            start = int((body["spec"].get("ordinals") or {}).get("start") or 0)
            ordinals = range(start, start + int(body["spec"].get("replicas", 1)))
        history = self._replicas.setdefault(key, [])
        if not history or history[-1][1] != ordinals:
            history.append((self._loop.time(), ordinals))

    def _lease(self, event: Event) -> None:
        spec = ((event.current or {}).get("spec")) or {}
        holder, before = spec.get("holderIdentity"), ((event.previous or {}).get("spec") or {})
        if holder and spec.get("renewTime") != before.get("renewTime"):
            self.renewals[holder] = self._loop.time()


def _carried(body: Json) -> set[str]:
    """Return the ids that a pod was given, by annotation or by a variable of its containers."""
    annotations = body["metadata"].get("annotations") or {}
    found = {str(value) for key, value in annotations.items() if key.startswith("staticgroup.io/instance-id")}
    for container in body["spec"]["containers"]:
        known = environment(body, container["name"])
        found |= {value for name, value in known.items() if ID_VARIABLES in name and value}
    return found


def _statuses(status: Mapping[str, Any]) -> list[Json]:
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return [s for kind in kinds for s in status.get(kind) or []]


def _all_ended(body: Json, shown: Sequence[Json], ran: AbstractSet[str]) -> bool:
    """Whether every container of the spec is shown as terminated by whoever ran it, or is shown and never ran."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    names = {c["name"] for kind in kinds for c in body["spec"].get(kind) or []}
    ended = {
        s["name"]
        for s in shown
        if (state := (s.get("state") or {}).get("terminated")) is not None
        and state.get("containerID")
        and state.get("reason") != "ContainerStatusUnknown"
    }
    return bool(names) and names <= ended | ({s["name"] for s in shown} - ran)
