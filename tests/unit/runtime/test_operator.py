"""A whole operator process over a real-HTTP API server and a group in memory: watches, Lease, rounds, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import LeaseLost, Operator
from staticgroup.runtime.settings import Settings
from support.fake_apiserver import BROKEN, FakeApiServer
from support.fake_gateways import FakeKafka
from unit.kube.raw_objects import eventually, finished, pod

from .world import CANARY, KEY, kafka_connection, static_group

Json = dict[str, Any]
GROUPS, STATEFUL_SETS = "staticgroups.staticgroup.io", "statefulsets.apps"
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
        self.operators: list[Operator] = []
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
        """Scale, and let every process hear of it, as kopf does."""
        self.server.put(stateful_set(replicas, self.server.resource_version), STATEFUL_SETS)
        for operator in self.operators:
            self.tell(operator)

    def tell(self, operator: Operator) -> None:
        """Deliver what kopf watches."""
        from staticgroup.kube.translate import workload_view

        operator.kafka_connection_changed(
            self.server.objects["kafkaconnections.staticgroup.io", "shop", "kafka"], is_deleted=False
        )
        operator.static_group_changed(self.server.objects[GROUPS, *KEY], is_deleted=False)
        view = workload_view(self.server.objects[STATEFUL_SETS, "shop", "web"])
        operator.workload_changed(view, is_deleted=False)  # type: ignore[arg-type]  # it is well formed

    def start(self, *ordinals: int) -> None:
        for n in ordinals:
            self.server.put(pod(f"web-{n}", uid=f"u{n}", instance_id=self.id_of(n)))
            self.kafka.join(self.id_of(n))

    def end(self, ordinal: int) -> None:
        self.server.put(finished(f"web-{ordinal}", uid=f"u{ordinal}", instance_id=self.id_of(ordinal)))
        self.server.remove("shop", f"web-{ordinal}")

    @asynccontextmanager
    async def operating(self, identity: str = "one", **changes: Any) -> AsyncIterator[tuple[Operator, asyncio.Task[None]]]:
        """Run one operator process."""
        transport = connect(self.server.configuration())
        settings = Settings(identity=identity, namespace="ops", lease_retry_s=0.05, barrier_patience_s=0.05, **changes)
        operator = Operator(settings, transport, kafka=self.kafka)
        task = asyncio.create_task(operator.run())
        try:
            async with asyncio.timeout(20):
                await operator.pods.wait_anchored()
            self.operators.append(operator)
            self.tell(operator)
            yield operator, task
        finally:
            if operator in self.operators:
                self.operators.remove(operator)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await transport.close()

    async def populated(self) -> None:
        """Let ids be issued and three pods start with them."""
        await eventually(lambda: "injected" in self.status, 20)
        self.start(0, 1, 2)
        await eventually(lambda: (self.status.get("members") or {}).get("joined") == 3, 20)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        yield Cluster(server)


def left(cluster: Cluster) -> list[str]:
    return [entry.instance_id for entry, _ in cluster.kafka.leaves]


async def test_scale_down_ends_with_exactly_the_departed_member_gone(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("instanceId") == cluster.id_of(2), 20)
    assert left(cluster) == [cluster.id_of(2)]
    assert set(cluster.kafka.members) == {cluster.id_of(0), cluster.id_of(1)}


async def test_pods_of_a_staticgroup_that_vanish_without_proof_are_counted_by_what_was_missing(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.put(pod("other-0", uid="o0"))
        cluster.server.remove("shop", "other-0")
        cluster.server.remove("shop", "web-2")
        cluster.end(1)
        await eventually(lambda: operator.pods.position("shop") == cluster.server.resource_version, 20)
        (counted,) = operator.metrics.certificate_refusals.collect()
        totals = {s.labels["reason"]: s.value for s in counted.samples if s.name.endswith("_total")}
        assert totals == {"NotTerminal": 1}


async def test_scale_down_while_no_operator_runs_is_finished_by_the_next_process(cluster: Cluster) -> None:
    """The watch resumes from the position in the Lease, so nothing has come and gone unseen."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        epoch = operator.pods.epoch
        await eventually(lambda: epoch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")), 20)
    cluster.scale(2)
    cluster.end(2)
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert operator.pods.epoch == epoch
    assert left(cluster) == [cluster.id_of(2)]


@pytest.mark.parametrize("status", [BROKEN, 403, 429, 503])
async def test_process_whose_first_readings_of_the_lease_fail_resumes_the_watch_all_the_same(
    cluster: Cluster, status: int
) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        epoch = operator.pods.epoch
        await eventually(lambda: epoch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")), 20)
    cluster.scale(2)
    cluster.end(2)
    cluster.server.failing["get", LEASE[0]] = [status, status]
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert operator.pods.epoch == epoch
    assert left(cluster) == [cluster.id_of(2)]


async def test_process_that_cannot_resume_its_watch_removes_nothing(cluster: Cluster) -> None:
    """The API server has compacted what happened meanwhile: pods may have come and gone unseen."""
    async with cluster.operating():
        await cluster.populated()
    cluster.scale(2)
    cluster.end(2)
    cluster.server.compact()
    async with cluster.operating("two"):
        await eventually(lambda: any(c["reason"] == "WatchGap" for c in cluster.status["conditions"]), 20)
    assert left(cluster) == []


async def test_standby_watches_but_writes_nothing_until_the_holder_is_gone(cluster: Cluster) -> None:
    async with cluster.operating("one") as (first, first_task), cluster.operating("two") as (second, _):
        await cluster.populated()
        assert (first.lease.holds(), second.lease.holds()) == (True, False)
        assert second.is_ready() == second.handlers_ready.is_set()
        before = second.metrics.status_writes._value.get()
        cluster.operators.remove(first)
        first_task.cancel()
        await asyncio.gather(first_task, return_exceptions=True)
        await eventually(second.lease.holds, 20)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert before == 0
    assert left(cluster) == [cluster.id_of(2)]


async def test_process_that_watches_sixty_namespaces_holds_the_lease_and_removes(cluster: Cluster) -> None:
    """Each namespace has a watch of its own that stays open; none of them may take the place of a call."""
    namespaces = ("shop", *(f"team-{n}" for n in range(59)))
    async with cluster.operating(watch_namespaces=namespaces) as (operator, _):
        await cluster.populated()
        assert operator.lease.holds()
        assert len([w for w in cluster.server.watches if not w.is_short]) == 61
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
    assert left(cluster) == [cluster.id_of(2)]


async def test_lost_lease_ends_the_process_and_stops_all_writes(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, task):
        await cluster.populated()
        operator.lease._renewed_s = None
        lease = cluster.server.objects[LEASE]
        lease["spec"]["holderIdentity"] = "somebody-else"
        cluster.server.put(lease, LEASE[0])
        with pytest.raises(BaseExceptionGroup) as ended:
            await asyncio.wait_for(task, 20)
        assert ended.group_contains(LeaseLost)
        writes = len([m for m, _ in cluster.server.requests if m == "PATCH"])
        operator.static_group_changed(static_group(generation=9), is_deleted=False)
        assert len([m for m, _ in cluster.server.requests if m == "PATCH"]) == writes


async def test_deleted_staticgroup_is_forgotten_everywhere(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        body = cluster.server.remove("shop", "orders", GROUPS)
        operator.static_group_changed(body, is_deleted=True)
        cluster.operators.clear()
        await eventually(lambda: len(operator.queue) == 0, 20)
        assert operator.stores.groups == {}
        assert operator.reconciler.memories._by_key == {}


async def test_secret_without_the_label_that_the_operator_asks_for_is_used_for_nothing(cluster: Cluster) -> None:
    def connected() -> Json:
        return next((c for c in cluster.status.get("conditions") or () if c["type"] == "Connected"), {})

    async with cluster.operating(secret_label="staticgroup.io/kafka=yes", secret_max_age_s=1):
        await eventually(connected, 20)
        assert (connected()["status"], connected()["reason"]) == ("False", "SecretNotFound")
        assert "Secret kafka-user could not be read: it lacks the label staticgroup.io/kafka=yes" in connected()["message"]
        assert not cluster.kafka.settings_seen
        secret = cluster.server.objects["secrets", "shop", "kafka-user"]
        cluster.server.put(
            {**secret, "metadata": {**secret["metadata"], "labels": {"staticgroup.io/kafka": "yes"}}}, "secrets"
        )
        for operator in cluster.operators:
            cluster.tell(operator)
        await eventually(lambda: connected()["status"] == "True", 20)


async def test_no_write_of_a_whole_life_holds_the_password(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
    written = [str(o) for key, o in cluster.server.objects.items() if key[0] != "secrets"]
    assert CANARY not in " ".join(written)
    assert not [path for _, path in cluster.server.requests if CANARY in path]
