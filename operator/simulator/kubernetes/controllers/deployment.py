"""The controllers of Deployments and of their ReplicaSets.

Sources: kubernetes pkg/controller/deployment rolling.go (reconcileNewReplicaSet, reconcileOldReplicaSets: unhealthy old
pods first, then as many as stay available), recreate.go, util/deployment_util.go (ResolveFenceposts,
NewRSNewReplicas); pkg/controller/replicaset replica_set.go (a pod that is being deleted does not count, so its
successor is made at once) and controller_utils.go ActivePodsWithRanks (which pods go first).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import (
    DEPLOYMENTS,
    PODS,
    REPLICASETS,
    Json,
    at_s_of,
    condition,
    controller_of,
    is_over,
    is_terminating,
    is_true,
    name_of,
    namespace_of,
    uid_of,
)
from ..storage import ApiError
from ..watch_log import Event
from .appointments import Appointments, Key
from .statefulset import DEFAULT_TOLERATIONS, revision_hash

HASH_LABEL: Final = "pod-template-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names (k8s.io/apimachinery/pkg/util/rand)."""


class DeploymentController:
    """Reconcile every Deployment after each change of it or its pods."""

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, rng: Random, trace: Trace) -> None:
        self._server, self._loop, self._rng, self._trace = server, loop, rng, trace
        self.due = Appointments(loop, rng=rng, sync=self._sync)
        server.observers.append(self._observe)

    def _observe(self, resource: str, event: Event) -> None:
        obj = event.current if event.current is not None else event.previous
        assert obj is not None
        owner = controller_of(obj)
        if resource == DEPLOYMENTS:
            self.due.make((namespace_of(obj), name_of(obj)))
        elif resource == PODS and owner is not None and owner["kind"] == "ReplicaSet":
            self.due.make((namespace_of(obj), owner["name"].rpartition("-")[0]))

    def poke_all(self) -> None:
        """Reconcile every Deployment, as after a restart of the controller."""
        for deployment in self._server.list(DEPLOYMENTS):
            self.due.make((namespace_of(deployment), name_of(deployment)))

    def _sync(self, key: Key) -> None:
        deployment = self._server.get(DEPLOYMENTS, *key)
        if deployment is None or is_terminating(deployment):
            return
        try:
            _Sync(self, self._server, deployment, now_s=self._loop.time()).run()
        except ApiError as error:  # another writer was faster, or the namespace is going away
            self._trace.add(self._loop.time(), "deployment", "sync failed", deployment=key[1], error=str(error))
            self.due.make(key, 1.0)

    def generated(self, prefix: str) -> str:
        """Return a name that the API server would make of a prefix."""
        return prefix + "".join(self._rng.choice(_LETTERS) for _ in range(5))

    def note(self, what: str, pod: str, **facts: object) -> None:
        """Trace what was done to a pod."""
        self._trace.add(self._loop.time(), "deployment", what, pod=pod, **facts)


def resolved(value: int | str, replicas: int, *, is_rounded_up: bool) -> int:
    """Return how many pods a number or a percentage is (intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, int):
        return value
    share = replicas * int(value.removesuffix("%")) / 100
    return math.ceil(share) if is_rounded_up else math.floor(share)


def fenceposts(strategy: Json, replicas: int) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable of a RollingUpdate as numbers; one of them is at least 1."""
    rolling = strategy.get("rollingUpdate") or {}
    surge = resolved(rolling.get("maxSurge", "25%"), replicas, is_rounded_up=True)
    unavailable = resolved(rolling.get("maxUnavailable", "25%"), replicas, is_rounded_up=False)
    return surge, unavailable or (0 if surge else 1)


