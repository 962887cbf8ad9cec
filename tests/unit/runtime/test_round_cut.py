"""A round may be cut at any await, because its deadline has passed: what it did is known or is done again, never
half."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.core.group import LeaveOutcome
from staticgroup.kube.problem import KubeProblem, problem_of

from .operator_world import UNREACHABLE, OperatorWorld, departing, kafka_connection

CALLS_MAX = 40
LOST = problem_of(504, verb="patch", resource="staticgroups", namespace="shop")


class Cutting:
    """A gateway whose n-th call ends the round, before it took effect or after, when only its answer is lost."""

    def __init__(self, behind: Any, cut: Callable[[str], str]) -> None:
        self._behind, self._cut = behind, cut

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            moment = self._cut(name)
            if moment == "before":
                raise asyncio.CancelledError
            answer = await found(*arguments, **named)
            if moment == "after":
                raise asyncio.CancelledError
            return answer

        return call


async def cut_round(world: OperatorWorld, cut: Callable[[str], str]) -> bool:
    """Run one round that may be cut; returns whether it was."""
    reconciler = world.reconciler
    gatherer, kube = reconciler.gatherer, Cutting(world.kube, cut)
    world.ask_kafka(Cutting(world.kafka, cut))
    gatherer.kube = reconciler.narrator.kube = reconciler.memories.kube = kube  # type: ignore[assignment]
    gatherer.pods = Cutting(world.pods, cut)  # type: ignore[assignment]
    try:
        await world.round()
    except asyncio.CancelledError:
        return True
    finally:
        world.ask_kafka(world.kafka)
        gatherer.kube = reconciler.narrator.kube = reconciler.memories.kube = world.kube
        gatherer.pods = world.pods  # type: ignore[assignment]
    return False


def at_call(number: int, moment: str) -> Callable[[str], str]:
    """Cut at the n-th call, counted from 0."""
    seen = 0

    def cut(_: str) -> str:
        nonlocal seen
        seen += 1
        return moment if seen == number + 1 else ""

    return cut


def at(operation: str, moment: str) -> Callable[[str], str]:
    """Cut at every call of one kind."""
    return lambda name: moment if name == operation else ""


def seen_of(world: OperatorWorld) -> tuple[Any, ...]:
    """What users are left with, without times, and without the reason that names a removal whose answer was lost."""
    conditions = {(c.type, c.status.value) for c in world.status.conditions}
    exceptions = [(e.kind.value, e.reason) for e in world.status.issues]
    return (
        conditions, world.status.members, {s.id: s.carriers for s in world.status.memory.seats}, world.status.memory.suspects,
        exceptions,
    )  # fmt: skip


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_round_that_is_cut_at_any_call_comes_to_the_same_end(moment: str) -> None:
    undisturbed = await departing()
    await undisturbed.settled(10)
    cuts = 0
    for number in range(CALLS_MAX):
        world = await departing()
        gone = (world.kafka.members[world.id_of(2)], world.id_of(2))
        live = {i: m for i, m in world.kafka.members.items() if i != world.id_of(2)}
        if not await cut_round(world, at_call(number, moment)):
            break
        cuts += 1
        await world.settled(10)
        assert set(world.left) == {gone}
        assert world.kafka.members == live
        assert seen_of(world) == seen_of(undisturbed)
    assert 6 < cuts < CALLS_MAX


async def test_removal_that_was_acknowledged_is_remembered_and_has_its_audit_line_when_the_round_is_cut_right_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await OperatorWorld().started(4)
    world.scale(2)
    world.end(3)
    world.end(2)
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        assert await cut_round(world, at("post_event", "before"))
    acknowledged = [e.instance_id for e, outcome in world.kafka.leaves if outcome is LeaveOutcome.REMOVED]
    lines = [r.__dict__["instance_id"] for r in caplog.records if r.name == "staticgroup.audit"]
    assert sorted(lines) == sorted(acknowledged)
    assert acknowledged
    await world.round()
    assert {record.instance_id for record in world.status.memory.settling} >= set(acknowledged)


async def test_leave_whose_answer_was_cut_off_has_an_unknown_outcome_and_the_group_is_described_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await departing()
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        assert await cut_round(world, at("leave", "after"))
    assert [r.__dict__["outcome"] for r in caplog.records if r.name == "staticgroup.audit"] == ["Retry"]
    await world.round()
    assert world.did("describe")
    assert not world.did("leave")
    assert world.status.memory.settling == []


@pytest.mark.parametrize("is_cut", [True, False], ids=["the round is cut", "the answer is lost"])
async def test_status_that_was_written_unheard_does_not_stay_when_the_next_round_sees_otherwise(is_cut: bool) -> None:
    world = await OperatorWorld().started()
    await world.settled()
    world.kafka.problems["describe"] = UNREACHABLE
    landing = world.kube.apply_status

    async def lands_without_answer(*arguments: Any, **named: Any) -> KubeProblem:
        await landing(*arguments, **named)
        return LOST

    if is_cut:
        assert await cut_round(world, at("apply_status", "after"))
    else:
        world.reconciler.memories.kube = Cutting(world.kube, lambda _: "")
        world.reconciler.memories.kube.apply_status = lands_without_answer
        await world.round()
        world.reconciler.memories.kube = world.kube
    assert world.condition("Connected")[0] == "False"
    world.kafka.problems.clear()
    await world.round()
    assert world.condition("Connected")[0] == "True"


async def test_status_of_a_connection_whose_write_was_lost_is_written_again() -> None:
    world = OperatorWorld()
    plural, key = names.KAFKA_CONNECTION_PLURAL, ("shop", "kafka")
    world.kube.objects[plural, *key] = kafka_connection()
    reporter = world.reporter()

    def is_ready() -> bool:
        conditions = world.kube.objects[plural, *key]["status"]["conditions"]
        return {c["type"]: c["status"] for c in conditions}["Ready"] == "True"

    await reporter.reconcile(key)
    world.stores.put_connection(key, world.kube.objects[plural, *key])
    assert is_ready()
    world.kafka.problems["probe"] = UNREACHABLE
    reporter.kube = Cutting(world.kube, at("apply_status", "after"))
    with pytest.raises(asyncio.CancelledError):
        await reporter.reconcile(key)
    reporter.kube = world.kube
    assert not is_ready()
    world.kafka.problems.clear()
    await reporter.reconcile(key)
    assert is_ready()


@pytest.mark.parametrize(
    ("reported", "stored", "says"),
    [
        (
            "redpanda.2d339cd9-b540-484d-80da-16cd0650e49b", True,
            "0 brokers of cluster redpanda.2d339cd9-b540-484d-80da-16cd0650e49b answer.",
        ),
        (None, False, "0 brokers answer, which report no cluster id."),
        ("c" * 300, False, "0 brokers answer, which report a cluster id that cannot be shown."),
        ("a\x1b[2J", False, "0 brokers answer, which report a cluster id that cannot be shown."),
    ],
)  # fmt: skip
async def test_whatever_the_brokers_call_their_cluster_a_connection_gets_its_status(
    reported: str | None, stored: bool, says: str
) -> None:
    world = OperatorWorld()
    key = ("shop", "kafka")
    world.kube.objects[names.KAFKA_CONNECTION_PLURAL, *key] = kafka_connection()
    world.kafka.cluster_id = reported
    reporter = world.reporter()
    await reporter.reconcile(key)
    status = world.kube.objects[names.KAFKA_CONNECTION_PLURAL, *key]["status"]
    assert (status.get("clusterId"), status["conditions"][0]["message"]) == (reported if stored else None, says)


async def test_bounds_are_not_asked_for_after_a_describe_that_failed() -> None:
    """A silent broker costs one timeout a round, not two."""
    world = await OperatorWorld().started()
    world.now_s += 3600
    world.kafka.problems["describe"] = UNREACHABLE
    outcome = await world.round()
    assert outcome.failed
    assert not world.did("bounds")
    world.kafka.problems.clear()
    await world.round()
    assert world.did("bounds")
