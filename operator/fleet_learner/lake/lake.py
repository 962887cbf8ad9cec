"""Tables of one root, written by numbered runs and read at a version.

The one idea: a write belongs to a run, and a run writes a table once. Delta keeps the run's number with the commit
(`txnVersion`), so a repeated run finds its earlier writes and does not repeat them; a stage reads pinned versions, so
it reads the same rows again. Rows carry the run that wrote them (`run`) and, in tables with a time, their UTC day
(`day`, the partition): a run reads only its own rows, or the days that it needs.

Only numbers have statistics: names of groups must not stay in a log that outlives their rows.
Source: the Delta protocol; Delta's documentation, "Idempotent table writes in foreachBatch".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from ..errors import ConflictError, JobError
from .commits import APP_ID, CommitLog
from .locations import local_path, uri_of
from .objects import objects_in
from .runs import FOLDER, Published, RunLog, TableState

if TYPE_CHECKING:
    from pathlib import Path

    from delta.tables import DeltaMergeBuilder
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from ..schemas import Table

DAY: Final = "day"
RUN: Final = "run"
DAY_MS: Final = 86_400_000
SCHEMA: Final = "staticgroup.schemaId"
_MADE_MEANWHILE: Final = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
_DAYS_LISTED: Final = 400
"""A merge lists the days of its target up to so many; with more days it reads all."""


@dataclass(frozen=True, slots=True)
class Written:
    """A run's write to a table: its version and its number of rows."""

    version: int | None
    rows: int


