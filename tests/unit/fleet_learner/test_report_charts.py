"""Charts of fleets of any age: valid axes, nothing outside the drawing, no overlapping text, descriptions."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import pairwise

import matplotlib
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from fleet_learner.report import canvas, charts, scales
from fleet_learner.report.curves import CostPoint, HazardPoint, Span, SurvivalPoint, Timeline, Window
from fleet_learner.report.model import Advice, Counts, DayCost, GroupKey, GroupPage, GroupRow, Verdict

DAY_MS = 86_400_000
START_MS = 1_793_491_200_000  # 2026-11-01
MONTH = Window(start_ms=START_MS, end_ms=START_MS + 30 * DAY_MS)
FONT = FontProperties(family="DejaVu Sans", size=canvas.LETTER_PX)
METRICS = TextToPath()
LINE_PX = 4
"""A line or a mark on the edge of the drawing may stand out by that much."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def page(
    *, gaps_ms: list[int], now_ms: int | None = 45_000, then_ms: int | None = 90_000, timeline: Timeline | None = None,
    cost_partition_ms: int = 1_000_000, per_second: float = 0.05,
) -> GroupPage:  # fmt: skip
    """Make a page with the curves of these gaps."""
    ordered = sorted(gaps_ms)
    shares = [1 - (i + 1) / len(ordered) for i in range(len(ordered))]
    row = GroupRow(
        key=GroupKey(kafka_cluster_id="k", group_id="g"), protocol="Classic", members=3, partitions=12,
        session_timeout_ms=now_ms,
        coverage=1.0, covered_ms=86_400_000, counts=Counts(restarts=len(gaps_ms)),
        advice=Advice(verdict=Verdict.CHANGE, action="", why="", now_ms=now_ms, then_ms=then_ms),
    )  # fmt: skip
    return GroupPage(
        row=row,
        survival=tuple(SurvivalPoint(gap_ms=g, survival=s, lower=s / 2, upper=(1 + s) / 2) for g,
                       s in zip(ordered, shares, strict=True)),
        cost=tuple(
            CostPoint(timeout_ms=t, eviction_partition_ms=cost_partition_ms, waiting_partition_ms=0,
                      evictions_per_day=1.0)
            for t in (6_000, 60_000, 1_800_000)
        ),
        hazard=tuple(HazardPoint(gap_ms=g, per_second=per_second) for g in ordered),
        waiting_partitions=4, eviction_partition_ms=384_000, timeline=timeline or Timeline(window=MONTH), what_if=(),
        samples=len(gaps_ms), censored=0, method="",
    )  # fmt: skip


