"""How users set up a world, and what they do then: install, scale, roll, edit and change their minds."""

from __future__ import annotations

import asyncio
from random import Random

from staticgroup.api.names import SLOTS_NAME
from staticgroup.api.resources.staticgroup import Mode, RemovalPolicy

from ..faults.arrivals import come_unseen
from ..faults.heirs import find_again
from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import MUTATING_POLICIES, PODS, STATEFULSETS, STATIC_GROUPS, is_true
from ..kubernetes.storage import ApiError
from ..world import teams
from ..world.teams import Team
from ..world.world import GROUP, NAMESPACE, WORKLOAD, World
from .changes import Changes
from .deployments import Deployer
from .drawing import SCOPED, Arrival, Drawn
from .repository import Repository, repository_source

UP_WITHIN_S = 240.0
LOOKS_EVERY_S = 20.0
LOST_FOR_S = (200.0, 400.0)
DEEDS = {
    "scale": 5.0,
    "roll": 3.0,
    "flap": 2.0,
    "delete pod": 2.0,
    "recreate": 0.4,
    "edit removal": 0.3,
    "edit template": 0.3,
    "edit strategy": 0.2,
    "scale others": 1.5,
}
"""What people do, with relative frequencies."""


class Town:
    """The people of one world.

    Parameters
    ----------
    rng: of what they decide.
    """

    def __init__(self, world: World, drawn: Drawn, rng: Random) -> None:
        self._world = world
        self._drawn = drawn
        self._rng = rng

    # how it begins --------------------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        """Start operators and bring everything up, in the order that was drawn.

        Raises
        ------
        AssertionError: it did not come up in time.
        """
        world, team = self._world, self._world.team
        is_suspended = team.spec["mode"] == Mode.SUSPENDED
        world.start_operator()
        if self._drawn.has_standby:
            world.start_operator("operator-b")
        if self._drawn.arrival is Arrival.WORKLOAD_FIRST:
            world.create_workload()
            await world.until(self._is_up, UP_WITHIN_S, "all pods are ready")
        world.create_group()
        if self._drawn.arrival is Arrival.UNSEEN:
            lost: list[Kubelet] = []
            await come_unseen(world, self._rng, lost)
            for node in lost:
                world.loop.world_call_later(self._rng.uniform(*LOST_FOR_S), find_again, world, node)
        await world.until(lambda: "injected" in world.status or is_suspended, UP_WITHIN_S, "ids are issued")
        await asyncio.sleep(1.0)
        if self._drawn.arrival is Arrival.WORKLOAD_FIRST:
            self._adopt(team)
        elif self._drawn.arrival is Arrival.GROUP_FIRST:
            world.create_workload()
        if self._drawn.arrival is not Arrival.UNSEEN:
            await world.until(self._is_up, UP_WITHIN_S, "all pods are members")
        for other in world.settings.others:
            await self._move_in(other)

    def _adopt(self, team: Team) -> None:
        """Bring ids to pods that are there already: by the template, or by a roll."""
        self._follow_template(team)
        if not team.is_by_hand:
            self._world.users.roll(team.namespace, team.workload)

    async def _move_in(self, other: Team) -> None:
        """Let another team come, which waits only for itself."""
        world = self._world
        world.create_group(other)
        if other.replicas:
            await asyncio.sleep(5.0)
            world.create_workload(other)

    def _is_up(self) -> bool:
        """True when the first team's pods are ready, and those that carry ids are members."""
        world, team = self._world, self._world.team
        pod_names = [f"{team.workload}-{n}" for n in world.truth.desired(team.workload, team.namespace)]
        pods = [world.server.get(PODS, team.namespace, name) for name in pod_names]
        if not pods or any(pod is None or not is_true(pod, "Ready") for pod in pods):
            return False
        ids = {i for p in world.processes.running() if p.namespace == team.namespace for i in world.ids_of(p)}
        return world.member_count() >= len(pods) and ids <= set(world.members())

    # what goes on ---------------------------------------------------------------------------------------------------

    async def work(self, until_s: float) -> None:
        """Do what users of a busy workload do, now and then."""
        world, drawn = self._world, self._drawn
        chores = [world.loop.spawn(self._follow_templates(), name="templates")]
        if drawn.manages_after_s is not None:
            chores.append(world.loop.spawn(self._manage(drawn.manages_after_s), name="manage"))
        if drawn.upgraded_after_s is not None:
            chores.append(world.loop.spawn(self._upgrade(drawn.upgraded_after_s), name="upgrade"))
        for team in (other for other in world.settings.others if other.is_of_slots):
            deployer = Deployer(world, team, Random(f"deployer/{world.seed}"))
            chores.append(world.loop.spawn(deployer.work(), name="deployer"))
        changes = Changes(world, Random(f"changes/{world.seed}"))
        if (source := repository_source(world.team, world.seed)) is not None:
            chores.append(world.loop.spawn(Repository(world, source).follow(), name="repository"))
        chores += [world.loop.spawn(changes.carry_out(c), name=c.kind.name) for c in drawn.changes]
        while world.loop.time() < until_s:
            await asyncio.sleep(self._rng.uniform(15, 70))
            deed = self._rng.choices(list(DEEDS), list(DEEDS.values()))[0]
            try:
                await self._do(deed)
            except ApiError:
                pass  # the pod or the workload is not there, and the API server says so
        for chore in chores:
            chore.cancel()

    async def _do(self, deed: str) -> None:
        users, rng, replicas = self._world.users, self._rng, self._world.team.replicas
        if deed == "scale":
            users.scale(NAMESPACE, WORKLOAD, rng.randint(1, replicas + 1))
        elif deed == "roll":
            users.roll(NAMESPACE, WORKLOAD)
        elif deed == "flap":
            await self._flap()
        elif deed == "delete pod":
            start = self._world.team.set_spec.get("ordinals", {}).get("start", 0)
            users.delete_pod(NAMESPACE, f"{WORKLOAD}-{start + rng.randrange(replicas)}")
        elif deed == "recreate":
            await self._recreate()
        elif deed == "scale others":
            for other in (o for o in self._world.settings.others if not o.is_of_slots):
                users.scale(other.namespace, other.workload, rng.randint(0, other.replicas + 1))
        else:
            self._edit(deed)

    def _edit(self, deed: str) -> None:
        users, rng, team = self._world.users, self._rng, self._world.team
        if deed == "edit removal":
            own = team.spec["removal"]
            users.edit_group(NAMESPACE, GROUP, {"removal": rng.choice((own, own, RemovalPolicy.NEVER.value))})
        elif deed == "edit template" and team.is_scoped and self._world.settings.has_index_label:
            users.edit_group(NAMESPACE, GROUP, {"idTemplate": rng.choice(SCOPED)})
        elif deed == "edit strategy":
            strategy = rng.choice(({"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}))
            users.edit_workload(NAMESPACE, WORKLOAD, {"updateStrategy": strategy})

    async def _flap(self) -> None:
        ordinals = self._world.truth.desired(WORKLOAD)
        down = max(1, len(ordinals) - self._rng.randint(1, 2))
        self._world.users.scale(NAMESPACE, WORKLOAD, down)
        await asyncio.sleep(self._rng.uniform(0.1, 12))
        self._world.users.scale(NAMESPACE, WORKLOAD, len(ordinals))

    async def _recreate(self) -> None:
        policy = self._rng.choice(("Background", "Orphan"))
        self._world.users.delete_workload(NAMESPACE, WORKLOAD, propagation=policy)
        await asyncio.sleep(self._rng.uniform(1, 30))
        if self._world.server.get(STATEFULSETS, NAMESPACE, WORKLOAD) is None:
            self._world.create_workload()

    async def _follow_templates(self) -> None:
        """Keep the ids that teams write themselves as their StaticGroups show them."""
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            for team in self._world.teams:
                self._follow_template(team)

    def _follow_template(self, team: Team) -> None:
        """Put into a team's pod template what its StaticGroup shows, unless it is there."""
        world = self._world
        id_template = teams.id_template_by_hand(team, world.status_of(team))
        found = world.server.get(STATEFULSETS, team.namespace, team.workload)
        wanted = teams.containers(team, id_template)
        if id_template and found is not None and found["spec"]["template"]["spec"]["containers"] != wanted:
            template = {"template": {"spec": {"containers": wanted}}}
            world.users.edit_workload(team.namespace, team.workload, template)

    async def _manage(self, after_s: float) -> None:
        """Leave mode Observe, or end the suspension, after a while."""
        await asyncio.sleep(after_s)
        if self._world.server.get(STATIC_GROUPS, NAMESPACE, GROUP) is not None:
            self._world.users.edit_group(NAMESPACE, GROUP, {"mode": Mode.MANAGE.value})
            await asyncio.sleep(5.0)
            if self._world.server.get(STATEFULSETS, NAMESPACE, WORKLOAD) is not None:
                self._adopt(self._world.team)

    async def _upgrade(self, after_s: float) -> None:
        """Upgrade the control plane: new pods get the ordinal's label, and sometimes the policy is installed."""
        await asyncio.sleep(after_s)
        world = self._world
        world.trace.add(world.loop.time(), "control plane", "upgraded")
        world.kubernetes.stateful_sets.has_index_label = True
        name = world.server.policy_name
        if self._rng.random() < 0.4 and world.server.get(MUTATING_POLICIES, "", name) is None:
            world.server.create(MUTATING_POLICIES, {"metadata": {"name": name}})
            if any(team.is_of_slots for team in world.teams):
                world.server.create(MUTATING_POLICIES, {"metadata": {"name": SLOTS_NAME}})

    def tidy_up(self) -> None:
        """See to it that there is a workload and an operator, when everything else has been healed."""
        if self._world.server.get(STATEFULSETS, NAMESPACE, WORKLOAD) is None:
            self._world.create_workload()
        for team in (other for other in self._world.settings.others if other.is_of_slots):
            Deployer(self._world, team, self._rng).tidy_up()
        self._world.restart_operator("operator-a")
