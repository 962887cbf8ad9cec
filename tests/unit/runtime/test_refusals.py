"""A status that the API server refuses: said once with its remedy, counted, asked again with back-off, and noticed when
it ends."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.kube.problem import KubeProblem, KubeProblemKind, problem_of
from staticgroup.runtime.memory.pace import BURST

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group
from .stories import group_body, put

RESOURCE = "staticgroups.staticgroup.io/status"


def refusal(status: int, text: str = "") -> KubeProblem:
    return problem_of(status, verb="patch", resource=RESOURCE, namespace="shop", text=text)


UNDECLARED = refusal(500, "failed to create typed patch object: .status.memory.seats: field not declared in schema")


def refusals(world: OperatorWorld) -> list[str]:
    return [message for type_, reason, message in world.kube.events if (type_, reason) == ("Warning", "StatusRefused")]


def counted(world: OperatorWorld, kind: KubeProblemKind) -> float:
    found = world.reconciler.metrics.registry.get_sample_value(
        "staticgroup_status_refused_total", {"lease": "", "reason": kind.value}
    )
    return found or 0.0


def asked(world: OperatorWorld) -> bool:
    return ("apply_status", "orders") in world.journal


async def refused_world(problem: KubeProblem = UNDECLARED) -> OperatorWorld:
    """Return a world with something new to write, of which every write is refused."""
    world = await OperatorWorld().started()
    world.kube.events.clear()
    world.kube.problems["apply_status"] = problem
    world.end(2)
    world.kafka.members.pop(world.id_of(2))
    return world


@pytest.mark.parametrize(
    ("problem", "kind", "remedy"),
    [
        (UNDECLARED, KubeProblemKind.UNDECLARED, "kubectl staticgroup crds | kubectl apply -f -"),
        (
            refusal(400, "x: field not declared in schema"), KubeProblemKind.UNDECLARED,
            "kubectl staticgroup crds | kubectl apply -f -",
        ),
        (refusal(422), KubeProblemKind.INVALID, "kubectl staticgroup crds | kubectl apply -f -"),
        (refusal(403), KubeProblemKind.FORBIDDEN, "grant patch on staticgroups/status"),
        (refusal(413), KubeProblemKind.TOO_LARGE, "split"),
        (refusal(500, "etcdserver: request is too large"), KubeProblemKind.TOO_LARGE, "split"),
    ],
)  # fmt: skip
async def test_refusal_is_one_event_with_its_remedy_and_counted(
    problem: KubeProblem, kind: KubeProblemKind, remedy: str
) -> None:
    world = await refused_world(problem)
    for _ in range(20):
        await world.round()
        world.now_s += 5
    (message,) = refusals(world)
    assert remedy in message
    assert problem.kind is kind
    assert counted(world, kind) > 1
    assert [reason for _, reason, _ in world.kube.events].count("StatusRefused") == 1


async def test_another_cause_is_an_event_too_and_the_same_one_again_after_it_was_over() -> None:
    world = await refused_world()
    await world.round()
    world.kube.problems["apply_status"] = refusal(403)
    world.now_s += 60
    await world.round()
    assert len(refusals(world)) == 2
    del world.kube.problems["apply_status"]
    world.now_s += 60
    await world.round()
    world.kube.problems["apply_status"] = refusal(403)
    world.start(2, "u2-next")
    world.now_s += 60
    await world.round()
    assert len(refusals(world)) == 3


async def test_refused_status_is_asked_again_with_back_off_whatever_asks_for_rounds() -> None:
    world = await refused_world()
    asked_s = []
    for _ in range(600):
        await world.round()
        if asked(world):
            asked_s.append(world.now_s)
        world.now_s += 1
    gaps_s = [after - before for before, after in pairwise(asked_s)]
    assert gaps_s == sorted(gaps_s)
    assert gaps_s[-1] <= 60
    assert len(asked_s) <= 20


async def test_round_of_a_refused_status_comes_back_when_it_is_due_and_does_not_count_against_its_brokers() -> None:
    world = await refused_world()
    for _ in range(12):
        outcome = await world.round()
        assert not outcome.failed
        assert outcome.requeue_after_s is not None
        assert 0 < outcome.requeue_after_s <= 30
        world.now_s += outcome.requeue_after_s
    begun_s = world.now_s
    del world.kube.problems["apply_status"]
    while not asked(world):
        outcome = await world.round()
        assert outcome.requeue_after_s is not None
        world.now_s += 0 if asked(world) else outcome.requeue_after_s
    assert world.now_s - begun_s <= 60
    assert world.reconciler.memories.unstored_since_s(0.0) is None


async def test_suspended_staticgroup_asks_again_too() -> None:
    world = await refused_world()
    world.declare(static_group(generation=2, mode="Suspended"))
    outcome = await world.round()
    assert (outcome.failed, len(refusals(world))) == (False, 1)
    assert outcome.requeue_after_s is not None
    world.now_s += outcome.requeue_after_s
    del world.kube.problems["apply_status"]
    await world.round()
    assert world.condition("Ready")[1] == "Suspended"


async def test_stored_position_waits_for_what_was_refused_and_nothing_is_read_again_for_it() -> None:
    world = await refused_world()
    await world.round()
    assert world.reconciler.memories.unstored_since_s(0.0) is not None
    world.now_s += 5
    await world.round()
    assert not [entry for entry in world.journal if entry[0] == "read_object"]


async def test_server_that_does_not_answer_refuses_nothing() -> None:
    world = await refused_world(refusal(503))
    outcome = await world.round()
    assert outcome.failed
    assert refusals(world) == []


async def test_change_of_ready_that_cannot_be_written_is_one_event(caplog: pytest.LogCaptureFixture) -> None:
    world = await OperatorWorld().started()
    world.kube.events.clear()
    world.kube.problems["apply_status"] = UNDECLARED
    world.kafka.problems["describe"] = UNREACHABLE
    with caplog.at_level(logging.WARNING, "staticgroup"):
        for _ in range(10):
            await world.round()
            world.now_s += 5
    assert [reason for _, reason, _ in world.kube.events].count("BrokersUnreachable") == 1
    assert len([r for r in caplog.records if "refuse" in r.message]) == 1


async def test_deleted_staticgroup_is_forgotten_and_its_successor_is_reported_again() -> None:
    world = await refused_world()
    await world.round()
    world.delete_group()
    world.declare(static_group(uid="sg-2"))
    await world.round()
    assert len(refusals(world)) == 2


async def test_refused_status_waits_for_no_turn_and_takes_none() -> None:
    """Its own times are seldom enough, and thousands of refused ones shall not make the others wait."""
    world = await refused_world()
    pace = world.reconciler.memories.pace
    for _ in range(5):
        await world.round()
        world.now_s += 60
    for n in range(BURST + 40):
        pace.turn(("shop", f"g{n}"), world.now_s)
    due_s = pace.turn(("shop", "other"), world.now_s)
    assert due_s > world.now_s
    await world.round()
    assert asked(world)
    pace.forget(("shop", "other"))
    assert pace.turn(("shop", "next"), world.now_s) - due_s < 1


# a status that was sent and not yet seen: an answer, the watch or a read shows what became of it, and only a status
# of another writer is written over


LOST = problem_of(504, verb="patch", resource="staticgroups", namespace="shop")


async def with_lost_answer() -> OperatorWorld:
    """Return a world whose last status reached the API server, but whose watch did not deliver it."""
    world = await OperatorWorld().started()
    landing = world.kube.apply_status

    async def lands_without_answer(*arguments: Any, **named: Any) -> KubeProblem:
        await landing(*arguments, **named)
        return LOST

    world.kube.apply_status = lands_without_answer  # type: ignore[method-assign, assignment]
    del world.kafka.members[world.id_of(2)]
    assert (await world.round()).failed
    assert world.reconciler.memories.unstored_since_s(0.0) is not None, "the stored position waits"
    world.kube.apply_status = landing  # type: ignore[method-assign]
    return world


@pytest.mark.parametrize("is_shown", [True, False])
async def test_status_whose_answer_was_lost_is_found_and_not_written_again(is_shown: bool) -> None:
    world = await with_lost_answer()
    if is_shown:
        put(world)
    await world.round()
    assert not world.did("apply_status")
    assert world.reconciler.memories.unstored_since_s(0.0) is None


async def test_status_that_was_lost_on_its_way_is_written_again() -> None:
    world = await OperatorWorld().started()
    world.kube.problems["apply_status"] = LOST
    del world.kafka.members[world.id_of(2)]
    assert (await world.round()).failed
    world.kube.problems.clear()
    await world.round()
    assert world.members.joined == 2


async def test_status_that_somebody_wrote_over_is_repaired_though_the_first_try_gets_no_answer() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    before = world.status
    put(world, status=group_body(world)["status"] | {"groupState": "Empty"})
    world.kube.problems["apply_status"] = LOST
    for _ in range(2):
        assert (await world.round()).failed
    world.kube.problems.clear()
    await world.round()
    assert world.status == before


async def test_status_of_somebody_else_is_read_once_and_repaired_with_one_write() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    writes = len(world.kube.status_writes)
    put(world, status=group_body(world)["status"] | {"groupState": "Empty"})
    await world.round()
    assert len(world.did("read_object")) == 1
    await world.settled(3)
    assert len(world.kube.status_writes) == writes + 1
    assert world.stores.groups[KEY].status != world.status == StaticGroupStatus.from_wire(group_body(world)["status"])
