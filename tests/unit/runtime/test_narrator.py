"""Events and audit lines: a Warning only for what needs a person, every removal with its evidence."""

from __future__ import annotations

import json
import logging

import pytest

from staticgroup.core.consuming import Rebalance
from staticgroup.core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome, RebalanceOutcome
from staticgroup.kube.problem import problem_of

from .operator_world import CANARY, KEY, UNREACHABLE, OperatorWorld, static_group


def events_of(world: OperatorWorld, type_: str) -> list[str]:
    return [reason for t, reason, _ in world.kube.events if t == type_]


async def test_whole_life_of_a_rolling_restart_and_a_scale_down_posts_no_warning() -> None:
    world = await OperatorWorld().started()
    world.kube.events.clear()
    for ordinal in (2, 1, 0):
        uid = f"u{ordinal}"
        world.end(ordinal, uid)
        world.kafka.members.pop(world.id_of(ordinal))
        await world.round()
        assert world.condition("Ready")[0] == "True"
        world.start(ordinal, f"next-{uid}", ready_since_s=None)
        await world.round()
    world.scale(2)
    await world.round()
    assert world.condition("RemovalSettled")[1] == "RemovalInProgress"
    assert world.condition("Ready")[0] == "True"
    world.end(2, "next-u2")
    await world.settled()
    assert [i for _, i in world.left] == [world.id_of(2)]
    assert events_of(world, "Warning") == []
    assert events_of(world, "Normal") == ["MemberRemoved"]


async def test_removal_leaves_one_event_and_one_audit_line_with_pair_and_evidence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await OperatorWorld().started()
    world.scale(2)
    world.end(2)
    member_id = world.kafka.members[world.id_of(2)]
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        await world.settled(3)
    (line,) = [r.__dict__ for r in caplog.records if r.name == "staticgroup.audit"]
    assert (line["member_id"], line["instance_id"], line["outcome"]) == (member_id, world.id_of(2), "Removed")
    assert "pod web-2 uid u2 has ended: phase Succeeded, 1 of 1 containers terminated" in line["evidence"]
    (message,) = [m for _, reason, m in world.kube.events if reason == "MemberRemoved"]
    assert world.id_of(2) in message
    assert "has ended: " in message


async def test_rebalance_that_is_refused_says_where_the_cause_stands() -> None:
    world = await OperatorWorld().started()
    action = Rebalance(group_id="orders", assignor="range", topics=("payments",))
    for outcome, said in (
        (RebalanceOutcome.BEGUN, "Rebalanced group orders once, because nobody read payments"),
        (RebalanceOutcome.REFUSED, "nobody read payments; the coordinator refused it, see its log"),
        (RebalanceOutcome.UNKNOWN, "nobody read payments; the answer was lost"),
    ):
        await world.reconciler.narrator.rebalanced(world.stores.groups[KEY], action, outcome)
        assert world.kube.events[-1][1] == "GroupRebalanced"
        assert world.kube.events[-1][2].endswith(said)


async def test_ready_that_turns_false_is_one_event_and_its_return_another() -> None:
    world = await OperatorWorld().started()
    world.kube.events.clear()
    world.kafka.problems["describe"] = UNREACHABLE
    await world.settled(4)
    assert events_of(world, "Warning") == ["BrokersUnreachable"]
    world.kafka.problems.clear()
    await world.settled(4)
    assert world.kube.events[1:] == [("Normal", "Reconciled", world.condition("Ready")[2])]


async def test_state_that_is_not_known_yet_is_no_news() -> None:
    world = OperatorWorld()
    world.pods.watch_name = ""
    await world.round()
    assert world.condition("Injected")[0] == "Unknown"
    world.kube.events.clear()
    world.kafka.join("foreign")
    await world.round()
    assert world.condition("Ready")[0] == "Unknown"
    assert world.kube.events == []


async def test_suspending_is_the_users_own_act_and_no_alarm() -> None:
    world = await OperatorWorld().started()
    world.kube.events.clear()
    world.declare(static_group(generation=2, mode="Suspended"))
    await world.round()
    assert events_of(world, "Warning") == []


async def test_held_removal_is_an_event_only_when_its_guard_is_new() -> None:
    world = await OperatorWorld().started()
    world.scale(2)
    world.remove_object(2)
    world.kube.events.clear()
    await world.settled(5)
    assert events_of(world, "Warning").count("RemovalHeld") == 1


async def test_failed_event_stops_nothing() -> None:
    world = await OperatorWorld().started()
    world.kube.problems["post_event"] = problem_of(403, verb="create", resource="events")
    await world.departs(3)
    assert len(world.left) == 1
    assert world.condition("RemovalSettled")[1] == "Removed"


async def test_no_secret_in_status_events_metrics_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    """S13: a canary password goes through everything that can go wrong."""
    world = await OperatorWorld().started()
    with caplog.at_level(logging.DEBUG):
        for problem in KafkaProblemKind:
            world.kafka.problems["describe"] = KafkaProblem(kind=problem, message=f"what to do about {problem.value}")
            await world.round()
        world.kafka.problems.clear()
        world.scale(2)
        world.end(2)
        world.kafka.outcome = LeaveOutcome.NOT_AUTHORIZED
        await world.settled(2)
    seen = [json.dumps(world.kube.status_writes), repr(world.kube.events), repr(world.reconciler.memories._by_key)]
    seen += [repr(r.__dict__) for r in caplog.records]
    seen += [repr(s) for m in world.reconciler.metrics.registry.collect() for s in m.samples]
    seen += [repr(world.kafka.settings_seen), repr(world.connections._resolved)]
    assert CANARY in set(world.connections.secret_texts())
    assert not [text for text in seen if CANARY in text]
