"""The days around which copies are searched."""

from __future__ import annotations

from datetime import date

from fleet_learner.lake.lake import days_around


def test_the_days_around_a_day_are_those_before_and_after() -> None:
    days = days_around([date(2026, 3, 1)], 1)
    assert days == {date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 2)}


def test_the_calendar_ends_with_the_year_9999() -> None:
    """The last millisecond of the calendar is a valid time of a journal."""
    assert days_around([date.max], 1) == {date(9999, 12, 30), date.max}
    assert days_around([date.min], 1) == {date.min, date(1, 1, 2)}
