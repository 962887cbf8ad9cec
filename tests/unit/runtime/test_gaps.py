"""What a gap of the pod watch costs: the seats whose pod changed while nobody looked, and no other."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from staticgroup.core.evidence.spans import GapWord
from staticgroup.kube.problem import problem_of

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    away,
    blind,
    empty_seat,
    gap,
    left,
)


async def test_gap_over_which_every_pod_stayed_costs_nothing() -> None:
    world = await OperatorWorld().started()
    gap(world)
    await world.settled(2)
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal)
    await world.settled(3)
    assert left(world) == [world.id_of(1), world.id_of(2)]


async def test_seat_whose_pod_was_replaced_in_the_gap_waits_and_the_others_do_not() -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    world.scale(1)
    world.kafka.join(world.id_of(2), LIVING)
    world.end(2, "u2b")
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["WatchGap"]


async def test_seat_beyond_a_statefulset_that_wanted_the_same_before_and_after_is_not_blind() -> None:
    """The generation rule: nothing outside of the range can have been made."""
    world = await OperatorWorld().started()
    await empty_seat(world)
    gap(world)
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == [world.id_of(2)]
    assert blind(world) == ""


async def test_seat_beyond_a_statefulset_that_wanted_something_else_meanwhile_waits() -> None:
    """Scaled up and down again within the gap: a third pod may have come and gone."""
    world = await OperatorWorld().started()
    await empty_seat(world)
    away(world)
    world.scale(3, in_store=False)
    world.scale(2)
    gap(world)
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]
    assert blind(world) == "2-2147483647"


async def test_facts_of_a_statefulset_count_only_with_a_barrier_behind_the_read() -> None:
    """A pod that existed when the facts were read, and that the watch had not shown, is not absent."""
    world = await OperatorWorld().started()
    world.pods.barrier_works = False
    await empty_seat(world)
    gap(world)
    world.pods.barrier_works = True
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_seat_inside_of_the_range_without_an_object_waits_whatever_the_generation_says() -> None:
    """Its controller makes a pod for it at any moment, without a new generation."""
    world = await OperatorWorld().started()
    await world.settled(2)
    world.end(2)
    away(world)
    gap(world)
    await world.settled(2)
    assert blind(world) == "2"
    world.start(2, "u2b")
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_pod_that_ended_in_the_gap_is_a_suspect_and_its_seat_is_not_blind() -> None:
    """Scaled down before the gap, ended in it: that one pod is in doubt, and no unknown one."""
    world = await OperatorWorld().started()
    await world.settled(2)
    world.scale(2)
    world.kube.workloads["shop", "web"] = world.stores.workloads["shop", "web"]
    await world.settled(2)
    away(world)
    world.remove_object(2)
    gap(world)
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]  # its facts were not settled: pod 2 still existed
    assert [i.uid for i in world.status.ledger.incarnations] == ["u2"] if world.status.ledger else False


async def test_what_stayed_over_a_gap_is_remembered_by_the_next_process() -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    assert blind(world) == "2"
    world.restart()
    world.scale(1)
    world.end(1)
    world.end(2, "u2b")
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["WatchGap"]


async def test_process_that_cannot_resume_knows_the_pods_that_stayed_by_their_uids() -> None:
    """All replicas away for longer than the API server remembers: the status says which object had each name."""
    world = await OperatorWorld().started()
    world.restart(epoch="epoch-2")
    await world.settled(2)
    assert blind(world) == ""
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal)
    await world.settled(4)
    assert left(world) == [world.id_of(1), world.id_of(2)]


async def test_process_that_cannot_resume_waits_for_the_one_seat_whose_pod_was_replaced() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    away(world)
    world.remove_object(1)
    world.start(1, "u1b")
    world.kafka.join(world.id_of(1), LIVING)
    world.restart(epoch="epoch-2")
    await world.settled(2)
    assert blind(world) == "1"
    assert world.status.ledger is not None
    assert [(i.uid, i.instance_ids) for i in world.status.ledger.incarnations] == [("u1", [world.id_of(1)])]
    world.scale(1)
    world.end(1, "u1b")
    world.end(2)
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_uids_of_another_timeline_say_nothing() -> None:
    """After a restore of etcd uids come back, with other processes behind them."""
    world = await OperatorWorld().started()
    world.restart(epoch="epoch-2")
    world.pods.timeline, world.pods.saw_restore = "timeline-2", True
    await world.settled(2)
    assert blind(world) == "0-2147483647"
    assert world.status.continuity is not None
    assert [s.reason for s in world.status.continuity.blind] == ["Restored"]
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_history_that_the_status_does_not_tell_is_ignorance_and_no_innocence() -> None:
    """As an earlier operator leaves it, to which somebody rolled back for a while."""
    world = await OperatorWorld().started()
    body = world.kube.objects["staticgroups", *KEY]
    del body["status"]["continuity"]
    world.declare(body)
    world.restart()
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []
    assert world.status.continuity is not None
    assert [(s.ordinals, s.reason) for s in world.status.continuity.blind] == [("0-2147483647", "MemoryLost")]


async def test_word_about_the_time_of_the_gap_frees_its_seats() -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(2)
    assert left(world) == []
    assert world.status.continuity is not None
    span = world.status.continuity.blind[0]
    since_s, until_s = span.since.timestamp(), span.until.timestamp()
    early = GapWord(since_s=since_s, until_s=until_s, said_at_s=until_s - 1)
    narrow = GapWord(since_s=since_s + 1, until_s=until_s, said_at_s=until_s + 60)
    world.gap_words = (early, narrow)
    await world.settled(2)
    assert blind(world) == "2"
    world.gap_words = (GapWord(since_s=since_s, until_s=until_s, said_at_s=until_s + 60),)
    await world.settled(2)
    assert blind(world) == ""
    assert left(world) == []  # u2, which was known, ended unseen: that wants a word of its own
    assert guards(world) == ["DeathNotProven"]
    world.gap_words = ()
    await world.settled(2)
    assert blind(world) == ""


async def test_unreadable_statefulset_after_a_gap_decides_nothing_yet() -> None:
    world = await OperatorWorld().started()
    await empty_seat(world)
    gap(world)
    world.kafka.problems.clear()
    world.kube.problems["read_workload"] = problem_of(500, verb="get", resource="statefulsets", namespace="shop")
    await world.settled(2)
    assert left(world) == []
    world.kube.problems.clear()
    await world.settled(3)
    assert left(world) == [world.id_of(2)]


async def test_seats_wear_out_over_two_gaps_only_where_something_changed() -> None:
    world = await OperatorWorld().started(4)
    gap(world)
    await world.settled(2)
    away(world)
    world.remove_object(3)
    world.start(3, "u3b")
    gap(world, "epoch-3")
    await world.settled(2)
    assert blind(world) == "3"
    world.scale(2)
    world.end(2)
    world.end(3, "u3b")
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_gap_before_the_first_round_after_it_is_not_forgotten_by_the_second() -> None:
    """Two gaps between two rounds: what stayed over both stayed."""
    world = await OperatorWorld().started()
    await world.settled(2)
    gap(world)
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world, "epoch-3")
    await world.settled(2)
    assert blind(world) == "2"


async def test_container_that_was_started_again_with_editable_ids_leaves_no_seat_clear() -> None:
    """It may have carried the id of another seat for a while: annotations are read again when a container starts."""
    world = OperatorWorld()
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(2)
    away(world)
    world.start(1, "u1", ids_are_fixed=False, restart_count=1, joins=False)
    gap(world)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


@pytest.mark.parametrize("when", ["before", "after", "both"])
async def test_pod_that_got_no_id_costs_no_seat_but_its_own(when: str) -> None:
    """A fresh API server injects nothing for its first seconds, so a pod that is replaced then comes without an id."""
    world = OperatorWorld()
    world.scale(4)
    await world.round()
    nothing: dict[str, Any] = {"instance_ids": frozenset(), "ids_are_fixed": True, "joins": False}
    for ordinal in range(3):
        world.start(ordinal)
    world.start(3, **(nothing if when != "after" else {}))
    world.now_s += 300
    await world.settled(2)
    away(world)
    world.remove_object(3)
    world.start(3, "u3b", **(nothing if when != "before" else {}))
    gap(world)
    await world.settled(2)
    assert blind(world) == "3"
    world.scale(2)
    world.end(2)
    world.end(3, "u3b")
    await world.settled(4)
    assert world.id_of(2) in left(world)
    assert world.id_of(3) not in left(world)


async def test_staticgroup_that_is_acknowledged_after_a_gap_has_had_none() -> None:
    world = OperatorWorld()
    gap(world)
    await world.started()
    assert blind(world) == ""
    world.scale(2)
    world.end(2)
    await world.settled(3)
    assert left(world) == [world.id_of(2)]


@pytest.mark.parametrize(("exclusive", "expected"), [(False, []), (True, ["app-2"])], ids=["not exclusive", "exclusive"])
async def test_ids_that_are_set_by_hand_may_be_carried_under_any_name(exclusive: bool, expected: list[str]) -> None:
    """Without the user's word a gap leaves no name clear."""
    template = "app-{ordinal}" if exclusive else "{podName}.{scope}"
    world = OperatorWorld(identity={"template": template, "exclusive": exclusive, "method": "None"})
    world.template = "app-{ordinal}" if exclusive else ""
    await world.started()
    gap(world)
    await world.settled(2)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == expected