def boxes(root: ET.Element) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield (words, left, right, top, bottom) of every text, measured by its font."""
    for text in root.iter("text"):
        words = text.text or ""
        assert text.get("transform") is None
        width, height, descent = METRICS.get_text_width_height_descent(words, FONT, ismath=False)
        x, y = float(text.get("x", 0)), float(text.get("y", 0))
        left = {"middle": x - width / 2, "end": x - width}.get(text.get("text-anchor", ""), x)
        yield words, left, left + width, y - height + descent, y + descent


def drawn_shapes(root: ET.Element) -> Iterator[ET.Element]:
    """Yield paths and uses that are drawn where they say: all but those that are kept for a use or a pattern."""
    kept = {id(each) for defs in root.iter("defs") for each in defs.iter()}
    moved = {use.get("href", "").removeprefix("#") for use in root.iter("use") if use.get("x") == "0"}
    for shape in root.iter():
        if shape.tag in {"path", "use"} and id(shape) not in kept and shape.get("id") not in moved:
            yield shape


def sound(chart: str | None) -> ET.Element:
    """Check the invariants of every chart, and return it parsed."""
    root = ET.fromstring(chart)
    _, _, width, height = (float(part) for part in root.get("viewBox", "").split())
    assert width == canvas.WIDTH_PX
    assert root.get("role") == "img"
    assert root.findtext("title")
    assert root.findtext("desc")
    assert "nan" not in chart.lower()
    assert "inf" not in re.sub(r"<(title|desc)>.*?</\1>|aria-label=\"[^\"]*\"", "", chart).lower()
    for shape in drawn_shapes(root):
        numbers = [float(n) for n in NUMBER.findall(shape.get("d", "") or f"{shape.get('x')} {shape.get('y')}")]
        across, along = numbers[::2], numbers[1::2]
        assert all(-LINE_PX <= x <= width + LINE_PX for x in across), shape.attrib
        assert all(-LINE_PX <= y <= height + LINE_PX for y in along), shape.attrib
    found = list(boxes(root))
    for words, left, right, top, bottom in found:
        assert left >= -0.5, words
        assert right <= width + 0.5, words
        assert top >= -0.5, words
        assert bottom <= height + 0.5, words
    for i, (words, left, right, top, bottom) in enumerate(found):
        for other, left2, right2, top2, bottom2 in found[i + 1 :]:
            is_apart = min(right, right2) - max(left, left2) <= 0.5 or min(bottom, bottom2) - max(top, top2) <= 0.5
            assert is_apart, f"{words!r} meets {other!r}"
    return root


def drawn(draw: Callable[[], str | None]) -> ET.Element:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sound(draw())


GAP = st.integers(1, 10**11)
GAPS = st.one_of(
    st.lists(st.integers(1_000, 300_000), min_size=1, max_size=30),
    st.lists(GAP, min_size=1, max_size=5),
    st.builds(lambda gap, n: [gap] * n, GAP, st.integers(1, 40)),
)
TIMEOUT = st.one_of(st.none(), st.integers(1, 86_400_000))


@settings(max_examples=25, deadline=None)
@given(GAPS, TIMEOUT, TIMEOUT)
@example([45_000], 45_000, 45_001)
@example([1], None, None)
@example([20_000] * 50 + [10**10], 45_000, 105_000)
def test_how_long_members_stay_away_holds_for_any_gaps(
    gaps_ms: list[int], now_ms: int | None, then_ms: int | None
) -> None:
    """One stop, equal stops, one enormous stop: at least two labelled ticks, and every curve inside the drawing."""
    root = drawn(lambda: charts.survival(page(gaps_ms=gaps_ms, now_ms=now_ms, then_ms=then_ms), "s"))
    ticks = [words for words, *_ in boxes(root) if re.fullmatch(r"[\d.,]+ (ms|s|min|h|d)( \d+ (s|min|h))?", words)]
    assert len(ticks) >= 2
    assert len(set(ticks)) == len(ticks)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**16), st.floats(0, 1e3), GAPS)
@example(0, 0.0, [1_000])
@example(1, 1e-12, [5_000, 5_000])
def test_costs_and_chances_hold_for_nothing_and_for_the_enormous(
    cost: int, per_second: float, gaps_ms: list[int]
) -> None:
    made = page(gaps_ms=gaps_ms, cost_partition_ms=cost, per_second=per_second)
    for chart in (charts.cost, charts.hazard):
        root = drawn(lambda chart=chart: chart(made, "c"))  # type: ignore[misc]
        upright = [words for words, left, right, *_ in boxes(root) if right < canvas.LEFT_PX]
        assert len(upright) >= 2
        assert len(set(upright)) == len(upright)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 400 * DAY_MS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 10**13), st.integers(0, 10**13)), max_size=40),
)
@example(3_600_000, [])
@example(3_600_000, [(0, 10**12, 5 * 10**11)])
@example(DAY_MS, [(0, 0, 0)])
@example(DAY_MS, [(0, 10**13, 1)])
def test_what_the_fleet_lost_holds_from_the_first_hour_on(length_ms: int, days: list[tuple[int, int, int]]) -> None:
    window = Window(start_ms=START_MS, end_ms=START_MS + length_ms)
    shown = [DayCost(day_ms=START_MS + d * DAY_MS, rebalance_partition_ms=r, waiting_partition_ms=w)
             for d, r, w in days if d * DAY_MS < max(length_ms, 1)]  # fmt: skip
    root = drawn(lambda: charts.day_costs(shown, window))
    dated = [words for words, *_ in boxes(root) if re.fullmatch(r"\d+ [A-Z][a-z]{2}|\d\d:\d\d", words)]
    assert dated
    assert len(set(dated)) == len(dated)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 400 * DAY_MS),
    st.lists(st.integers(0, 400 * DAY_MS), max_size=300),
    st.lists(st.integers(0, 400 * DAY_MS), max_size=20, unique=True),
    st.integers(0, 10**9),
)
@example(DAY_MS, [5], [], 0)
@example(DAY_MS, [], [10], 0)
def test_a_timeline_holds_for_one_stop_or_none(length_ms: int, stops: list[int], steps: list[int], first: int) -> None:
    window = Window(start_ms=START_MS, end_ms=START_MS + length_ms)
    instants = tuple(sorted(START_MS + at for at in stops))
    timeline = Timeline(
        window=window,
        rollouts=tuple(Span(start_ms=at, end_ms=at + 900_000, label="r") for at in instants[::5]),
        generations=tuple((START_MS + at, first + n) for n, at in enumerate(sorted(steps))),
        absorbed_ms=instants, evicted_ms=instants[::7], removed_ms=instants[::11],
        timeout_changes=tuple((at, 45_000) for at in instants[::50]),
    )  # fmt: skip
    root = drawn(lambda: charts.timeline(page(gaps_ms=[1_000], timeline=timeline), "t"))
    is_seen = any(START_MS <= START_MS + at <= window.end_ms for at in steps)
    assert ("no rebalance was seen" in [words for words, *_ in boxes(root)]) is not is_seen


def test_a_chart_without_data_is_none() -> None:
    made = page(gaps_ms=[])
    assert charts.survival(made, "s") is None
    assert charts.hazard(made, "h") is None


def test_the_same_drawing_makes_the_same_bytes_whatever_the_machine_prefers() -> None:
    made = page(gaps_ms=[20_000, 30_000, 90_000])
    first = charts.survival(made, "s")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path", "lines.linewidth": 9}):
        assert charts.survival(made, "s") == first
    assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_identifiers_of_two_drawings_of_a_page_differ() -> None:
    made = page(gaps_ms=[20_000, 30_000, 90_000])
    one, other = (re.findall(r'id="([^"]+)"', charts.survival(made, salt) or "") for salt in ("a", "b"))
    assert one
    assert not set(one) & set(other)


def test_colours_are_the_pages_and_words_are_text() -> None:
    """Matplotlib's own colours would be wrong in the dark, and glyphs as paths are no text to a screen reader."""
    chart = charts.cost(page(gaps_ms=[20_000, 30_000]), "c") or ""
    assert re.search(r"#[0-9a-f]{6}\b", chart) is None
    assert {"--c0", "--c1", "--c2", "--edge"} <= set(re.findall(r"var\((--\w+)\)", chart))
    assert "font-family" not in chart
    assert "evictions" in [words for words, *_ in boxes(ET.fromstring(chart))]


