"""One run of ingest: new records of the sources become bronze, silver and a published run, exactly once.

The one idea: a run is a function of its plan and of the tables before it. The plan (offsets, as-of time) is fixed in
the log of runs before anything is read, and can only lose a source that disappears before its records are written; each
table is written once, under the run's number; publishing at the end makes all of it visible at once. A run that dies
anywhere is repeated from its plan: tables that it has written stay, and the others get the same rows.

The window ends at the as-of time, or at the newest record if that is earlier: nothing is known of later times, and a
backlog must yield the same in several runs as in one.

Copies: a fact is a copy if silver has its source and id within `rewrite_days` of it. Further away (the same id with
another time) it counts as a new fact; a run never searches all of history.

Late data: outages are recomputed from `rewrite_from_ms` on: whole days, at least `rewrite_days` before the newest
earlier fact of each Kubernetes cluster with new records, further back while a member is away, at most `open_days_max`.
So a cluster that is new, or was silent for long, gets its whole history. An older fact is kept in silver and counted as
late; a run with `backfill_from_ms` applies it. A time beyond the window moves no watermark.

Facts are read from `open_days_max` before that midnight on, so that an absence that began earlier is not taken for a
new one when the member's next process ends. An outage that lasts longer becomes blind, in many runs as in one. One
dependency may lie further back: whether an end was recorded late (see `staticgroup.api.absences`) depends on the start
of its process. Source: the design of Spark's own offset and commit logs; Delta's idempotent writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from staticgroup.api.absences import EndKind

from .. import schemas
from ..lake import Lake, Plan, Published, TableState, Written
from ..lake.lake import DAY_MS
from . import quality, sessions, silver
from .planning import Horizon, OnStep, Source, is_idle, new_plan, revised_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVENT_TABLES: Final = (schemas.EVENTS, schemas.QUARANTINE, schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)
TABLES: Final = (*_EVENT_TABLES, schemas.BLIND_WINDOWS, schemas.OUTAGES)
_SILVER: Final = (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)
_FACT: Final = ("source", "event_id")
_NEWEST: Final = "newest_ms"
_WATERMARK: Final = "newest_ms/"


@dataclass(slots=True)
class _Run:
    lake: Lake
    plan: Plan
    before: Published | None
    on_step: OnStep
    written: dict[str, Written] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def keep(self, table: schemas.Table, written: Written) -> None:
        """Note what was written to a table, and report the step."""
        self.written[table.name] = written
        self.on_step(f"{table.name}: {written.rows} rows")

    def version(self, table: schemas.Table) -> int | None:
        """Return this run's version of a table: the one it wrote, or the newest."""
        if table.name not in self.written:
            self.written[table.name] = Written(self.lake.log(table).latest(), 0)
        return self.written[table.name].version

    def rows(self, table: schemas.Table, *, since_ms: int | None = None) -> DataFrame:
        """Return a table's rows, of earlier runs and of this one."""
        return self.lake.read(table, self.version(table), since_ms=since_ms)

    def mine(self, table: schemas.Table) -> DataFrame:
        """Return the rows that this run wrote to a table."""
        return self.lake.read(table, self.version(table), run=self.plan.number)

    def count(self, table: schemas.Table) -> int:
        """Return the number of rows that this run wrote to a table."""
        return self.written[table.name].rows if table.name in self.written else 0


def ingest(
    lake: Lake,
    sources: Sequence[Source],
    *,
    as_of_ms: int,
    horizon: Horizon | None = None,
    erased: str | None = None,
    on_step: OnStep = lambda _: None,
) -> Published:
    """Ingest new records, and publish the result.

    Parameters
    ----------
    sources: with different names.
    as_of_ms: end of the window, Unix milliseconds. An unfinished run continues with its own time and offsets, except
        for a source that was lost before its records were written.
    erased: the digest of the subject that was just erased from the tables; the run publishes them without it.
    on_step: called after each step.

    Returns
    -------
    The new run; the last one if there is nothing new and the window has not moved.

    Raises
    ------
    ConflictError: another writer published this number, or wrote a table at the same moment.
    ConservationError: records were lost or invented.
    SourceError: no source can be read. If only some cannot, the others are read, and `on_step` gets a line for each
        unreadable one.
    """
    before = lake.runs.latest()
    plan = lake.runs.unfinished()
    if plan is None:
        plan = new_plan(before, sources, as_of_ms, horizon or Horizon(), on_step, erased)
        if before is not None and is_idle(before, plan):
            return before
        lake.runs.begin(plan)
    elif lake.written(schemas.EVENTS, plan.number) is None:
        # Nothing was written yet, so a source that can no longer be read may still be left out.
        begun, plan = plan, revised_plan(plan, sources, on_step)
        if plan != begun:
            lake.runs.amend(plan)
    on_step("plan")
    run = _Run(lake=lake, plan=plan, before=before, on_step=on_step)
    _bronze(run, sources)
    _silver(run)
    _outages(run)
    published = _published(run)
    on_step("written")
    lake.runs.publish(published)
    on_step("published")
    return published


