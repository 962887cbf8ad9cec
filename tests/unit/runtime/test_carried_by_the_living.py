"""What a live pod has carried and its name does not tell outlives a restart, wherever the pod is and however much it carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX, INSTANCE_IDS_MAX, IncarnationState
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.evidence.spans import GapWord
from unit.core.builders import pod_version

from .operator_world import OperatorWorld, guards, static_group
from .stories import LIVING, blind, by_annotations, by_hand, departs, force_delete, left, managed, start_as, stray


async def restarted(world: OperatorWorld, **epoch: str) -> None:
    """Let the position of the watch move on, and a new process take over."""
    world.start(0, "u0", joins=False, ids_are_fixed=False)
    await world.settled(2)
    world.restart(**epoch)
    world.pods.is_managed = managed
    await world.settled(2)


def living(world: OperatorWorld) -> dict[str, set[str]]:
    """Return which pods the ledger calls live, with their ids."""
    ledger = world.status.ledger
    entries = ledger.incarnations if ledger is not None else []
    return {e.uid: set(e.instance_ids) for e in entries if e.state is IncarnationState.LIVE}


def edited_and_put_right(world: OperatorWorld) -> None:
    """Let web-1's annotation say web-2's id while its container starts again, whose process joins, and then its own once more."""
    mine, other = frozenset({world.id_of(1)}), frozenset({world.id_of(2)})
    world.start(1, "u1", joins=False, instance_ids=other, ids_are_fixed=False)
    world.start(1, "u1", joins=False, instance_ids=other, ids_are_fixed=False, restart_count=1)
    world.kafka.join(world.id_of(2), LIVING)
    world.start(1, "u1", joins=False, instance_ids=mine, ids_are_fixed=False, restart_count=1)


@pytest.mark.parametrize("restarts", [False, True])
async def test_id_of_an_annotation_that_was_put_right_again_is_known_after_a_restart(restarts: bool) -> None:
    world = await by_annotations()
    edited_and_put_right(world)
    await world.settled(3)
    assert living(world) == {"u1": {world.id_of(1), world.id_of(2)}}
    if restarts:
        await restarted(world)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])


async def test_id_is_known_after_a_restart_that_no_status_had_time_for() -> None:
    """The process ends between the edit and the next status: the stored position waits below the version with the other id."""
    world = await by_annotations()
    edited_and_put_right(world)
    world.start(0, "u0", joins=False, ids_are_fixed=False)
    at = world.kube.resource_version
    assert world.pods.book.unwritten.durable_position("", at) < at - 1
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    assert living(world) == {"u1": {world.id_of(1), world.id_of(2)}}
    assert world.pods.book.unwritten.durable_position("", at) == at, "it is written now"
    await departs(world, 4)
    assert left(world) == []


async def test_id_is_known_after_a_restart_although_its_pod_was_lost_before_a_status_had_time_for_it() -> None:
    world = await by_annotations()
    edited_and_put_right(world)
    world.remove_object(1)
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    assert world.pods.get("u1").instance_ids == {world.id_of(1), world.id_of(2)}  # type: ignore[union-attr]
    world.start(1, "u1b", joins=False, ids_are_fixed=False)
    await departs(world, 4)
    assert left(world) == []


async def test_id_that_came_while_a_status_was_written_holds_the_position_until_the_next_one() -> None:
    world = await by_annotations()
    edited_and_put_right(world)
    known = world.pods.get("u1")
    assert known is not None
    earlier = replace(known, instance_ids=frozenset({world.id_of(1)}))
    assert not world.pods.mark_durable(earlier)
    assert world.pods.mark_durable(known)
    await world.settled(2)
    third = frozenset({world.id_of(0)})
    world.start(1, "u1", joins=False, instance_ids=third, ids_are_fixed=False, restart_count=1)
    at = world.kube.resource_version
    assert world.pods.book.unwritten.durable_position("", at) == at - 1
    await world.settled(2)
    assert world.pods.book.unwritten.durable_position("", at) == at


@pytest.mark.parametrize("happens", ["nothing", "a restart", "a gap too"])
async def test_the_same_goes_for_ids_of_which_somebody_swears_that_they_are_exclusive(happens: str) -> None:
    world = OperatorWorld(identity={"template": "{ordinal}.{scope}", "exclusive": True})
    world.scale(3)
    await world.round()
    world.template = "{ordinal}." + world.scope
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(2)
    edited_and_put_right(world)
    await world.settled(3)
    if happens != "nothing":
        await restarted(world, **({"epoch": "epoch-2"} if happens == "a gap too" else {}))
    await departs(world, 4)
    assert left(world) == []
    assert guards(world)


async def test_live_copy_whose_annotation_was_taken_off_is_known_after_a_restart() -> None:
    """`kubectl debug web-2 --copy-to=canary-0 --keep-annotations`; then somebody takes the annotation off the copy."""
    world = await by_annotations()
    world.pods.is_managed = managed
    stray(world, ids_are_fixed=False)
    await world.settled(2)
    start_as(world, "canary-0", "stray", set(), ids_are_fixed=False)
    await world.settled(2)
    await restarted(world)
    assert living(world) == {"stray": {world.id_of(2)}}
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])


async def test_seat_that_was_lost_while_no_operator_ran_is_a_suspect_with_every_id_that_it_carried() -> None:
    """web-1 got an ephemeral container with web-2's id, which the operator saw; it is lost later, as another such pod may be."""
    world = await OperatorWorld().started()
    both = frozenset({world.id_of(1), world.id_of(2)})
    world.start(1, "u1", joins=False, instance_ids=both)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(3)
    world.remove_object(1)
    world.start(1, "u1b", joins=False)
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    await world.settled(3)
    assert world.pods.state("u1") == "Suspect"
    assert world.pods.get("u1").instance_ids == both  # type: ignore[union-attr]
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["WatchGap"])


