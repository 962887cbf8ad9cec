"""Every trap of the protocol, set by a scripted broker over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblem,
    KafkaProblemKind,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    MemberView,
)
from staticgroup.kafka import connection
from staticgroup.kafka.credentials import ConnectionSettings
from staticgroup.kafka.describe import BatchSizes
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.pool import GROUPS_PER_REQUEST
from staticgroup.kafka.rights import GroupRights
from staticgroup.kafka.wire import Api
from support.bounds import broker_bounds
from unit.kafka.fake_broker import (
    CLOSE,
    KAFKA_2_3,
    KAFKA_3_7,
    SILENT,
    Cluster,
    FakeBroker,
    Group,
    element,
    leave_answer,
    respond,
)

REMOVED, FENCED, UNKNOWN, RETRY = LeaveOutcome.REMOVED, LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN, LeaveOutcome.RETRY
Answer = Callable[[Any, int], Any]


def problem(outcome: object) -> KafkaProblem:
    assert isinstance(outcome, KafkaProblem), outcome
    return outcome


def kind(outcome: object) -> KafkaProblemKind:
    return problem(outcome).kind


def entry(member_id: str, instance_id: str) -> LeaveEntry:
    return LeaveEntry(member_id=member_id, instance_id=instance_id)


def first_then(first: Answer, then: Answer, times: int = 1) -> Answer:
    """Answer with `first` so many times, afterwards with `then`."""
    seen = 0

    def answer(request: Any, version: int) -> Any:
        nonlocal seen
        seen += 1
        return first(request, version) if seen <= times else then(request, version)

    return answer


def describing(broker: FakeBroker, code: int) -> Answer:
    def answer(request: Any, version: int) -> Any:
        groups = tuple(broker.describe_classic(g, version, error_code=code) for g in request.groups)
        return respond(Api.DESCRIBE_GROUPS, version, groups=groups)

    return answer


def coordinator_code(code: int) -> Answer:
    def answer(request: Any, version: int) -> Any:
        rows = tuple(
            element(
                Api.FIND_COORDINATOR,
                version,
                "coordinators",
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=code,
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    return answer


def sized(members: int) -> Group:
    """A group whose description takes about 120 bytes for each member."""
    return Group(members=[(f"m-{n}-{'x' * 80}", f"orders-{n}") for n in range(members)])


def asked(broker: FakeBroker) -> list[tuple[str, ...]]:
    """The groups of each DescribeGroups."""
    return [tuple(request.groups) for api, request in broker.requests if api is Api.DESCRIBE_GROUPS]


async def test_group_whose_description_is_too_large_is_named_and_keeps_no_other_from_being_read(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    cluster.groups |= {f"g-{n}": sized(3) for n in range(9)} | {"huge": sized(200)}
    for _ in range(2):
        huge, *others = await asyncio.gather(*(gateway.describe(settings, g) for g in ("huge", *cluster.groups)))
        assert kind(huge) is KafkaProblemKind.ANSWER_TOO_LARGE
        assert "the description of group 'huge' takes more than" in problem(huge).message
        read = [outcome.group_id for outcome in others if isinstance(outcome, GroupView)]
        assert read == [f"g-{n}" for n in range(9)]
    assert broker.connections == 1


async def test_group_that_was_too_large_is_asked_for_alone_from_then_on(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    cluster.groups |= {f"g-{n}": sized(3) for n in range(9)} | {"huge": sized(200)}
    for _ in range(3):
        broker.requests.clear()
        await asyncio.gather(*(gateway.describe(settings, g) for g in cluster.groups))
    assert sum("huge" in groups for groups in asked(broker)) == 1
    assert ("huge",) in asked(broker)


async def test_groups_that_are_too_large_only_together_are_read_in_parts_that_fit(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 10_000)
    cluster.groups |= {f"g-{n}": sized(20) for n in range(16)}
    for attempt in range(2):
        broker.requests.clear()
        outcomes = await asyncio.gather(*(gateway.describe(settings, g) for g in cluster.groups))
        assert all(isinstance(outcome, GroupView) for outcome in outcomes)
        if attempt:  # the first one has told how many fit
            assert sorted(g for groups in asked(broker) for g in groups) == sorted(cluster.groups)
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
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_MAX_BYTES", 1_000)
    monkeypatch.setattr(connection, "DISCARD_MAX_BYTES", 2_000)
    cluster.groups["huge"] = sized(200)
    assert kind(await gateway.describe(settings, "huge")) is KafkaProblemKind.UNEXPECTED_ANSWER
    assert gateway.socket_count() == 0


async def test_classic_group_is_read_completely(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", None)])
    assert await gateway.describe(settings, "orders") == GroupView(
        group_id="orders",
        group_type=GroupType.CLASSIC,
        state="Stable",
        coordinator=f"1@127.0.0.1:{broker.port}",
        protocol_type="consumer",
        members=(
            MemberView(member_id="m-0", instance_id="orders-0", client_id="orders", client_host="/10.0.0.7"),
            MemberView(member_id="m-1", instance_id=None, client_id="orders", client_host="/10.0.0.7"),
        ),
    )


async def test_kip_848_group_is_read_with_its_epochs(
    cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(type="consumer", members=[("m+/0", "orders-0")])
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert (view.group_type, view.group_epoch, view.assignment_epoch) == (GroupType.CONSUMER, 7, 7)
    assert [(m.member_id, m.instance_id, m.member_epoch) for m in view.members] == [("m+/0", "orders-0", 7)]
    assert view.is_settled


@pytest.mark.parametrize("describe_version", [5, 6])
async def test_dead_answer_for_a_modern_group_is_never_an_empty_group(
    cluster: Cluster,
    broker: FakeBroker,
    gateway: KioGateway,
    settings: ConnectionSettings,
    describe_version: int,
) -> None:
    """DescribeGroups v5 says "Dead, no error" for a KIP-848 group; here after a conversion of the known type."""
    broker.versions[15] = (0, describe_version)
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    await gateway.describe(settings, "orders")
    cluster.groups["orders"].type = "consumer"
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert (view.group_type, len(view.members)) == (GroupType.CONSUMER, 1)
    assert broker.count(Api.LIST_GROUPS) == 2
    cluster.groups["orders"].type = "classic"
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert (view.group_type, len(view.members)) == (GroupType.CLASSIC, 1)


async def test_type_that_never_fits_is_read_once_more_and_then_reported(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(type="consumer", members=[("m-0", "orders-0")])

    def not_found(request: Any, version: int) -> Any:
        rows = tuple(broker.describe_consumer(g, version, error_code=69) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    broker.handlers[Api.CONSUMER_GROUP_DESCRIBE] = not_found
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.COORDINATOR_UNAVAILABLE
    assert broker.count(Api.LIST_GROUPS) == 2


async def test_members_hidden_for_lack_of_a_topic_right_are_a_missing_acl(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    """KAFKA-18813: error 29 and no members."""
    cluster.groups["orders"] = Group(type="consumer", members=[("m-0", "orders-0")])

    def hidden(request: Any, version: int) -> Any:
        rows = tuple(broker.describe_consumer(g, version, error_code=29) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    broker.handlers[Api.CONSUMER_GROUP_DESCRIBE] = hidden
    said = problem(await gateway.describe(settings, "orders"))
    assert said.kind is KafkaProblemKind.NOT_AUTHORIZED
    assert said.missing_acl == "DESCRIBE on the Topics that group 'orders' subscribes to for User:ANONYMOUS"
    assert "not gone" in said.message


async def test_group_that_may_not_be_described_is_not_absent(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    broker.handlers[Api.FIND_COORDINATOR] = coordinator_code(30)
    said = problem(await gateway.describe(settings, "orders"))
    assert (said.kind, said.missing_acl) == (
        KafkaProblemKind.NOT_AUTHORIZED,
        "DESCRIBE on Group 'orders' for User:ANONYMOUS",
    )


async def test_right_withdrawn_while_the_coordinator_is_known_is_not_absence(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    """ListGroups then silently omits the group; only DescribeGroups says why."""
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)  # absent, and its coordinator cached
    broker.handlers[Api.DESCRIBE_GROUPS] = describing(broker, 30)
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.NOT_AUTHORIZED


@pytest.mark.parametrize("versions", [None, {15: (0, 5)}], ids=["v6", "v5"])
async def test_unknown_group_is_absent(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, versions: dict[int, tuple[int, int]] | None
) -> None:
    broker.versions |= versions or {}
    assert await gateway.describe(settings, "orders") == GroupView(
        group_id="orders", group_type=GroupType.ABSENT, state="Dead", coordinator=f"1@127.0.0.1:{broker.port}"
    )


async def test_group_that_was_seen_is_absent_only_after_it_stayed_away(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, clock: Any
) -> None:
    """A new coordinator may show nothing for a moment, without any error (seen on 4.4.0 after a kill)."""
    cluster.groups["orders"] = group = Group(members=[("m-0", "orders-0")])
    await gateway.describe(settings, "orders")
    default = broker._describe_groups

    def blind_once(request: Any, version: int) -> Any:
        cluster.groups.pop("orders", None)
        answer = default(request, version)
        cluster.groups["orders"] = group
        return answer

    listing = broker._list_groups
    broker.handlers[Api.DESCRIBE_GROUPS] = first_then(blind_once, default, times=2)
    broker.handlers[Api.LIST_GROUPS] = first_then(
        lambda _request, version: respond(Api.LIST_GROUPS, version, error_code=0, groups=()), listing
    )
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert len(view.members) == 1

    del cluster.groups["orders"]
    before_s = clock.now_s
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert view.group_type is GroupType.ABSENT
    assert clock.now_s - before_s >= 2.0


async def test_rebalancing_group_is_read_with_its_members(
    cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    """During PreparingRebalance metadata and assignment are empty."""
    cluster.groups["orders"] = Group(state="PreparingRebalance", members=[("m-0", "orders-0")])
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert (view.state, view.is_settled, view.members[0].assigned_partitions) == ("PreparingRebalance", False, None)


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance", "Hibernating", ""])
async def test_state_that_does_not_fit_its_members_is_unexpected(
    cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings, state: str
) -> None:
    cluster.groups["orders"] = Group(state=state, members=[])
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_empty_group_with_members_is_unexpected(
    cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(state="Empty", members=[("m-0", "orders-0")])
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.UNEXPECTED_ANSWER
    cluster.groups["orders"] = Group(state="Empty")
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)


@pytest.mark.parametrize("group_type", ["streams", "share", "quantum"])
async def test_other_group_types_are_named_as_unsupported(
    cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings, group_type: str
) -> None:
    cluster.groups["orders"] = Group(type=group_type)
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.UNSUPPORTED_GROUP


async def test_brokers_that_do_not_tell_types_are_read_as_classic(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    broker.versions = dict(KAFKA_3_7)
    cluster.groups |= {"old": Group(members=[("m-0", "old-0")]), "preview": Group(type="consumer")}
    view = await gateway.describe(settings, "old")
    assert isinstance(view, GroupView)
    assert (view.group_type, len(view.members)) == (GroupType.CLASSIC, 1)
    assert kind(await gateway.describe(settings, "preview")) is KafkaProblemKind.BROKER_TOO_OLD
    absent = await gateway.describe(settings, "nowhere")
    assert isinstance(absent, GroupView)
    assert absent.group_type is GroupType.ABSENT


async def test_coordinator_that_moved_is_found_again(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    second = await FakeBroker(cluster, node_id=2).start()
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", "orders-1")])
    await gateway.describe(settings, "orders")
    cluster.coordinator = 2
    view = await gateway.describe(settings, "orders")
    assert isinstance(view, GroupView)
    assert view.coordinator == f"2@127.0.0.1:{second.port}"
    cluster.coordinator = 1
    result = await gateway.leave(settings, "orders", [entry("m-0", "orders-0")])
    assert result == LeaveResult(coordinator=f"1@127.0.0.1:{broker.port}", outcomes=(REMOVED,))
    assert second.count(Api.LEAVE_GROUP) == 1  # it answered NOT_COORDINATOR and did nothing
    assert [m for m, _ in cluster.groups["orders"].members] == ["m-1"]


async def test_loading_coordinator_is_asked_again(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = first_then(describing(broker, 14), broker._describe_groups, times=3)
    broker.handlers[Api.LEAVE_GROUP] = first_then(
        lambda _request, version: leave_answer(version, 14, ()), broker._leave_group, times=2
    )
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)
    result = await gateway.leave(settings, "orders", [entry("m-0", "orders-0")])
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (REMOVED,)
    assert broker.count(Api.LEAVE_GROUP) == 3


async def test_coordinator_that_loads_for_ever_is_unavailable_within_the_deadline(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = describing(broker, 14)
    outcome = await gateway.describe(replace(settings, request_timeout_s=0.3), "orders")
    assert kind(outcome) is KafkaProblemKind.COORDINATOR_UNAVAILABLE


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


@pytest.mark.parametrize("loss", [CLOSE, SILENT, b"", b"\0\0\0", b"\0\0\0\0\xff\xff\xff\xff\x0f"])
async def test_unreadable_describe_is_a_problem_and_the_next_call_works(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, loss: Any
) -> None:
    settings = replace(settings, request_timeout_s=0.3)
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = lambda _request, _version: loss
    assert kind(await gateway.describe(settings, "orders")) in (
        KafkaProblemKind.UNREACHABLE,
        KafkaProblemKind.UNEXPECTED_ANSWER,
    )
    del broker.handlers[Api.DESCRIBE_GROUPS]
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)


async def test_lost_answer_to_a_read_is_asked_once_more(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.DESCRIBE_GROUPS] = first_then(lambda _request, _version: CLOSE, broker._describe_groups)
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)
    broker.handlers[Api.DESCRIBE_GROUPS] = lambda _request, _version: CLOSE
    before = broker.count(Api.DESCRIBE_GROUPS)
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.UNREACHABLE
    assert broker.count(Api.DESCRIBE_GROUPS) == before + 2


@pytest.mark.parametrize("code", [-1, 99, 134, 999])
async def test_unknown_error_code_is_an_unexpected_answer(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings, code: int
) -> None:
    """kio raises on codes it does not know (134 and up); the connection survives that."""
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])

    def answer(_request: Any, version: int) -> Any:
        head = b"\0\0\0\0" + (b"\x02" if version >= 5 else b"\0\0\0\1")
        body = code.to_bytes(2, "big", signed=True) + (b"\0" if version >= 6 else b"")
        return head + body + b"\x07orders" + b"\x01" * 3 + b"\x01" + b"\x80\0\0\0" + b"\0" + b"\0"

    broker.handlers[Api.DESCRIBE_GROUPS] = answer
    assert kind(await gateway.describe(settings, "orders")) is KafkaProblemKind.UNEXPECTED_ANSWER
    assert broker.connections == 1


async def test_one_unreadable_group_does_not_hide_the_others(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups |= {f"g-{n}": Group(members=[(f"m-{n}", f"g-{n}-0")]) for n in range(8)}

    def poisoned(request: Any, version: int) -> Any:
        return b"poison" if "g-5" in request.groups else broker._describe_groups(request, version)

    broker.handlers[Api.DESCRIBE_GROUPS] = poisoned
    outcomes = await asyncio.gather(*(gateway.describe(settings, f"g-{n}") for n in range(8)))
    assert [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, GroupView)] == [5]
    assert kind(outcomes[5]) is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_concurrent_reads_share_requests_of_at_most_100_groups(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups |= {f"g-{n}": Group(members=[("m", "i")]) for n in range(230)}
    outcomes = await asyncio.gather(*(gateway.describe(settings, f"g-{n}") for n in range(230)))
    assert all(isinstance(outcome, GroupView) for outcome in outcomes)
    sizes = [len(request.groups) for api, request in broker.requests if api is Api.DESCRIBE_GROUPS]
    assert sorted(sizes) == [30, 100, 100]
    assert broker.count(Api.LIST_GROUPS) == 1
    assert broker.connections == 1


async def test_read_that_begins_later_is_never_served_by_an_earlier_request(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    late: list[asyncio.Task[GroupView | KafkaProblem]] = []

    def answer_then_change(request: Any, version: int) -> Any:
        answer = broker._describe_groups(request, version)
        if not late:
            cluster.groups["orders"].members.append(("m-1", "orders-1"))
            late.append(asyncio.ensure_future(gateway.describe(settings, "orders")))
        return answer

    broker.handlers[Api.DESCRIBE_GROUPS] = answer_then_change
    early = await gateway.describe(settings, "orders")
    later = await late[0]
    assert isinstance(early, GroupView)
    assert isinstance(later, GroupView)
    assert (len(early.members), len(later.members)) == (1, 2)


async def test_silent_coordinator_delays_only_its_own_groups(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    second = await FakeBroker(cluster, node_id=2).start()
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    second.handlers = {Api.LIST_GROUPS: lambda _request, _version: SILENT}

    def split(request: Any, version: int) -> Any:
        where = {"orders": broker, "stuck": second}
        rows = tuple(
            element(
                Api.FIND_COORDINATOR,
                version,
                "coordinators",
                key=key,
                node_id=where[key].node_id,
                host="127.0.0.1",
                port=where[key].port,
                error_code=0,
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    broker.handlers[Api.FIND_COORDINATOR] = split
    settings = replace(settings, request_timeout_s=0.5)
    stuck = asyncio.ensure_future(gateway.describe(settings, "stuck"))
    quick = await gateway.describe(settings, "orders")
    assert isinstance(quick, GroupView)
    assert not stuck.done()
    assert kind(await stuck) is KafkaProblemKind.UNREACHABLE


async def test_bounds_are_read_and_the_group_setting_clamped(gateway: KioGateway, settings: ConnectionSettings) -> None:
    """4.4 clamps a stored value that a later bound excludes; DescribeConfigs still shows 500000."""
    assert await gateway.bounds(settings, "orders") == broker_bounds(
        classic_min_ms=6000,
        classic_max_ms=1800000,
        consumer_min_ms=45000,
        consumer_max_ms=60000,
        consumer_session_ms=60000,
        streams_min_ms=45000,
        streams_max_ms=60000,
        streams_session_ms=45000,
    )


async def test_bounds_that_may_not_be_read_are_none_with_the_missing_rights(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    def denied(request: Any, version: int) -> Any:
        codes = {4: 31, 32: 30}
        rows = tuple(broker.configs(r, version, codes[r.resource_type], {}) for r in request.resources)
        return respond(Api.DESCRIBE_CONFIGS, version, results=rows)

    broker.handlers[Api.DESCRIBE_CONFIGS] = denied
    bounds = await gateway.bounds(settings, "orders")
    assert isinstance(bounds, BrokerBounds)
    assert [p.missing_acl for p in bounds.problems] == [
        "DESCRIBE_CONFIGS on Cluster 'kafka-cluster' for User:ANONYMOUS",
        "DESCRIBE_CONFIGS on Group 'orders' for User:ANONYMOUS",
    ]
    assert replace(bounds, problems=()) == broker_bounds()


async def test_broker_without_compare_and_set_removal_is_too_old(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    broker.versions = dict(KAFKA_2_3)
    assert kind(await gateway.probe(settings)) is KafkaProblemKind.BROKER_TOO_OLD
    assert kind(await gateway.leave(settings, "orders", [entry("m", "i")])) is KafkaProblemKind.BROKER_TOO_OLD
    assert broker.count(Api.LEAVE_GROUP) == 0
    broker.versions[13] = (0, 3)
    broker.versions[11] = (0, 4)
    broker.drop_connections()
    assert kind(await gateway.leave(settings, "orders", [entry("m", "i")])) is KafkaProblemKind.BROKER_TOO_OLD
    assert broker.count(Api.LEAVE_GROUP) == 0


async def test_probe_tells_cluster_and_versions(
    broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    facts = await gateway.probe(settings)
    assert isinstance(facts, ClusterFacts)
    assert facts.cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    assert {key: facts.api_versions[key] for key in (13, 15, 16, 32, 69)} == {
        key: broker.versions[key] for key in (13, 15, 16, 32, 69)
    }


async def test_rights_are_found_without_changing_anything(
    cluster: Cluster, broker: FakeBroker, gateway: KioGateway, settings: ConnectionSettings
) -> None:
    cluster.groups["orders"] = Group(members=[("m-0", "orders-0")])
    broker.handlers[Api.HEARTBEAT] = lambda _request, version: respond(Api.HEARTBEAT, version, error_code=30)
    assert await gateway.describe_rights(settings, "orders") == GroupRights(
        describe_group=True,
        read_group=False,
        describe_configs_group=True,
        describe_configs_cluster=True,
        missing=("READ on Group 'orders' for User:ANONYMOUS",),
    )
    assert {api for api, _ in broker.requests} <= set(Api) - {Api.LEAVE_GROUP}
    beats = [request for api, request in broker.requests if api is Api.HEARTBEAT]
    assert [(b.group_instance_id, b.generation_id) for b in beats] == [(None, 0)]
