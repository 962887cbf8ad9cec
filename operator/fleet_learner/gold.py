"""From silver to gold: one run over a published state of the journal's tables, published in a warehouse of its own.

The one idea: facts are a function of a manifest of the journal's tables, of the window and of the assumptions, and all
three are in the run's plan. So a run that was killed is done again from its plan and leaves the same bytes, as in
ingest; and because the facts have manifests of their own, ingest and learning never wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from . import facts, files, schemas
from .advised import advice, collected
from .canary import CanaryHistory, CanaryState, canary_state
from .facts import DAY_MS
from .histories import Advised, Standing, Terms
from .manifest import Manifest, Plan, TableFiles, Warehouse
from .rebalances import rebalances
from .recommend import MODEL_VERSION
from .waves import canary_history, canary_row, state_of, trial_begin_ms, with_waves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE: Final = "journal"
EARLIER: Final = "learned"
"""Under this name a plan has the number of the facts that it goes on from; null: of none."""
FOLDER: Final = "learned"
_GROUP: Final = ("group_key",)
OnStep = Callable[[str], None]


class NothingIngestedError(RuntimeError):
    """There is no published state of the journal's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silver:
    """The journal's tables of one manifest, cut to a window.

    Parameters
    ----------
    start_ms, as_of_ms: the half-open window, Unix milliseconds; rows outside it are left out, beats excepted.
    """

    start_ms: int
    as_of_ms: int
    member_events: DataFrame
    group_events: DataFrame
    outages: DataFrame
    beats: DataFrame
    blind_windows: DataFrame


