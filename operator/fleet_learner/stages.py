"""The stages of jobs: ingest, read logs, learn, report, tidy.

The one idea: see `jobs`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from . import gold, schemas
from .assembly import assemble
from .days import increment
from .days.silver import Silver
from .estimates.price import Price
from .intake.ingest import ingest
from .intake.planning import Horizon
from .job import Job, say
from .lake import Published
from .lake.lake import day_of
from .lake.upkeep import tidy as tidy_tables
from .metrics import RunMetrics
from .recommendations.advised import recommendations
from .recommendations.features import set_aside
from .recommendations.histories import Advised, Terms
from .recommendations.recommend import MODEL_VERSION
from .recommendations.snapshot import delete_old_snapshots, write_snapshot
from .report.model import Report, Verdict
from .report.tables import write_report
from .report.units import count, duration, partition_time, percent
from .report.views import unknown

SNAPSHOTS: Final = "recommendations"
REPORTS: Final = "report"
NAMED_MAX: Final = 5


def take_in(job: Job, as_of_ms: int | None, horizon: Horizon) -> Published:
    """Ingest new records of the journals, and print the counts."""
    sources = job.sources()
    end_ms = as_of_ms if as_of_ms is not None else int(time.time() * 1000)
    job.progress.begin("ingest")
    before = len(job.left_out)
    state = ingest(job.journal, sources, as_of_ms=end_ms, horizon=horizon, on_step=job.step)
    counts = state.counts
    say(
        f"ingested: {counts.get('bronze/events_rows', 0):,} records, "
        f"{counts.get('bronze/quarantine_rows', 0):,} in quarantine, {counts.get('duplicates', 0):,} copies, "
        f"{counts.get('late_rows', 0):,} too late (run {state.number})"
    )
    _tell_left_out(job, before)
    if warning := beyond_window(
        counts.get("newest_ms", 0), gold.window_start_ms(end_ms, job.configuration.window_days)
    ):
        say(warning)
    fates = {"quarantine": "bronze/quarantine_rows", "copy": "duplicates", "late": "late_rows"}
    for fate, name in fates.items():
        job.metrics.tell("fleet_learner_records", counts.get(name, 0), fate)
    good = sum(n for name, n in counts.items() if name.startswith("silver/") and name.endswith("_rows"))
    job.metrics.tell("fleet_learner_records", good, "silver")
    return state


def beyond_window(newest_ms: int, start_ms: int) -> str:
    """Return a warning if all records lie before the window; else "".

    Parameters
    ----------
    newest_ms: of the newest record, Unix milliseconds; 0 when there is none.
    start_ms: of the window.
    """
    if not 0 < newest_ms < start_ms:
        return ""
    return (
        f"the newest record is of {day_of(newest_ms)}, before the window, which begins on {day_of(start_ms)}: "
        "nothing can be learned from it. Name another end of the window (--as-of) or a longer one (--window-days)"
    )


def read_logs(job: Job) -> None:
    """Ingest new records of the `__consumer_offsets` logs that the configuration names."""
    from .bill.stage import read_logs

    job.progress.begin("offsets")
    logs = job.configuration.offsets_logs
    keep_days, now_ms = job.configuration.window_days, int(time.time() * 1000)
    before = len(job.left_out)
    read = read_logs(job.journal, logs, now_ms=now_ms, keep_days=keep_days, on_step=job.step)
    for name, state in read.items():
        stood = state.rows("silver/standstills")
        say(f"offsets of {name}: {count(stood, 'standstill')} known (run {state.number})")
        if state.counts["bad_records"]:
            say(f"offsets of {name}: passed over {count(state.counts['bad_records'], 'broken record')}")
    _tell_left_out(job, before)


def _tell_left_out(job: Job, before: int) -> None:
    """Print the sources that were left out after the first `before` ones."""
    for text in job.left_out[before:]:
        say(f"left out, and read again from where it was: {text}")


def learn_and_tell(job: Job) -> Report:
    """Learn from what is published, and write recommendations and the report."""
    source = job.journal.runs.latest()
    events = sum(t.rows for name, t in source.tables.items() if name.startswith("silver/")) if source else None
    job.progress.begin("learn", events)
    terms = job.terms if source is None else replace(job.terms, prices=_measured_prices(job, source.plan.as_of_ms))
    state, advised = gold.learn(
        job.journal,
        job.learned,
        window_days=job.configuration.window_days,
        terms=terms,
        is_replayed=job.configuration.is_replayed,
        on_step=job.progress.done,
    )
    return tell(job, state, advised)


def _measured_prices(job: Job, as_of_ms: int) -> Mapping[tuple[str, str], Price]:
    from .bill import window

    since_ms = gold.window_start_ms(as_of_ms, job.configuration.window_days)
    names = (each.name for each in job.configuration.offsets_logs)
    return window.prices(job.journal, names, since_ms=since_ms, until_ms=as_of_ms)


def _bill_rows(job: Job, since_ms: int, until_ms: int) -> list[dict[str, Any]]:
    """Return gold/bill of every group in the logs of the configuration, also of those that nobody manages."""
    from .bill import window

    names = (each.name for each in job.configuration.offsets_logs)
    rows = window.bill(job.journal, names, since_ms=since_ms, until_ms=until_ms)
    return [] if rows is None else [row.asDict() for row in rows.toLocalIterator()]


def tell(job: Job, state: Published, advised: Sequence[Advised] | None = None) -> Report:
    """Write recommendations and the report of published facts; repeating it writes the same bytes.

    Parameters
    ----------
    advised: the recommendations, if just computed; None computes them again.
    """
    job.progress.begin("recommend")
    tables = silver_of(job, state)
    days = gold.read_learned(job.learned, state, schemas.GROUP_DAY)
    terms = Terms.of_settings(state.plan.settings)
    if advised is None:
        advised = recommendations(tables, days, terms, gold.standing(job.learned, state))
    snapshot = write_snapshot(
        (each.record for each in advised),
        job.configuration.output_folder / SNAPSHOTS,
        run_id=state.plan.run,
        model_version=MODEL_VERSION,
        created_ms=tables.as_of_ms,
        expires_ms=tables.as_of_ms + terms.valid_ms,
    )
    changed = sum(each.record.recommended_ms not in (None, each.record.current_ms) for each in advised)
    say(
        f"recommended: {snapshot.records:,} groups in {len(snapshot.shards)} shards, run {snapshot.run_id}; "
        f"another timeout than now: {changed:,}"
    )
    say(f"canary: {sum(each.record.released for each in advised):,} of {snapshot.records:,} groups may act now")
    aside = set_aside(days)
    if aside:
        named = ", ".join(f"{cluster}/{group} ({protocol})" for cluster, group, protocol in aside[:NAMED_MAX])
        say(f"set aside, of a protocol that this version does not know: {count(len(aside), 'group')}: {named}")
    job.progress.begin("report")
    made = assemble(
        job.journal,
        job.learned,
        state,
        tables,
        days,
        advised,
        earlier_days=gold.earlier_days(job.journal, job.learned, state),
        bill=_bill_rows(job, tables.start_ms, tables.as_of_ms),
        money=job.configuration.report.money,
    )
    if warning := bounds_for_nobody(terms.bounds, (row.key.kafka_cluster_id for row in made.rows)):
        say(warning)
    written = write_report(made, job.configuration.output_folder / REPORTS)
    _say_report(made, written)
    _measure(job.metrics, made, aside=len(aside), expires_ms=tables.as_of_ms + terms.valid_ms)
    return made


def bounds_for_nobody(named: Iterable[str], there: Iterable[str]) -> str:
    """Return a warning about configured bounds of Kafka clusters without a group in the run; else "".

    Parameters
    ----------
    named: ids of Kafka clusters with configured bounds; "" stands for all others.
    there: the Kafka cluster id of each group of the run.
    """
    ids = sorted(set(there))
    lost = sorted({*named} - {*ids, ""})
    if not lost or not ids:
        return ""
    which = f"Kafka cluster{'s' if len(lost) > 1 else ''} {', '.join(lost)}"
    more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
    return (
        f"brokers: no group of this run is in the {which}, so what is said there holds for none; "
        f"there are: {', '.join(ids[:NAMED_MAX])}{more}"
    )


def _measure(metrics: RunMetrics, made: Report, *, aside: int, expires_ms: int) -> None:
    """Set the metrics of what was learned."""
    acting = sum(row.advice.is_action for row in made.rows)
    not_known = sum(row.advice.verdict is Verdict.NOT_KNOWN for row in made.rows)
    by_advice = {
        "act": acting,
        "unknown": not_known,
        "keep": max(0, made.groups - acting - not_known - aside),
        "set_aside": aside,
    }
    for advice, groups in by_advice.items():
        metrics.tell("fleet_learner_groups", groups, advice)
    for verdict in ("good", "warning", "bad"):
        checks = sum(check.verdict == verdict for check in made.quality)
        metrics.tell("fleet_learner_data_checks", checks, verdict)
    metrics.tell("fleet_learner_coverage_ratio", made.coverage)
    metrics.tell("fleet_learner_recommendations_expiry_timestamp_seconds", expires_ms / 1000)


def silver_of(job: Job, state: Published) -> Silver:
    """Return the ingested facts, cut to the window."""
    source = job.journal.runs.read(state.plan.sources[increment.SOURCE]["end"])
    return gold.silver(job.journal, source, window_days=state.plan.settings["window_days"])


def tidy_up(job: Job, *, is_thorough: bool = False) -> None:
    """Delete old states of the tables and old snapshots; the last published run and its predecessor stay."""
    keep = job.configuration.keep_runs
    job.progress.begin("tidy")
    forgotten = []
    now_ms = int(time.time() * 1000)
    for lake, tables in job.lakes:
        forgotten += tidy_tables(lake, tables, keep=keep, now_ms=now_ms, is_thorough=is_thorough)
    snapshots = delete_old_snapshots(job.configuration.output_folder / SNAPSHOTS, keep=keep)
    if forgotten or snapshots:
        say(
            f"deleted: {count(len(forgotten), 'run')} and {count(len(snapshots), 'snapshot')} older than the last "
            f"{keep}"
        )


def _say_report(made: Report, written: Sequence[Path]) -> None:
    counts, days = made.counts, made.window.days
    say(
        f"groups: {made.groups:,} with {count(made.members, 'member')} in {count(made.kafka_clusters, 'Kafka cluster')}"
    )
    say(f"restarts: {counts.restarts:,}, of which absorbed {counts.absorbed_restarts:,}")
    if counts.rebalances_if_dynamic is not None:
        say(f"rebalances: {counts.rebalances:,}; with dynamic members {counts.rebalances_if_dynamic:,}")
    lost_ms = made.lost_partition_ms_per_day
    say(f"lost per watched day: {'not watched' if lost_ms is None else partition_time(lost_ms)}")
    acting = sum(row.advice.is_action for row in made.rows)
    saved_ms = sum(row.advice.saving.best_partition_ms for row in made.rows if row.advice.saving is not None)
    say(f"can be saved per week: {partition_time(saved_ms)}, {count(acting, 'group')} with something to do")
    say(f"not enough is known: {count(len(unknown(made.rows)), 'group')}")
    say(f"watched: {percent(made.coverage)} of group-time, window of {duration(1000 * round(days * 86_400))}")
    say(f"report: {written[0]} ({written[0].stat().st_size / 1e6:.2f} MB)")
