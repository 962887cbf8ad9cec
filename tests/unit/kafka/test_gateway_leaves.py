"""Removals and temporary leaves: one request, never repeated, and only what its answer shows is believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import KafkaProblemKind, LeaveEntry, LeaveResult, ReleaseOutcome
from staticgroup.kafka.calls.leaving import temporary_leave
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.answers import leave_answer, released
from unit.kafka.fake_broker import CLOSE, SILENT, FakeBroker

from .gateway_script import FENCED, REMOVED, RETRY, UNKNOWN, Kafka, entry, problem


async def test_outcomes_follow_the_order_of_the_request_not_the_echoed_member_id(kafka: Kafka) -> None:
    def resolved(request: Any, version: int) -> Any:
        codes = {"orders-0": 82, "orders-1": 0, "orders-2": 25}
        rows = [("resolved", m.group_instance_id, codes[m.group_instance_id]) for m in request.members]
        return leave_answer(version, 0, rows)

    kafka.broker.handlers[Api.LEAVE_GROUP] = resolved
    entries = [entry("m-2", "orders-2"), entry("m-0", "orders-0"), entry("m-1", "orders-1")]
    assert (await kafka.leave("orders", entries)).outcomes == (UNKNOWN, FENCED, REMOVED)


@pytest.mark.parametrize(
    "rows",
    [
        [("m-1", "orders-1", 0), ("m-0", "orders-0", 82)],
        [("m-0", "orders-0", 0)],
        [("m-0", "orders-0", 0), ("m-1", "orders-1", 0), ("m-2", "orders-2", 0)],
        [],
    ],
    ids=["swapped", "short", "long", "none"],
)
async def test_answer_that_does_not_line_up_is_not_believed(kafka: Kafka, rows: list[tuple[str, str, int]]) -> None:
    kafka.broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 0, rows)
    assert (await kafka.leave("orders", [entry("m-0", "orders-0"), entry("m-1", "orders-1")])).outcomes == (RETRY, RETRY)


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_to_a_removal_is_retry_and_the_request_is_not_repeated(kafka: Kafka, loss: Any) -> None:
    kafka.broker.handlers[Api.LEAVE_GROUP] = lambda _request, _version: loss
    entries = [entry("m-0", "orders-0"), entry("m-1", "orders-1")]
    result = await kafka.gateway.leave(replace(kafka.settings, request_timeout_s=0.3), "orders", entries)
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{kafka.broker.port}", outcomes=(RETRY, RETRY))
    assert kafka.broker.count(Api.LEAVE_GROUP) == 1


@pytest.mark.parametrize("code", [7, 13, 15])
async def test_removal_that_may_have_happened_is_retry_and_not_repeated(kafka: Kafka, code: int) -> None:
    """CoordinatorOperationExceptionHelper maps writes of unknown fate to these codes."""
    kafka.broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, code, ())
    assert (await kafka.leave("orders", [entry("m-0", "orders-0")])).outcomes == (RETRY,)
    assert kafka.broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_without_the_right_names_it(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 30, ())
    said = problem(await kafka.gateway.leave(kafka.settings, "orders", [entry("m-0", "orders-0")]))
    assert said.missing_acl == "READ on Group 'orders' for User:ANONYMOUS"
    assert broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_of_nothing_or_of_half_an_identity_is_refused_before_any_connection(kafka: Kafka) -> None:
    half = entry("m-0", "orders-0")
    object.__setattr__(half, "member_id", "")
    for entries in ([], [half]):
        with pytest.raises(ValueError, match="refused"):
            await kafka.gateway.leave(kafka.settings, "orders", entries)
    assert kafka.broker.connections == 0


ENTRY = LeaveEntry(member_id="m-0", instance_id="orders-0")


def answered(code: int) -> Any:
    return lambda _request, version: released(version, code)


async def test_temporary_leave_says_who_leaves_and_nothing_else(kafka: Kafka, broker: FakeBroker) -> None:
    asked: list[Any] = []
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = lambda request, version: asked.append(request) or answered(0)(request, version)
    result = await kafka.gateway.release(kafka.settings, "orders", ENTRY)
    assert result == ReleaseOutcome.RELEASED
    (request,) = asked
    assert (request.group_id, request.member_id, request.instance_id, request.member_epoch) == ("orders", "m-0", "orders-0", -2)
    assert (request.subscribed_topic_names, request.topic_partitions, request.rack_id) == (None, None, None)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (25, ReleaseOutcome.UNKNOWN),
        (69, ReleaseOutcome.UNKNOWN),
        (82, ReleaseOutcome.FENCED),
        (111, ReleaseOutcome.FENCED),
        (30, ReleaseOutcome.NOT_AUTHORIZED),
    ],
)
async def test_refusal_is_an_outcome_and_is_never_sent_again(kafka: Kafka, code: int, outcome: ReleaseOutcome) -> None:
    kafka.broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = answered(code)
    result = of_type(ReleaseOutcome, await kafka.gateway.release(kafka.settings, "orders", ENTRY))
    assert result is outcome
    assert kafka.broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_is_retry_and_the_request_is_not_repeated(kafka: Kafka, loss: Any) -> None:
    kafka.broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = lambda _request, _version: loss
    result = await kafka.gateway.release(replace(kafka.settings, request_timeout_s=0.3), "orders", ENTRY)
    assert result == ReleaseOutcome.RETRY
    assert kafka.broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


async def test_answer_that_nobody_expects_is_a_problem_and_not_repeated(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = answered(42)
    assert problem(await kafka.gateway.release(kafka.settings, "orders", ENTRY)).kind is KafkaProblemKind.UNEXPECTED_ANSWER
    assert broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


def test_half_an_identity_has_no_request() -> None:
    """With one of the two the coordinator would not compare."""
    for values in ({"member_id": "", "instance_id": "i"}, {"member_id": "m", "instance_id": ""}):
        with pytest.raises(ValueError, match="needs both"):
            LeaveEntry(**values)
        half = LeaveEntry(member_id="m", instance_id="i")
        for name, value in values.items():
            object.__setattr__(half, name, value)
        with pytest.raises(ValueError, match="refused"):
            temporary_leave("orders", half)
