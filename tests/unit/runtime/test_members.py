"""Carriers of members in whole rounds: what is read and when, what is remembered, and what a restart continues with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from staticgroup.api.resources.memory import SeatMember
from staticgroup.core.group import GroupType
from staticgroup.core.members.carriers import digest_of
from staticgroup.kube.problem import problem_of
from support.bounds import broker_bounds

from .operator_world import UNREACHABLE, OperatorWorld, guards, static_group
from .stories import LIVING, left


def seat(world: OperatorWorld, ordinal: int = 2) -> SeatMember:
    """Return what the status remembers of the member of an ordinal."""
    (found,) = (s for s in world.status.memory.seats if s.id == world.id_of(ordinal))
    return found


def suspects(world: OperatorWorld) -> list[str]:
    return [s.uid for s in world.status.memory.suspects]


def lose(world: OperatorWorld, successor: str = "u2b") -> None:
    """Force-delete web-2, whose process may live; another pod takes its place and its seat."""
    world.remove_object(2)
    world.start(2, successor)


async def passes(world: OperatorWorld, seconds: float, step_s: float = 60.0) -> None:
    """Let time pass with a round at each step."""
    for _ in range(math.ceil(seconds / step_s)):
        world.now_s += step_s
        await world.round()


# what is read, and when -----------------------------------------------------------------------------------------------


async def test_a_member_is_attributed_behind_its_description_and_removed_behind_reads_and_barrier() -> None:
    world = await OperatorWorld().started()
    world.scale(2)
    world.kafka.join(world.id_of(2), "just-before-the-end")
    world.end(2)
    await world.round()
    assert left(world) == [world.id_of(2)]
    steps = [step for step, *_ in world.journal]
    order = ["describe", "reach present", "read_workload", "read_pod", "barrier", "leave"]
    assert sorted(order, key=steps.index) == order
    await world.round()
    assert "leave" not in world.done
    assert world.done >= {"describe"}
    assert world.status.memory.settling[0].settled_at is not None


async def test_nothing_is_read_for_members_that_are_known() -> None:
    world = await OperatorWorld().started()
    await world.round()
    assert not {"reach present", "read_pod", "read_node"} & world.done


async def test_a_pod_that_the_watch_has_not_shown_yet_is_among_the_carriers_of_the_member_that_it_joined_with() -> None:
    world = await OperatorWorld().started()
    world.end(2)
    await world.round()
    world.pods.is_lagging = True
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    await world.round()
    assert seat(world).carriers == ["u2b"]


async def test_a_member_is_seen_for_the_first_time_once_the_watch_has_passed_a_read_behind_its_description() -> None:
    world = await OperatorWorld().started()
    known = seat(world)
    world.kafka.join(world.id_of(2), LIVING)
    world.pods.barrier_works = False
    await world.round()
    assert seat(world) == known
    world.now_s += 60
    world.pods.barrier_works = True
    await world.round()
    assert (seat(world).member, seat(world).carriers) == (digest_of(LIVING), ["u2"])
    assert seat(world).first_seen.timestamp() == world.now_s


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_another_client_that_took_the_seat_before_the_pod_was_replaced_is_removed_as_the_member_of_that_pod(
    is_restarted: bool,
) -> None:
    """Ids are given to pods only: a client that holds one beside its pod is taken for it, also after a restart of the
    operator."""
    world = await OperatorWorld().started()
    world.kafka.join(world.id_of(2), "joined-beside-u2")
    await world.settled(2)
    world.end(2)
    world.start(2, "u2b", joins=False)
    await world.settled(2)
    if is_restarted:
        world.restart()
    await world.departs(3, "u2b")
    assert world.left == [("joined-beside-u2", world.id_of(2))]


# suspects -------------------------------------------------------------------------------------------------------------


def workload_is_unreadable(world: OperatorWorld) -> None:
    world.stores.workloads.clear()
    world.kube.problems["read_workload"] = problem_of(503, verb="get", resource="statefulsets", namespace="shop")


@pytest.mark.parametrize(
    "hurdle",
    [
        lambda world: world.kafka.problems.update(describe=UNREACHABLE),
        workload_is_unreadable,
        lambda world: world.declare(static_group(generation=2, mode="Suspended")),
        lambda world: world.declare(static_group(generation=2, mode="Observe")),
        lambda world: setattr(world.pods, "barrier_works", False),
    ],
    ids=["Kafka is away", "the workload cannot be read", "suspended", "mode Observe", "barriers fail"],
)
async def test_suspects_are_remembered_whatever_else_a_round_comes_to(hurdle: Callable[[OperatorWorld], None]) -> None:
    world = await OperatorWorld().started()
    hurdle(world)
    lose(world)
    await world.round()
    assert suspects(world) == ["u2"]


async def test_a_suspect_holds_only_members_that_joined_beside_it() -> None:
    world = await OperatorWorld().started()
    lose(world)
    await world.settled(2)
    assert seat(world).carriers == ["u2", "u2b"]
    world.scale(1)
    world.end(2, "u2b")
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["Suspect"]
    (message,) = (e.message for e in world.status.issues if e.kind.value == "Held")
    assert "pod web-2 (uid u2) on node n1 was there when it joined, and its end was not seen" in message


@pytest.mark.parametrize(
    ("least_s", "pod", "settle_s"),
    [
        (60.0, {}, 220.0),
        (300.0, {}, 300.0),
        (60.0, {"grace_s": 400}, 400.0),
        (60.0, {"session_timeouts_ms": (200_000,)}, 400.0),
    ],
    ids=[
        "twice the session timeout of the pods", "the setting", "the grace of a pod",
        "the longest of the session timeouts",
    ],
)  # fmt: skip
async def test_a_silence_lasts_as_long_as_the_longest_of_setting_sessions_and_grace(
    least_s: float, pod: dict[str, Any], settle_s: float
) -> None:
    world = await OperatorWorld(settle_s=least_s).started()
    world.remove_object(2)
    world.start(2, "u2b", joins=False, **pod)
    del world.kafka.members[world.id_of(2)]
    await world.round()
    await passes(world, settle_s - 20, step_s=20)
    assert suspects(world) == ["u2"]
    await passes(world, 20, step_s=20)
    assert suspects(world) == []


async def test_the_session_timeout_of_the_group_lengthens_a_silence_where_the_brokers_set_it() -> None:
    world = OperatorWorld(settle_s=60.0, groupProtocol="Consumer")
    world.kafka.group_type = GroupType.CONSUMER
    world.kafka.broker_bounds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=300_000
    )
    await world.started()
    world.remove_object(2)
    del world.kafka.members[world.id_of(2)]
    await world.round()
    await passes(world, 580, step_s=20)
    assert suspects(world) == ["u2"]
    await passes(world, 20, step_s=20)
    assert suspects(world) == []


async def test_a_suspect_whose_object_is_there_again_is_none_any_more() -> None:
    world = await OperatorWorld().started()
    shown = [v for v in world.kube.pods.values() if v.name != "web-2"]
    world.kube.resource_version += 1
    world.pods.lose(shown, world.kube.resource_version, "2-00000002")
    await world.round()
    assert suspects(world) == ["u2"]
    world._happens(world.kube.pods["shop", "web-2"])
    await world.round()
    assert suspects(world) == []
    await world.departs(3, "u2")
    assert left(world) == [world.id_of(2)]


# the member's own address ---------------------------------------------------------------------------------------------


async def at_addresses(group_type: GroupType, *, of_the_lost: str = "10.0.0.2") -> OperatorWorld:
    """Return a world in which web-2 was lost, and its successor joined from an address of its own."""
    world = OperatorWorld(groupProtocol="Auto")
    world.kafka.group_type = group_type
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, addresses=(of_the_lost if ordinal == 2 else f"10.0.0.{ordinal}",))
    await world.settled(2)
    world.remove_object(2)
    world.start(2, "u2b", joins=False, addresses=("10.0.0.9",))
    world.now_s += 5
    await world.round()
    world.kafka.hosts[LIVING] = "/10.0.0.9"
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    return world


@pytest.mark.parametrize(
    ("group_type", "carriers"), [(GroupType.CONSUMER, ["u2b"]), (GroupType.CLASSIC, ["u2", "u2b"])]
)
async def test_a_member_with_the_address_of_one_pod_is_of_that_pod_where_the_address_is_fresh(
    group_type: GroupType, carriers: list[str]
) -> None:
    world = await at_addresses(group_type)
    assert seat(world).carriers == carriers


async def test_an_address_that_a_suspect_had_too_names_no_pod() -> None:
    world = await at_addresses(GroupType.CONSUMER, of_the_lost="10.0.0.9")
    assert seat(world).carriers == ["u2", "u2b"]


async def test_a_member_that_one_description_did_not_show_is_still_that_of_its_pod() -> None:
    """Brokers that start again may answer before they have loaded all; the pod ends meanwhile."""
    world = await OperatorWorld().started()
    member_id = world.kafka.members.pop(world.id_of(2))
    await world.departs(2)
    world.kafka.join(world.id_of(2), member_id)
    await world.settled(6)
    assert left(world) == [world.id_of(2)]
