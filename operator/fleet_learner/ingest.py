"""One run of ingest: what is new in the sources becomes bronze, silver and a manifest, exactly once.

The one idea: a run is a function of its plan and of the manifest before it. The plan (offsets, as-of time) is fixed in
the warehouse before anything is read; every file's name and bytes follow from it; the manifest at the end makes all of
it the tables' contents at once. A run that dies anywhere is done again from its plan and leaves the same bytes.

The window ends at the as-of time, or where the data end if that is earlier: of what comes after the newest record
nothing is known yet, and a backlog that is read in several runs must come to the same as in one.

Late data: outages are made again from `rewrite_from_ms` on: whole days, at least `rewrite_days` before the newest fact that the
run before had of each Kubernetes cluster that says something new, further back while an outage is open, at most `open_days_max`.
So a cluster that is new, or was not heard of for long, has its history made whole. A fact that is older than that is kept in
silver and counted as late; a run with `backfill_from_ms` applies it. A time beyond the window moves no watermark.
Source: the design of Spark's own offset and commit logs; Delta's and Iceberg's snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from staticgroup.api.journal import EndKind

from . import files, quality, schemas, sessions, silver
from .errors import SourceError
from .manifest import DataFile, Manifest, Plan, TableFiles, Warehouse, with_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS: Final = 86_400_000
_EVENT_TABLES: Final = (schemas.EVENTS, schemas.QUARANTINE, schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)
_TIMES: Final[Mapping[str, str]] = {
    schemas.MEMBER_EVENTS.name: "event_ms",
    schemas.GROUP_EVENTS.name: "event_ms",
    schemas.BEATS.name: "observed_at_ms",
    schemas.OUTAGES.name: "down_ms",
}
_CLUSTER: Final = ("k8s_cluster_uid",)
_WATERMARK: Final = "newest_ms/"
OnStep = Callable[[str], None]
LEFT_OUT: Final = "left out: "
"""A step that begins so names a source that could not be read; it is read when it can be, from where it was."""


class Source(Protocol):
    """Where records come from; positions are JSON values."""

    @property
    def name(self) -> str:
        """Return the name under which manifests keep the positions."""

    def plan(self, start: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the `start` and `end` positions of a run that goes on from `start`."""

    def records_max(self, plan: Mapping[str, Any]) -> int:
        """Return a bound on the number of records of a plan."""

    def frame(self, spark: SparkSession, plan: Mapping[str, Any]) -> DataFrame:
        """Return the records of a plan, with the columns of bronze/events, the same at every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far back outages are made again.

    Parameters
    ----------
    rewrite_days: at least so many days before the newest fact of the run before.
    open_days_max: an outage that is open for longer is closed as blind.
    backfill_from_ms: once, from here on; None for an ordinary run.
    """

    rewrite_days: int = 3
    open_days_max: int = 7
    backfill_from_ms: int | None = None


