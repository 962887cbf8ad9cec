"""The rights that the gateway needs on a real broker, each named when it is missing."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.broker_groups import TOPIC, started
from e2e.gateway_bench import (
    PASSWORDS,
    described_when,
    entry,
    login,
    member_starter,
    problem,
    settings_of,
    stable_with,
)
from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblemKind,
    LeaveOutcome,
    LeaveResult,
)
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.rights import GroupRights
from support.bounds import broker_bounds
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_member import Member

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]


@pytest.fixture(scope="module")
def secure() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-gwr", profile="fast", security=True, users=PASSWORDS))


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[KioGateway]:
    gateway = KioGateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def members() -> Iterator[Callable[..., Member]]:
    yield from member_starter()


NO_DESCRIBE = "DESCRIBE on Group 'shop-{}' for User:nobody"

NO_TOPICS = "DESCRIBE on the Topics that group 'shop-consumer' subscribes to for User:{}"


def grant(brokers: Brokers) -> None:
    """Give each user some rights on the groups that begin with `shop`; `nobody` gets none."""
    admin = BrokerAdmin(brokers.bootstrap)
    for user, grants in {
        "describer": [("DESCRIBE", "group", "shop")],
        "reader": [("READ", "group", "shop")],
        "full": [("READ", "group", "shop"), ("DESCRIBE", "topic", TOPIC)],
        "configs": [
            ("READ", "group", "shop"),
            ("DESCRIBE", "topic", TOPIC),
            ("DESCRIBE_CONFIGS", "group", "shop"),
            ("DESCRIBE_CONFIGS", "cluster", "kafka-cluster"),
        ],
    }.items():
        for operation, kind, name in grants:
            admin.allow(user, operation, kind, name, is_prefix=kind == "group")


async def seen(gateway: KioGateway, brokers: Brokers, user: str, group_id: str) -> str:
    """Return what a user sees of a group, or the right that is missing."""
    outcome = await gateway.describe(login(brokers, user), group_id)
    if isinstance(outcome, GroupView):
        return f"{outcome.group_type} with {len(outcome.members)}"
    assert outcome.kind is KafkaProblemKind.NOT_AUTHORIZED
    return outcome.missing_acl


async def test_each_missing_right_is_named(
    secure: Brokers, gateway: KioGateway, members: Callable[..., Member]
) -> None:
    """The rights table of KafkaApis, measured: never is a hidden group or member read as an empty one."""
    grant(secure)
    for protocol in ("classic", "consumer"):
        members(secure, f"shop-{protocol}", "x-0", protocol=protocol)
        await described_when(gateway, settings_of(secure), f"shop-{protocol}", stable_with(1))

    for group in ("classic", "consumer", "absent"):
        assert await seen(gateway, secure, "nobody", f"shop-{group}") == NO_DESCRIBE.format(group)
    for user in ("describer", "reader"):
        assert await seen(gateway, secure, user, "shop-classic") == "Classic with 1"
        assert await seen(gateway, secure, user, "shop-consumer") == NO_TOPICS.format(user)
        assert await seen(gateway, secure, user, "shop-absent") == "Absent with 0"
    assert await seen(gateway, secure, "full", "shop-consumer") == "Consumer with 1"

    async def leaving(user: str) -> object:
        return await gateway.leave(login(secure, user), "shop-classic", [entry("bogus", "x-0")])

    assert problem(await leaving("nobody")).missing_acl == NO_DESCRIBE.format("classic")
    assert problem(await leaving("describer")).missing_acl == "READ on Group 'shop-classic' for User:describer"
    fenced = await leaving("reader")
    assert isinstance(fenced, LeaveResult)
    assert fenced.outcomes == (LeaveOutcome.FENCED,)
    await bounds_are_unknown_without_their_rights(gateway, secure)
    await rights_are_described(gateway, secure)


async def bounds_are_unknown_without_their_rights(gateway: KioGateway, brokers: Brokers) -> None:
    bounds = await gateway.bounds(login(brokers, "reader"), "shop-consumer")
    assert bounds == broker_bounds()
    full_bounds = await gateway.bounds(login(brokers, "configs"), "shop-consumer")
    assert isinstance(full_bounds, BrokerBounds)
    assert full_bounds.of(GroupType.CLASSIC).min_ms == 500


async def rights_are_described(gateway: KioGateway, brokers: Brokers) -> None:
    assert await gateway.describe_rights(login(brokers, "nobody"), "shop-classic") == GroupRights(
        describe_group=False, missing=(NO_DESCRIBE.format("classic"),)
    )
    assert await gateway.describe_rights(login(brokers, "describer"), "shop-consumer") == GroupRights(
        describe_group=True, read_group=False, describe_topics=False, describe_configs_group=False,
        describe_configs_cluster=False,
        missing=(
            "READ on Group 'shop-consumer' for User:describer",
            "DESCRIBE_CONFIGS on Group 'shop-consumer' for User:describer",
            "DESCRIBE_CONFIGS on Cluster 'kafka-cluster' for User:describer", NO_TOPICS.format("describer"),
        ),
    )  # fmt: skip
    assert await gateway.describe_rights(login(brokers, "configs"), "shop-consumer") == GroupRights(
        describe_group=True, read_group=True, describe_topics=True, describe_configs_group=True,
        describe_configs_cluster=True,
    )  # fmt: skip
