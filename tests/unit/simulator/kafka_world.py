"""A Kafka cluster with consumer processes in virtual time, without Kubernetes: the test starts and kills containers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from coordinator_model.base.image import TopicImage
from coordinator_model.base.settings import BrokerSettings
from simulator.clients.partition_meter import GroupMeter, PartitionMeter
from simulator.clients.processes import ContainerProcess, ProcessTable
from simulator.clients.programs import Programs
from simulator.clients.settings import ConsumerSettings, ContainerSettings
from simulator.engine.loop import simulation
from simulator.engine.trace import Trace
from simulator.kafka.cluster import ModelKafkaCluster
from simulator.operators.gateway import ModelKafkaGateway
from staticgroup.core.group import GroupView
from staticgroup.kafka.login.credentials import ConnectionSettings
from support.narrowing import of_type

GROUP = "orders"
CONNECTION = ConnectionSettings(bootstrap_servers=("kafka.example.com:9092",), name="shop/kafka")
PARTITIONS = 12


class KafkaWorld:
    """Pods `web-<n>` of one container each, consuming 12 partitions as group `orders`."""

    def __init__(self, *, brokers: BrokerSettings | None = None, seed: object = 0, **consumer: Any) -> None:
        self.loop = simulation()
        self.trace = Trace()
        self.exits: list[tuple[str, int]] = []
        self.cluster = ModelKafkaCluster(
            self.loop, settings=brokers, image=TopicImage({"orders": PARTITIONS}), trace=self.trace
        )
        self.meters = PartitionMeter(self.loop.time, lambda: self.cluster.image.partitions)
        self.programs = Programs({}, cluster=self.cluster, meter=self.meters, seed=seed, trace=self.trace)
        self.configure(**consumer)
        self.table = ProcessTable(
            self.loop, program_of=self.programs, creator_of=self.cluster.births.creator_of, trace=self.trace
        )
        self.table.on_exit = lambda node, pod_uid, container, exit_code: self.exits.append((pod_uid, exit_code))
        self.gateway = ModelKafkaGateway(self.cluster, name="operator-a", rng=random.Random(1))

    @classmethod
    async def running(cls, count: int = 3, *, after_s: float = 60.0, **options: Any) -> KafkaWorld:
        """Return a world in which so many pods were started a while ago."""
        world = cls(**options)
        for number in range(count):
            world.start(number)
        await asyncio.sleep(after_s)
        return world

    def configure(self, *, container: dict[str, Any] | None = None, **consumer: Any) -> None:
        """Set what containers that start from now on run."""
        settings = ConsumerSettings(group_id=GROUP, topics=("orders",), **consumer)
        program = ContainerSettings(consumers=(settings,), **(container or {"startup_s": (1.0, 1.0)}))
        self.programs.containers["app"] = program

    def start(self, number: int, uid: str = "", *, node: str = "", session_ms: int | None = None, **env: str) -> str:
        """Start the container of a pod; by default its uid is `uid-<number>`."""
        uid = uid or f"uid-{number}"
        environment = {"KAFKA_GROUP_INSTANCE_ID": f"web-{number}", **env}
        if session_ms is not None:
            environment["KAFKA_SESSION_TIMEOUT_MS"] = str(session_ms)
        self.table.start(
            node=node or f"node-{number}", namespace="shop", pod_name=f"web-{number}", pod_uid=uid, container="app",
            environment=environment,
        )
        return uid

    def terminate(self, uid: str) -> None:
        """Send SIGTERM."""
        self.table.signal(uid, "app", "TERM")

    def kill(self, uid: str) -> None:
        """Send SIGKILL."""
        self.table.signal(uid, "app", "KILL")

    def process(self, uid: str) -> ContainerProcess:
        """Return the last process of a pod."""
        return [p for p in self.table.history if p.pod_uid == uid][-1]

    async def view(self) -> GroupView:
        """Describe the group as the operator does."""
        view = of_type(GroupView, await self.gateway.describe(CONNECTION, GROUP))
        return view

    async def member_of(self, instance_id: str) -> str:
        """Return the member id that holds an instance id; "" when it has no holder."""
        holders = tuple(m for m in (await self.view()).members if m.instance_id == instance_id)
        return holders[0].member_id if holders else ""

    def owner(self, uid: str) -> int:
        """Count the partitions that the consumers of a pod work on."""
        owned = self.meter.owned
        return sum(len(parts) for name, parts in owned.items() if f"/{uid}/" in name)

    @property
    def meter(self) -> GroupMeter:
        """The group's meter, up to date."""
        return self.meters.group(GROUP).settle()


async def until(condition: Callable[[], bool], *, step_s: float = 0.5) -> None:
    """Let time pass until a condition holds; fail when it does not within 100,000 steps."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(step_s)
    raise AssertionError("the condition never held")
