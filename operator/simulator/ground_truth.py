"""What is really so, gathered from the process table and from everything that was ever written to the API server.

Only oracles and reports ask it. It reads the whole history of pods, StaticGroups, the workload and the Lease, so that an
id keeps its carriers and its owner when their objects are long gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .api_server import ApiServer
from .loop import SimulationLoop
from .objects import LEASES, PODS, STATEFULSETS, STATIC_GROUPS, Json
from .oracles import ROUND_MAX_S
from .processes import ProcessTable
from .watch_log import Event

NEVER_S = float("-inf")
TOLD_SLACK_S = 20.0
"""A leave may already wait for a connection, up to the gateway's own deadline, when the user says stop."""


def base_id(instance_id: str) -> str:
    """Return the id that a pod was given: what its threads appended comes after the scope."""
    name, dot, rest = instance_id.rpartition(".")
    return f"{name}{dot}{rest.partition('-')[0]}" if dot else instance_id


@dataclass(slots=True)
class PodLife:
    """Everything that was ever written of one pod."""

    uid: str
    name: str
    created_s: float
    annotations: set[str] = field(default_factory=set)
    was_bound: bool = False
    showed_container: bool = False
    has_proof: bool = False
    has_end: bool = False
    is_gone: bool = False

    @property
    def is_certified(self) -> bool:
        """Whether some component has written down that nothing of this pod runs, or that nothing ever did."""
        return self.has_proof or (not self.showed_container and (self.has_end or (self.is_gone and not self.was_bound)))


@dataclass(slots=True)
class GroupLife:
    """One StaticGroup by uid: what it called its ids, and the last spec."""

    name: str
    group_id: str
    workload: str
    scopes: set[str] = field(default_factory=set)


