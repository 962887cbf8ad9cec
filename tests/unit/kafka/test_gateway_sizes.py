"""Groups whose descriptions are too large to be read together, or at all."""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.core.group import GroupType, GroupView, KafkaProblemKind
from staticgroup.kafka import connection
from staticgroup.kafka.batch_sizes import BatchSizes
from staticgroup.kafka.pool import GROUPS_PER_REQUEST
from staticgroup.kafka.wire import Api
from support.sockets import socket_count
from unit.kafka.fake_broker import KAFKA_3_7, FakeBroker, Group

from .gateway_script import Kafka, describing, kind, problem


def sized(members: int) -> Group:
    """A group whose description takes about 120 bytes for each member."""
    return Group(members=[(f"m-{n}-{'x' * 80}", f"orders-{n}") for n in range(members)])


def asked(broker: FakeBroker) -> list[tuple[str, ...]]:
    """The groups of each DescribeGroups."""
    return [tuple(request.groups) for api, request in broker.requests if api is Api.DESCRIBE_GROUPS]


async def test_group_whose_description_is_too_large_is_named_and_keeps_no_other_from_being_read(
    kafka: Kafka, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    kafka.groups |= {f"g-{n}": sized(3) for n in range(9)} | {"huge": sized(200)}
    for _ in range(2):
        huge, *others = await asyncio.gather(*(kafka.describe(g) for g in ("huge", *kafka.groups)))
        assert kind(huge) is KafkaProblemKind.ANSWER_TOO_LARGE
        assert "the description of group 'huge' takes more than" in problem(huge).message
        read = [outcome.group_id for outcome in others if isinstance(outcome, GroupView)]
        assert read == [f"g-{n}" for n in range(9)]
    assert broker.connections == 1


async def test_group_that_was_too_large_is_asked_for_alone_from_then_on(
    kafka: Kafka, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    kafka.groups |= {f"g-{n}": sized(3) for n in range(9)} | {"huge": sized(200)}
    for _ in range(3):
        broker.requests.clear()
        await asyncio.gather(*(kafka.describe(g) for g in kafka.groups))
    assert sum("huge" in groups for groups in asked(broker)) == 1
    assert ("huge",) in asked(broker)


async def test_groups_that_are_too_large_only_together_are_read_in_parts_that_fit(
    kafka: Kafka, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    kafka.groups |= {f"g-{n}": sized(20) for n in range(16)}
    for attempt in range(2):
        broker.requests.clear()
        outcomes = await asyncio.gather(*(kafka.describe(g) for g in kafka.groups))
        assert all(isinstance(outcome, GroupView) for outcome in outcomes)
        if attempt:  # the first one has shown how many fit
            assert sorted(g for groups in asked(broker) for g in groups) == sorted(kafka.groups)
            assert {len(groups) for groups in asked(broker)} == {4}
    assert broker.connections == 1


def test_batches_of_groups_that_fit_again_grow_slowly_to_the_usual_size() -> None:
    sizes, groups = BatchSizes(), [f"g-{n}" for n in range(GROUPS_PER_REQUEST)]
    sizes.was_too_large(groups)
    assert [len(batch) for batch in sizes.batches(groups)] == [50, 50]
    readings = 0
    while len(list(sizes.batches(groups))) > 1:
        for batch in sizes.batches(groups):
            sizes.did_fit(batch)
        readings += 1
    assert 30 <= readings <= 40


async def test_size_that_no_answer_can_have_ends_the_connection_and_is_not_waited_for(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 1_000)
    monkeypatch.setattr(connection, "DISCARD_MAX_BYTES", 2_000)
    kafka.groups["huge"] = sized(200)
    assert kind(await kafka.describe("huge")) is KafkaProblemKind.UNEXPECTED_ANSWER
    assert socket_count(kafka.gateway) == 0


TOO_LARGE = bytes(connection.FRAME_MAX_BYTES + 1)


@pytest.mark.parametrize("group_type", ["classic", "consumer", "streams"])
async def test_group_of_a_broker_that_has_too_many_to_list_is_found_by_its_describe(
    kafka: Kafka, broker: FakeBroker, group_type: str
) -> None:
    """80,000 ids of a hundred characters, as of consoles and jobs that make one each time."""
    kafka.groups["g"] = Group(type=group_type, members=[("m", "i")])
    broker.handlers[Api.LIST_GROUPS] = lambda _request, _version: TOO_LARGE
    for _ in range(2):
        reading = await kafka.read("g")
        assert (reading.group_type, [m.instance_id for m in reading.members]) == (GroupType(group_type.title()), ["i"])
    assert broker.count(Api.LIST_GROUPS) == 1, "its type is known from then on"


async def test_group_that_such_a_broker_does_not_describe_is_not_called_absent_and_what_to_do_is_said(
    kafka: Kafka, broker: FakeBroker
) -> None:
    kafka.groups |= {"shared": Group(type="share"), "g": Group(members=[("m", "i")])}
    broker.handlers[Api.LIST_GROUPS] = lambda _request, _version: TOO_LARGE
    shared, absent, g = await asyncio.gather(*(kafka.describe(name) for name in ("shared", "absent", "g")))
    assert isinstance(g, GroupView)
    assert {kind(shared), kind(absent)} == {KafkaProblemKind.ANSWER_TOO_LARGE}
    assert "group 'absent' is none that it describes" in problem(absent).message
    assert "delete groups that are not used any more, or grant DESCRIBE" in problem(absent).message


async def test_such_a_broker_of_an_older_release_is_asked_by_the_calls_that_it_has(kafka: Kafka) -> None:
    kafka.broker.versions = {api: versions for api, versions in KAFKA_3_7.items() if api != Api.STREAMS_GROUP_DESCRIBE}
    kafka.groups["g"] = Group(type="consumer", members=[("m", "i")])
    kafka.broker.handlers[Api.LIST_GROUPS] = lambda _request, _version: TOO_LARGE
    reading, absent = await asyncio.gather(kafka.describe("g"), kafka.describe("absent"))
    assert isinstance(reading, GroupView)
    assert kind(absent) is KafkaProblemKind.ANSWER_TOO_LARGE


async def test_missing_right_is_named_though_a_broker_has_too_many_groups_to_list(kafka: Kafka) -> None:
    kafka.broker.handlers[Api.LIST_GROUPS] = lambda _request, _version: TOO_LARGE
    kafka.broker.handlers[Api.DESCRIBE_GROUPS] = describing(kafka.broker, 30)
    assert kind(await kafka.describe("g")) is KafkaProblemKind.NOT_AUTHORIZED
