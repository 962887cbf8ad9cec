"""Absences as they are measured from round to round: the published stories, and what must never make a session longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from staticgroup.api.absences import EndKind
from staticgroup.core.absences.measure import Following, Return, measure
from staticgroup.core.absences.samples import Cause, Reservoir
from staticgroup.core.evidence.chain import ContainerEnd, KnownPod, PodState, RunEnd
from staticgroup.core.group import STATIC_MEMBER_AWAY_EPOCH, GroupType, GroupView
from staticgroup.core.ids.naming import naming_of
from staticgroup.core.seats import Seat, Standing
from staticgroup.core.timeouts.desired import RESTART_MAX_MS
from support import absences as published
from support.absence_definition import EventKind, MemberEvent, absences

from .builders import departure, group, history, id_of, known_pod, member, spec, workload

ID = id_of(0)
SEAT = Seat(key=ID, ordinal=0, pod_name="web-0", standing=Standing.JOINED)
NAMING = naming_of(spec(), history())


def pod(uid: str, *, end_ms: int | None = None, seen_ms: int | None = None, run: str = "r0", **changes: Any) -> KnownPod:
    """Return the pod of the id, of which a run ended then."""
    end = None
    if end_ms is not None:
        end = RunEnd(container_id=f"{uid}/{run}", finished_at_s=end_ms / 1000, received_at_s=(seen_ms or end_ms + 500) / 1000)
    return known_pod(0, uid, ends=(ContainerEnd(container="app", end=end),), **({"revision": "r1"} | changes))


def gone(uid: str, **changes: Any) -> KnownPod:
    return pod(uid, **({"state": PodState.DEAD} | changes))


def back(lo_ms: int, hi_ms: int) -> Return:
    return Return(instance_id=ID, member_id=f"m{hi_ms}", previous_member_id="m", lo_ms=lo_ms, hi_ms=hi_ms, is_absorbed=True)


@dataclass
class Rounds:
    """Rounds that see the pods and returns that they are given; the first one began at 0."""

    group: GroupView = field(default_factory=group)
    following: Mapping[str, Following] = field(default_factory=lambda: {ID: Following(since_ms=0)})
    kept: Mapping[Cause, Reservoir] = field(default_factory=dict)

    def see(self, *pods: KnownPod, returned: Return | None = None, began_ms: int = 0, is_wanted: bool = True) -> None:
        snapshot = departure(known=pods, group=self.group, workload=workload(2))
        returns = (returned,) if returned is not None else ()
        self.following, self.kept = measure(
            self.following, self.kept, snapshot, NAMING, (SEAT,) if is_wanted else (), returns, began_ms=began_ms
        )

    @property
    def lengths_ms(self) -> list[tuple[int, int]]:
        return [(s.shortest_ms, s.longest_ms) for kept in self.kept.values() for s in kept.samples]

    @property
    def is_away(self) -> bool:
        return self.following[ID].end is not None


def rounds_of(events: Sequence[MemberEvent]) -> Rounds:
    """Show a story's events in the order in which they were seen, each as the state of the world after it."""
    rounds, pods = Rounds(), dict[str, KnownPod]()
    for event in sorted(events, key=lambda each: each.observed_at_ms):
        returned, uid = None, event.pod_uid
        match event.kind:
            case EventKind.STARTED:
                pods = {u: p if u == uid else replace(p, object_present=False) for u, p in pods.items()}
                pods.setdefault(uid, pod(uid))
            case EventKind.ENDED:
                pods[uid] = pod(uid, end_ms=event.source_time_ms, seen_ms=event.observed_at_ms, run=str(event.restart_count))
            case EventKind.RETURNED:
                returned = back(event.time_lo_ms or 0, event.at_ms)
        is_wanted = event.kind is not EventKind.DEPARTED
        rounds.see(*pods.values(), returned=returned, began_ms=event.observed_at_ms, is_wanted=is_wanted)
    return rounds


