"""Coordinators that move, load, are silent or send what cannot be read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from staticgroup.core.group import GroupView, KafkaProblemKind, LeaveResult
from staticgroup.kafka.wire import Api
from unit.kafka.answers import element, leave_answer, respond
from unit.kafka.fake_broker import CLOSE, SILENT, FakeBroker, Group

from .gateway_script import REMOVED, Kafka, describing, entry, first_then, kind


async def test_coordinator_that_moved_is_found_again(kafka: Kafka, broker: FakeBroker) -> None:
    second = await FakeBroker(kafka.cluster, node_id=2).start()
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", "orders-1")])
    await kafka.describe("orders")
    kafka.cluster.coordinator = 2
    view = await kafka.read("orders")
    assert view.coordinator == f"2@127.0.0.1:{second.port}"
    kafka.cluster.coordinator = 1
    result = await kafka.gateway.leave(kafka.settings, "orders", [entry("m-0", "orders-0")])
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{broker.port}", outcomes=(REMOVED,))
    assert second.count(Api.LEAVE_GROUP) == 1  # it answered NOT_COORDINATOR and did nothing
    assert [m for m, _ in kafka.groups["orders"].members] == ["m-1"]


async def test_loading_coordinator_is_asked_again(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = first_then(describing(broker, 14), broker._describe_groups, times=3)
    broker.handlers[Api.LEAVE_GROUP] = first_then(
        lambda _request, version: leave_answer(version, 14, ()), broker._leave_group, times=2
    )
    await kafka.read("orders")
    assert (await kafka.leave("orders", [entry("m-0", "orders-0")])).outcomes == (REMOVED,)
    assert broker.count(Api.LEAVE_GROUP) == 3


async def test_coordinator_that_loads_for_ever_is_unavailable_within_the_deadline(kafka: Kafka) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    kafka.broker.handlers[Api.DESCRIBE_GROUPS] = describing(kafka.broker, 14)
    outcome = await kafka.gateway.describe(replace(kafka.settings, request_timeout_s=0.3), "orders")
    assert kind(outcome) is KafkaProblemKind.COORDINATOR_UNAVAILABLE


async def test_lost_answer_to_a_read_is_asked_once_more(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = first_then(lambda _request, _version: CLOSE, broker._describe_groups)
    await kafka.read("orders")
    broker.handlers[Api.DESCRIBE_GROUPS] = lambda _request, _version: CLOSE
    before = broker.count(Api.DESCRIBE_GROUPS)
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.UNREACHABLE
    assert broker.count(Api.DESCRIBE_GROUPS) == before + 2


async def test_one_unreadable_group_does_not_hide_the_others(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups |= {f"g-{n}": Group(members=[(f"m-{n}", f"g-{n}-0")]) for n in range(8)}

    def poisoned(request: Any, version: int) -> Any:
        return b"poison" if "g-5" in request.groups else broker._describe_groups(request, version)

    broker.handlers[Api.DESCRIBE_GROUPS] = poisoned
    outcomes = await asyncio.gather(*(kafka.describe(f"g-{n}") for n in range(8)))
    assert [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, GroupView)] == [5]
    assert kind(outcomes[5]) is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_silent_coordinator_delays_only_its_own_groups(kafka: Kafka, broker: FakeBroker) -> None:
    second = await FakeBroker(kafka.cluster, node_id=2).start()
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    second.handlers = {Api.LIST_GROUPS: lambda _request, _version: SILENT}

    def split(request: Any, version: int) -> Any:
        where = {"orders": broker, "stuck": second}
        rows = tuple(
            element(
                Api.FIND_COORDINATOR, version, "coordinators", key=key, node_id=where[key].node_id, host="127.0.0.1",
                port=where[key].port, error_code=0, error_message=None,
            )
            for key in request.coordinator_keys
        )
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    broker.handlers[Api.FIND_COORDINATOR] = split
    kafka.settings = replace(kafka.settings, request_timeout_s=0.5)
    stuck = asyncio.ensure_future(kafka.describe("stuck"))
    await kafka.read("orders")
    assert not stuck.done()
    assert kind(await stuck) is KafkaProblemKind.UNREACHABLE