async def test_live_pods_with_the_ids_of_their_own_names_are_not_remembered() -> None:
    """Nor are those that carry the ids of another StaticGroup, or of an earlier template: the names lead to them."""
    world = await OperatorWorld().started()
    for n in range(3):
        world.start(n, joins=False, instance_ids=frozenset({world.id_of(n), f"web-{n}.{'0' * 8}", f"{n}.fraud"}))
    earlier = f"old-web-1.{world.scope}"
    world.declare(static_group(generation=2, identity={"template": "old-{podName}.{scope}"}))
    await world.settled(2)
    world.declare(static_group(generation=3, identity={"template": "{podName}.{scope}"}))
    await world.settled(2)
    world.start(1, joins=False, instance_ids=frozenset({world.id_of(1), earlier}))
    await world.settled(2)
    assert living(world) == {}


async def test_live_pod_leaves_the_ledger_with_a_proof_of_its_end() -> None:
    world = await by_annotations()
    edited_and_put_right(world)
    await world.settled(3)
    world.end(1, "u1")
    await world.settled(3)
    assert living(world) == {}
    await departs(world, 4)
    assert left(world) == [world.id_of(2)], "the process of web-1 is proven dead, so whoever held the id is"


async def test_status_is_not_written_again_for_each_version_of_a_live_pod() -> None:
    world = await by_annotations()
    edited_and_put_right(world)
    await world.settled(3)
    before = world.status.ledger
    for n in range(3):
        world.start(1, "u1", joins=False, ids_are_fixed=False, restart_count=1, ready_since_s=world.now_s + n)
        await world.settled(2)
    assert world.status.ledger == before


# ids without room ------------------------------------------------------------------------------------------------------------


async def test_suspect_with_more_ids_than_an_entry_takes_keeps_those_that_are_ours() -> None:
    world = await by_hand()
    start_as(world, "canary-0", "stray", {world.id_of(2), *(f"a-{n:02}" for n in range(INSTANCE_IDS_MAX))})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    await world.settled(3)
    assert blind(world) == ""
    await restarted(world)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_suspect_with_more_ids_of_ours_than_an_entry_takes_makes_every_seat_blind() -> None:
    world = await by_hand()
    ours = {world.id_of(n) for n in range(2, INSTANCE_IDS_MAX + 3)}
    start_as(world, "canary-0", "stray", ours)
    force_delete(world, "canary-0")
    await world.settled(3)
    assert world.status.ledger is not None
    assert world.status.ledger.overflow
    assert [s.reason for s in world.status.continuity.blind] == ["LedgerFull"]  # type: ignore[union-attr]
    assert blind(world) == "0-2147483647"


