"""A ClusterKafkaConnection serves the namespaces that it allows; for any other, nothing is asked of its brokers and nobody removed."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import StaticGroup
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.login.shared_credentials import SharedCredentials
from staticgroup.runtime.connections.connections import Connections, may_be_exclusive, may_use
from staticgroup.runtime.stores import Stores
from support.fake_gateways import FakeKafka, FakeKube
from unit.runtime import test_crash_release as crash_release
from unit.runtime.operator_world import CANARY, KEY, OperatorWorld, static_group

SHARED = ("", "shared")
REF = {"kind": "ClusterKafkaConnection", "name": "shared"}


def shared(generation: int = 1, **spec: Any) -> dict[str, Any]:
    body = {
        "bootstrapServers": ["kafka.example.com:9092"],
        "sasl": {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}},
        "allowedNamespaces": [{"names": ["shop"]}],
    }
    return {"metadata": {"name": "shared", "uid": "ckc-1", "generation": generation}, "spec": body | spec}


def asking(ref: dict[str, str]) -> StaticGroup:
    return StaticGroup.from_wire(static_group(connectionRef=ref))


def world_of(**spec: Any) -> OperatorWorld:
    return connected(OperatorWorld(connectionRef=REF), **spec)


def connected(world: OperatorWorld, **spec: Any) -> OperatorWorld:
    world.kube.secrets = {("ops", "kafka-user"): {"username": b"operator", "password": CANARY.encode()}}
    world.connections.own_namespace = "ops"
    world.stores.put_connection(SHARED, shared(**spec))
    return world


async def departing(**spec: Any) -> OperatorWorld:
    """Three members, of whom the last pod has been scaled away and has ended."""
    world = await world_of(**spec).started()
    world.scale(2)
    world.end(2)
    world.now_s += 120
    return world


def take_away(world: OperatorWorld) -> None:
    world.stores.put_connection(SHARED, shared(2, allowedNamespaces=[{"names": ["bill"]}]))


async def test_a_group_of_an_allowed_namespace_is_served_with_the_operators_own_secret() -> None:
    world = await departing()
    await world.settled(3)
    assert [entry.instance_id for entry, _ in world.kafka.leaves] == [world.id_of(2)]
    assert world.kafka.settings_seen[-1].sasl is not None
    assert world.kafka.settings_seen[-1].sasl.password.reveal() == CANARY
    assert world.condition("Connected")[:2] == ("True", "BrokersReachable")


async def test_a_namespace_that_is_not_allowed_is_reported_and_its_departed_member_stays() -> None:
    world = await departing()
    take_away(world)
    world.kafka.settings_seen.clear()
    await world.settled(4)
    assert (world.kafka.leaves, world.kafka.settings_seen) == ([], [])
    world.tells(
        "Connected", "False", "NamespaceNotAllowed", "ClusterKafkaConnection shared does not allow namespace shop",
        "spec.allowedNamespaces",
    )  # fmt: skip
    assert world.condition("Ready")[0] == "False"
    assert world.condition("RemovalSettled")[0] != "True"
    assert CANARY not in str(world.status)
    world.stores.put_connection(SHARED, shared(3))  # allowed again
    await world.settled(3)
    assert [entry.instance_id for entry, _ in world.kafka.leaves] == [world.id_of(2)]


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("before", ["describe", "read_workload", "read_pod"])
async def test_a_namespace_taken_away_in_the_middle_of_a_round_loses_nobody(before: str, is_deleted: bool) -> None:
    """Whatever the round has read by then, the removal that it planned is not sent."""
    world = await departing()
    fake: FakeKafka | FakeKube = world.kafka if before == "describe" else world.kube
    fake.before[before] = lambda: world.stores.drop_connection(SHARED) if is_deleted else take_away(world)
    await world.round()
    assert world.kafka.leaves == []
    assert not world.kafka.before
    assert not world.kube.before


async def test_a_namespace_taken_away_while_secrets_are_read_is_asked_nothing() -> None:
    world = await departing()
    world.now_s += 60  # the Secret is too old to be used unread
    world.kafka.settings_seen.clear()
    world.kube.before["read_secret"] = lambda: take_away(world)
    await world.round()
    assert (world.kafka.settings_seen, world.kafka.leaves, world.kube.before) == ([], [], {})


async def test_labels_decide_as_they_are_now() -> None:
    world = await departing(allowedNamespaces=[{"selector": {"matchLabels": {"kafka": "shared"}}}])
    assert world.condition("Connected")[1] == "NamespaceNotAllowed"  # its labels are not known yet
    labelled = {"metadata": {"name": "shop", "uid": "n1", "labels": {"kafka": "shared"}}}
    assert world.stores.namespaces.put(labelled)
    await world.round()
    assert world.condition("Connected")[1] == "BrokersReachable"
    assert world.stores.namespaces.put({"metadata": {"name": "shop", "uid": "n1"}})
    await world.round()
    assert world.condition("Connected")[1] == "NamespaceNotAllowed"
    world.stores.namespaces.put(labelled)
    world.stores.namespaces.problem = "namespaces cannot be listed"
    await world.round()
    assert "namespaces cannot be listed" in world.condition("Connected")[2]


def connections(kube: FakeKube, **options: Any) -> Connections:
    return Connections(kube=kube, stores=Stores(), monotonic_s=lambda: 0.0, own_namespace="ops", **options)


async def test_secrets_come_from_one_namespace_of_its_owner_and_never_from_that_of_the_group() -> None:
    kube = FakeKube()
    for namespace in ("shop", "ops", "vault"):
        kube.secrets[namespace, "kafka-user"] = {"username": b"u", "password": f"of-{namespace}".encode()}
    held = connections(kube)
    for named, password in ((None, "of-ops"), ("vault", "of-vault")):
        held.stores.put_connection(SHARED, shared(**({"secretNamespace": named} if named else {})))
        settings = await held.settings_for(asking(REF))
        assert isinstance(settings, ConnectionSettings)
        assert settings.sasl is not None
        assert settings.sasl.password.reveal() == password
    assert set(held.secret_texts()) == {"of-ops", "of-vault"}


async def test_a_connection_of_the_same_name_in_the_namespace_is_another_one() -> None:
    kube = FakeKube()
    kube.secrets["ops", "kafka-user"] = {"username": b"u", "password": b"p"}
    held = connections(kube)
    held.stores.put_connection(SHARED, shared())
    own = await held.settings_for(asking({"name": "shared"}))
    assert isinstance(own, KafkaProblem)
    assert own.kind is KafkaProblemKind.CONNECTION_MISSING
    assert "KafkaConnection shop/shared does not exist" in own.message
    missing = await held.settings_for(asking(REF | {"name": "other"}))
    assert isinstance(missing, KafkaProblem)
    assert "ClusterKafkaConnection other does not exist" in missing.message
    assert not may_use(held.stores, asking(REF | {"name": "other"}))


async def test_what_is_shared_with_a_namespace_is_not_shared_with_a_connection_of_the_whole_cluster() -> None:
    """A token belongs to the namespace of the connection's Secrets, which is its owner's."""
    login = {"mechanism": "OAUTHBEARER", "oauth": {"tokenFile": "kafka"}}
    held = connections(FakeKube(), shared=SharedCredentials(tokens_path="/tokens"))
    held.stores.put_connection(SHARED, shared(tls={"enabled": True}, sasl=login))
    settings = await held.settings_for(asking(REF))
    assert isinstance(settings, ConnectionSettings)
    assert settings.sasl is not None
    assert settings.sasl.oauth is not None
    assert settings.sasl.oauth.token_file is not None
    assert settings.sasl.oauth.token_file.path == "/tokens/ops/kafka"


def test_each_namespace_that_shares_a_connection_is_a_tenant_of_its_own() -> None:
    stores = Stores()
    for namespace in ("shop", "bill"):
        body = static_group(connectionRef=REF)
        stores.put_group((namespace, "orders"), body | {"metadata": body["metadata"] | {"namespace": namespace}})
    stores.put_group(("shop", "own"), static_group(connectionRef={"name": "shared"}))
    lanes = {stores.lane_of(key) for key in stores.groups}
    assert lanes == {("shop", "ClusterKafkaConnection/shared"), ("bill", "ClusterKafkaConnection/shared"), ("shop", "shared")}
    assert stores.groups_of_connection(SHARED) == {KEY, ("bill", "orders")}
    assert stores.users_of_cluster_connections("bill") == {("bill", "orders")}


async def test_a_namespace_taken_away_between_two_calls_of_a_round_gets_no_second_one() -> None:
    """Two processes crashed; while the first member is let go, the owner takes the connection away."""
    world = await crash_release.consuming()
    connected(world)
    crash_release.edit(world, connectionRef=REF)
    await world.settled(2)
    for ordinal in range(2):
        crash_release.crashes(world, ordinal)
    world.kafka.before["release"] = lambda: take_away(world)
    await world.round()
    assert len(world.kafka.releases) == 1
    await world.settled(2)
    assert len(world.kafka.releases) == 1


LITERAL = {"idTemplate": "app-{ordinal}", "assumeExclusive": True}
COPIED = {"idTemplate": "{podName}.0badc0de", "assumeExclusive": True, "client": {"type": "Own"}}


async def with_decoys(ids: dict[str, Any], template: str = "app-{ordinal}", **allowed: Any) -> OperatorWorld:
    """Live members of another cluster have the ids; pods here carry them too, never join, and are scaled away."""
    world = connected(OperatorWorld(**ids, connectionRef=REF), allowedNamespaces=[allowed])
    world.template = template
    world.scale(2)
    await world.watched_for_long()
    world.list_again()
    for ordinal in range(2):
        world.start(ordinal, joins=False)
        world.kafka.join(world.id_of(ordinal), f"lives-elsewhere-{ordinal}")
    world.now_s += 300
    await world.settled(2)
    world.list_again()
    world.scale(0)
    for ordinal in range(2):
        world.end(ordinal)
    world.now_s += 120
    await world.settled(6)
    return world


@pytest.mark.parametrize("allowed", [{}, {"groupPrefixes": ["orders"]}])
async def test_the_claim_that_ids_are_exclusive_counts_where_the_connection_allows_it(allowed: dict[str, Any]) -> None:
    assert len((await with_decoys(LITERAL, names=["shop"], allowExclusive=True, **allowed)).left) == 2
    world = await with_decoys(LITERAL, names=["shop"], **allowed)
    assert world.left == []
    (message,) = {e.message for e in world.status.issues if e.reason == "UnscopedId"}
    assert "the owner of ClusterKafkaConnection shared" in message
    assert "allowExclusive" in message


async def test_the_scope_of_another_as_a_literal_is_the_same_claim() -> None:
    """A tenant that reads the scope of another cluster's StaticGroup in Kafka can write it into its own template."""
    world = await with_decoys(COPIED, "web-{ordinal}.0badc0de", names=["shop"])
    assert world.left == []
    (message,) = {e.message for e in world.status.issues if e.reason == "UnscopedId"}
    assert "the owner of ClusterKafkaConnection shared set allowExclusive" in message


