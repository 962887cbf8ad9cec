"""A type alone is enough, and StaticGroups that can make one id find each other."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores

from .operator_world import OperatorWorld, static_group
from .stories import start_as

PODS = 3
Json = dict[str, Any]


async def scaled_down(world: OperatorWorld) -> set[str]:
    """End the last pod and return which ids have left."""
    world.scale(PODS - 1)
    world.end(PODS - 1)
    await world.settled()
    return {instance_id.removeprefix(world.id_of(PODS - 1)) for _, instance_id in world.left}


@pytest.mark.parametrize(
    ("client", "appended"),
    [
        ({"type": "SpringBoot"}, ("-0",)),
        ({"type": "SpringBoot", "concurrency": 3}, ("-0", "-1", "-2")),
        ({"type": "KafkaStreams"}, ("-1",)),
        ({"type": "KafkaStreams", "concurrency": 2}, ("-1", "-2")),
        ({"type": "SpringBoot", "suffixes": [""]}, ("",)),
        ({"suffixes": ["-in", "-out"]}, ("-in", "-out")),
    ],
)
async def test_every_member_of_a_type_alone_is_known_and_leaves_with_its_pod(
    client: Json, appended: tuple[str, ...]
) -> None:
    world = await OperatorWorld(client=client).started(PODS, *appended)
    members, all_of_them = world.members, PODS * len(appended)
    assert (members.expected, members.joined, members.foreign, members.missing) == (all_of_them, all_of_them, 0, 0)
    assert world.condition("Ready")[0] == "True"
    assert await scaled_down(world) == set(appended)


async def test_group_that_never_worked_names_the_field_and_setting_it_ends_it() -> None:
    """Every member is foreign, every seat is missing, and nothing is ever removed."""
    world = await OperatorWorld().started(PODS, "-0")
    world.tells("MembershipComplete", "False", "SuffixMismatch", 'Set spec.client.suffixes to ["-0"] if')
    assert await scaled_down(world) == set()
    await world.settled(8, step_s=15)  # a user who follows it minutes later has lost nothing
    world.declare(static_group(generation=2, client={"suffixes": ["-0"]}))
    await world.settled()
    assert world.condition("Ready")[0] == "True"
    assert [i for _, i in world.left] == [f"{world.id_of(PODS - 1)}-0"]


def store_of(**groups: Json) -> Stores:
    stores = Stores()
    for name, (spec, status) in groups.items():
        body = static_group(f"uid-{name}", **spec) | ({"status": status} if status else {})
        body["metadata"]["name"] = name
        stores.put_group(("shop", name), body)
    return stores


def unscoped(workload: str, **client: Any) -> Json:
    return {
        "workloadRef": {"name": workload}, "idTemplate": "{podName}", "assumeExclusive": True, "client": client,
    }  # fmt: skip


def issued() -> Json:
    injected = {
        "scope": "3fa9c1d2", "method": "Policy", "idTemplate": "{podName}",
        "ids": [{"annotation": "staticgroup.io/instance-id", "suffix": ""}], "env": [],
    }  # fmt: skip
    return {"injected": injected}


@pytest.mark.parametrize(
    ("client", "status", "meets"),
    [
        ({"type": "SpringBoot"}, None, True),
        ({"type": "SpringBoot"}, issued(), True),
        ({"type": "SpringBoot", "suffixes": [""]}, issued(), False),
        ({"suffixes": ["-0"]}, issued(), True),
        ({"type": "KafkaStreams"}, None, True),
        ({"type": "Custom", "suffixes": ["-in"], "env": [{}]}, None, False),
        ({"type": "Generic"}, None, False),
    ],
)
def test_ids_that_a_type_makes_are_compared_with_those_of_others(
    client: Json, status: Json | None, meets: bool
) -> None:
    """Pod 0 of the set web makes web-0-0 or web-0-1, and so do pods 0 and 1 of the set web-0 without any suffix."""
    stores = store_of(spring=(unscoped("web", **client), status), twin=(unscoped("web-0"), None))
    assert (rivals_of(stores, None, ("shop", "spring")).overlaps == ("shop/twin",)) is meets
    assert (rivals_of(stores, None, ("shop", "twin")).overlaps == ("shop/spring",)) is meets


async def test_member_of_a_pod_that_is_seen_with_its_whole_id_does_not_nearly_match_another_pod() -> None:
    """StatefulSets web and web-2 are in one Kafka group, ids are pod names; the client of web-2 is stuck. web-2-0 is
    the id of pod web-2-0."""
    world = OperatorWorld(idTemplate="{podName}", assumeExclusive=True)
    world.template = "web-{ordinal}"
    await world.started()
    start_as(world, "web-2-0", "shard", {"web-2-0"})
    world.kafka.join("web-2-0")
    del world.kafka.members["web-2"]
    world.now_s += 300
    await world.settled(3)
    status, reason, message = world.condition("MembershipComplete")
    assert (status, reason) == ("False", "MembersMissing"), message
    assert not any("suffixes" in e.message for e in world.status.issues)