class Lake:
    """The tables below one root.

    Parameters
    ----------
    root: a URI (`file:/data/fleet`, `s3a://bucket/fleet`) or a plain path.
    """

    def __init__(self, spark: SparkSession, root: str | Path) -> None:
        self.spark = spark
        self.root = uri_of(root)
        self._refuse_own_format()

    @property
    def runs(self) -> RunLog:
        """Return the log of runs."""
        return RunLog(objects_in(self.spark, f"{self.root}/{FOLDER}"))

    def uri(self, table: Table) -> str:
        """Return the URI of a table."""
        return f"{self.root}/{table.name}"

    def log(self, table: Table) -> CommitLog:
        """Return the commits of a table."""
        return CommitLog(objects_in(self.spark, f"{self.uri(table)}/_delta_log"))

    # reading ---------------------------------------------------------------------------------------------------------

    def read(
        self,
        table: Table,
        version: int | None,
        *,
        since_ms: int | None = None,
        run: int | None = None,
        after_run: int | None = None,
        with_run: bool = False,
    ) -> DataFrame:
        """Return the rows of a version, with the table's columns; a column that the version lacks is null.

        Parameters
        ----------
        version: None: the table does not exist yet, and has no rows.
        since_ms: leave out days that end before this time; the day of this time is returned whole.
        run, after_run: only rows of this run, or of later runs.
        with_run: add the column `run`.
        """
        from pyspark.sql import functions as F

        if version is None:
            empty = self.spark.createDataFrame([], table.spark_nullable)
            return empty.withColumn(RUN, F.lit(None).cast("bigint")) if with_run else empty
        rows = self.stored(table, version)
        if since_ms is not None and table.day_of is not None:
            rows = rows.where(F.col(DAY) >= F.lit(day_of(since_ms)))
        if run is not None:
            rows = rows.where(F.col(RUN) == run)
        if after_run is not None:
            rows = rows.where(F.col(RUN) > after_run)
        there = set(rows.columns)
        fields = table.spark_nullable.fields
        columns = [F.col(f.name) if f.name in there else F.lit(None).cast(f.dataType).alias(f.name) for f in fields]
        return rows.select(*columns, *([F.col(RUN)] if with_run else []))

    def stored(self, table: Table, version: int) -> DataFrame:
        """Return the rows of a version with all stored columns."""
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.uri(table))

    def published(self, table: Table, state: Published | None, **more: Any) -> DataFrame:
        """Return a table as a published run left it; the same parameters as `read`."""
        return self.read(table, state.version(table.name) if state is not None else None, **more)

    def state(self, table: Table, version: int) -> TableState:
        """Return a version with its number of rows, which Delta takes from its log."""
        return TableState(version, self.stored(table, version).count())

    def changed_days(self, table: Table, state: Published, *, after_run: int) -> list[date]:
        """Return the days of a table, ascending, of which runs after this one wrote rows."""
        version = state.version(table.name)
        if version is None:
            return []
        rows = self.stored(table, version).where(f"{RUN} > {after_run}").select(DAY).distinct().collect()
        return sorted(row[DAY] for row in rows)

    # writing ---------------------------------------------------------------------------------------------------------

    def written(self, table: Table, run: int) -> Written | None:
        """Return a run's write to a table; None if it has not written yet."""
        return self._done(table, run)

    def append(self, table: Table, rows: DataFrame, *, run: int) -> Written:
        """Add rows."""
        return self._save(table, rows, run, "append")

    def overwrite(self, table: Table, rows: DataFrame, *, run: int) -> Written:
        """Replace all rows; in a table that is kept by run, replace the run's own rows."""
        return self._save(table, rows, run, "overwrite", f"{RUN} = {run}" if table.is_kept_by_run else None)

    def replace_since(self, table: Table, rows: DataFrame, *, since_ms: int, run: int) -> Written:
        """Replace all days from a midnight (UTC) on; none of the rows may be older."""
        return self._save(table, rows, run, "overwrite", f"{DAY} >= DATE'{day_of(since_ms)}'")

    def merge_new(
        self, table: Table, rows: DataFrame, *, by: tuple[str, ...], days: Iterable[date], around_days: int, run: int
    ) -> Written:
        """Add the rows whose `by` is new (MERGE with inserts only).

        Parameters
        ----------
        rows: unique in `by`.
        days: the days of the rows.
        around_days: rows of the same `by` are searched on these days and so many before and after each. A row further
            away is not found, and both count.
        """
        if (done := self._done(table, run)) is not None:
            return done
        if self._make(table):
            return self._save(table, rows, run, "append")
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        same = reduce(lambda one, other: one & other, (F.col(f"old.{name}") == F.col(f"new.{name}") for name in by))
        near = days_around(days, around_days)
        if 0 < len(near) <= _DAYS_LISTED:
            same = F.col(f"old.{DAY}").isin(sorted(near)) & same
        with self._writing(table), self._transaction(run):
            target = DeltaTable.forPath(self.spark, self.uri(table)).alias("old")
            source = self._columns(table, rows, run).alias("new")
            target.merge(source, same).withSchemaEvolution().whenNotMatchedInsertAll().execute()
        return self._outcome(table, run)

    def remove(self, table: Table, keys: DataFrame, *, by: tuple[str, ...]) -> int:
        """Delete the rows with these keys; returns how many. It is no run's write, and the table's log holds no key."""
        with self._writing(table):
            done = self._matched(table, keys, by).whenMatchedDelete().execute()
        return int(done.collect()[0]["num_deleted_rows"])

    def mend(self, table: Table, rows: DataFrame, *, by: tuple[str, ...]) -> None:
        """Update the other columns of the rows with these keys. Like `remove`, it is no run's write."""
        values = {name: f"new.{name}" for name in rows.columns if name not in by}
        with self._writing(table):
            self._matched(table, rows, by).whenMatchedUpdate(set=dict(values)).execute()

    def _matched(self, table: Table, rows: DataFrame, by: tuple[str, ...]) -> DeltaMergeBuilder:
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        same = reduce(lambda one, other: one & other, (F.col(f"old.{n}").eqNullSafe(F.col(f"new.{n}")) for n in by))
        target = DeltaTable.forPath(self.spark, self.uri(table)).alias("old")
        return target.merge(rows.alias("new"), same)

    def _save(self, table: Table, rows: DataFrame, run: int, mode: str, where: str | None = None) -> Written:
        if (done := self._done(table, run)) is not None:
            return done
        self._make(table)
        options = {"txnAppId": APP_ID, "txnVersion": str(run), "mergeSchema": "true"}
        if where is not None:
            options["replaceWhere"] = where
        laid = self._columns(table, rows, run).hint("rebalance", *((DAY,) if table.day_of else table.key[:1]))
        order = (*((DAY,) if table.day_of else ()), *table.key)
        with self._writing(table):
            laid.sortWithinPartitions(*order).write.format("delta").mode(mode).options(**options).save(self.uri(table))
        return self._outcome(table, run)

    def _columns(self, table: Table, rows: DataFrame, run: int) -> DataFrame:
        from pyspark.sql import functions as F

        laid = rows.select(*table.names, F.lit(run).cast("bigint").alias(RUN))
        return laid if table.day_of is None else laid.withColumn(DAY, day_column(table.day_of))

    def _make(self, table: Table) -> bool:
        """Create a missing table; returns whether it was created."""
        from delta.tables import DeltaTable
        from pyspark.sql import types as T

        if self.log(table).latest() is not None:
            return False
        maker = DeltaTable.createIfNotExists(self.spark).location(self.uri(table))
        maker = maker.addColumns(_stored(table)).addColumn(RUN, T.LongType(), nullable=False)
        if table.day_of is not None:
            maker = maker.addColumn(DAY, T.DateType(), nullable=False).partitionedBy(DAY)
        elif table.is_kept_by_run:
            maker = maker.partitionedBy(RUN)
        properties = {
            SCHEMA: table.schema_id,
            "delta.dataSkippingStatsColumns": ",".join(_counted(table)),
            "delta.enableDeletionVectors": "false",  # so that any reader of the protocol's first version can read
            "delta.logRetentionDuration": "interval 400 days",
        }
        for name, value in properties.items():
            maker = maker.property(name, value)
        with self._writing(table):
            maker.execute()
        return True

    def _done(self, table: Table, run: int) -> Written | None:
        commit = self.log(table).of_run(run)
        return None if commit is None else Written(commit.version, commit.rows)

    def _outcome(self, table: Table, run: int) -> Written:
        """Return the result of a write; Delta makes no commit without rows."""
        return self._done(table, run) or Written(self.log(table).latest(), 0)

    @contextmanager
    def _transaction(self, run: int) -> Iterator[None]:
        """Set the run's identity for the session's MERGE, which takes no writer options."""
        names = {"spark.databricks.delta.write.txnAppId": APP_ID, "spark.databricks.delta.write.txnVersion": str(run)}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in names:
                self.spark.conf.unset(name)

    @contextmanager
    def _writing(self, table: Table) -> Iterator[None]:
        """Turn Delta's exceptions for a faster writer into `ConflictError`."""
        from delta import exceptions
        from pyspark.errors import AnalysisException

        conflicts = tuple(getattr(exceptions, name) for name in exceptions.__all__)  # they share no base class
        try:
            yield
        except conflicts as error:
            raise ConflictError(f"{self.uri(table)}: {str(error).splitlines()[0]}") from None
        except AnalysisException as error:
            if error.getCondition() == _MADE_MEANWHILE and self.log(table).latest() is not None:
                raise ConflictError(f"{self.uri(table)} was made at this moment") from None
            raise

    def _refuse_own_format(self) -> None:
        folder = local_path(self.root)
        if folder is not None and (folder / "_manifest").is_dir():
            raise JobError(
                f"{folder} holds tables of an earlier version, in a format of its own: name a new root; "
                "what the journal still holds is read again"
            )


