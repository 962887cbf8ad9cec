"""Removals by the gateway: one request, never repeated, and only what its answer shows is believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import LeaveResult
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from unit.kafka.fake_broker import CLOSE, SILENT, Cluster, FakeBroker, leave_answer

from .gateway_script import FENCED, REMOVED, RETRY, UNKNOWN, entry, problem


async def test_outcomes_follow_the_order_of_the_request_not_the_echoed_member_id(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    def resolved(request: Any, version: int) -> Any:
        codes = {"orders-0": 82, "orders-1": 0, "orders-2": 25}
        rows = [("resolved", m.group_instance_id, codes[m.group_instance_id]) for m in request.members]
        return leave_answer(version, 0, rows)

    broker.handlers[Api.LEAVE_GROUP] = resolved
    entries = [entry("m-2", "orders-2"), entry("m-0", "orders-0"), entry("m-1", "orders-1")]
    result = await gateway.leave(settings, "orders", entries)
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (UNKNOWN, FENCED, REMOVED)


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
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, rows: list[tuple[str, str, int]]
) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 0, rows)
    result = await gateway.leave(settings, "orders", [entry("m-0", "orders-0"), entry("m-1", "orders-1")])
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (RETRY, RETRY)


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_to_a_removal_is_retry_and_the_request_is_not_repeated(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, loss: Any
) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, _version: loss
    entries = [entry("m-0", "orders-0"), entry("m-1", "orders-1")]
    result = await gateway.leave(replace(settings, request_timeout_s=0.3), "orders", entries)
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{broker.port}", outcomes=(RETRY, RETRY))
    assert broker.count(Api.LEAVE_GROUP) == 1


@pytest.mark.parametrize("code", [7, 13, 15])
async def test_removal_that_may_have_happened_is_retry_and_not_repeated(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, code: int
) -> None:
    """CoordinatorOperationExceptionHelper maps writes of unknown fate to these codes."""
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, code, ())
    result = await gateway.leave(settings, "orders", [entry("m-0", "orders-0")])
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (RETRY,)
    assert broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_without_the_right_names_it(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    broker.handlers[Api.LEAVE_GROUP] = lambda _request, version: leave_answer(version, 30, ())
    said = problem(await gateway.leave(settings, "orders", [entry("m-0", "orders-0")]))
    assert said.missing_acl == "READ on Group 'orders' for User:ANONYMOUS"
    assert broker.count(Api.LEAVE_GROUP) == 1


async def test_removal_of_nothing_or_of_half_an_identity_is_refused_before_any_connection(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    half = entry("m-0", "orders-0")
    object.__setattr__(half, "member_id", "")
    for entries in ([], [half]):
        with pytest.raises(ValueError, match="refused"):
            await gateway.leave(settings, "orders", entries)
    assert broker.connections == 0
