"""The health checks of docs/guide/gitops.md, run by Lua as Argo CD runs them, on statuses that the operator writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml

from .operator_world import KEY, OperatorWorld, departing, static_group

PAGE = Path(__file__).parents[3] / "docs/guide/gitops.md"
Json = dict[str, Any]


def checks() -> dict[str, str]:
    """Return the Lua text of each kind, as the page shows it."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (shown,) = [body for block in blocks if (body := yaml.safe_load(block))["kind"] == "ConfigMap"]
    data: dict[str, str] = shown["data"]
    return {name.rpartition("_")[2]: text for name, text in data.items()}


def health(obj: Json, kind: str = "StaticGroup") -> tuple[str, str]:
    """Return what Argo CD would show: status and message."""
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(obj, recursive=True)
    found = lua.execute(checks()[kind])
    return found.status, found.message


def seen(world: OperatorWorld) -> Json:
    return world.kube.objects["staticgroups", *KEY]


def test_every_kind_with_a_status_has_a_check() -> None:
    assert set(checks()) == {"StaticGroup", "KafkaConnection", "ClusterKafkaConnection"}


@pytest.mark.parametrize("kind", ["StaticGroup", "KafkaConnection", "ClusterKafkaConnection"])
def test_object_without_a_status_is_progressing(kind: str) -> None:
    assert health(static_group(), kind)[0] == "Progressing"


async def test_staticgroup_whose_members_are_all_there_or_being_removed_is_healthy() -> None:
    world = await OperatorWorld().started()
    assert health(seen(world)) == ("Healthy", world.condition("Ready")[2])
    world = await departing()
    await world.round()
    assert health(seen(world))[0] == "Healthy"


async def test_trouble_that_lasts_is_degraded_with_its_remedy() -> None:
    world = await OperatorWorld().started()
    await world.loses(4)
    status, message = health(seen(world))
    assert status == "Degraded"
    assert "the member leaves when its session expires" in message


async def test_edit_that_was_not_observed_yet_is_progressing_and_suspended_is_suspended() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, sessionTimeout={"maxSeconds": 600}))
    assert health(seen(world))[0] == "Progressing"
    await world.settled(2)
    assert health(seen(world))[0] == "Healthy"
    world.declare(static_group(generation=3, mode="Suspended"))
    await world.round()
    assert health(seen(world))[0] == "Suspended"


def test_connection_is_as_its_condition_says() -> None:
    for status, expected in (("True", "Healthy"), ("False", "Degraded"), ("Unknown", "Progressing")):
        ready = {"type": "Ready", "status": status, "reason": "Connected", "message": "as reported"}
        body = {"metadata": {"generation": 3}, "status": {"observedGeneration": 3, "conditions": [ready]}}
        assert health(body, "KafkaConnection") == (expected, "as reported")
