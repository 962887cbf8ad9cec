"""Streams groups (KIP-1071) by the gateway: described with epochs, and members that leave one request each, all at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import (
    GroupType,
    GroupView,
    KafkaProblemKind,
    LeaveCall,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    MemberView,
    ReleaseOutcome,
)
from staticgroup.kafka.calls.leaving import streams_leave, temporary_leave
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.answers import respond, streams_left
from unit.kafka.fake_broker import CLOSE, SILENT, FakeBroker, Group

from .gateway_script import FENCED, REMOVED, RETRY, UNKNOWN, Kafka, entry, first_then, kind, problem

HEARTBEAT = Api.STREAMS_GROUP_HEARTBEAT
THREADS = [("m-1", "app-2-1"), ("m-2", "app-2-2"), ("m-3", "app-2-3")]


def application(**changes: Any) -> Group:
    return Group(type="streams", **({"members": [*THREADS]} | changes))


def leaving() -> list[LeaveEntry]:
    return [entry(*thread) for thread in THREADS]


async def leave(gateway: KioGateway, settings: ConnectionSettings, entries: list[LeaveEntry]) -> Any:
    return await gateway.leave(settings, "app", entries, LeaveCall.STREAMS_HEARTBEAT)


def coded(codes: dict[str, Any]) -> Any:
    """Answer a member's leave with its code; a byte string, SILENT or CLOSE as they are."""

    def answer(request: Any, version: int) -> Any:
        code = codes.get(request.instance_id, 0)
        return streams_left(version, code, request.member_id) if isinstance(code, int) else code

    return answer


# described ------------------------------------------------------------------------------------------------------------


