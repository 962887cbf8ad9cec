"""A KafkaConnection is edited to the brokers of another cluster; what it reported of the one before says nothing of these."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.runtime.connections.reporter import ConnectionReporter
from staticgroup.runtime.stores import Stores
from unit.core.builders import pod_version

from .operator_world import UNREACHABLE, OperatorWorld, kafka_connection
from .stories import LIVING
from .test_premises import a_departure_of_unscoped_ids, rival
from .test_same_ids import EARLIER, LATER, group

PROD, STAGING = "prodprodprodprodprodpr", "stagingstagingstagings"


def connection(namespace: str, cluster_id: str, generation: int = 1, observed_generation: int = 1) -> dict[str, Any]:
    body = kafka_connection(bootstrapServers=[f"kafka-{generation}.example.com:9092"])
    body["metadata"] |= {"namespace": namespace, "generation": generation}
    body["status"] = {"observedGeneration": observed_generation, "clusterId": cluster_id, "brokers": 3}
    return body


@pytest.mark.parametrize("edited", ["spec", "spec, and the operator cannot reach the new brokers", None])
def test_next_pods_get_no_id_of_another_staticgroup_of_what_may_be_the_same_cluster(edited: str | None) -> None:
    """`staging` is pointed at the brokers of `prod`; its next pods would fence those of `prod`."""
    stores = Stores()
    prod, staging = group("a", EARLIER), group("b", LATER)
    staging["metadata"]["namespace"] = "bill"
    stores.put_group(("shop", "a"), prod)
    stores.put_group(("bill", "b"), staging)
    stores.put_connection(("shop", "kafka"), connection("shop", PROD))
    # The reporter keeps the cluster id of before where it cannot reach the brokers, and names the generation as observed.
    observed = {None: (1, 1), "spec": (2, 1)}.get(edited, (2, 2))
    stores.put_connection(("bill", "kafka"), connection("bill", STAGING, *observed))
    assert stores.prior_claims(("bill", "b")) == (("shop/a",) if edited else ())
    assert stores.overlaps(("shop", "a")) == (("bill/b",) if edited else ())


async def test_reporter_keeps_no_cluster_id_of_other_brokers() -> None:
    world = OperatorWorld()
    world.stores.put_connection(("shop", "kafka"), connection("shop", STAGING, 2, 1))
    world.kube.put_object("kafkaconnections", connection("shop", STAGING, 2, 1))
    world.kafka.problems["probe"] = UNREACHABLE
    reporter = ConnectionReporter(
        kube=world.kube, kafka=world.kafka, stores=world.stores, connections=world.connections, may_write=lambda: True,
        now_s=lambda: world.now_s,
    )
    await reporter.reconcile(("shop", "kafka"))
    status = world.kube.objects["kafkaconnections", "shop", "kafka"]["status"]
    assert status["observedGeneration"] == 2
    assert status.get("clusterId") != STAGING


async def test_member_of_a_workload_whose_connection_was_pointed_at_this_cluster() -> None:
    """pay-2 of bill has joined the group with app-2, which its StaticGroup issues; shop scales down its own app-2."""
    world = await a_departure_of_unscoped_ids()
    world.stores.put_connection(("shop", "kafka"), connection("shop", PROD))
    world.stores.put_connection(("bill", "kafka"), connection("bill", STAGING, 2, 1))
    world.stores.put_group(("bill", "rival"), rival())
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2"})))
    world.kafka.join("app-2", LIVING)
    await world.settled(4)
    assert LIVING not in dict(world.left)
