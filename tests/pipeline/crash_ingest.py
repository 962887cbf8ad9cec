"""A run of ingest in a process of its own, which says what it has done so that its parent can kill it.

`python crash_ingest.py <journal> <lake> <as of ms>`: one line for each step, the number of the manifest at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fleet_learner.ingest import ingest
from fleet_learner.manifest import Warehouse
from fleet_learner.session import new_session
from fleet_learner.sources.files import JournalFiles


def main(journal: str, lake: str, as_of_ms: str) -> None:
    """Run once."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m"}
    spark = new_session("crash", master="local[1]", settings=settings)
    print("session", flush=True)
    manifest = ingest(
        spark,
        Warehouse(Path(lake)),
        [JournalFiles(Path(journal))],
        as_of_ms=int(as_of_ms),
        on_step=lambda step: print(step, flush=True),
    )
    print(f"done {manifest.number}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
