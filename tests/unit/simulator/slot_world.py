"""A cluster with a Deployment whose pods carry the waiter, as the policy writes it, and somebody who writes notes."""

from __future__ import annotations

from typing import Any

from simulator.kubernetes import users
from simulator.kubernetes.objects import DEPLOYMENTS, PODS, Json, name_of, uid_of
from simulator.kubernetes.storage import ApiError
from simulator.kubernetes.watch_log import Event
from simulator.oracles.pod_life import deployment_of
from simulator.world.teams import Team
from simulator.world.world import World
from staticgroup.api import names
from support.narrowing import some

from .plain_world import INSTANCE_ID, PlainWorld

SCOPE = "0123abcd"
WAITER = f"{names.SLOT_NAME}-{SCOPE}"
NOTE = f"{names.SLOT_ANNOTATION}-{SCOPE}"
APP = "app"


def pod_spec(container: str = APP, *, scope: str = SCOPE, variable: str = INSTANCE_ID) -> Json:
    """Return the spec of a pod that waits for its slot."""
    waiter = f"{names.SLOT_NAME}-{scope}"
    file = {"volumeName": waiter, "path": names.SLOT_FILE, "key": "ID_0", "optional": True}
    return {
        "initContainers": [
            {"name": waiter, "image": "staticgroup/slot-waiter:1", "args": [f"ID_0=%s.{scope}"]},
        ],
        "containers": [
            {
                "name": container,
                "image": "shop/orders:1",
                "env": [{"name": variable, "valueFrom": {"fileKeyRef": file}}],
            }
        ],
    }


def deployment(replicas: int, **spec: Any) -> Json:
    """Return a Deployment `orders` of such pods."""
    labels = {"app": "orders"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    body: Json = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"namespace": "shop", "name": "orders"}, "spec": body | spec}


class SlotWorld(PlainWorld):
    """A cluster with such a Deployment."""

    def deploy(self, replicas: int = 1, **spec: Any) -> None:
        self.server.create(DEPLOYMENTS, deployment(replicas, **spec))

    @property
    def only(self) -> Json:
        """The only pod."""
        (pod,) = self.pods
        return pod

    def waiter_state(self, pod: Json) -> Json:
        """Return what the status says of the waiter."""
        shown = (pod.get("status") or {}).get("initContainerStatuses") or [{"name": WAITER, "state": {}}]
        state: Json = next(s["state"] for s in shown if s["name"] == WAITER)
        return state

    async def waits(self) -> Json:
        """Wait until the waiter of the only pod runs, and return the pod."""
        await self.until(lambda: self.pods and "running" in self.waiter_state(self.only))
        return self.only

    def write(self, pod: Json, note: str, *, uid: str = "") -> None:
        """Write a note for a pod."""
        present = some(self.server.get(PODS, "shop", pod["metadata"]["name"]))
        patch = {"metadata": {"annotations": {NOTE: f"{uid or uid_of(pod)} {note}"}}}
        self.server.patch(PODS, "shop", present["metadata"]["name"], patch)

    def environment(self, pod: Json) -> dict[str, str] | None:
        """Return the variables with which the pod's container runs; None: it does not."""
        found = self.processes.running.get((uid_of(pod), APP))
        return dict(found[1]) if found is not None else None


CART = Team(kind="Deployment", workload="cart", name="carts", container="cart", spec={"groupProtocol": "Classic"})


class Deployed:
    """A Deployment `cart` in a world without operators, and somebody who gives its pods slots.

    Attributes
    ----------
    passes_on: slots of pods whose processes have ended are given again. gives: whether notes are written at all.
    """

    def __init__(self, world: World, team: Team = CART, **spec: Any) -> None:
        self.world, self.team = world, team
        self.passes_on = self.gives = True
        world.create_group(team)
        (self.life,) = [life for life in world.truth.groups.values() if life.name == team.name]
        self.scope = self.life.scope
        body = users.deployment(
            team.namespace, team.workload, team.replicas,
            pod_spec=pod_spec(team.container, scope=self.scope), **(team.set_spec | spec),
        )  # fmt: skip
        world.users.create(DEPLOYMENTS, body)
        self.given: dict[str, int] = {}
        world.server.observers.append(self._observe)

    @property
    def pods(self) -> list[Json]:
        server = self.world.server
        return [p for p in server.list(PODS, self.team.namespace) if deployment_of(p) == self.team.workload]

    def id_of(self, number: int) -> str:
        return f"{self.team.workload}-{number}.{self.scope}"

    def write(self, pod: Json, note: str) -> None:
        """Write a note, unless the pod is gone."""
        patch = {"metadata": {"annotations": {f"{names.SLOT_ANNOTATION}-{self.scope}": f"{uid_of(pod)} {note}"}}}
        try:
            self.world.server.patch(PODS, self.team.namespace, name_of(pod), patch, uid=uid_of(pod))
        except ApiError:
            pass  # it has ended

    def _observe(self, resource: str, event: Event) -> None:
        pod = event.current
        if resource != PODS or pod is None or uid_of(pod) in self.given or not self.gives or not deployment_of(pod):
            return
        shown = (pod.get("status") or {}).get("initContainerStatuses") or []
        if any(s["name"].startswith(names.SLOT_NAME) and "running" in s["state"] for s in shown):
            number = self._free()
            self.given[uid_of(pod)] = number
            for after_s in (0.3, 5.0, 10.0):  # a kubelet may miss one
                self.world.loop.world_call_later(
                    after_s, self.write, pod, f"has {self.team.workload}-{number} {after_s}"
                )

    def _free(self) -> int:
        """Return the slot of a pod that is gone and never runs again, or a new one."""
        world = self.world
        there = {uid_of(pod) for pod in self.pods} | {p.pod_uid for p in world.processes.running()}
        there |= {uid for machine in world.kubernetes.machines for uid, _ in machine.waiters.running}
        in_use = {number for uid, number in self.given.items() if uid in there}
        free = sorted(set(self.given.values()) - in_use)
        return free[0] if free and self.passes_on else len(set(self.given.values())) + 1
