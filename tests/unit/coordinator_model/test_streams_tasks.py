"""Which tasks a streams member gets, and how one moves from member to member."""

from __future__ import annotations

from dataclasses import replace

from conformance.answers import answered
from coordinator_model.assignors.subscription import to_topic_partitions
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.streams import assignor as streams_assignor
from coordinator_model.streams.member import (
    CurrentAssignment,
    HeldTasks,
    Holders,
    Member,
    MemberMetadata,
    MemberState,
    Task,
    Tasks,
    reconcile,
)
from coordinator_model.streams.messages import Subtopology, Topology

from .streams_bench import GROUP, beat, coordinator, group, join, send


def test_standbys_go_to_other_processes_and_take_over() -> None:
    """StickyTaskAssignorTest: a stateful task's standby is elsewhere, and becomes active when its owner is gone."""
    broker = coordinator(2, streams_num_standby_replicas=1)
    broker.handle(join("m1", "p"), 0)
    broker.handle(join("m2", "q"), 1)
    for _ in range(4):
        for member_id in ("m1", "m2"):
            held = group(broker).members[member_id].current
            owned = {"standby_tasks": to_topic_partitions(held.assigned.standby), "warmup_tasks": ()}
            broker.handle(beat(member_id, held.member_epoch, to_topic_partitions(held.assigned.active), **owned), 2)
    held_by = {m: member.current.assigned for m, member in group(broker).members.items()}
    assert set(held_by["m1"].active) | set(held_by["m2"].active) == {("s", 0), ("s", 1)}
    assert held_by["m1"].standby == frozenset(held_by["m2"].active)
    broker.handle(beat("m2", -1), 3)
    taken = send(broker, beat("m1", group(broker).members["m1"].current.member_epoch), 4)
    assert (taken.active_tasks, taken.standby_tasks) == ((("s", (0, 1)),), ())


def test_a_lost_task_goes_to_its_standby_rather_than_to_the_least_loaded() -> None:
    """StickyTaskAssignorTest: state decides before load."""
    members = {m: Member(m, MemberMetadata(process_id=m)) for m in ("m1", "m2")}
    topology = Topology(0, (Subtopology("s", ("foo",), is_stateful=True),))
    targets = {"m2": Tasks(standby=frozenset({A}))}
    assigned = streams_assignor.assign(members, targets, topology, TopicImage({"foo": 2}), 0)
    assert (assigned["m2"].active, assigned["m1"].active) == (frozenset({A}), frozenset({B}))


def test_groups_have_their_own_settings_within_the_brokers_bounds() -> None:
    """testStreamsGroupDynamicConfigs, testStreamsGroupEvaluatedConfigs: standbys, delay, session, interval."""
    broker = coordinator(2)

    def alter(name: str, value: str) -> ErrorCode:
        request = AlterGroupConfigRequest(group_id=GROUP, configs=((f"streams.{name}", value),))
        return answered(broker.handle(request, 0).response).error_code

    assert alter("num.standby.replicas", "1") is ErrorCode.NONE
    assert alter("initial.rebalance.delay.ms", "2000") is ErrorCode.NONE
    assert alter("session.timeout.ms", "50000") is ErrorCode.NONE
    assert alter("heartbeat.interval.ms", "6000") is ErrorCode.NONE
    wrong = [
        ("num.standby.replicas", "3"),
        ("num.standby.replicas", "-1"),
        ("initial.rebalance.delay.ms", "-1"),
        ("session.timeout.ms", "44999"),
        ("session.timeout.ms", "60001"),
        ("heartbeat.interval.ms", "15001"),
        ("assignment.interval.ms", "15001"),
    ]
    assert [alter(name, value) for name, value in wrong] == [ErrorCode.INVALID_CONFIG] * len(wrong)
    assert send(broker, join("m1"), 0).heartbeat_interval_ms == 6_000
    assert broker.timers.deadline_ms(("streams-initial", GROUP)) == 2_000
    assert broker.timers.deadline_ms(("streams-session", GROUP, "m1")) == 50_000
    assert group(broker).metadata.num_standby_replicas == 1


def test_number_of_standbys_changed_bumps_the_epoch_at_the_next_heartbeat() -> None:
    """testStreamsGroupEpochIncreaseWithNumStandbyReplicasConfigChanges."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.settings = replace(broker.settings, streams_num_standby_replicas=1)
    assert send(broker, beat("m1", 2), 10).member_epoch == 3
    assert broker.handle(beat("m1", 3), 20).records == ()


def test_a_task_moves_only_after_it_was_released() -> None:
    """testStreamsReconciliationProcess, reduced to two members."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    joined = send(broker, join("m2", "q"), 1)
    assert (joined.member_epoch, joined.active_tasks) == (3, ())
    assert group(broker).state == "Reconciling"
    assert send(broker, beat("m1", 2, (("s", (0, 1)),)), 2).active_tasks == (("s", (0,)),)
    assert send(broker, beat("m2", 3, ()), 3).active_tasks is None
    assert send(broker, beat("m1", 2), 4).member_epoch == 2
    assert send(broker, beat("m1", 2, (("s", (0,)),)), 5).member_epoch == 3
    assert group(broker).state == "Reconciling"
    assert send(broker, beat("m2", 3, ()), 6).active_tasks == (("s", (1,)),)
    assert group(broker).state == "Stable"