def day_of(at_ms: int) -> date:
    """Return the UTC day of a time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()


def days_around(days: Iterable[date], around_days: int) -> set[date]:
    """Return these days and so many before and after each, within Python's calendar."""
    first, last = date.min.toordinal(), date.max.toordinal()
    numbers = {day.toordinal() + off for day in days for off in range(-around_days, around_days + 1)}
    return {date.fromordinal(number) for number in numbers if first <= number <= last}


def day_column(time: str) -> Column:
    """Return the UTC day of a column of Unix milliseconds."""
    from pyspark.sql import functions as F

    return F.date_from_unix_date(F.floor(F.col(time) / F.lit(DAY_MS)).cast("int"))


def _stored(table: Table) -> StructType:
    """Return the columns as stored: a merge cannot guarantee an array without nulls."""
    from pyspark.sql import types as T

    def wide(kind: DataType) -> DataType:
        return T.ArrayType(kind.elementType, containsNull=True) if isinstance(kind, T.ArrayType) else kind

    return T.StructType([T.StructField(f.name, wide(f.dataType), f.nullable) for f in table.spark.fields])


def _counted(table: Table) -> tuple[str, ...]:
    """Return the columns with statistics: numbers that queries filter by."""
    numbers = [c.name for c in table.columns if c.type in {"bigint", "int"}]
    found = [name for name in numbers if name in {*table.key, table.day_of, "group_key"}]
    return (*found, *(() if table.is_kept_by_run else (RUN,)))
