"""The page: complete, escaped, self-contained, within its size; and the same report for programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleet_learner.configuration import ConfigurationError, read_configuration
from fleet_learner.report import views
from fleet_learner.report.model import Advice, Counts, GroupRow, Money, Report, Verdict
from fleet_learner.report.pages import Drawings, draw, team_pages, to_html
from fleet_learner.report.tables import group_rows, to_json, write_report
from fleet_learner.report.teams import LINES_MAX, ROWS_MAX, anchor, teams
from fleet_learner.report.text import words
from support.sample_report import HOSTILE, sample_report

VOID = {"meta", "br", "wbr"}
REPOSITORY = Path(__file__).parents[3]
KEEP = Advice(verdict=Verdict.KEEP, action="Leave it.", why="It is the best one.")


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


def outline(page: str) -> Outline:
    read = Outline()
    read.feed(page)
    read.close()
    return read


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report()


@pytest.fixture(scope="module")
def drawings(report: Report) -> Drawings:
    return draw(report)


@pytest.fixture(scope="module")
def page(report: Report, drawings: Drawings) -> str:
    return to_html(report, drawings)


@pytest.fixture(scope="module")
def by_team(report: Report, drawings: Drawings) -> dict[str, str]:
    return dict(team_pages(report, drawings))


def test_every_element_is_closed_in_order_and_every_link_has_its_target(page: str, by_team: dict[str, str]) -> None:
    for each in (page, *by_team.values()):
        read = outline(each)
        assert read.open == []
        assert len(read.ids) == len(set(read.ids))
        assert {link.removeprefix("#") for link in read.links} <= set(read.ids)


def test_the_page_needs_nothing_from_anywhere_and_runs_no_script(page: str, by_team: dict[str, str]) -> None:
    for each in (page, *by_team.values()):
        read = outline(each)
        assert not read.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
        assert read.addresses == []
        assert all(link.startswith("#") for link in read.links)
        assert "default-src 'none'" in each
        assert "@import" not in each
        # References of a drawing stay within the drawing.
        assert {found.removeprefix("#") for found in re.findall(r"url\(([^)]*)\)", each)} <= set(read.ids)


def test_hostile_names_are_text(page: str) -> None:
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert HOSTILE in "".join(outline(page).text)


def test_five_hundred_groups_fit_two_megabytes(report: Report, page: str) -> None:
    assert len(report.rows) == 500
    assert len(report.pages) == 20
    assert len(page.encode()) <= 2_000_000


def test_every_group_is_in_the_table_and_the_worthy_have_a_page(report: Report, page: str) -> None:
    read = outline(page)
    text = "".join(read.text)
    assert all(row.key.group_id in text for row in report.rows)
    assert {anchor(each.row.key) for each in report.pages} <= set(read.ids)


def test_a_block_tells_whose_it_is_what_it_saves_what_it_costs_and_what_to_type(report: Report, page: str) -> None:
    block = page.split('<article class="advice">')[1].partition("</article>")[0]
    text = re.sub(r"\s+", " ", "".join(outline(block).text).replace("\u00a0", " "))
    row = report.rows[0]
    assert f"{row.key.namespace} / StaticGroup {row.key.static_group} / workload {row.key.workload}" in text
    assert views.timeouts(row) in text
    assert f"Saves a week{views.saving(row.advice.saving)}" in text
    assert "EUR" in text
    assert "by a price measured from its own offset commits" in text
    assert "A member that dies for good is noticed" in text
    assert row.advice.command in text


def test_a_team_sees_its_groups_and_nobody_elses(report: Report, by_team: dict[str, str]) -> None:
    assert sorted(by_team) == sorted(f"{team.slug}.html" for team in teams(report))
    for team in teams(report):
        text = "".join(outline(by_team[f"{team.slug}.html"]).text)
        own = {row.key.group_id for row in report.rows if row.key.namespace == team.namespace}
        others = {row.key.group_id for row in report.rows} - own
        assert all(name in text for name in own)
        # Names that are no part of another one: those of the sample end with their number.
        assert not [name for name in others if re.search(rf"{re.escape(name)}(?![\w.-])", text)]


@pytest.mark.parametrize("namespace", ["", "../../etc/passwd", "UPPER", "a" * 64, "-a", "日本"])
def test_no_namespace_leads_out_of_the_folder(namespace: str) -> None:
    report = sample_report(groups=2, pages=0)
    row = report.rows[0]
    (team,) = teams(replace(report, rows=(replace(row, key=replace(row.key, namespace=namespace)),)))
    assert re.fullmatch(r"_[0-9a-z]+", team.slug)


def test_a_page_of_thousands_shows_the_first_in_full_and_the_others_in_a_line_each() -> None:
    report = sample_report(groups=ROWS_MAX + 3, pages=0, days=1)
    assert sum(len(team.full) for team in teams(report)) == ROWS_MAX
    short = [row.key.group_id for team in teams(report) for row in team.short]
    assert sorted(short) == sorted(row.key.group_id for row in report.rows[ROWS_MAX:])
    page = to_html(report)
    text = "".join(outline(page).text)
    assert "With less to gain, a line each" in text
    assert all(name in text for name in short)
    some = teams(report, rows_max=10, lines_max=20)
    assert sum(team.left_out for team in some) == len(report.rows) - 30
    assert LINES_MAX * 200 < 5_000_000


def content(row: GroupRow) -> GroupRow:
    return replace(row, advice=KEEP)


def test_a_report_says_so_when_there_is_nothing_to_gain() -> None:
    report = sample_report(groups=3, pages=0)
    report = replace(report, rows=tuple(map(content, report.rows)), clusters=(), drift=())
    text = "".join(outline(to_html(report)).text)
    assert "Nothing to do" in text
    assert "Groups worth a look" in text
    assert "not known" in text


def test_an_empty_fleet_makes_a_page(report: Report) -> None:
    empty = replace(
        report, rows=(), pages=(), days=(), clusters=(), drift=(), quality=(), groups=0, members=0, counts=Counts(),
        bill=(),
        before=None, money=None, lost_partition_ms_per_day=None,
    )  # fmt: skip
    page = to_html(empty)
    assert outline(page).open == []
    text = "".join(outline(page).text)
    assert "No history yet" in text
    assert "fleet-learner bill" in text


def test_a_price_that_nobody_knows_is_the_first_thing_to_measure() -> None:
    report = sample_report(groups=40, pages=0)
    kinds = [kind for kind, _ in views.steps(report)]
    assert kinds[:4] == ["group", "group", "measure", "cluster"]
    assert [number for kind, number in views.steps(report) if kind == "measure"] == [5]


def test_nothing_is_written_in_money_unless_it_was_asked_for(report: Report) -> None:
    small = sample_report(groups=20, pages=0)
    assert "EUR" in to_html(small)
    assert "EUR" not in to_html(replace(small, money=None))
    only_messages = replace(small, money=Money(currency="EUR", price_per_delayed_message=0.01))
    assert views.cards(only_messages) == views.cards(replace(small, money=None))
    assert "delays 814" in "".join(outline(to_html(only_messages)).text)


def test_the_trend_compares_watched_time_and_not_days(report: Report) -> None:
    """3,210 rebalances against 9,870 in 85 % of the time: by watched time 72.4 % less, not 67.5 %."""
    changes = {name: change for name, _, _, change in views.trend(report)}
    assert changes["Rebalances"] == "72.4 % less"
    assert changes["Restarts absorbed"] == "+15.3 points"
    blind = replace(report, before=replace(report.before, coverage=0.1))
    assert {name: change for name, _, _, change in views.trend(blind)}["Rebalances"] == "not comparable: hardly watched"
    assert views.trend(replace(report, before=None)) == []


def test_the_same_report_makes_the_same_bytes() -> None:
    one, other = (sample_report(groups=40, pages=2) for _ in range(2))
    assert to_html(one) == to_html(other)
    assert to_json(one) == to_json(other)


def test_units_stay_with_their_numbers_and_long_names_may_break() -> None:
    assert words("lost 12.5 partition-h in 3 min") == "lost 12.5\u00a0partition-h in 3\u00a0min"
    assert words("> 99.9 % of 3 members") == "&gt;\u00a099.9\u00a0% of 3 members"
    assert words("group.consumer.max.session.timeout.ms") == (
        "group.<wbr>consumer.<wbr>max.<wbr>session.<wbr>timeout.<wbr>ms"
    )
    assert re.sub("<wbr>", "", words(HOSTILE)) == "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&#34;quoted&#34;"


def test_the_json_holds_every_figure_under_its_own_name(report: Report) -> None:
    document = json.loads(to_json(report))
    assert document["model_version"] == 2
    assert len(document["rows"]) == 500
    assert document["rows"][3]["key"]["group_id"] == HOSTILE
    assert document["rows"][0]["advice"]["saving"]["best_partition_ms"] == 600_000_000
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
    small = sample_report(groups=60, pages=2)
    files = write_report(small, tmp_path / "out")
    assert {f.name for f in files if f.parent.name == "out"} == {
        "report.html", "report.json", "groups.parquet", "days.parquet", "quality.parquet", "survival.parquet",
        "cost.parquet", "hazard.parquet", "what_if.parquet", "bill.parquet",
    }  # fmt: skip
    assert {f.name for f in files if f.parent.name == "teams"} == {f"team-{i}.html" for i in range(17)}
    groups = pq.read_table(tmp_path / "out" / "groups.parquet")
    assert groups.num_rows == 60
    assert groups.column("group_id").to_pylist()[3] == HOSTILE
    assert groups.column("advice_saving_best_partition_ms").to_pylist()[0] == 600_000_000


def test_columns_keep_their_types_when_nobody_has_a_value(tmp_path: Path) -> None:
    """Reports of two days are read as one table."""
    pq = pytest.importorskip("pyarrow.parquet")
    full = sample_report(groups=20, pages=0)
    empty = replace(full, rows=tuple(map(content, full.rows)))
    schemas = []
    for name, each in (("full", full), ("empty", empty)):
        write_report(each, tmp_path / name)
        schemas.append(pq.read_schema(tmp_path / name / "groups.parquet"))
    assert [(f.name, f.type) for f in schemas[0]] == [(f.name, f.type) for f in schemas[1]]


def test_the_page_of_a_team_that_is_gone_goes_too(tmp_path: Path) -> None:
    report = sample_report(groups=3, pages=0)
    write_report(report, tmp_path)
    write_report(replace(report, rows=report.rows[:1]), tmp_path)
    assert [f.name for f in (tmp_path / "teams").iterdir()] == ["team-0.html"]


def test_wheel_and_source_archive_carry_the_templates() -> None:
    """The files that hatchling packs; the image copies the same folder (deploy/fleet-learner/Dockerfile)."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    templates = REPOSITORY / "operator" / "fleet_learner" / "report" / "templates"
    expected = {f"fleet_learner/report/templates/{path.name}" for path in templates.iterdir()}
    assert len(expected) >= 5
    for builder, prefix in ((WheelBuilder, ""), (SdistBuilder, "operator/")):
        packed = {each.distribution_path for each in builder(str(REPOSITORY)).recurse_included_files()}
        assert {prefix + name for name in expected} <= packed


def test_prices_are_read_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('root = "/data"\n[report]\ncurrency = "EUR"\nprice_per_partition_hour = 0.4\n')
    assert read_configuration(file, {}).report.money == Money(currency="EUR", price_per_partition_hour=0.4)
    for bad in ("-1", "0", "nan", "inf"):
        file.write_text(f'root = "/data"\n[report]\ncurrency = "EUR"\nprice_per_delayed_message = {bad}\n')
        with pytest.raises(ConfigurationError, match="price_per_delayed_message"):
            read_configuration(file, {})
    file.write_text('root = "/data"\n[report]\ncurrency = "EUR"\n')
    assert read_configuration(file, {}).report.money is None
