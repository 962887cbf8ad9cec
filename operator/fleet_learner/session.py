"""Make the Spark session that every job and test runs in, with the settings that results depend on.

The one idea: what changes results, or ends a run, is fixed here (time zone, Arrow's batch size, ANSI errors); what
changes speed only is the caller's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .lake.jars import jar_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIXED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows of groups are as large as the groups: Python gets some of them at a time, however many there are.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # What is small enough for a broadcast may take as long to compute as a log is long: waiting for it is no fault
    # after 5 minutes.
    "spark.sql.broadcastTimeout": "21600",
    # What is deleted is deleted when no kept run needs it: upkeep knows which, Delta knows only days.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
_USUAL: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # A batch asks for throughput, not for short pauses; and what Spark generates for a record of fifty fields is a
    # method that the JVM leaves interpreted, unless told otherwise: parsing takes twice as long then.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
        f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    ),
    "spark.sql.shuffle.partitions": "8",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # asks the JVM for its session once for each column
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Both are sized for clusters: a task each for what is a few kilobytes here.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""For one machine; `spark-submit` on a cluster brings its own."""
_TASKS_PER_CORE: Final = 8


def new_session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session, or take the running one.

    Parameters
    ----------
    master: `local[2]`, …; None leaves it to `spark-submit`.
    settings: override the usual ones, never the fixed ones.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"fleet-learner {name}")
    local = master is not None and master.startswith("local")
    if master is not None:
        builder = builder.master(master)
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark would take the first python3 of the PATH
    for key, value in {**(_USUAL if local else {}), **(settings or {}), **_FIXED, **_jars(settings or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    # On a cluster a warning may be all that is said about executors that do not come.
    session.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return session


def many_tasks(spark: SparkSession) -> int:
    """Return into how many tasks work on groups is cut.

    Groups differ a hundredfold, and one may have a twentieth of all stops: what else its task has to do must be little.
    """
    return _TASKS_PER_CORE * int(spark.sparkContext.defaultParallelism)


def _jars(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that brings Delta's jars, beside those that the user brings."""
    named = [name for name in settings.get("spark.jars", "").split(",") if name]
    paths = [*named, *(str(path) for path in jar_paths())]
    return {"spark.jars": ",".join(paths)} if paths else {}
