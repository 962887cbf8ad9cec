"""A StaticGroup of another namespace delays nothing, unless its brokers or its pods confirm what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.runtime.rivals import rivals_of
from unit.core.builders import pod_version

from .operator_world import KEY, OperatorWorld, guards, kafka_connection, static_group

Json = dict[str, Any]
Changed = Callable[[OperatorWorld], None]
OURS, THEIRS = "oursoursoursoursoursou", "theirstheirstheirsthei"
SHARED: Json = {"connectionRef": {"kind": "ClusterKafkaConnection", "name": "shared"}}


def answered(
    namespace: str, cluster_id: str | None = OURS, *, name: str = "kafka", brokers: int | None = 3, **spec: Any
) -> Json:
    """Write a KafkaConnection, without namespace a ClusterKafkaConnection, with what its brokers answered."""
    body = kafka_connection(**spec)
    body["metadata"] = {"name": name, "uid": f"kc-{namespace}", "generation": 1} | (
        {"namespace": namespace} if namespace else {}
    )
    body["kind"] = "KafkaConnection" if namespace else "ClusterKafkaConnection"
    return body | {"status": {"observedGeneration": 1, "clusterId": cluster_id, "brokers": brokers}}


def tenant(world: OperatorWorld, *, is_issued: bool = False, **spec: Any) -> None:
    """Let another namespace declare a StaticGroup of the same Kafka group, whose workload has no pods."""
    body = static_group("sg-tenant", **({"workloadRef": {"name": "idle"}, "connectionRef": {"name": "own"}} | spec))
    body["metadata"] |= {"namespace": "evil", "name": "x", "creationTimestamp": "2001-01-01T00:00:00Z"}
    if is_issued:  # as the operator writes it of ids that are set by hand, whatever the brokers say
        ids = [{"annotation": "staticgroup.io/instance-id", "suffix": ""}]
        template = spec["idTemplate"]
        injected = {"scope": "0ddba115", "method": "None", "idTemplate": template, "ids": ids, "env": []}
        body["status"] = {"injected": injected}
    world.stores.put_group(("evil", "x"), body)


async def started(**spec: Any) -> OperatorWorld:
    world = OperatorWorld(**spec)
    world.stores.put_connection(("shop", "kafka"), answered("shop"))
    await world.started()
    world.list_again()
    return world


async def departs(world: OperatorWorld) -> None:
    await world.settled(2)
    await world.departs(6)


def nothing(world: OperatorWorld) -> None:
    """No connection of the tenant's exists."""


def own(*args: Any, **options: Any) -> Changed:
    """The tenant has a connection of his own."""
    return lambda world: (
        world.stores.put_connection(("evil", "own"), answered("evil", *args, name="own", **options)) and None
    )


def shared(**allowed: Any) -> Changed:
    """The cluster's connection to our brokers allows what is given."""
    body = answered("", name="shared", allowedNamespaces=[allowed])
    return lambda world: world.stores.put_connection(("", "shared"), body) and None


@pytest.mark.parametrize("names_ids", ["to issue", "its own", "issued"])
@pytest.mark.parametrize(
    ("spec", "connection"),
    [
        ({}, nothing),
        ({}, own(None, brokers=None)),
        ({}, own(None, brokers=None, clusterId=OURS)),
        ({}, own(THEIRS)),
        ({}, own(None)),
        (SHARED, nothing),
        (SHARED, shared(names=["bill"])),
        (SHARED, shared(names=["evil"], groupPrefixes=["evil-"])),
    ],
    ids=[
        "no such connection", "brokers that never answered", "nor do those that are said to be ours",
        "brokers of another cluster", "brokers that tell none", "no such connection of the whole cluster",
        "it does not allow the namespace", "it does not allow the group",
    ],
)  # fmt: skip
async def test_no_staticgroup_of_another_namespace_holds_a_removal(
    spec: Json, connection: Changed, names_ids: str
) -> None:
    world = await started()
    client = {} if names_ids == "to issue" else {"type": "Own"}
    ids = {"idTemplate": f"{{podName}}.{world.scope}", "assumeExclusive": True, "client": client}
    connection(world)
    tenant(world, is_issued=names_ids == "issued", workloadRef={"name": "web"}, **ids, **spec)
    await departs(world)
    assert [instance_id for _, instance_id in world.left] == [world.id_of(2)]
    assert not [e for e in world.status.issues if e.kind.value in ("Held", "Conflicting")]


