"""Absences as they are followed from round to round: the published stories, and what must never make a session longer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from staticgroup.api.absences import SKEW_MS, EndKind, EventKind, MemberEvent, absences
from staticgroup.core.absences.causes import Cause, cause_of
from staticgroup.core.absences.following import Ended, Following, follow, with_ended
from staticgroup.core.absences.reservoir import Reservoir
from staticgroup.core.group import STATIC_MEMBER_AWAY_EPOCH, GroupType, GroupView, MemberView
from support import absences as told

ID = "orders-0"
FIRST = Following(since_ms=0)
WANTED = frozenset({ID})


def followed(
    rounds: Iterable[list[MemberEvent]], state: Following = FIRST, *, wanted: frozenset[str] = WANTED, step_ms: int = 1
) -> tuple[Following, list[Ended]]:
    """Tell facts in rounds; a round is when its last fact was seen."""
    found: list[Ended] = []
    for events in rounds:
        now_ms = max((event.observed_at_ms for event in events), default=0) + step_ms
        state, ended = follow(state, events, None, wanted=wanted, began_ms=now_ms - step_ms, now_ms=now_ms)
        found += ended
    return state, found


def row(number: int, **fields: object) -> MemberEvent:
    (event,) = told.events([told.fact(number, fields)])
    return event


@pytest.mark.parametrize("story", [s for s in told.stories() if not s.blind], ids=lambda story: story.name)
def test_published_stories_told_fact_by_fact_give_the_lengths_of_the_definition(story: told.Story) -> None:
    """As the facts are seen one after the other, the returns with a length are those of all facts at once."""
    events = sorted(story.events, key=lambda event: event.observed_at_ms)
    rounds = [[event] for event in events if event.kind is not EventKind.REMOVED]
    _, found = followed(rounds)
    expected = absences([f for r in rounds for f in r], as_of_ms=story.as_of_ms)
    returned = [a for a in expected if a.end is EndKind.RETURNED]
    assert [(e.absence.down_ms, e.absence.gap_ms) for e in found if e.is_measured] == [(a.down_ms, a.gap_ms) for a in returned]


def test_nothing_is_remembered_twice_and_nothing_grows() -> None:
    """A hundred restarts in place: each is told once, and what is kept stays small."""
    state, found = FIRST, []
    for n in range(100):
        begin = 100_000 * (n + 1)
        facts = [
            [row(n, down=f"a/{n}", at=begin, seen=begin + 500)],
            [row(n, up=f"a/{n + 1}", at=begin + 3_000, seen=begin + 3_500)],
            [row(n, back=True, lo=begin + 4_000, hi=begin + 6_000, seen=begin + 6_000)],
        ]
        state, ended = followed(facts, state)
        found += ended
        assert len(state.events[ID]) <= 3
        assert state.away == {}
    assert [e.absence.gap_ms for e in found] == [6_000] * 100


def test_member_that_has_been_back_for_long_costs_nothing() -> None:
    facts = [row(1, down="a/0", at=1_000, seen=1_500), row(2, back=True, lo=5_000, hi=6_000, seen=6_000)]
    state, _ = followed([facts])
    assert state.events.keys() == WANTED
    state, _ = follow(state, [], None, wanted=WANTED, began_ms=0, now_ms=6_000 + SKEW_MS)
    assert state.events == {}


def test_absence_from_before_the_first_look_is_none() -> None:
    begun = Following(since_ms=50_000)
    rounds = [[row(1, down="a/0", at=40_000, seen=51_000)], [row(2, back=True, lo=900_000, hi=905_000, seen=905_000)]]
    state, found = followed(rounds, begun)
    assert (found, state.away) == ([], {})


def test_member_that_nobody_wants_is_not_away_for_a_restart() -> None:
    """Scaled down in the evening and up in the morning: that night is no restart."""
    state, _ = followed([[row(1, down="a/0", at=1_000, seen=1_500)]])
    assert state.away == {ID: 1_000}
    state, _ = follow(state, [], None, wanted=frozenset(), began_ms=2_000, now_ms=2_500)
    state, found = followed([[row(2, back=True, lo=30_000_000, hi=30_005_000, seen=30_005_000)]], state)
    assert (found, state.away) == ([], {})


def test_return_that_nobody_saw_in_time_has_no_length() -> None:
    _, found = followed(
        [[row(1, down="a/0", at=1_000, seen=1_500)], [row(2, back=True, lo=5_000, hi=500_000, seen=500_000)]]
    )
    assert [e.is_measured for e in found] == [False]
    kept = with_ended({}, found, longest_ms=10**6, seed="s")
    assert kept == {Cause.CRASH: Reservoir(seen=1, unmeasured=1)}


def kip848(*, is_away: bool) -> GroupView:
    epoch = STATIC_MEMBER_AWAY_EPOCH if is_away else 4
    member = MemberView(member_id="m0", instance_id=ID, member_epoch=epoch)
    return GroupView(
        group_id="orders", group_type=GroupType.CONSUMER, state="Stable", coordinator="1@b:9092", members=(member,),
        group_epoch=4, assignment_epoch=4,
    )  # fmt: skip


@pytest.mark.parametrize(("is_away", "is_measured"), [(True, True), (False, False)])
def test_successor_that_is_refused_until_the_session_ends_measures_the_session(is_away: bool, is_measured: bool) -> None:
    """KIP-848: UNRELEASED_INSTANCE_ID until the session of a process that did not leave expires (lab: 48 s at 45 s)."""
    state, _ = followed([[row(1, down="a/0", at=1_000, seen=1_500)]])
    state, _ = follow(state, [], kip848(is_away=is_away), wanted=WANTED, began_ms=2_000, now_ms=2_500)
    _, found = followed([[row(2, back=False, lo=47_000, hi=49_000, seen=49_000)]], state)
    assert [e.is_measured for e in found] == [is_measured]


def test_longest_bound_is_kept_and_what_is_too_long_for_a_restart_is_not() -> None:
    facts = [row(1, down="a/0", at=1_000, seen=2_000), row(2, back=True, lo=30_000, hi=34_000, seen=34_000)]
    _, (ended,) = followed([facts])
    (sample,) = with_ended({}, [ended], longest_ms=60_000, seed="s")[ended.cause].samples
    assert (sample.shortest_ms, sample.longest_ms, sample.at_s) == (28_000, 33_000, 34)
    assert with_ended({}, [ended], longest_ms=32_999, seed="s")[ended.cause] == Reservoir(seen=1, unmeasured=1)


def down(reason: str, source_time_ms: int | None = 1) -> MemberEvent:
    return MemberEvent(
        kind=EventKind.ENDED, instance_id=ID, observed_at_ms=2, source_time_ms=source_time_ms, pod_uid="a",
        restart_count=0, rollout_id="r1", reason=reason,
    )  # fmt: skip


def up(rollout_id: str) -> MemberEvent:
    return replace(down(""), kind=EventKind.STARTED, pod_uid="b", rollout_id=rollout_id)


@pytest.mark.parametrize(
    ("end", "start", "cause"),
    [
        (down("Deleted"), up("r2"), Cause.ROLLOUT),
        (down("Deleted"), None, Cause.ROLLOUT),
        (down("Deleted"), up("r1"), Cause.DRAIN),
        (down("Evicted"), up("r1"), Cause.DRAIN),
        (down("OOMKilled"), up("r1"), Cause.CRASH),
        (down("Completed"), None, Cause.CRASH),
        (down("ContainerStatusUnknown"), None, Cause.NODE_LOSS),
        (down("Deleted", source_time_ms=None), up("r2"), Cause.NODE_LOSS),
    ],
)
def test_cause_follows_from_who_ended_the_process(end: MemberEvent, start: MemberEvent | None, cause: Cause) -> None:
    assert cause_of(end, start) is cause