async def test_unknown_beginning_stays_unknown_over_gaps() -> None:
    world = await OperatorWorld().started()
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.kube.objects["staticgroups", *KEY]["status"] = {}
    world.declare(world.kube.objects["staticgroups", *KEY])
    world.restart()
    await world.settled(2)
    gap(world)
    await world.settled(2)
    world.declare(static_group(generation=2))
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_status_is_not_written_again_and_again_after_a_gap() -> None:
    world = await OperatorWorld().started()
    gap(world)
    await world.settled(2)
    writes = len(world.kube.status_writes)
    await world.settled(5, step_s=30)
    assert len(world.kube.status_writes) == writes


@pytest.mark.parametrize(
    ("blind", "spec", "removed"),
    [
        ("other", {}, True),
        ("web", {}, True),
        ("other", {"identity": {"method": "None"}}, False),
        ("other", {"identity": {"method": "None", "exclusive": True}}, True),
        ("web", {"identity": {"method": "None", "exclusive": True}}, True),
    ],
)
async def test_history_that_one_workload_lacks_after_a_restart_is_missing_to_no_other(
    blind: str, spec: dict[str, object], removed: bool
) -> None:
    """The pods of the one stayed, so it lacks nothing that matters to their seats.

    Ids that are set by hand may have been carried by a pod of any workload, so without the word any one's loss is theirs.
    """
    world = await OperatorWorld(**spec).started()
    world.restart(epoch="epoch-2")
    world.pods.lineage.since = {"epoch-1": frozenset({("shop", blind)})}
    await world.settled(2)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == ([world.id_of(2)] if removed else [])
    assert guards(world) == ([] if removed else ["WatchGap"])
    # and the next process, which resumes under the new epoch, reads it from the status
    world.restart()
    await world.settled(2)
    world.scale(1)
    world.end(1)
    await world.settled(4)
    assert (world.id_of(1) in left(world)) is removed


