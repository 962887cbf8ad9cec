"""Building a report: curves that agree with the estimators, the order of groups, and the methods."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet_learner.estimates.cost import CostRates, cheapest, cost_per_day
from fleet_learner.estimates.kaplan_meier import kaplan_meier
from fleet_learner.offsets.codec import GroupType
from fleet_learner.report import build, gather, views
from fleet_learner.report.curves import Timeline, Window
from fleet_learner.report.methods import methods
from fleet_learner.report.model import BillRow, Counts, GroupKey, Report, Verdict
from fleet_learner.report.pages import team_pages
from fleet_learner.report.teams import teams
from fleet_learner.report.units import partition_time
from journal.recommendations import PriceSource
from unit.fleet_learner.recommendation_samples import DAY_MS, recommendation, saved

REPOSITORY = Path(__file__).parents[3]
WINDOW = Window(start_ms=0, end_ms=30 * DAY_MS)
RATES = CostRates(stops_per_day=36, member_partitions=4, eviction_partition_seconds=384)


def history(group_id: str = "orders", **changes: Any) -> build.GroupHistory:
    values: dict[str, Any] = {
        "key": GroupKey(kafka_cluster_id="kafka-1", group_id=group_id), "protocol": "Classic", "members": 12,
        "partitions": 48,
        "counts": Counts(restarts=1080, rebalances=30, rebalances_if_dynamic=2160, rebalance_cost_partition_ms=1_000),
        "covered_ms": 9 * DAY_MS, "span_ms": 10 * DAY_MS, "lost_partition_ms_by_day": (1, 2),
    }  # fmt: skip
    return build.GroupHistory(**(values | changes))


def report_of(*histories: build.GroupHistory, bill: list[BillRow] | None = None) -> Report:
    return build.build_report(
        created_ms=1, run_id="1", window=WINDOW, histories=list(histories), recommendations={}, details={}, days=(),
        bill=bill or [],
    )  # fmt: skip


def test_what_there_is_to_do_comes_first_then_what_is_not_known_then_the_rest() -> None:
    names = ("small", "kept", "great", "silent", "open")
    made = {
        ("kafka-1", "small"): recommendation(group_id="small", saved_partition_seconds_per_day=saved(10)),
        ("kafka-1", "kept"): recommendation(group_id="kept", recommended_ms=45_000, goal_ms=45_000),
        ("kafka-1", "great"): recommendation(group_id="great", saved_partition_seconds_per_day=saved(5_000)),
        ("kafka-1", "open"): recommendation(group_id="open", price_source=PriceSource.ASSUMED),
    }
    rows = build.group_rows([history(name) for name in names], made)
    assert [row.key.group_id for row in rows] == ["great", "small", "open", "kept", "silent"]
    assert [row.key.group_id for row in build.worth_a_page(rows)] == ["great", "small", "open"]
    assert [row.key.group_id for row in build.worth_a_page(rows, limit=1)] == ["great"]
    assert rows[4].advice.why == "No recommendation was made for it."
    assert (rows[4].advice.verdict, bool(rows[4].advice.would_tell)) == (Verdict.NOT_KNOWN, True)


def test_a_group_that_lost_nothing_asks_no_question() -> None:
    made = {("kafka-1", "idle"): recommendation(group_id="idle", price_source=PriceSource.ASSUMED)}
    rows = build.group_rows([history("idle", counts=Counts())], made)
    assert build.worth_a_page(rows) == ()


def test_who_carries_it_out_depends_on_the_mode() -> None:
    rows = build.group_rows([history()], {("kafka-1", "orders"): recommendation()}, {("kafka-1", "orders"): "Fleet"})
    assert rows[0].advice.who.startswith("Nobody has to: the operator does it")


def detail() -> build.GroupDetail:
    rng = np.random.Generator(np.random.Philox(key=7))
    gaps = np.round(np.exp(rng.normal(np.log(25_000), 0.5, 1080)))
    return build.GroupDetail(
        gaps_ms=gaps, is_returned=np.arange(1080) % 100 != 0, rates=RATES, timeline=Timeline(window=WINDOW)
    )


def test_a_page_prices_what_the_estimators_price() -> None:
    known = detail()
    row = build.group_rows([history()], {("kafka-1", "orders"): recommendation()})[0]
    page = build.group_page(row, known, recommendation())
    curve = kaplan_meier(known.gaps_ms, known.is_returned)
    grid = np.array([p.timeout_ms for p in page.cost], dtype=np.float64)
    expected = cost_per_day(curve, RATES, grid)
    assert np.allclose([p.total_partition_ms / 1000 for p in page.cost], expected, rtol=1e-6, atol=0.01)
    assert {45_000, 90_000} <= {p.timeout_ms for p in page.cost}
    best = page.cost[int(cheapest(expected))].timeout_ms
    assert min(page.cost, key=lambda p: p.total_partition_ms).timeout_ms == best
    assert page.samples == 1080
    assert page.censored == 11
    assert page.indifference_per_second == pytest.approx(4 / 384)


def test_the_curve_is_thinned_but_keeps_its_ends_and_its_band() -> None:
    known = detail()
    curve = kaplan_meier(known.gaps_ms, known.is_returned)
    points = build.survival_points(curve, 50)
    assert len(points) <= 50
    assert points[0].gap_ms == round(curve.times_ms[0])
    assert points[-1].gap_ms == round(curve.times_ms[-1])
    assert all(0 <= p.lower <= p.survival <= p.upper <= 1 for p in points)


def test_the_what_if_table_holds_now_the_advised_and_dynamic_members() -> None:
    known = detail()
    lines = build.what_if(kaplan_meier(known.gaps_ms, known.is_returned), RATES, now_ms=45_000, advised_ms=90_000)
    labels = [line.label for line in lines]
    assert "45 s, now" in labels
    assert "1 min 30 s, advised" in labels
    assert lines[-1].timeout_ms is None
    assert lines[-1].rebalances_per_day == 72
    kept = build.what_if(
        kaplan_meier(known.gaps_ms, known.is_returned), RATES, now_ms=45_000, advised_ms=None, recommended_ms=95_000
    )
    assert "1 min 35 s, recommended" in [line.label for line in kept]
    evictions = [line.evictions_per_day for line in lines[:-1]]
    assert evictions == sorted(evictions, reverse=True)


def test_a_group_without_a_single_return_has_a_page_without_curves() -> None:
    never = replace(detail(), gaps_ms=np.array([1_000.0]), is_returned=np.array([False]))
    row = build.group_rows([history()], {("kafka-1", "orders"): recommendation()})[0]
    page = build.group_page(row, never, recommendation())
    assert page.survival == ()
    assert page.hazard == ()


def test_the_fleet_is_the_sum_of_its_groups() -> None:
    made = report_of(history("a"), history("b", covered_ms=0))
    assert (made.groups, made.members, made.kafka_clusters) == (2, 24, 1)
    assert made.counts.restarts == 2160
    assert made.counts.rebalances_if_dynamic == 4320
    assert made.coverage == 0.45
    assert made.pages == ()


def test_a_team_lost_as_much_a_week_as_its_groups_did_while_somebody_watched() -> None:
    """A fleet of one team has the same figure on its card and in its table of teams; a third of the month was seen."""
    lost = Counts(rebalance_cost_partition_ms=36_000_000)
    silent = history("b", counts=lost, covered_ms=0)
    report = report_of(history("a", counts=lost, covered_ms=10 * DAY_MS), silent)
    (team,) = teams(report)
    assert team.lost_partition_ms_per_week == 7 * 3_600_000
    shown = {name: value for name, value, _ in views.cards(report)}
    assert shown["Lost per week"] == partition_time(7 * 3_600_000)
    unseen = report_of(silent)
    assert [each.lost_partition_ms_per_week for each in teams(unseen)] == [None]
    page = dict(team_pages(unseen, {}))["_none.html"].replace("&nbsp;", " ").replace("\xa0", " ")
    assert "1 group, not watched." in page


def test_dynamic_members_are_compared_only_when_every_group_was_replayed() -> None:
    made = report_of(history("a"), history("b", counts=Counts(rebalances=1)))
    assert made.counts.rebalances_if_dynamic is None


def test_the_dearest_group_of_a_bill_comes_first_also_one_that_nobody_manages() -> None:
    bill = [
        BillRow(key=GroupKey(kafka_cluster_id="k", group_id=name), covered_days=7, silent_partition_ms=ms)
        for name, ms in (("b", 5), ("c", 9), ("a", 5))
    ]
    assert [row.key.group_id for row in report_of(bill=bill).bill] == ["c", "a", "b"]


def test_a_bill_shows_its_interval_and_what_made_the_rebalances() -> None:
    row = {
        "kafka_cluster_id": "k", "group_id": "g", "covered_ms": DAY_MS // 2, "rebalances": 9, "restart_rebalances": 7,
        "silent_partition_ms": 1_000, "margin_partition_ms": 1_200, "measured": 3, "interrupted_members": 4,
        "records_delayed": None,
        "group_type": GroupType.CLASSIC.value,
    }  # fmt: skip
    made = gather.bill_row(row, None, "nothing")
    assert (made.covered_days, made.rebalances) == (0.5, {"by restarts": 7, "otherwise": 2})
    assert views.silent(made) == "1 partition-s (0 to 2.2 partition-s)"
    assert views.causes(made) == "7 by restarts, 2 otherwise"
    assert views.silent(gather.bill_row({**row, "measured": 0}, None, "")) == "not known"
    assert views.causes(gather.bill_row({**row, "group_type": GroupType.SHARE.value}, None, "")) == "not counted"


def found_coverage() -> dict[str, list[int]]:
    """Read the coverage of the bound that is chosen from the table of the validation, by truth."""
    text = (REPOSITORY / "docs" / "reference" / "fleet-learner.md").read_text(encoding="utf-8")
    table = text.split("<!-- validation: begin -->")[1].split("Regret:")[0]
    found: dict[str, list[int]] = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1].isdigit():
            found.setdefault(cells[0], []).append(int(cells[7].split(" %")[0]))
    return found


def test_the_methods_tell_the_coverage_that_was_found() -> None:
    """The figures of the sentence are those of the validation's table, at 5 to 1,000 stops."""
    found = found_coverage()
    assert len(found) == 5
    text = next(method.text for method in methods(()) if method.name == "Bounds")
    ranges = [(int(low), int(high)) for low, high in re.findall(r"(\d+) to (\d+) %", text)]
    tail, together = found.pop("1 % Pareto tail"), found.pop("tail, rollouts and censoring")
    others = [value for values in found.values() for value in values]
    # The rows of the tail up to 100 stops are the first four.
    expected = [others, tail, tail[:4], together]
    assert ranges == [(min(values), max(values)) for values in expected]


def test_the_methods_tell_what_an_absence_is_and_what_the_figures_were_made_with() -> None:
    texts = {method.name: method.text for method in methods((("Delta Lake tables", "4.4.0"), ("Spark", "4.2.0")))}
    assert texts["Restarts"].startswith(
        "An outage begins when a member's process ends and is over when the group has the member back"
    )
    assert texts["Made with"] == "Delta Lake tables 4.4.0, Spark 4.2.0."
