"""Keep tables small: merge small files, and delete files that no kept run needs.

The one idea: runs are kept by number, but Delta deletes files by age; so the age is that of the oldest kept run, and at
least a day, because another writer may be working on files that no commit names yet. Files are not Z-ordered: a day of
a table is one or a few files, sorted by group when they were written. Source: Delta's documentation, "Optimizations"
and "Remove files no longer referenced by a Delta table".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from .lake import RUN, Lake

if TYPE_CHECKING:
    from ..schemas import Table

COMMITS_MAX: Final = 20
"""A table is compacted after so many commits without compaction."""
HOURS_MIN: Final = 24
_HOUR_MS: Final = 3_600_000


def present(lake: Lake, tables: Iterable[Table]) -> list[Table]:
    """Return the existing tables."""
    return [table for table in tables if lake.log(table).latest() is not None]


def is_scattered(lake: Lake, table: Table) -> bool:
    """Return whether a table had many commits since its last compaction."""
    log = lake.log(table)
    last = log.versions()[-COMMITS_MAX:]
    return len(last) == COMMITS_MAX and all(log.read(version).operation != "OPTIMIZE" for version in last)


def compact(lake: Lake, table: Table) -> None:
    """Merge the small files of each partition."""
    from delta.tables import DeltaTable

    DeltaTable.forPath(lake.spark, lake.uri(table)).optimize().executeCompaction()


def vacuum(lake: Lake, table: Table, *, hours: int) -> None:
    """Delete the files that no version of the last hours needs."""
    from delta.tables import DeltaTable

    DeltaTable.forPath(lake.spark, lake.uri(table)).vacuum(hours)


def retention_hours(published_ms: int, now_ms: int) -> int:
    """Return how long files must be kept so that a run published at this time can still be read."""
    return max(HOURS_MIN, -(-(now_ms - published_ms) // _HOUR_MS) + 1)


def tidy(lake: Lake, tables: Iterable[Table], *, keep: int, now_ms: int, is_thorough: bool = False) -> list[int]:
    """Delete old runs and the files that only they needed, and compact tables with many small files.

    Parameters
    ----------
    is_thorough: compact every table, and delete unneeded files even if no run is deleted.

    Returns
    -------
    The numbers of the deleted runs.
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
