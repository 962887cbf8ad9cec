"""From silver to gold: one run over a published state of the journal's tables, published in a lake of its own.

The one idea: facts are a function of a published run of the journal's tables, of the window and of the assumptions, and
all three are in the run's plan. So a killed run is repeated from its plan and yields the same rows, as in ingest; and
because the facts have runs of their own, ingest and learning never wait for each other. Only days with new facts are
recomputed (`increment`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from . import schemas
from .days import increment
from .days.facts import DAY_MS
from .days.group_days import group_day
from .days.increment import SOURCE
from .days.silver import Silver
from .lake import Lake, Plan, Published
from .recommendations.advised import advice, collected
from .recommendations.canary import CanaryHistory, CanaryState, canary_state
from .recommendations.features import stops_of
from .recommendations.histories import Advised, Standing, Terms
from .recommendations.recommend import MODEL_VERSION
from .recommendations.waves import canary_history, canary_row, clock_ms, state_of, trial_begin_ms, with_waves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EARLIER: Final = "learned"
"""The plan's key for the number of the run that it continues; null: none."""
FOLDER: Final = "learned"
TABLES: Final = (*increment.DAILY, schemas.GROUP_DAY, schemas.CANARY, schemas.RECOMMENDATION)
OnStep = Callable[[str], None]


class NothingIngestedError(RuntimeError):
    """The journal's tables have no published state."""


