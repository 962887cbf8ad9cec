"""Rows S08 to S14: whole applications of streams groups, thread by thread."""

from __future__ import annotations

from conformance.answers import answered
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode

from .streams_app import ALL_FOUR, GROUP, App, coordinator, describe, epochs, settle


def test_S08_threads_are_members_with_numbered_instance_ids() -> None:
    """KafkaStreamsStaticMemberIntegrationTest 164."""
    broker = coordinator()
    app = App(broker, "a", "X", "process-a")
    app.start(0)
    settle(app, now_ms=1)
    members = describe(broker).members
    assert sorted(m.instance_id or "" for m in members) == ["X-1", "X-2"]
    assert [m.member_epoch for m in members] == [describe(broker).group_epoch] * 2


def test_S09_leave_group_close_hands_the_tasks_over() -> None:
    """KafkaStreamsStaticMemberIntegrationTest 188."""
    broker = coordinator()
    first, second = App(broker, "a", "X", "process-a", count=1), App(broker, "b", "Y", "process-b", count=1)
    for app in (first, second):
        app.start(0)
    settle(first, second, now_ms=1)
    seen = second.threads[0].assignments
    first.close(2, leave=True)
    settle(second, now_ms=3)
    assert [m.instance_id for m in describe(broker).members] == ["Y-1"]
    assert (second.threads[0].assignments - seen, second.threads[0].tasks) == (1, ALL_FOUR)


def test_S10_default_close_keeps_the_seat_and_the_restart_takes_it() -> None:
    """KafkaStreamsStaticMemberIntegrationTest 249, with the same state directory: not one epoch, not one move."""
    broker = coordinator()
    first, second = App(broker, "a", "X", "process-a", count=1), App(broker, "b", "Y", "process-b", count=1)
    for app in (first, second):
        app.start(0)
    settle(first, second, now_ms=1)
    epoch, tasks, seen = describe(broker).group_epoch, first.threads[0].tasks, second.threads[0].assignments
    old_id = first.threads[0].member_id
    first.close(2, leave=False)
    assert sorted(m.member_epoch for m in describe(broker).members) == [-2, epoch]
    second.beat(3)
    first.start(4)
    settle(first, second, now_ms=5)
    assert first.threads[0].member_id != old_id
    assert (first.threads[0].tasks, second.threads[0].assignments) == (tasks, seen)
    assert epochs(broker) == (epoch, {first.threads[0].member_id: epoch, second.threads[0].member_id: epoch})


def test_S11_no_return_within_the_groups_session_removes_the_member() -> None:
    """KafkaStreamsStaticMemberIntegrationTest 378: group session 1 000 ms, heartbeat 100 ms."""
    broker = coordinator(
        streams_min_session_timeout_ms=1_000,
        streams_min_heartbeat_interval_ms=100,
        streams_max_heartbeat_interval_ms=900,
    )
    configs = (("streams.session.timeout.ms", "1000"), ("streams.heartbeat.interval.ms", "100"))
    altered = answered(broker.handle(AlterGroupConfigRequest(group_id=GROUP, configs=configs), 0).response)
    assert altered.error_code is ErrorCode.NONE
    app = App(broker, "a", "X", "process-a", count=1)
    app.start(0)
    epoch = describe(broker).group_epoch
    app.close(50, leave=False)
    broker.expire(999)
    assert [m.member_epoch for m in describe(broker).members] == [-2]
    broker.expire(1_000)
    assert (describe(broker).members, describe(broker).group_epoch) == ((), epoch + 1)


def test_S12_a_second_process_with_a_used_instance_ends_in_error() -> None:
    """KafkaStreamsStaticMemberIntegrationTest 446."""
    broker = coordinator()
    apps = [App(broker, "a", "X", "process-a", count=1), App(broker, "b", "Y", "process-b", count=1)]
    for app in apps:
        app.start(0)
    settle(*apps, now_ms=1)
    before, seen = epochs(broker), [app.threads[0].assignments for app in apps]
    double = App(broker, "c", "X", "process-c", count=1)
    double.start(2)
    settle(*apps, double, now_ms=3)
    assert double.state == "ERROR"
    assert (epochs(broker), [app.threads[0].assignments for app in apps]) == (before, seen)
    assert [app.state for app in apps] == ["RUNNING", "RUNNING"]


def test_S13_removing_a_thread_moves_its_tasks_to_the_others() -> None:
    """AdjustStreamThreadCountTest 241."""
    broker = coordinator()
    app = App(broker, "a", "X", "process-a")
    app.start(0)
    settle(app, now_ms=1)
    app.remove_thread(2)
    settle(app, now_ms=3)
    assert ([m.instance_id for m in describe(broker).members], app.threads[0].tasks) == (["X-1"], ALL_FOUR)
    assert app.state == "RUNNING"


def test_S14_close_options() -> None:
    """CloseOptionsIntegrationTest: LEAVE_GROUP empties the group;
    the default of a static application leaves all at -2.
    """
    broker = coordinator()
    app = App(broker, "a", "X", "process-a")
    app.start(0)
    settle(app, now_ms=1)
    app.close(2, leave=False)
    assert [m.member_epoch for m in describe(broker).members] == [-2, -2]
    app.start(3)
    app.close(4, leave=True)
    assert describe(broker).group_state == "Empty"
    dynamic = App(broker, "b", None, "process-b")
    dynamic.start(5)
    dynamic.close(6, leave=False)
    assert describe(broker).group_state == "Empty"
