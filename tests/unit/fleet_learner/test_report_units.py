"""Numbers for people: three significant figures, suitable units, no shares rounded to 0 % or 100 %."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.report import units


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "0 ms"),
        (999.6, "1 s"),
        (1_500, "1.5 s"),
        (45_000, "45 s"),
        (59_999, "60 s"),
        (60_000, "1 min"),
        (107_000, "1 min 47 s"),
        (3_599_999, "60 min"),
        (5_400_000, "1 h 30 min"),
        (86_400_000, "1 d"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_written_in_the_units_of_a_clock(ms: float, written: str) -> None:
    assert units.duration(ms) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (0.0004, "0"),
        (0.25, "0.25"),
        (3.21, "3.21"),
        (980, "980"),
        (12_345, "12,300"),
        (999_999, "1 M"),
        (4.5e6, "4.5 M"),
        (2e9, "2 G"),
        (-12_345, "-12,300"),
    ],
)
def test_an_amount_has_three_figures(value: float, written: str) -> None:
    assert units.amount(value) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.0, "0 %"), (0.0001, "< 0.1 %"), (0.5, "50 %"), (0.9974, "99.7 %"), (0.9999, "> 99.9 %"), (1.0, "100 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, written: str) -> None:
    assert units.percent(share) == written


def test_partition_time_changes_its_unit_at_ten_hours() -> None:
    assert units.partition_time(35_999_000) == "36,000 partition-s"
    assert units.partition_time(36_000_000) == "10 partition-h"


def test_two_ends_are_written_in_one_unit() -> None:
    assert units.partition_span(600_000, 90_000_000) == "0.167 to 25 partition-h"
    assert units.partition_span(600_000, 900_000) == "600 to 900 partition-s"


@given(st.integers(0, 10**15))
def test_a_duration_is_short_and_never_negative(ms: int) -> None:
    written = units.duration(ms)
    assert len(written) <= 16
    assert not written.startswith("-")
