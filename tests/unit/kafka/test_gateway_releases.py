"""Temporary leaves by the gateway: both ids and nothing else, sent once; the rest they share with leaves from streams groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import KafkaProblemKind, ReleaseEntry, ReleaseOutcome, ReleaseResult
from staticgroup.kafka.calls.leaving import temporary_leave
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.fake_broker import CLOSE, SILENT, FakeBroker, released

from .gateway_script import Kafka, problem

ENTRY = ReleaseEntry(member_id="m-0", instance_id="orders-0")


def answered(code: int) -> Any:
    return lambda _request, version: released(version, code)


async def test_temporary_leave_says_who_leaves_and_nothing_else(kafka: Kafka, broker: FakeBroker) -> None:
    asked: list[Any] = []
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = lambda request, version: asked.append(request) or answered(0)(request, version)
    result = await kafka.gateway.release(kafka.settings, "orders", ENTRY)
    assert result == ReleaseResult(coordinator=f"1@127.0.0.1:{broker.port}", outcome=ReleaseOutcome.RELEASED)
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
async def test_refusal_is_an_outcome_and_is_never_sent_again(
    kafka: Kafka, broker: FakeBroker, code: int, outcome: ReleaseOutcome
) -> None:
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = answered(code)
    result = of_type(ReleaseResult, await kafka.gateway.release(kafka.settings, "orders", ENTRY))
    assert result.outcome is outcome
    assert broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_is_retry_and_the_request_is_not_repeated(
    kafka: Kafka, broker: FakeBroker, loss: Any
) -> None:
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = lambda _request, _version: loss
    result = await kafka.gateway.release(replace(kafka.settings, request_timeout_s=0.3), "orders", ENTRY)
    assert result == ReleaseResult(coordinator=f"1@127.0.0.1:{broker.port}", outcome=ReleaseOutcome.RETRY)
    assert broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


async def test_answer_that_nobody_expects_is_a_problem_and_not_repeated(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.CONSUMER_GROUP_HEARTBEAT] = answered(42)
    assert problem(await kafka.gateway.release(kafka.settings, "orders", ENTRY)).kind is KafkaProblemKind.UNEXPECTED_ANSWER
    assert broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 1


def test_half_an_identity_has_no_request() -> None:
    """With one of the two the coordinator would not compare."""
    for values in ({"member_id": "", "instance_id": "i"}, {"member_id": "m", "instance_id": ""}):
        with pytest.raises(ValueError, match="needs both"):
            ReleaseEntry(**values)
        half = ReleaseEntry(member_id="m", instance_id="i")
        for name, value in values.items():
            object.__setattr__(half, name, value)
        with pytest.raises(ValueError, match="refused"):
            temporary_leave("orders", half)
