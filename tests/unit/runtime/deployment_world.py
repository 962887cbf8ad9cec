"""A Deployment's pods for tests of rounds: they wait for notes, start with what those give, and end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from staticgroup.api.workloads import DEPLOYMENT
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.workload import Rollout
from staticgroup.kube.translate import pod_version
from support.narrowing import of_type
from unit.core.builders import workload
from unit.kube.raw_deployments import annotation_of, deployed, over
from unit.kube.raw_objects import Json, at, ended, running
from unit.runtime.operator_world import OperatorWorld

GRACE_S = 30


class DeploymentWorld(OperatorWorld):
    """A Deployment `web`, the group `orders`, and one operator process.

    Attributes
    ----------
    raws: the pods' objects as they are, by name.
    """

    def __init__(self, *, replicas: int = 5, ref: Json | None = None, **spec: Any) -> None:
        self.raws: dict[str, Json] = {}
        super().__init__(workloadRef=ref or {"name": "web", "kind": "Deployment"}, **spec)
        self.kube.noted = self._noted
        self.declare_deployment(replicas)

    def scale(self, replicas: int, *, in_store: bool = True) -> None:
        """Set the replicas; a Deployment is in no store."""
        self.declare_deployment(replicas)

    def declare_deployment(self, replicas: int, updated: int | None = None, **changes: Any) -> None:
        """Show the Deployment as it is now, its status up to date."""
        rollout = Rollout(**{key: changes.pop(key) for key in list(changes) if key in Rollout.__slots__})
        values: dict[str, Any] = {
            "kind": DEPLOYMENT, "listed": (), "rollout": rollout, "current_revision": "", "update_revision": "",
            "updated_replicas": replicas if updated is None else updated, "status_replicas": 0,
        }  # fmt: skip
        self.kube.workloads["shop", "web"] = workload(replicas, **(values | changes))

    # what pods do

    def make(self, *names: str, **changes: Any) -> None:
        """Make pods whose waiters run."""
        for name in names:
            values: dict[str, Any] = {"uid": f"uid-{name}", "node": "n1", "scopes": (self.scope,)}
            self._shows(deployed(name, **(values | changes)))

    def _noted(self, version: PodVersion, annotation: str, text: str) -> None:
        raw = self.raws[version.name]
        annotations = raw["metadata"]["annotations"] | {annotation: text}
        self._shows(raw | {"metadata": raw["metadata"] | {"annotations": annotations}})

    def touch(self, name: str) -> None:
        """Let somebody else write a new version of a pod."""
        self._shows(self.raws[name])

    def _shows(self, raw: Json, *, is_deleted: bool = False) -> None:
        name = raw["metadata"]["name"]
        self.raws[name] = raw
        self._happens(of_type(PodVersion, pod_version(at(raw, 1))), is_deleted=is_deleted)
        if is_deleted:
            del self.raws[name]

    def note_of(self, name: str, scope: str = "") -> str:
        """Return what the operator's note says to a pod; "" for none."""
        text: str = self.raws[name]["metadata"]["annotations"].get(annotation_of(scope or self.scope), "")
        return text.removeprefix(f"uid-{name} ")

    def slot_of(self, name: str, scope: str = "") -> str:
        """Return the slot that a pod has; "" for none."""
        words = self.note_of(name, scope).split()
        return words[1] if words[:1] == ["has"] else ""

    def waiting(self) -> list[str]:
        """Return the pods without a slot."""
        return [name for name in self.raws if not self.slot_of(name)]

    def begin(self, *names: str) -> None:  # type: ignore[override]
        """Let the waiters read their notes and end, the application start, and its members join with their ids."""
        for name in names:
            raw, slot = self.raws[name], self.slot_of(name)
            inits = [ended(container["name"]) for container in raw["spec"]["initContainers"]]
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._at(0)}
            status = {
                "phase": "Running", "initContainerStatuses": inits, "containerStatuses": [running()], "conditions": [ready],
            }  # fmt: skip
            self._shows(raw | {"status": status})
            if slot:
                self.kafka.join(self.id_in(slot))

    def id_in(self, slot: str) -> str:
        return f"{slot}.{self.scope}"

    def delete(self, *names: str) -> None:
        """Delete pods, which have their grace period left."""
        for name in names:
            raw = self.raws[name]
            metadata = {"deletionTimestamp": self._at(GRACE_S), "deletionGracePeriodSeconds": GRACE_S}
            self._shows(raw | {"metadata": raw["metadata"] | metadata})

    def finish(self, *names: str) -> None:
        """End pods gracefully; their objects go."""
        for name in names:
            self._shows(over(self.raws[name]))
            self._shows(self.raws[name], is_deleted=True)

    def lose(self, *names: str) -> None:
        """Delete pods by force: their processes may live."""
        for name in names:
            self._shows(self.raws[name], is_deleted=True)

    def _at(self, in_s: float) -> str:
        return datetime.fromtimestamp(self.now_s + in_s, tz=UTC).isoformat()

    # how it begins

    async def up(self, replicas: int = 5) -> dict[str, str]:
        """Let ids be issued and pods start with slots of their own, five minutes ago; returns the slot of each."""
        self.declare_deployment(replicas)
        await self.settled(2)
        names = [f"old-{n}" for n in range(1, replicas + 1)]
        self.make(*names)
        await self.settled(2)
        self.begin(*names)
        await self.settled(3)
        self.now_s += 300
        await self.settled(3)
        return {name: self.slot_of(name) for name in names}

    def slots_said(self, annotation_scope: str = "") -> list[str]:
        """Return what every note said, in order."""
        wanted = annotation_of(annotation_scope or self.scope)
        return [text.partition(" ")[2] for _, annotation, text in self.kube.notes if annotation == wanted]

    def clear_notes(self) -> None:
        self.kube.notes.clear()

    def rollout(self, **changes: Any) -> None:
        """Change how the Deployment replaces its pods."""
        view = self.kube.workloads["shop", "web"]
        assert view.rollout is not None
        self.kube.workloads["shop", "web"] = replace(view, rollout=replace(view.rollout, **changes))