def _bronze(run: _Run, sources: Sequence[Source]) -> None:
    if (done := run.lake.written(schemas.EVENTS, run.plan.number)) is not None:
        run.keep(schemas.EVENTS, done)
        return
    planned = [(source, run.plan.sources[source.name]) for source in sources if source.name in run.plan.sources]
    active = [(source, plan) for source, plan in planned if plan["start"] != plan["end"]]
    if active:
        frames = [source.frame(run.lake.spark, plan).select(*schemas.EVENTS.names) for source, plan in active]
        run.keep(schemas.EVENTS, run.lake.append(schemas.EVENTS, sessions.union(frames), run=run.plan.number))


def _silver(run: _Run) -> None:
    run.counts["duplicates"] = 0
    if not run.count(schemas.EVENTS):
        return
    parsed = silver.parsed(run.mine(schemas.EVENTS))
    facts = silver.facts(parsed)
    copies = silver.copies(facts).persist()
    if facts.count() < run.count(schemas.EVENTS):  # refused records are few, and parsed again
        refused = silver.quarantine(parsed)
        run.keep(schemas.QUARANTINE, run.lake.append(schemas.QUARANTINE, refused, run=run.plan.number))
    run.counts["duplicates"] = copies.count() + _merge(run, silver.originals(facts, copies))
    copies.unpersist()
    counts = {table.name: run.count(table) for table in _EVENT_TABLES}
    quality.assert_conserved(counts, run.counts["duplicates"])


def _merge(run: _Run, facts: DataFrame) -> int:
    """Add the facts that silver lacks; returns how many it had."""
    made = {
        schemas.MEMBER_EVENTS: silver.member_events(facts),
        schemas.GROUP_EVENTS: silver.group_events(facts),
        schemas.BEATS: silver.beats(facts),
    }
    found = silver.days(facts)
    copies = 0
    for table, frame in made.items():
        if days := found.get(table.name):
            around = run.plan.settings["rewrite_days"]
            number = run.plan.number
            run.keep(table, run.lake.merge_new(table, frame, by=_FACT, days=days, around_days=around, run=number))
            copies += sum(days.values()) - run.count(table)
    return copies


def _outages(run: _Run) -> None:
    from pyspark.sql import functions as F

    settings, number = run.plan.settings, run.plan.number
    newest_ms, heard = _heard_of(run)
    end_ms = min(run.plan.as_of_ms, newest_ms)
    since_ms = _since(run.before, heard, end_ms, settings["open_days_max"])
    from_ms = rewrite_from_ms(_opened_ms(run), since_ms, settings)
    run.counts |= {_NEWEST: newest_ms, "rewrite_from_ms": from_ms, "window_end_ms": end_ms}
    run.counts |= {f"{_WATERMARK}{uid}": newest for uid, (_, newest) in heard.items()}
    run.counts |= {name: at_ms for name, at_ms in _watermarks(run.before).items() if at_ms > run.counts.get(name, -1)}
    if run.version(schemas.BEATS) is not None:
        blind = sessions.blind_windows(run.rows(schemas.BEATS), end_ms, until_ms=run.plan.as_of_ms)
        run.keep(schemas.BLIND_WINDOWS, run.lake.overwrite(schemas.BLIND_WINDOWS, blind, run=number))
    if run.version(schemas.MEMBER_EVENTS) is not None:
        away_ms_max = settings["open_days_max"] * DAY_MS
        read_ms = max(0, from_ms - away_ms_max)
        events = run.rows(schemas.MEMBER_EVENTS, since_ms=read_ms).where(F.col("event_ms") >= read_ms)
        active = sessions.outages(events, run.rows(schemas.BLIND_WINDOWS), end_ms, away_ms_max=away_ms_max)
        active = active.where(F.col("down_ms") >= from_ms)
        run.keep(schemas.OUTAGES, run.lake.replace_since(schemas.OUTAGES, active, since_ms=from_ms, run=number))
    run.counts |= _outside(run, from_ms, end_ms)


