"""`doctor` finds CRDs that are older than the operator before a status is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from staticgroup.api import crd
from staticgroup.kube.transport import connect
from staticgroup.runtime.commands.doctor import Finding, findings
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import FakeKafka
from unit.runtime.connections.test_cluster_connections import REF, shared
from unit.runtime.operator_world import static_group


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


def published(*definitions: dict[str, Any]) -> dict[str, Any]:
    """Return what an API server publishes of CRDs."""
    schemas = {}
    for definition in definitions:
        kind = definition["spec"]["names"]["kind"]
        version = definition["spec"]["versions"][0]
        marks = [{"group": definition["spec"]["group"], "kind": kind, "version": version["name"]}]
        schemas[f"io.{kind}"] = version["schema"]["openAPIV3Schema"] | {"x-kubernetes-group-version-kind": marks}
    return {"components": {"schemas": schemas}}


async def found(server: FakeApiServer, missing: tuple[str, ...] = (), **settings: Any) -> dict[str, Finding]:
    transport = connect(server.configuration())
    try:
        operator = Operator(Settings(identity="one", namespace="ops", **settings), transport, kafka=FakeKafka())
        return {f.check: f async for f in findings(operator, missing=missing)}
    finally:
        await transport.close()


CHECK = "CustomResourceDefinition {}.staticgroup.io knows what this operator writes"


async def test_crds_of_this_version_are_good(server: FakeApiServer) -> None:
    server.openapi = published(crd.static_group_crd(), crd.kafka_connection_crd())
    checks = await found(server)
    assert checks[CHECK.format("staticgroups")].is_good
    assert checks[CHECK.format("kafkaconnections")].is_good


async def test_a_namespace_that_is_gone_is_named_and_not_fatal(server: FakeApiServer) -> None:
    """The others are served, and their rights are looked at."""
    checks = await found(server, ("team-b",), watch_namespaces=("team-a",))
    told = checks["namespace team-b exists"]
    assert (told.is_good, told.is_fatal) == (False, False)
    assert "watchNamespaces" in told.remedy
    assert any("namespace team-a" in check for check in checks)


@pytest.mark.parametrize(
    ("denied", "asks_runtime", "lacks"),
    [
        ("nodes", False, "get nodes,"),
        ("leases.coordination.k8s.io", False, "get leases.coordination.k8s.io in namespace kube-node-lease,"),
        ("nodes/proxy", True, "get nodes/proxy,"),
        ("nodes/proxy", False, ""),
    ],
)
async def test_what_nodes_prove_needs_rights_that_are_looked_at(
    server: FakeApiServer, denied: str, asks_runtime: bool, lacks: str
) -> None:
    server.denied.add(("get", denied))
    told = (await found(server, ask_runtime=asks_runtime))["rights to ask what nodes prove"]
    assert (told.is_good, told.is_fatal) == (not lacks, False)
    assert f"may not {lacks}" in told.remedy


async def test_older_crd_is_found_with_its_fields_and_the_remedy(server: FakeApiServer) -> None:
    older = crd.static_group_crd()
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["continuity"]
    server.openapi = published(older, crd.kafka_connection_crd())
    finding = (await found(server))[CHECK.format("staticgroups")]
    assert (finding.is_good, finding.is_fatal) == (False, True)
    assert "status.continuity" in finding.remedy
    assert "python -m staticgroup crds | kubectl apply -f -" in finding.remedy


async def test_schema_that_cannot_be_read_is_no_more_than_a_warning(server: FakeApiServer) -> None:
    server.failing_paths.add("/openapi/v3/apis/staticgroup.io/v1alpha1")
    finding = (await found(server))[CHECK.format("staticgroups")]
    assert (finding.is_good, finding.is_fatal) == (False, False)


USES = "StaticGroup shop/orders may use ClusterKafkaConnection shared"
READABLE = "ClusterKafkaConnections are readable"


def shares(server: FakeApiServer, *namespaces: str) -> None:
    server.put(static_group(connectionRef=REF), "staticgroups.staticgroup.io")
    body = shared(sasl=None, allowedNamespaces=[{"names": list(namespaces)}])
    server.put({**body, "spec": {k: v for k, v in body["spec"].items() if v is not None}}, "clusterkafkaconnections.staticgroup.io")


@pytest.mark.parametrize(("allowed", "is_good"), [("shop", True), ("bill", False)])
async def test_a_connection_of_the_whole_cluster_is_asked_and_who_may_use_it_told(
    server: FakeApiServer, allowed: str, is_good: bool
) -> None:
    shares(server, allowed)
    checks = await found(server)
    assert checks[READABLE].is_good
    assert any(check.startswith("ClusterKafkaConnection shared: cluster cluster-k") for check in checks)
    assert (checks[USES].is_good, any("ACLs for group orders" in check for check in checks)) == (is_good, is_good)


async def test_connections_of_the_whole_cluster_that_cannot_be_read_are_a_warning(server: FakeApiServer) -> None:
    shares(server, "shop")
    server.denied |= {(verb, "clusterkafkaconnections.staticgroup.io") for verb in ("list", "watch")}
    checks = await found(server)
    assert (checks[READABLE].is_good, checks[READABLE].is_fatal) == (False, False)
    assert (checks[USES].is_good, checks[USES].is_fatal) == (False, True)
    assert "list clusterkafkaconnections.staticgroup.io" in checks["rights in all namespaces"].remedy


async def test_an_operator_of_some_namespaces_tells_the_group_that_names_one(server: FakeApiServer) -> None:
    shares(server, "shop")
    checks = await found(server, watch_namespaces=("shop",))
    assert READABLE not in checks
    assert "serves only some namespaces" in checks[USES].remedy
