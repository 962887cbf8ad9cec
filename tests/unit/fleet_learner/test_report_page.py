"""The page: whole, escaped, self-contained, within its size; and the same report for programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleet_learner.report.group_page import anchor
from fleet_learner.report.html import ROWS_MAX, to_html
from fleet_learner.report.model import GroupRow, Report
from fleet_learner.report.tables import group_rows, to_json, write_report
from fleet_learner.report.text import words
from support.sample_report import HOSTILE, sample_report

VOID = {"meta", "br", "wbr"}


class Outline(HTMLParser):
    """Reads tags, identifiers, links and whether every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        named = dict(attrs)
        self.ids += [named["id"]] if named.get("id") else []
        self.links += [named["href"]] if named.get("href") else []
        self.addresses += [value for name in ("src", "srcset", "data", "action") if (value := named.get(name))]
        assert not [name for name in named if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(report: Report) -> Outline:
    read = Outline()
    read.feed(to_html(report))
    read.close()
    return read


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report()


def test_every_element_is_closed_in_order_and_every_link_has_its_target(report: Report) -> None:
    read = outline(report)
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)


def test_the_page_needs_nothing_from_anywhere_and_runs_no_script(report: Report) -> None:
    read = outline(report)
    assert not read.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert read.addresses == []
    assert all(link.startswith("#") for link in read.links)
    page = to_html(report)
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page


def test_hostile_names_are_text(report: Report) -> None:
    page = to_html(report)
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert HOSTILE in "".join(outline(report).text)


def test_five_hundred_groups_fit_two_megabytes(report: Report) -> None:
    assert len(report.rows) == 500
    assert len(to_html(report).encode()) <= 2_000_000


def test_every_group_is_in_the_table_and_the_worthy_have_a_page(report: Report) -> None:
    read = outline(report)
    text = "".join(read.text)
    assert all(row.key.group_id in text for row in report.rows)
    assert {anchor(page.row.key) for page in report.pages} <= set(read.ids)


def test_what_the_table_leaves_out_is_said() -> None:
    report = sample_report(groups=ROWS_MAX + 3, pages=1, days=1)
    assert "3 groups with less to gain are left out here" in "".join(outline(report).text)


def test_a_fleet_with_nothing_to_gain_is_told_so() -> None:
    def content(row: GroupRow) -> GroupRow:
        return replace(row, advice=replace(row.advice, is_action=False), recommended_timeout_ms=None)

    report = sample_report(groups=3, pages=0)
    report = replace(report, rows=tuple(map(content, report.rows)), clusters=(), drift=())
    text = "".join(outline(report).text)
    assert "Nothing to do" in text
    assert "Groups worth acting on" in text


def test_an_empty_fleet_makes_a_page(report: Report) -> None:
    empty = replace(report, rows=(), pages=(), days=(), clusters=(), drift=(), quality=(), groups=0, members=0)
    assert outline(empty).open == []


def test_the_same_report_makes_the_same_bytes() -> None:
    assert to_html(sample_report(groups=40)) == to_html(sample_report(groups=40))
    assert to_json(sample_report(groups=40)) == to_json(sample_report(groups=40))


def test_units_stay_with_their_numbers_and_long_names_may_break() -> None:
    assert words("lost 12.5 partition-h in 3 min") == "lost 12.5\u00a0partition-h in 3\u00a0min"
    assert words("> 99.9 % of 3 members") == "&gt;\u00a099.9\u00a0% of 3 members"
    assert words("group.consumer.max.session.timeout.ms") == (
        "group.<wbr>consumer.<wbr>max.<wbr>session.<wbr>timeout.<wbr>ms"
    )
    assert (
        re.sub("<wbr>", "", words(HOSTILE))
        == "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;quoted&quot;"
    )


def test_the_json_holds_every_figure_under_its_own_name(report: Report) -> None:
    document = json.loads(to_json(report))
    assert document["model_version"] == 1
    assert len(document["rows"]) == 500
    assert document["rows"][3]["key"]["group_id"] == HOSTILE
    assert document["counts"]["rebalances"] == report.counts.rebalances
    assert len(document["pages"][0]["survival"]) == len(report.pages[0].survival)


def test_a_report_never_says_nan(report: Report) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(replace(report, coverage=float("nan")))


def test_a_group_is_one_flat_row(report: Report) -> None:
    row = group_rows(report)[0]
    assert row["group_id"] == "payments"
    assert row["counts_rebalances"] == report.rows[0].counts.rebalances
    assert row["advice_action"] == report.rows[0].advice.action
    assert not [name for name, value in row.items() if isinstance(value, dict)]


def test_files_are_written_with_what_was_reported(report: Report, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    files = write_report(report, tmp_path / "out")
    assert {f.name for f in files} == {
        "report.html", "report.json", "groups.parquet", "days.parquet", "quality.parquet", "survival.parquet",
        "cost.parquet", "hazard.parquet", "what_if.parquet",
    }  # fmt: skip
    groups = pq.read_table(tmp_path / "out" / "groups.parquet")
    assert groups.num_rows == 500
    assert groups.column("group_id").to_pylist()[3] == HOSTILE
