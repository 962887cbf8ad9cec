"""What passes by itself raises no alarm, and holds say what frees a seat."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.group import LeaveOutcome
from staticgroup.core.guards import TRANSIENT_GUARDS, Guard
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import RemovalRecord, Snapshot

from .builders import (
    COORDINATOR,
    NOW_S,
    WATCH,
    departure,
    fresh,
    going,
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
from .plans import SUSPECT, conditions_of

# what passes by itself -----------------------------------------------------------------------------------------------

AWAY = departure(
    workload=workload(2),
    pods=(known_pod(0, "u0"), known_pod(1, "u1", ready_since_s=None, created_at_s=NOW_S - 20)),
    group=group(member(0)),
)
ENDING = departure(chains={id_of(2): (known_pod(is_deleting=True),)}, sight=sight(ended=frozenset()))


@pytest.mark.parametrize(
    ("snapshot", "changes", "kind", "reason", "words"),
    [
        (AWAY, {}, "MembershipComplete", "MembersAway", "away while their pods restart"),
        (ENDING, {}, "RemovalSettled", "RemovalInProgress", "PodStillRunning"),
        (going(), {}, "RemovalSettled", "RemovalInProgress", "HoldWindow"),
        (departure(fresh={}), {}, "RemovalSettled", "RemovalInProgress", "NotReadAfresh"),
        (
            departure(fresh={id_of(2): fresh(barrier_passed=False)}), {}, "RemovalSettled", "RemovalInProgress",
            "WatchBehind",
        ),
        (
            departure(fresh={id_of(2): fresh(is_expected=True)}), {}, "RemovalSettled", "RemovalInProgress",
            "ExpectedAgain",
        ),
        (departure(), {}, "RemovalSettled", "RemovalInProgress", "after one more read"),
    ],
    ids=["members away", "pod ending", "hold window", "not read yet", "watch behind", "wanted again", "not sent yet"],
)
def test_what_passes_by_itself_is_reported_and_leaves_ready_true(
    snapshot: Snapshot, changes: dict[str, Any], kind: str, reason: str, words: str
) -> None:
    conditions = conditions_of(snapshot, wish=spec(**changes))
    assert (conditions[kind].status.value, conditions[kind].reason) == ("False", reason)
    assert words in conditions[kind].message
    assert (conditions["Ready"].status.value, conditions["Ready"].reason) == ("True", "Reconciled")
    assert kind in conditions["Ready"].message


def test_acknowledged_removal_that_is_not_verified_yet_leaves_ready_true() -> None:
    record = RemovalRecord(instance_id=id_of(2), member_id="m2", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - 1)
    moving = departure(group=group(member(0), member(1), state="PreparingRebalance"))
    conditions = conditions_of(moving, history(removals=(record,)))
    assert conditions["RemovalSettled"].reason == "RemovalInProgress"
    assert "1 removal is acknowledged" in conditions["RemovalSettled"].message
    assert conditions["Ready"].status.value == "True"


@pytest.mark.parametrize("outcome", [LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN])
def test_race_that_the_compare_and_set_decided_is_no_failure(outcome: LeaveOutcome) -> None:
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    conditions = conditions_of(departure(), executed=Executed(removals=action.removals, outcomes=(outcome,)))
    assert conditions["RemovalSettled"].reason == "RemovalInProgress"
    assert conditions["Ready"].status.value == "True"


def test_one_suspect_among_ending_pods_is_what_the_user_reads() -> None:
    """Sorted by id the ending pod comes first; the one that needs a person must not hide behind it."""
    world = departure(
        group=group(member(0), member(1), member(2), member(3)),
        chains={id_of(2): (known_pod(is_deleting=True),), id_of(3): (known_pod(3, "u3", SUSPECT),)},
        sight=sight(ended=frozenset()),
    )
    memory = history(members=members({3: ["u3"]}))
    found = conditions_of(world, memory)["RemovalSettled"]
    assert found.reason == "EndNotSeen"
    assert id_of(3) in found.message
    assert conditions_of(world, memory)["Ready"].status.value == "False"


def test_missing_member_is_not_hidden_by_others_that_are_away() -> None:
    world = departure(
        workload=workload(3),
        pods=(known_pod(0, "u0"), known_pod(1, "u1"), known_pod(2, "u2", ready_since_s=None)),
        group=group(member(0)),
    )
    conditions = conditions_of(world)
    assert conditions["MembershipComplete"].reason == "MembersMissing"
    assert conditions["Ready"].status.value == "False"


def test_guards_that_need_a_person_are_never_transient() -> None:
    lasting = {
        Guard.SUSPECT, Guard.UNATTRIBUTED, Guard.JOINED_BEFORE_WATCH, Guard.RETURNED, Guard.CONFLICT, Guard.UNSCOPED,
        Guard.DUPLICATE, Guard.UNSUPPORTED_GROUP, Guard.POLICY_NEVER, Guard.SUSPENDED,
    }
    assert set(Guard) == lasting | TRANSIENT_GUARDS
    assert not lasting & TRANSIENT_GUARDS


@pytest.mark.parametrize(
    ("carriers", "guard"),
    [([UNATTRIBUTED], Guard.UNATTRIBUTED), ([UNSEEN], Guard.JOINED_BEFORE_WATCH), (["z"], Guard.SUSPECT)],
)
def test_member_whose_pod_was_not_seen_to_end_is_reported_with_what_frees_it(carriers: list[str], guard: Guard) -> None:
    found = conditions_of(departure(), history(members=members({2: carriers})))["RemovalSettled"]
    assert (found.status.value, found.reason) == ("False", "EndNotSeen")
    assert f"{id_of(2)} ({guard.value}): " in found.message
    assert "the member leaves when its session expires" in found.message


@pytest.mark.parametrize(("watch", "is_said"), [(WATCH, False), ("before", True)])
def test_a_restart_is_said_to_free_a_seat_only_once_the_watch_has_been_whole_for_long(
    watch: str, is_said: bool
) -> None:
    world = departure(sight=sight())
    found = conditions_of(world, history(members=members({2: [UNSEEN]}, watch=watch)))["RemovalSettled"]
    assert "(one that joins " in found.message
    assert ("(one that joins after 08:11 UTC can be removed)" in found.message) is is_said