async def test_an_entry_without_it_takes_nothing_from_one_that_allows_exclusive_for_another_group() -> None:
    held = connections(FakeKube())
    entries = [
        {"names": ["shop"], "groupPrefixes": ["shop-"], "allowExclusive": True},
        {"selector": {"matchLabels": {"kafka": "shared"}}, "groupPrefixes": ["orders"]},
    ]
    held.stores.put_connection(SHARED, shared(allowedNamespaces=entries))
    found = {}
    for labels in ({}, {"kafka": "shared"}):
        held.stores.namespaces.put({"metadata": {"name": "shop", "uid": "n1", "labels": labels}})
        for group_id in ("shop-a", "orders", "audit"):
            group = StaticGroup.from_wire(static_group(connectionRef=REF, groupId=group_id))
            found[group_id, bool(labels)] = may_use(held.stores, group), may_be_exclusive(held.stores, group)
    neither, used, both = (False, False), (True, False), (True, True)
    assert found == {
        ("shop-a", False): both, ("orders", False): neither, ("audit", False): neither,
        ("shop-a", True): both, ("orders", True): used, ("audit", True): neither,
    }  # fmt: skip


async def test_a_group_without_an_allowed_prefix_is_asked_nothing_and_says_which_it_may_have() -> None:
    world = await departing()
    world.stores.put_connection(SHARED, shared(2, allowedNamespaces=[{"names": ["shop"], "groupPrefixes": ["shop-", "order."]}]))
    world.kafka.settings_seen.clear()
    await world.settled(4)
    assert (world.kafka.leaves, world.kafka.settings_seen) == ([], [])
    world.tells("Connected", "False", "GroupNotAllowed", "no group orders, only those that begin with order., shop-")
    assert "shop-: create a StaticGroup of such a group, or have its owner add" in world.condition("Connected")[2]
    world.stores.put_connection(SHARED, shared(3, allowedNamespaces=[{"names": ["shop"], "groupPrefixes": ["shop-", "orders"]}]))
    await world.settled(3)
    assert [entry.instance_id for entry, _ in world.kafka.leaves] == [world.id_of(2)]
