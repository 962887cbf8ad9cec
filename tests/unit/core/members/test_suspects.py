"""When a suspect is dropped for members to come: after a silence that every description of it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN, Attribution, Suspect, after_description
from unit.core.builders import attributed, id_of, suspect

SETTLE_S = 600.0


def after(
    *suspects: Suspect,
    at_s: float = 1_000.0,
    took_s: float = 0.0,
    held: Mapping[int, Attribution | None] | None = None,
    first: bool = False,
    present: tuple[str, ...] = (),
) -> tuple[Suspect, ...]:
    """One description, in which members hold the ids of these ordinals."""
    return after_description(
        suspects, {id_of(n): a for n, a in (held or {}).items()}, lambda s, i: i in s.instance_ids,
        present=present, asked_at_s=at_s, answered_at_s=at_s + took_s, is_first=first, settle_s=SETTLE_S,
    )


def silent(since_s: float | None, **changes: Any) -> Suspect:
    return suspect(silent_since_s=since_s, **changes)


def test_silence_begins_with_the_first_description_that_shows_its_seat_empty() -> None:
    (kept,) = after(suspect())
    assert kept.silent_since_s == 1_000.0
    (later,) = after(kept, at_s=1_060.0)
    assert later.silent_since_s == 1_000.0


def test_silence_lasts_from_an_answer_to_a_question() -> None:
    """A describe may be repeated for a minute: what it shows was so at some time in it."""
    (kept,) = after(suspect(), took_s=50.0)
    (kept,) = after(kept, at_s=1_640.0, took_s=50.0)
    assert kept.silent_since_s == 1_050.0
    assert after(kept, at_s=1_650.0) == ()


@pytest.mark.parametrize(("at_s", "left"), [(1_599.9, 1), (1_600.0, 0)])
def test_suspect_is_dropped_once_its_silence_has_lasted(at_s: float, left: int) -> None:
    assert len(after(silent(1_000.0), at_s=at_s)) == left


def test_seat_that_is_held_by_a_member_of_which_it_is_no_carrier_is_silent() -> None:
    (kept,) = after(suspect(), held={2: attributed("m2", "u2")})
    assert kept.silent_since_s == 1_000.0
    assert after(silent(1_000.0), at_s=1_600.0, held={2: attributed("m2", "u2")}) == ()


def test_seat_that_is_held_by_a_member_without_possible_carriers_is_silent() -> None:
    assert after(silent(1_000.0), at_s=1_600.0, held={2: attributed("m2")}) == ()


@pytest.mark.parametrize(
    "holder",
    [
        attributed("m2", "z"),
        attributed("m2", "u2", "z"),
        attributed("m2", UNSEEN),
        attributed("m2", UNATTRIBUTED),
        attributed("m2", "u2", UNSEEN),
        None,
    ],
    ids=["its own", "perhaps its own", "unseen", "unattributed", "perhaps unseen", "not known"],
)
def test_member_that_may_be_its_own_ends_its_silence(holder: Attribution | None) -> None:
    (kept,) = after(silent(1_000.0), at_s=1_590.0, held={2: holder})
    assert kept.silent_since_s is None
    (again,) = after(kept, at_s=1_650.0)
    assert again.silent_since_s == 1_650.0
    assert len(after(again, at_s=1_650.0 + SETTLE_S - 1)) == 1


def test_member_of_a_seat_that_it_cannot_hold_says_nothing_of_it() -> None:
    assert after(silent(1_000.0), at_s=1_600.0, held={1: attributed("m1", "z")}) == ()


def test_every_seat_that_it_may_hold_must_be_silent() -> None:
    both = silent(1_000.0, instance_ids=frozenset({id_of(1), id_of(2)}))
    (kept,) = after(both, at_s=1_600.0, held={1: attributed("m1", "u1"), 2: attributed("m2", "z")})
    assert kept.silent_since_s is None


def test_time_between_descriptions_that_lie_too_far_apart_counts_for_nothing() -> None:
    (kept,) = after(silent(1_000.0), at_s=1_700.0, first=True)
    assert kept.silent_since_s == 1_700.0


def test_suspect_whose_object_exists_is_never_silent() -> None:
    """A run of it was lost, and as long as the pod is there its next member may be that of the lost run."""
    (kept,) = after(silent(1_000.0), at_s=9_000.0, present=("z",))
    assert kept.silent_since_s is None


def test_each_suspect_has_a_silence_of_its_own() -> None:
    kept = after(silent(1_000.0), suspect("y", 1), at_s=1_600.0)
    assert [(s.uid, s.silent_since_s) for s in kept] == [("y", 1_600.0)]


def test_case_distinguishes_a_pod_that_is_lost_again() -> None:
    once = suspect(since_s=5.0)
    assert once.case == suspect(since_s=5.0, silent_since_s=9.0, node_name="n7").case
    assert (
        len(
            {
                once.case, suspect("y", since_s=5.0).case, suspect(since_s=6.0).case,
                suspect(since_s=5.0, has_lost_run=True).case,
            }
        )
        == 4
    )
