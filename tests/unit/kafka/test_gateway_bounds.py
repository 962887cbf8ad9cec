"""What the brokers allow: session timeouts, versions and rights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.group import KafkaProblemKind
from staticgroup.kafka.gateway import ClusterFacts
from staticgroup.kafka.rights import GroupRights
from staticgroup.kafka.wire import Api
from support.bounds import broker_bounds
from support.narrowing import of_type
from unit.kafka.fake_broker import KAFKA_2_3, FakeBroker, Group, respond

from .gateway_script import Kafka, entry, kind


async def test_bounds_are_read_and_the_group_setting_clamped(kafka: Kafka) -> None:
    """4.4 clamps a stored value that a later bound excludes; DescribeConfigs still shows 500000."""
    bounds = await kafka.bounds("orders")
    assert replace(bounds, limits={}) == broker_bounds(
        classic_min_ms=6000, classic_max_ms=1800000, consumer_min_ms=45000, consumer_max_ms=60000,
        consumer_session_ms=60000, consumer_heartbeat_ms=5000, streams_min_ms=45000, streams_max_ms=60000,
        streams_session_ms=45000,
    )


async def test_bounds_that_may_not_be_read_are_none_with_the_missing_rights(kafka: Kafka, broker: FakeBroker) -> None:
    def denied(request: Any, version: int) -> Any:
        codes = {4: 31, 32: 30}
        rows = tuple(broker.configs(r, version, codes[r.resource_type], {}) for r in request.resources)
        return respond(Api.DESCRIBE_CONFIGS, version, results=rows)

    broker.handlers[Api.DESCRIBE_CONFIGS] = denied
    bounds = await kafka.bounds("orders")
    assert [p.missing_acl for p in bounds.problems] == [
        "DESCRIBE_CONFIGS on Cluster 'kafka-cluster' for User:ANONYMOUS",
        "DESCRIBE_CONFIGS on Group 'orders' for User:ANONYMOUS",
    ]
    assert replace(bounds, problems=()) == broker_bounds()


async def test_broker_without_compare_and_set_removal_is_too_old(kafka: Kafka, broker: FakeBroker) -> None:
    broker.versions = dict(KAFKA_2_3)
    assert kind(await kafka.gateway.probe(kafka.settings)) is KafkaProblemKind.BROKER_TOO_OLD
    assert kind(await kafka.gateway.leave(kafka.settings, "orders", [entry("m", "i")])) is KafkaProblemKind.BROKER_TOO_OLD
    assert broker.count(Api.LEAVE_GROUP) == 0
    broker.versions[13] = (0, 3)
    broker.versions[11] = (0, 4)
    broker.drop_connections()
    assert kind(await kafka.gateway.leave(kafka.settings, "orders", [entry("m", "i")])) is KafkaProblemKind.BROKER_TOO_OLD
    assert broker.count(Api.LEAVE_GROUP) == 0


async def test_probe_tells_cluster_and_versions(kafka: Kafka, broker: FakeBroker) -> None:
    facts = of_type(ClusterFacts, await kafka.gateway.probe(kafka.settings))
    assert facts.cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    assert {key: facts.api_versions[key] for key in (13, 15, 16, 32, 69)} == {
        key: broker.versions[key] for key in (13, 15, 16, 32, 69)
    }


async def test_rights_are_found_without_changing_anything(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.HEARTBEAT] = lambda _request, version: respond(Api.HEARTBEAT, version, error_code=30)
    assert await kafka.gateway.describe_rights(kafka.settings, "orders") == GroupRights(
        describe_group=True, read_group=False, describe_configs_group=True, describe_configs_cluster=True,
        missing=("READ on Group 'orders' for User:ANONYMOUS",),
    )
    assert {api for api, _ in broker.requests} <= set(Api) - {Api.LEAVE_GROUP}
    beats = [request for api, request in broker.requests if api is Api.HEARTBEAT]
    assert [(b.group_instance_id, b.generation_id) for b in beats] == [(None, 0)]
