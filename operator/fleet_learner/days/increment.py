"""Decide which days a run of learning recomputes, and compute and store them.

The one idea: a day's rows depend on the facts of that day (for rebalances, also of the day before), so a run recomputes
only the days with new facts since the previous run and replaces their rows; all other days stay as they are. N runs
yield the same rows as one run over all days. When anything else changed that the rows depend on, the run recomputes
every day of the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .. import schemas
from ..lake import Lake, Plan, Published, TableState, Written
from ..recommendations.features import group_state
from . import facts
from .facts import DAY_MS, StopDurations
from .group_days import busy_days
from .rebalances import CONTEXT_MS, rebalances
from .replay import replayed_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE: Final = "journal"
"""The plan's key for the run of ingest that it learns from."""
DAILY: Final = (schemas.REBALANCES, schemas.BUSY_DAY, schemas.GROUP_STATE, schemas.REPLAYED_DAY)
DAYS_VERSION: Final = 2
"""Version of the rules for a day's rows; a new version recomputes the days of earlier runs."""
_DECIDING: Final = ("window_days", "durations", "is_replayed", "model_version", "days_version")
"""Settings that a day's rows depend on."""


@dataclass(slots=True)
class Writing:
    """The tables that a run writes, and its window: half-open, Unix milliseconds."""

    lake: Lake
    plan: Plan
    start_ms: int
    as_of_ms: int
    on_step: Callable[[str], None]
    written: dict[str, Written] = field(default_factory=dict)

    def whole(self, table: schemas.Table, frame: DataFrame) -> DataFrame:
        """Replace all rows, and return the new ones."""
        made = self._kept(table, self.lake.overwrite(table, frame, run=self.plan.number))
        return self.lake.read(table, made.version, run=self.plan.number)

    def since(self, table: schemas.Table, frame: DataFrame, since_ms: int) -> DataFrame:
        """Replace the rows of all days from a midnight on, and return the rows of the window."""
        made = self._kept(table, self.lake.replace_since(table, frame, since_ms=since_ms, run=self.plan.number))
        return self.of_window(table, made.version)

    def of_window(self, table: schemas.Table, version: int | None) -> DataFrame:
        """Return the rows of the window from a table by day."""
        return of_window(self.lake, table, version, start_ms=self.start_ms, as_of_ms=self.as_of_ms)

    def published(self) -> Published:
        """Return the state that the run publishes."""
        states = {
            n: TableState(made.version, made.rows) for n, made in self.written.items() if made.version is not None
        }
        counts = {f"{name}_rows": made.rows for name, made in sorted(self.written.items())}
        return Published(plan=self.plan, tables=states, counts=counts)

    def _kept(self, table: schemas.Table, made: Written) -> Written:
        self.written[table.name] = made
        self.on_step(f"{table.name}: {made.rows} rows")
        return made


def of_window(lake: Lake, table: schemas.Table, version: int | None, *, start_ms: int, as_of_ms: int) -> DataFrame:
    """Return the rows of a window from a table by day."""
    from pyspark.sql import functions as F

    return lake.read(table, version, since_ms=start_ms).where(F.col(str(table.day_of)).between(start_ms, as_of_ms - 1))


def since_ms(journal: Lake, source: Published, plan: Plan, before: Published | None) -> int | None:
    """Return the midnight (UTC) from which days must be recomputed; None: all days of the window.

    Parameters
    ----------
    source: the run of ingest to learn from.
    before: the previous run of learning.
    """
    if before is None or any(before.plan.settings.get(name) != plan.settings.get(name) for name in _DECIDING):
        return None
    if any(before.version(table.name) is None for table in DAILY if _is_made(table, plan)):
        return None
    learned = int(before.plan.sources[SOURCE]["end"])
    try:
        new = [journal.runs.read(number) for number in range(learned + 1, source.number + 1)]
    except FileNotFoundError:
        return None
    # Facts after the end of the previous window were not counted yet.
    times = [before.plan.as_of_ms, plan.as_of_ms, *(run.counts.get("rewrite_from_ms", 0) for run in new)]
    for table in (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS):
        days = journal.changed_days(table, source, after_run=learned)
        times += [int(datetime(d.year, d.month, d.day, tzinfo=UTC).timestamp()) * 1000 for d in days[:1]]
    return min(times) // DAY_MS * DAY_MS


def _is_made(table: schemas.Table, plan: Plan) -> bool:
    return table is not schemas.REPLAYED_DAY or bool(plan.settings["is_replayed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """The rows of the window's days; `replayed` is None when dynamic members were not replayed."""

    rebalances: DataFrame
    busy: DataFrame
    states: DataFrame
    replayed: DataFrame | None


def learned_days(
    journal: Lake,
    source: Published,
    writing: Writing,
    before: Published | None,
    since_ms: int,
    durations: StopDurations,
) -> Days:
    """Compute the days from a midnight on, replace the old ones, and return all days of the window."""
    from pyspark.sql import functions as F

    def rows(table: schemas.Table, from_ms: int) -> DataFrame:
        return of_window(
            journal, table, source.version(table.name), start_ms=max(0, from_ms), as_of_ms=writing.as_of_ms
        )

    tables = (schemas.GROUP_EVENTS, schemas.MEMBER_EVENTS, schemas.OUTAGES)
    found = rebalances(*(rows(table, since_ms - CONTEXT_MS) for table in tables))
    is_inside = F.col("start_hi_ms").between(since_ms, writing.as_of_ms - 1)
    seen = writing.since(schemas.REBALANCES, found.where(is_inside), since_ms)
    group_events, member_events, outages = (rows(table, since_ms) for table in tables)
    busy = busy_days(
        facts.ghost_times(outages),
        member_events,
        group_events,
        facts.rebalance_costs(seen.where(is_inside), durations),
        start_ms=since_ms,
        as_of_ms=writing.as_of_ms,
    )
    kept = writing.since(schemas.BUSY_DAY, busy, since_ms)
    states = writing.since(schemas.GROUP_STATE, group_state(group_events, member_events, outages), since_ms)
    replayed = None
    if writing.plan.settings["is_replayed"]:
        sizes = _sizes(group_events).unionAll(_sizes(member_events))
        version = before.version(schemas.REPLAYED_DAY.name) if before is not None else None
        known = None if version is None else writing.lake.read(schemas.REPLAYED_DAY, version, since_ms=since_ms)
        replayed = writing.since(schemas.REPLAYED_DAY, replayed_days(outages, sizes, durations, known), since_ms)
    return Days(rebalances=seen, busy=kept, states=states, replayed=replayed)


def _sizes(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return events.select("group_key", F.col("event_ms").alias("at_ms"), "members", "partitions_total")
