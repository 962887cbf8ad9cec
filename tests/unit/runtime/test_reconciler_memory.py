"""What rounds remember: verification after the acknowledgement, and what outlasts a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.api import names
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.kube.problem import problem_of
from staticgroup.runtime.work_queue import Result

from .operator_world import KEY, UNREACHABLE, OperatorWorld, departing, guards, static_group

# verification (step 7) --------------------------------------------------------------------------------------------


async def test_removal_is_settled_only_by_a_reading_after_the_acknowledgement() -> None:
    world = await departing()
    await world.round()
    (record,) = world.status.memory.settling
    assert record.settled_at is None
    assert world.condition("RemovalSettled")[1] == "RemovalInProgress"
    world.now_s += 1
    await world.round()
    (record,) = world.status.memory.settling
    assert record.settled_at is not None
    assert world.condition("RemovalSettled")[1] == "Removed"


# memory -----------------------------------------------------------------------------------------------------------


async def test_a_staticgroup_made_anew_under_the_name_remembers_nothing_of_the_one_before() -> None:
    """Also where its end was not told, as by a watch that broke."""
    world = await OperatorWorld().started()
    scope = world.status.injected and world.status.injected.scope
    del world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.drop_group(KEY, world.stores.group_uids[KEY])
    world.declare(static_group("sg-2"))
    await world.settled(2)
    assert world.status.memory.static_group_uid == "sg-2"
    assert world.status.injected is not None
    assert world.status.injected.scope != scope


async def test_status_is_written_only_when_it_changed() -> None:
    world = await OperatorWorld().started()
    await world.round()
    writes = len(world.kube.status_writes)
    for _ in range(5):
        world.now_s += 30
        await world.round()
        assert not world.did("apply_status")
    assert len(world.kube.status_writes) == writes


async def test_stored_position_waits_for_a_status_that_could_not_be_written() -> None:
    """The position in the Lease may not pass what no status has yet."""
    world = await OperatorWorld().started()
    memories = world.reconciler.memories
    assert memories.unstored_since_s(0.0) is None
    looked_s = world.now_s
    world.now_s += 30
    world.remove_object(2)
    world.kube.problems["apply_status"] = problem_of(500, verb="patch", resource="staticgroups")
    outcome = await world.round()
    assert outcome.failed
    assert 0 < (memories.unstored_since_s(0.0) or 0) <= looked_s, "of what was before that look, the API server knows"
    world.now_s += 30
    assert (await world.round()).failed
    assert 0 < (memories.unstored_since_s(0.0) or 0) <= looked_s
    world.kube.problems.clear()
    await world.round()
    assert memories.unstored_since_s(0.0) is None


async def test_stored_position_waits_for_the_round_of_a_change() -> None:
    """An end that the next process never receives leaves its pod a carrier."""
    world = await OperatorWorld().started()
    memories = world.reconciler.memories
    looked_s = world.now_s
    world.now_s += 30
    world.reconciler.memories.mark_changed(KEY)
    assert 0 < (memories.unstored_since_s(0.0) or 0) <= looked_s
    await world.round()
    assert memories.unstored_since_s(0.0) is None


async def test_certificates_survive_a_restart_so_that_the_removal_goes_on() -> None:
    world = await OperatorWorld().started()
    world.scale(2)
    world.end(2)
    world.kafka.problems["leave"] = UNREACHABLE
    await world.round()
    world.kafka.problems.clear()
    world.restart(watch_name="2-00000002")
    assert world.pods.get("u2") is None
    await world.round()
    assert [i for _, i in world.left] == [world.id_of(2)]


async def test_restart_between_leave_and_verification_continues_the_verification() -> None:
    world = await departing()
    await world.round()
    world.restart()
    world.kafka.fail_over()
    world.now_s += 1
    await world.round()
    assert len(world.left) == 2
    assert world.status.memory.settling[0].attempts == 2


async def test_hold_window_starts_again_after_a_restart_and_never_shortens() -> None:
    """That of a workload that goes: a minute."""
    world = await departing()
    view = replace(world.kube.workloads["shop", "web"], is_deleting=True)
    world.kube.workloads["shop", "web"] = world.stores.workloads["shop", "web"] = view
    await world.round()
    assert "HoldWindow" in guards(world)
    world.now_s += 45
    world.restart()
    await world.round()
    assert world.left == []
    world.now_s += 59
    await world.round()
    assert world.left == []
    world.now_s += 2
    await world.round()
    assert len(world.left) == 1


async def test_suspect_is_remembered_though_its_member_left_and_its_id_is_not_wanted() -> None:
    """Its process may come back with its node, while a later pod of the id is long certified dead."""
    world = await OperatorWorld().started()
    world.scale(2)
    world.remove_object(2)
    del world.kafka.members[world.id_of(2)]
    await world.settled(3)
    world.scale(3)
    world.start(2, "u2b")
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2b")
    world.kafka.join(world.id_of(2), "the-suspects-process")
    await world.settled(4)
    assert world.left == []
    assert guards(world) == ["Suspect"]


async def test_object_that_no_schema_would_allow_is_logged_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = OperatorWorld()
    broken = static_group()
    del broken["spec"]["groupId"]
    world.stores.put_group(KEY, broken)
    assert await world.round() == Result()
    assert world.journal == []
    assert "groupId" in caplog.records[-1].__dict__["violations"]


async def test_unreadable_staticgroup_at_the_first_round_fails_instead_of_starting_with_an_empty_memory() -> None:
    """An empty memory would issue a second scope and rename every member."""
    world = OperatorWorld()
    world.kube.problems["read_object"] = problem_of(503, verb="get", resource="staticgroups")
    assert (await world.round()).failed
    assert not world.did("describe")
    assert world.kube.status_writes == []


async def test_first_holder_after_a_change_reads_what_the_other_replica_wrote() -> None:
    world = await departing()
    standby = world.reconciler
    world.restart()
    await world.round()
    assert world.status.memory.settling
    world.list_again()
    standby.forget_all()
    standby.gatherer.pods = world.pods  # type: ignore[assignment]
    await standby.reconcile(KEY)
    assert world.status.memory.settling
    assert len(world.left) == 1


async def test_many_departed_ids_are_read_fifty_at_a_time_and_all_leave_in_the_end() -> None:
    world = await OperatorWorld().started(120)
    world.scale(0)
    for ordinal in range(120):
        world.end(ordinal)
    await world.round()
    assert len(world.did("read_pod")) == 50
    await world.settled(3)
    assert world.kafka.members == {}


# explain --------------------------------------------------------------------------------------------------------


async def test_snapshot_file_for_explain_writes_and_remembers_nothing() -> None:
    world = await departing()
    writes = len(world.kube.status_writes)
    world.journal.clear()
    _, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    assert not {"leave", "apply_status", "post_event"} & world.done
    assert len(world.kube.status_writes) == writes
    assert snapshot.namespace == "shop"


async def test_group_that_a_new_coordinator_shows_without_its_members_does_not_make_them_dead() -> None:
    """Just after a fail-over a group may be read as Empty, or not be listed at all; then its members are back."""
    world = await OperatorWorld().started()
    members = dict(world.kafka.members)
    world.kafka.members.clear()
    await world.settled(8)
    world.kafka.members.update(members)
    await world.settled(2)
    assert [s.carriers for s in world.status.memory.seats] == [["u0"], ["u1"], ["u2"]]
    await world.departs(4)
    assert [i for _, i in world.left] == [world.id_of(2)]


async def test_a_status_that_is_known_twice_is_kept_once() -> None:
    """As it was written, and as the watch shows it: a copy takes 12 KB."""
    world = await OperatorWorld().started()
    spec = world.stores.groups[KEY].spec
    world.stores.put_group(KEY, world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY])
    await world.round()
    memory = world.reconciler.memories._by_key.get(KEY)
    assert memory is not None
    assert memory.status is world.stores.groups[KEY].status
    assert world.stores.groups[KEY].spec is spec is memory.spec

    world.reconciler.memories.forget_all()  # as a new process: the watch has shown it, and it is read
    await world.round()
    memory = world.reconciler.memories._by_key.get(KEY)
    assert memory is not None
    assert memory.status is world.stores.groups[KEY].status
    assert memory.status == StaticGroupStatus.from_wire(world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"])
