"""Axes and charts: nice ticks, honest numbers, nothing outside the paper, words for those who see no lines."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet_learner.report import axis, svg
from fleet_learner.report.model import Span, Timeline, Window

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: str) -> ET.Element:
    """Parse a chart as the XML it must be even inside HTML."""
    return ET.fromstring(chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


@given(st.floats(1e-6, 1e12), st.integers(2, 9))
def test_a_step_is_one_two_or_five_times_a_power_of_ten_and_the_least_that_fits(length: float, count: int) -> None:
    """Heckbert, Nice numbers for graph labels, Graphics Gems 1990."""
    step = axis.nice_step(length, count)
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6
    assert length / step <= count * (1 + 1e-6)
    assert length / step > count / 2.5 * (1 - 1e-6)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
@example(1e9, 999999999.9999999)
@example(1e15, 1e15)
def test_a_linear_axis_holds_both_ends_and_few_ticks(one: float, other: float) -> None:
    low, high = sorted((one, other))
    made = axis.linear("", low, high, str)
    assert made.low <= low
    assert made.high >= high
    assert 2 <= len(made.ticks) <= 6
    assert list(made.ticks) == sorted(set(made.ticks))


@given(st.integers(1, 10**10), st.integers(1, 10**10))
def test_an_axis_of_durations_has_ticks_of_a_clock_within_its_ends(one: int, other: int) -> None:
    low, high = sorted((one, other))
    made = axis.durations("", low, high)
    assert len(made.ticks) <= 6
    assert all(made.low <= tick <= made.high for tick in made.ticks)
    assert 0.0 <= made.share(low) <= made.share(high) <= 1.0


def test_a_logarithmic_axis_gives_equal_room_to_equal_factors() -> None:
    made = axis.durations("", 1_000, 100_000)
    assert made.share(10_000) == pytest.approx(0.5)
    assert made.share(1) == 0.0
    assert made.share(10**9) == 1.0


def test_an_axis_of_dates_has_its_ticks_at_midnight_utc() -> None:
    made = axis.dates(1_793_491_200_000, 1_793_491_200_000 + 30 * 86_400_000)
    assert {tick % 86_400_000 for tick in made.ticks} == {0}
    assert 2 <= len(made.ticks) <= 6
    assert made.written(made.low) == "1 Nov"


def test_an_axis_of_half_a_day_has_its_ticks_at_full_hours() -> None:
    made = axis.dates(1_793_491_200_000, 1_793_491_200_000 + 43_200_000)
    assert made.written(made.ticks[1]) == "06:00"


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
    assert axis.duration(ms) == written


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
    assert axis.amount(value) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.0, "0 %"), (0.0001, "< 0.1 %"), (0.5, "50 %"), (0.9974, "99.7 %"), (0.9999, "> 99.9 %"), (1.0, "100 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, written: str) -> None:
    assert axis.percent(share) == written


def test_partition_time_changes_its_unit_at_ten_hours() -> None:
    assert axis.partition_time(35_999_000) == "36,000 partition-s"
    assert axis.partition_time(36_000_000) == "10 partition-h"


def chart(**changes: object) -> str:
    values = {
        "title": "Title <&>",
        "description": "What it says",
        "x": axis.durations("time away", 1_000, 600_000),
        "y": axis.linear("share", 0, 1, axis.percent),
        "lines": [svg.Line(name="one", points=[(1_000, 1.0), (10_000, 0.5), (600_000, 0.0)], is_step=True)],
    } | changes
    return svg.line_chart(**values)  # type: ignore[arg-type]


def test_a_chart_has_words_for_those_who_do_not_see_it_and_no_width_of_its_own() -> None:
    """WCAG 2.2, 1.1.1; SVG 2: title and desc."""
    root = parsed(chart())
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Title <&>. What it says"
    assert root.findtext(f"{SVG}title") == "Title <&>"
    assert root.findtext(f"{SVG}desc") == "What it says"
    assert root.get("viewBox", "").split()[:3] == ["0", "0", "360"]
    assert root.get("width") is None


def test_a_step_curve_holds_its_value_until_the_next_point() -> None:
    drawn = parsed(chart()).find(f"{SVG}path[@class='line s0']")
    assert drawn is not None
    points = [tuple(map(float, pair.split())) for pair in drawn.get("d", "")[1:].split("L")]
    assert len(points) == 5
    assert points[0][1] == points[1][1]
    assert points[1][0] == points[2][0]


@given(st.lists(st.tuples(st.floats(1, 1e9), st.text("abcdef ", min_size=1, max_size=24)), max_size=5))
def test_the_words_of_marks_stay_on_the_paper_and_in_rows_of_their_own(marks: list[tuple[float, str]]) -> None:
    root = parsed(chart(marks=[svg.Mark(at=at, text=text) for at, text in marks]))
    height = float(root.get("viewBox", "").split()[3])
    tops = []
    for text in root.iter(f"{SVG}text"):
        width, x, y = svg.text_width(text.text or ""), float(text.get("x", "0")), float(text.get("y", "0"))
        if text.get("class") and text.text in {m for _, m in marks}:
            tops.append(y)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "start")]
        assert left >= -0.1
        assert left + width <= 360.1
        assert 0 < y < height
    assert len(tops) >= len(set(tops)) >= len(marks)


def test_the_parts_of_a_bar_lie_on_each_other_and_differ_in_more_than_colour() -> None:
    root = parsed(
        svg.stacked_days(
            title="t", description="d", x=axis.dates(0, 3 * 86_400_000), y=axis.linear("", 0, 30, axis.amount),
            names=("below", "above"), days=[(0, 10, 20), (86_400_000, 0, 5)],
        )
    )  # fmt: skip
    bars = [r for r in root.findall(f"{SVG}rect") if r.get("x")]
    assert [b.get("class") for b in bars] == ["bar", "bar hatch", "bar hatch"]
    below, above = bars[0], bars[1]
    assert float(above.get("y", "")) + float(above.get("height", "")) == pytest.approx(
        float(below.get("y", "")), abs=0.2
    )
    assert float(above.get("height", "")) == pytest.approx(2 * float(below.get("height", "")), abs=0.2)


def test_a_sparkline_touches_the_top_with_its_greatest_value_and_the_bottom_with_zero() -> None:
    drawn = parsed(svg.sparkline([0, 5, 10], "label")).find(f"{SVG}path")
    assert drawn is not None
    assert drawn.get("d") == "M0 17L40 9.5L80 2"


def test_a_timeline_draws_each_kind_in_a_shape_of_its_own_and_crowds_once() -> None:
    window = Window(start_ms=0, end_ms=100_000_000)
    timeline = Timeline(
        window=window, rollouts=(Span(start_ms=0, end_ms=10_000_000, label="r"),), generations=((50_000_000, 8), (90_000_000, 9)),
        absorbed_ms=(1, 2, 3, 50_000_000), evicted_ms=(50_000_000,), removed_ms=(60_000_000,), timeout_changes=((1, 45_000),),
    )  # fmt: skip
    root = parsed(svg.timeline_chart(timeline, title="t", description="d"))
    lanes = [p.get("class", "").split()[1] for p in root.findall(f"{SVG}path") if "glyph" in p.get("class", "")]
    assert sorted(lanes) == ["absorbed", "absorbed", "evicted", "removed", "timeout"]
    texts = [t.text for t in root.findall(f"{SVG}text")]
    assert "7" in texts
    assert "9" in texts


def test_a_timeline_without_rebalances_says_so() -> None:
    window = Window(start_ms=0, end_ms=100_000_000)
    assert "no rebalance was seen" in svg.timeline_chart(Timeline(window=window), title="t", description="d")