@dataclass(slots=True)
class _Sync:
    """One sync of one Deployment and its ReplicaSets."""

    controller: DeploymentController
    server: ApiServer
    deployment: Json
    now_s: float

    def run(self) -> None:
        spec = self.deployment["spec"]
        new, old = self._replica_sets()
        if spec.get("paused"):
            self._scale(new, spec.get("replicas", 1) - sum(map(_wanted, old)))
        elif (spec.get("strategy") or {}).get("type", "RollingUpdate") == "Recreate":
            self._recreate(new, old)
        else:
            self._roll(new, old)
        for replica_set in self._all_sets():
            self._keep_replicas(replica_set)
        self._write_status(name_of(new))

    # -- the Deployment

    @property
    def _namespace(self) -> str:
        return namespace_of(self.deployment)

    def _all_sets(self) -> list[Json]:
        """Return its ReplicaSets, the oldest first."""
        sets = (s for s in self.server.list(REPLICASETS, self._namespace) if _is_owned(s, self.deployment))
        return sorted(sets, key=lambda s: int(s["metadata"]["resourceVersion"]))

    def _replica_sets(self) -> tuple[Json, list[Json]]:
        """Return the ReplicaSet of the present template, made where there is none, and the others."""
        template = self.deployment["spec"]["template"]
        name = f"{name_of(self.deployment)}-{revision_hash(template)}"
        new = self.server.get(REPLICASETS, self._namespace, name)
        if new is None:
            owner = _reference("Deployment", self.deployment)
            metadata = {"namespace": self._namespace, "name": name, "ownerReferences": [owner]}
            new = self.server.create(REPLICASETS, {"metadata": metadata, "spec": {"replicas": 0, "template": template}})
        return new, [s for s in self._all_sets() if name_of(s) != name]

    def _scale(self, replica_set: Json, replicas: int) -> None:
        if replicas != _wanted(replica_set) and replicas >= 0:
            place = (self._namespace, name_of(replica_set))
            self.server.patch(REPLICASETS, *place, {"spec": {"replicas": replicas}}, uid=uid_of(replica_set))

    def _recreate(self, new: Json, old: list[Json]) -> None:
        """Start no new pod while an old one has not ended, whatever its deletion says (oldPodsRunning)."""
        for replica_set in old:
            self._scale(replica_set, 0)
        if not any(not is_over(pod) for replica_set in old for pod in self._pods_of(replica_set)):
            self._scale(new, self.deployment["spec"].get("replicas", 1))

    def _roll(self, new: Json, old: list[Json]) -> None:
        """Take one step up or down (RollingUpdate); a step down comes only where none up is due."""
        replicas = self.deployment["spec"].get("replicas", 1)
        surge, unavailable = fenceposts(self.deployment["spec"].get("strategy") or {}, replicas)
        total = sum(map(_wanted, (new, *old)))
        if _wanted(new) > replicas:
            self._scale(new, replicas)
            return
        to_come = min(replicas - _wanted(new), replicas + surge - total)
        if to_come > 0:
            self._scale(new, _wanted(new) + to_come)
            return
        may_go = total - (replicas - unavailable) - (_wanted(new) - self._available(new))
        available = sum(map(self._available, (new, *old)))
        for replica_set in old:  # what is not healthy goes first
            unhealthy = min(_wanted(replica_set) - self._available(replica_set), max(0, may_go))
            self._scale(replica_set, _wanted(replica_set) - unhealthy)
            may_go -= unhealthy
        may_go = min(may_go, available - (replicas - unavailable))
        for replica_set in old:
            left = self.server.get(REPLICASETS, self._namespace, name_of(replica_set))
            going = min(_wanted(left), max(0, may_go)) if left is not None else 0
            if left is not None and going:
                self._scale(left, _wanted(left) - going)
                may_go -= going

    # -- its ReplicaSets

    def _pods_of(self, replica_set: Json) -> list[Json]:
        return [p for p in self.server.list(PODS, self._namespace) if _is_owned(p, replica_set)]

    def _active(self, replica_set: Json) -> list[Json]:
        return [p for p in self._pods_of(replica_set) if not is_terminating(p) and not is_over(p)]

    def _available(self, replica_set: Json) -> int:
        return sum(map(self._is_available, self._active(replica_set)))

    def _is_available(self, pod: Json) -> bool:
        if not is_true(pod, "Ready"):
            return False
        ready = condition(pod, "Ready")
        assert ready is not None
        min_ready_s = self.deployment["spec"].get("minReadySeconds", 0)
        left_s = float(at_s_of(ready["lastTransitionTime"]) + min_ready_s - self.now_s) if min_ready_s else 0.0
        if left_s > 0:
            self.controller.due.make((self._namespace, name_of(self.deployment)), left_s + 0.001)
        return left_s <= 0

    def _keep_replicas(self, replica_set: Json) -> None:
        """Make the pods that are lacking, delete those that are too many (manageReplicas)."""
        active = self._active(replica_set)
        for _ in range(_wanted(replica_set) - len(active)):
            pod = self.server.create(PODS, self._new_pod(replica_set))
            self.controller.note("pod created", name_of(pod), uid=uid_of(pod)[:8], set=name_of(replica_set))
        for pod in sorted(active, key=_rank)[: max(0, len(active) - _wanted(replica_set))]:
            self.controller.note("pod deletion requested", name_of(pod), uid=uid_of(pod)[:8])
            self.server.delete(PODS, self._namespace, name_of(pod), uid=uid_of(pod))

    def _new_pod(self, replica_set: Json) -> Json:
        template = replica_set["spec"]["template"]
        metadata = template.get("metadata") or {}
        made: Json = {
            "namespace": self._namespace,
            "name": self.controller.generated(f"{name_of(replica_set)}-"),
            "generateName": f"{name_of(replica_set)}-",
            "labels": {**(metadata.get("labels") or {}), HASH_LABEL: name_of(replica_set).rpartition("-")[2]},
            "ownerReferences": [_reference("ReplicaSet", replica_set)],
        }
        if metadata.get("annotations"):
            made["annotations"] = {**metadata["annotations"]}
        spec = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "tolerations": [*DEFAULT_TOLERATIONS]}
        status = {"phase": "Pending", "qosClass": "BestEffort"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec | template["spec"], "status": status}

    def _write_status(self, new_name: str) -> None:
        sets = self._all_sets()
        active = {name_of(s): self._active(s) for s in sets}
        pods = [pod for each in active.values() for pod in each]
        available = sum(map(self._is_available, pods))
        status: Json = {
            "observedGeneration": self.deployment["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(active.get(new_name, ())),
            "readyReplicas": sum(is_true(pod, "Ready") for pod in pods),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(_wanted, sets)) - available),
        }
        place = {"namespace": self._namespace, "name": name_of(self.deployment)}
        self.server.update(DEPLOYMENTS, {"metadata": place, "status": status}, subresource="status")


def _reference(kind: str, owner: Json) -> Json:
    named: dict[str, Any] = {"apiVersion": "apps/v1", "kind": kind, "name": name_of(owner), "uid": uid_of(owner)}
    return named | {"controller": True, "blockOwnerDeletion": True}


def _is_owned(obj: Json, owner: Json) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == uid_of(owner)


def _wanted(replica_set: Json) -> int:
    wanted: int = replica_set["spec"]["replicas"]
    return wanted


def _rank(pod: Json) -> tuple[bool, bool, bool, int, float]:
    """Order pods by which goes first: not bound, pending, not Ready, cheap by its annotation, young."""
    annotations = pod["metadata"].get("annotations") or {}
    cost = int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
    phase = (pod.get("status") or {}).get("phase")
    age_s = -at_s_of(pod["metadata"]["creationTimestamp"])
    return (bool(pod["spec"].get("nodeName")), phase != "Pending", is_true(pod, "Ready"), cost, age_s)
