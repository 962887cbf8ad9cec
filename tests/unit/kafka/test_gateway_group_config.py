"""The session timeout of a group at the brokers: what is stored, what the bounds exclude, and how it is set."""

from __future__ import annotations

from typing import Any

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind
from staticgroup.kafka.rights import GroupRights
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker, altered

from .gateway_script import Kafka

SETTING = "consumer.session.timeout.ms"


def sent(broker: FakeBroker) -> list[tuple[int, str, list[tuple[str, int, str | None]], bool]]:
    """Return what each request asked for: resource, (key, operation, value), and whether it was to be tried only."""
    return [
        (r.resource_type, r.resource_name, [(c.name, c.config_operation, c.value) for c in r.configs], request.validate_only)
        for api, request in broker.requests
        if api is Api.INCREMENTAL_ALTER_CONFIGS
        for r in request.resources
    ]


async def test_stored_settings_are_kept_apart_from_defaults_and_with_the_bounds_of_each(
    kafka: Kafka, broker: FakeBroker
) -> None:
    """DescribeConfigs shows every key with the broker's default; source 8 is what is set on the group (lab)."""
    broker.stored = {SETTING: "500000", "consumer.heartbeat.interval.ms": "300", "consumer.unheard.of": "x"}
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


async def test_right_to_alter_is_tried_without_altering_and_only_when_it_is_needed(
    kafka: Kafka, broker: FakeBroker
) -> None:
    def denied(request: Any, version: int) -> Any:
        return altered(version, request, 30)

    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders"))
    assert (rights.alter_configs_group, sent(broker)) == (None, [])
    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders", alters=True))
    assert (rights.alter_configs_group, rights.missing) == (True, ())
    broker.handlers[Api.INCREMENTAL_ALTER_CONFIGS] = denied
    rights = of_type(GroupRights, await kafka.gateway.describe_rights(kafka.settings, "orders", alters=True))
    assert (rights.alter_configs_group, rights.missing) == (False, ("ALTER_CONFIGS on Group 'orders' for User:ANONYMOUS",))
    assert all(is_only_tried for *_, is_only_tried in sent(broker))