class GroundTruth:
    """The answers to what oracles ask.

    Parameters
    ----------
    stopped_since_s: (operator, group id) → when the operator was told to stop writing; None: it was not.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        processes: ProcessTable,
        observers: list[Callable[[str, Event], None]],
        stopped_since_s: Callable[[str, str], float | None],
    ) -> None:
        self._loop = loop
        self._processes = processes
        self._stopped_since_s = stopped_since_s
        self.pods: dict[str, PodLife] = {}
        self.groups: dict[str, GroupLife] = {}
        self.renewals: dict[str, float] = {}
        self._replicas: dict[str, list[tuple[float, range]]] = {}
        self._takers: Mapping[str, Callable[[Event], None]] = {
            PODS: self._pod,
            STATIC_GROUPS: self._group,
            STATEFULSETS: self._workload,
            LEASES: self._lease,
        }
        observers.append(self._observe)

    # what oracles ask -----------------------------------------------------------------------------------------------

    def is_alive(self, member_id: str) -> bool:
        """Whether any process of the pod that created this member runs, frozen or not."""
        return self._processes.pod_alive(member_id)

    def uncertified(self, instance_id: str, member_id: str) -> Sequence[str]:
        """UIDs of pods that may be the member and of whose end no component has written a proof."""
        base, creator = base_id(instance_id), self._processes.creator(member_id)
        return [
            p.uid
            for p in self.pods.values()
            if not p.is_certified
            and (
                (creator is not None and p.uid == creator.pod_uid)
                or (base in p.annotations and p.created_s < self._loop.time() - ROUND_MAX_S)
            )
        ]

    def owner_of(self, group_id: str, instance_id: str) -> str | None:
        """Name of the StaticGroup, living or gone, that issued this id for this group; None: nobody did."""
        for group in self.groups.values():
            if group.group_id == group_id and any(base_id(instance_id).endswith(f".{s}") for s in group.scopes):
                return group.name
        return None

    def undesired_since_s(self, instance_id: str) -> float | None:
        """When the workload last wanted the id; None: it wants it now and has for a while."""
        pod_name, _, scope = base_id(instance_id).rpartition(".")
        group = next((g for g in self.groups.values() if scope in g.scopes), None)
        workload, _, ordinal = pod_name.rpartition("-")
        if group is None or workload != group.workload or not ordinal.isdigit():
            return self._loop.time()
        history = self._replicas.get(workload, [])
        wanted_since: float | None = None
        for at_s, ordinals in history:
            is_wanted = int(ordinal) in ordinals
            wanted_since = (at_s if wanted_since is None else wanted_since) if is_wanted else None
        if wanted_since is None or self._loop.time() - wanted_since <= ROUND_MAX_S:
            return self._loop.time()
        return None

    def is_told_to_stop(self, operator: str, group_id: str) -> bool:
        """Whether this operator was told to stop so long ago that nothing of its may be under way any more."""
        since_s = self._stopped_since_s(operator, group_id)
        return since_s is not None and self._loop.time() - since_s > TOLD_SLACK_S

    def lease_renewed_s(self, operator: str) -> float:
        """When this operator last renewed the Lease, by the API server's truth; -inf: never."""
        return self.renewals.get(operator, NEVER_S)

    def desired(self, workload: str) -> range:
        """Return the ordinals that the workload wants now; empty when it does not exist."""
        history = self._replicas.get(workload)
        return history[-1][1] if history else range(0)

    def resync(self, server: ApiServer) -> None:
        """Look again after etcd was set back, which tells nobody."""
        present = {body["metadata"]["name"]: body for body in server.list(STATEFULSETS)}
        for name in {*self._replicas, *present}:
            self._set_ordinals(name, present.get(name))

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
            life = self.pods[metadata["uid"]] = PodLife(metadata["uid"], metadata["name"], self._loop.time())
        life.annotations |= {str(v) for k, v in (metadata.get("annotations") or {}).items() if "staticgroup.io/" in k}
        life.was_bound = life.was_bound or bool(body["spec"].get("nodeName"))
        life.is_gone = event.current is None
        shown = _statuses(status)
        life.showed_container = life.showed_container or any(s.get("containerID") for s in shown)
        is_over = status.get("phase") in ("Succeeded", "Failed")
        life.has_end = life.has_end or is_over
        if is_over and _all_ended(body, shown):
            life.has_proof = True

    def _group(self, event: Event) -> None:
        body = event.current
        if body is None:
            return
        spec, metadata = body["spec"], body["metadata"]
        life = self.groups.get(metadata["uid"])
        if life is None:
            workload = spec["workloadRef"]["name"]
            life = self.groups[metadata["uid"]] = GroupLife(metadata["name"], spec["groupId"], workload)
        scope = ((body.get("status") or {}).get("injected") or {}).get("scope")
        if scope:
            life.scopes.add(scope)

    def _workload(self, event: Event) -> None:
        body = event.current if event.current is not None else event.previous
        assert body is not None
        self._set_ordinals(body["metadata"]["name"], event.current)

    def _set_ordinals(self, name: str, body: Json | None) -> None:
        ordinals = range(0)
        if body is not None:
            start = int((body["spec"].get("ordinals") or {}).get("start") or 0)
            ordinals = range(start, start + int(body["spec"].get("replicas", 1)))
        history = self._replicas.setdefault(name, [])
        if not history or history[-1][1] != ordinals:
            history.append((self._loop.time(), ordinals))

    def _lease(self, event: Event) -> None:
        spec = ((event.current or {}).get("spec")) or {}
        holder, before = spec.get("holderIdentity"), ((event.previous or {}).get("spec") or {})
        if holder and spec.get("renewTime") != before.get("renewTime"):
            self.renewals[holder] = self._loop.time()


def _statuses(status: Mapping[str, Any]) -> list[Json]:
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return [s for kind in kinds for s in status.get(kind) or []]


def _all_ended(body: Json, shown: Sequence[Json]) -> bool:
    """Whether every container of the spec is shown as terminated by whoever ran it."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    names = {c["name"] for kind in kinds for c in body["spec"].get(kind) or []}
    ended = {
        s["name"]
        for s in shown
        if (state := (s.get("state") or {}).get("terminated")) is not None
        and state.get("containerID")
        and state.get("reason") != "ContainerStatusUnknown"
    }
    return bool(names) and names <= ended