@pytest.mark.parametrize(
    ("spec", "connection"),
    [({}, own(OURS)), (SHARED, shared(names=["evil"])), (SHARED, shared(names=["evil"], groupPrefixes=["or"]))],
    ids=["of its own", "of the whole cluster", "of the whole cluster, for this group"],
)
async def test_brokers_with_our_cluster_id_make_a_rival(spec: Json, connection: Changed) -> None:
    world = await started()
    connection(world)
    tenant(world, idTemplate=f"web-{{ordinal}}.{world.scope}", **spec)
    await departs(world)
    assert world.left == []
    assert [e.reason for e in world.status.issues] == ["ConflictingStaticGroup"]
    world.stores.drop_group(("evil", "x"), "sg-tenant")
    await world.settled(3)
    assert [instance_id for _, instance_id in world.left] == [world.id_of(2)]


async def test_the_same_connection_whose_brokers_never_answered_makes_no_rival() -> None:
    world = OperatorWorld(**SHARED)
    allowed = [{"names": ["shop", "evil"]}]
    for brokers, is_rival in ((None, False), (3, True)):
        body = answered("", None, name="shared", brokers=brokers, allowedNamespaces=allowed)
        world.stores.put_connection(("", "shared"), body)
        world.declare(static_group(**SHARED, idTemplate="{podName}", assumeExclusive=True))
        tenant(world, idTemplate="web-{ordinal}", workloadRef={"name": "web"}, assumeExclusive=True, **SHARED)
        assert bool(rivals_of(world.stores, None, KEY).prior_claims) is is_rival


async def test_two_that_use_the_same_connection_are_rivals_though_the_cluster_id_is_unknown() -> None:
    world = OperatorWorld(**SHARED)
    world.stores.put_connection(
        ("", "shared"), answered("", None, name="shared", allowedNamespaces=[{"names": ["shop", "evil"]}])
    )
    world.kube.secrets["", "kafka-user"] = world.kube.secrets["shop", "kafka-user"]
    await world.started()
    world.list_again()
    tenant(world, idTemplate=f"web-{{ordinal}}.{world.scope}", **SHARED)
    await departs(world)
    assert world.left == []
    world.stores.drop_group(("evil", "x"), "sg-tenant")
    await world.settled(3)
    assert [instance_id for _, instance_id in world.left] == [world.id_of(2)]


async def test_a_pod_of_another_namespace_with_an_id_of_ours_holds_that_member_and_no_other() -> None:
    world = await started()
    tenant(world, idTemplate=f"web-{{ordinal}}.{world.scope}", client={"type": "Own"})
    carried = frozenset({world.id_of(2)})
    world._happens(
        replace(
            pod_version(2, "evil-2", instance_ids=carried, ids_are_fixed=True, owner_name=""), namespace="evil",
            name="idle-2",
        ),
    )  # fmt: skip
    world.kafka.join(world.id_of(2), "the-other-process")
    await departs(world)
    assert (world.left, guards(world)) == ([], ["PodStillRunning"])
    world.scale(1)
    world.end(1)
    await world.settled(6)
    assert [instance_id for _, instance_id in world.left] == [world.id_of(1)]


@pytest.mark.parametrize("mode", ["Manage", "Observe"])
@pytest.mark.parametrize("client_type", ["Generic", "Own"])
async def test_naming_ids_does_not_keep_them_from_being_issued_elsewhere(mode: str, client_type: str) -> None:
    ids = {"idTemplate": "app-{ordinal}", "assumeExclusive": True}
    world = OperatorWorld(**ids)
    tenant(world, mode=mode, client={"type": client_type}, workloadRef={"name": "web"}, **ids)
    await world.settled(3)
    assert world.injected.method.value == "Policy"


async def test_ids_that_pods_of_another_namespace_carry_already_are_not_issued_to_ours() -> None:
    world = OperatorWorld(idTemplate="app-{ordinal}", assumeExclusive=True)
    tenant(world, idTemplate="app-{ordinal}", assumeExclusive=True, client={"type": "Own"}, is_issued=True)
    carrier = pod_version(0, "evil-0", instance_ids=frozenset({"app-0"}), ids_are_fixed=True, owner_name="idle")
    world._happens(replace(carrier, namespace="evil", name="idle-0"))
    await world.settled(3)
    world.tells("Injected", "False", "ConflictingStaticGroups", "the pods of StaticGroup evil/x bring the same ids themselves")
