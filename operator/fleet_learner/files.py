"""Write a DataFrame to Parquet files whose names and bytes depend on nothing but the rows.

Why: a task that is retried, a run that is killed and done again, another number of cores: all must leave the same files.
The one idea: rows are hashed by key into a number of files that only the plan fixes, sorted by the table's key, cut
into row groups of a fixed size, and each task replaces its file atomically and reports its digest. Spark's own writer
puts a random id into every name and leaves the digest to a second pass over all bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .manifest import DataFile, draft_of, sync_folder
from .schemas import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE: Final = 1_000_000
_ROW_GROUP: Final = 131_072
_RECEIPT: Final = "path string, rows bigint, bytes bigint, sha256 string, low_ms bigint, high_ms bigint"


def file_count(rows_max: int) -> int:
    """Return into how many files at most so many rows go."""
    return max(1, -(-rows_max // ROWS_PER_FILE))


def write(
    frame: DataFrame,
    table: Table,
    *,
    root: Path,
    run: str,
    files: int,
    by: tuple[str, ...],
    time: str | None = None,
    prefix: str = "part",
) -> list[DataFile]:
    """Write the rows and return the files, sorted by name; a file without rows is not written.

    Parameters
    ----------
    frame: has at least the table's columns.
    files: how many, a property of the plan and not of the machine.
    by: columns that are hashed to a file; a subset of the table's key.
    time: the column of `low_ms` and `high_ms`.
    """
    from pyspark.sql import functions as F

    folder = f"{table.name}/run={run}"
    task = _task(root, folder, prefix, table, time)
    rows = (
        frame.select(*table.names)
        .repartition(files, *(F.col(name) for name in by))
        .sortWithinPartitions(*table.key)
        .mapInArrow(task, _RECEIPT)
        .collect()
    )
    return sorted((DataFile(**row.asDict()) for row in rows), key=lambda file: file.path)


def read(spark: SparkSession, table: Table, paths: Iterable[str]) -> DataFrame:
    """Return the rows of these files with the table's columns; of a column that an older file lacks, null."""
    names = list(paths)
    if not names:
        return spark.createDataFrame([], table.spark_nullable)
    return spark.read.schema(table.spark_nullable).parquet(*names)


def _task(
    root: Path, folder: str, prefix: str, table: Table, time: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        name = f"{prefix}-{context.partitionId():05d}.parquet"
        path = root / folder / name
        draft = draft_of(path)  # a task's number is not enough: two runs of one plan count alike
        written = write_parquet(draft, table, batches, time)
        if written is None:
            return
        os.replace(draft, path)
        sync_folder(path.parent)
        yield _receipt(f"{folder}/{name}", path, *written)

    return run


def write_parquet(
    path: Path, table: Table, batches: Iterable[pa.RecordBatch], time: str | None
) -> tuple[int, int | None, int | None] | None:
    """Write one file, synced.

    Returns
    -------
    Its rows and the least and greatest value of the column `time`; None when there was no row and hence no file.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    writer: Any = None
    rows, low, high = 0, None, None
    try:
        for group in _row_groups(table, batches):
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                sink = pa.OSFile(str(path), mode="wb")
                writer = pq.ParquetWriter(sink, table.arrow, compression="zstd", version="2.6", store_schema=False)
            writer.write_table(group, row_group_size=_ROW_GROUP)
            rows += group.num_rows
            if time is not None:
                bounds = pc.min_max(group[time]).as_py()
                low = bounds["min"] if low is None else min(low, bounds["min"])
                high = bounds["max"] if high is None else max(high, bounds["max"])
    finally:
        if writer is not None:
            writer.close()
            sink.close()
    if writer is None:
        return None
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return rows, low, high


def _row_groups(table: Table, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]).select(list(table.names)).cast(table.arrow))
        count += batch.num_rows
        while count >= _ROW_GROUP:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, _ROW_GROUP).combine_chunks()
            waiting = [whole.slice(_ROW_GROUP)]
            count -= _ROW_GROUP
    if count:
        yield pa.concat_tables(waiting).combine_chunks()


def _receipt(name: str, path: Path, rows: int, low: int | None, high: int | None) -> pa.RecordBatch:
    import pyarrow as pa

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    values = [[name], [rows], [path.stat().st_size], [digest], [low], [high]]
    types = [pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64()]
    names = ["path", "rows", "bytes", "sha256", "low_ms", "high_ms"]
    return pa.RecordBatch.from_arrays([pa.array(v, t) for v, t in zip(values, types, strict=True)], names=names)
