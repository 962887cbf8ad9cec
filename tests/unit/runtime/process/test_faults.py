"""A real operator process between models of an API server and a broker, whose ways to it fail: the rehearsal of the table of faults.

The same proxies and phases as with a real cluster (`support.faults`), in seconds and without one; pods end when a test says so.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.devcluster.apiserver_client import ApiServerClient, write_private_json
from support.fake_apiserver import FakeApiServer
from support.fault_proxy.kafka_relay import KafkaFault, KafkaRelay
from support.fault_proxy.kube_front import KubeFront
from support.fault_proxy.kube_proxy import KubeFault
from support.fault_proxy.relay import ByteFault
from support.fault_proxy.tripwire import Tripwire
from support.faults.lane import Fault
from support.faults.phases import Phase, beginning_of
from support.faults.process import OperatorProcess
from support.faults.table import ALL_FAULTS
from unit.kafka.fake_broker import Cluster, FakeBroker, Group
from unit.kube.raw_objects import eventually, finished, pod

from ..operator_world import kafka_connection, static_group

pytestmark = pytest.mark.long  # a process in real time beside two models; the proxies have quick tests of their own
NAME = "shop"
"""Of namespace, StaticGroup, group and workload: the phases know one name."""
GROUPS = "staticgroups.staticgroup.io"
LASTS_S = 1.5
DEADLINE_S = 90.0
"""A watch that went silent is noticed after 75 s."""
SHORT: tuple[Fault, ...] = (KubeFault.INTERNAL_ERROR, ByteFault.BLACKOUT, KafkaFault.RESET_AFTER_REQUEST, KafkaFault.GARBAGE)
UNSEEN = (KubeFault.GONE, KubeFault.GONE_EVENT)
"""After these nobody can say what happened to a pod that ended meanwhile, and its member may stay until its session ends."""
Json = dict[str, Any]


class World:
    """Models, proxies before them, and the process."""

    def __init__(self, server: FakeApiServer, broker: FakeBroker, front: KubeFront, relay: KafkaRelay, wire: Tripwire, folder: Path) -> None:
        self.server, self.broker, self.front, self.relay, self.wire = server, broker, front, relay, wire
        kubeconfig = folder / "kubeconfig"
        client = ApiServerClient(url=front.url, token="t", ca_file=front.ca_file)
        write_private_json(kubeconfig, client.kubeconfig("faults"))
        self.operator = OperatorProcess(
            namespace=NAME, kubeconfig=kubeconfig, folder=folder, settings={"ALLOW_LOOPBACK": "true", "GROUP_POLL_S": "5"}
        )
        self.group = broker.cluster.groups[NAME] = Group()

    @property
    def status(self) -> Json:
        found: Json = self.server.objects[GROUPS, NAME, NAME].get("status") or {}
        return found

    @property
    def is_position_stored(self) -> bool:
        """Whether a later process can go on from where this one is."""
        leases = (each for (kind, _, _), each in self.server.objects.items() if kind.startswith("leases"))
        return any("staticgroup.io/watch-position" in lease["metadata"].get("annotations", {}) for lease in leases)

    def id_of(self, ordinal: int) -> str:
        return f"{NAME}-{ordinal}.{self.status['injected']['scope']}"

    def furnish(self) -> None:
        """Put everything there but pods."""
        self.server.put({"metadata": {"name": "kube-system", "uid": "cluster-1"}}, "namespaces")
        self.server.put({"metadata": {"name": "node-a", "uid": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}, "nodes")
        self.server.put({"metadata": {"name": "staticgroup-inject"}}, "mutatingadmissionpolicies.admissionregistration.k8s.io")
        connection = kafka_connection(bootstrapServers=[self.relay.address], requestTimeoutSeconds=1, allowLoopback=True)
        del connection["spec"]["sasl"]
        self.server.put(connection, "kafkaconnections.staticgroup.io")
        group = static_group(workloadRef={"name": NAME}, groupId=NAME)
        group["metadata"]["name"] = NAME
        self.server.put(group, GROUPS)

    def scale(self, replicas: int) -> None:
        generation = self.server.resource_version
        self.server.put(
            {
                "metadata": {"namespace": NAME, "name": NAME, "uid": "w1", "generation": generation},
                "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "app"}]}}},
                "status": {"observedGeneration": generation, "replicas": replicas},
            },
            "statefulsets.apps",
        )

    def injected(self, raw: Json) -> Json:
        raw["spec"]["containers"][0]["env"] = [
            {"name": "STATICGROUP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KAFKA_GROUP_INSTANCE_ID", "value": f"$(STATICGROUP_POD_NAME).{self.status['injected']['scope']}"},
        ]
        raw["metadata"]["ownerReferences"][0]["name"] = NAME
        return raw

    async def populate(self, replicas: int) -> None:
        """Start the process, and pods with members once ids are issued."""
        self.scale(replicas)
        await asyncio.to_thread(self.operator.start)
        await eventually(lambda: "injected" in self.status, DEADLINE_S)
        for n in range(replicas):
            raw = pod(f"{NAME}-{n}", uid=f"u{n}", namespace=NAME, instance_id=self.id_of(n))
            self.server.put(self.injected(raw))
            self.group.members.append((f"m-{n}", self.id_of(n)))
        await eventually(lambda: self.is_settled(replicas), DEADLINE_S)
        await eventually(lambda: self.is_position_stored, DEADLINE_S)

    def depart(self, ordinal: int) -> None:
        """Scale down by one, and let the pod end."""
        self.scale(ordinal)
        ended = finished(f"{NAME}-{ordinal}", uid=f"u{ordinal}", namespace=NAME, instance_id=self.id_of(ordinal))
        self.server.put(self.injected(ended))
        self.server.remove(NAME, f"{NAME}-{ordinal}")

    def is_settled(self, replicas: int) -> bool:
        members = self.status.get("members", {})
        return (members.get("expected"), members.get("joined"), members.get("departed", 0)) == (replicas, replicas, 0)

    def begin(self, fault: Fault) -> None:
        if isinstance(fault, KafkaFault):
            self.relay.begin(fault)
        else:
            self.front.begin(fault)

    async def end(self) -> None:
        self.wire.disarm()
        await self.front.end()
        await self.relay.end()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with FakeApiServer().serving() as server:
        wire = Tripwire()
        broker = await FakeBroker(Cluster()).start()
        front = KubeFront(f"http://127.0.0.1:{server.port}", tmp_path / "tls", trust=ssl.create_default_context(), tripwire=wire)
        await front.open()
        relay = KafkaRelay("127.0.0.1", ("127.0.0.1", broker.port), wire)
        await relay.open()
        made = World(server, broker, front, relay, wire, tmp_path)
        made.furnish()
        yield made
        await asyncio.to_thread(made.operator.stop)
        await relay.close()
        await front.close()
        await broker.stop()


async def reach(world: World, fault: Fault, phase: Phase, ordinal: int) -> None:
    """Bring the operator to a phase, and the fault with it."""
    match phase:
        case Phase.START:
            await asyncio.to_thread(world.operator.stop)
            world.begin(fault)
            await asyncio.to_thread(world.operator.start)
        case Phase.WATCHING:
            world.begin(fault)
            world.depart(ordinal)
        case _:
            world.wire.arm(beginning_of(phase, name=NAME, pod=f"{NAME}-{ordinal}"), lambda: world.begin(fault))
            world.depart(ordinal)
            await eventually(world.wire.touched.is_set, DEADLINE_S)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "fault", [pytest.param(f, id=str(f), marks=() if f in SHORT else pytest.mark.long) for f in ALL_FAULTS]
)
async def test_whatever_fails_when_only_departed_members_go_and_all_is_well_again(world: World, fault: Fault) -> None:
    phases = [Phase.LEAVE, Phase.WATCHING] if fault in SHORT else list(Phase)
    await world.populate(len(phases) + 1)
    ids = {n: world.id_of(n) for n in range(len(phases) + 1)}
    left = len(phases) + 1
    for phase in phases:
        left -= 1
        await reach(world, fault, phase, left)
        await asyncio.sleep(LASTS_S)  # nothing is waited for: so long does a fault last
        await world.end()
        if phase is Phase.START:
            world.depart(left)
        if fault in UNSEEN:
            await eventually(lambda n=left: (world.status.get("members") or {}).get("expected") == n, DEADLINE_S)
            world.group.members = [m for m in world.group.members if m[1] != ids[left]]  # as when its session ends
        await eventually(lambda n=left: {i for _, i in world.group.members} == {ids[o] for o in range(n)}, DEADLINE_S)
        await eventually(lambda n=left: world.is_settled(n), DEADLINE_S)
    assert world.operator.is_alive()
    assert world.operator.is_healthy()
    assert world.operator.exceptions() == []
