"""The page in a real browser: on a phone and on a desk nothing overlaps, is cut or is wider than the window.

Needs Debian's Chromium, which is installed when it is missing. Screenshots are kept in build/screenshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_learner.report.html import to_html
from support.browser import MEASURE, Page, browser_page
from support.sample_report import sample_report

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser_page() as page:
        yield page


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(to_html(sample_report()), encoding="utf-8")
    return path


@pytest.mark.parametrize("width_px", [360, 800, 1100, 1440])
def test_nothing_overlaps_is_cut_or_wider_than_the_window(tab: Page, report_file: Path, width_px: int) -> None:
    """Every group page is unfolded, so every chart is measured."""
    tab.open(report_file, width_px=width_px)
    tab.screenshot(SCREENSHOTS / f"report-{width_px}.png")
    tab.evaluate(OPEN_ALL)
    measured = tab.evaluate(MEASURE)
    assert measured["texts"] > 5_000
    assert measured["problems"] == []


def test_the_ruler_finds_what_is_wrong(tab: Page, tmp_path: Path) -> None:
    """A page with each defect: the measurement above is worth nothing if it cannot fail."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><body style='margin:0'>"
        "<p>one text</p><p style='margin-top:-34px'>two text</p>"
        "<p style='white-space:nowrap;position:relative;left:300px'>far too wide for a phone</p>"
        "<div style='overflow:hidden;width:60px;white-space:nowrap'>this text is cut</div>"
        "<div style='width:20px;overflow-wrap:anywhere'>unbreakable</div><p style='font-size:6px'>tiny</p>"
        "<svg viewBox='0 0 100 20' width=200><text x=80 y=15>clipped chart</text></svg>"
    )
    tab.open(bad, width_px=360)
    problems = " / ".join(tab.evaluate(MEASURE)["problems"])
    for expected in (
        "overlap: one text | two text",
        "outside the window: far too wide",
        "cut: <div> this text is cut",
        "broken word: unbreakable",
        "letters of 6.0 px: tiny",
        "cut by its chart: clipped chart",
        "px wide in a window of 360 px",
    ):
        assert expected in problems


def test_the_summary_is_one_screen_on_a_desk(tab: Page, report_file: Path) -> None:
    tab.open(report_file, width_px=1440, height_px=900)
    assert tab.evaluate("document.querySelector('#summary').getBoundingClientRect().bottom") <= 900


def test_the_page_asks_for_nothing_but_itself(tab: Page, report_file: Path) -> None:
    tab.requests.clear()
    tab.open(report_file, width_px=1440)
    assert tab.requests == [report_file.resolve().as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(tab: Page, report_file: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5:1."""
    tab.open(report_file, width_px=1440, scheme=scheme)
    tab.screenshot(SCREENSHOTS / f"report-1440-{scheme}.png")
    worst = tab.evaluate(
        """(() => {
          const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
          const light = color => {
            canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
            const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255)
              .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
          };
          const style = getComputedStyle(document.documentElement);
          const value = name => light(style.getPropertyValue(name));
          const ratios = ['--words', '--quiet', '--c0', '--c1', '--c2', '--c3', '--bad'].flatMap(w =>
            ['--ground', '--card'].map(g => [value(w), value(g)].sort((a, b) => b - a)))
            .map(([high, low]) => (high + 0.05) / (low + 0.05));
          return Math.min(...ratios);
        })()"""
    )
    assert worst >= 4.5


def test_a_link_to_a_folded_group_opens_it(tab: Page, report_file: Path) -> None:
    """HTML standard: ancestor details revealing algorithm."""
    tab.open(report_file, width_px=1440)
    tab.evaluate("document.querySelectorAll('#act li a')[3].click()")
    is_open = "document.querySelector(location.hash).closest('details').open"
    assert tab.evaluate(f"new Promise(done => setTimeout(() => done({is_open}), 0))")


def test_what_is_folded_is_on_paper(tab: Page, report_file: Path) -> None:
    tab.open(report_file, width_px=1000, media="print")
    shown = "[...document.querySelectorAll('details .chart')].filter(c => c.getBoundingClientRect().height > 50).length"
    assert tab.evaluate(shown) == tab.evaluate("document.querySelectorAll('details .chart').length") > 60
    assert tab.pdf().startswith(b"%PDF")
