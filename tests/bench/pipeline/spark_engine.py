"""The work in Spark: the pipeline's own transform, after removing copies and before sums per group.

The one idea: one exchange, by group. The copies of a record have the same group, so they are found behind that
exchange, and the sums per group need no other.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.pipeline.events import AS_OF_MS
from bench.pipeline.job import RESULT, Engine, Task, own_cpu_s
from bench.pipeline.watch import cpu_s
from fleet_learner.intake import sessions
from fleet_learner.session import new_session
from staticgroup.api.absences import EndKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_PARTITION: Final = 1_000_000
PARTITIONS_MIN: Final = 4


def once(rows: DataFrame) -> DataFrame:
    """Keep the first observed of the rows with the same source and id, as `silver.copies` does, without an exchange.

    Copies have the same member, too, so that one window for each member is enough instead of one for each fact.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    of_member = W.partitionBy("member_key", "group_key").orderBy("fact", "observed_at_ms")
    before = F.lag("fact").over(of_member)
    return rows.withColumn("before", before).where(F.col("before").isNull() | (F.col("before") != F.col("fact")))


def per_group(outages: DataFrame) -> DataFrame:
    """Return how many outages of each group ended how, the sum of their gaps, and the longest."""
    from pyspark.sql import functions as F

    kinds = {"returned": EndKind.RETURNED, "removed": EndKind.REMOVED, "open": EndKind.OPEN, "blind": EndKind.BLIND}
    return (
        outages.groupBy("group_key")
        .agg(
            F.count(F.lit(1)).alias("downs"),
            *(F.count_if(F.col("end_kind") == kind.value).alias(name) for name, kind in kinds.items()),
            F.sum("gap_ms").alias("gap_ms"),
            F.max("gap_ms").alias("gap_ms_max"),
        )
        .select(*RESULT)
    )


def ready(task: Task) -> Engine:
    """Return the work in a session with this many threads and this heap."""
    log = task.scratch / "log"
    log.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_LOCAL_DIRS"] = str(task.scratch / "spill")
    partitions = max(PARTITIONS_MIN, task.rows // ROWS_PER_PARTITION)
    spark = new_session(
        "benchmark",
        master=f"local[{task.cores}]",
        settings={
            "spark.driver.memory": f"{task.heap_mb}m", "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.adaptive.enabled": "false", "spark.eventLog.enabled": "true", "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        },
    )  # fmt: skip
    jvm = spark.sparkContext._gateway.proc.pid

    def work(result: Path) -> None:
        events = spark.read.parquet(str(task.folder / "events"))
        windows = spark.read.parquet(str(task.folder / "blind_windows.parquet"))
        pairs = sessions.paired_in_groups(once(sessions.in_groups(events, AS_OF_MS)), AS_OF_MS)
        per_group(sessions.seen_through(pairs, windows, AS_OF_MS)).write.parquet(str(result))

    return Engine(work=work, cpu_s=lambda: own_cpu_s() + cpu_s(jvm), spilled_bytes=lambda: spilled_bytes(log))


def spilled_bytes(log: Path) -> int:
    """Return the bytes that tasks spilled to disk, from Spark's event log (`TaskMetrics`)."""
    total = 0
    for file in log.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                total += json.loads(line).get("Task Metrics", {}).get("Disk Bytes Spilled", 0)
    return total
