"""A whole world from one seed: Kubernetes, Kafka, clients, users, and real operators, watched by the oracles.

Everything the operator does goes through its own code: reconciler, work queue, pod store, lease, gateways. Only wires,
machines and brokers are models. The operator side never sees the process table.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import prometheus_client

from coordinator_model.image import TopicImage
from coordinator_model.messages import Request
from coordinator_model.settings import BrokerSettings
from staticgroup.api import names
from staticgroup.runtime.journal import MemorySink
from staticgroup.runtime.operator import Operator, Sources
from staticgroup.runtime.settings import Settings

from .client_settings import LIBRARIES, ConsumerSettings, ContainerSettings
from .clients import Programs
from .gateway import ModelKafkaGateway, WireLeave
from .ground_truth import GroundTruth, base_id
from .kafka_cluster import ModelKafkaCluster
from .kafka_network import ConnectionLost, KafkaLink
from .kafka_requests import AppliedLeave
from .kubernetes import Kubernetes
from .loop import Process, SimulationLoop, simulation
from .objects import EPOCH_S, EVENTS, KAFKA_CONNECTIONS, LEASES, SECRETS, STATEFULSETS, STATIC_GROUPS, Json
from .oracles import Effect, Leave, Rest, Safety, StatusHistory, Violation, judge_rest, secrets_shown
from .partition_meter import GroupMeter, PartitionMeter
from .processes import ProcessTable
from .trace import Trace
from .transport import ModelTransport
from .users import stateful_set
from .watch_log import Event

NAMESPACE, WORKLOAD, GROUP, TOPIC = "shop", "web", "orders", "orders"
SYSTEM = "ops"
CANARY = "s3cr3t-canary"
ID_VARIABLE = ConsumerSettings(group_id=GROUP, topics=()).instance_id_variable
RESTART_PAUSE_S = 2.0
"""The operator's own Deployment starts a new container about so long after the last one ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """What a world is made of.

    Parameters
    ----------
    protocol: classic or consumer (KIP-848).
    library: java, librdkafka or sarama.
    is_static: False: plain dynamic clients, for the comparison without the operator.
    threads: consumers of each pod.
    startup_s: (least, most) seconds from the start of a container to its first join.
    heartbeat_s: classic only; None: a third of the session timeout.
    """

    protocol: str = "classic"
    library: str = "java"
    is_static: bool = True
    replicas: int = 3
    partitions: int = 12
    threads: int = 1
    parallel: bool = False
    session_timeout_s: int = 60
    heartbeat_s: float | None = None
    startup_s: tuple[float, float] = (1.0, 3.0)
    close_s: float = 0.5
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    brokers: BrokerSettings = field(default_factory=BrokerSettings)


@dataclass(slots=True)
class RunningOperator:
    """One operator process, and what connects it to the world."""

    name: str
    process: Process
    operator: Operator
    transport: ModelTransport
    gateway: ModelKafkaGateway
    told_to_stop_s: dict[str, float] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """True until it was killed or ended."""
        return not self.process.is_dead


class World:
    """One world; use inside a simulation.

    Attributes
    ----------
    operators: living and dead, in the order of their start.
    violations: what the oracles found.
    log_lines: what operators logged, when somebody captures it.
    journal: where the operators started from now on tell what they saw; None: nowhere.
    """

    def __init__(self, settings: WorldSettings, *, seed: object) -> None:
        self.settings = settings
        self.seed = seed
        self.loop: SimulationLoop = simulation()
        self.trace = Trace()
        self.violations: list[Violation] = []
        self.operators: list[RunningOperator] = []
        self.coordinator_epoch = 0
        self.log_lines: list[str] = []
        self.journal: MemorySink | None = None
        self.kafka = ModelKafkaCluster(
            self.loop,
            settings=settings.brokers,
            image=TopicImage({TOPIC: settings.partitions}),
            trace=self.trace,
        )
        self.meters = PartitionMeter(self.loop.time, lambda: self.kafka.image.partitions)
        self.programs = Programs({}, cluster=self.kafka, meter=self.meters, seed=seed, trace=self.trace)
        self.programs.containers["app"] = self._container()
        self.processes = ProcessTable(
            self.loop, program_of=self.programs, creator_of=self.kafka.creator_of, trace=self.trace
        )
        self.kubernetes = Kubernetes(
            self.loop,
            self.processes,
            seed=seed,
            trace=self.trace,
            node_names=settings.nodes,
            namespaces=(NAMESPACE, SYSTEM),
        )
        self.server, self.users = self.kubernetes.server, self.kubernetes.users
        self.truth = GroundTruth(self.loop, self.processes, self.server.observers, self._stopped_since_s)
        self.safety = Safety(self.truth, Settings().lease_duration_s, self._violated)
        self.statuses = StatusHistory(self._violated)
        self.kafka.on_applied.append(self._applied)
        self.server.observers.append(self._observe)
        self._create_connection()

    def _container(self) -> ContainerSettings:
        s = self.settings
        consumer = ConsumerSettings(
            group_id=GROUP,
            topics=(TOPIC,),
            protocol="classic" if s.protocol == "classic" else "consumer",
            library=LIBRARIES[s.library],
            threads=s.threads,
            session_timeout_ms=s.session_timeout_s * 1000,
            heartbeat_s=s.heartbeat_s,
        )
        return ContainerSettings(consumers=(consumer,), startup_s=s.startup_s, close_s=s.close_s)

    def _create_connection(self) -> None:
        data = {"username": "b3BlcmF0b3I=", "password": "czNjcjN0LWNhbmFyeQ=="}
        self.server.create(SECRETS, {"metadata": {"namespace": NAMESPACE, "name": "kafka-user"}, "data": data})
        self.server.create(KAFKA_CONNECTIONS, kafka_connection())

    # what people do -------------------------------------------------------------------------------------------------

    def create_group(self, **spec: Any) -> None:
        """Create the StaticGroup."""
        protocol = "Classic" if self.settings.protocol == "classic" else "Consumer"
        timeout = {"mode": "Fixed", "seconds": self.settings.session_timeout_s}
        base = {"protocol": protocol} | ({"sessionTimeout": timeout} if protocol == "Classic" else {})
        threads = self.settings.threads
        if threads > 1:
            base["identity"] = {"clientSuffixes": [f"-{n}" for n in range(1, threads + 1)]}
        self.users.create(STATIC_GROUPS, static_group(**(base | spec)))

    def create_workload(self) -> None:
        """Create the StatefulSet."""
        policy = "Parallel" if self.settings.parallel else "OrderedReady"
        body = stateful_set(
            NAMESPACE,
            WORKLOAD,
            self.settings.replicas,
            podManagementPolicy=policy,
            grace_s=max(10, round(self.settings.close_s) + 5),
        )
        self.users.create(STATEFULSETS, body)

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
        process = self.loop.process(name)
        process.crash_at_resumption = crash_at_resumption
        transport = ModelTransport(
            self.server, self.loop, user="operator", rng=self._rng(f"{name}/wire"), process=process
        )
        gateway = ModelKafkaGateway(self.kafka, name=name, rng=self._rng(f"{name}/kafka"))
        sources = Sources(
            now_s=lambda: EPOCH_S + self.loop.time(), monotonic_s=self.loop.time, rng=self._rng(f"{name}/operator")
        )
        settings = Settings(identity=name, namespace=SYSTEM)
        sinks = (self.journal,) if self.journal is not None else None
        operator = process.call(
            lambda: Operator(settings, transport, sources=sources, kafka=gateway, journal_sinks=sinks)
        )
        running = RunningOperator(name, process, operator, transport, gateway)
        self.operators.append(running)
        process.on_death.append(gateway.kill)
        gateway.on_leave.append(lambda sent: self._sent(running, sent))
        self._trace(name, "operator starts")
        self._note_orders(running)
        task = process.start(operator.run())
        task.add_done_callback(lambda t: self._ended(running, t), context=self.loop.world_context)
        return running

    def _note_orders(self, running: RunningOperator) -> None:
        """Note when an operator hears that it may not act, or may act again, for a StaticGroup."""
        operator = running.operator
        heard = operator.static_group_changed

        def static_group_changed(raw: Json, *, is_deleted: bool) -> None:
            metadata = raw["metadata"]
            known = operator.stores.groups.get((metadata["namespace"], metadata["name"]))
            if is_deleted and known is not None:
                running.told_to_stop_s.setdefault(known.spec.group_id, self.loop.time())
            elif not is_deleted:
                spec = raw["spec"]
                if spec.get("suspend") or spec.get("mode") == "Observe":
                    running.told_to_stop_s.setdefault(spec["groupId"], self.loop.time())
                else:
                    running.told_to_stop_s.pop(spec["groupId"], None)
            heard(raw, is_deleted=is_deleted)

        for stream in operator.group_streams:
            stream.tell = static_group_changed

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

    @property
    def living(self) -> list[RunningOperator]:
        """Operators that have not been killed."""
        return [o for o in self.operators if o.is_alive]

    def leader(self) -> RunningOperator | None:
        """Return the living operator that the Lease names; None when there is none."""
        lease = self.server.get(LEASES, SYSTEM, Settings().lease_name)
        holder = lease["spec"].get("holderIdentity") if lease else None
        return next((o for o in self.living if o.name == holder), None)

    # what oracles are told --------------------------------------------------------------------------------------------

    def _sent(self, running: RunningOperator, sent: WireLeave) -> None:
        ids = tuple(i for _, i in sent.members)
        self._trace(running.name, "sends LeaveGroup", group=sent.group_id, ids=ids)
        leave = Leave(at_s=self.loop.time(), operator=running.name, group_id=sent.group_id, members=sent.members)
        self.safety.leave_sent(leave)

    def _applied(self, applied: AppliedLeave) -> None:
        if not any(o.gateway.link.name == applied.client for o in self.operators):
            return
        self.safety.leave_applied(
            Effect(
                at_s=applied.at_s,
                operator=applied.client,
                group_id=applied.group_id,
                member_id=applied.member_id,
                instance_id=applied.instance_id,
                error_code=applied.error_code,
                coordinator_epoch=self.coordinator_epoch,
            )
        )

    def _observe(self, resource: str, event: Event) -> None:
        if resource == STATIC_GROUPS and event.current is not None:
            self.statuses.written(event.at_s, event.current)

    def _violated(self, violation: Violation) -> None:
        self.violations.append(violation)
        self._trace("oracle", "VIOLATION", oracle=violation.oracle, message=violation.message)

    def _stopped_since_s(self, operator: str, group_id: str) -> float | None:
        told = [o.told_to_stop_s.get(group_id) for o in self.operators if o.name == operator]
        return told[-1] if told else None

    # looking ----------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Json:
        """The StaticGroup's status; empty when there is none."""
        found = self.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
        return (found or {}).get("status") or {}

    @property
    def meter(self) -> GroupMeter:
        """Idle and double work of the group, up to now."""
        return self.meters.group(GROUP, (TOPIC,)).settle()

    def members(self) -> dict[str, str]:
        """Return instance id → member id of the group's static members, by the coordinator's truth."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        found: dict[str, str] = {}
        if group is not None:
            for member_id, member in getattr(group, "members", {}).items():
                instance_id = getattr(member, "group_instance_id", None) or getattr(member, "instance_id", None)
                if instance_id:
                    found[instance_id] = member_id
        return found

    def member_count(self) -> int:
        """Return how many members the group has, static or not."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        return len(getattr(group, "members", {})) if group is not None else 0

    def scope(self) -> str:
        """The scope of the ids that are issued now; "" before."""
        return str((self.status.get("injected") or {}).get("scope") or "")

    def id_of(self, ordinal: int) -> str:
        """The id of an ordinal; with several threads, that of the first."""
        base = f"{WORKLOAD}-{ordinal}.{self.scope()}"
        return base if self.settings.threads == 1 else f"{base}-1"

    def is_settled(self) -> bool:
        """True when every wanted id is a member and no other is; of dynamic clients, when they are as many as wanted."""
        if not self.settings.is_static:
            return self.member_count() == len(self.truth.desired(WORKLOAD)) * self.settings.threads
        suffixes = [""] if self.settings.threads == 1 else [f"-{n}" for n in range(1, self.settings.threads + 1)]
        wanted = {f"{WORKLOAD}-{n}.{self.scope()}{suffix}" for n in self.truth.desired(WORKLOAD) for suffix in suffixes}
        return wanted == set(self.members()) and bool(self.scope())

    def is_stable(self) -> bool:
        """True when no rebalance is under way, so that the members are in the coordinator's log."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        return getattr(group, "state", "") == "Stable"

    async def ask_once(self, link: KafkaLink, request: Request) -> None:
        """Send one request on behalf of somebody who does not care for the answer."""
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

    def rest(self, *, since_leaves: int) -> list[Violation]:
        """Judge liveness now; `since_leaves` is how many LeaveGroups had been sent when the rest began."""
        scope, running = self.scope(), self._running_ids()
        desired = frozenset(f"{WORKLOAD}-{n}.{scope}" for n in self.truth.desired(WORKLOAD))
        rest = Rest(
            at_s=self.loop.time(),
            members={base_id(i): m for i, m in self.members().items()},
            desired=desired,
            running=frozenset(i for i in running if i in desired and i not in self._given_up_ids()),
            zombies=frozenset(i for i in running if i not in desired),
            leaves_at_rest=self.leaves_sent - since_leaves,
        )
        found = judge_rest(rest, lambda i: self.truth.owner_of(GROUP, i) is not None)
        shown = {
            "trace": self.trace.text(),
            "status": str(self.status),
            "events": str(self.server.list(EVENTS)),
            "logs": "\n".join(self.log_lines),
        } | {
            f"metrics of {o.name}": prometheus_client.generate_latest(o.operator.metrics.registry).decode()
            for o in self.living
        }
        return found + [Violation("S13", self.loop.time(), place) for place in secrets_shown(CANARY, shown)]

    def _running_ids(self) -> set[str]:
        return {i for p in self.processes.running() if (i := p.environment.get(ID_VARIABLE))}

    def _given_up_ids(self) -> set[str]:
        """Ids of processes whose library fell silent for good, such as librdkafka's after UNRELEASED_INSTANCE_ID."""
        running = self.processes.running()
        return {i for p in running if (i := p.environment.get(ID_VARIABLE)) and self.programs.has_given_up(p)}

    @property
    def leaves_sent(self) -> int:
        """LeaveGroups that operators have put on the wire."""
        return sum(len(o.gateway.leaves) for o in self.operators)

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}/{len(self.operators)}")

    def _trace(self, who: str, what: str, **facts: object) -> None:
        self.trace.add(self.loop.time(), who, what, **facts)


def static_group(**spec: Any) -> Json:
    """Write the StaticGroup `orders` on the StatefulSet `web`."""
    body: Json = {"workloadRef": {"name": WORKLOAD}, "connectionRef": {"name": "kafka"}, "groupId": GROUP}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.STATIC_GROUP_KIND,
        "metadata": {"namespace": NAMESPACE, "name": GROUP},
        "spec": body | spec,
    }


def kafka_connection() -> Json:
    """Write the KafkaConnection `kafka` with a password."""
    sasl = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KAFKA_CONNECTION_KIND,
        "metadata": {"namespace": NAMESPACE, "name": "kafka"},
        "spec": {"bootstrapServers": ["kafka.example.com:9092"], "sasl": sasl},
    }
