"""What people do to a Deployment: roll and roll back, scale, pause, delete pods in every way, and copy them.

Notes are left alone: a policy refuses them to everybody but the operator. A copy of a pod brings its note along, which
is for another uid.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from staticgroup.api.names import SLOT_NAME

from ..faults.registry import attempt
from ..kubernetes.objects import DEPLOYMENTS, PODS, Json, is_terminating, name_of
from ..oracles.pod_life import deployment_of
from ..world.teams import Team
from ..world.world import World
from .drawn_deployments import draw_strategy

EVERY_S: Final = (8.0, 60.0)
REPLICAS_MAX: Final = 6
COPIED_FOR_S: Final = (20.0, 120.0)
DEEDS: Final = {
    "roll": 5.0,
    "scale": 4.0,
    "delete a pod": 2.0,
    "drain a pod": 1.0,
    "force-delete a pod": 1.5,
    "force-delete a pod that waits": 1.5,
    "roll back": 1.5,
    "pause": 1.0,
    "copy a pod": 1.0,
    "edit the strategy": 0.7,
    "create it again": 0.3,
}
"""What people do, with relative frequencies."""


class Deployer:
    """The people of one team with a Deployment.

    Parameters
    ----------
    rng: of what they decide.
    """

    def __init__(self, world: World, team: Team, rng: Random) -> None:
        self._world, self._team, self._rng = world, team, rng
        self._place = (team.namespace, team.workload)
        self._former: list[Json] = []
        self._copies = 0

    async def work(self) -> None:
        """Do something now and then, until it is cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(*EVERY_S))
            await self.do(self._rng.choices(list(DEEDS), list(DEEDS.values()))[0])

    async def do(self, deed: str) -> None:
        """Do one thing; whatever the API server refuses is left at that."""
        users, rng = self._world.users, self._rng
        if deed == "roll":
            self._roll()
        elif deed == "scale":
            replicas = rng.randint(0 if rng.random() < 0.1 else 1, REPLICAS_MAX)
            attempt(lambda: users.scale(*self._place, replicas, resource=DEPLOYMENTS))
        elif deed == "roll back":
            self._roll_back()
        elif deed == "pause":
            await self._pause()
        elif deed == "copy a pod":
            self._copy()
        elif deed == "edit the strategy":
            self._edit({"strategy": draw_strategy(rng)})
        elif deed == "create it again":
            await self._create_again()
        else:
            self._end_a_pod(deed)

    def tidy_up(self) -> None:
        """See to it that there is a Deployment, and that it is not paused."""
        if self._found() is None:
            self._world.create_workload(self._team)
        self._edit({"paused": None})

    def pods(self) -> list[Json]:
        """Return its pods."""
        return [p for p in self._world.server.list(PODS, self._team.namespace) if deployment_of(p) == self._place[1]]

    def _found(self) -> Json | None:
        return self._world.server.get(DEPLOYMENTS, *self._place)

    def _edit(self, spec: Json) -> None:
        attempt(lambda: self._world.users.edit_workload(*self._place, spec, resource=DEPLOYMENTS))

    def _annotations(self) -> Json:
        found = self._found() or {"spec": {"template": {}}}
        return dict((found["spec"]["template"].get("metadata") or {}).get("annotations") or {})

    def _roll(self) -> None:
        self._former.append(self._annotations())
        attempt(lambda: self._world.users.roll(*self._place, resource=DEPLOYMENTS))

    def _roll_back(self) -> None:
        """Return to the template before the last roll, perhaps in the middle of that roll."""
        if self._former:
            gone = dict.fromkeys(self._annotations())
            self._edit({"template": {"metadata": {"annotations": gone | self._former.pop()}}})

    async def _pause(self) -> None:
        """Pause it, perhaps in the middle of a roll, change the template meanwhile, and go on."""
        self._edit({"paused": True})
        await asyncio.sleep(self._rng.uniform(1, 30))
        if self._rng.random() < 0.6:
            self._roll()
        await asyncio.sleep(self._rng.uniform(1, 30))
        self._edit({"paused": None})

    def _end_a_pod(self, deed: str) -> None:
        is_of_waiting, users = deed == "force-delete a pod that waits", self._world.users
        names = [name_of(pod) for pod in self.pods() if not is_of_waiting or _waits(pod)]
        if not names:
            return
        name = self._rng.choice(names)
        if deed == "drain a pod":
            attempt(lambda: users.drain_pod(self._team.namespace, name))
        else:
            grace_s = 0 if deed.startswith("force") else None
            attempt(lambda: users.delete_pod(self._team.namespace, name, grace_s=grace_s))

    def _copy(self) -> None:
        """Apply a pod once more under another name, with its annotations; its owner and labels come too, or not."""
        pods = [pod for pod in self.pods() if not is_terminating(pod)]
        if not pods:
            return
        original, is_owned = self._rng.choice(pods), self._rng.random() < 0.5
        self._copies += 1
        kept = ("namespace", "annotations", *(("labels", "ownerReferences") if is_owned else ()))
        metadata = {key: original["metadata"][key] for key in kept if key in original["metadata"]}
        metadata["name"] = f"{name_of(original)}-copy{self._copies}"
        spec = {key: value for key, value in original["spec"].items() if key != "nodeName"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        attempt(lambda: self._world.users.create(PODS, body))
        after_s, users = self._rng.uniform(*COPIED_FOR_S), self._world.users
        place = (metadata["namespace"], metadata["name"])
        self._world.loop.world_call_later(after_s, lambda: attempt(lambda: users.delete_pod(*place)))

    async def _create_again(self) -> None:
        users = self._world.users
        attempt(lambda: users.delete_workload(*self._place, resource=DEPLOYMENTS))
        await asyncio.sleep(self._rng.uniform(1, 30))
        if self._found() is None:
            self._world.create_workload(self._team)


def _waits(pod: Json) -> bool:
    """Whether a pod's waiter runs, by its status."""
    shown = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(s["name"].startswith(f"{SLOT_NAME}-") and "running" in s["state"] for s in shown)
