"""Rollouts that change what the members of a workload are, and copies of an id that belongs to another pod.

Sources: KIP-848 (online migration of a group, static membership across protocols), KIP-345 (group.instance.id is a
setting of the client, which a new pod template may begin or cease to make).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

from staticgroup.api.resources.client import ClientType
from staticgroup.api.resources.staticgroup import Mode

from ..clients.processes import ContainerProcess
from ..clients.settings import PROTOCOL_VARIABLE
from ..faults.registry import attempt, wait_for
from ..kubernetes.objects import PODS, STATEFULSETS, STATIC_GROUPS, Json, merged
from ..kubernetes.users import stateful_set
from ..world import teams
from ..world.teams import Team
from ..world.world import GROUP, NAMESPACE, WORKLOAD, World
from .drawn_changes import Change, ChangeKind

OBSERVED_WITHIN_S = 30.0
BETWEEN_PODS_S = 15.0
"""Where the StatefulSet's controller replaces nothing (OnDelete), people delete one pod after the other."""
COPY = f"{WORKLOAD}-copy"
ELSEWHERE = "elsewhere"
"""No node of the cluster."""
RESTARTED_AFTER_S = 5.0
"""As a container runtime does that restarts what ends."""


class Changes:
    """Carries out the changes that were drawn.

    Parameters
    ----------
    rng: of whose id is copied.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    async def carry_out(self, change: Change) -> None:
        """Wait for the moment, change something, and change it back."""
        await asyncio.sleep(change.after_s)
        act = {
            ChangeKind.PROTOCOL: self._speak_the_other_protocol,
            ChangeKind.DYNAMIC: self._do_without_ids,
            ChangeKind.COPY: self._copy_the_workload,
            ChangeKind.OUTSIDER: self._run_elsewhere,
        }[change.kind]
        await act(change)

    # rollouts -------------------------------------------------------------------------------------------------------

    async def _speak_the_other_protocol(self, change: Change) -> None:
        before = self._world.team.spec
        other = "consumer" if self._world.settings.protocol == "classic" else "classic"
        spec = protocol_spec(before, other) if change.is_in_spec else {}
        await self.roll_out(change.kind, spec, client_protocol=other)
        await asyncio.sleep(change.lasts_s)
        await self.roll_out(change.kind, taken_back(before, spec), client_protocol="")

    async def _do_without_ids(self, change: Change) -> None:
        team = self._world.team
        spec = spec_without_ids(team)
        await self.roll_out(change.kind, spec, is_by_hand=False)
        await asyncio.sleep(change.lasts_s)
        before = team.spec | {"mode": Mode.MANAGE.value}
        await self.roll_out(change.kind, taken_back(before, spec), is_by_hand=team.is_by_hand)

    async def roll_out(self, kind: ChangeKind, spec: Json, **fields: Any) -> None:
        """Edit the StaticGroup, wait until the operator has seen it, and replace the pods by those of another template.

        Parameters
        ----------
        spec: a merge patch of the StaticGroup's spec.
        fields: of the team.
        """
        world = self._world
        world.trace.add(world.loop.time(), "user", kind.value)
        world.change_team(replace(world.team, spec=merged(world.team.spec, spec), **fields))
        if spec:
            attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, spec))
            await wait_for(world, self._has_seen_the_edit, OBSERVED_WITHIN_S)
        found = world.server.get(STATEFULSETS, NAMESPACE, WORKLOAD)
        if found is None:
            return  # when it is created again it has the new template
        wanted = teams.containers(world.team, teams.id_template_by_hand(world.team, world.status))
        if found["spec"]["template"]["spec"]["containers"] == wanted:
            world.users.roll(NAMESPACE, WORKLOAD)
        else:
            world.users.edit_workload(NAMESPACE, WORKLOAD, {"template": {"spec": {"containers": wanted}}})
        if found["spec"]["updateStrategy"]["type"] == "OnDelete":
            await self._delete_one_by_one()

    def _has_seen_the_edit(self) -> bool:
        found = self._world.server.get(STATIC_GROUPS, NAMESPACE, GROUP) or {}
        observed = (found.get("status") or {}).get("observedGeneration")
        return bool(found) and observed == found["metadata"].get("generation")

    async def _delete_one_by_one(self) -> None:
        for ordinal in self._world.truth.desired(WORKLOAD, NAMESPACE):
            name = f"{WORKLOAD}-{ordinal}"
            attempt(lambda name=name: self._world.users.delete_pod(NAMESPACE, name))  # type: ignore[misc]
            await asyncio.sleep(BETWEEN_PODS_S)

    # copies ---------------------------------------------------------------------------------------------------------

    async def _copy_the_workload(self, change: Change) -> None:
        """Create a second StatefulSet outside of the StaticGroup with the variables of a running pod."""
        world, original = self._world, self._draw_original()
        if original is None:
            return
        variables = [{"name": n, "value": v} for n, v in self._copied(original).items()]
        containers = [{"name": original.container, "image": "shop/orders:1", "env": variables}]
        copy = stateful_set(NAMESPACE, COPY, 1, pod_spec={"containers": containers})
        attempt(lambda: world.users.create(STATEFULSETS, copy))
        try:
            await self._live_beside(change, original)
        finally:
            attempt(lambda: world.users.delete_workload(NAMESPACE, COPY))

    async def _run_elsewhere(self, change: Change) -> None:
        """Run a pod's program outside of the cluster with its variables; it is restarted whenever it ends."""
        world, original = self._world, self._draw_original()
        if original is None:
            return
        uid, container = f"{ELSEWHERE}-{world.loop.time():.3f}", original.container

        async def supervise() -> None:
            while True:
                if not world.processes.is_running(uid, container):
                    world.processes.start(
                        node=ELSEWHERE,
                        namespace=ELSEWHERE,
                        pod_name=original.pod_name,
                        pod_uid=uid,
                        container=container,
                        environment=self._copied(original),
                    )
                await asyncio.sleep(RESTARTED_AFTER_S)

        supervisor = world.loop.spawn(supervise(), name=uid)
        try:
            await self._live_beside(change, original)
        finally:
            supervisor.cancel()
            world.processes.signal(uid, container, "KILL")

    async def _live_beside(self, change: Change, original: ContainerProcess) -> None:
        """Let a copy live for its time; in half of the cases the original is no longer wanted meanwhile."""
        world, team = self._world, self._world.team
        world.trace.add(world.loop.time(), "user", change.kind.value)
        start = int(team.set_spec.get("ordinals", {}).get("start", 0))
        before = int(original.pod_name.rpartition("-")[2]) - start
        await asyncio.sleep(change.lasts_s * 0.4)
        if before > 0 and self._rng.random() < 0.5:
            attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, before))
        await asyncio.sleep(change.lasts_s * 0.6)

    def _draw_original(self) -> ContainerProcess | None:
        """Draw a running process of the workload that was given an id; None: there is none."""
        world = self._world
        present = {pod["metadata"]["uid"] for pod in world.server.list(PODS, NAMESPACE)}
        running = (p for p in world.processes.running() if p.container == world.team.container)
        found = [p for p in running if p.pod_uid in present and world.ids_of(p)]
        return self._rng.choice(found) if found else None

    def _copied(self, original: ContainerProcess) -> dict[str, str]:
        """Return the variables that make the copy what the original is."""
        names = (self._world.team.variables.instance_id_name, PROTOCOL_VARIABLE)
        return {name: original.environment[name] for name in names if name in original.environment}


