"""A removal is settled by what is read afterwards: step 7 of the algorithm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome
from staticgroup.core.guards import Guard
from staticgroup.core.outcomes import with_outcomes
from staticgroup.core.plan import VERIFY_REQUEUE_S, Plan
from staticgroup.core.seats import REPLACED_TOLD_S
from staticgroup.core.snapshot import RemovalRecord, SeatMemory

from .builders import (
    COORDINATOR,
    NOW_S,
    attributed,
    departure,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
    workload,
)
from .plans import acknowledged, only_guard, planned, removed


def record_after(decided: Plan) -> RemovalRecord:
    (record,) = decided.history.removals
    return record


WITHOUT = group(member(0), member(1))


def test_removal_is_settled_by_one_stable_reading_under_the_same_coordinator() -> None:
    assert record_after(planned(departure(group=WITHOUT), history(removals=(acknowledged(),)))).settled_at_s == NOW_S


def test_removal_is_not_settled_while_the_group_rebalances() -> None:
    """A classic removal is acknowledged before the next generation is stored."""
    moving = replace(WITHOUT, state="PreparingRebalance")
    assert record_after(planned(departure(group=moving), history(removals=(acknowledged(),)))).settled_at_s is None


def test_after_a_coordinator_change_two_readings_two_seconds_apart_are_needed() -> None:
    moved = replace(WITHOUT, coordinator="2@10.0.0.2:9092")
    first = planned(departure(group=moved), history(removals=(acknowledged(),)))
    assert record_after(first).settled_at_s is None
    early = planned(departure(group=moved), first.history, NOW_S + 1.9)
    assert record_after(early).settled_at_s is None
    assert record_after(planned(departure(group=moved), early.history, NOW_S + 2.1)).settled_at_s == NOW_S + 2.1


ABSENT = group(group_type=GroupType.ABSENT, state="Dead")


@pytest.mark.parametrize("coordinator", [COORDINATOR, "2@10.0.0.2:9092"])
@pytest.mark.parametrize("settled_at_s", [None, NOW_S - 60])
def test_group_that_expired_needs_two_readings_two_seconds_apart_to_settle_a_removal(
    coordinator: str, settled_at_s: float | None
) -> None:
    """A coordinator that has only just loaded may not show a group that exists, so one such reading is not believed."""
    record = acknowledged(settled_at_s=settled_at_s, coordinator="3@10.0.0.3:9092" if settled_at_s else COORDINATOR)
    gone = departure(group=replace(ABSENT, coordinator=coordinator))
    first = planned(gone, history(removals=(record,)))
    assert record_after(first).settled_at_s is None
    early = planned(gone, first.history, NOW_S + 1.9)
    assert record_after(early).settled_at_s is None
    late = planned(gone, early.history, NOW_S + 2.1)
    assert record_after(late).settled_at_s == NOW_S + 2.1
    assert late.requeue_after_s > VERIFY_REQUEUE_S


def test_readings_that_fail_while_a_coordinator_loads_settle_nothing() -> None:
    loading = KafkaProblem(kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE, message="the coordinator is loading")
    first = planned(departure(group=ABSENT), history(removals=(acknowledged(),)))
    between = planned(departure(group=loading), first.history, NOW_S + 10)
    (record,) = between.history.removals
    assert record.settled_at_s is None


def test_member_that_is_back_after_its_group_was_not_shown_is_not_settled() -> None:
    first = planned(departure(group=ABSENT), history(removals=(acknowledged(),)))
    back = planned(departure(), first.history, NOW_S + 2.1)
    (record,) = back.history.removals
    assert (record.absent_since_s, record.settled_at_s) == (None, None)


def test_resurrected_member_is_removed_again_with_the_same_pair() -> None:
    """GroupMetadataManager reloads the last stored generation at a fail-over; the leave was never in it."""
    decided = planned(memory=history(removals=(acknowledged(settled_at_s=NOW_S - 0.5),)))
    assert removed(decided) == {("m2", id_of(2))}
    assert decided.actions[0].removals[0].attempt == 2
    assert record_after(decided).settled_at_s is None


def test_somebody_else_under_a_removed_id_leaves_by_its_own_carriers_alone() -> None:
    snapshot = departure(group=group(member(0), member(1), member(2, "m9")))
    memory = history(removals=(acknowledged(),), members=members(attributions={id_of(2): attributed("m9", "u2")}))
    assert removed(planned(snapshot, memory)) == {("m9", id_of(2))}
    living = history(removals=(acknowledged(),), members=members(attributions={id_of(2): attributed("m9", "z")}))
    assert only_guard(planned(snapshot, living)) is Guard.SUSPECT


CONSUMERS = group(
    *(member(n, member_epoch=5) for n in range(3)), group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5
)


@pytest.mark.parametrize(
    ("described", "wish"),
    [
        (CONSUMERS, {"groupProtocol": "Consumer"}),
        (
            replace(CONSUMERS, group_type=GroupType.STREAMS, protocol_type="streams"),
            {"groupProtocol": "Streams", "idTemplate": "{podName}.{scope}", "client": {"type": "Own"}},
        ),
    ],
    ids=["consumer", "streams"],
)
def test_member_that_is_described_after_its_leave_was_acknowledged_lives_and_stays(
    described: GroupView, wish: dict[str, Any]
) -> None:
    """An acknowledged leave is durable there, and a client that was removed joins again under its own member id."""
    assert removed(planned(departure(group=described), **wish)) == {("m2", id_of(2))}
    back = planned(departure(group=described), history(removals=(acknowledged(),)), **wish)
    assert only_guard(back) is Guard.RETURNED
    (held,) = back.held
    assert held.remedy == "find it and stop it; it is not removed again"


def test_member_that_is_known_to_live_stays_also_when_its_id_was_wanted_meanwhile_and_its_removal_is_forgotten() -> (
    None
):
    """It lives in an unknown pod; the next pod of its seat was born after it had joined, and ends without it."""
    wish = {"groupProtocol": "Consumer"}
    back = planned(departure(group=CONSUMERS), history(removals=(acknowledged(),)), **wish)
    wanted = planned(departure(group=CONSUMERS, workload=workload(3)), back.history, **wish)
    assert wanted.history.removals == ()
    assert only_guard(planned(departure(group=CONSUMERS), wanted.history, NOW_S + 60, **wish)) is Guard.UNATTRIBUTED
    at_once = planned(departure(group=CONSUMERS, workload=workload(3)), history(removals=(acknowledged(),)), **wish)
    assert only_guard(planned(departure(group=CONSUMERS), at_once.history, NOW_S + 60, **wish)) is Guard.UNATTRIBUTED


def test_member_that_is_known_to_live_is_not_taken_for_that_of_a_later_pod_where_its_id_was_described_empty() -> None:
    wish = {"groupProtocol": "Consumer"}
    left = planned(
        departure(group=replace(CONSUMERS, members=CONSUMERS.members[:2])), history(removals=(acknowledged(),)), **wish
    )
    assert id_of(2) not in left.history.members.attributions
    seen = sight(has_passed=False)  # nor does it take a barrier to know
    back = planned(departure(group=CONSUMERS, workload=workload(3), sight=seen), left.history, **wish)
    assert only_guard(planned(departure(group=CONSUMERS), back.history, NOW_S + 60, **wish)) is Guard.UNATTRIBUTED


def test_next_member_of_a_seat_whose_removed_one_came_back_is_attributed_anew() -> None:
    wish = {"groupProtocol": "Consumer"}
    back = planned(departure(group=CONSUMERS), history(removals=(acknowledged(),)), **wish)
    other = replace(CONSUMERS, members=(*CONSUMERS.members[:2], member(2, "m9", member_epoch=5)))
    joined = planned(
        departure(
            group=other, workload=workload(3), sight=sight(ended=frozenset(), carrying={id_of(2): frozenset({"u9"})})
        ),
        back.history,
        **wish,
    )
    assert joined.history.members.attributions[id_of(2)].carriers == {"u9"}


def test_record_is_dropped_when_its_id_is_wanted_again() -> None:
    decided = planned(
        departure(workload=workload(3), group=group(member(0), member(1))), history(removals=(acknowledged(),))
    )
    assert decided.history.removals == ()


def test_sightings_are_noted_only_for_pods_that_were_ready_for_long() -> None:
    world = departure(
        workload=workload(3), pods=(known_pod(2, "u2", ready_since_s=NOW_S - 59),), group=group(member(2))
    )
    assert id_of(2) not in planned(world).history.seats
    settled = replace(world, pods=(known_pod(2, "u2", ready_since_s=NOW_S - 61),))
    assert planned(settled).history.seats[id_of(2)] == SeatMemory(sightings=(("m2", "u2", NOW_S),))


READY = known_pod(2, "u2", ready_since_s=NOW_S - 300)
BESIDE = history(sightings={id_of(2): (("m2", "u2", NOW_S - 200),)})
TAKEN = departure(workload=workload(3), pods=(READY,), group=group(member(2, member_id="m2-elsewhere")))


def replaced(decided: Plan) -> list[str]:
    """Return the members that are reported to have taken the place of another one."""
    found = findings_of_seats(spec(), decided, TAKEN)
    return [f.subject.member_id or "" for f in found if f.reason == "MemberReplaced"]


def test_member_that_takes_the_place_beside_a_ready_pod_is_reported_for_a_while_and_never_removed() -> None:
    """What a process of another cluster with the same id does to a client that falls silent when it is fenced."""
    first = planned(TAKEN, BESIDE)
    assert replaced(first) == ["m2-elsewhere"]
    (finding,) = [f for f in findings_of_seats(spec(), first, TAKEN) if f.reason == "MemberReplaced"]
    assert "another consumer uses this id, in the same pod or elsewhere" in finding.sentence
    assert first.actions == ()
    later = planned(TAKEN, first.history, NOW_S + REPLACED_TOLD_S - 1)
    assert replaced(later) == ["m2-elsewhere"]
    assert replaced(planned(TAKEN, later.history, NOW_S + REPLACED_TOLD_S)) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(replace(READY, ready_since_s=NOW_S - 100), id="was not Ready in between"),
        pytest.param(replace(READY, ready_since_s=None), id="restarts"),
        pytest.param(replace(READY, uid="u3"), id="is another one"),
    ],
)
def test_the_member_of_a_new_process_replaces_no_living_one(pod: KnownPod) -> None:
    assert replaced(planned(replace(TAKEN, pods=(pod,)), BESIDE)) == []


def test_members_that_join_anew_after_the_brokers_were_away_replace_none() -> None:
    """All sessions have expired meanwhile; to stop whoever else has the ids would be the wrong advice."""
    away = planned(replace(TAKEN, group=KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="")), BESIDE)
    assert replaced(planned(TAKEN, away.history)) == []


def test_a_member_that_stays_replaces_none() -> None:
    assert replaced(planned(replace(TAKEN, group=group(member(2))), BESIDE)) == []


def test_only_an_acknowledged_removal_leaves_a_record() -> None:
    (action,) = planned().actions
    for outcome in LeaveOutcome:
        after = with_outcomes(history(), action.removals, [outcome], COORDINATOR, NOW_S)
        assert len(after.removals) == (1 if outcome is LeaveOutcome.REMOVED else 0)
