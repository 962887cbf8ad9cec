"""Scenes of the tests of object stores in a JVM of their own, because the shared session has no S3 client.

`python -m pipeline.object_store_session SCENE ROOT ENDPOINT [MORE …]`; credentials come from the environment, as usual.
The result is printed as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fleet_learner import gold
from fleet_learner.errors import ConflictError
from fleet_learner.intake import ingest
from fleet_learner.lake import Lake
from fleet_learner.lake.object_store import PROBE, probe, settings_for
from fleet_learner.lake.s3_jars import LOG_STORE
from fleet_learner.schemas import Column, Table
from fleet_learner.session import new_session

TABLE = Table("silver/facts", 1, (Column("id", "bigint", False), Column("at_ms", "bigint", False),
                                  Column("said", "string")),
              ("id",), day_of="at_ms")  # fmt: skip
DAY_MS = 86_400_000
WRITERS = 6
VERSIONS = 8
REGION = "us-east-1"


def small(endpoint: str) -> dict[str, str]:
    """Return the settings of a small session with the store."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }  # fmt: skip


def session(root: str, endpoint: str) -> Any:
    """Return a small session with the settings of the root's scheme."""
    return new_session("object store", master="local[2]", settings=settings_for(root, small(endpoint)))


def rows(spark: Any, first: int, end: int, said: str) -> Any:
    """Return rows of four days."""
    return spark.range(first, end).selectExpr("id", f"(id % 4) * {DAY_MS} AS at_ms", f"'{said}' AS said")


def ordered_rows(frame: Any) -> list[list[Any]]:
    return sorted([row["id"], row["at_ms"], row["said"]] for row in frame.collect())


def life(spark: Any, root: str) -> dict[str, Any]:
    """The life of a table: written, merged, replaced, optimized, vacuumed, and read at earlier versions."""
    lake = Lake(spark, root)
    days = [
        row[0]
        for row in rows(spark, 0, 4, "").selectExpr("date_from_unix_date(cast(at_ms / 86400000 as int))").collect()
    ]
    lake.append(TABLE, rows(spark, 0, 40, "first"), run=0)
    merged = lake.merge_new(TABLE, rows(spark, 20, 60, "merged"), by=("id",), days=days, around_days=1, run=1)
    lake.replace_since(TABLE, rows(spark, 0, 60, "replaced").where("at_ms >= 2 * 86400000"), since_ms=2 * DAY_MS, run=2)
    again = lake.append(TABLE, rows(spark, 0, 40, "again"), run=0)
    version = lake.log(TABLE).latest()
    before = ordered_rows(lake.read(TABLE, version))
    spark.sql(f"OPTIMIZE delta.`{lake.uri(TABLE)}`").collect()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    first = ordered_rows(lake.read(TABLE, lake.log(TABLE).of_run(0).version))  # type: ignore[union-attr]
    spark.sql(f"VACUUM delta.`{lake.uri(TABLE)}` RETAIN 0 HOURS").collect()
    return {
        "merged": merged.rows, "again": again.version, "first": first, "before": before,
        "now": ordered_rows(lake.read(TABLE, lake.log(TABLE).latest())),
    }  # fmt: skip


def commits(spark: Any, root: str) -> dict[str, Any]:
    """Several writers at the same version of a log, and two writers with Hadoop alone."""
    jvm, hadoop = spark._jvm, spark.sparkContext._jsc.hadoopConfiguration()

    def write(path: str, text: str) -> str:
        actions = jvm.java.util.ArrayList()
        actions.add(text)
        store = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(LOG_STORE)
        store = store.getConstructors()[0].newInstance(_array(spark, hadoop))
        try:
            store.write(jvm.org.apache.hadoop.fs.Path(path), actions.iterator(), False, hadoop)
        except Exception as error:
            return str(error.java_exception.getClass().getName())  # type: ignore[attr-defined]
        return "written"

    outcomes = []
    with ThreadPoolExecutor(WRITERS) as writers:
        for version in range(VERSIONS):
            path = f"{root}/raced/{version:020d}.json"
            outcomes.append(list(writers.map(lambda n, path=path: write(path, f"writer {n}"), range(WRITERS))))
    alone = f"{root}/alone/{0:020d}.json"
    lost_answer = [write(alone, "mine"), write(alone, "mine"), write(alone, "yours")]
    path = jvm.org.apache.hadoop.fs.Path(f"{root}/hadoop")
    one, other = (path.getFileSystem(hadoop).create(path, False) for _ in range(2))
    one.close()
    other.close()
    return {"outcomes": outcomes, "lost_answer": lost_answer}


def _array(spark: Any, value: Any) -> Any:
    array = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 1)
    array[0] = value
    return array


def writer(spark: Any, root: str, name: str, meeting: str, turns: str) -> dict[str, Any]:
    """One of two writers that write the same runs of the same table at the same time."""
    lake = Lake(spark, root)
    outcomes = []
    for run in range(int(turns)):
        mine = rows(spark, run * 10, run * 10 + 10, name)
        meet(Path(meeting) / str(run), name)
        try:
            lake.append(TABLE, mine, run=run)
            outcomes.append("done")
        except ConflictError:
            outcomes.append("conflict")
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}"[:2000])
    return {"outcomes": outcomes}


def meet(folder: Path, name: str, deadline_s: float = 120.0) -> None:
    """Wait until the other writer is ready, too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()
    ends = time.monotonic() + deadline_s
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < ends, f"no other writer came to {folder}"
        time.sleep(0.005)


def tables(spark: Any, root: str) -> dict[str, Any]:
    """Return the number of rows and one digest of every published table, regardless of run and day."""
    digests = {}
    for lake, names in ((Lake(spark, root), ingest.TABLES), (gold.learned_lake(Lake(spark, root)), gold.TABLES)):
        state = lake.runs.latest()
        assert state is not None, root
        for table in names:
            rows = sorted(str(row) for row in lake.published(table, state).collect())
            digests[table.name] = [len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]]
    return digests


def probed(spark: Any, root: str) -> dict[str, Any]:
    """Check that the store can be used."""
    probe(spark, root, f"{PROBE}1")
    return {}


SCENES: dict[str, Callable[..., dict[str, Any]]] = {
    scene.__name__: scene for scene in (life, commits, writer, tables, probed)
}


def main(scene: str, root: str, endpoint: str, *more: str) -> None:
    spark = session(root, endpoint)
    try:
        print(json.dumps(SCENES[scene](spark, root, *more)))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