def test_hostile_words_stay_words() -> None:
    with canvas.settings("x"):
        figure, _ = canvas.sheet(100, top_px=10, foot_px=20)
        chart = canvas.to_svg(figure, title="<script>", description='"&<b>')
    assert "<script>" not in chart
    assert ET.fromstring(chart).findtext("desc") == '"&<b>'


@given(st.lists(st.integers(-10, 1_100), max_size=200))
def test_marks_that_would_lie_on_each_other_are_one(instants: list[int]) -> None:
    kept = scales.thinned(instants, 0, 1_000, apart_px=4)
    px = (canvas.WIDTH_PX - canvas.LEFT_PX - canvas.RIGHT_PX) / 1_000
    assert all((b - a) * px >= 4 - 1e-6 for a, b in pairwise(kept))
    assert set(kept) <= {at for at in instants if 0 <= at <= 1_000}
    assert bool(kept) is any(0 <= at <= 1_000 for at in instants)


def test_drawing_loads_no_pyplot_and_the_command_line_no_matplotlib() -> None:
    """pyplot keeps figures and asks for a screen; and `fleet-learner --help` is to answer at once."""
    window = "Window(start_ms=0, end_ms=1)"
    code = (
        "import sys; import fleet_learner.cli; from fleet_learner.report import charts, tables; "
        "print('matplotlib' in sys.modules, 'jinja2' in sys.modules); from fleet_learner.report.curves import Window; "
        f"charts.day_costs((), {window}); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]
