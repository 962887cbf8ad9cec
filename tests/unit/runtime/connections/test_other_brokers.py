"""A KafkaConnection is edited to the brokers of another cluster; what it reported of the one before says nothing of these."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.reasons import Reason
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.runtime.connections.reporter import ConnectionReporter
from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores
from unit.core.builders import pod_version

from ..operator_world import UNREACHABLE, OperatorWorld, kafka_connection
from ..stories import LIVING
from ..test_premises import a_departure_of_unscoped_ids, rival
from ..test_same_ids import EARLIER, LATER, group

PROD, STAGING = "prodprodprodprodprodpr", "stagingstagingstagings"
ELSEWHERE = KafkaProblem(kind=KafkaProblemKind.WRONG_CLUSTER, message="the brokers report another cluster id")
KEY = ("shop", "kafka")
Json = dict[str, Any]


def connection(namespace: str, cluster_id: str | None, generation: int = 1, observed_generation: int = 1, **spec: Any) -> Json:
    body = kafka_connection(bootstrapServers=[f"kafka-{generation}.example.com:9092"], **spec)
    body["metadata"] |= {"namespace": namespace, "generation": generation}
    body["status"] = {"observedGeneration": observed_generation, "clusterId": cluster_id, "brokers": 3 if cluster_id else None}
    return body


def refused(body: Json) -> Json:
    """Let the brokers of a connection be of another cluster than it asks for."""
    said = {"reason": Reason.CLUSTER_ID_MISMATCH.value, "status": "False", "message": "", "lastTransitionTime": EARLIER}
    body["status"]["conditions"] = [said | {"type": "Connected", "observedGeneration": 2}]
    return body


@pytest.mark.parametrize(
    ("edited", "may_be_the_same"),
    [
        (connection("bill", STAGING, 1, 1), False),
        (connection("bill", STAGING, 2, 1), True),
        (connection("bill", None, 2, 2), True),
        (connection("bill", STAGING, 2, 1, clusterId=STAGING), False),
        (refused(connection("bill", STAGING, 2, 2, clusterId=STAGING)), True),
        (connection("bill", STAGING, 2, 2), False),
    ],
    ids=[
        "not edited", "edited just now", "the operator cannot reach the new brokers",
        "the spec asks for the cluster that was there before", "but the new brokers are of another one",
        "the new brokers are of the cluster that was there before",
    ],
)  # fmt: skip
def test_next_pods_get_no_id_of_another_staticgroup_of_what_may_be_the_same_cluster(edited: Json, may_be_the_same: bool) -> None:
    """`staging` is pointed at the brokers of `prod`; its next pods would fence those of `prod`."""
    stores = Stores()
    prod, staging = group("a", EARLIER), group("b", LATER)
    staging["metadata"]["namespace"] = "bill"
    stores.put_group(("shop", "a"), prod)
    stores.put_group(("bill", "b"), staging)
    stores.put_connection(KEY, connection("shop", PROD))
    stores.put_connection(("bill", "kafka"), edited)
    assert [c.split()[1] for c in rivals_of(stores, None, ("bill", "b")).prior_claims] == (["shop/a"] if may_be_the_same else [])
    assert rivals_of(stores, None, ("shop", "a")).overlaps == ()  # it holds removals of `prod` only once the new brokers have said which cluster they are


def reported(world: OperatorWorld, body: Json) -> ConnectionReporter:
    world.stores.put_connection(KEY, body)
    world.kube.put_object("kafkaconnections", body)
    return world.reporter()


async def cluster_id(world: OperatorWorld, reporter: ConnectionReporter) -> str | None:
    """Write the status, and return which cluster it shows."""
    await reporter.reconcile(KEY)
    world.stores.put_connection(KEY, world.kube.objects["kafkaconnections", *KEY])
    return world.stores.kafka_cluster_id(KEY)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (connection("shop", STAGING, 2, 1), (None, None)),
        (connection("shop", STAGING, 2, 2), (STAGING, 3)),
        (connection("shop", STAGING, 2, 1, clusterId=STAGING), (STAGING, 3)),
        (connection("shop", STAGING, 2, 1, clusterId=PROD), (None, None)),
    ],
    ids=["edited", "not edited", "edited, and the spec asks for that cluster", "edited, and the spec asks for another one"],
)
async def test_reporter_keeps_no_cluster_id_of_other_brokers(body: Json, shown: tuple[str | None, int | None]) -> None:
    world = OperatorWorld()
    reporter = reported(world, body)
    world.kafka.problems["probe"] = UNREACHABLE
    await reporter.reconcile(KEY)
    status = world.kube.objects["kafkaconnections", *KEY]["status"]
    assert status["observedGeneration"] == 2
    assert (status.get("clusterId"), status.get("brokers")) == shown


async def test_cluster_is_known_again_once_the_brokers_of_an_edited_spec_answer() -> None:
    """Also an edit that changes no brokers, such as another Secret's name, raises the generation."""
    world = OperatorWorld()
    reporter = reported(world, connection("shop", STAGING, 2, 1))
    world.kafka.cluster_id = STAGING
    assert world.stores.kafka_cluster_id(KEY) is None
    assert await cluster_id(world, reporter) == STAGING
    world.kafka.problems["probe"] = UNREACHABLE
    assert await cluster_id(world, reporter) == STAGING


async def test_brokers_of_another_cluster_than_the_spec_asks_for_are_of_nobody_knows_which() -> None:
    """The addresses were edited and spec.clusterId was forgotten; the pods may have followed."""
    world = OperatorWorld()
    reporter = reported(world, connection("shop", STAGING, 2, 1, clusterId=STAGING))
    world.kafka.problems["probe"] = ELSEWHERE
    assert await cluster_id(world, reporter) is None


async def test_member_of_a_workload_whose_connection_was_pointed_at_this_cluster() -> None:
    """pay-2 of bill has joined the group with app-2, which its StaticGroup issues; shop scales down its own app-2."""
    world = await a_departure_of_unscoped_ids()
    world.stores.put_connection(KEY, connection("shop", PROD))
    world.stores.put_connection(("bill", "kafka"), connection("bill", STAGING, 2, 1))
    world.stores.put_group(("bill", "rival"), rival())
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2"})))
    world.kafka.join("app-2", LIVING)
    await world.settled(4)
    assert LIVING not in dict(world.left)
