"""The shortest stories that would end with the removal of a living process, each without one clause of the rule.

In every one the process of web-2's first pod lives, cut off from the API server and not from Kafka, and its seat is
scaled down. What `sight` says what each pod is for the store; the rule alone stands between the story and a leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from staticgroup.api.resources.memory import StatusMemory
from staticgroup.core.guards import Guard
from staticgroup.core.members.memory import PAUSE_MAX_S, Members
from staticgroup.core.plan import Plan
from staticgroup.core.snapshot import History
from staticgroup.core.status.memory import members_from, wire_members
from unit.core.builders import (
    NOW_S,
    WATCH,
    departure,
    group,
    history,
    id_of,
    known_pod,
    member,
    sight,
    suspect,
    workload,
)
from unit.core.plans import planned, removed

SEAT = id_of(2)
LOST = suspect("u2")


class Story:
    """One StaticGroup over several rounds, a minute apart."""

    def __init__(self, watch: str = WATCH) -> None:
        self.memory: History = history(members=Members(watch=watch, watch_described=watch))
        self.at_s = 0.0

    def round(
        self,
        holder: str | None,
        carrying: Iterable[str] = (),
        *,
        wanted: bool = True,
        later_s: float = 60.0,
        **seen: Any,
    ) -> Plan:
        """Describe the group, in which this member holds web-2's seat, and plan.

        Parameters
        ----------
        carrying: uids of the pods that carry the id and are live or suspect.
        """
        self.at_s += later_s
        values = {
            "ended": frozenset(), "described_at_s": 10_000.0 + self.at_s, "dated_at_s": NOW_S + self.at_s,
            "carrying": {SEAT: frozenset(carrying)},
        }
        members = (member(0), member(1)) if holder is None else (member(0), member(1), member(2, holder))
        snapshot = departure(
            group=group(*members), sight=sight(**(values | seen)),
            workload=workload(3 if wanted else 2, status_replicas=2), pods=(known_pod(0, "u0"), known_pod(1, "u1")),
        )
        decided = planned(snapshot, self.memory, NOW_S + self.at_s)
        self.memory = decided.history
        return decided

    def restart(self) -> None:
        """Another process continues with the memory in the status."""
        kept = self.memory.members
        status = StatusMemory(**wire_members("shop", kept))
        self.memory = replace(
            self.memory, members=members_from("shop", StatusMemory.model_validate(status.to_wire()))
        )


def guard(decided: Plan) -> str:
    assert decided.actions == ()
    (held,) = [h for h in decided.held if h.subject.instance_id == SEAT]
    return held.reason


def test_member_of_the_plain_story_leaves() -> None:
    """The control: its pod was there when it joined, and has ended."""
    story = Story()
    story.round("m2", ["u2"])
    assert guard(story.round("m2", ["u2"], wanted=False)) == Guard.SUSPECT, "its end was not seen"
    assert removed(story.round("m2", wanted=False, ended=frozenset({"u2"}))) == {("m2", SEAT)}


def test_describe_before_the_watch_has_shown_the_pod_of_the_member() -> None:
    """A second pod joins while the watch shows only the first, which ends; the member is the second one's."""
    story = Story()
    assert guard(story.round("m3", ["u2"], wanted=False, has_passed=False)) == Guard.NO_BARRIER
    assert guard(story.round("m3", ["u3"], wanted=False, ended=frozenset({"u2"}))) == Guard.SUSPECT


def test_force_deleted_pod_takes_its_seat_back_beside_its_successor() -> None:
    """The successor joins, is fenced by the first process, which joins again, and ends."""
    story = Story()
    story.round("m2", ["u2"])
    story.round("m3", ["u2", "u3"], suspects=(LOST,))
    story.round("m4", ["u2", "u3"], suspects=(LOST,))
    assert guard(story.round("m4", ["u2"], wanted=False, suspects=(LOST,), ended=frozenset({"u3"}))) == Guard.SUSPECT


def test_same_over_a_hand_over_to_a_process_that_never_saw_the_pod() -> None:
    story = Story()
    story.round("m2", ["u2"])
    story.round("m2", ["u2"], suspects=(LOST,))
    story.restart()
    suspects = [s.uid for s in story.memory.members.suspects]
    assert suspects == ["u2"]
    story.round("m4", [*suspects, "u3"])
    assert guard(story.round("m4", suspects, wanted=False, ended=frozenset({"u3"}))) == Guard.SUSPECT


