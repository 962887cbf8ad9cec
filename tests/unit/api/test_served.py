"""A served CRD that is older than the models is recognized by the status fields that it lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staticgroup.api import crd
from staticgroup.api.crd import status_schema
from staticgroup.api.served import lacking


def served() -> dict[str, Any]:
    """Return the schema of a StaticGroup as an API server publishes it."""
    version = crd.definition("StaticGroup")["spec"]["versions"][0]
    published: dict[str, Any] = json.loads(json.dumps(version["schema"]["openAPIV3Schema"]))
    return published


def test_crd_of_the_same_models_lacks_nothing() -> None:
    assert lacking(status_schema("StaticGroup"), served()) == ()
    connection = crd.definition("KafkaConnection")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert lacking(status_schema("KafkaConnection"), connection) == ()


def test_field_value_and_bound_that_the_served_crd_lacks_are_named() -> None:
    older = served()
    status = older["properties"]["status"]["properties"]
    memory = status["memory"]["properties"]
    del memory["watch"]
    suspects, seats = memory["suspects"], memory["seats"]
    del suspects["items"]["properties"]["lostRun"]
    seats["maxItems"] = 100
    status["sessionTimeout"]["properties"]["source"]["enum"].remove("Fleet")
    assert lacking(status_schema("StaticGroup"), older) == (
        "status.memory.seats (at most 100 served, 2000 written)", "status.memory.suspects[].lostRun", "status.memory.watch",
        "status.sessionTimeout.source=Fleet",
    )


def test_newer_crd_lacks_nothing() -> None:
    newer = served()
    newer["properties"]["status"]["properties"]["later"] = {"type": "string"}
    newer["properties"]["status"]["properties"]["memory"]["properties"]["seats"]["maxItems"] = 3000
    assert lacking(status_schema("StaticGroup"), newer) == ()


@pytest.mark.parametrize("schema", [{}, {"properties": {}}, {"properties": {"status": {"type": "object"}}}])
def test_schema_without_a_status_lacks_all_of_it(schema: dict[str, Any]) -> None:
    assert "status.memory" in lacking(status_schema("StaticGroup"), schema) or lacking(
        status_schema("StaticGroup"), schema
    ) == ("status",)


def test_schema_that_takes_every_field_lacks_none() -> None:
    open_schema = {"properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    assert lacking(status_schema("StaticGroup"), open_schema) == ()
