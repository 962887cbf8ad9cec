"""Absences: the published stories, and what holds of any events whatever."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.absences import SKEW_MS, UNSEEN_MS, EndKind, EventKind, MemberEvent, absences
from support import absences as fixtures

KINDS = ("down", "up", "back", "removed", "resurrected", "departed")


@pytest.mark.parametrize("story", fixtures.stories(), ids=lambda story: story.name)
def test_the_published_stories(story: fixtures.Story) -> None:
    found = absences(story.events, as_of_ms=story.as_of_ms, blind=story.blind)
    assert [fixtures.as_row(each) for each in found] == list(story.absences)


@pytest.mark.parametrize("story", fixtures.stories(), ids=lambda story: story.name)
def test_the_order_in_which_facts_are_read_does_not_matter(story: fixtures.Story) -> None:
    shuffled = random.Random(1).sample(story.events, len(story.events))
    assert absences(shuffled, as_of_ms=story.as_of_ms, blind=story.blind) == absences(
        story.events, as_of_ms=story.as_of_ms, blind=story.blind
    )


@st.composite
def events(draw: st.DrawFn) -> list[MemberEvent]:
    """Draw events as no sane operator sees them: any order, any clock."""
    rows = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2_000_000), st.integers(-10**6, 10**6),
                                   st.integers(0, 3), st.booleans()), max_size=12))  # fmt: skip
    made = []
    for number, (kind, seen, off, run, flag) in enumerate(rows):
        row: dict[str, Any] = {"seen": seen, kind: flag if kind == "back" else f"p{run // 2}/{run % 2}"}
        row |= {"at": max(0, seen + off)} if flag else {"lo": max(0, seen - abs(off)), "hi": seen}
        made.append(fixtures.fact(number, row))
    return fixtures.events(made)


@given(events(), st.integers(0, 2_500_000))
def test_whatever_is_seen_an_absence_has_a_length_and_a_place(events: list[MemberEvent], as_of_ms: int) -> None:
    """No absence is negative, begins before the skew lets it, overlaps the next, or is known where it was not seen."""
    found = absences(events, as_of_ms=as_of_ms)
    for each in found:
        assert each.gap_ms >= 0
        assert each.down.observed_at_ms - SKEW_MS <= each.down_ms <= each.down.observed_at_ms
        assert (each.end is EndKind.RETURNED) == (each.back_ms is not None) == (each.absorbed is not None)
        if each.back_ms is not None and each.back_lo_ms is not None:
            assert each.down_ms <= each.back_lo_ms <= each.back_ms == each.down_ms + each.gap_ms
            assert each.back_ms - each.back_lo_ms <= UNSEEN_MS
    for one, other in pairwise(found):
        assert other.down_ms >= one.down_ms + (one.gap_ms if one.end is not EndKind.BLIND else 0)
    assert sum(event.kind is EventKind.ENDED for event in events) >= len(found)


def test_an_event_of_another_year_is_brought_near_to_when_it_was_seen() -> None:
    row = {"up": "a/0", "at": 10, "seen": 10_000_000}
    (early, late) = fixtures.events([fixtures.fact(0, row), fixtures.fact(0, row | {"at": 99_000_000})])
    assert (early.at_ms, late.at_ms) == (10_000_000 - SKEW_MS, 10_000_000)