async def test_streams_group_is_read_with_epochs_and_its_active_tasks(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["app"] = application(away={"m-2"})
    view = await kafka.read("app")
    assert (view.group_type, view.state, view.protocol_type) == (GroupType.STREAMS, "Stable", "streams")
    assert (view.group_epoch, view.assignment_epoch, view.is_settled) == (7, 7, True)
    assert view.members == tuple(
        MemberView(
            member_id=member_id, instance_id=instance_id, client_id="app", client_host="/10.0.0.7", assigned_partitions=2,
            member_epoch=-2 if member_id == "m-2" else 7, is_host_current=True,
        )
        for member_id, instance_id in THREADS
    )
    assert [m.is_away for m in view.members] == [False, True, False]
    assert broker.count(Api.DESCRIBE_GROUPS) == broker.count(Api.CONSUMER_GROUP_DESCRIBE) == 0


@pytest.mark.parametrize("state", ["NotReady", "Assigning", "Reconciling"])
async def test_streams_group_on_its_way_is_read_with_its_members(kafka: Kafka, state: str) -> None:
    """NotReady: its source topics are missing (StreamsGroup.StreamsGroupState)."""
    kafka.groups["app"] = application(state=state)
    view = await kafka.read("app")
    assert (view.state, len(view.members)) == (state, 3)
    kafka.groups["app"] = application(state=state, members=[])
    assert kind(await kafka.describe("app")) is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_hidden_members_of_a_streams_group_are_a_missing_right_and_not_an_empty_group(kafka: Kafka) -> None:
    kafka.groups["app"] = application()

    def hidden(_request: Any, version: int) -> Any:
        return respond(Api.STREAMS_GROUP_DESCRIBE, version, groups=(kafka.broker.describe_streams("app", version, 29),))

    kafka.broker.handlers[Api.STREAMS_GROUP_DESCRIBE] = hidden
    said = problem(await kafka.describe("app"))
    assert said.kind is KafkaProblemKind.NOT_AUTHORIZED
    assert said.missing_acl.startswith("DESCRIBE on the Topics that group 'app'")
    rights = await kafka.gateway.describe_rights(kafka.settings, "app")
    assert not isinstance(rights, type(said))
    assert rights.describe_topics is False


async def test_group_that_became_a_streams_group_is_asked_by_its_new_type(kafka: Kafka) -> None:
    kafka.groups["app"] = Group(type="consumer", members=[*THREADS])
    await kafka.read("app")
    kafka.groups["app"] = application()
    view = await kafka.read("app")
    assert view.group_type is GroupType.STREAMS


async def test_streams_group_of_a_broker_that_does_not_describe_it_costs_no_other_group_its_reading(
    kafka: Kafka, broker: FakeBroker
) -> None:
    """As where the protocol was tried and is switched off again: the group is listed, and the call is not served."""
    del broker.versions[89]
    kafka.groups |= {"app": application(), "orders": Group(members=[("m-0", "orders-0")])}
    app, orders = await asyncio.gather(*(kafka.describe(group_id) for group_id in ("app", "orders")))
    assert kind(app) is KafkaProblemKind.BROKER_TOO_OLD
    assert isinstance(orders, GroupView)
    assert broker.count(Api.LIST_GROUPS) == 1


async def test_group_of_a_type_that_brokers_do_not_describe_any_more_is_looked_up_again(kafka: Kafka) -> None:
    """As where the protocol is switched off (streams.version 0), and the application goes back to the classic one."""
    kafka.groups["app"] = application()
    await kafka.read("app")

    def unsupported(_request: Any, version: int) -> Any:
        return respond(Api.STREAMS_GROUP_DESCRIBE, version, groups=(kafka.broker.describe_streams("app", version, 35),))

    kafka.broker.handlers[Api.STREAMS_GROUP_DESCRIBE] = unsupported
    kafka.groups["app"] = Group(members=[*THREADS])
    assert kind(await kafka.describe("app")) is KafkaProblemKind.BROKER_TOO_OLD
    view = await kafka.read("app")
    assert view.group_type is GroupType.CLASSIC


# leaving --------------------------------------------------------------------------------------------------------------


async def test_every_thread_of_a_pod_leaves_at_once_each_by_both_of_its_ids(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["app"] = application()
    result = await leave(kafka.gateway, kafka.settings, leaving())
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{broker.port}", outcomes=(REMOVED,) * 3)
    assert kafka.groups["app"].members == []
    assert broker.count(Api.LEAVE_GROUP) == 0
    asked = [request for api, request in broker.requests if api is HEARTBEAT]
    assert [(r.group_id, r.member_id, r.instance_id, r.member_epoch) for r in asked] == [
        ("app", member_id, instance_id, -1) for member_id, instance_id in THREADS
    ]


async def test_leave_says_nothing_of_the_application_but_who_leaves(kafka: Kafka, broker: FakeBroker) -> None:
    """Above all it does not shut the application down."""
    kafka.groups["app"] = application()
    await leave(kafka.gateway, kafka.settings, leaving()[:1])
    await kafka.gateway.release(kafka.settings, "app", LeaveEntry(member_id="m-2", instance_id="app-2-2"), LeaveCall.STREAMS_HEARTBEAT)
    for request in (request for api, request in broker.requests if api is HEARTBEAT):
        assert request.shutdown_application is False
        assert {request.topology, request.process_id, request.user_endpoint, request.rack_id, request.client_tags} == {None}
        assert {request.active_tasks, request.standby_tasks, request.warmup_tasks} == {None}
        assert {request.task_offsets, request.task_end_offsets} == {None}


async def test_requests_do_not_wait_for_one_another(kafka: Kafka, broker: FakeBroker) -> None:
    """The broker has all of them before it has answered the first."""
    broker.handlers[HEARTBEAT] = coded({"app-2-1": SILENT})
    result = await leave(kafka.gateway, replace(kafka.settings, request_timeout_s=0.3), leaving())
    assert result.outcomes == (RETRY,) * 3
    assert broker.count(HEARTBEAT) == 3


async def test_each_answer_is_of_its_own_member(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[HEARTBEAT] = coded({"app-2-1": 82, "app-2-2": 0, "app-2-3": 25})
    assert (await leave(kafka.gateway, kafka.settings, leaving())).outcomes == (FENCED, REMOVED, UNKNOWN)
    assert broker.count(HEARTBEAT) == 3


@pytest.mark.parametrize(("code", "outcome"), [(25, UNKNOWN), (69, UNKNOWN), (82, FENCED), (7, RETRY), (13, RETRY), (15, RETRY)])
async def test_outcome_of_one_member_is_never_asked_for_again(kafka: Kafka, code: int, outcome: LeaveOutcome) -> None:
    """CoordinatorOperationExceptionHelper maps writes of unknown fate to 7, 13 and 15."""
    kafka.broker.handlers[HEARTBEAT] = coded({"app-2-1": code})
    assert (await leave(kafka.gateway, kafka.settings, leaving()[:1])).outcomes == (outcome,)
    assert kafka.broker.count(HEARTBEAT) == 1


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"\xff\xff\xff\xff\xff\xff"], ids=["closed", "silent", "garbage"])
async def test_lost_answer_is_retry_and_no_request_is_repeated(kafka: Kafka, broker: FakeBroker, loss: Any) -> None:
    """What was answered before the loss stays known."""
    broker.handlers[HEARTBEAT] = coded({"app-2-2": loss})
    result = of_type(LeaveResult, await leave(kafka.gateway, replace(kafka.settings, request_timeout_s=0.3), leaving()))
    assert result.outcomes[:2] == (REMOVED, RETRY)
    assert broker.count(HEARTBEAT) <= 3


@pytest.mark.parametrize("code", [14, 16])
async def test_coordinator_that_did_nothing_about_anybody_is_asked_again(kafka: Kafka, code: int) -> None:
    kafka.groups["app"] = application()
    refused = coded(dict.fromkeys(("app-2-1", "app-2-2", "app-2-3"), code))
    kafka.broker.handlers[HEARTBEAT] = first_then(refused, kafka.broker._streams_group_heartbeat, times=3)
    assert (await leave(kafka.gateway, kafka.settings, leaving())).outcomes == (REMOVED,) * 3
    assert kafka.broker.count(HEARTBEAT) == 6


@pytest.mark.parametrize("code", [14, 16, 30, 42])
async def test_refusal_beside_a_removal_is_decided_afresh_and_not_repeated(kafka: Kafka, code: int) -> None:
    kafka.broker.handlers[HEARTBEAT] = coded({"app-2-2": code})
    assert (await leave(kafka.gateway, kafka.settings, leaving())).outcomes == (REMOVED, RETRY, REMOVED)
    assert kafka.broker.count(HEARTBEAT) == 3


async def test_leave_without_the_right_names_it(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[HEARTBEAT] = coded(dict.fromkeys(("app-2-1", "app-2-2", "app-2-3"), 30))
    said = problem(await leave(kafka.gateway, kafka.settings, leaving()))
    assert said.missing_acl == "READ on Group 'app' for User:ANONYMOUS"
    assert broker.count(HEARTBEAT) == 3


async def test_leave_of_nobody_or_of_half_an_identity_is_refused_before_any_connection(kafka: Kafka) -> None:
    """With the member id alone the coordinator removes the member that has it, static or not."""
    for name in ("member_id", "instance_id"):
        half = entry("m-1", "app-2-1")
        object.__setattr__(half, name, "")
        for entries in ([], [half]):
            with pytest.raises(ValueError, match="refused"):
                await leave(kafka.gateway, kafka.settings, entries)
    assert kafka.broker.connections == 0


@pytest.mark.parametrize("name", ["member_id", "instance_id"])
def test_identity_that_is_halved_after_the_call_was_made_is_refused_at_encoding(name: str) -> None:
    half = entry("m", "i")
    call = streams_leave("app", half)
    object.__setattr__(half, name, None)
    with pytest.raises(ValueError, match="refused"):
        call.prepare({HEARTBEAT: (0, 1)})


async def test_broker_before_streams_groups_is_too_old(kafka: Kafka, broker: FakeBroker) -> None:
    del broker.versions[88]
    said = problem(await leave(kafka.gateway, kafka.settings, leaving()))
    assert said.kind is KafkaProblemKind.BROKER_TOO_OLD
    assert "for streams groups 4.4" in said.message


# leaving for a while ----------------------------------------------------------------------------------------------------


async def test_crashed_thread_leaves_for_a_while_by_the_call_of_its_group(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["app"] = application()
    ghost = LeaveEntry(member_id="m-1", instance_id="app-2-1")
    result = await kafka.gateway.release(kafka.settings, "app", ghost, LeaveCall.STREAMS_HEARTBEAT)
    assert result == ReleaseOutcome.RELEASED
    assert (kafka.groups["app"].away, len(kafka.groups["app"].members)) == ({"m-1"}, 3)
    wrong = LeaveEntry(member_id="m-9", instance_id="app-2-1")
    assert await kafka.gateway.release(kafka.settings, "app", wrong, LeaveCall.STREAMS_HEARTBEAT) == ReleaseOutcome.FENCED
    assert broker.count(Api.CONSUMER_GROUP_HEARTBEAT) == 0


def test_nobody_leaves_for_a_while_by_a_call_that_removes() -> None:
    with pytest.raises(ValueError, match="refused"):
        temporary_leave("app", LeaveEntry(member_id="m", instance_id="i"), LeaveCall.LEAVE_GROUP)