def test_pod_that_came_and_went_in_a_watch_gap() -> None:
    """The watch begins anew; a process of a pod that no LIST shows takes the seat of a pod that ends."""
    story = Story("before")
    story.round("m9", ["u3"])
    assert guard(story.round("m9", [], wanted=False, ended=frozenset({"u3"}))) == Guard.JOINED_BEFORE_WATCH


def test_same_when_the_watch_is_old_and_was_not_described_since_it_began() -> None:
    """The holder of the seat in the first description may have joined right after the watch began."""
    story = Story("before")
    story.round("m9", ["u3"], described_at_s=1_000_000.0)
    assert guard(story.round("m9", [], wanted=False, ended=frozenset({"u3"}))) == Guard.JOINED_BEFORE_WATCH


def test_same_when_a_description_came_before_the_time_was_over_and_none_after_it() -> None:
    story = Story("before")
    story.round(None)
    story.round("m9", ["u3"], described_at_s=10_700.0)
    assert guard(story.round("m9", [], wanted=False, ended=frozenset({"u3"}))) == Guard.JOINED_BEFORE_WATCH


def test_member_that_no_pod_explains_and_whose_seat_had_an_end_long_ago() -> None:
    story = Story()
    story.round("m2", ["u2"])
    story.round(None, ended=frozenset({"u2"}), ends=1)
    assert guard(story.round("m9", [], wanted=False, ends=1, last_end={SEAT: 1})) == Guard.UNATTRIBUTED


def test_same_over_a_hand_over_to_a_standby_that_saw_that_end_long_ago() -> None:
    """Since the description before is not known of one that another process made."""
    story = Story()
    story.round("m2", ["u2"])
    story.round(None, ended=frozenset({"u2"}), ends=1)
    story.restart()
    assert guard(story.round("m9", [], wanted=False, ends=7, last_end={SEAT: 5})) == Guard.UNATTRIBUTED


def test_suspect_is_silent_for_long_while_its_member_goes_on() -> None:
    """Its member is described all the while; then its own, that is the same, is not wanted any more."""
    story = Story()
    story.round("m2", ["u2"])
    for _ in range(30):
        story.round("m2", ["u2"], suspects=(LOST,))
    assert guard(story.round("m2", [], wanted=False, suspects=(LOST,))) == Guard.SUSPECT
    assert guard(story.round("m2", [], wanted=False, later_s=100_000.0)) == Guard.SUSPECT


def test_suspect_that_is_dropped_for_members_to_come_still_holds_those_that_joined_beside_it() -> None:
    story = Story()
    story.round("m3", ["u2", "u3"], suspects=(LOST,))
    story.round(None, suspects=(LOST,))
    held = story.memory.members.attributions
    assert SEAT not in held, "it left"
    for _ in range(20):
        story.round(None, suspects=(LOST,))
    assert story.memory.members.suspects == ()
    story.round("m4", ["u4"], suspects=(LOST,))
    assert removed(story.round("m4", [], wanted=False, suspects=(LOST,), ended=frozenset({"u4"}))) == {("m4", SEAT)}


def test_operator_that_slept_counts_no_silence() -> None:
    story = Story()
    story.round(None, suspects=(LOST,))
    story.round(None, later_s=PAUSE_MAX_S + 10_000.0)
    story.round("m4", ["u2", "u4"])
    assert guard(story.round("m4", ["u2"], wanted=False, ended=frozenset({"u4"}))) == Guard.SUSPECT


def test_emptied_status_remembers_no_carrier_and_holds_every_member() -> None:
    story = Story()
    story.round("m2", ["u2"])
    story.memory = replace(story.memory, members=Members())
    assert guard(story.round("m2", [], wanted=False)) == Guard.JOINED_BEFORE_WATCH


def test_older_status_that_was_put_back_holds_longer() -> None:
    story = Story()
    story.round("m2", ["u2"])
    older = story.memory.members
    assert removed(story.round("m2", [], wanted=False, ended=frozenset({"u2"}))) == {("m2", SEAT)}
    story.memory = replace(story.memory, members=older)
    assert guard(story.round("m2", [], wanted=False)) == Guard.SUSPECT
