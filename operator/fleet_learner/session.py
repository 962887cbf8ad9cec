"""Make the Spark session that every job and test runs in, with the settings that results depend on.

The one idea: what changes results is fixed here (time zone, Arrow's batch size, ANSI errors); what changes speed only is
the caller's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIXED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows of groups are as large as the groups: Python gets some of them at a time, however many there are.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
}
_USUAL: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",  # a batch asks for throughput, not for short pauses
    "spark.sql.shuffle.partitions": "8",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # asks the JVM for its session once for each column
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""For one machine; `spark-submit` on a cluster brings its own."""


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
    for key, value in {**(_USUAL if local else {}), **(settings or {}), **_FIXED}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    # On a cluster a warning may be all that is said about executors that do not come.
    session.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return session
