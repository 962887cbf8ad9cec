"""Rows Y08 to Y10: Kafka's system tests of streams applications with static members."""

from __future__ import annotations

import pytest

from conformance.streams_app import GROUP as APPLICATION
from conformance.streams_app import App, describe, settle
from conformance.system_bench import Fleet, LoggedCoordinator, simulate, streams_apps
from coordinator_model.streams.messages import StreamsGroupDescribeRequest


def test_Y08_rolling_bounces_of_streams_threads_keep_one_generation() -> None:
    """streams_static_membership_test.test_rolling_bounces…, classic: 3 × 3 threads, 18 partitions, 3 rolling bounces.

    A stream thread is modelled as a consumer with a numbered instance id; Streams' own assignor and tasks are not.
    """

    async def story() -> None:
        fleet = Fleet(3, partitions=18, threads=3, session_timeout_ms=60_000)
        await fleet.start_all()
        assert {m.instance_id for m in (await fleet.world.view()).members} == {
            f"web-{n}-{t}" for n in range(3) for t in (1, 2, 3)
        }
        stable = max(fleet.world.meter.rounds)
        began = len(fleet.world.trace.entries)
        fleet.losses.clear()
        await fleet.bounce("rolling", range(3), times=3)
        joined = [dict(e.facts) for e in fleet.world.trace.entries[began:] if e.what == "joined"]
        assert [j["generation"] for j in joined] == [stable] * 27
        assert fleet.losses == {}

    simulate(story)


def test_Y08_rolling_bounces_of_streams_applications_leave_survivors_alone() -> None:
    """streams_static_membership_test.test_rolling_bounces… and …survivor_reconciliation,
    streams protocol (KIP-1071).
    """
    broker = LoggedCoordinator(18)
    apps = streams_apps(broker)
    for app in apps:
        app.start(0)
    settle(*apps, now_ms=1)
    assert sorted(len(t.tasks[0][1]) for a in apps for t in a.threads) == [2] * 9
    epoch = describe(broker).group_epoch
    now_ms = 1_000
    for _ in range(3):
        for bounced in apps:
            survivors = [a for a in apps if a is not bounced]
            seen = [(t.assignments, t.tasks, t.epoch) for a in survivors for t in a.threads]
            had = [t.tasks for t in bounced.threads]
            bounced.close(now_ms, leave=False)
            settle(*survivors, now_ms=now_ms + 1)
            bounced.start(now_ms + 2_000)
            settle(*apps, now_ms=now_ms + 3_000)
            assert [(t.assignments, t.tasks, t.epoch) for a in survivors for t in a.threads] == seen
            assert [t.tasks for t in bounced.threads] == had
            now_ms += 5_000
    assert describe(broker).group_epoch == epoch


@pytest.mark.parametrize("mode", ["all", "rolling"])
def test_Y09_process_ids_persist_and_no_broker_bounce_fences_a_thread(mode: str) -> None:
    """streams_static_membership_test.test_static_member_process_id_persisted_after_rejoin.

    That the process id is read from the state directory is the application's part and given here.
    """
    broker = LoggedCoordinator(18)
    apps = streams_apps(broker)
    for app in apps:
        app.start(0)
    settle(*apps, now_ms=1)
    epoch = describe(broker).group_epoch
    for together in (apps,) if mode == "all" else tuple([app] for app in apps):
        for app in together:
            app.close(10, leave=False)
        for app in together:
            app.start(20)
        settle(*apps, now_ms=30)
    for _ in range(3):
        broker = broker.successor(18)
        for app in apps:
            app.coordinator = broker
        seen = [t.assignments for a in apps for t in a.threads]
        settle(*apps, now_ms=40)
        assert [a.state for a in apps] == ["RUNNING"] * 3
        assert [t.assignments for a in apps for t in a.threads] == seen, "no thread had to join again"
        described = broker.handle(StreamsGroupDescribeRequest(group_ids=(APPLICATION,)), 50).response
        members = described.groups[0].members  # type: ignore[union-attr]  # a StreamsGroupDescribeResponse
        assert {(m.instance_id[:-2], m.process_id) for m in members} == {
            (f"consumer-{n}", f"process-{n}") for n in "ABC"
        }
    assert describe(broker).group_epoch == epoch


def test_Y10_conflicting_streams_application_ends_in_error_and_starts_after_the_stop() -> None:
    """streams_static_membership_test.test_fencing_static_streams_member, stage stable."""
    broker = LoggedCoordinator(18)
    apps = streams_apps(broker)
    for app in apps:
        app.start(0)
    settle(*apps, now_ms=1)
    epoch, seen = describe(broker).group_epoch, [t.assignments for a in apps for t in a.threads]
    conflict = App(broker, "conflict", "consumer-A", "process-conflict", count=3)
    conflict.start(2)
    settle(*apps, conflict, now_ms=3)
    assert conflict.state == "ERROR"
    assert [a.state for a in apps] == ["RUNNING"] * 3
    assert [t.assignments for a in apps for t in a.threads] == seen
    assert describe(broker).group_epoch == epoch
    for app in apps:
        app.close(10, leave=False)
    conflict.start(20)
    settle(conflict, now_ms=30)
    assert conflict.state == "RUNNING"
    assert all(t.tasks for t in conflict.threads)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 1, 2), (1, 3, 2, 0)])
def test_Y10_of_two_streams_applications_started_together_one_ends_in_error(order: tuple[int, ...]) -> None:
    """streams_static_membership_test.test_fencing_static_streams_member, stage all, in whatever order they come."""
    broker = LoggedCoordinator(18)
    apps = [*streams_apps(broker), App(broker, "conflict", "consumer-A", "process-conflict", count=3)]
    for index in order:
        apps[index].start(0)
    settle(*apps, now_ms=1, rounds=8)
    dead = [a for a in apps if a.state == "ERROR"]
    assert len(dead) == 1
    assert dead[0] is (apps[3] if order.index(0) < order.index(3) else apps[0])
    running = [a for a in apps if a is not dead[0]]
    assert sum(len(t.tasks[0][1]) for a in running for t in a.threads) == 18
