"""The tables of the pipeline: every column with its type and its null rule, written once, for Spark and for Arrow.

The one idea: a table is a constant. Transforms end in a `select` of these columns, files are written with these types,
and a changed column means a new schema id of the table. Spark and Arrow are imported only when needed, so that plain
code (the simulated fleet, the decoder, the command line's help) can use the names.

Units: every time is Unix milliseconds in UTC as a bigint (`_ms`); a sum of doubles differs in its last digit with the
number of Spark partitions, a sum of integers does not. A missing value is null, never "" or −1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class QuarantineReason(StrEnum):
    """Why a record is not in silver; the last four are those of `journal.records.Defect`."""

    EMPTY = "Empty"
    NOT_UTF8 = "NotUtf8"
    NOT_JSON = "NotJson"
    NOT_AN_EVENT = "NotAnEvent"
    UNKNOWN_TYPE = "UnknownType"
    INVALID = "Invalid"


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    name: with the unit last.
    type: a type of Spark's DDL (`string`, `int`, `bigint`, `double`, `boolean`, `binary`) or an `array<…>` of one.
    nullable: whether null has a meaning here.
    """

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A table: its columns, its grain and the order of its rows.

    Parameters
    ----------
    name: layer and noun, which is also its folder below the root.
    version: counts incompatible changes; part of `schema_id`.
    columns: in the order of the files.
    key: the columns that identify a row (the grain), and the sort order in every file.
    day_of: the time whose UTC day partitions the table, as the column `day`; None: not partitioned by day.
    is_kept_by_run: partitioned by the run that wrote the rows, and a run replaces its own only.
    """

    name: str
    version: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    day_of: str | None = None
    is_kept_by_run: bool = False

    @property
    def schema_id(self) -> str:
        """Return the name of this table's schema, as the table itself carries it."""
        return f"urn:staticgroup:table:{self.name.replace('/', '.')}:{self.version}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def spark_nullable(self) -> StructType:
        """Return the schema for reading files, in which Spark makes every column nullable."""
        from pyspark.sql import types as T

        return T.StructType([T.StructField(f.name, f.dataType, nullable=True) for f in self.spark.fields])

    @cached_property
    def spark(self) -> StructType:
        """Return the schema for Spark."""
        from pyspark.sql import types as T

        return T.StructType([T.StructField(c.name, _spark_type(c.type), c.nullable) for c in self.columns])

    @cached_property
    def arrow(self) -> pa.Schema:
        """Return the schema for Arrow."""
        import pyarrow as pa

        return pa.schema([pa.field(c.name, _arrow_type(c.type), c.nullable) for c in self.columns])


def _spark_type(name: str) -> Any:
    from pyspark.sql import types as T

    if name.startswith("array<"):
        return T.ArrayType(_spark_type(name[6:-1]), containsNull=False)
    plain = {"string": T.StringType, "int": T.IntegerType, "bigint": T.LongType, "double": T.DoubleType}
    return (plain | {"boolean": T.BooleanType, "binary": T.BinaryType, "timestamp": T.TimestampType})[name]()


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    if name.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(name[6:-1]), nullable=False))
    if name == "timestamp":
        return pa.timestamp("us", tz="UTC")
    plain = {"string": pa.string, "int": pa.int32, "bigint": pa.int64, "double": pa.float64}
    return (plain | {"boolean": pa.bool_, "binary": pa.binary})[name]()


def columns(text: str) -> tuple[Column, ...]:
    """Read columns, one per line as `name type[!]`; `!` forbids null."""

    def parsed() -> Iterator[Column]:
        for line in text.split("\n"):
            if line.strip():
                name, _, kind = line.strip().partition(" ")
                yield Column(name, kind.rstrip("!"), not kind.endswith("!"))

    return tuple(parsed())


ORIGIN = """
    topic string
    partition int
    offset bigint
    timestamp_ms bigint
    file string
"""
"""The origin of a record: topic, partition, offset and the broker's time, or file and first byte of its line."""

GROUP = """
    kafka_cluster_id string!
    group_id string!
    group_key bigint!
    namespace string
    static_group string
    workload string
    protocol string
"""
"""`group_key` = `xxhash64(kafka_cluster_id, group_id)` of Spark (seed 42)."""

RECORD = """
    event_id string!
    source string!
    kind string!
    event_ms bigint!
    observed_at_ms bigint!
    source_time_ms bigint
    time_lo_ms bigint
    time_hi_ms bigint
    k8s_cluster_uid string!
    operator_id string!
    seq bigint!
"""
"""`kind` is the record's type without `io.staticgroup.` and `.v1`; `event_ms` is the best single time (see silver.py);
`k8s_cluster_uid` is the cluster's UID, plus `/` and `watch_scope` for an operator of some namespaces, in every
table."""
