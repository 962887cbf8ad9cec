"""Absences: the published stories, and what holds of any facts whatever."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api import journal
from support import absences as told

KINDS = ("down", "up", "back", "removed", "resurrected", "departed")


@pytest.mark.parametrize("story", told.stories(), ids=lambda story: story.name)
def test_the_published_stories(story: told.Story) -> None:
    found = journal.absences(story.facts, as_of_ms=story.as_of_ms, blind=story.blind)
    assert [told.as_row(each) for each in found] == list(story.absences)


@pytest.mark.parametrize("story", told.stories(), ids=lambda story: story.name)
def test_the_order_in_which_facts_are_read_does_not_matter(story: told.Story) -> None:
    shuffled = random.Random(1).sample(story.facts, len(story.facts))
    assert journal.absences(shuffled, as_of_ms=story.as_of_ms, blind=story.blind) == journal.absences(
        story.facts, as_of_ms=story.as_of_ms, blind=story.blind
    )


@st.composite
def facts(draw: st.DrawFn) -> list[journal.GroupData]:
    """Draw facts as no sane operator tells them: any order, any clock."""
    rows = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2_000_000), st.integers(-10**6, 10**6),
                                   st.integers(0, 3), st.booleans()), max_size=12))  # fmt: skip
    made = []
    for number, (kind, seen, off, run, flag) in enumerate(rows):
        row: dict[str, Any] = {"seen": seen, kind: flag if kind == "back" else f"p{run // 2}/{run % 2}"}
        row |= {"at": max(0, seen + off)} if flag else {"lo": max(0, seen - abs(off)), "hi": seen}
        made.append(told.fact(number, row))
    return made


@given(facts(), st.integers(0, 2_500_000))
def test_whatever_is_told_an_absence_has_a_length_and_a_place(facts: list[journal.GroupData], as_of_ms: int) -> None:
    """No absence is negative, begins before the skew lets it, overlaps the next, or is known where it was not seen."""
    found = journal.absences(facts, as_of_ms=as_of_ms)
    for each in found:
        assert each.gap_ms >= 0
        assert each.down.observed_at_ms - journal.SKEW_MS <= each.down_ms <= each.down.observed_at_ms
        assert (each.end is journal.EndKind.RETURNED) == (each.back_ms is not None) == (each.absorbed is not None)
        if each.back_ms is not None and each.back_lo_ms is not None:
            assert each.down_ms <= each.back_lo_ms <= each.back_ms == each.down_ms + each.gap_ms
            assert each.back_ms - each.back_lo_ms <= journal.UNSEEN_MS
    for one, other in pairwise(found):
        assert other.down_ms >= one.down_ms + (one.gap_ms if one.end is not journal.EndKind.BLIND else 0)
    assert sum(isinstance(fact, journal.MemberDown) for fact in facts) >= len(found)


def test_a_record_of_another_year_is_brought_near_to_when_it_was_seen() -> None:
    row = {"up": "a/0", "at": 10, "seen": 10_000_000}
    assert journal.event_ms(told.fact(0, row)) == 10_000_000 - journal.SKEW_MS
    assert journal.event_ms(told.fact(0, row | {"at": 99_000_000})) == 10_000_000
