"""What a gap of the pod watch says against which seat: the uid rule, the generation rule, words and timelines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.continuity import BLIND_SPANS_MAX, SEATS_MAX
from staticgroup.core.evidence.continuity import (
    Checkpoint,
    SeatedPod,
    SettledWorkload,
    WatchView,
    carried_over,
    closed_by_words,
    first_checkpoint,
    settled_workload,
)
from staticgroup.core.evidence.spans import EVERY_ORDINAL, BlindSpan, GapWord, SpanReason
from staticgroup.core.status.checkpoints import checkpoint_from, wire_continuity

from .builders import NOW_S, workload

THREE = SettledWorkload(uid="sts-1", generation=7, start=0, replicas=3)
SEATS = tuple(SeatedPod(ordinal=o, uid=f"u{o}", node_name="n1") for o in range(3))


def before(**changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "epoch": "e1", "timeline": "t1", "at_s": NOW_S - 60, "workload_name": "web", "seats": SEATS, "workload": THREE,
    }  # fmt: skip
    return Checkpoint(**(values | changes))


def view(**changes: Any) -> WatchView:
    """After a gap in which nothing changed."""
    values: dict[str, Any] = {
        "epoch": "e2", "timeline": "t1", "workload_name": "web", "everywhere": frozenset({"e2"}), "seats": SEATS,
        "seen": frozenset(s.uid for s in SEATS), "read": THREE,
    }  # fmt: skip
    values |= changes
    return WatchView(**({"of_every_workload": values["everywhere"]} | values))


def blind(checkpoint: Checkpoint) -> str:
    return ";".join(s.ordinals.text for s in checkpoint.blind)


def after(was: Checkpoint | None = None, **changes: Any) -> str:
    return blind(carried_over(was or before(), view(**changes), NOW_S))


REST = "2147483647"


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({}, {}, ""),
        ({}, {"everywhere": frozenset({"e1", "e2"}), "seats": (), "seen": frozenset(), "read": None}, ""),
        ({}, {"read": None}, f"3-{REST}"),
        ({}, {"read": replace(THREE, generation=8)}, f"3-{REST}"),
        ({}, {"read": replace(THREE, uid="sts-2")}, f"3-{REST}"),
        ({}, {"read": replace(THREE, replicas=2)}, f"3-{REST}"),
        ({}, {"read": replace(THREE, start=1)}, f"3-{REST}"),
        ({"workload": None}, {}, f"3-{REST}"),
        ({"workload": None}, {"read": None}, f"3-{REST}"),
        ({"is_complete": False}, {}, f"3-{REST}"),
        ({}, {"seats": SEATS[:2], "seen": frozenset({"u0", "u1"})}, "2"),
        ({}, {"seats": (*SEATS[:2], SeatedPod(ordinal=2, uid="new")), "seen": frozenset({"u0", "u1", "new"})}, "2"),
        ({}, {"seats": SEATS[1:], "seen": frozenset({"u0", "u1", "u2"}), "gone": frozenset({"u0"})}, ""),
        ({}, {"seats": SEATS[1:], "seen": frozenset({"u1", "u2"}), "gone": frozenset({"u0"})}, "0"),
        ({}, {"seats": (*SEATS, SeatedPod(ordinal=5, uid="u5"))}, "5"),
        ({"seats": (*SEATS, SeatedPod(ordinal=4, uid="u4"))}, {}, "4"),
        ({"seats": (*SEATS, SeatedPod(ordinal=4, uid="u4"))}, {"gone": frozenset({"u4"})}, ""),
        ({}, {"workload_name": "other"}, f"0-{REST}"),
        ({}, {"timeline": "t2"}, f"0-{REST}"),
        ({}, {"are_ids_by_hand": True, "unbroken": {0: frozenset({"e1"})}}, f"0-{REST}"),
        ({"seats": SEATS[:1]}, {"seen": frozenset({"u0"}), "unbroken": {1: frozenset({"e1"})}, "seats": SEATS[:1]}, "2"),
    ],
    ids=[
        "nothing changed", "no gap", "not read", "another generation", "another StatefulSet", "another size",
        "another start", "nothing to compare with", "two unknowns are not equal", "more seats than were told",
        "gone inside of the range", "replaced", "seen to end after the gap", "ended in the gap, inside",
        "appeared outside of the range", "object outside of the range, unknown now", "suspect outside of the range",
        "another workload", "another timeline", "ids by hand", "stayed by the watch of this process",
    ],
)  # fmt: skip
def test_a_gap_blinds_the_seats_that_no_rule_keeps(was: dict[str, Any], now: dict[str, Any], expected: str) -> None:
    assert after(before(**was), **now) == expected


@pytest.mark.parametrize(
    ("restarts", "seats", "expected"),
    [
        (0, (SeatedPod(ordinal=1, uid="u1", restarts=0),), ""),
        (0, (SeatedPod(ordinal=1, uid="u1", restarts=1),), f"0-{REST}"),
        (0, (), f"0-{REST}"),
        (None, (SeatedPod(ordinal=1, uid="u1"),), ""),
        (None, (), "1"),
    ],
    ids=["stayed", "started again", "went", "fixed", "fixed and went"],
)
def test_ids_that_can_be_edited_may_have_been_swapped_where_a_container_can_have_started_again(
    restarts: int | None, seats: tuple[SeatedPod, ...], expected: str
) -> None:
    was = before(seats=(SEATS[0], SeatedPod(ordinal=1, uid="u1", restarts=restarts), SEATS[2]))
    there = (SEATS[0], *seats, SEATS[2])
    assert after(was, seats=there, seen=frozenset(s.uid for s in there)) == expected


def test_span_begins_when_the_watch_ended_and_not_when_the_status_was_written() -> None:
    (span,) = carried_over(before(), view(read=None, ended_at_s={"e1": NOW_S - 9.5}), NOW_S + 0.2).blind
    assert (span.since_s, span.until_s, span.after_epoch) == (NOW_S - 10, NOW_S + 1, "e1")
    (span,) = carried_over(before(), view(read=None, ended_at_s={"e0": NOW_S - 9}), NOW_S).blind
    assert span.since_s == NOW_S - 60


def test_span_begins_when_the_watch_ended_though_the_clock_was_set_back_since_the_status_was_written() -> None:
    """A time that is still to come is none at which the history was complete."""
    ahead = before(at_s=NOW_S + 900)
    (span,) = carried_over(ahead, view(read=None, ended_at_s={"e1": NOW_S - 70}), NOW_S).blind
    assert (span.since_s, span.until_s) == (NOW_S - 70, NOW_S)


def test_spans_stay_over_further_gaps_and_go_when_a_better_watch_covers_them() -> None:
    first = carried_over(before(), view(read=None), NOW_S)
    second = carried_over(first, view(epoch="e3", everywhere=frozenset({"e3"}), read=None), NOW_S + 60)
    assert [s.after_epoch for s in second.blind] == ["e1", "e2"]
    third = carried_over(second, view(epoch="e3", everywhere=frozenset({"e1", "e3"})), NOW_S + 90)
    assert [s.after_epoch for s in third.blind] == ["e2"]


def test_too_many_spans_are_told_as_fewer_that_say_no_less() -> None:
    known = before()
    for number in range(BLIND_SPANS_MAX + 3):
        epoch = f"e{number + 2}"
        there = tuple(s for s in SEATS if s.ordinal != number % 3)
        now = view(epoch=epoch, everywhere=frozenset({epoch}), seats=there, seen=frozenset(s.uid for s in there))
        known = carried_over(replace(known, seats=SEATS), now, NOW_S + number * 60)
    assert len(known.blind) == BLIND_SPANS_MAX
    assert min(s.since_s for s in known.blind) == NOW_S - 60
    assert not any(known.is_unbroken(o) for o in range(3))


def test_checkpoint_is_the_same_one_while_only_time_passes() -> None:
    known = before(epoch="e2")
    assert carried_over(known, view(), NOW_S) is known


def test_seats_are_those_of_now_and_as_many_as_fit() -> None:
    many = tuple(SeatedPod(ordinal=o, uid=f"u{o}") for o in range(SEATS_MAX + 1))
    known = carried_over(before(epoch="e2"), view(seats=many[::-1]), NOW_S)
    assert (known.seats, known.is_complete) == (many[:SEATS_MAX], False)


@pytest.mark.parametrize(
    ("since_s", "until_s", "said_at_s", "closes"),
    [(0, 20, 20, True), (1, 20, 20, False), (0, 19, 20, False), (0, 20, 19, False), (0, 99, 99, True)],
)
def test_word_closes_what_lies_within_it_and_was_over_when_it_was_said(
    since_s: int, until_s: int, said_at_s: int, closes: bool
) -> None:
    span = BlindSpan(ordinals=EVERY_ORDINAL, since_s=0, until_s=20, reason="WatchGap")
    assert GapWord(since_s=since_s, until_s=until_s, said_at_s=said_at_s).closes(span) is closes


def test_words_are_heard_whether_or_not_there_is_a_gap_now() -> None:
    lost = before(epoch="e2").blinded(SpanReason.MEMORY_LOST, since_s=NOW_S - 100, until_s=NOW_S - 50)
    word = GapWord(since_s=0, until_s=NOW_S, said_at_s=NOW_S)
    assert blind(carried_over(lost, view(), NOW_S)) == f"0-{REST}"
    assert blind(carried_over(lost, view(words=(word,)), NOW_S)) == ""


@pytest.mark.parametrize("changes", [{"observed_generation": 6}, {"is_deleting": True}], ids=["unobserved", "deleting"])
def test_workload_is_settled_only_when_its_controller_has_observed_what_it_wants(changes: dict[str, Any]) -> None:
    settled = replace(workload(3), uid="sts-1", metadata_generation=7, observed_generation=7)
    assert settled_workload(settled) == THREE
    assert settled_workload(replace(settled, **changes)) is None
    assert settled_workload(None) is None


def test_first_checkpoint_is_blind_nowhere() -> None:
    first = first_checkpoint(view(settled=THREE), NOW_S)
    assert (first.blind, first.workload, first.seats) == ((), THREE, SEATS)


spans = st.builds(
    BlindSpan,
    ordinals=st.builds(lambda found: Ordinals.of(*(range(o, o + 1) for o in found)), st.sets(st.integers(0, 30), min_size=1)),
    since_s=st.integers(1, 2**31).map(float),
    until_s=st.integers(1, 2**31).map(float),
    reason=st.sampled_from([r.value for r in SpanReason]),
    after_epoch=st.sampled_from(["", "e0"]),
)


@given(
    st.lists(spans, max_size=BLIND_SPANS_MAX),
    st.lists(st.builds(SeatedPod, ordinal=st.integers(0, 9), uid=st.uuids().map(str), restarts=st.none() | st.integers(0, 9)), max_size=4),
    st.none() | st.just(THREE),
    st.booleans(),
)
def test_checkpoint_is_read_as_it_was_written(
    blind_spans: list[BlindSpan], seats: list[SeatedPod], settled: SettledWorkload | None, is_complete: bool
) -> None:
    known = before(at_s=float(NOW_S), blind=tuple(blind_spans), seats=tuple(seats), workload=settled, is_complete=is_complete)
    assert checkpoint_from(wire_continuity(known)) == known


def test_what_words_have_closed_is_told_with_the_first_that_does() -> None:
    lost = before(epoch="e2").blinded(SpanReason.MEMORY_LOST, since_s=NOW_S - 100, until_s=NOW_S - 50)
    late = GapWord(since_s=0, until_s=NOW_S, said_at_s=NOW_S, said_by="bob")
    first = GapWord(since_s=0, until_s=NOW_S, said_at_s=NOW_S - 10, said_by="alice")
    narrow = GapWord(since_s=NOW_S, until_s=NOW_S, said_at_s=NOW_S - 20)
    words = (late, first, narrow)
    clear = carried_over(lost, view(words=words), NOW_S)
    assert closed_by_words(lost, clear, words) == ((lost.blind[0], first),)
    assert closed_by_words(lost, lost, words) == ()
    assert closed_by_words(lost, clear, (narrow,)) == ()
    assert closed_by_words(clear, clear, words) == closed_by_words(None, clear, words) == ()
    assert closed_by_words(lost, None, words) == ()