def protocol_spec(spec: Json, protocol: str) -> Json:
    """Return the edit of a StaticGroup whose clients are about to use another protocol; None removes a field.

    With spec.groupProtocol Auto there is nothing to say. A session timeout is of classic clients, the removal of
    crashed members of KIP-848 groups.
    """
    if spec.get("groupProtocol", "Auto") == "Auto":
        return {}
    if protocol == "consumer":
        return {"groupProtocol": "Consumer", "sessionTimeout": None}
    released = {"removal": "Departed"} if spec.get("removal") == "DepartedAndCrashed" else {}
    return {"groupProtocol": "Classic", **released}


def spec_without_ids(team: Team) -> Json:
    """Return the edit of a StaticGroup whose next pods are to get no ids from it; None removes a field.

    What type Own would imply otherwise is written out, so that the ids that pods have stay those of the StaticGroup.
    Own ids are of consumers; for workers of Connect there is mode Observe.
    """
    if team.client.get("type") == ClientType.OWN:
        return {}
    if team.is_of_workers:
        return {"mode": Mode.OBSERVE.value}
    client: Json = {"type": ClientType.OWN.value, "suffixes": team.suffixes, "env": [team.variables.to_wire()]}
    left_out = {name: None for name in ("container", "concurrency") if name in team.client}
    return {"client": client | left_out, "idTemplate": team.template}


def taken_back(before: Json, edit: Json) -> Json:
    """Return the merge patch that takes another one back.

    Parameters
    ----------
    before: what was there before it.
    """
    return {
        name: taken_back(before.get(name) or {}, value) if isinstance(value, dict) else before.get(name)
        for name, value in edit.items()
    }
