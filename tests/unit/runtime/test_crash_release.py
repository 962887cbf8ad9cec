"""Crash release in whole rounds: what a crash of a KIP-848 member's process comes to, step by step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, ReleaseOutcome
from unit.core.crashes import backs_off, crashed, over, runs

from .operator_world import KEY, OperatorWorld

GHOST = "consumer-1"


async def consuming(removal: str | None = "DepartedAndCrashed", **spec: Any) -> OperatorWorld:
    """Two pods of a KIP-848 group, each with a container that the operator has seen run for minutes."""
    wanted = {"groupProtocol": "Auto"} | ({} if removal is None else {"removal": removal}) | spec
    world = OperatorWorld(**wanted)
    world.kafka.group_type = GroupType.CONSUMER
    await world.started(2, required=(runs(),), phase_written_at_s=world.now_s)
    world.now_s += 20
    return world


def edit(world: OperatorWorld, **spec: Any) -> None:
    """Edit the StaticGroup."""
    body = world.kube.objects["staticgroups", "shop", "orders"]
    metadata = body["metadata"] | {"generation": body["metadata"]["generation"] + 1}
    world.declare(body | {"metadata": metadata, "spec": body["spec"] | spec})


def crashes(world: OperatorWorld, ordinal: int = 0, *, seconds_ago: float = 0.5, **changes: Any) -> None:
    """Let the container of a pod end without leaving; its kubelet says so."""
    ended_s = world.now_s - seconds_ago
    shows(world, crashed(last_end=over(finished_at_s=ended_s)), ordinal, **changes)


async def crashing() -> OperatorWorld:
    world = await consuming()
    crashes(world)
    return world


def shows(world: OperatorWorld, container: Any, ordinal: int = 0, **changes: Any) -> None:
    values = {"required": (container,), "ready_since_s": None, "phase_written_at_s": world.now_s} | changes
    world.start(ordinal, joins=False, **values)


def released(world: OperatorWorld) -> list[tuple[str, str]]:
    return [(e.member_id, e.instance_id) for e, _ in world.kafka.releases]


def reasons(world: OperatorWorld) -> list[str]:
    return [e.reason for e in world.status.issues]


@pytest.mark.parametrize("restarted", [False, True])
async def test_process_that_is_said_to_be_over_by_its_back_off_or_its_next_run_is_released(restarted: bool) -> None:
    world = await consuming()
    end = over(finished_at_s=world.now_s - 1)
    shows(world, runs(run="b", restarts=1, after=end) if restarted else backs_off(last_end=end))
    await world.round()
    assert released(world) == [(GHOST, world.id_of(0))]


async def test_member_of_a_crashed_process_is_released_and_its_restart_joins_with_the_seat_kept() -> None:
    world = await crashing()
    await world.round()
    assert released(world) == [(GHOST, world.id_of(0))]
    assert GHOST in world.kafka.away
    assert world.kafka.members[world.id_of(0)] == GHOST
    assert world.left == []
    world.kafka.join(world.id_of(0), "its-successor")
    world.now_s += 1
    await world.round()
    assert len(world.kafka.releases) == 1
    assert world.condition("MembershipComplete")[0] == "True"


async def test_release_follows_describe_then_reads_then_barrier_then_chains_in_one_round() -> None:
    world = await crashing()
    await world.round()
    steps = [step for step, *_ in world.journal]
    safe = ["describe", "read_workload", "read_pod", "barrier", "chain", "release"]
    last = {step: len(steps) - 1 - steps[::-1].index(step) for step in safe}
    assert sorted(safe, key=last.__getitem__) == safe
    assert (steps.count("describe"), steps.count("release")) == (1, 1)


async def test_status_stays_the_same_while_the_pod_is_locked_out() -> None:
    world = await consuming(None)
    crashes(world)
    await world.round()
    writes = len(world.kube.status_writes)
    await world.settled(4, step_s=5)
    assert len(world.kube.status_writes) == writes


async def test_forced_observe_sends_nothing() -> None:
    world = await consuming()
    world.force_observe = True
    world.reconciler.force_observe = True
    crashes(world)
    await world.settled(3)
    assert released(world) == []
    assert reasons(world) == ["LockedOut"]


async def test_restarted_operator_remembers_since_when_the_member_was_there_and_releases_it() -> None:
    world = await consuming()
    world.restart()
    await world.settled(2)
    crashes(world)
    world.restart()
    await world.settled(1)
    assert released(world) == [(GHOST, world.id_of(0))]


async def test_successor_that_joined_before_the_release_is_fenced_off_by_the_compare_and_set() -> None:
    """The round acts on what it described; a process that took the seat since has another member id."""
    world = await crashing()
    world.kafka.before["release"] = lambda: world.kafka.join(world.id_of(0), "its-successor") and None
    await world.round()
    assert [o for _, o in world.kafka.releases] == [ReleaseOutcome.FENCED]
    assert "its-successor" not in world.kafka.away
    await world.settled(3)
    assert len(world.kafka.releases) == 1


async def test_end_that_arrives_while_the_group_is_described_is_acted_upon_at_once() -> None:
    """The member is described, so it is of the run that was there well before, whose end was reported since."""
    world = await consuming()

    def crash() -> None:
        world.now_s += 0.2
        crashes(world)

    world.kafka.before["describe"] = crash
    await world.round()
    assert released(world) == [(GHOST, world.id_of(0))]


async def test_member_that_is_back_after_its_release_is_alive_and_left_alone() -> None:
    world = await crashing()
    await world.round()
    world.kafka.away.clear()
    await world.settled(3)
    assert len(world.kafka.releases) == 1
    assert reasons(world) == ["ReleasedBefore"]


async def test_release_whose_answer_was_lost_is_not_sent_again() -> None:
    """The coordinator may have acted, and a member that comes back after that is alive."""
    world = await crashing()

    async def lost() -> None:
        raise asyncio.CancelledError

    world.kafka.before["release"] = lost
    with pytest.raises(asyncio.CancelledError):
        await world.round()
    await world.settled(2)
    assert released(world) == []
    assert reasons(world) == ["ReleasedBefore"]


async def test_release_that_could_not_be_sent_is_tried_again() -> None:
    world = await crashing()
    world.kafka.problems["release"] = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    await world.round()
    assert world.condition("Connected")[0] == "False"
    world.kafka.problems.clear()
    world.now_s += 5
    await world.round()
    assert released(world) == [(GHOST, world.id_of(0))]


async def test_replica_that_lost_its_lease_sends_nothing() -> None:
    world = await crashing()
    world.kube.before["read_pod"] = lambda: setattr(world, "is_holder", False)
    await world.round()
    assert released(world) == []


async def test_staticgroup_that_was_edited_since_the_round_began_sends_nothing() -> None:
    world = await crashing()
    world.kube.before["read_pod"] = lambda: edit(world, removal="Never")
    await world.round()
    assert released(world) == []


async def test_release_appears_as_event_audit_line_and_metrics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "staticgroup.audit")
    world = await crashing()
    await world.round()
    ((kind, reason, message),) = [e for e in world.kube.events if e[1] == "MemberReleased"]
    assert kind == "Normal"
    assert reason == "MemberReleased"
    assert world.id_of(0) in message
    assert "containerd://app-a ended at" in message
    (line,) = [r for r in caplog.records if r.message == "member release"]
    assert vars(line)["outcome"] == "Released"
    assert vars(line)["member_id"] == GHOST
    registry = world.reconciler.metrics.registry
    labels = {"namespace": "shop", "staticgroup": "orders"}
    assert registry.get_sample_value("staticgroup_members_released_total", labels) == 1
    assert registry.get_sample_value("staticgroup_release_outcomes_total", {"outcome": "Released"}) == 1
    assert registry.get_sample_value("staticgroup_end_to_release_seconds_count") == 1


async def test_no_member_is_released_while_the_pod_watch_is_not_whole() -> None:
    world = await crashing()
    name, world.pods.watch_name = world.pods.watch_name, ""
    await world.settled(2)
    assert released(world) == []
    world.pods.watch_name = name
    await world.settled(1)
    assert released(world) == [(GHOST, world.id_of(0))]


async def test_successor_that_was_described_while_the_clock_was_behind_is_not_taken_for_the_crashed_member() -> None:
    """A machine that was stopped for half a minute goes on: its clock is set once the group was read, before the pods
    are."""
    world = await consuming()
    ended_s = world.now_s + 1
    world.now_s += 5
    world.set_clock(-30)
    world.clock_ahead_s = 30.0  # as each answer of the API server says
    world.kafka.join(world.id_of(0), "its-successor")
    await world.round()
    world.set_clock(30)
    world.clock_ahead_s = 0.0
    restarted = runs(run="b", restarts=1, after=over(finished_at_s=ended_s))
    shows(world, restarted)
    for _ in range(3):
        world.now_s += 1
        await world.round()
    assert released(world) == []


@pytest.mark.parametrize("ahead_s", [0, 9])
async def test_successor_is_not_released_for_an_end_that_the_kubelet_reports_late_by_a_clock_that_is_ahead(
    ahead_s: float,
) -> None:
    """The clocks of node and operator are within ten seconds; more than that is no premise of a release."""
    world = await consuming()
    ended_s = world.now_s
    world.kafka.away.add(GHOST)
    await world.round()
    world.now_s += 2
    world.kafka.join(world.id_of(0), "its-successor")
    await world.round()
    world.now_s = ended_s + 17
    shows(world, runs(run="b", restarts=1, after=over(finished_at_s=ended_s + ahead_s)))
    for _ in range(3):
        await world.round()
        world.now_s += 1
    assert released(world) == []


async def test_a_lock_out_is_reported_for_no_longer_than_a_session_though_nothing_else_happens() -> None:
    """The container of a helper ends, whose ids nobody knows; the member lives in the other one, as the length of its
    session shows."""
    world = await consuming()
    helper = crashed("helper", last_end=over("helper", finished_at_s=world.now_s + 0.5))
    for other in (runs("helper"), helper):
        world.start(0, joins=False, required=(runs(), other), phase_written_at_s=world.now_s)
        world.now_s += 1
    world.reconciler.memories.mark_changed(KEY)
    seen = []
    for _ in range(8):
        await world.look()
        seen.append(reasons(world))
        world.now_s += 30
    assert seen[0] == ["ProcessMayLive"]
    assert seen[5:] == [[], [], []]
