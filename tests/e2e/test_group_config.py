"""The session timeout of a group at a real broker: set, read back, refused, and repaired under narrower bounds.

Kafka's own admin client is the witness of what is stored. Restates what was seen on 4.4.0: bounds are checked when a
setting is altered, a stored value that later bounds exclude is clamped, and it refuses every alteration that does not
repair it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.broker_groups import started
from e2e.gateway_bench import login
from staticgroup.core.group import BrokerBounds, GroupType, KafkaProblem, KafkaProblemKind
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.rights import GroupRights
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.scene import figures

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]
USER, PASSWORD, GROUP = "setter", "setter-canary-7391", "shop-orders"
SETTING, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
NARROW = {"group.consumer.max.session.timeout.ms": "50000", "group.consumer.max.heartbeat.interval.ms": "10000"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    users = {"admin": "admin-canary-7391", USER: PASSWORD}
    yield from started(BrokerSettings(name=f"pytest-{HERE}-gc", security=True, users=users))


async def read(gateway: KioGateway, settings: ConnectionSettings) -> BrokerBounds:
    bounds = await gateway.bounds(settings, GROUP)
    assert isinstance(bounds, BrokerBounds)
    return bounds


async def stored(gateway: KioGateway, settings: ConnectionSettings, values: Mapping[str, int]) -> float:
    """Read until the broker shows values as set on the group; returns how long that took."""
    began_s, seen = time.monotonic(), BrokerBounds()
    try:
        async with asyncio.timeout(20):
            while seen.stored != values:
                seen = await read(gateway, settings)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"last seen: {seen.stored}") from None
    return time.monotonic() - began_s


def refused(outcome: KafkaProblem | None) -> KafkaProblem:
    assert isinstance(outcome, KafkaProblem)
    return outcome


async def test_group_is_set_within_bounds_read_back_and_repaired_when_they_become_narrower(brokers: Brokers) -> None:
    gateway, settings, admin = KioGateway(), login(brokers, USER, PASSWORD), BrokerAdmin(brokers.bootstrap)
    for operation, kind, name in (
        ("READ", "group", GROUP), ("DESCRIBE_CONFIGS", "group", GROUP), ("DESCRIBE_CONFIGS", "cluster",
        "kafka-cluster"),
    ):  # fmt: skip
        admin.allow(USER, operation, kind, name)
    try:
        await a_missing_right_is_named_and_nothing_is_changed(gateway, settings, admin)
        admin.allow(USER, "ALTER_CONFIGS", "group", GROUP)
        took_s = await what_is_set_is_read_back(gateway, settings, admin)
        admin.alter_group(GROUP, {BEAT: "15000"})
        await stored(gateway, settings, {SETTING: 60_000, BEAT: 15_000})
        narrow = replace(
            brokers, state=replace(brokers.state, settings=replace(brokers.state.settings, overrides=NARROW))
        )
        narrow.restart(narrow.nodes[0])
        await what_new_bounds_exclude_is_repaired_in_one_request(gateway, settings, admin)
    finally:
        await gateway.close()
    figures.record("session timeout of a group set", shown_after_s=round(took_s, 3))


async def a_missing_right_is_named_and_nothing_is_changed(
    gateway: KioGateway, settings: ConnectionSettings, admin: BrokerAdmin
) -> None:
    before = await read(gateway, settings)
    assert (before.stored, before.misfits) == ({}, {})
    assert before.limits[SETTING] == (45_000, 60_000)
    assert before.of(GroupType.CONSUMER).heartbeat_ms == 5_000
    missing = f"ALTER_CONFIGS on Group '{GROUP}' for User:{USER}"
    problem = refused(await gateway.set_group_config(settings, GROUP, {SETTING: 60_000}))
    assert (problem.kind, problem.missing_acl) == (KafkaProblemKind.NOT_AUTHORIZED, missing)
    rights = await gateway.describe_rights(settings, GROUP, alters=True)
    assert isinstance(rights, GroupRights)
    assert (rights.alter_configs_group, rights.missing) == (False, (missing,))
    assert admin.group_settings(GROUP)[SETTING] == "45000"


async def what_is_set_is_read_back(gateway: KioGateway, settings: ConnectionSettings, admin: BrokerAdmin) -> float:
    await permitted(gateway, settings)
    problem = refused(await gateway.set_group_config(settings, GROUP, {SETTING: 60_001}))
    assert "INVALID_CONFIG" in problem.message
    assert await gateway.set_group_config(settings, GROUP, {SETTING: 60_000}) is None
    took_s = await stored(gateway, settings, {SETTING: 60_000})
    assert (await read(gateway, settings)).of(GroupType.CONSUMER).group_ms == 60_000
    assert admin.group_settings(GROUP)[SETTING] == "60000"
    rights = await gateway.describe_rights(settings, GROUP, alters=True)
    assert isinstance(rights, GroupRights)
    assert (rights.alter_configs_group, rights.missing) == (True, ())
    assert admin.group_settings(GROUP)[SETTING] == "60000", "a right is found by a change that is only tried"
    return took_s


async def permitted(gateway: KioGateway, settings: ConnectionSettings) -> None:
    """Wait until the broker knows the new ACL."""
    async with asyncio.timeout(20):
        while True:
            rights = await gateway.describe_rights(settings, GROUP, alters=True)
            if isinstance(rights, GroupRights) and rights.alter_configs_group:
                return
            await asyncio.sleep(0.05)


async def what_new_bounds_exclude_is_repaired_in_one_request(
    gateway: KioGateway, settings: ConnectionSettings, admin: BrokerAdmin
) -> None:
    found = await read(gateway, settings)
    assert found.stored == {SETTING: 60_000, BEAT: 15_000}
    assert found.misfits == {SETTING: 50_000, BEAT: 10_000}
    assert found.of(GroupType.CONSUMER).group_ms == 50_000
    for alone in ({SETTING: 50_000}, {BEAT: 10_000}):
        assert "INVALID_CONFIG" in refused(await gateway.set_group_config(settings, GROUP, alone)).message
    assert await gateway.set_group_config(settings, GROUP, dict(found.misfits)) is None
    await stored(gateway, settings, {SETTING: 50_000, BEAT: 10_000})
    assert {key: admin.group_settings(GROUP)[key] for key in (SETTING, BEAT)} == {SETTING: "50000", BEAT: "10000"}
    assert await gateway.set_group_config(settings, GROUP, {SETTING: 46_000}) is None
