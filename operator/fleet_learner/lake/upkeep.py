"""Keep tables small: many small files become few, and files that no kept run needs are deleted.

The one idea: a run is kept by its number, and Delta forgets by age; so the age is that of the oldest run that is kept,
and never less than a day, because another writer may still be at work on files that no commit names yet. Files are not
Z-ordered: a day of a table is one or a few files, sorted by group when they were written. Source: Delta's
documentation, "Optimizations" and "Remove files no longer referenced by a Delta table".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from .lake import RUN, Lake

if TYPE_CHECKING:
    from ..schemas import Table

COMMITS_MAX: Final = 20
"""After so many commits without it a table's small files are put together."""
HOURS_MIN: Final = 24
_HOUR_MS: Final = 3_600_000


def present(lake: Lake, tables: Iterable[Table]) -> list[Table]:
    """Return the tables that are there."""
    return [table for table in tables if lake.log(table).latest() is not None]


def is_scattered(lake: Lake, table: Table) -> bool:
    """Return whether a table had many commits since its files were put together."""
    log = lake.log(table)
    last = log.versions()[-COMMITS_MAX:]
    return len(last) == COMMITS_MAX and all(log.read(version).operation != "OPTIMIZE" for version in last)


def compact(lake: Lake, table: Table) -> None:
    """Put the small files of each partition together."""
    from delta.tables import DeltaTable

    DeltaTable.forPath(lake.spark, lake.uri(table)).optimize().executeCompaction()


def vacuum(lake: Lake, table: Table, *, hours: int) -> None:
    """Delete the files that no version of the last hours needs."""
    from delta.tables import DeltaTable

    DeltaTable.forPath(lake.spark, lake.uri(table)).vacuum(hours)


def retention_hours(published_ms: int, now_ms: int) -> int:
    """Return for how long files must be kept so that the run that was published then can still be read."""
    return max(HOURS_MIN, -(-(now_ms - published_ms) // _HOUR_MS) + 1)


def tidy(lake: Lake, tables: Iterable[Table], *, keep: int, now_ms: int, is_thorough: bool = False) -> list[int]:
    """Forget all but the last runs and what only they needed, and compact what is scattered.

    Parameters
    ----------
    is_thorough: compact every table, and look for files that nobody needs although no run is forgotten.

    Returns
    -------
    The numbers of the runs that are forgotten.
    """
    from delta.tables import DeltaTable

    there = present(lake, tables)
    for table in there:
        if is_thorough or is_scattered(lake, table):
            compact(lake, table)
    forgotten = lake.runs.forget(keep)
    kept = lake.runs.numbers()
    if not kept or not (forgotten or is_thorough):
        return forgotten
    hours = retention_hours(lake.runs.published_ms(kept[0]), now_ms)
    for table in there:
        if table.is_kept_by_run and not table.name.startswith("bronze/"):
            DeltaTable.forPath(lake.spark, lake.uri(table)).delete(f"{RUN} < {kept[0] - 1}")
        vacuum(lake, table, hours=hours)
    return forgotten
