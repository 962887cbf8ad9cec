"""A cluster, the real operator and a group in memory, for tests of the Kubernetes side of the simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from simulator.engine.loop import Process, SimulationLoop, simulation
from simulator.engine.trace import Trace
from simulator.kubernetes.cluster import Kubernetes
from simulator.kubernetes.node.timings import NodeTimings
from simulator.kubernetes.objects import (
    EPOCH_S,
    KAFKA_CONNECTIONS,
    PODS,
    SECRETS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
)
from simulator.kubernetes.users import stateful_set
from simulator.operators.entrance import entered
from simulator.operators.transport import ModelTransport
from staticgroup.api import names
from staticgroup.runtime.assembly import Sources
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_gateways import FakeKafka

INSTANCE_ID = "KAFKA_GROUP_INSTANCE_ID"


class PlainProcesses:
    """Processes that join the group with their id, end on TERM with code 0 and never by themselves.

    Attributes
    ----------
    running: (pod uid, container) to node and environment; no pod runs on two nodes here.
    ignores_term: names of containers that only KILL ends.
    history: every start and end, in order.
    """

    def __init__(self, loop: SimulationLoop, kafka: FakeKafka) -> None:
        self.on_exit: Callable[[str, str, str, int], None] = lambda node, uid, container, code: None
        self.running: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}
        self.frozen: set[str] = set()
        self.ignores_term: set[str] = set()
        self.history: list[tuple[float, str, str, str]] = []
        self._loop = loop
        self._kafka = kafka

    def start(
        self, *, node: str, namespace: str, pod_name: str, pod_uid: str, container: str, environment: Mapping[str, str],
        address: str,
    ) -> None:
        assert (pod_uid, container) not in self.running, "started twice"
        self.running[pod_uid, container] = (node, environment)
        self.history.append((self._loop.time(), "start", pod_name, container))
        if environment.get(INSTANCE_ID):
            self._kafka.join(environment[INSTANCE_ID])

    def signal(self, pod_uid: str, container: str, name: str, *, node: str = "") -> None:
        if (pod_uid, container) not in self.running or (name == "TERM" and container in self.ignores_term):
            return
        node = self.running[pod_uid, container][0]
        if name == "TERM" and node in self.frozen:
            return
        self.exit(pod_uid, container, 0 if name == "TERM" else 137)

    def exit(self, pod_uid: str, container: str, code: int) -> None:
        """End a process, by itself or by a signal."""
        node, _ = self.running.pop((pod_uid, container))
        self.history.append((self._loop.time(), f"exit {code}", pod_uid, container))
        self._loop.world_call_later(0.01, self.on_exit, node, pod_uid, container, code)

    def freeze(self, node: str) -> None:
        self.frozen.add(node)

    def thaw(self, node: str) -> None:
        self.frozen.discard(node)

    def kill_node(self, node: str) -> None:
        for key in [k for k, v in self.running.items() if v[0] == node]:
            del self.running[key]

    def is_running(self, pod_uid: str, container: str, *, node: str = "") -> bool:
        return (pod_uid, container) in self.running and node in ("", self.running[pod_uid, container][0])


def static_group(**spec: Any) -> Json:
    """A StaticGroup `orders` on StatefulSet `web`."""
    body: Json = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.STATIC_GROUP_KIND,
        "metadata": {"namespace": "shop", "name": "orders"},
        "spec": body | {"groupProtocol": "Classic"} | spec,
    }


def kafka_connection() -> Json:
    """A KafkaConnection without TLS, with a password."""
    sasl = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KAFKA_CONNECTION_KIND,
        "metadata": {"namespace": "shop", "name": "kafka"},
        "spec": {"bootstrapServers": ["kafka.example.com:9092"], "sasl": sasl},
    }


class PlainWorld:
    """One cluster with a StatefulSet `web` that is not created yet; use inside a simulation."""

    def __init__(self, seed: object = 1, *, timings: NodeTimings | None = None, **options: Any) -> None:
        self.loop = simulation()
        self.seed = seed
        self.trace = Trace()
        self.kafka = FakeKafka()
        self.processes = PlainProcesses(self.loop, self.kafka)
        self.cluster = Kubernetes(self.loop, self.processes, seed=seed, trace=self.trace, timings=timings, **options)
        self.server = self.cluster.server
        self.users = self.cluster.users
        self.server.create(
            SECRETS,
            {
                "metadata": {"namespace": "shop", "name": "kafka-user"},
                "data": {"username": "b3BlcmF0b3I=", "password": "czNjcjN0LWNhbmFyeQ=="},
            },
        )
        self.server.create(KAFKA_CONNECTIONS, kafka_connection())

    # -- the workload

    def create_workload(self, replicas: int = 3, **options: Any) -> None:
        self.users.create(STATEFULSETS, stateful_set("shop", "web", replicas, **options))

    def create_group(self, **spec: Any) -> None:
        self.users.create(STATIC_GROUPS, static_group(**spec))

    def pod(self, ordinal: int) -> Json | None:
        return self.server.get(PODS, "shop", f"web-{ordinal}")

    @property
    def pods(self) -> list[Json]:
        return self.server.list(PODS, "shop")

    @property
    def status(self) -> Json:
        found = self.server.get(STATIC_GROUPS, "shop", "orders")
        return (found or {}).get("status") or {}

    def id_of(self, ordinal: int) -> str:
        return f"web-{ordinal}.{self.status['injected']['scope']}"

    @property
    def left(self) -> list[str]:
        """The instance ids of every leave."""
        return [entry.instance_id for entry, _ in self.kafka.leaves]

    # -- an operator

    def start_operator(self, name: str = "operator-a", **options: Any) -> tuple[Process, Operator, ModelTransport]:
        """Start one operator process."""
        process = self.loop.process(name)
        transport = ModelTransport(
            self.server, self.loop, user="operator", rng=Random(f"{self.seed}/{name}"), process=process
        )
        sources = Sources(
            now_s=lambda: EPOCH_S + self.loop.time(), monotonic_s=self.loop.time,
            rng=Random(f"{self.seed}/{name}/operator"),
        )
        settings = Settings(identity=name, namespace="ops", **options)
        operator = process.call(lambda: Operator(settings, transport, sources=sources, kafka=self.kafka))
        process.start(entered(operator))
        return process, operator, transport

    async def until(self, condition: Callable[[], object], deadline_s: float = 120.0) -> None:
        """Let time pass until something is true."""
        import asyncio

        end_s = self.loop.time() + deadline_s
        while not condition():
            assert self.loop.time() < end_s, f"not within {deadline_s} s\n{self.trace.text()}"
            await asyncio.sleep(0.05)