async def test_living_without_room_make_every_seat_blind_and_no_word_of_before_covers_that() -> None:
    """More debug copies than a ledger holds live on, and a person says that whatever ran unseen so far has ended."""
    world = await by_annotations()
    world.pods.is_managed = managed
    for n in range(INCARNATIONS_MAX + 1):
        start_as(world, f"canary-{n}", f"stray-{n}", {world.id_of(2)}, ids_are_fixed=False)
    await world.settled(3)
    assert world.status.ledger is not None
    assert (world.status.ledger.overflow, len(living(world))) == (True, INCARNATIONS_MAX)
    assert blind(world) == "0-2147483647"
    world.gap_words = (GapWord(since_s=0.0, until_s=world.now_s + 9, said_at_s=world.now_s + 9, said_by="anna"),)
    await world.settled(3)
    assert blind(world) == "0-2147483647"
    written = world.status
    await world.settled(3)
    assert world.status == written, "no text that ticks"


# carriers elsewhere ----------------------------------------------------------------------------------------------------------


def elsewhere(world: OperatorWorld, **changes: Any) -> PodVersion:
    """Start `canary-0` of namespace bill, with the id of web-2 that somebody copied into its manifest, whose process joins."""
    version = pod_version(
        0, "stray", **{"namespace": "bill", "name": "canary-0", "instance_ids": frozenset({world.id_of(2)}), "ids_are_fixed": True} | changes
    )
    world._happens(version)
    world.kafka.join(world.id_of(2), LIVING)
    return version


@pytest.mark.parametrize("is_lost", [True, False])
async def test_carrier_of_another_namespace_is_known_after_a_restart(is_lost: bool) -> None:
    world = await by_hand()
    elsewhere(world)
    await world.settled(2)
    if is_lost:
        world._happens(world.kube.pods["bill", "canary-0"], is_deleted=True)
    else:
        elsewhere(world, instance_ids=frozenset())
    await world.settled(3)
    (entry,) = (e for e in world.status.ledger.incarnations if e.uid == "stray")  # type: ignore[union-attr]
    assert (entry.namespace, entry.state.value) == ("bill", "Suspect" if is_lost else "Live")
    await restarted(world)
    found = world.pods.get("stray")
    assert found is not None
    assert (found.namespace, found.object_present) == ("bill", not is_lost)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven" if is_lost else "PodStillRunning"])
    told = [e.message for e in world.status.exceptions if e.kind.value == "Suspect"]
    assert len(told) == is_lost
    assert all("of namespace bill" in t and "create a PodEndConfirmation of this uid in namespace bill" in t for t in told)


async def test_stored_position_waits_for_a_carrier_of_another_namespace() -> None:
    """Also where each namespace has a stream of its own: the workload is listed by the position of another one."""
    world = await by_hand()
    elsewhere(world)
    world._happens(world.kube.pods["bill", "canary-0"], is_deleted=True)
    at, unwritten = world.kube.resource_version, world.pods.book.unwritten
    assert unwritten.durable_position("", at) < at
    world.now_s += 60
    assert unwritten.stored_position("bill", at) == (at - 2, {})
    assert unwritten.stored_position("shop", at) == (at, {})
    assert unwritten.stored_position("", at) == (at, {("shop", "web"): at - 2})
    await world.settled(3)
    assert unwritten.durable_position("", at) == at


async def test_suspect_with_an_id_of_a_template_that_comes_later_is_known_after_a_restart() -> None:
    """A team writes the id of the next template into one pod by hand, to try it."""
    world = await by_hand()
    later = f"web-2-b.{world.scope}"
    start_as(world, "canary-0", "stray", {later})
    world.kafka.join(later, LIVING)
    await world.settled(2)
    force_delete(world, "canary-0")
    await world.settled(3)
    await restarted(world)
    world.declare(static_group(generation=2, identity={"method": "None", "template": "{podName}-b.{scope}"}))
    await world.settled(2)
    world.end(2)
    world.template = "web-{ordinal}-b." + world.scope
    world.start(2, "u2b", joins=False)
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)
    assert LIVING not in dict(world.left)
    assert "DeathNotProven" in guards(world)
