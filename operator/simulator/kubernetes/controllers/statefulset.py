"""The StatefulSet controller: creates, deletes, adopts and rolls pods, one step at a time.

Source: kubernetes pkg/controller/statefulset stateful_set_control.go (order: replicas ascending, condemned descending,
then the update from the highest ordinal; `partition` counts from `start`) and stateful_set_utils.go (labels, owner).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from random import Random
from typing import Final

from staticgroup.api import names

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import (
    PODS,
    REVISIONS,
    STATEFULSETS,
    Json,
    at_s_of,
    condition,
    controller_of,
    is_terminating,
    is_true,
    name_of,
    namespace_of,
    uid_of,
)
from ..storage import ApiError
from ..watch_log import Event, Selector
from .appointments import Appointments, Key

DEFAULT_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for why in ("not-ready", "unreachable")
)


class StatefulSetController:
    """Reconcile every StatefulSet after each change of it or its pods.

    Attributes
    ----------
    has_index_label: pods are labelled with their ordinal (1.28 or newer); pods that were made without stay without, as
        only the label with the pod's name is repaired (identityMatches).
    """

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, rng: Random, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._trace = trace
        self.due = Appointments(loop, rng=rng, sync=self._sync)
        self.has_index_label = True
        server.observers.append(self._observe)

    # -- when to reconcile

    def _observe(self, resource: str, event: Event) -> None:
        obj = event.current if event.current is not None else event.previous
        assert obj is not None
        if resource == STATEFULSETS:
            self.poke((namespace_of(obj), name_of(obj)))
        elif resource == PODS:
            owner = controller_of(obj)
            if owner is not None and owner["kind"] == "StatefulSet":
                self.poke((namespace_of(obj), owner["name"]))
            else:
                self.poke((namespace_of(obj), name_of(obj).rpartition("-")[0]))

    def poke(self, key: Key, delay_s: float | None = None) -> None:
        """Reconcile a StatefulSet soon, or after a delay; an earlier appointment stays."""
        self.due.make(key, delay_s)

    def poke_all(self) -> None:
        """Reconcile every StatefulSet, as after a restart of the controller."""
        for stateful_set in self._server.list(STATEFULSETS):
            self.poke((namespace_of(stateful_set), name_of(stateful_set)))

    def _sync(self, key: Key) -> None:
        stateful_set = self._server.get(STATEFULSETS, *key)
        if stateful_set is None:
            return
        try:
            _Sync(self, self._server, stateful_set, now_s=self._loop.time()).run()
        except ApiError as error:
            # Another writer was faster, or the namespace is going away: reconcile again later.
            self._trace.add(self._loop.time(), "statefulset", "sync failed", set=key[1], error=str(error))
            self.poke(key, 1.0)

    def note(self, what: str, pod: str, **facts: object) -> None:
        """Trace what was done to a pod."""
        self._trace.add(self._loop.time(), "statefulset", what, pod=pod, **facts)


def revision_hash(template: Json) -> str:
    """Hash a pod template, for the name of its revision."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def _is_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _is_ready(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and is_true(pod, "Ready")


def _revision_of(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.REVISION_LABEL, ""))


