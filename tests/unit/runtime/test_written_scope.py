"""A scope that the user wrote: ids that outlive their StaticGroup, so members may be older than it."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores
from unit.core.builders import ended

from .operator_world import OperatorWorld, guards, static_group
from .stories import left, start_as
from .test_tenants import answered

SCOPE = "5ca1ab1e"
WRITTEN: dict[str, Any] = {"identity": {"scope": SCOPE}}


async def test_member_that_joined_before_the_watch_was_whole_may_be_of_an_unseen_pod() -> None:
    """Ids with a written scope may be older than the StaticGroup."""
    world = OperatorWorld(**WRITTEN)
    world.template = f"web-{{ordinal}}.{SCOPE}"
    await world.started()
    await world.departs(5)
    assert left(world) == []
    assert guards(world) == ["JoinedBeforeWatch"]


async def test_scope_of_the_status_may_be_written_later_and_changes_nothing() -> None:
    world = await OperatorWorld().started()
    drawn = world.scope
    world.declare(static_group(generation=2, identity={"scope": drawn}))
    await world.settled(2)
    assert world.scope == drawn
    await world.departs(5)
    assert left(world) == [world.id_of(2)]


async def test_another_scope_than_ids_were_issued_with_is_refused() -> None:
    """The API server refuses it too; a status may have been put back."""
    world = await OperatorWorld().started()
    drawn = world.scope
    world.declare(static_group(generation=2, identity={"scope": SCOPE}))
    await world.settled(2)
    assert world.scope == drawn
    world.tells("Injected", "False", "IdentityInvalid", f"spec.identity.scope is {SCOPE}")


async def test_id_of_a_pod_from_before_is_given_to_no_other_pod() -> None:
    """By a forgotten earlier template web-1 has the id that web-11 would get now, and would be fenced."""
    world = OperatorWorld(**WRITTEN)
    start_as(world, "web-1", "old", {f"web-11.{SCOPE}"})
    await world.settled(2)
    assert world.status.injected is None
    world.tells("Injected", "False", "IdentityInvalid", f"pod shop/web-1 has id web-11.{SCOPE}")
    world._happens(ended(1, "old", instance_ids=frozenset({f"web-11.{SCOPE}"})))
    world.remove_object(1)
    start_as(world, "web-1", "new", set())
    await world.settled(1)
    assert world.status.injected is not None


# the same scope twice ------------------------------------------------------------------------------------------------


def group(namespace: str, name: str, *, drawn: str | None = None, **spec: Any) -> dict[str, Any]:
    body = static_group(f"uid-{namespace}-{name}", **({"workloadRef": {"name": name}} | spec))
    body["metadata"] |= {"namespace": namespace, "name": name}
    if drawn is not None:
        ids = [{"annotation": "staticgroup.io/instance-id", "suffix": ""}]
        injected = {"scope": drawn, "method": "Policy", "idTemplate": f"{{podName}}.{drawn}", "ids": ids, "env": []}
        body["status"] = {"injected": injected}
    return body


@pytest.mark.parametrize(
    ("a", "b", "are_rivals"),
    [
        (group("shop", "web", **WRITTEN), group("bill", "web", **WRITTEN), True),
        (group("shop", "web", **WRITTEN), group("shop", "api", **WRITTEN), True),
        (group("shop", "web", **WRITTEN), group("bill", "api", drawn=SCOPE), True),
        (group("shop", "web", **WRITTEN), group("bill", "api", **(WRITTEN | {"groupId": "audit"})), False),
        (group("shop", "web", **WRITTEN), group("bill", "web", drawn="0ddba115"), False),
        (group("shop", "web"), group("bill", "web"), False),
    ],
    ids=["two namespaces", "other pods", "one that was drawn", "another group", "another scope", "neither has one yet"],
)
def test_two_staticgroups_of_one_kafka_group_with_one_scope_know_of_each_other(
    a: dict[str, Any], b: dict[str, Any], are_rivals: bool
) -> None:
    stores = Stores()
    keys = [(body["metadata"]["namespace"], body["metadata"]["name"]) for body in (a, b)]
    for key, body in zip(keys, (a, b), strict=True):
        stores.put_group(key, body)
        stores.put_connection((key[0], "kafka"), answered(key[0]))
    named = ["/".join(key) for key in keys]
    found = [rivals_of(stores, None, key).same_scope for key in keys]
    assert found == ([(named[1],), (named[0],)] if are_rivals else [(), ()])


async def test_neither_of_two_with_one_scope_removes_a_member_and_each_names_the_other() -> None:
    world = OperatorWorld(**WRITTEN)
    world.template = f"web-{{ordinal}}.{SCOPE}"
    await world.started()
    world.stores.put_group(("bill", "pay"), group("bill", "pay", **WRITTEN))
    for namespace in ("shop", "bill"):
        world.stores.put_connection((namespace, "kafka"), answered(namespace))
    await world.departs(5)
    assert left(world) == []
    assert [e.reason for e in world.status.exceptions] == ["ConflictingStaticGroup"]
    world.tells(
        "Ready", "False", "ConflictingStaticGroups", "StaticGroup bill/pay of this Kafka group has the same scope",
        "create it with another one",
    )  # fmt: skip