def window_start_ms(as_of_ms: int, window_days: int) -> int:
    """Return the midnight (UTC) that is so many days before the end of the day of `as_of_ms`."""
    return (-(-as_of_ms // DAY_MS) - window_days) * DAY_MS


def silver(spark: SparkSession, journal: Warehouse, manifest: Manifest, *, window_days: int) -> Silver:
    """Return the tables of a manifest, cut to the window that ends where the manifest does."""
    from pyspark.sql import functions as F

    as_of_ms = manifest.plan.as_of_ms
    start_ms = window_start_ms(as_of_ms, window_days)

    def rows(table: schemas.Table, at_ms: str | None = None) -> DataFrame:
        since_ms = start_ms if at_ms is not None else None
        frame = files.read(spark, table, journal.paths(manifest, table.name, since_ms=since_ms))
        return frame if at_ms is None else frame.where(F.col(at_ms).between(start_ms, as_of_ms - 1))

    return Silver(
        start_ms=start_ms,
        as_of_ms=as_of_ms,
        member_events=rows(schemas.MEMBER_EVENTS, "event_ms"),
        group_events=rows(schemas.GROUP_EVENTS, "event_ms"),
        outages=rows(schemas.OUTAGES, "down_ms"),
        beats=rows(schemas.BEATS),
        blind_windows=rows(schemas.BLIND_WINDOWS),
    )


def learned_warehouse(journal: Warehouse) -> Warehouse:
    """Return the warehouse of the facts, below that of the journal's tables."""
    return Warehouse(journal.root / FOLDER)


def learn(
    spark: SparkSession,
    journal: Warehouse,
    learned: Warehouse,
    *,
    window_days: int,
    terms: Terms,
    is_replayed: bool = True,
    on_step: OnStep = lambda _: None,
) -> tuple[Manifest, list[Advised] | None]:
    """Compute rebalances, group days, gap statistics and recommendations of the latest published state, and publish them.

    Parameters
    ----------
    window_days: how far back, whole UTC days.
    is_replayed: replay the timeline with dynamic members, which is the dearest part.
    on_step: is told after each table.

    Returns
    -------
    The manifest of the facts, and the recommendations; when nothing changed the present one, and None.

    Raises
    ------
    NothingIngestedError
        When there is nothing to learn from.
    ConflictError
        When another writer published this number.
    """
    source = journal.latest()
    if source is None:
        raise NothingIngestedError(f"nothing was ingested into {journal.root} yet")
    before = learned.latest()
    plan = learned.unfinished()
    if plan is None:
        settings = {
            "window_days": window_days,
            "is_replayed": is_replayed,
            "model_version": MODEL_VERSION,
            **terms.to_settings(),
        }
        plan = _plan(before, source, settings)
        if before is not None and _same(before.plan, plan):
            return before, None
        learned.begin(plan)
    source = journal.read(plan.sources[SOURCE]["end"])
    tables = silver(spark, journal, source, window_days=plan.settings["window_days"])
    return _publish(spark, journal, learned, plan, tables, source, on_step)


def _plan(before: Manifest | None, source: Manifest, settings: Mapping[str, Any]) -> Plan:
    start = before.plan.sources[SOURCE]["end"] if before is not None else None
    earlier = {"end": None if before is None else before.number}
    return Plan(
        number=0 if before is None else before.number + 1,
        as_of_ms=source.plan.as_of_ms,
        sources={SOURCE: {"start": start, "end": source.number}, EARLIER: earlier},
        settings=settings,
    )


def _same(old: Plan, new: Plan) -> bool:
    ends = (old.sources[SOURCE]["end"], new.sources[SOURCE]["end"])
    return ends[0] == ends[1] and old.as_of_ms == new.as_of_ms and old.settings == new.settings


def _publish(
    spark: SparkSession,
    journal: Warehouse,
    learned: Warehouse,
    plan: Plan,
    tables: Silver,
    source: Manifest,
    on_step: OnStep,
) -> tuple[Manifest, list[Advised]]:
    from .replay import dynamic_rebalances

    terms = Terms.of_settings(plan.settings)
    written: dict[str, TableFiles] = {}
    event_rows = sum(t.rows for name, t in source.tables.items() if name.startswith("silver/"))

    def write(frame: DataFrame, table: schemas.Table, by: tuple[str, ...], time: str | None) -> DataFrame:
        count = files.file_count(event_rows)
        made = files.write(frame, table, root=learned.root, run=plan.run, files=count, by=by, time=time)
        written[table.name] = TableFiles(table.schema_id, tuple(made))
        on_step(f"{table.name}: {written[table.name].rows} rows")
        return files.read(spark, table, [str(learned.root / file.path) for file in made])

    seen = rebalances(tables.group_events, tables.member_events, tables.outages)
    seen = write(seen, schemas.REBALANCES, _GROUP, "start_hi_ms")
    days = facts.group_day(
        facts.ghost_times(tables.outages),
        tables.member_events,
        tables.group_events,
        facts.rebalance_costs(seen, terms.durations),
        tables.beats,
        tables.blind_windows,
        start_ms=tables.start_ms,
        as_of_ms=tables.as_of_ms,
        dynamic=dynamic_rebalances(tables, terms.durations) if plan.settings["is_replayed"] else None,
    )
    days = write(days, schemas.GROUP_DAY, _GROUP, "day_ms")
    write(facts.gap_stats(tables.outages), schemas.GAP_STATS, schemas.GAP_STATS.key[:3], "week_ms")
    standing = _next_standing(spark, journal, learned, plan, source, days, write)
    # Once for the table and once for the report.
    rows = advice(tables, days, terms, standing).persist()
    write(rows, schemas.RECOMMENDATION, _GROUP, None)
    advised = collected(rows)
    rows.unpersist()
    counts = {f"{name}_rows": table.rows for name, table in sorted(written.items())}
    manifest = Manifest(plan=plan, tables=written, counts=counts)
    learned.publish(manifest)
    on_step("published")
    return manifest, advised


def _next_standing(
    spark: SparkSession,
    journal: Warehouse,
    learned: Warehouse,
    plan: Plan,
    source: Manifest,
    days: DataFrame,
    write: Callable[..., DataFrame],
) -> Standing:
    """Decide which waves may act, from what the run before published and what came of it, and write it down."""
    from pyspark.sql import functions as F

    before, earlier = _earlier(spark, learned, plan)
    # A promise rests on as much history before the campaign as recommendations rest on.
    since_ms = trial_begin_ms(before, as_of_ms=plan.as_of_ms) - plan.settings["window_days"] * DAY_MS

    def rows(table: schemas.Table, at_ms: str) -> DataFrame:
        frame = files.read(spark, table, journal.paths(source, table.name, since_ms=since_ms))
        return frame.where(F.col(at_ms).between(since_ms, plan.as_of_ms - 1))

    history = canary_history(
        with_waves(days.select("group_key", "kafka_cluster_id", "group_id").distinct(), MODEL_VERSION),
        rows(schemas.GROUP_EVENTS, "event_ms"),
        rows(schemas.OUTAGES, "down_ms"),
        earlier,
        before,
        as_of_ms=plan.as_of_ms,
        salt=MODEL_VERSION,
    )
    row = canary_row(history, MODEL_VERSION)
    values = [tuple(row[name] for name in schemas.CANARY.names)]
    write(spark.createDataFrame(values, schemas.CANARY.spark), schemas.CANARY, ("model_version",), None)
    return Standing(canary=canary_state(history), earlier=earlier)


def _earlier(spark: SparkSession, learned: Warehouse, plan: Plan) -> tuple[CanaryState | None, DataFrame | None]:
    """Return the canary of the run that a plan goes on from, if that had the same policy, and its recommendations."""
    number = plan.sources.get(EARLIER, {}).get("end")
    if number is None:
        return None, None
    manifest = learned.read(number)
    return _canary_of(spark, learned, manifest), read_learned(spark, learned, manifest, schemas.RECOMMENDATION)


def _canary_of(spark: SparkSession, learned: Warehouse, manifest: Manifest) -> CanaryState | None:
    if schemas.CANARY.name not in manifest.tables:
        return None
    rows = read_learned(spark, learned, manifest, schemas.CANARY).collect()
    return next((state_of(row.asDict()) for row in rows if row["model_version"] == MODEL_VERSION), None)


def standing(spark: SparkSession, learned: Warehouse, manifest: Manifest) -> Standing:
    """Return where the fleet stood when published facts were made, so that the same is recommended again."""
    _, earlier = _earlier(spark, learned, manifest.plan)
    first = canary_state(CanaryHistory(before=None, now_ms=manifest.plan.as_of_ms))
    return Standing(canary=_canary_of(spark, learned, manifest) or first, earlier=earlier)


def read_learned(spark: SparkSession, learned: Warehouse, manifest: Manifest, table: schemas.Table) -> DataFrame:
    """Return a table of the facts."""
    return files.read(spark, table, learned.paths(manifest, table.name))
