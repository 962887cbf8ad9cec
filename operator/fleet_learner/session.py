"""Create the Spark session of every job and test, with the settings that results depend on.

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
    # A group's row is as large as the group, so Python gets only a few rows at a time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A small broadcast table may take long to compute from a long log: more than 5 minutes is not a fault.
    "spark.sql.broadcastTimeout": "21600",
    # Files are deleted when no kept run needs them: `upkeep` knows which, Delta knows only ages.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
_USUAL: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # A batch needs throughput, not short pauses. By default the JVM interprets the large method that Spark generates
    # for records of fifty fields, and parsing takes twice as long.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
        f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    ),
    "spark.sql.shuffle.partitions": "8",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # otherwise one call to the JVM for each column
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Both defaults are sized for clusters: one task for each few kilobytes here.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""For one machine; on a cluster `spark-submit` brings its own."""
_TASKS_PER_CORE: Final = 8


def new_session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session, or return the running one.

    Parameters
    ----------
    master: `local[2]`, …; None leaves it to `spark-submit`.
    settings: override the defaults, never the fixed settings.
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
    # On a cluster, a warning may be the only sign that executors do not start.
    session.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return session


def many_tasks(spark: SparkSession) -> int:
    """Return the number of tasks for work on groups.

    Groups differ a hundredfold, and one may have a twentieth of all stops: its task must have little else to do.
    """
    return _TASKS_PER_CORE * int(spark.sparkContext.defaultParallelism)


def _jars(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that adds Delta's jars to the user's jars."""
    named = [name for name in settings.get("spark.jars", "").split(",") if name]
    paths = [*named, *(str(path) for path in jar_paths())]
    return {"spark.jars": ",".join(paths)} if paths else {}
