"""A topic that a new version of an application subscribes is left unread by static members, until one rebalance.

Restates: KAFKA-12759 (static members that come back with another subscription cause no rebalance).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.broker_groups import TOPIC, started
from e2e.gateway_bench import PASSWORDS, by_instance, described_when, login, problem, settings_of, stable_with
from staticgroup.core.group import GroupView, KafkaProblemKind, LeaveEntry, RebalanceOutcome
from staticgroup.kafka.gateway import KioGateway
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.kafka_member import Member
from support.streams.process import StreamsInstance

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]
ADDED = "payments"
ASSIGNORS = ["range", "cooperative-sticky"]
STREAMS = "stream"
"""What Kafka Streams calls its assignor in a JoinGroup."""


VERSIONS = ["4.4", *(pytest.param(version, marks=pytest.mark.long) for version in ("4.1", "4.0", "3.9"))]
"""3.9 has the group coordinator of the versions before it."""


def brokers_of(version: str, **overrides: str) -> Iterator[Brokers]:
    name = f"pytest-{HERE}-top{version.replace('.', '')}{len(overrides) or ''}"
    settings = BrokerSettings(
        name=name, version=version, profile="fast", security=True, users=PASSWORDS,
        overrides={key.replace("_", "."): value for key, value in overrides.items()},
    )  # fmt: skip
    for each in started(settings):
        BrokerAdmin(each.bootstrap).create_topic(ADDED, partitions=6)
        yield each


@pytest.fixture(scope="module", params=VERSIONS)
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    yield from brokers_of(request.param)


@pytest.fixture(scope="module")
def narrow_brokers() -> Iterator[Brokers]:
    """A group of three is full."""
    yield from brokers_of("4.4", group_max_size="3")


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[KioGateway]:
    gateway = KioGateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Member | StreamsInstance]]:
    running: list[Member | StreamsInstance] = []

    def start(
        brokers: Brokers, group_id: str, number: int, topics: str, assignor: str, session_ms: int = 60_000
    ) -> Member | StreamsInstance:
        if assignor == STREAMS:
            running.append(StreamsInstance(brokers.bootstrap, group_id, f"web-{number}", topics, session_ms))
            return running[-1]
        settings: dict[str, str | int] = {
            "bootstrap.servers": brokers.bootstrap, "group.id": group_id, "group.instance.id": f"web-{number}",
            "session.timeout.ms": session_ms, "heartbeat.interval.ms": 300, "partition.assignment.strategy": assignor,
        }  # fmt: skip
        running.append(Member(settings, topics))
        return running[-1]

    yield start
    for member in running:
        if member.is_running:
            member.kill()


async def rolled(
    gateway: KioGateway, brokers: Brokers, start: Callable[..., Member | StreamsInstance], group_id: str, assignor: str,
    session_ms: int = 60_000,
) -> tuple[GroupView, list[Member | StreamsInstance]]:  # fmt: skip
    """Start three members, and replace each by one that subscribes another topic too."""
    settings = settings_of(brokers)
    members = [start(brokers, group_id, number, TOPIC, assignor, session_ms) for number in range(3)]
    await described_when(gateway, settings, group_id, stable_with(3))
    for number, member in enumerate(tuple(members)):
        name = f"web-{number}"
        known = ids_of(await described_when(gateway, settings, group_id, stable_with(3)))[name]
        member.kill()
        members[number] = start(brokers, group_id, number, f"{TOPIC},{ADDED}", assignor, session_ms)

        def is_back(view: GroupView, name: str = name, before: str = known) -> bool:
            return stable_with(3)(view) and ids_of(view)[name] != before

        await described_when(gateway, settings, group_id, is_back)
    return await described_when(gateway, settings, group_id, lambda view: view.topics is not None), members


def is_read(view: GroupView) -> bool:
    return stable_with(3)(view) and view.topics == ((TOPIC, 6), (ADDED, 6))


def ids_of(view: GroupView) -> dict[str, str]:
    """Return member ids by pod name: Kafka Streams appends `-1`, the number of its thread."""
    return {f"web-{instance_id.split('-')[1]}": member.member_id for instance_id, member in by_instance(view).items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.asyncio
async def test_one_rebalance_gives_an_added_topic_its_readers(
    brokers: Brokers, gateway: KioGateway, start: Callable[..., Member | StreamsInstance], assignor: str
) -> None:
    group_id, settings = f"added-{assignor}", settings_of(brokers)
    before, _ = await rolled(gateway, brokers, start, group_id, assignor)
    await asyncio.sleep(5)  # nothing happens by itself: the whole trouble
    assert (await described_when(gateway, settings, group_id, stable_with(3))).topics == ((TOPIC, 6), (ADDED, 0))
    assert before.assignor == assignor
    counts = await gateway.partition_counts(settings, (TOPIC, ADDED, "no-such-topic"))
    assert counts == {TOPIC: 6, ADDED: 6}
    log, since_ms = brokers.group_log, now_ms()

    assert await gateway.rebalance(settings, group_id, before.assignor) is RebalanceOutcome.BEGUN

    after = await described_when(gateway, settings, group_id, is_read)
    assert ids_of(after) == ids_of(before), "nobody was fenced or replaced"
    assert log.count_rebalances(group_id, since_ms) == 1
    kinds = {event.kind for event in log.events(group_id, since_ms=since_ms)}
    assert kinds <= {GroupEventKind.REBALANCE_PREPARED, GroupEventKind.STABILIZED, GroupEventKind.MEMBER_JOINED,
                     GroupEventKind.REMOVED}


@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.asyncio
async def test_only_members_that_were_away_for_a_session_read_an_added_topic(
    brokers: Brokers, gateway: KioGateway, start: Callable[..., Member | StreamsInstance], assignor: str
) -> None:
    """What the status advises where the operator may not rebalance: to restart all of them at once is not enough."""
    group_id, settings = f"away-{assignor}", settings_of(brokers)
    members = [start(brokers, group_id, number, TOPIC, assignor, session_ms=6_000) for number in range(3)]
    await described_when(gateway, settings, group_id, stable_with(3))

    def restart() -> None:
        for member in members:
            member.kill()
        members[:] = [
            start(brokers, group_id, number, f"{TOPIC},{ADDED}", assignor, session_ms=6_000) for number in range(3)
        ]

    restart()
    await asyncio.sleep(15)
    assert (await described_when(gateway, settings, group_id, stable_with(3))).topics == ((TOPIC, 6), (ADDED, 0))
    for member in members:
        member.kill()
    await described_when(gateway, settings, group_id, lambda view: not view.members)
    restart()
    await described_when(gateway, settings, group_id, is_read)


@pytest.mark.long
@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "expired"])
@pytest.mark.parametrize("assignor", [*ASSIGNORS, STREAMS])
@pytest.mark.asyncio
async def test_one_member_that_leaves_is_enough_for_an_added_topic(
    brokers: Brokers, gateway: KioGateway, start: Callable[..., Member | StreamsInstance], assignor: str, is_removed: bool
) -> None:
    """What the status advises where the operator may not rebalance: to scale down by one, and back."""
    group_id, settings = f"one-{assignor}-{is_removed}", settings_of(brokers)
    before, members = await rolled(gateway, brokers, start, group_id, assignor, session_ms=30_000)
    assert before.topics == ((TOPIC, 6), (ADDED, 0))

    members[2].kill()
    if is_removed:
        (left,) = (m for m in before.members if m.member_id == ids_of(before)["web-2"])
        entry = LeaveEntry(member_id=left.member_id, instance_id=left.instance_id or "", reason="departed")
        await gateway.leave(settings, group_id, [entry])

    def is_read_by_two(view: GroupView) -> bool:
        return stable_with(2)(view) and view.topics == ((TOPIC, 6), (ADDED, 6))

    await described_when(gateway, settings, group_id, is_read_by_two)
    start(brokers, group_id, 2, f"{TOPIC},{ADDED}", assignor)
    await described_when(gateway, settings, group_id, is_read)


@pytest.mark.asyncio
async def test_right_that_is_missing_is_named_and_nobody_joins(brokers: Brokers, gateway: KioGateway) -> None:
    found = problem(await gateway.rebalance(login(brokers, "nobody"), "added-denied", "range"))
    assert found.kind is KafkaProblemKind.NOT_AUTHORIZED
    assert await gateway.partition_counts(login(brokers, "nobody"), (TOPIC,)) == {}


@pytest.mark.long
@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.asyncio
async def test_two_replicas_at_once_lose_nobody(
    brokers: Brokers, gateway: KioGateway, start: Callable[..., Member | StreamsInstance], assignor: str
) -> None:
    """Two that take themselves for the active one: each member leaves by its own id, whoever joined first."""
    group_id, settings = f"twice-{assignor}", settings_of(brokers)
    before, _ = await rolled(gateway, brokers, start, group_id, assignor)
    since_ms = now_ms()
    outcomes = await asyncio.gather(*(gateway.rebalance(settings, group_id, assignor) for _ in range(2)))
    assert RebalanceOutcome.BEGUN in outcomes
    after = await described_when(gateway, settings, group_id, is_read)
    assert ids_of(after) == ids_of(before)
    assert brokers.group_log.count_rebalances(group_id, since_ms) <= 2


@pytest.mark.asyncio
async def test_full_group_is_left_alone(
    narrow_brokers: Brokers, gateway: KioGateway, start: Callable[..., Member | StreamsInstance]
) -> None:
    settings = settings_of(narrow_brokers)
    members = [start(narrow_brokers, "full", number, TOPIC, "range") for number in range(3)]
    before = await described_when(gateway, settings, "full", stable_with(3))
    since_ms = now_ms()
    found = problem(await gateway.rebalance(settings, "full", "range"))
    assert "group.max.size" in found.message
    assert ids_of(await described_when(gateway, settings, "full", stable_with(3))) == ids_of(before)
    assert narrow_brokers.group_log.count_rebalances("full", since_ms) == 0

    # To the coordinator a static member that was restarted is one more as well (docs/guide/limits.md).
    members[0].kill()
    again = start(narrow_brokers, "full", 0, TOPIC, "range")
    again.wait_for(lambda event: event.kind == "error" and "MAX_SIZE" in event.error)