@dataclass(slots=True)
class _Sync:
    """One sync of one StatefulSet."""

    controller: StatefulSetController
    server: ApiServer
    stateful_set: Json
    now_s: float
    current_revision: str = ""
    update_revision: str = ""

    def run(self) -> None:
        spec = self.stateful_set["spec"]
        self._revisions()
        pods = self._own_pods()
        start, wanted = (spec.get("ordinals") or {}).get("start", 0), spec.get("replicas", 1)
        by_ordinal = {self._ordinal(pod): pod for pod in pods}
        replicas: dict[int, Json | None] = {n: by_ordinal.get(n) for n in range(start, start + wanted)}
        condemned = sorted((n for n in by_ordinal if n not in replicas), reverse=True)
        if not is_terminating(self.stateful_set):
            self._step(replicas, [by_ordinal[n] for n in condemned])
        self._write_status()

    # -- what it owns

    @property
    def _name(self) -> str:
        return name_of(self.stateful_set)

    @property
    def _namespace(self) -> str:
        return namespace_of(self.stateful_set)

    def _ordinal(self, pod: Json) -> int:
        return int(name_of(pod).rpartition("-")[2])

    def _own_pods(self) -> list[Json]:
        """Return the pods of this set; adopt orphans of its name that match, release those that no longer do."""
        selector = Selector(",".join(f"{k}={v}" for k, v in sorted(self._match_labels().items())))
        found = []
        for pod in self.server.list(PODS, self._namespace):
            base, _, ordinal = name_of(pod).rpartition("-")
            if base != self._name or not ordinal.isdigit():
                continue
            owner = controller_of(pod)
            if owner is not None and owner["uid"] == uid_of(self.stateful_set):
                if selector.matches(pod) or is_terminating(self.stateful_set):
                    found.append(pod)
                else:
                    self._set_owners(pod, [])
                    self.controller.note("pod released", name_of(pod))
            elif (
                owner is None
                and selector.matches(pod)
                and not (is_terminating(pod) or is_terminating(self.stateful_set))
            ):
                found.append(self._set_owners(pod, [self._owner()]))
                self.controller.note("pod adopted", name_of(pod))
        return found

    def _match_labels(self) -> dict[str, str]:
        spec = self.stateful_set["spec"]
        labels: dict[str, str] = (spec.get("selector") or {}).get("matchLabels") or {}
        return labels

    def _owner(self) -> Json:
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": self._name,
            "uid": uid_of(self.stateful_set),
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _set_owners(self, pod: Json, owners: list[Json]) -> Json:
        patch: Json = {"metadata": {"ownerReferences": owners or None}}
        return self.server.patch(PODS, self._namespace, name_of(pod), patch, uid=uid_of(pod))

    def _revisions(self) -> None:
        """Know the present and the wanted revision; a new template becomes a ControllerRevision."""
        template = self.stateful_set["spec"]["template"]
        self.update_revision = f"{self._name}-{revision_hash(template)}"
        if self.server.get(REVISIONS, self._namespace, self.update_revision) is None:
            metadata = {"namespace": self._namespace, "name": self.update_revision, "ownerReferences": [self._owner()]}
            self.server.create(REVISIONS, {"metadata": metadata, "data": template})
        self.current_revision = (self.stateful_set.get("status") or {}).get("currentRevision") or self.update_revision

    # -- one step

    def _step(self, replicas: dict[int, Json | None], condemned: list[Json]) -> None:
        is_ordered = self.stateful_set["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        for ordinal, pod in replicas.items():
            if self._tend(ordinal, pod) and is_ordered:
                return
        unhealthy = [p for p in (*replicas.values(), *reversed(condemned)) if p is not None and not self._is_fit(p)]
        for pod in condemned:
            if is_terminating(pod):
                if is_ordered:
                    return
                continue
            if is_ordered and not self._is_fit(pod) and pod is not unhealthy[0]:
                return
            self._delete(pod, "scale down")
            if is_ordered:
                return
        if (self.stateful_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate":
            self._roll(replicas)

    def _tend(self, ordinal: int, pod: Json | None) -> bool:
        """Repair or create one replica; True when an ordered set must wait for it."""
        if pod is None:
            self._create(ordinal)
            return True
        if _is_ended(pod):
            if not is_terminating(pod):
                self._delete(pod, "ended")
            return True
        if is_terminating(pod) or not _is_ready(pod):
            return True
        if not self._is_available(pod):
            return True
        labels = pod["metadata"].get("labels") or {}
        if labels.get(names.POD_NAME_LABEL) != name_of(pod):
            repaired = {names.POD_NAME_LABEL: name_of(pod), **self._index_label(ordinal)}
            self.server.patch(PODS, self._namespace, name_of(pod), {"metadata": {"labels": repaired}}, uid=uid_of(pod))
        return False

    def _index_label(self, ordinal: int) -> dict[str, str]:
        return {names.POD_INDEX_LABEL: str(ordinal)} if self.controller.has_index_label else {}

    def _is_fit(self, pod: Json) -> bool:
        return _is_ready(pod) and not is_terminating(pod)

    def _is_available(self, pod: Json) -> bool:
        min_ready_s = self.stateful_set["spec"].get("minReadySeconds", 0)
        if not min_ready_s:
            return True
        ready = condition(pod, "Ready")
        assert ready is not None
        left_s: float = at_s_of(ready["lastTransitionTime"]) + min_ready_s - self.now_s
        if left_s > 0:
            self.controller.poke((self._namespace, self._name), left_s + 0.001)
        return left_s <= 0

    def _roll(self, replicas: dict[int, Json | None]) -> None:
        """Delete the highest pod of another revision, one unhealthy pod at a time, down to the partition."""
        rolling = (self.stateful_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        in_order = list(replicas.values())
        for index in range(len(in_order) - 1, rolling.get("partition", 0) - 1, -1):
            pod = in_order[index]
            if pod is None:
                return
            if _revision_of(pod) != self.update_revision and not is_terminating(pod):
                self._delete(pod, "roll")
                return
            if not self._is_fit(pod) or not self._is_available(pod):
                return

    def _delete(self, pod: Json, why: str) -> None:
        self.controller.note("pod deletion requested", name_of(pod), why=why, uid=uid_of(pod)[:8])
        self.server.delete(PODS, self._namespace, name_of(pod), uid=uid_of(pod))

    def _create(self, ordinal: int) -> None:
        revision = self._revision_for(ordinal)
        kept = self.server.get(REVISIONS, self._namespace, revision)
        template = kept["data"] if kept is not None else self.stateful_set["spec"]["template"]
        try:
            pod = self.server.create(PODS, self._new_pod(ordinal, template, revision))
        except ApiError as error:
            if error.status == 409:
                # A pod of that name that is not ours holds the name.
                self.controller.poke((self._namespace, self._name), 1.0)
                return
            raise
        self.controller.note("pod created", name_of(pod), uid=uid_of(pod)[:8], revision=revision)

    def _revision_for(self, ordinal: int) -> str:
        """Choose the revision of a new pod: below the partition the current one (newVersionedStatefulSetPod)."""
        spec = self.stateful_set["spec"]
        strategy = spec.get("updateStrategy") or {}
        start = (spec.get("ordinals") or {}).get("start", 0)
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        is_rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        if is_rolling and (ordinal < start + partition):
            return self.current_revision
        return self.update_revision

    def _new_pod(self, ordinal: int, template: Json, revision: str) -> Json:
        name = f"{self._name}-{ordinal}"
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {})}
        labels |= {names.POD_NAME_LABEL: name, **self._index_label(ordinal), names.REVISION_LABEL: revision}
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self._namespace,
                "name": name,
                "labels": labels,
                "ownerReferences": [self._owner()],
            },
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "tolerations": [*DEFAULT_TOLERATIONS],
                **template["spec"],
                "hostname": name,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        }
        if metadata.get("annotations"):
            pod["metadata"]["annotations"] = {**metadata["annotations"]}
        return pod

    # -- status

    def _write_status(self) -> None:
        fresh = self.server.get(STATEFULSETS, self._namespace, self._name)
        if fresh is None or uid_of(fresh) != uid_of(self.stateful_set):
            return
        pods = [
            p
            for p in self.server.list(PODS, self._namespace)
            if (owner := controller_of(p)) is not None and owner["uid"] == uid_of(fresh)
        ]
        alive = [p for p in pods if not is_terminating(p) and not _is_ended(p)]
        ready = [p for p in alive if _is_ready(p)]
        updated = sum(_revision_of(p) == self.update_revision for p in alive)
        replicas = fresh["spec"].get("replicas", 1)
        current = self.current_revision
        if updated == len(ready) == len(pods) == replicas:
            current = self.update_revision
        status: Json = {
            "observedGeneration": self.stateful_set["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready),
            "currentReplicas": sum(_revision_of(p) == current for p in alive),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": self.update_revision,
            "collisionCount": 0,
        }
        self.server.update(
            STATEFULSETS,
            {"metadata": {"namespace": self._namespace, "name": self._name}, "status": status},
            subresource="status",
        )
