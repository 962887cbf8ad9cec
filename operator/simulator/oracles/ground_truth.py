"""What is really so, gathered from the process table and from everything that was ever written to the API server.

Only oracles and reports ask it. It reads the whole history of pods, specs of StaticGroups, workloads and the Lease, so
that an id keeps its carriers and its owner when their objects are long gone. It never reads what an operator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..clients.processes import ContainerProcess, ProcessTable
from ..engine.loop import SimulationLoop
from ..kubernetes.api_server import ApiServer
from ..kubernetes.objects import (
    LEASES,
    NODES,
    PODS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
)
from ..kubernetes.watch_log import Event
from .assumptions import Assumption, Assumptions
from .issued_ids import GroupLife, Issue, scope_of
from .pod_life import PodLife, all_ended, carried, deployment_of, ids_in, is_leaving, statuses
from .promises import ROUND_MAX_S

NEVER_S = float("-inf")
ORDER_SLACK_S = 20.0
"""A leave may already wait for a connection, up to the gateway's own deadline, when the user says stop."""

REFERRED_TO = ("annotations", "labels")
"""Fields that a variable may refer to and that a user may change."""

Workload = tuple[str, str]
"""Namespace and name of a StatefulSet."""


class GroundTruth:
    """The answers to what oracles ask.

    Parameters
    ----------
    cluster_uid: of the cluster, which every scope depends on.
    stopped_since_s: (operator, group id) → since when a StaticGroup forbids it to write; None: it may.
    reporting_since_s: likewise since when it may release no member.
    are_deleted_nodes_off: a Node object is deleted only when its machine is off.
    assumptions: what pods have done that are out of sight.
    born_s: when a member id was made.
    shows_address: whether a member is described with the address of its own pod.
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
        assumptions: Assumptions,
        born_s: Callable[[str], float] = lambda member_id: 0.0,
        shows_address: Callable[[str], bool] = lambda member_id: False,
        are_deleted_nodes_off: bool = False,
    ) -> None:
        self._loop = loop
        self._processes = processes
        self._cluster_uid = cluster_uid
        self._stopped_since_s = stopped_since_s
        self._reporting_since_s = reporting_since_s
        self.pods: dict[str, PodLife] = {}
        self.groups: dict[str, GroupLife] = {}
        self.renewals: dict[str, float] = {}
        self._are_deleted_nodes_off = are_deleted_nodes_off
        self.assumptions = assumptions
        self._born_s = born_s
        self._shows_address = shows_address
        self._replicas: dict[Workload, list[tuple[float, range]]] = {}
        self._takers: Mapping[str, Callable[[Event], None]] = {
            PODS: self._pod,
            STATIC_GROUPS: self._group,
            STATEFULSETS: self._workload,
            LEASES: self._lease,
            NODES: self._node,
        }
        observers.append(self._observe)
        processes.on_start.append(self._started)
        self.restored_s = NEVER_S

    # what oracles ask -----------------------------------------------------------------------------------------------

    def is_alive(self, member_id: str) -> bool:
        """Whether any process of the pod that created this member runs, frozen or not."""
        return self._processes.pod_alive(member_id)

    def is_running(self, member_id: str) -> bool:
        """Whether the very process that created this member runs, frozen or not; True for one outside the table."""
        return self._processes.alive(member_id)

    def must_report(self, operator: str, group_id: str) -> bool:
        """Whether it may release no member for so long that no earlier request can be under way."""
        since_s = self._reporting_since_s(operator, group_id)
        return since_s is not None and self._loop.time() - since_s > ORDER_SLACK_S

    def whereabouts(self, member_id: str) -> str:
        """Say whose process created a member."""
        creator = self._processes.creator(member_id)
        if creator is None:
            return "a client outside the cluster"
        return f"pod {creator.namespace}/{creator.pod_name} ({creator.pod_uid[:8]}) on {creator.node}"

    def uncertified(self, instance_id: str, member_id: str) -> Sequence[str]:
        """UIDs of pods that may be the member and of whose end no component has written a proof.

        Notes
        -----
        They are the pod that created the member, and where its address does not name that pod, every pod that carried
        the id when it joined, unless that one was silent or out of sight for long enough to count no more.
        """
        creator = self._processes.creator(member_id)
        own = self.pods.get(creator.pod_uid) if creator is not None else None
        if own is not None and not own.is_certified:
            return [own.uid]
        if creator is None or own is None or self._shows_address(member_id):
            return []
        joined_s = self._joined_s(creator, member_id)
        bases = {instance_id} | {issue.base for life in self.groups.values() for issue in life.issued(instance_id)}
        return [
            p.uid
            for p in self.pods.values()
            if not p.is_certified
            and p.carried_since_s(bases) < joined_s
            and not self.assumptions.was_silent(p.uid, p.gone_s, joined_s)
            and not self.assumptions.is_forgotten(p.gone_s, joined_s)
        ]

    def broken_by(self, member_id: str) -> Assumption | None:
        """Return which assumption the pod that created a member has broken; None: it has kept all of them."""
        creator = self._processes.creator(member_id)
        own = self.pods.get(creator.pod_uid) if creator is not None else None
        if creator is None or own is None:
            return None
        joined_s = self._joined_s(creator, member_id)
        return self.assumptions.broken_by(own.uid, own.gone_s, joined_s)

    def _joined_s(self, creator: ContainerProcess, member_id: str) -> float:
        until_s = creator.ended_s if creator.ended_s is not None else self._loop.time()
        return self.assumptions.joined_s(creator.pod_uid, self._born_s(member_id), until_s)

    def owner_of(self, group_id: str, instance_id: str) -> str | None:
        """Name of a StaticGroup, living or gone, that makes or made this id for this group; None: there is none."""
        for life in self.groups.values():
            if life.group_id == group_id and life.issued(instance_id):
                return life.name
        return None

    def undesired_since_s(self, instance_id: str) -> float | None:
        """When a workload last wanted the id; None: one wants it now and has for a while.

        A StaticGroup that is gone still counts for its pods, until it is made again and its successor counts instead.
        """
        now_s = self._loop.time()
        last = {(life.namespace, life.name): life for life in self.groups.values()}
        judged = [life for life in self.groups.values() if not life.is_gone or life is last[life.namespace, life.name]]
        found = (self._wanted_since_s(life, *made) for life in judged if (made := life.current(instance_id)))
        since = [s for s in found if s is not None]
        return None if since and now_s - min(since) > ROUND_MAX_S else now_s

    def _wanted_since_s(self, life: GroupLife, made_since_s: float, issue: Issue) -> float | None:
        """Return since when a workload has wanted an ordinal under an id; None: it does not."""
        if life.is_of_slots:
            return self._had(life).get(issue.ordinal)
        wanted_since_s: float | None = None
        for at_s, ordinals in self._replicas.get((life.namespace, life.workload), []):
            is_wanted = issue.ordinal in ordinals
            wanted_since_s = (at_s if wanted_since_s is None else wanted_since_s) if is_wanted else None
        return None if wanted_since_s is None else max(wanted_since_s, made_since_s)

    def must_stop(self, operator: str, group_id: str) -> bool:
        """Whether it may write nothing for so long that no earlier request can be under way."""
        since_s = self._stopped_since_s(operator, group_id)
        return since_s is not None and self._loop.time() - since_s > ORDER_SLACK_S

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
            for i in life.ids_of(self._had(life) if life.is_of_slots else self.desired(life.workload, life.namespace))
        )

    def _had(self, life: GroupLife) -> dict[int, float]:
        """Return the slots that processes of a Deployment's pods have had, of pods that stay, and since when."""
        found: dict[int, float] = {}
        for pod in self.pods.values():
            if (pod.namespace, pod.deployment) != (life.namespace, life.workload) or pod.is_leaving or pod.is_gone:
                continue
            for given, since_s in pod.had.items():
                number = life.note_given(given)
                if number is not None:
                    found[number] = min(since_s, found.get(number, since_s))
        return found

    def resync(self, server: ApiServer) -> None:
        """Read the workloads again after etcd was set back, which sends no event."""
        self.restored_s = self._loop.time()
        present = {(b["metadata"]["namespace"], b["metadata"]["name"]): b for b in server.list(STATEFULSETS)}
        for key in {*self._replicas, *present}:
            self._set_ordinals(key, present.get(key))
        pods = {body["metadata"]["uid"]: body for body in server.list(PODS)}
        for uid, pod in self.pods.items():
            pod.is_leaving = pod.is_leaving if uid not in pods else is_leaving(pods[uid])
            pod.is_forgotten = pod.is_forgotten or not (pod.is_gone or uid in pods)
            pod.gone_s = math.inf if uid in pods else min(pod.gone_s, self._loop.time())
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
            life.ids |= carried(body)
        life.was_bound = life.was_bound or bool(body["spec"].get("nodeName"))
        life.gone_s = math.inf if event.current is not None else min(life.gone_s, self._loop.time())
        life.node = life.node or str(body["spec"].get("nodeName") or "")
        life.deployment = life.deployment or deployment_of(body)
        life.is_leaving = is_leaving(body)
        shown = statuses(status)
        life.shown |= {s["name"] for s in shown if s.get("containerID")}
        is_over = status.get("phase") in ("Succeeded", "Failed")
        life.has_end = life.has_end or is_over
        if is_over and all_ended(body, shown, life.shown):
            life.has_proof = True

    def _started(self, process: ContainerProcess) -> None:
        """Note the id that a process was given from outside of its pod's spec: from the file of its slot."""
        pod = self.pods.get(process.pod_uid)
        for given in ids_in(process.environment) if pod is not None else ():
            if pod is not None and given not in pod.ids:
                pod.had.setdefault(given, self._loop.time())
                for life in self.groups.values():
                    life.note_given(given)

    def _node(self, event: Event) -> None:
        """Note a deleted Node, where Nodes are deleted only after their machines are off."""
        if event.current is None and event.previous is not None and self._are_deleted_nodes_off:
            for pod in self.pods.values():
                pod.is_node_off = pod.is_node_off or pod.node == event.previous["metadata"]["name"]

    def _group(self, event: Event) -> None:
        body = event.current if event.current is not None else event.previous
        assert body is not None
        spec, metadata = body["spec"], body["metadata"]
        life = self.groups.get(metadata["uid"])
        if life is None:
            place = metadata["namespace"], metadata["name"]
            scope = scope_of(self._cluster_uid, *place, metadata["uid"])
            ref = spec["workloadRef"]
            life = self.groups[metadata["uid"]] = GroupLife(
                *place, spec["groupId"], ref["name"], scope, is_of_slots=ref.get("kind") == "Deployment"
            )
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