async def test_history_that_one_workload_lacks_after_a_restart_blinds_the_seat_whose_pod_was_replaced() -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    world.restart(epoch="epoch-2")
    world.pods.lineage.since = {"epoch-1": frozenset({("shop", "web")})}
    await world.settled(2)
    assert blind(world) == "2"


async def zombie(world: OperatorWorld) -> dict[str, Any]:
    """Force-delete pod 2, whose process lives on; returns the status of before."""
    await world.settled(2)
    body = world.kube.objects["staticgroups", *KEY]
    older = copy.deepcopy(body["status"])
    world.remove_object(2)
    await world.settled(2)
    return older


async def used_and_left(world: OperatorWorld) -> None:
    """Let seat 2 have another pod for a while, whose end is certified, and the zombie join again."""
    world.start(2, "u2b")
    world.now_s += 300
    await world.settled(2)
    world.kafka.join(world.id_of(2), LIVING)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)


async def test_status_of_which_the_ledger_was_taken_away_is_no_memory() -> None:
    world = await OperatorWorld().started()
    await zombie(world)
    body = world.kube.objects["staticgroups", *KEY]
    assert body["status"].pop("ledger")
    world.declare(body)
    world.restart()
    await used_and_left(world)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]
    assert world.status.continuity is not None
    assert [s.reason for s in world.status.continuity.blind] == ["MemoryLost"]


