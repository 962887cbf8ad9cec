"""What the gateway reads of a group, with every trap of the protocol set by a scripted broker over a real socket."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.kafka.wire import Api
from unit.kafka.answers import element, respond
from unit.kafka.fake_broker import KAFKA_3_7, FakeBroker, Group

from .gateway_script import Answer, Kafka, describing, first_then, kind, problem


def coordinator_code(code: int) -> Answer:
    def answer(request: Any, version: int) -> Any:
        rows = tuple(
            element(
                Api.FIND_COORDINATOR, version, "coordinators", key=key, node_id=-1, host="", port=-1, error_code=code,
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    return answer


async def test_classic_group_is_read_completely(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", None)])
    assert await kafka.describe("orders") == GroupView(
        group_id="orders",
        group_type=GroupType.CLASSIC,
        state="Stable",
        coordinator=f"1@127.0.0.1:{broker.port}",
        kafka_cluster_id=broker.cluster.cluster_id,
        protocol_type="consumer",
        members=(
            MemberView(member_id="m-0", instance_id="orders-0", client_id="orders", client_host="/10.0.0.7"),
            MemberView(member_id="m-1", instance_id=None, client_id="orders", client_host="/10.0.0.7"),
        ),
    )


async def test_kip_848_group_is_read_with_its_epochs(kafka: Kafka) -> None:
    kafka.groups["orders"] = Group(type="consumer", members=[("m+/0", "orders-0")])
    view = await kafka.read("orders")
    assert (view.group_type, view.group_epoch, view.assignment_epoch) == (GroupType.CONSUMER, 7, 7)
    assert [(m.member_id, m.instance_id, m.member_epoch) for m in view.members] == [("m+/0", "orders-0", 7)]
    assert view.is_settled


@pytest.mark.parametrize("describe_version", [5, 6])
async def test_dead_answer_for_a_modern_group_is_never_an_empty_group(kafka: Kafka, describe_version: int) -> None:
    """DescribeGroups v5 says "Dead, no error" for a KIP-848 group; here after a conversion of the known type."""
    kafka.broker.versions[15] = (0, describe_version)
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    await kafka.describe("orders")
    kafka.groups["orders"].type = "consumer"
    view = await kafka.read("orders")
    assert (view.group_type, len(view.members)) == (GroupType.CONSUMER, 1)
    assert kafka.broker.count(Api.LIST_GROUPS) == 2
    kafka.groups["orders"].type = "classic"
    view = await kafka.read("orders")
    assert (view.group_type, len(view.members)) == (GroupType.CLASSIC, 1)


async def test_type_that_never_fits_is_read_once_more_and_then_reported(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(type="consumer", members=[("m-0", "orders-0")])

    def not_found(request: Any, version: int) -> Any:
        rows = tuple(broker.describe_consumer(g, version, error_code=69) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    broker.handlers[Api.CONSUMER_GROUP_DESCRIBE] = not_found
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.COORDINATOR_UNAVAILABLE
    assert broker.count(Api.LIST_GROUPS) == 2


@pytest.mark.parametrize(("member_type", "is_current"), [(1, True), (0, False), (-1, False)], ids=["speaks it", "classic", "not said"])
async def test_where_a_member_speaks_from_is_known_of_one_that_speaks_the_protocol_of_its_group(
    kafka: Kafka, broker: FakeBroker, member_type: int, is_current: bool
) -> None:
    """A classic one in a consumer group keeps the host of the process that its id joined with first."""
    kafka.groups["orders"] = Group(type="consumer", members=[("m-0", "orders-0")])

    def typed(request: Any, version: int) -> Any:
        rows = [broker.describe_consumer(g, version) for g in request.group_ids]
        rows = [replace(row, members=tuple(replace(m, member_type=member_type) for m in row.members)) for row in rows]
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=tuple(rows))

    broker.handlers[Api.CONSUMER_GROUP_DESCRIBE] = typed
    view = await kafka.read("orders")
    assert [m.is_host_current for m in view.members] == [is_current]


async def test_members_hidden_for_lack_of_a_topic_right_are_a_missing_acl(kafka: Kafka, broker: FakeBroker) -> None:
    """KAFKA-18813: error 29 and no members."""
    kafka.groups["orders"] = Group(type="consumer", members=[("m-0", "orders-0")])

    def hidden(request: Any, version: int) -> Any:
        rows = tuple(broker.describe_consumer(g, version, error_code=29) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    broker.handlers[Api.CONSUMER_GROUP_DESCRIBE] = hidden
    said = problem(await kafka.describe("orders"))
    assert said.kind is KafkaProblemKind.NOT_AUTHORIZED
    assert said.missing_acl == "DESCRIBE on the Topics that group 'orders' subscribes to for User:ANONYMOUS"
    assert "not gone" in said.message


async def test_group_that_may_not_be_described_is_not_absent(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.FIND_COORDINATOR] = coordinator_code(30)
    said = problem(await kafka.describe("orders"))
    assert (said.kind, said.missing_acl) == (
        KafkaProblemKind.NOT_AUTHORIZED,
        "DESCRIBE on Group 'orders' for User:ANONYMOUS",
    )


async def test_right_withdrawn_while_the_coordinator_is_known_is_not_absence(kafka: Kafka, broker: FakeBroker) -> None:
    """ListGroups then silently omits the group; only DescribeGroups says why."""
    assert isinstance(await kafka.describe("orders"), GroupView)  # absent, and its coordinator cached
    broker.handlers[Api.DESCRIBE_GROUPS] = describing(broker, 30)
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.NOT_AUTHORIZED


@pytest.mark.parametrize("versions", [None, {15: (0, 5)}], ids=["v6", "v5"])
async def test_unknown_group_is_absent(kafka: Kafka, versions: dict[int, tuple[int, int]] | None) -> None:
    kafka.broker.versions |= versions or {}
    assert await kafka.describe("orders") == GroupView(
        group_id="orders", group_type=GroupType.ABSENT, state="Dead", coordinator=f"1@127.0.0.1:{kafka.broker.port}",
        kafka_cluster_id=kafka.broker.cluster.cluster_id,
    )  # fmt: skip


async def test_group_that_was_seen_is_absent_only_after_it_stayed_away(kafka: Kafka, clock: Any) -> None:
    """A new coordinator may show nothing for a moment, without any error (seen on 4.4.0 after a kill)."""
    kafka.groups["orders"] = group = Group(members=[("m-0", "orders-0")])
    await kafka.describe("orders")
    default = kafka.broker._describe_groups

    def blind_once(request: Any, version: int) -> Any:
        kafka.groups.pop("orders", None)
        answer = default(request, version)
        kafka.groups["orders"] = group
        return answer

    listing = kafka.broker._list_groups
    kafka.broker.handlers[Api.DESCRIBE_GROUPS] = first_then(blind_once, default, times=2)
    kafka.broker.handlers[Api.LIST_GROUPS] = first_then(
        lambda _request, version: respond(Api.LIST_GROUPS, version, error_code=0, groups=()), listing
    )
    view = await kafka.read("orders")
    assert len(view.members) == 1

    del kafka.groups["orders"]
    before_s = clock.now_s
    view = await kafka.read("orders")
    assert view.group_type is GroupType.ABSENT
    assert clock.now_s - before_s >= 2.0


async def test_rebalancing_group_is_read_with_its_members(kafka: Kafka) -> None:
    """During PreparingRebalance metadata and assignment are empty."""
    kafka.groups["orders"] = Group(state="PreparingRebalance", members=[("m-0", "orders-0")])
    view = await kafka.read("orders")
    assert (view.state, view.is_settled, view.members[0].assigned_partitions) == ("PreparingRebalance", False, None)


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance", "Hibernating", ""])
async def test_state_that_does_not_fit_its_members_is_unexpected(kafka: Kafka, state: str) -> None:
    kafka.groups["orders"] = Group(state=state, members=[])
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_empty_group_with_members_is_unexpected(kafka: Kafka) -> None:
    kafka.groups["orders"] = Group(state="Empty", members=[("m-0", "orders-0")])
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.UNEXPECTED_ANSWER
    kafka.groups["orders"] = Group(state="Empty")
    await kafka.read("orders")


@pytest.mark.parametrize("group_type", ["share", "quantum"])
async def test_other_group_types_are_named_as_unsupported(kafka: Kafka, group_type: str) -> None:
    kafka.groups["orders"] = Group(type=group_type)
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.UNSUPPORTED_GROUP


async def test_brokers_that_do_not_tell_types_are_read_as_classic(kafka: Kafka, broker: FakeBroker) -> None:
    broker.versions = dict(KAFKA_3_7)
    kafka.groups |= {"old": Group(members=[("m-0", "old-0")]), "preview": Group(type="consumer")}
    view = await kafka.read("old")
    assert (view.group_type, len(view.members)) == (GroupType.CLASSIC, 1)
    assert kind(await kafka.describe("preview")) is KafkaProblemKind.BROKER_TOO_OLD
    absent = await kafka.read("nowhere")
    assert absent.group_type is GroupType.ABSENT


async def test_concurrent_reads_share_requests_of_at_most_100_groups(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups |= {f"g-{n}": Group(members=[("m", "i")]) for n in range(230)}
    outcomes = await asyncio.gather(*(kafka.describe(f"g-{n}") for n in range(230)))
    assert all(isinstance(outcome, GroupView) for outcome in outcomes)
    sizes = [len(request.groups) for api, request in broker.requests if api is Api.DESCRIBE_GROUPS]
    assert sorted(sizes) == [30, 100, 100]
    assert broker.count(Api.LIST_GROUPS) == 1
    assert broker.connections == 1


async def test_read_that_begins_later_is_never_served_by_an_earlier_request(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    late: list[asyncio.Task[GroupView | KafkaProblem]] = []

    def answer_then_change(request: Any, version: int) -> Any:
        answer = broker._describe_groups(request, version)
        if not late:
            kafka.groups["orders"].members.append(("m-1", "orders-1"))
            late.append(asyncio.ensure_future(kafka.describe("orders")))
        return answer

    broker.handlers[Api.DESCRIBE_GROUPS] = answer_then_change
    early = await kafka.describe("orders")
    later = await late[0]
    assert isinstance(early, GroupView)
    assert isinstance(later, GroupView)
    assert (len(early.members), len(later.members)) == (1, 2)