STORIES = [s for s in published.stories() if not s.blind and "two looks" not in s.name]
"""Where somebody looked, and with the ends that a pod's status shows."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_published_stories_seen_round_by_round_give_the_lengths_of_the_definition(story: published.Story) -> None:
    events = [event for event in story.events if event.kind is not EventKind.REMOVED]
    wanted = [a.gap_ms for a in absences(events, as_of_ms=story.as_of_ms) if a.end is EndKind.RETURNED]
    assert sorted(longest for _, longest in rounds_of(events).lengths_ms) == sorted(wanted)


def test_an_absence_is_at_least_and_at_most_as_long_as_the_readings_around_it_allow() -> None:
    rounds = Rounds()
    rounds.see(gone("a", end_ms=1_000, seen_ms=2_000))
    assert rounds.is_away
    rounds.see(gone("a", end_ms=1_000, seen_ms=2_000), pod("b"), returned=back(30_000, 34_000))
    assert (rounds.lengths_ms, rounds.is_away) == ([(28_000, 33_000)], False)


def test_every_restart_counts_once_and_nothing_grows() -> None:
    rounds = Rounds()
    for n in range(1, 101):
        at_ms = 100_000 * n
        rounds.see(pod("a", end_ms=at_ms, run=str(n)))
        for returned in (back(at_ms + 4_000, at_ms + 6_000), None, None):
            rounds.see(pod("a", end_ms=at_ms, run=str(n)), returned=returned)
        assert rounds.following == {ID: Following(since_ms=at_ms + 6_000)}
    assert (rounds.kept[Cause.CRASH].seen, rounds.kept[Cause.CRASH].unmeasured) == (100, 0)
    assert {longest for _, longest in rounds.lengths_ms} == {6_000}


def test_end_may_be_seen_after_the_return() -> None:
    """A process is back after two seconds, and its kubelet writes the status of its pod after ten."""
    rounds = Rounds()
    rounds.see(pod("a"), returned=back(3_000, 4_000))
    rounds.see(pod("a", end_ms=1_000, seen_ms=11_000))
    assert (rounds.lengths_ms, rounds.is_away) == ([(0, 3_000)], False)


def test_end_after_a_return_without_one_begins_the_next_absence() -> None:
    rounds = Rounds()
    rounds.see(pod("a"), returned=back(3_000, 4_000))
    rounds.see(pod("a", end_ms=60_000))
    assert rounds.is_away
    rounds.see(pod("a", end_ms=60_000), returned=back(69_000, 70_000))
    assert rounds.lengths_ms == [(8_500, 10_000)]


def test_absence_that_began_before_the_first_round_is_none() -> None:
    rounds = Rounds(following={})
    rounds.see(pod("a", end_ms=40_000, seen_ms=51_000), began_ms=50_000)
    rounds.see(pod("a", end_ms=40_000, seen_ms=51_000), returned=back(60_000, 65_000), began_ms=60_000)
    assert (rounds.kept, rounds.is_away) == ({}, False)


def test_member_that_nobody_wants_is_not_away_for_a_restart() -> None:
    """Scaled down in the evening and up in the morning: that night is no restart."""
    rounds = Rounds()
    rounds.see(gone("a", end_ms=1_000))
    rounds.see(gone("a", end_ms=1_000), is_wanted=False)
    assert rounds.following == {}
    rounds.see(gone("a", end_ms=1_000), pod("b"), began_ms=200_000)
    rounds.see(gone("a", end_ms=1_000), pod("b"), returned=back(205_000, 210_000), began_ms=210_000)
    assert (rounds.kept, rounds.is_away) == ({}, False)


@pytest.mark.parametrize(
    ("seen_ms", "returned"),
    [(1_500, back(5_000, 500_000)), (62_000, back(64_000, 65_000)), (1_500, back(1_001 + RESTART_MAX_MS - 5_000, 1_001 + RESTART_MAX_MS))],
    ids=["return seen late", "end seen late", "longer than any restart"],
)
def test_absence_without_a_length_is_counted_and_not_measured(seen_ms: int, returned: Return) -> None:
    rounds = Rounds()
    rounds.see(pod("a", end_ms=1_000, seen_ms=seen_ms), returned=returned)
    assert rounds.kept == {Cause.CRASH: Reservoir(seen=1, unmeasured=1)}


@pytest.mark.parametrize("is_away", [True, False])
def test_successor_that_is_refused_until_the_session_ends_measures_the_session(is_away: bool) -> None:
    """KIP-848: UNRELEASED_INSTANCE_ID until the session of a process that did not leave expires (lab: 48 s at 45 s)."""
    held = member(0, member_epoch=STATIC_MEMBER_AWAY_EPOCH if is_away else 4)
    rounds = Rounds(group=group(held, group_type=GroupType.CONSUMER, group_epoch=4, assignment_epoch=4))
    rounds.see(pod("a", end_ms=1_000, seen_ms=1_500), began_ms=2_000)
    rounds.see(pod("a", end_ms=1_000, seen_ms=1_500), returned=back(47_000, 49_000), began_ms=48_000)
    assert (rounds.kept[Cause.CRASH].unmeasured, len(rounds.lengths_ms)) == ((0, 1) if is_away else (1, 0))


@pytest.mark.parametrize(
    ("before", "now", "cause"),
    [
        (gone("a", end_ms=1_000), pod("b", revision="r2"), Cause.ROLLOUT),
        (gone("a", end_ms=1_000), None, Cause.ROLLOUT),
        (gone("a", end_ms=1_000), pod("b"), Cause.DRAIN),
        (pod("a", end_ms=1_000), None, Cause.CRASH),
        (known_pod(0, "a", PodState.SUSPECT, since_s=1.0), pod("b"), Cause.NODE_LOSS),
    ],
)
def test_cause_follows_from_what_became_of_the_pod(before: KnownPod, now: KnownPod | None, cause: Cause) -> None:
    rounds = Rounds()
    rounds.see(before, *([now] if now is not None else []), returned=back(5_000, 6_000))
    assert rounds.kept.keys() == {cause}
    assert (cause is Cause.NODE_LOSS) == (rounds.lengths_ms == [])


@pytest.mark.parametrize(("of", "number"), [(gone, 1), (pod, 2)])
def test_containers_of_a_pod_that_is_replaced_draw_one_lot_and_count_once(of: Callable[..., KnownPod], number: int) -> None:
    lots = set()
    for run in ("r0", "r1"):
        rounds = Rounds()
        rounds.see(of("a", end_ms=1_000, run=run), returned=back(5_000, 6_000))
        lots |= {s.lot for kept in rounds.kept.values() for s in kept.samples}
    assert len(lots) == number
