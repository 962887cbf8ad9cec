"""The page in a real browser: on a phone and on a desktop nothing overlaps, is cut or is wider than the window.

Needs Debian's Chromium, which is installed when it is missing. Screenshots are kept in build/screenshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_learner.report.curves import Window
from fleet_learner.report.model import Report
from fleet_learner.report.pages import draw, team_pages, to_html
from support.browser import MEASURE, Page, browser_page
from support.sample_report import sample_report

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser_page() as page:
        yield page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the page of a fleet, of a team, and of a fleet that is one hour old."""
    made = tmp_path_factory.mktemp("report")
    report = sample_report(pages=8)
    drawings = draw(report)
    (made / "report.html").write_text(to_html(report, drawings), encoding="utf-8")
    (made / "team.html").write_text(dict(team_pages(report, drawings))["team-0.html"], encoding="utf-8")
    (made / "young.html").write_text(to_html(young()), encoding="utf-8")
    return made


def young() -> Report:
    """Make the report of a fleet's first hour: no full day, no evidence, no bill."""
    small = sample_report(groups=9, pages=3, days=1)
    window = Window(start_ms=small.window.start_ms, end_ms=small.window.start_ms + 3_600_000)
    bare = [replace(page, survival=page.survival[:1], cost=page.cost[:1], hazard=(),
                    timeline=replace(page.timeline, window=window))
            for page in small.pages]  # fmt: skip
    return replace(
        small, window=window, days=small.days[:1], pages=tuple(bare), clusters=(), before=None, bill=(), money=None
    )


@pytest.fixture(scope="module")
def report_file(folder: Path) -> Path:
    return folder / "report.html"


@pytest.mark.parametrize("width_px", [360, 390, 800, 1100, 1440])
@pytest.mark.parametrize(("name", "texts"), [("report", 5_000), ("team", 300), ("young", 150)])
def test_nothing_overlaps_is_cut_or_wider_than_the_window(
    tab: Page, folder: Path, name: str, texts: int, width_px: int
) -> None:
    """Every group page is unfolded, so every chart is measured; no page scrolls sideways."""
    tab.open(folder / f"{name}.html", width_px=width_px)
    tab.screenshot(SCREENSHOTS / f"{name}-{width_px}.png")
    tab.evaluate(OPEN_ALL)
    measured = tab.evaluate(MEASURE)
    assert measured["texts"] > texts
    assert measured["problems"] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width_px


def test_the_ruler_finds_what_is_wrong(tab: Page, tmp_path: Path) -> None:
    """A page with each defect: the measurement above must be able to fail."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><body "
        "style='margin:0'><p>one text</p><p style='margin-top:-34px'>two text</p><p "
        "style='white-space:nowrap;position:relative;left:300px'>far too wide for a phone</p><div "
        "style='overflow:hidden;width:60px;white-space:nowrap'>this text is cut</div><div "
        "style='width:20px;overflow-wrap:anywhere'>unbreakable</div><p style='font-size:6px'>tiny</p><svg "
        "viewBox='0 0 100 20' width=200><text x=80 y=15>clipped chart</text></svg>"
    )
    tab.open(bad, width_px=360)
    problems = " / ".join(tab.evaluate(MEASURE)["problems"])
    for expected in (
        "overlap: one text | two text", "outside the window: far too wide", "cut: <div> this text is cut",
        "broken word: unbreakable", "letters of 6.0 px: tiny", "cut by its chart: clipped chart",
        "px wide in a window of 360 px",
    ):  # fmt: skip
        assert expected in problems


def test_what_to_do_first_is_on_the_first_screen_of_a_desk(tab: Page, report_file: Path) -> None:
    tab.open(report_file, width_px=1440, height_px=900)
    assert tab.evaluate("document.querySelectorAll('#act .advice').length") == 3
    assert tab.evaluate("document.querySelector('#act').getBoundingClientRect().bottom") <= 900


def test_a_command_is_copied_as_it_is_typed(tab: Page, report_file: Path) -> None:
    """Break points for narrow screens are not part of the copied command."""
    tab.open(report_file, width_px=390)
    copied = tab.evaluate(
        "getSelection().selectAllChildren(document.querySelector('#act .command')), getSelection().toString()"
    )
    command = sample_report(groups=500, pages=0).rows[0].advice.command
    assert copied.strip() == command


def test_the_page_asks_for_nothing_but_itself(tab: Page, report_file: Path) -> None:
    tab.requests.clear()
    tab.open(report_file, width_px=1440)
    assert tab.requests == [report_file.resolve().as_uri()]


CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const clear = c => c === 'transparent' || c === 'rgba(0, 0, 0, 0)';
  const ground = e => {
    for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!clear(c)) return c }
                        return getComputedStyle(document.body).backgroundColor };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement, style = getComputedStyle(parent);
    if (!node.data.trim() || parent.closest('title,desc')) continue;
    const pair = [parent.closest('svg') ? style.fill : style.color, ground(parent)];
    if (!found.has(pair.join('|'))) {
      const [high, low] = pair.map(light).sort((a, b) => b - a);
      found.set(pair.join('|'), [(high + 0.05) / (low + 0.05), node.data.trim().slice(0, 30)]);
    }
  }
  return [...found.values()].sort((a, b) => a[0] - b[0]);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(tab: Page, report_file: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: every text has a contrast of at least 4.5:1 with its background."""
    tab.open(report_file, width_px=1440, scheme=scheme)
    tab.evaluate(OPEN_ALL)
    tab.screenshot(SCREENSHOTS / f"report-1440-{scheme}.png")
    measured = tab.evaluate(CONTRAST)
    assert len(measured) >= 5
    assert [each for each in measured if each[0] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_of_charts_stand_out_and_follow_the_scheme(tab: Page, report_file: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.11: a contrast of 3:1 for graphics; one drawing suits both schemes."""
    tab.open(report_file, width_px=1440, scheme=scheme)
    strokes = tab.evaluate(
        "[...new Set([...document.querySelectorAll('.chart path')].map(p => getComputedStyle(p).stroke))].filter(s => "
        "s !== 'none')"
    )
    names = tab.evaluate(
        "['--c0', '--c1', '--c2', '--c3', '--edge', '--ground'].map(n => { const e = document.createElement('i'); "
        "e.style.color = `var(${n})`;"
        "document.body.append(e); const c = getComputedStyle(e).color; e.remove(); return c })"
    )
    assert len(strokes) >= 4
    assert set(strokes) <= set(names)


def test_a_link_to_a_folded_group_opens_it(tab: Page, report_file: Path) -> None:
    """HTML standard: ancestor details revealing algorithm."""
    tab.open(report_file, width_px=1440)
    tab.evaluate("document.querySelectorAll('#act h3 a')[1].click()")
    is_open = "document.querySelector(location.hash).closest('details').open"
    assert tab.evaluate(f"new Promise(done => setTimeout(() => done({is_open}), 0))")


def test_what_is_folded_is_on_paper(tab: Page, report_file: Path) -> None:
    tab.open(report_file, width_px=1000, media="print")
    shown = "[...document.querySelectorAll('details .chart')].filter(c => c.getBoundingClientRect().height > 50).length"
    assert tab.evaluate(shown) == tab.evaluate("document.querySelectorAll('details .chart').length") > 25
    assert tab.pdf().startswith(b"%PDF")