async def test_older_status_that_was_put_back_while_no_operator_ran_is_no_memory() -> None:
    """It is whole in itself, so only who wrote it tells: the API server notes the field manager."""
    world = await OperatorWorld().started()
    older = await zombie(world)
    body = world.kube.objects["staticgroups", *KEY]
    owned = {"f:status": {"f:continuity": {"f:digest": {}}}}
    entry = {"manager": "kubectl-replace", "operation": "Update", "subresource": "status", "fieldsV1": owned}
    body["status"], body["metadata"]["managedFields"] = older, [entry]
    world.declare(body)
    world.restart()
    await used_and_left(world)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_memory_that_was_lost_is_not_found_again_while_suspended() -> None:
    world = await OperatorWorld().started()
    await zombie(world)
    body = world.kube.objects["staticgroups", *KEY]
    assert body["status"].pop("ledger")
    world.declare(body | {"spec": body["spec"] | {"suspend": True}})
    world.restart()
    await world.settled(2)
    world.declare(static_group(generation=3))
    world.restart()
    await used_and_left(world)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_facts_of_a_statefulset_say_nothing_over_a_restore() -> None:
    """Its generation counts from the restored number on, so another edit may come to the same one."""
    world = await OperatorWorld().started()
    await world.settled(2)
    assert world.status.continuity is not None
    assert world.status.continuity.workload is not None
    world.restart(epoch="epoch-2")
    world.pods.timeline, world.pods.saw_restore = "timeline-2", True
    world.pods.barrier_works = False
    await world.settled(2)
    assert world.status.continuity.workload is None


async def test_word_that_closes_a_gap_is_told_once_and_named_by_the_removals_that_rest_on_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await OperatorWorld().started()
    await empty_seat(world)
    away(world)
    world.scale(3, in_store=False)
    world.scale(2)
    gap(world)
    world.kafka.problems.clear()
    await world.settled(2)
    assert blind(world) == "2-2147483647"
    world.gap_words = (
        GapWord(since_s=0, until_s=world.now_s, said_at_s=world.now_s, said_by="alice", statement="none ever ran"),
    )
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        await world.settled(3)
    assert left(world) == [world.id_of(2)]
    (event,) = [text for _, reason, text in world.kube.events if reason == "GapConfirmed"]
    assert event.startswith("what ran unseen of ordinals 2 and above from")
    assert event.endswith("confirmed by alice: none ever ran")
    audited = [r.__dict__ for r in caplog.records if r.name == "staticgroup.audit"]
    assert [line["message"] for line in audited] == ["gap confirmed", "member removal"]
    assert (audited[0]["ordinals"], audited[0]["confirmed_by"]) == ("2-2147483647", "alice")
    assert "(WatchGap), confirmed by alice: none ever ran" in audited[1]["evidence"]
    world.restart()
    await world.settled(2)
    assert [reason for _, reason, _ in world.kube.events].count("GapConfirmed") == 1


async def test_removal_of_a_seat_that_was_never_blind_names_no_word(caplog: pytest.LogCaptureFixture) -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    world.gap_words = (GapWord(since_s=0, until_s=world.now_s, said_at_s=world.now_s, said_by="alice"),)
    await world.settled(1)
    world.scale(0)
    world.end(1)
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        await world.settled(3)
    (line,) = [r.__dict__ for r in caplog.records if r.message == "member removal"]
    assert line["ordinal"] == 1
    assert "confirmed by" not in line["evidence"]


async def test_suspended_group_hears_the_word_when_it_is_resumed() -> None:
    world = await OperatorWorld().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    world.declare(static_group(generation=2, suspend=True))
    world.gap_words = (GapWord(since_s=0, until_s=world.now_s, said_at_s=world.now_s, said_by="alice"),)
    await world.settled(2)
    assert blind(world) == "2"
    world.declare(static_group(generation=3))
    await world.settled(2)
    assert blind(world) == ""
    assert [reason for _, reason, _ in world.kube.events].count("GapConfirmed") == 1