def window_start_ms(as_of_ms: int, window_days: int) -> int:
    """Return the midnight (UTC) that begins a window of so many days which ends with the day of `as_of_ms`."""
    return (-(-as_of_ms // DAY_MS) - window_days) * DAY_MS


def silver(journal: Lake, state: Published, *, window_days: int) -> Silver:
    """Return the tables of a published run, cut to the window that ends where the run does."""
    from pyspark.sql import functions as F

    as_of_ms = state.plan.as_of_ms
    start_ms = window_start_ms(as_of_ms, window_days)

    def rows(table: schemas.Table) -> DataFrame:
        return journal.published(table, state)

    def inside(table: schemas.Table) -> DataFrame:
        at_ms = str(table.day_of)
        frame = journal.published(table, state, since_ms=start_ms)
        return frame.where(F.col(at_ms).between(start_ms, as_of_ms - 1))

    return Silver(
        start_ms=start_ms,
        as_of_ms=as_of_ms,
        member_events=inside(schemas.MEMBER_EVENTS),
        group_events=inside(schemas.GROUP_EVENTS),
        outages=inside(schemas.OUTAGES),
        beats=rows(schemas.BEATS),
        blind_windows=rows(schemas.BLIND_WINDOWS),
    )


def learned_lake(journal: Lake) -> Lake:
    """Return the lake of the facts, below that of the journal's tables."""
    return Lake(journal.spark, f"{journal.root}/{FOLDER}")


def learn(
    journal: Lake,
    learned: Lake,
    *,
    window_days: int,
    terms: Terms,
    is_replayed: bool = True,
    on_step: OnStep = lambda _: None,
) -> tuple[Published, list[Advised] | None]:
    """Compute rebalances, group days and recommendations of the latest published state, and publish them.

    Parameters
    ----------
    window_days: how far back, whole UTC days.
    is_replayed: replay the timeline with dynamic members, the most expensive part.
    on_step: called after each table.

    Returns
    -------
    The run of the facts and its recommendations; if nothing changed, the last run and None.

    Raises
    ------
    NothingIngestedError
        When nothing was ingested yet.
    ConflictError
        When another writer published this number, or wrote a table at the same moment.
    """
    source = journal.runs.latest()
    if source is None:
        raise NothingIngestedError(f"nothing was ingested into {journal.root} yet")
    before = learned.runs.latest()
    plan = learned.runs.unfinished()
    if plan is None:
        settings = {
            "window_days": window_days,
            "is_replayed": is_replayed,
            "model_version": MODEL_VERSION,
            "days_version": increment.DAYS_VERSION,
            **terms.to_settings(),
        }
        plan = _plan(before, source, settings)
        if before is not None and _same(before.plan, plan):
            return before, None
        learned.runs.begin(plan)
    return _publish(journal, learned, plan, before, on_step)


def _plan(before: Published | None, source: Published, settings: Mapping[str, Any]) -> Plan:
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
    journal: Lake, learned: Lake, plan: Plan, before: Published | None, on_step: OnStep
) -> tuple[Published, list[Advised]]:
    from pyspark import StorageLevel

    source = journal.runs.read(plan.sources[SOURCE]["end"])
    terms = Terms.of_settings(plan.settings)
    tables = silver(journal, source, window_days=plan.settings["window_days"])
    since_ms = max(tables.start_ms, increment.since_ms(journal, source, plan, before) or 0)
    writing = increment.Writing(learned, plan, tables.start_ms, tables.as_of_ms, on_step)
    made = increment.learned_days(journal, source, writing, before, since_ms, terms.durations)
    window = group_day(
        made.busy, tables.beats, tables.blind_windows, start_ms=tables.start_ms, as_of_ms=tables.as_of_ms,
        dynamic=made.replayed,
    )  # fmt: skip
    days = writing.whole(schemas.GROUP_DAY, window)
    standing = _next_standing(journal, plan, before, days, writing)
    # Stops for the classes and for each group; recommendations for the table and for the report.
    stops = stops_of(tables.outages).persist(StorageLevel.DISK_ONLY)
    rows = advice(tables, days, terms, standing, made.states, stops).persist()
    writing.whole(schemas.RECOMMENDATION, rows)
    advised = collected(rows)
    rows.unpersist()
    stops.unpersist()
    published = writing.published()
    learned.runs.publish(published)
    on_step("published")
    return published, advised


def _next_standing(
    journal: Lake, plan: Plan, last: Published | None, days: DataFrame, writing: increment.Writing
) -> Standing:
    """Decide which waves may act, by the previous run's recommendations and their outcome, and record it."""
    from pyspark.sql import functions as F

    source = journal.runs.read(plan.sources[SOURCE]["end"])
    before, earlier = _earlier(writing.lake, plan, last)
    # The expected effect is computed from as much history before the campaign as recommendations use.
    now_ms = clock_ms(as_of_ms=plan.as_of_ms, newest_ms=source.counts.get("window_end_ms", plan.as_of_ms))
    since_ms = trial_begin_ms(before, as_of_ms=now_ms) - plan.settings["window_days"] * DAY_MS

    def rows(table: schemas.Table) -> DataFrame:
        frame = journal.published(table, source, since_ms=max(0, since_ms))
        return frame.where(F.col(str(table.day_of)).between(since_ms, plan.as_of_ms - 1))

    history = canary_history(
        with_waves(days.select("group_key", "kafka_cluster_id", "group_id").distinct(), MODEL_VERSION),
        rows(schemas.GROUP_EVENTS),
        rows(schemas.OUTAGES),
        earlier,
        before,
        as_of_ms=now_ms,
        salt=MODEL_VERSION,
    )
    row = canary_row(history, MODEL_VERSION)
    values = [tuple(row[name] for name in schemas.CANARY.names)]
    writing.whole(schemas.CANARY, journal.spark.createDataFrame(values, schemas.CANARY.spark))
    return Standing(canary=canary_state(history), earlier=earlier)


def _earlier(learned: Lake, plan: Plan, state: Published | None) -> tuple[CanaryState | None, DataFrame | None]:
    """Return the canary and recommendations of the run that a plan continues, if the policy is the same.

    Parameters
    ----------
    state: a published run that still holds its predecessor's.
    """
    number = plan.sources.get(EARLIER, {}).get("end")
    if number is None or state is None:
        return None, None
    recommended = learned.published(schemas.RECOMMENDATION, state, run=number)
    return _canary_of(learned, state, number), recommended


def _canary_of(learned: Lake, state: Published, number: int) -> CanaryState | None:
    rows = learned.published(schemas.CANARY, state, run=number).collect()
    return next((state_of(row.asDict()) for row in rows if row["model_version"] == MODEL_VERSION), None)


def standing(learned: Lake, state: Published) -> Standing:
    """Return the fleet's canary as of a published run, so that recommendations come out the same."""
    _, earlier = _earlier(learned, state.plan, state)
    first = canary_state(CanaryHistory(before=None, now_ms=state.plan.as_of_ms))
    return Standing(canary=_canary_of(learned, state, state.number) or first, earlier=earlier)


def read_learned(learned: Lake, state: Published, table: schemas.Table) -> DataFrame:
    """Return a table of the facts as a run left it; a table by day is cut to the window."""
    if table not in increment.DAILY:
        return learned.published(table, state, run=state.number)
    as_of_ms = state.plan.as_of_ms
    start_ms = window_start_ms(as_of_ms, state.plan.settings["window_days"])
    return increment.of_window(learned, table, state.version(table.name), start_ms=start_ms, as_of_ms=as_of_ms)


def earlier_days(journal: Lake, learned: Lake, state: Published) -> DataFrame:
    """Return gold/group_day of the window before a run's, from the days of earlier runs.

    Returns
    -------
    No rows for days that no run has covered yet.
    """
    source = journal.runs.read(state.plan.sources[SOURCE]["end"])
    days = state.plan.settings["window_days"]
    end_ms = window_start_ms(state.plan.as_of_ms, days)
    start_ms = end_ms - days * DAY_MS

    def of_window(table: schemas.Table) -> DataFrame:
        return increment.of_window(learned, table, state.version(table.name), start_ms=start_ms, as_of_ms=end_ms)

    beats, blind = (journal.published(table, source) for table in (schemas.BEATS, schemas.BLIND_WINDOWS))
    dynamic = of_window(schemas.REPLAYED_DAY) if state.plan.settings["is_replayed"] else None
    return group_day(of_window(schemas.BUSY_DAY), beats, blind, start_ms=start_ms, as_of_ms=end_ms, dynamic=dynamic)
