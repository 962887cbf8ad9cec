"""A world for whole operator processes: a real-HTTP API server and a Kafka group in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from simulator.operators.entrance import entered
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import FakeKafka
from unit.kube.raw_objects import eventually, finished, pod

from .operator_world import KEY, kafka_connection, static_group

Json = dict[str, Any]
GROUPS, STATEFUL_SETS = "staticgroups.staticgroup.io", "statefulsets.apps"
CONNECTIONS, KAFKA = "kafkaconnections.staticgroup.io", ("shop", "kafka")
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/staticgroup-operator"
LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")


def stateful_set(replicas: int, generation: int = 1) -> Json:
    return {
        "metadata": {"namespace": "shop", "name": "web", "uid": "w1", "generation": generation},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "app"}]}}},
        "status": {"observedGeneration": generation, "replicas": replicas},
    }


class Cluster:
    """The API server's content and the Kafka group, as users and kubelets move them."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.kafka = FakeKafka()
        server.put({"metadata": {"name": "kube-system", "uid": "cluster-1"}}, "namespaces")
        server.put({"metadata": {"name": "node-a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}, "nodes")
        server.put(
            {"metadata": {"name": "staticgroup-inject"}}, "mutatingadmissionpolicies.admissionregistration.k8s.io"
        )
        secret = {"username": "b3BlcmF0b3I=", "password": "czNjcjN0LWNhbmFyeQ=="}
        server.put({"metadata": {"namespace": "shop", "name": "kafka-user"}, "data": secret}, "secrets")
        server.put(kafka_connection(), "kafkaconnections.staticgroup.io")
        server.put(static_group(), GROUPS)
        self.scale(3)

    @property
    def status(self) -> Json:
        return self.server.objects[GROUPS, *KEY].get("status") or {}

    def id_of(self, ordinal: int) -> str:
        return f"web-{ordinal}.{self.status['injected']['scope']}"

    def scale(self, replicas: int) -> None:
        self.server.put(stateful_set(replicas, self.server.resource_version), STATEFUL_SETS)

    def injected(self, raw: Json) -> Json:
        """Return a pod with the id composed of its name, as the policy writes it."""
        container = raw["spec"]["containers"][0]
        container["env"] = [
            {"name": "STATICGROUP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KAFKA_GROUP_INSTANCE_ID", "value": f"$(STATICGROUP_POD_NAME).{self.status['injected']['scope']}"},
        ]
        return raw

    def start(self, *ordinals: int) -> None:
        for n in ordinals:
            self.server.put(self.injected(pod(f"web-{n}", uid=f"u{n}", instance_id=self.id_of(n))))
            self.kafka.join(self.id_of(n))

    def end(self, ordinal: int) -> None:
        self.server.put(self.injected(finished(f"web-{ordinal}", uid=f"u{ordinal}", instance_id=self.id_of(ordinal))))
        self.server.remove("shop", f"web-{ordinal}")

    @asynccontextmanager
    async def operating(
        self, identity: str = "one", **changes: Any
    ) -> AsyncIterator[tuple[Operator, asyncio.Task[None]]]:
        """Run one operator process."""
        transport = connect(self.server.configuration())
        settings = Settings(identity=identity, namespace="ops", lease_retry_s=0.05, barrier_patience_s=0.05, **changes)
        operator = Operator(settings, transport, kafka=self.kafka)
        task = asyncio.create_task(entered(operator))
        try:
            async with asyncio.timeout(60):
                await operator.pods.wait_anchored()
            yield operator, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await transport.close()

    async def stored_watch(self, operator: Operator) -> str:
        """Wait until the Lease says where the next process goes on; returns the name of the watch."""
        watch = operator.pods.names()
        await eventually(lambda: watch in str(self.server.objects[LEASE]["metadata"].get("annotations")))
        return watch

    async def carriers_are_known(self) -> None:
        await eventually(lambda: "u2" in str((self.status.get("memory") or {}).get("seats")))

    async def departs(self) -> None:
        """Let web-2 be scaled away and end gracefully, and wait until its member has left."""
        self.scale(2)
        self.end(2)
        await self.is_removed()

    async def is_removed(self) -> None:
        await eventually(lambda: self.id_of(2) not in self.kafka.members)

    async def populated(self) -> None:
        """Let ids be issued and three pods start with them."""
        await eventually(lambda: "injected" in self.status)
        self.start(0, 1, 2)
        await eventually(lambda: (self.status.get("members") or {}).get("joined") == 3)


def left(cluster: Cluster) -> list[str]:
    return [entry.instance_id for entry, _ in cluster.kafka.leaves]


def take_lease(cluster: Cluster, holder: str) -> None:
    """Write another holder, or none, into the Lease."""
    lease = cluster.server.objects[LEASE]
    lease["spec"] |= {"holderIdentity": holder, "leaseTransitions": lease["spec"].get("leaseTransitions", 0) + 1}
    before = lease["metadata"]["resourceVersion"]
    assert cluster.server.put(lease, LEASE[0])["metadata"]["resourceVersion"] != before, "nobody may write over it"


def writes(cluster: Cluster) -> list[str]:
    return [path for method, path in cluster.server.requests if method != "GET"]


def departed(operator: Operator) -> list[Any]:
    return [p for p in operator.pods.of_workload("shop", "web") if p.pod_name == "web-2"]
