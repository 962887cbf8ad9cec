"""What the brokers allow: versions, rights and session timeouts, and how that of a group is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind
from staticgroup.kafka.gateway import ClusterFacts
from staticgroup.kafka.rights import GroupRights
from staticgroup.kafka.wire import Api
from support.bounds import broker_bounds
from support.narrowing import of_type
from unit.kafka.answers import altered, respond
from unit.kafka.fake_broker import KAFKA_2_3, FakeBroker, Group

from .gateway_script import Kafka, entry, kind


async def test_bounds_are_read_and_the_group_setting_clamped(kafka: Kafka) -> None:
    """4.4 clamps a stored value that a later bound excludes; DescribeConfigs still shows 500000."""
    bounds = await kafka.bounds("orders")
    assert replace(bounds, limits={}) == broker_bounds(
        classic_min_ms=6000, classic_max_ms=1800000, consumer_min_ms=45000, consumer_max_ms=60000,
        consumer_session_ms=60000, consumer_heartbeat_ms=5000, streams_min_ms=45000, streams_max_ms=60000,
        streams_session_ms=45000,
    )


async def test_bounds_that_may_not_be_read_are_none(kafka: Kafka, broker: FakeBroker) -> None:
    def denied(request: Any, version: int) -> Any:
        codes = {4: 31, 32: 30}
        rows = tuple(broker.configs(r, version, codes[r.resource_type], {}) for r in request.resources)
        return respond(Api.DESCRIBE_CONFIGS, version, results=rows)

    broker.handlers[Api.DESCRIBE_CONFIGS] = denied
    assert await kafka.bounds("orders") == broker_bounds()


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


SETTING = "consumer.session.timeout.ms"


def sent(broker: FakeBroker) -> list[tuple[int, str, list[tuple[str, int, str | None]], bool]]:
    """Return what each request asked for: resource, (key, operation, value), and whether it was to be tried only."""
    return [
        (r.resource_type, r.resource_name, [(c.name, c.config_operation, c.value) for c in r.configs], request.validate_only)
        for api, request in broker.requests
        if api is Api.INCREMENTAL_ALTER_CONFIGS
        for r in request.resources
    ]


async def test_stored_settings_are_kept_apart_from_defaults_and_with_the_bounds_of_each(kafka: Kafka) -> None:
    """DescribeConfigs shows every key with the broker's default; source 8 is what is set on the group (lab)."""
    kafka.broker.stored = {SETTING: "500000", "consumer.heartbeat.interval.ms": "300", "consumer.unheard.of": "x"}
    bounds = await kafka.bounds("orders")
    assert bounds.stored == {SETTING: 500_000, "consumer.heartbeat.interval.ms": 300}
    assert bounds.limits[SETTING] == (45_000, 60_000)
    assert bounds.limits["consumer.heartbeat.interval.ms"] == (5_000, 15_000)
    assert bounds.misfits == {SETTING: 60_000, "consumer.heartbeat.interval.ms": 5_000}
    assert bounds.of(GroupType.CONSUMER).group_ms == 60_000
    assert bounds.of(GroupType.CONSUMER).heartbeat_ms == 5_000


async def test_nothing_stored_is_nothing_to_repair(kafka: Kafka) -> None:
    bounds = await kafka.bounds("orders")
    assert (bounds.stored, bounds.misfits) == ({}, {})


async def test_settings_are_set_in_one_request_on_the_group(kafka: Kafka, broker: FakeBroker) -> None:
    """A stored value outside new bounds refuses every change that does not repair it too (lab-kafka 2.4)."""
    values = {SETTING: 60_000, "consumer.heartbeat.interval.ms": 5_000}
    assert await kafka.gateway.set_group_config(kafka.settings, "orders", values) is None
    assert sent(broker) == [
        (32, "orders", [(SETTING, 0, "60000"), ("consumer.heartbeat.interval.ms", 0, "5000")], False)
    ]


async def test_missing_right_is_named(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.INCREMENTAL_ALTER_CONFIGS] = lambda request, version: altered(version, request, 30)
    problem = of_type(KafkaProblem, await kafka.gateway.set_group_config(kafka.settings, "orders", {SETTING: 60_000}))
    assert (problem.kind, problem.missing_acl) == (
        KafkaProblemKind.NOT_AUTHORIZED, "ALTER_CONFIGS on Group 'orders' for User:ANONYMOUS",
    )  # fmt: skip


async def test_refused_value_is_a_problem_that_says_so(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.INCREMENTAL_ALTER_CONFIGS] = lambda request, version: altered(version, request, 40)
    problem = of_type(KafkaProblem, await kafka.gateway.set_group_config(kafka.settings, "orders", {SETTING: 60_000}))
    assert problem.kind is KafkaProblemKind.UNEXPECTED_ANSWER
    assert "INVALID_CONFIG" in problem.message


async def test_broker_that_cannot_is_too_old(kafka: Kafka, broker: FakeBroker) -> None:
    del broker.versions[44]
    problem = of_type(KafkaProblem, await kafka.gateway.set_group_config(kafka.settings, "orders", {SETTING: 60_000}))
    assert problem.kind is KafkaProblemKind.BROKER_TOO_OLD


async def test_right_to_alter_is_tried_without_altering_and_only_when_it_is_needed(kafka: Kafka) -> None:
    def denied(request: Any, version: int) -> Any:
        return altered(version, request, 30)

    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders"))
    assert (rights.alter_configs_group, sent(kafka.broker)) == (None, [])
    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders", alters=True))
    assert (rights.alter_configs_group, rights.missing) == (True, ())
    kafka.broker.handlers[Api.INCREMENTAL_ALTER_CONFIGS] = denied
    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders", alters=True))
    assert (rights.alter_configs_group, rights.missing) == (False, ("ALTER_CONFIGS on Group 'orders' for User:ANONYMOUS",))
    assert all(is_only_tried for *_, is_only_tried in sent(kafka.broker))