@dataclass(slots=True)
class _Run:
    spark: SparkSession
    warehouse: Warehouse
    plan: Plan
    before: Manifest | None
    on_step: OnStep
    new: dict[str, list[DataFile]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def write(self, frame: DataFrame, table: schemas.Table, by: tuple[str, ...], rows_max: int, prefix: str) -> None:
        """Write rows of a table, and tell that it is done."""
        written = files.write(
            frame,
            table,
            root=self.warehouse.root,
            run=self.plan.run,
            files=files.file_count(rows_max),
            by=by,
            time=_TIMES.get(table.name),
            prefix=prefix,
        )
        self.new.setdefault(table.name, []).extend(written)
        self.on_step(f"{table.name} {prefix}: {sum(f.rows for f in written)} rows")

    def rows(self, table: schemas.Table, *, since_ms: int | None = None) -> DataFrame:
        """Return a table's rows, of earlier runs and of this one."""
        old = self.warehouse.paths(self.before, table.name, since_ms=since_ms)
        return files.read(self.spark, table, [*old, *self.written(table)])

    def written(self, table: schemas.Table) -> list[str]:
        """Return the files that this run wrote to a table."""
        return [str(self.warehouse.root / file.path) for file in self.new.get(table.name, [])]

    def count(self, table: schemas.Table) -> int:
        """Return the number of rows that this run wrote to a table."""
        return sum(file.rows for file in self.new.get(table.name, []))

    def count_before(self, table: schemas.Table) -> int:
        """Return the number of rows before this run."""
        return self.before.tables[table.name].rows if self.before and table.name in self.before.tables else 0


def ingest(
    spark: SparkSession,
    warehouse: Warehouse,
    sources: Sequence[Source],
    *,
    as_of_ms: int,
    horizon: Horizon | None = None,
    on_step: OnStep = lambda _: None,
) -> Manifest:
    """Take in what is new, and publish it.

    Parameters
    ----------
    sources: with different names.
    as_of_ms: end of the window, Unix milliseconds. An unfinished run goes on with its own, and with its own offsets.
    on_step: is told after each step.

    Returns
    -------
    The manifest that holds it; the present one when there is nothing new and the window has not moved.

    Raises
    ------
    ConflictError: another writer published this number.
    ConservationError: records were lost or made up.
    SourceError: no source can be read, or one no longer has what the plan needs. Of several the others are read, and
        `on_step` is told of each that is not.
    """
    before = warehouse.latest()
    plan = warehouse.unfinished()
    if plan is None:
        plan = _new_plan(before, sources, as_of_ms, horizon or Horizon(), on_step)
        if before is not None and _is_idle(before, plan):
            return before
        warehouse.begin(plan)
    on_step("plan")
    run = _Run(spark=spark, warehouse=warehouse, plan=plan, before=before, on_step=on_step)
    _bronze(run, sources)
    _silver(run)
    _outages(run)
    manifest = _manifest(run)
    on_step("manifest")
    warehouse.publish(manifest)
    on_step("published")
    return manifest


def _new_plan(
    before: Manifest | None, sources: Sequence[Source], as_of_ms: int, horizon: Horizon, on_step: OnStep
) -> Plan:
    known = before.plan.sources if before is not None else {}
    planned: dict[str, Mapping[str, Any]] = {}
    failed: list[SourceError] = []
    for source in sources:
        try:
            planned[source.name] = source.plan(known.get(source.name, {}).get("end", {}))
        except SourceError as error:
            failed.append(error)
            on_step(f"{LEFT_OUT}{error}")
    if failed and not planned:
        raise failed[0]
    kept = {name: {"start": old["end"], "end": old["end"]} for name, old in known.items() if name not in planned}
    settings = {
        "rewrite_days": horizon.rewrite_days,
        "open_days_max": horizon.open_days_max,
        "backfill_from_ms": horizon.backfill_from_ms,
    }
    number = 0 if before is None else before.number + 1
    return Plan(number=number, as_of_ms=as_of_ms, sources={**planned, **kept}, settings=settings)


def _is_idle(before: Manifest, plan: Plan) -> bool:
    nothing_new = all(source["start"] == source["end"] for source in plan.sources.values())
    same_window = before.plan.as_of_ms == plan.as_of_ms and plan.settings == before.plan.settings
    return nothing_new and same_window


def _bronze(run: _Run, sources: Sequence[Source]) -> None:
    active = [(source, run.plan.sources[source.name]) for source in sources if source.name in run.plan.sources]
    frames = [source.frame(run.spark, plan).select(*schemas.EVENTS.names) for source, plan in active]
    rows_max = sum(source.records_max(plan) for source, plan in active)
    run.counts["records_max"] = rows_max
    if frames:
        run.write(sessions.union(frames), schemas.EVENTS, ("topic", "partition", "file"), rows_max, "part")


def _silver(run: _Run) -> None:
    from pyspark.sql import functions as F

    rows = run.count(schemas.EVENTS)
    run.counts["duplicates"] = 0
    if rows:
        events = files.read(run.spark, schemas.EVENTS, run.written(schemas.EVENTS))
        # Four tables and a count are made of it: parsing is the dearest part of a run.
        parsed = silver.parsed(events).persist()
        run.write(silver.quarantine(parsed), schemas.QUARANTINE, ("topic", "partition", "file"), rows, "part")
        marked = silver.unique(parsed, _known(run)).persist()
        run.counts["duplicates"] = marked.where("is_copy").count()
        originals = marked.where(~F.col("is_copy"))
        for table, made in (
            (schemas.MEMBER_EVENTS, silver.member_events(originals)),
            (schemas.GROUP_EVENTS, silver.group_events(originals)),
            (schemas.BEATS, silver.beats(originals)),
        ):
            run.write(made, table, table.key[:1], rows, "part")
        marked.unpersist()
        parsed.unpersist()
    counts = {table.name: run.count(table) for table in _EVENT_TABLES}
    quality.assert_conserved(counts, run.counts["duplicates"])


def _known(run: _Run) -> DataFrame | None:
    tables = (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)
    old = [(table, run.warehouse.paths(run.before, table.name)) for table in tables]
    frames = [files.read(run.spark, table, paths) for table, paths in old if paths]
    return sessions.union([frame.select("source", "event_id") for frame in frames]) if frames else None


def _outages(run: _Run) -> None:
    from pyspark.sql import functions as F

    settings = run.plan.settings
    end_ms = min(run.plan.as_of_ms, max(_newest_ms(run.before), _newest(run.new.values())))
    old = run.warehouse.paths(run.before, schemas.OUTAGES.name)
    heard = _heard_of(run, end_ms)
    from_ms = rewrite_from_ms(files.read(run.spark, schemas.OUTAGES, old), _since(run.before, heard), settings)
    run.counts |= {"rewrite_from_ms": from_ms, "window_end_ms": end_ms}
    run.counts |= {f"{_WATERMARK}{uid}": newest for uid, (_, newest) in heard.items()}
    run.counts |= {name: at_ms for name, at_ms in _watermarks(run.before).items() if at_ms > run.counts.get(name, -1)}
    beats = run.count_before(schemas.BEATS) + run.count(schemas.BEATS)
    run.write(sessions.blind_windows(run.rows(schemas.BEATS), end_ms), schemas.BLIND_WINDOWS, _CLUSTER, beats, "part")
    windows = files.read(run.spark, schemas.BLIND_WINDOWS, run.written(schemas.BLIND_WINDOWS))

    events = run.rows(schemas.MEMBER_EVENTS, since_ms=from_ms).where(F.col("event_ms") >= from_ms)
    active = sessions.outages(events, windows, end_ms)
    active = sessions.closed_after(active, settings["open_days_max"] * DAY_MS, end_ms)
    rows_max = run.count_before(schemas.MEMBER_EVENTS) + run.count(schemas.MEMBER_EVENTS)
    run.write(active, schemas.OUTAGES, ("group_key",), rows_max, "active")
    # Rows that leave the window for good, from files that reach into it.
    leaving = [str(run.warehouse.root / f.path) for f in _outage_files(run.before) if _straddles(f, from_ms)]
    if leaving:
        frozen = files.read(run.spark, schemas.OUTAGES, leaving).where(F.col("down_ms") < from_ms)
        run.write(frozen, schemas.OUTAGES, ("group_key",), rows_max, "frozen")
    run.counts |= _outside(run, from_ms, end_ms)


def _outside(run: _Run, from_ms: int, end_ms: int) -> dict[str, int]:
    """Count the facts of this run that the outages do not show: too late, or after the window."""
    from pyspark.sql import functions as F

    written = run.new.get(schemas.MEMBER_EVENTS.name, [])
    before_window, after_window = F.col("event_ms") < from_ms, F.col("event_ms") > end_ms
    odd = [f for f in written if (f.low_ms or 0) < from_ms or (f.high_ms or 0) > end_ms]
    if not odd:
        return {"late_rows": 0, "after_window_rows": 0}
    rows = files.read(run.spark, schemas.MEMBER_EVENTS, [str(run.warehouse.root / f.path) for f in odd])
    late, after = rows.agg(F.count_if(before_window), F.count_if(after_window)).collect()[0]
    return {"late_rows": late, "after_window_rows": after}


def _heard_of(run: _Run, end_ms: int) -> dict[str, tuple[int, int]]:
    """Return the oldest and the newest time, within the window, that this run heard of each Kubernetes cluster."""
    from pyspark.sql import functions as F

    tables = (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS)
    frames = [
        files.read(run.spark, table, run.written(table)).select(
            "k8s_cluster_uid", F.col(_TIMES[table.name]).alias("at_ms")
        )
        for table in tables
        if run.written(table)
    ]
    if not frames:
        return {}
    inside = sessions.union(frames).where(F.col("at_ms") <= end_ms)
    rows = inside.groupBy("k8s_cluster_uid").agg(F.min("at_ms").alias("oldest"), F.max("at_ms").alias("newest"))
    return {row["k8s_cluster_uid"]: (row["oldest"], row["newest"]) for row in rows.collect()}


def _watermarks(manifest: Manifest | None) -> dict[str, int]:
    counts = manifest.counts if manifest is not None else {}
    return {name: at_ms for name, at_ms in counts.items() if name.startswith(_WATERMARK)}


def _since(before: Manifest | None, heard: Mapping[str, tuple[int, int]]) -> int:
    """Return from when on something new may be said: the least watermark of the clusters that spoke, or their first word."""
    known = _watermarks(before)
    times = [known.get(f"{_WATERMARK}{uid}", oldest) for uid, (oldest, _) in heard.items()]
    return min(times, default=_newest_ms(before))


def _newest_ms(manifest: Manifest | None) -> int:
    tables = manifest.tables if manifest is not None else {}
    return _newest(tables[name].files for name in quality.SILVER if name in tables)


def _newest(tables: Iterable[Iterable[DataFile]]) -> int:
    return max((file.high_ms or 0 for table in tables for file in table), default=0)


def rewrite_from_ms(old: DataFrame, newest_ms: int, settings: Mapping[str, Any]) -> int:
    """Return the midnight (UTC) from which outages are made again.

    Parameters
    ----------
    old: silver/outages as it was.
    newest_ms: time of the newest fact or beat before this run, of the cluster that is furthest behind; 0 when there was none.
    settings: of the plan.
    """
    from pyspark.sql import functions as F

    if settings["backfill_from_ms"] is not None:
        start = int(settings["backfill_from_ms"])
    else:
        start = max(0, newest_ms - settings["rewrite_days"] * DAY_MS)
        opened = old.where(F.col("end_kind") == EndKind.OPEN.value).agg(F.min("down_ms")).collect()[0][0]
        start = min(start, opened if opened is not None else start)
    return start // DAY_MS * DAY_MS


def _outage_files(manifest: Manifest | None) -> tuple[DataFile, ...]:
    return manifest.tables[schemas.OUTAGES.name].files if manifest is not None else ()


def _straddles(file: DataFile, from_ms: int) -> bool:
    return file.low_ms is not None and file.high_ms is not None and file.low_ms < from_ms <= file.high_ms


def _manifest(run: _Run) -> Manifest:
    old = run.before.tables if run.before is not None else {}
    tables = dict(old)
    for table in _EVENT_TABLES:
        tables[table.name] = with_files(old.get(table.name), table.schema_id, run.new.get(table.name, []))
    from_ms = run.counts["rewrite_from_ms"]
    kept = [f for f in _outage_files(run.before) if f.high_ms is not None and f.high_ms < from_ms]
    new = run.new.get(schemas.OUTAGES.name, [])
    tables[schemas.OUTAGES.name] = with_files(TableFiles("", tuple(kept)), schemas.OUTAGES.schema_id, new)
    windows = run.new.get(schemas.BLIND_WINDOWS.name, [])
    tables[schemas.BLIND_WINDOWS.name] = with_files(None, schemas.BLIND_WINDOWS.schema_id, windows)
    counts = {**run.counts, **{f"{t.name}_rows": run.count(t) for t in _EVENT_TABLES}}
    return Manifest(plan=run.plan, tables=tables, counts=dict(sorted(counts.items())))
