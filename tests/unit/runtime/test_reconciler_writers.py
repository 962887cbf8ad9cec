"""Rounds write only as the leader, and act on the coordinator's answers."""

from __future__ import annotations

import pytest

from staticgroup.core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome
from staticgroup.runtime.memory.memory import RACE_REQUEUE_S
from staticgroup.runtime.work_queue import Result

from .operator_world import KEY, OperatorWorld, departing, static_group

# only the leader writes -----------------------------------------------------------------------------------------------


async def test_observe_reports_the_removal_and_writes_nothing_to_kafka() -> None:
    world = await OperatorWorld().started()
    observing = static_group(generation=2, mode="Observe")
    world.declare(observing)
    world.scale(2)
    world.end(2)
    await world.settled()
    assert world.left == []
    assert world.condition("RemovalSettled")[1] == "RemovalOff"


async def test_forced_observe_overrules_every_spec() -> None:
    world = await departing()
    world.reconciler.force_observe = True
    await world.settled()
    assert world.left == []
    assert world.injected.method.value == "None"


async def test_suspend_describes_nothing_and_remembers_suspects() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, mode="Suspended"))
    world.scale(2)
    world.remove_object(2)
    await world.round()
    assert not {"describe", "leave"} & world.done
    assert world.condition("Ready")[:2] == ("False", "Suspended")
    assert [s.uid for s in world.status.memory.suspects] == ["u2"]


@pytest.mark.parametrize("change", ["suspend", "delete", "replace"])
async def test_staticgroup_changed_in_mid_round_means_no_leave(change: str) -> None:
    """S14: what the user said last counts, also between plan and leave."""
    world = await departing()
    changes = {
        "suspend": lambda: world.declare(static_group(generation=2, mode="Suspended")),
        "delete": world.delete_group,
        "replace": lambda: world.declare(static_group(uid="sg-2")),
    }
    before = len(world.kube.status_writes)
    world.pods.after_chain = changes[change]
    await world.round()
    assert not world.did("leave")
    if change != "suspend":
        assert len(world.kube.status_writes) == before


async def test_lease_lost_between_plan_and_leave_means_no_leave_and_no_status() -> None:
    world = await departing()
    writes, events = len(world.kube.status_writes), len(world.kube.events)

    world.pods.after_chain = world.lose_lease
    await world.round()
    assert world.did("barrier")
    assert not world.did("leave")
    assert (len(world.kube.status_writes), len(world.kube.events)) == (writes, events)


async def test_lease_lost_while_the_leave_is_on_its_way_means_no_status_and_the_next_holder_verifies() -> None:
    world = await departing()
    writes = len(world.kube.status_writes)

    world.kafka.before["leave"] = world.lose_lease
    await world.round()
    assert len(world.kube.status_writes) == writes
    world.is_holder = True
    world.restart()
    await world.settled(3)
    assert len(world.left) == 1


async def test_lease_lost_while_an_event_is_posted_means_no_status() -> None:
    world = await departing(removal="Never")
    writes = len(world.kube.status_writes)

    world.kube.before["post_event"] = world.lose_lease
    await world.round()
    assert world.did("post_event")
    assert not world.is_holder
    assert len(world.kube.status_writes) == writes


async def test_standby_does_nothing_at_all() -> None:
    world = OperatorWorld()
    world.is_holder = False
    assert await world.round() == Result(failed=True)  # to be tried again, if the Lease is only renewed late
    assert world.journal == []


async def test_two_operators_on_one_world_remove_once_and_do_no_harm() -> None:
    """A second active process can happen (a stopped clock); the compare-and-set keeps it harmless."""
    world = await departing()
    first = world.reconciler
    world.restart()
    second = world.reconciler
    world.journal.clear()
    for _ in range(4):
        await first.reconcile(KEY)
        await second.reconcile(KEY)
        world.now_s += 2
    assert [o for _, o in world.kafka.leaves].count(LeaveOutcome.REMOVED) == 1
    assert set(world.kafka.members) == {world.id_of(0), world.id_of(1)}


# what the coordinator answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [LeaveOutcome.FENCED, LeaveOutcome.RETRY])
async def test_unsure_answer_is_followed_by_a_new_describe_and_never_by_an_instance_only_leave(
    outcome: LeaveOutcome,
) -> None:
    world = await departing()
    world.kafka.outcome = outcome
    first = await world.round()
    assert first.requeue_after_s == RACE_REQUEUE_S
    assert world.status.memory.settling == []
    world.kafka.outcome = None
    await world.round()
    assert world.did("describe")
    assert all(member and instance for member, instance in world.left)
    assert world.id_of(2) not in world.kafka.members


async def test_lost_answer_of_an_applied_leave_is_settled_by_the_next_describe() -> None:
    """K1: the broker acted, the answer got lost; the member is gone and no second leave is sent."""
    world = await departing()
    world.kafka.before["leave"] = lambda: world.kafka.members.pop(world.id_of(2)) and None
    world.kafka.outcome = LeaveOutcome.RETRY
    await world.round()
    world.kafka.outcome = None
    await world.settled(3)
    assert len(world.left) == 1
    assert world.condition("Ready")[0] == "True"


async def test_refused_leave_names_the_missing_right() -> None:
    world = await departing()
    world.kafka.outcome = LeaveOutcome.NOT_AUTHORIZED
    await world.round()
    world.tells("Authorized", "False", "ReadGroupDenied", "READ on Group 'orders'")
    assert ("Warning", "RemovalRefused") in {(t, r) for t, r, _ in world.kube.events}


async def test_problem_of_the_whole_request_is_reported_and_tried_again() -> None:
    world = await departing()
    world.kafka.problems["leave"] = KafkaProblem(
        kind=KafkaProblemKind.NOT_AUTHORIZED, message="grant READ on Group 'orders' to User:operator",
        missing_acl="READ on Group 'orders'",
    )  # fmt: skip
    await world.round()
    assert "READ on Group 'orders'" in world.condition("Authorized")[2]
    del world.kafka.problems["leave"]
    await world.round()
    assert world.condition("Authorized")[0] == "True"
    assert len(world.left) == 1
