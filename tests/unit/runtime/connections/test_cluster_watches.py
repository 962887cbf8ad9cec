"""Who may use a ClusterKafkaConnection follows the API server at once; an operator that cannot read any works all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import eventually
from unit.runtime.operator_world import static_group
from unit.runtime.process_world import GROUPS, Cluster

from .test_cluster_connections import REF, shared

CLUSTER_CONNECTIONS = "clusterkafkaconnections.staticgroup.io"
BY_LABEL = {"selector": {"matchLabels": {"kafka": "shared"}}}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        cluster = Cluster(server)
        server.put(static_group(connectionRef=REF), GROUPS)
        secret = {"username": "b3BlcmF0b3I=", "password": "czNjcjN0LWNhbmFyeQ=="}
        server.put({"metadata": {"namespace": "ops", "name": "kafka-user"}, "data": secret}, "secrets")
        yield cluster


def put(cluster: Cluster, generation: int = 1, **allowed: Any) -> None:
    cluster.server.put(shared(generation, allowedNamespaces=[allowed]), CLUSTER_CONNECTIONS)


def label(cluster: Cluster, **labels: str) -> None:
    cluster.server.put({"metadata": {"name": "shop", "uid": "ns-shop", "labels": labels}}, "namespaces")


async def says(cluster: Cluster, reason: str) -> str:
    """Wait until the StaticGroup's Connected gives a reason; returns its message."""

    def problem() -> str | None:
        found = [c for c in cluster.status.get("conditions", ()) if (c["type"], c["reason"]) == ("Connected", reason)]
        return found[0]["message"] if found else None

    await eventually(lambda: problem() is not None)
    return problem() or ""


async def test_lists_and_labels_take_effect_as_they_change(cluster: Cluster) -> None:
    """No round is due within 30 s: only the news itself can be what made one."""
    async with cluster.operating() as (operator, _):
        assert "does not exist" in await says(cluster, "ConnectionNotFound")
        put(cluster, names=["bill"])
        await says(cluster, "NamespaceNotAllowed")
        put(cluster, 2, names=["shop"])
        await says(cluster, "BrokersReachable")
        put(cluster, 3, **BY_LABEL)
        await says(cluster, "NamespaceNotAllowed")
        label(cluster, kafka="shared")
        await says(cluster, "BrokersReachable")
        label(cluster)
        await says(cluster, "NamespaceNotAllowed")
        label(cluster, kafka="shared")
        await says(cluster, "BrokersReachable")
        cluster.server.remove("", "shared", CLUSTER_CONNECTIONS)
        await says(cluster, "ConnectionNotFound")
        assert operator.is_ready()


async def test_its_status_is_written_and_its_groups_are_decided_again(cluster: Cluster) -> None:
    put(cluster, names=["shop"])
    async with cluster.operating():
        await says(cluster, "BrokersReachable")
        await eventually(lambda: "status" in cluster.server.objects[CLUSTER_CONNECTIONS, "", "shared"])
        assert cluster.server.objects[CLUSTER_CONNECTIONS, "", "shared"]["status"]["clusterId"] == "cluster-k"


async def test_an_operator_without_the_right_starts_and_says_what_is_lacking(cluster: Cluster) -> None:
    put(cluster, names=["shop"])
    cluster.server.denied |= {("list", CLUSTER_CONNECTIONS), ("list", "namespaces")}
    async with cluster.operating() as (operator, _):
        assert "clusterkafkaconnections.staticgroup.io" in await says(cluster, "ConnectionNotFound")
        assert operator.is_ready()
        await eventually(lambda: operator.stores.namespaces.problem)
        cluster.server.denied.clear()
        await says(cluster, "BrokersReachable")
        await eventually(lambda: operator.stores.namespaces.problem == "")


async def test_an_operator_of_some_namespaces_reads_nothing_of_the_whole_cluster(cluster: Cluster) -> None:
    put(cluster, names=["shop"])
    async with cluster.operating(watch_namespaces=("shop",)) as (operator, _):
        assert "serves only some namespaces" in await says(cluster, "ConnectionNotFound")
        assert operator.is_ready()
    assert not [path for _, path in cluster.server.requests if "clusterkafkaconnections" in path]
    assert not [path for _, path in cluster.server.requests if path.split("?")[0] == "/api/v1/namespaces"]
