"""Assemble a report from the tables: what `report.gather` and `report.build` return, and data quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from staticgroup.api.absences import SKEW_MS, EndKind

from . import gold, schemas
from .days import increment
from .days.silver import Silver
from .intake import quality
from .lake import Lake, Published
from .recommendations.features import group_features, set_aside
from .recommendations.histories import Advised, Terms, history
from .recommendations.recommend import MODEL_VERSION
from .report import build, gather
from .report.curves import Window
from .report.model import BillRow, GroupKey, ImageDrift, Money, QualityCheck, Report
from .report.units import amount, count, percent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMED_LIBRARIES: Final = (
    ("Spark", "pyspark"),
    ("Delta Lake tables", "delta-spark"),
    ("NumPy", "numpy"),
    ("SciPy", "scipy"),
)
"""The libraries' names in the report, and their packages."""


def feature_rows(tables: Silver, days: DataFrame, groups: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the rows of `group_features` of a few groups."""
    keys = [GroupKey(kafka_cluster_id=cluster, group_id=group) for cluster, group in groups]
    few = Silver(
        start_ms=tables.start_ms,
        as_of_ms=tables.as_of_ms,
        member_events=gather.of_groups(tables.member_events, keys),
        group_events=gather.of_groups(tables.group_events, keys),
        outages=gather.of_groups(tables.outages, keys),
        beats=tables.beats,
        blind_windows=tables.blind_windows,
    )
    return [row.asDict(recursive=True) for row in group_features(few, gather.of_groups(days, keys)).collect()]


def assemble(
    journal: Lake,
    learned: Lake,
    manifest: Published,
    tables: Silver,
    days: DataFrame,
    advised: Sequence[Advised],
    *,
    earlier_days: DataFrame | None = None,
    bill: Sequence[Mapping[str, Any]] = (),
    money: Money | None = None,
) -> Report:
    """Make the report of published facts.

    Parameters
    ----------
    manifest: the run of the facts.
    tables, days: silver and gold/group_day of its window.
    earlier_days: gold/group_day of the window before, such as from an earlier run; None: `days` holds that window, too.
    advised: the recommendations of the same facts.
    bill: rows of gold/bill, what rebalances cost by Kafka's own record; empty without a configured log.
    money: what lost time is worth; None: not configured.
    """
    terms = Terms.of_settings(manifest.plan.settings)
    window = Window(start_ms=tables.start_ms, end_ms=tables.as_of_ms)
    histories = gather.group_histories(days, window)
    records = {each.record.key: each.record for each in advised}
    sources = {each.record.key: each.state.source for each in advised}
    keys = [row.key for row in build.worth_a_page(build.group_rows(histories, records, sources))]
    rebalances = gold.read_learned(learned, manifest, schemas.REBALANCES)
    return build.build_report(
        created_ms=tables.as_of_ms,
        run_id=manifest.plan.run,
        window=window,
        histories=histories,
        recommendations=records,
        details=_details(keys, window, tables, days, rebalances, terms),
        sources=sources,
        days=gather.day_costs(days, window),
        drift=_drift(histories, advised),
        quality=_quality(journal, manifest, tables, days),
        before=gather.before(days if earlier_days is None else earlier_days, window),
        bill=_bill(bill, histories),
        money=money,
        is_stop_stated=bool(histories) and all(terms.is_stated(each.protocol) for each in histories),
        versions=made_with(),
    )


def _details(
    keys: Sequence[GroupKey], window: Window, tables: Silver, days: DataFrame, rebalances: DataFrame, terms: Terms
) -> dict[GroupKey, build.GroupDetail]:
    """Collect what the pages of a few groups show."""
    if not keys:
        return {}
    timelines = gather.timelines(
        keys,
        window,
        member_events=tables.member_events,
        group_events=tables.group_events,
        outages=tables.outages,
        rebalances=rebalances,
    )
    by_pair = {(key.kafka_cluster_id, key.group_id): key for key in keys}
    details = {}
    for row in feature_rows(tables, days, list(by_pair)):
        known, _ = history(row, terms, start_ms=tables.start_ms, as_of_ms=tables.as_of_ms)
        key = by_pair[(known.kafka_cluster_id, known.group_id)]
        details[key] = build.GroupDetail(
            gaps_ms=known.sample.gaps_ms,
            is_returned=known.sample.is_returned,
            rates=known.rates,
            timeline=timelines[key],
        )
    return details


def _bill(rows: Sequence[Mapping[str, Any]], histories: Sequence[build.GroupHistory]) -> list[BillRow]:
    """Add to each group its owner, if it has one, and what would help, in words."""
    from .bill.page import help_words

    keys = {(each.key.kafka_cluster_id, each.key.group_id): each.key for each in histories}
    return [gather.bill_row(row, keys.get((row["kafka_cluster_id"], row["group_id"])), help_words(row)) for row in rows]


def made_with() -> list[tuple[str, str]]:
    """Return the names and versions of the rules, the tables' format and the libraries behind the figures.

    Raises
    ------
    importlib.metadata.PackageNotFoundError: a library is installed without its metadata; the image's build checks all.
    """
    libraries = [(name, version(package)) for name, package in NAMED_LIBRARIES]
    return [("fleet learner", version("staticgroup")), ("rules", MODEL_VERSION), *libraries]


def _drift(histories: Sequence[build.GroupHistory], advised: Sequence[Advised]) -> list[ImageDrift]:
    keys = {(each.key.kafka_cluster_id, each.key.group_id): each.key for each in histories}
    found = [
        ImageDrift(
            key=keys[each.record.key],
            image_digest=each.slower.image_digest,
            since_ms=each.slower.since_ms,
            median_before_ms=each.slower.median_before_ms,
            median_after_ms=each.slower.median_after_ms,
        )
        for each in advised
        if each.slower is not None
    ]
    return sorted(found, key=lambda d: d.median_before_ms / max(d.median_after_ms, 1))[: build.PAGES]


def _named(groups: Sequence[tuple[Any, ...]]) -> str:
    """Name the first of some groups, each a tuple that begins with the Kafka cluster id and the group id."""
    pairs = sorted({f"{each[0]}/{each[1]}" for each in groups})
    return ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")


def _quality(journal: Lake, manifest: Published, tables: Silver, days: DataFrame) -> list[QualityCheck]:
    source = journal.runs.read(manifest.plan.sources[increment.SOURCE]["end"])
    rows = {name: table.rows for name, table in source.tables.items()}
    lost = quality.lost_records(
        *(journal.published(t, source, since_ms=max(0, tables.start_ms - SKEW_MS))
          for t in (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)), since_ms=tables.start_ms,
    ).agg({"missing": "sum"}).collect()[0][0] or 0  # fmt: skip
    odd = quality.member_event_findings(tables.member_events)
    ends = quality.outage_findings(tables.outages)
    aside, impossible = set_aside(days), quality.impossible_days(days)
    refused, taken = rows.get(schemas.QUARANTINE.name, 0), max(rows.get(schemas.EVENTS.name, 0), 1)
    outages = max(sum(ends[kind.value] for kind in EndKind), 1)

    def check(name: str, value: str, is_good: bool, meaning: str, worse: str = "warning") -> QualityCheck:
        return QualityCheck(name=name, value=value, verdict="good" if is_good else worse, meaning=meaning)

    return [
        check("Conservation", f"{taken:,} records", True,
              "Every record read is in the tables, in quarantine or a copy; a run that breaks this stops."),
        check("Quarantine", count(refused, "record"), refused / taken <= 0.001,
              "Records that are not of the journal's form, kept with the reason.", "bad"),
        check("Lost records", f"{lost:,}", lost == 0,
              "Holes in the operators' own numbering: written within the window, never read."),
        check("Blind outages", f"{percent(ends['blind'] / outages)} of {amount(outages)}",
              ends["blind"] <= 0.05 * outages,
              "No operator was watching for part of these, so their length is not used."),
        check("Clocks", count(odd["clock_skew"], "record"), odd["clock_skew"] <= 0.01 * outages,
              "Kubelet's and operator's clock are more than a minute apart, or the record was written late."),
        check("Bounds", count(odd["bounds_reversed"], "record"), odd["bounds_reversed"] == 0,
              "Facts whose lower bound is later than their upper bound.", "bad"),
        check("Set aside", _named(aside) or "none", not aside,
              "Groups of a protocol that this version does not know: counted, and nothing is recommended for them."),
        check("Impossible totals", _named(impossible) or "none", not impossible,
              "Days on which a group lost more than it has, or its absences do not add up; do not rely on its figures.",
              "bad"),
        check("Outages above a day", f"{ends['longer_than_a_day']:,}", True, "Members that stayed away for long."),
        check("Late records", f"{source.counts.get('late_rows', 0):,}", not source.counts.get("late_rows"),
              "Older than what the last run made again; apply them with fleet-learner backfill."),
    ]  # fmt: skip