def current(state: MemberState = MemberState.STABLE, epoch: int = 1, **held: frozenset[Task]) -> CurrentAssignment:
    active = dict.fromkeys(held.get("active", frozenset()), epoch)
    tasks = HeldTasks(active, held.get("standby", frozenset()), held.get("warmup", frozenset()))
    return CurrentAssignment(epoch, epoch - 1, state, tasks)


def step(start: CurrentAssignment, target: Tasks, holders: Holders, owned: Tasks | None = None) -> CurrentAssignment:
    return reconcile(Member("m", MemberMetadata(process_id="p"), start), 2, target, holders, owned)


A, B = ("s", 0), ("s", 1)


def test_a_standby_becomes_active_in_place_once_the_owner_released() -> None:
    """CurrentAssignmentBuilderTest, promotion: until then the member keeps the standby and reveals no revocation."""
    start = current(standby=frozenset({A}))
    target = Tasks(active=frozenset({A}))
    waiting = step(start, target, Holders(active={A: "q"}, standby={A: {"p"}}))
    assert (waiting.state, waiting.member_epoch) == (MemberState.UNRELEASED_TASKS, 2)
    assert (waiting.assigned.standby, dict(waiting.assigned.active)) == (frozenset({A}), {})
    granted = step(waiting, target, Holders(standby={A: {"p"}}))
    assert (granted.state, dict(granted.assigned.active), granted.assigned.standby) == (
        MemberState.STABLE, {A: 2}, frozenset(),
    )
    assert not granted.pending_revocation


def test_a_standby_stays_until_the_member_has_revoked_what_it_must() -> None:
    """CurrentAssignmentBuilderTest: no grant while a revocation of the same member is open, and no lost replica."""
    start = replace(current(standby=frozenset({A})), assigned=HeldTasks({B: 1}, frozenset({A})))
    target = Tasks(active=frozenset({A}))
    revoking = step(start, target, Holders(active={B: "p"}, standby={A: {"p"}}))
    assert (revoking.state, dict(revoking.assigned.active), revoking.assigned.standby) == (
        MemberState.UNREVOKED_TASKS, {}, frozenset({A}),
    )
    assert (dict(revoking.pending_revocation.active), revoking.pending_revocation.standby) == ({B: 1}, frozenset())
    done = step(revoking, target, Holders(active={B: "p"}, standby={A: {"p"}}), Tasks(standby=frozenset({A})))
    assert (done.state, dict(done.assigned.active), done.assigned.standby) == (MemberState.STABLE, {A: 2}, frozenset())


def test_an_active_task_becomes_standby_in_place_and_is_still_acknowledged() -> None:
    """CurrentAssignmentBuilderTest, demotion: both halves in one answer, but the group must see the release."""
    start = current(active=frozenset({A}))
    revoking = step(start, Tasks(standby=frozenset({A})), Holders(active={A: "p"}))
    assert (revoking.state, revoking.member_epoch) == (MemberState.UNREVOKED_TASKS, 1)
    assert (revoking.assigned.standby, dict(revoking.pending_revocation.active)) == (frozenset({A}), {A: 1})
    standby = Tasks(standby=frozenset({A}))
    acknowledged = step(revoking, standby, Holders(active={A: "p"}), standby)
    assert (acknowledged.state, acknowledged.member_epoch) == (MemberState.STABLE, 2)


def test_a_warmup_becomes_standby_and_back_without_a_revocation() -> None:
    """CurrentAssignmentBuilderTest, replica roles."""
    warm = step(current(standby=frozenset({A})), Tasks(warmup=frozenset({A})), Holders(standby={A: {"p"}}))
    assert (warm.state, warm.assigned.warmup, warm.assigned.standby) == (
        MemberState.STABLE, frozenset({A}), frozenset(),
    )
    cold = step(current(warmup=frozenset({A})), Tasks(standby=frozenset({A})), Holders(warmup={A: {"p"}}))
    assert (cold.state, cold.assigned.standby, cold.assigned.warmup) == (
        MemberState.STABLE, frozenset({A}), frozenset(),
    )


def test_a_standby_waits_while_a_neighbour_in_the_process_runs_the_task() -> None:
    """CurrentAssignmentBuilderTest: one process holds one copy of a task's state."""
    target = Tasks(standby=frozenset({A}))
    assert step(current(), target, Holders(active={A: "p"})).state is MemberState.UNRELEASED_TASKS
    assert step(current(), target, Holders(active={A: "q"})).assigned.standby == frozenset({A})
    assert (
        step(current(), Tasks(warmup=frozenset({A})), Holders(warmup={A: {"p"}})).state is MemberState.UNRELEASED_TASKS
    )
    assert (
        step(current(), Tasks(active=frozenset({A})), Holders(standby={A: {"p"}})).state is MemberState.UNRELEASED_TASKS
    )
    assert step(current(), Tasks(active=frozenset({A, B})), Holders(standby={A: {"q"}})).state is MemberState.STABLE
