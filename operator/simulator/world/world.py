"""A whole world from one seed: Kubernetes, Kafka, clients, users, and real operators, watched by the oracles.

Everything the operator does goes through its own code: reconciler, work queue, pod store, lease, gateways. Only wires,
machines and brokers are models. The operator side never sees the process table.
"""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from typing import Any

from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import Request
from journal.sinks import MemorySink

from ..clients.partition_meter import GroupMeter, PartitionMeter
from ..clients.processes import ContainerProcess, ProcessTable
from ..clients.programs import Programs
from ..engine.loop import SimulationLoop, simulation
from ..engine.trace import Trace
from ..kafka.cluster import ModelKafkaCluster
from ..kafka.network import ConnectionLost, KafkaLink
from ..kubernetes.cluster import Kubernetes
from ..kubernetes.controllers.failure_recovery import FailureRecovery
from ..kubernetes.node.addresses import node_address
from ..kubernetes.objects import (
    DEPLOYMENTS,
    KAFKA_CONNECTIONS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    STATIC_GROUPS,
    Json,
    is_over,
    is_terminating,
    is_true,
    uid_of,
)
from ..operators.entrance import entered
from ..operators.process import RunningOperator, make_operator, note_orders
from ..oracles.assumptions import SAMPLED_EVERY_S, Assumptions
from ..oracles.ground_truth import GroundTruth
from ..oracles.issued_ids import Issue
from ..oracles.pod_life import deployment_of
from ..oracles.promises import (
    Breach,
    Safety,
    StatusHistory,
    Violation,
)
from ..oracles.slots import SlotPromises
from . import teams
from .oracle_feed import OracleFeed
from .settings import WorldSettings, plain_team, program
from .teams import GROUP, NAMESPACE, TOPIC, WORKLOAD, Team

__all__ = ["GROUP", "NAMESPACE", "SYSTEM", "TOPIC", "WORKLOAD", "RunningOperator", "World", "WorldSettings"]

SYSTEM = "ops"
CANARY = "s3cr3t-canary"
"""Stands for a secret; nothing shows it."""
RESTART_PAUSE_S = 2.0
"""The operator's own Deployment starts a new container about so long after the last one ended."""


