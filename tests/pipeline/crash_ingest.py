"""A run of ingest in a process of its own, which prints its steps so that its parent can kill it.

`python crash_ingest.py <journal> <lake> <as of ms>`: one line for each step. It never publishes: it waits before that
to be killed, so it is always killed in the middle.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from fleet_learner.intake.ingest import ingest
from fleet_learner.lake import Lake
from fleet_learner.session import new_session
from fleet_learner.sources.files import JournalFiles

QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
}
"""A JVM that lives for minutes loses time with the optimizing compiler."""


def main(journal: str, lake: str, as_of_ms: str) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m",
        "spark.databricks.delta.snapshotPartitions": "1", **QUICK_START,
    }  # fmt: skip
    spark = new_session("crash", master="local[1]", settings=settings)

    def tell(step: str) -> None:
        print(step, flush=True)
        if step == "written":
            signal.pause()

    tell("session")
    ingest(Lake(spark, lake), [JournalFiles(Path(journal))], as_of_ms=int(as_of_ms), on_step=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