def _opened_ms(run: _Run) -> int | None:
    """Return the start of the first open outage; on most days silver/outages has no open one."""
    from pyspark.sql import functions as F

    before = run.before
    since_ms = None
    if before is not None and "window_end_ms" in before.counts:
        days = max(each.settings.get("open_days_max", 0) for each in (before.plan, run.plan))
        since_ms = before.counts["window_end_ms"] - (days + 1) * DAY_MS
    old = run.lake.published(schemas.OUTAGES, before, since_ms=max(0, since_ms) if since_ms is not None else None)
    # A departed member may still be removed.
    is_away = F.col("end_kind").isin(EndKind.OPEN.value, EndKind.DEPARTED.value)
    opened_ms: int | None = old.where(is_away).agg(F.min("down_ms")).collect()[0][0]
    return opened_ms


def _outside(run: _Run, from_ms: int, end_ms: int) -> dict[str, int]:
    """Count the facts of this run that are missing in the outages: too late, or after the window."""
    from pyspark.sql import functions as F

    if not run.count(schemas.MEMBER_EVENTS):
        return {"late_rows": 0, "after_window_rows": 0}
    before_window, after_window = F.col("event_ms") < from_ms, F.col("event_ms") > end_ms
    rows = run.mine(schemas.MEMBER_EVENTS)
    late, after = rows.agg(F.count_if(before_window), F.count_if(after_window)).collect()[0]
    return {"late_rows": late, "after_window_rows": after}


def _heard_of(run: _Run) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the newest fact's time, and by Kubernetes cluster this run's oldest and newest time in the window."""
    from pyspark.sql import functions as F

    frames = [
        run.mine(table).select("k8s_cluster_uid", F.col(str(table.day_of)).alias("at_ms"))
        for table in _SILVER
        if run.count(table)
    ]
    before_ms = _newest_ms(run.before)
    if not frames:
        return before_ms, {}
    inside = F.when(F.col("at_ms") <= run.plan.as_of_ms, F.col("at_ms"))
    times = (F.min(inside).alias("oldest"), F.max(inside).alias("newest"), F.max("at_ms").alias("last"))
    rows = sessions.union(frames).groupBy("k8s_cluster_uid").agg(*times).collect()
    heard = {r["k8s_cluster_uid"]: (r["oldest"], r["newest"]) for r in rows if r["newest"] is not None}
    return max([before_ms, *(row["last"] for row in rows)]), heard


def _watermarks(before: Published | None) -> dict[str, int]:
    counts = before.counts if before is not None else {}
    return {name: at_ms for name, at_ms in counts.items() if name.startswith(_WATERMARK)}


def _since(before: Published | None, heard: Mapping[str, tuple[int, int]], end_ms: int, open_days_max: int) -> int:
    """Return the start of possible news: the least watermark of clusters with records, or their first record.

    Times after the previous run's window are all new. In a window that ends earlier, an outage that had ended may be
    open.
    """
    known = _watermarks(before)
    times = [known.get(f"{_WATERMARK}{uid}", oldest) for uid, (oldest, _) in heard.items()]
    last_ms = end_ms if before is None else before.counts.get("window_end_ms", end_ms)
    if _newest_ms(before) > last_ms:
        times.append(last_ms)
    if end_ms < last_ms:
        times.append(end_ms - open_days_max * DAY_MS)
    return min(times, default=_newest_ms(before))


def _newest_ms(before: Published | None) -> int:
    return before.counts.get(_NEWEST, 0) if before is not None else 0


def rewrite_from_ms(opened_ms: int | None, newest_ms: int, settings: Mapping[str, Any]) -> int:
    """Return the midnight (UTC) from which outages are recomputed.

    Parameters
    ----------
    opened_ms: start of the first open outage; None without one.
    newest_ms: time of the newest earlier fact or beat of the cluster that is furthest behind; 0 without one.
    settings: of the plan. A backfill only extends the range, because new records are read once.
    """
    starts = [max(0, newest_ms - settings["rewrite_days"] * DAY_MS), opened_ms, settings["backfill_from_ms"]]
    return int(min(start for start in starts if start is not None)) // DAY_MS * DAY_MS


def _is_same(old: Mapping[str, TableState], table: schemas.Table, version: int) -> bool:
    return table.name in old and old[table.name].version == version


def _published(run: _Run) -> Published:
    """Return the state to publish, with the newest version of each table that the run did not write."""
    old = run.before.tables if run.before is not None else {}
    tables = {}
    for table in TABLES:
        version, count = run.version(table), run.count(table)
        if version is not None and table in _EVENT_TABLES and count:
            tables[table.name] = TableState(version, count + (old[table.name].rows if table.name in old else 0))
        elif version is not None and table is schemas.BLIND_WINDOWS and count:
            tables[table.name] = TableState(version, count)
        elif version is not None:
            tables[table.name] = old[table.name] if _is_same(old, table, version) else run.lake.state(table, version)
    counts = {**run.counts, **{f"{table.name}_rows": run.count(table) for table in _EVENT_TABLES}}
    return Published(plan=run.plan, tables=tables, counts=dict(sorted(counts.items())))
