"""Two StaticGroups that make the same ids: pods of both would fence each other, so the next pods of one get none."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores

from .operator_world import OperatorWorld, static_group

Json = dict[str, Any]
TEMPLATE = "app-{ordinal}"
IDENTITY: Json = {"idTemplate": TEMPLATE, "assumeExclusive": True}
EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def group(name: str, created: str, *, method: str | None = "Policy", template: str = TEMPLATE, **spec: Any) -> Json:
    """Write a StaticGroup with a StatefulSet of its own; `method` is the one in force, None where no id was issued
    yet."""
    body = static_group(f"uid-{name}", **({"workloadRef": {"name": name}} | IDENTITY | spec))
    body["metadata"] |= {"name": name, "creationTimestamp": created}
    if method is not None:
        ids = [{"annotation": "staticgroup.io/instance-id", "suffix": ""}]
        injected = {"scope": "3fa9c1d2", "method": method, "idTemplate": template, "ids": ids, "env": []}
        body["status"] = {"injected": injected}
    return body


def yields(*bodies: Json) -> set[str]:
    """Return the StaticGroups whose next pods get no id."""
    stores = Stores()
    keys = [("shop", body["metadata"]["name"]) for body in bodies]
    for key, body in zip(keys, bodies, strict=True):
        stores.put_group(key, body)
    return {name for namespace, name in keys if rivals_of(stores, None, (namespace, name)).prior_claims}


BY_HAND: Json = {"idTemplate": TEMPLATE, "assumeExclusive": True, "client": {"type": "Own"}}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (group("a", EARLIER), group("b", LATER), {"b"}),
        (group("a", LATER), group("b", EARLIER), {"a"}),
        (group("a", LATER, method=None), group("b", LATER, method=None), {"b"}),
        (
            group("a", EARLIER, method=None),
            group("b", LATER, idTemplate="new-{ordinal}", assumeExclusive=True),
            {"a"},
        ),
        (group("a", EARLIER, template="old-{ordinal}"), group("b", LATER), {"a"}),
        (group("a", EARLIER, method="None"), group("b", LATER), {"a"}),
        (group("a", EARLIER, method=None), group("b", LATER, method="None", **BY_HAND), {"a"}),
        (group("a", EARLIER, method=None), group("b", LATER, method="None", mode="Observe"), {"a"}),
        (group("a", EARLIER, method="None", mode="Observe"), group("b", LATER), {"a"}),
        (group("a", EARLIER), group("b", LATER, groupId="audit"), set()),
        (
            group("a", EARLIER),
            group("b", LATER, idTemplate="{podName}.{scope}", template="{podName}.3fa9c1d2"),
            set(),
        ),
    ],
    ids=[
        "the older one keeps", "whatever their names are", "of one second the uid decides",
        "an edit that is not in force gives up nothing that is injected",
        "an edited template yields to ids that are injected", "who yielded goes on to yield",
        "ids that are set by hand are issued", "ids of mode Observe may be", "a watcher yields to who injects",
        "another Kafka group", "other ids",
    ],
)  # fmt: skip
def test_of_two_that_make_the_same_ids_one_gives_no_more(a: Json, b: Json, expected: set[str]) -> None:
    assert yields(a, b) == expected
    assert yields(b, a) == expected


def test_template_that_makes_no_id_of_another_is_not_silenced_by_an_earlier_one_that_did() -> None:
    """Both remove nothing while pods of the earlier template may live; no other StaticGroup issues the ids of the next
    pods."""
    mine = group("a", LATER, idTemplate="new-{ordinal}", assumeExclusive=True, template="new-{ordinal}")
    mine["status"]["issued"] = {"ordinals": "0-2", "templates": [TEMPLATE]}
    assert yields(mine, group("b", EARLIER)) == set()


def put_twin(world: OperatorWorld, created: str) -> None:
    body = group("twin", created, workloadRef={"name": "pay"})
    world.stores.put_group(("shop", "twin"), body)


async def a_conflict(created: str) -> OperatorWorld:
    """Let a StaticGroup of the same ids come to one whose pods run."""
    world = OperatorWorld(**IDENTITY)
    world.template = TEMPLATE
    await world.started()
    world.declare(static_group(**IDENTITY))
    put_twin(world, created)
    await world.settled(2)
    return world


def method(world: OperatorWorld) -> str:
    return world.injected.method.value


async def test_next_pods_get_no_id_that_another_staticgroup_issued_first_until_it_is_gone() -> None:
    world = await a_conflict("2001-01-01T00:00:00Z")
    assert method(world) == "None"
    world.tells("Ready", "False", "ConflictingStaticGroups", "new pods of this one get no id")
    world.tells(
        "Injected", "False", "ConflictingStaticGroups", "shop/twin issued the same ids first", "change spec.idTemplate here"
    )
    assert (world.members.joined, world.members.foreign) == (3, 0), "pods that run keep their ids"
    world.stores.drop_group(("shop", "twin"), "uid-twin")
    await world.settled(2)
    assert method(world) == "Policy"
    assert world.condition("Ready")[0] == "True"


async def test_whose_ids_they_were_first_goes_on_to_give_them() -> None:
    world = await a_conflict("2101-01-01T00:00:00Z")
    assert method(world) == "Policy"
    assert world.condition("Ready")[1] == "ConflictingStaticGroups"
    assert "no id" not in world.condition("Ready")[2]


async def test_pod_that_starts_without_an_id_is_not_to_be_restarted_for_one() -> None:
    world = await a_conflict("2001-01-01T00:00:00Z")
    world.end(2)
    world.start(2, "u2b", joins=False, instance_ids=frozenset())
    await world.settled(2)
    (finding,) = (e for e in world.status.issues if e.kind.value == "WithoutId")
    assert "the condition Injected says why" in finding.message
    assert "restart" not in finding.message


async def test_template_that_was_never_issued_is_not_remembered() -> None:
    """Or the conflict would outlast the edit that caused it."""
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2))
    put_twin(world, "2101-01-01T00:00:00Z")
    world.declare(static_group(generation=3, **IDENTITY))
    await world.settled(2)
    assert method(world) == "None"
    world.declare(static_group(generation=4))
    await world.settled(2)
    assert method(world) == "Policy"
    assert world.condition("Ready")[0] == "True"
    assert world.issued.templates == []


async def test_new_staticgroup_issues_nothing_while_its_ids_are_anothers() -> None:
    world = OperatorWorld(**IDENTITY)
    put_twin(world, "2101-01-01T00:00:00Z")
    await world.settled(2)
    assert world.status.injected is None
    assert world.condition("Injected")[:2] == ("False", "ConflictingStaticGroups")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "is the older one and issues the same ids"),
        ({"mode": "Suspended"}, "is the older one and issues the same ids once its mode is Manage"),
        ({"mode": "Observe"}, "watches pods that may have the same ids (its mode is Observe)"),
        (BY_HAND, "bring the same ids themselves (its client.type is Own)"),
        (BY_HAND | {"mode": "Suspended"}, "bring the same ids themselves (its client.type is Own)"),
    ],
    ids=["about to begin", "suspended since it was made", "only watching", "by hand", "by hand and suspended"],
)
async def test_staticgroup_that_never_issued_an_id_did_not_issue_it_first(spec: Json, why: str) -> None:
    """It keeps the ids all the same: two that decide at one time, or whose pods have them by hand, would fence each
    other."""
    world = OperatorWorld(**IDENTITY)
    world.template = TEMPLATE
    twin = group("twin", "2001-01-01T00:00:00Z", method=None, **({"workloadRef": {"name": "nowhere"}} | spec))
    world.stores.put_group(("shop", "twin"), twin)
    world.scale(3)
    await world.settled(3)
    messages = world.condition("Injected")[2], world.condition("Ready")[2]
    assert all(f"StaticGroup shop/twin {why}" in text for text in messages)
    assert not any("first" in text for text in messages)
