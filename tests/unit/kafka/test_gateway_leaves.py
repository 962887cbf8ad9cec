"""Removals by the gateway: one request, never repeated, and only what its answer shows is believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import LeaveResult
from staticgroup.kafka.wire import Api
from unit.kafka.fake_broker import CLOSE, SILENT, FakeBroker, leave_answer

from .gateway_script import FENCED, REMOVED, RETRY, UNKNOWN, Kafka, entry, problem


async def test_outcomes_follow_the_order_of_the_request_not_the_echoed_member_id(
    kafka: Kafka, broker: FakeBroker
) -> None:
    def resolved(request: Any, version: int) -> Any:
        codes = {"orders-0": 82, "orders-1": 0, "orders-2": 25}
        rows = [("resolved", m.group_instance_id, codes[m.group_instance_id]) for m in request.members]
        return leave_answer(version, 0, rows)

    broker.handlers[Api.LEAVE_GROUP] = resolved
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
async def test_answer_that_does_not_line_up_is_not_believed(
    kafka: Kafka, broker: FakeBroker, rows: list[tuple[str, str, int]]
) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 0, rows)
    assert (await kafka.leave("orders", [entry("m-0", "orders-0"), entry("m-1", "orders-1")])).outcomes == (RETRY, RETRY)


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_to_a_removal_is_retry_and_the_request_is_not_repeated(
    kafka: Kafka, broker: FakeBroker, loss: Any
) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, _version: loss
    entries = [entry("m-0", "orders-0"), entry("m-1", "orders-1")]
    result = await kafka.gateway.leave(replace(kafka.settings, request_timeout_s=0.3), "orders", entries)
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{broker.port}", outcomes=(RETRY, RETRY))
    assert broker.count(Api.LEAVE_GROUP) == 1


@pytest.mark.parametrize("code", [7, 13, 15])
async def test_removal_that_may_have_happened_is_retry_and_not_repeated(
    kafka: Kafka, broker: FakeBroker, code: int
) -> None:
    """CoordinatorOperationExceptionHelper maps writes of unknown fate to these codes."""
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, code, ())
    assert (await kafka.leave("orders", [entry("m-0", "orders-0")])).outcomes == (RETRY,)
    assert broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_without_the_right_names_it(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 30, ())
    said = problem(await kafka.gateway.leave(kafka.settings, "orders", [entry("m-0", "orders-0")]))
    assert said.missing_acl == "READ on Group 'orders' for User:ANONYMOUS"
    assert broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_of_nothing_or_of_half_an_identity_is_refused_before_any_connection(
    kafka: Kafka, broker: FakeBroker
) -> None:
    half = entry("m-0", "orders-0")
    object.__setattr__(half, "member_id", "")
    for entries in ([], [half]):
        with pytest.raises(ValueError, match="refused"):
            await kafka.gateway.leave(kafka.settings, "orders", entries)
    assert broker.connections == 0
