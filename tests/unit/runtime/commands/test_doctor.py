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
    told = checks["namespace team-b exists and can be read"]
    assert (told.is_good, told.is_fatal) == (False, False)
    assert "watchNamespaces" in told.remedy
    assert any("namespace team-a" in check for check in checks)