class World(OracleFeed):
    """One world; use inside a simulation.

    Attributes
    ----------
    team: whose group it is about; teams: all that share the Kafka group, this one first.
    operators: living and dead, in the order of their start.
    on_start: called with each operator before it begins to run.
    faults: kind → how often it happened.
    log_lines: what operators logged, while it is captured.
    journal: sinks of the journal of operators that are started from now on; None: none.
    """

    def __init__(self, settings: WorldSettings, *, seed: object) -> None:
        self.settings = settings
        self.seed = seed
        self.loop: SimulationLoop = simulation()
        self.trace = Trace()
        self.violations: list[Violation] = []
        self.breaches: list[Breach] = []
        self.addressed: set[str] = set()
        self.watches: set[str] = set()
        self.team = settings.team or plain_team(settings)
        self.teams = (self.team, *settings.others)
        self.operators: list[RunningOperator] = []
        self.on_start: list[Callable[[RunningOperator], None]] = []
        self.coordinator_epoch = 0
        self.log_lines: list[str] = []
        self.faults: Counter[str] = Counter()
        self.journal: MemorySink | None = None
        self.kafka = ModelKafkaCluster(
            self.loop,
            settings=settings.brokers,
            image=TopicImage({TOPIC: settings.partitions}),
            trace=self.trace,
        )
        self.meters = PartitionMeter(self.loop.time, lambda: self.kafka.image.partitions)
        self.programs = Programs({}, cluster=self.kafka, meter=self.meters, seed=seed, trace=self.trace)
        for team in self.teams:
            self.programs.containers[team.container] = program(team, settings)
        self.processes = ProcessTable(
            self.loop,
            program_of=self.programs,
            creator_of=self.kafka.births.creator_of,
            trace=self.trace,
            translate=lambda node, address: node_address(node) if settings.address_of == "node" else address,
        )
        self.kubernetes = Kubernetes(
            self.loop,
            self.processes,
            seed=seed,
            trace=self.trace,
            node_names=settings.nodes,
            namespaces=(*self.namespaces, SYSTEM),
            has_policy=settings.has_policy,
            has_webhook=settings.has_webhook,
            has_slots=any(team.is_of_slots for team in self.teams),
            provider=settings.provider,
        )
        self.kubernetes.stateful_sets.has_index_label = settings.has_index_label
        self.server, self.users = self.kubernetes.server, self.kubernetes.users
        cluster = self.server.get(NAMESPACES, "", "kube-system")
        assert cluster is not None
        self.truth = GroundTruth(
            self.loop,
            self.processes,
            self.server.observers,
            uid_of(cluster),
            self._stopped_since_s,
            self._reporting_since_s,
            born_s=self.kafka.births.born_s,
            shows_address=self._shows_address,
            assumptions=Assumptions(settle_s=settings.settle_s),
            are_deleted_nodes_off=settings.nodes_outlive_machines,
        )
        self.failure_recovery = FailureRecovery(self.server, self.loop, trace=self.trace)
        self.failure_recovery.switch(settings.has_failure_recovery)
        self.safety = Safety(self.truth, settings.of_operator().lease_duration_s, self._violated, self._breached)
        self.statuses = StatusHistory(self._violated)
        self.slots = SlotPromises(self._violated)
        self.processes.on_start.append(self._started)
        self.kafka.on_applied.append(self._applied)
        self.kafka.on_released.append(self._released)
        self.server.observers.append(self._observe)
        for namespace in dict.fromkeys(team.namespace for team in self.teams):
            self._create_connection(namespace)
        self.loop.world_call_later(SAMPLED_EVERY_S, self._sample_members)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those of the teams, and as many more as are watched."""
        own = tuple(dict.fromkeys(team.namespace for team in self.teams))
        return own + tuple(f"team-{n}" for n in range(self.settings.watched - len(own)))

    def _create_connection(self, namespace: str) -> None:
        data = {"username": "b3BlcmF0b3I=", "password": b64encode(CANARY.encode()).decode()}
        self.server.create(SECRETS, {"metadata": {"namespace": namespace, "name": "kafka-user"}, "data": data})
        self.server.create(KAFKA_CONNECTIONS, teams.kafka_connection(namespace))

    # what people do -------------------------------------------------------------------------------------------------

    def create_group(self, team: Team | None = None, **spec: Any) -> None:
        """Create a StaticGroup; that of the first team unless another is named."""
        self.users.create(STATIC_GROUPS, teams.static_group(team or self.team, **spec))

    def create_workload(self, team: Team | None = None) -> None:
        """Create a workload; that of the first team unless another is named."""
        team = team or self.team
        grace_s = max(10, round(self.settings.close_s) + 5)
        id_template = teams.id_template_by_hand(team, self.status_of(team))
        self.users.create(team.resource, teams.workload(team, grace_s=grace_s, id_template=id_template))

    def change_team(self, team: Team) -> None:
        """Let the first team write other objects from now on; those that are there stay as they are."""
        self.team = team
        self.teams = (team, *self.settings.others)

    async def populate(self, *, deadline_s: float = 180.0) -> None:
        """Start an operator, unless the clients are dynamic, and bring everything up."""
        if self.settings.is_static:
            self.start_operator()
        await self.bring_up(deadline_s=deadline_s)

    async def bring_up(self, *, deadline_s: float = 180.0) -> None:
        """Let ids be issued, then start the workload and wait until all pods are members of a stable group.

        Without the operator (`is_static` False) there is only the workload, and its clients are dynamic.
        """
        if self.settings.is_static:
            self.create_group()
            await self.until(lambda: "injected" in self.status, deadline_s, "ids are issued")
            await asyncio.sleep(1.0)
        self.create_workload()
        await self.until(lambda: self.is_settled() and self.is_stable(), deadline_s, "all pods are members")

    # operators ------------------------------------------------------------------------------------------------------

    def start_operator(self, name: str = "operator-a", *, crash_at_resumption: int = 0) -> RunningOperator:
        """Start one operator process; the name is its identity in the Lease."""
        watched = self.namespaces if self.settings.watched else ()
        settings = self.settings.of_operator(identity=name, namespace=SYSTEM, watch_namespaces=watched)
        running = make_operator(
            settings,
            server=self.server,
            kafka=self.kafka,
            loop=self.loop,
            rng=self._rng,
            sinks=(self.journal,) if self.journal is not None else None,
        )
        running.process.crash_at_resumption = crash_at_resumption
        self.operators.append(running)
        for hook in self.on_start:
            hook(running)
        running.gateway.on_leave.append(lambda sent: self._sent(running, sent))
        running.gateway.on_release.append(lambda sent: self._sent_release(running, sent))
        self._trace(name, "operator starts")
        note_orders(running, self.loop)
        running.main = task = running.process.start(entered(running.operator))
        task.add_done_callback(lambda t: self._ended(running, t), context=self.loop.world_context)
        return running

    def _ended(self, running: RunningOperator, task: asyncio.Task[None]) -> None:
        """Start the container again after the process ended by itself, as its Deployment does."""
        if running.process.is_dead or self.loop.is_closing:
            return
        error = None if task.cancelled() else task.exception()
        self._trace(running.name, "operator ends", why=type(error).__name__ if error else "by itself")
        running.process.kill()
        self.loop.world_call_later(RESTART_PAUSE_S, self.restart_operator, running.name)

    def restart_operator(self, name: str) -> None:
        """Start an operator unless one of this name lives."""
        if not any(o.name == name for o in self.living):
            self.start_operator(name)

    def crash_operator(self, running: RunningOperator) -> None:
        """Kill an operator like SIGKILL; `start_operator` brings it back."""
        self._trace(running.name, "operator killed")
        running.process.kill()

    def end_operator(self, running: RunningOperator) -> None:
        """End an operator by SIGTERM; its Deployment starts it again."""
        self._trace(running.name, "operator gets SIGTERM")
        if running.main is not None:
            running.main.cancel()

    @property
    def living(self) -> list[RunningOperator]:
        """Operators that have not been killed."""
        return [o for o in self.operators if o.is_alive]

    def leader(self) -> RunningOperator | None:
        """Return the living operator that the Lease names; None when there is none."""
        lease = self.server.get(LEASES, SYSTEM, self.settings.of_operator().lease_name)
        holder = lease["spec"].get("holderIdentity") if lease else None
        return next((o for o in self.living if o.name == holder), None)

    # looking ----------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Json:
        """The status of the first team's StaticGroup; empty when there is none."""
        return self.status_of(self.team)

    def status_of(self, team: Team) -> Json:
        """The status of a team's StaticGroup; empty when there is none."""
        found = self.server.get(STATIC_GROUPS, team.namespace, team.name)
        return (found or {}).get("status") or {}

    @property
    def meter(self) -> GroupMeter:
        """Idle and double work of the group, up to now."""
        return self.meters.group(GROUP, (TOPIC,)).settle()

    def member_count(self) -> int:
        """Return how many members the group has, static or not."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        return len(getattr(group, "members", {})) if group is not None else 0

    def id_of(self, ordinal: int) -> str:
        """The id of an ordinal of the first team; with several threads, that of the first."""
        return next(i for i in self._issued() if self._issued()[i].ordinal == ordinal)

    def _issued(self) -> dict[str, Issue]:
        """Every id that the first team's StaticGroup makes now."""
        place = (self.team.namespace, self.team.name)
        lives = [life for life in self.truth.groups.values() if (life.namespace, life.name) == place]
        return lives[-1].versions[-1][1]

    def is_settled(self) -> bool:
        """True when every wanted id is a member and no other is; for dynamic clients, when their number is right."""
        if not self.settings.is_static:
            return self.member_count() == len(self.truth.desired(WORKLOAD)) * self.settings.threads
        wanted = self.truth.desired_ids(GROUP)
        return bool(wanted) and wanted == set(self.members()) and self.are_deployed()

    def are_deployed(self) -> bool:
        """True when every Deployment has as many pods as it wants, of its last template and Ready, and no others."""
        for team in self.teams:
            found = self.server.get(DEPLOYMENTS, team.namespace, team.workload) if team.is_of_slots else None
            if found is None:
                continue
            pods = (p for p in self.server.list(PODS, team.namespace) if deployment_of(p) == team.workload)
            own = [p for p in pods if is_terminating(p) or not is_over(p)]
            ready = [p for p in own if is_true(p, "Ready") and not is_terminating(p)]
            shown, wanted = found.get("status") or {}, found["spec"]["replicas"]
            if shown.get("observedGeneration") != found["metadata"]["generation"]:
                return False
            if not len(own) == len(ready) == shown.get("updatedReplicas") == wanted:
                return False
        return True

    def is_stable(self) -> bool:
        """True when no rebalance is under way, so that the members are in the coordinator's log."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        return getattr(group, "state", "") == "Stable"

    async def ask_once(self, link: KafkaLink, request: Request) -> None:
        """Send one request and ignore its answer."""
        try:
            await self.kafka.request(link, request)
        except ConnectionLost:
            pass  # it may have been carried out all the same, which is what such a request is for

    async def until(self, condition: Callable[[], object], deadline_s: float, what: str, step_s: float = 0.1) -> None:
        """Let time pass until something is true.

        Raises
        ------
        AssertionError: not within `deadline_s` virtual seconds.
        """
        end_s = self.loop.time() + deadline_s
        while not condition():
            if self.loop.time() > end_s:
                raise AssertionError(f"{what}: not within {deadline_s:.0f} virtual seconds")
            await asyncio.sleep(step_s)

    def ids_of(self, process: ContainerProcess) -> list[str]:
        """Return the ids of a process' members, as its environment and its program make them."""
        team = next((t for t in self.teams if t.container == process.container), None)
        given = process.environment.get(team.variables.instance_id_name) if team is not None else None
        return [given + suffix for suffix in team.suffixes] if team is not None and given else []

    @property
    def leaves_sent(self) -> int:
        """LeaveGroups and temporary leaves that operators have put on the wire."""
        return sum(len(o.gateway.leaves) + len(o.gateway.releases) for o in self.operators)

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}/{len(self.operators)}")
