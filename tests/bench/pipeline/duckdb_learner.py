"""From journal files to recommendations with DuckDB: the baseline of a whole run.

The one idea: the same work as `fleet-learner run`, with the rules of `silver`, `sessions`, `facts` and `features` in
SQL, and on top of it the very same Python for estimates, recommendations and the replay of dynamic members, in as many
processes as there are cores. What is left out is what a pipeline is for beside its results: tables that are kept,
exactly-once, a report.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb

from bench.pipeline.duckdb_engine import DATED, MARKED, MEMORY_LIMIT, paired, seen
from bench.pipeline.events import AS_OF_MS, DAY_MS, START_MS
from fleet_learner.days.facts import StopDurations
from fleet_learner.days.replay import rebalances_of_day
from fleet_learner.estimates.class_sums import class_model
from fleet_learner.intake.planning import Horizon
from fleet_learner.recommendations.advised import advise
from fleet_learner.recommendations.canary import CanaryState, waves_of
from fleet_learner.recommendations.histories import Terms, sample_of, usable
from fleet_learner.recommendations.recommend import MODEL_VERSION

TERMS: Final = Terms(durations=StopDurations(), bounds={}, valid_ms=7 * DAY_MS)
CANARY: Final = CanaryState(wave=1, began_ms=AS_OF_MS, campaign_ms=AS_OF_MS)
AWAY_MS_MAX: Final = Horizon().open_days_max * DAY_MS
CHUNK: Final = 64
_NUMBERS: Final = (
    "observed_at_ms", "source_time_ms", "time_lo_ms", "time_hi_ms", "restart_count", "session_timeout_ms", "members",
    "partitions_total", "partitions_moved", "interval_ms", "replicas", "session_timeout_ms_after",
)  # fmt: skip
_TEXTS: Final = (
    "kafka_cluster_id", "group_id", "protocol", "instance_id", "pod_uid", "rollout_id", "reason", "outcome",
    "image_digest",
    "operator_id", "watch_epoch",
)  # fmt: skip
_DATA: Final = ", ".join([*(f"{n} BIGINT" for n in _NUMBERS), *(f"{n} VARCHAR" for n in _TEXTS), "absorbed BOOLEAN"])
EVENTS: Final = f"""
CREATE TABLE events AS
SELECT kind, event_id, source, split_part(source, '/', 3) AS k8s_cluster_uid, hash(source, event_id) AS fact,
  hash(data.kafka_cluster_id, data.group_id) AS group_key,
  hash(data.kafka_cluster_id, data.group_id, data.instance_id) AS member_key,
  greatest(least(coalesce(data.source_time_ms,
    CASE WHEN kind = 'member.down' THEN data.time_lo_ms ELSE data.time_hi_ms END, data.observed_at_ms),
    data.observed_at_ms), data.observed_at_ms - 900000) AS event_ms,
  data.*
FROM (
  SELECT id AS event_id, source, regexp_extract(type, '^io\\.staticgroup\\.(.+)\\.v1$', 1) AS kind, data
  FROM read_json('$files', format = 'newline_delimited', columns = {{
    id: 'VARCHAR', source: 'VARCHAR', type: 'VARCHAR', data: 'STRUCT({_DATA})'}})
)
"""
COPIES: Final = """
DELETE FROM events WHERE rowid IN (
  SELECT rowid FROM events WHERE fact IN (SELECT fact FROM events GROUP BY fact HAVING count(*) > 1)
  QUALIFY row_number() OVER (PARTITION BY fact ORDER BY observed_at_ms, operator_id) > 1
)
"""
"""Facts about groups have copies, too, and a rebalance that two operators recorded counts once."""
NEWEST: Final = f"""
SET VARIABLE end_ms = (
  SELECT least({AS_OF_MS}, max(CASE WHEN kind = 'coverage.beat' THEN observed_at_ms ELSE event_ms END)) FROM events
)
"""
END: Final = "getvariable('end_ms')"
"""Nothing is known after the newest record: an absent member counts as away until then."""
FACTS: Final = f"""
SELECT member_key, group_key, k8s_cluster_uid, event_ms, observed_at_ms, restart_count, time_lo_ms, fact,
  CASE kind WHEN 'member.rejoined' THEN 0 WHEN 'member.down' THEN 1 WHEN 'member.up' THEN 3 ELSE 2 END AS rank,
  hash(pod_uid, restart_count) AS run
FROM events
WHERE event_ms <= {END}
  AND (kind IN ('member.down', 'member.up', 'member.rejoined') OR (kind = 'member.removed' AND outcome = 'Removed'))
"""
WINDOWS: Final = f"""
CREATE TABLE windows AS
SELECT k8s_cluster_uid, observed_at_ms AS start_ms, coalesce(following, {END}) AS end_ms
FROM (
  SELECT *, lead(observed_at_ms) OVER (PARTITION BY k8s_cluster_uid ORDER BY observed_at_ms) AS following
  FROM events WHERE kind = 'coverage.beat'
)
WHERE coalesce(following, {END}) - observed_at_ms > 2.5 * interval_ms
"""
OUTAGES: Final = f"""
CREATE TABLE outages AS
WITH once AS ({FACTS}), marked AS ({MARKED}), dated AS ({DATED}),
  paired AS ({paired(END, AWAY_MS_MAX).replace("SELECT group_key,", "SELECT fact, next, group_key,", 1)}),
  by_cluster AS (
    SELECT k8s_cluster_uid, list({{'start_ms': start_ms, 'end_ms': end_ms}} ORDER BY start_ms) AS windows
    FROM windows GROUP BY k8s_cluster_uid
  ),
  seen AS ({
    seen(END)
    .replace("SELECT group_key,", "SELECT fact, down_ms, next, group_key,", 1)
    .replace("SELECT group_key, end_kind", "SELECT fact, next, group_key, end_kind", 1)
})
SELECT seen.group_key, event.member_key, event.event_id, seen.down_ms, seen.gap_ms, end_kind,
  CASE WHEN end_kind = 'returned' THEN seen.next // 4 END AS back_ms,
  nullif(event.reason, '') AS reason, nullif(event.rollout_id, '') AS rollout_id, event.image_digest,
    event.session_timeout_ms
FROM seen JOIN events event USING (fact)
WHERE seen.down_ms >= {START_MS} AND seen.down_ms < {AS_OF_MS}
"""
_STOPS: Final = ", ".join(
    f"{name} := {name}"
    for name in ("down_ms", "event_id", "gap_ms", "end_kind", "reason", "rollout_id", "image_digest")
)
DAYS: Final = f"""
CREATE TABLE stop_days AS
SELECT group_key, down_ms // {DAY_MS} * {DAY_MS} AS day_ms,
  list(struct_pack(down_ms := down_ms, event_id := event_id, member_key := member_key, back_ms := back_ms,
    reason := reason)
    ORDER BY down_ms, event_id) AS stops,
  count(*) AS downs, count_if(end_kind = 'returned') AS returned, count_if(end_kind = 'blind') AS blind,
  sum(CASE WHEN end_kind IN ('removed', 'blind') THEN 0 ELSE least(gap_ms, coalesce(session_timeout_ms, gap_ms)) END)
    AS ghost_wanted_ms
FROM outages GROUP BY ALL
"""
GAPS: Final = """
CREATE TABLE gaps AS
SELECT group_key, reason, image_digest, count_if(end_kind = 'returned') AS returned,
  sum(CASE WHEN end_kind = 'returned' THEN round(1000000 * ln(greatest(gap_ms, 1)))::BIGINT END) AS sum_log_gap_micro
FROM outages GROUP BY ALL
"""
GROUPS: Final = f"""
CREATE TABLE groups AS
WITH covered AS (
  SELECT b.k8s_cluster_uid, d.day_ms, d.day_ms + {DAY_MS} - greatest(d.day_ms, b.first_ms) - coalesce(
    (SELECT sum(least(w.end_ms, d.day_ms + {DAY_MS}) - greatest(w.start_ms, d.day_ms, b.first_ms)) FROM windows w
     WHERE w.k8s_cluster_uid = b.k8s_cluster_uid AND w.start_ms < d.day_ms + {DAY_MS}
       AND w.end_ms > greatest(d.day_ms, b.first_ms)), 0) AS covered_ms
  FROM (SELECT k8s_cluster_uid, min(observed_at_ms) AS first_ms FROM events WHERE kind = 'coverage.beat' GROUP BY 1) b,
    range({START_MS}, {AS_OF_MS}, {DAY_MS}) d(day_ms)
), known AS (
  SELECT group_key, any_value(kafka_cluster_id) AS kafka_cluster_id, any_value(group_id) AS group_id,
    any_value(protocol) AS protocol, any_value(k8s_cluster_uid) AS k8s_cluster_uid,
    min(event_ms) // {DAY_MS} * {DAY_MS} AS first_ms, coalesce(nullif(max(members), 0), max(replicas))::DOUBLE
      AS members,
    max(partitions_total)::DOUBLE AS partitions, sum(partitions_moved)::BIGINT AS moved,
    sum(CASE WHEN partitions_moved IS NOT NULL THEN partitions_total END)::BIGINT AS of_partitions,
    arg_max(session_timeout_ms_after, event_ms) FILTER (kind = 'timeout.changed') AS set_timeout_ms,
    arg_max(image_digest, (event_ms, event_id)) FILTER (kind = 'member.up') AS image_digest,
    count_if(kind = 'group.rebalanced') AS rebalances
  FROM (FROM events WHERE kind <> 'coverage.beat' AND event_ms >= {START_MS} AND event_ms < {AS_OF_MS})
  GROUP BY group_key
)
SELECT known.*, (SELECT sum(covered_ms)::BIGINT FROM covered c
    WHERE c.k8s_cluster_uid = known.k8s_cluster_uid AND c.day_ms >= known.first_ms) AS covered_ms
FROM known
"""
ROWS: Final = f"""
SELECT groups.*, stops, NULL AS seen_timeout_ms, NULL AS changed_ms
FROM groups LEFT JOIN (
  SELECT group_key, list(struct_pack({_STOPS}) ORDER BY down_ms, event_id) AS stops FROM outages GROUP BY group_key
) USING (group_key)
WHERE protocol = $1 ORDER BY kafka_cluster_id, group_id
"""
REPLAYED: Final = f"""
SELECT stop_days.stops, groups.protocol, sizes.members, sizes.partitions
FROM stop_days JOIN groups USING (group_key) LEFT JOIN (
  SELECT group_key, event_ms // {DAY_MS} * {DAY_MS} AS day_ms, max(members) AS members, max(partitions_total)
    AS partitions
  FROM events WHERE kind <> 'coverage.beat' GROUP BY ALL
) sizes USING (group_key, day_ms)
"""
STEPS: Final = {
    "copies": COPIES, "end": NEWEST, "windows": WINDOWS, "outages": OUTAGES, "days": DAYS, "gaps": GAPS, "groups": GROUPS,
}  # fmt: skip


def _chunks(connection: duckdb.DuckDBPyConnection, query: str, *values: str) -> Iterator[list[dict[str, Any]]]:
    reader = connection.cursor().sql(query, params=list(values)).to_arrow_reader(CHUNK)
    for batch in reader:
        yield batch.to_pylist()


def _advised(rows: Sequence[dict[str, Any]], model: Any, waves: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        row["wave"] = waves[row["kafka_cluster_id"], row["group_id"]]
        made = advise(row, model, TERMS, CANARY, start_ms=START_MS, as_of_ms=AS_OF_MS)
        found.append(made.record.model_dump(mode="json"))
    return found


def _replayed(rows: Sequence[dict[str, Any]]) -> int:
    return sum(rebalances_of_day(row, TERMS.durations) for row in rows)


def learn(files: str, cores: int, scratch: Path, result: Path) -> dict[str, Any]:
    """Do the work; writes the records as JSON lines, and returns totals and seconds by step."""
    connection = duckdb.connect()
    settings = {"threads": cores, "memory_limit": f"'{MEMORY_LIMIT}'", "temp_directory": f"'{scratch}'"}
    for name, value in {**settings, "preserve_insertion_order": "false"}.items():
        connection.execute(f"SET {name} = {value}")
    seconds: dict[str, float] = {}

    def timed(step: str, started: float) -> None:
        seconds[step] = time.perf_counter() - started

    started = time.perf_counter()
    connection.execute(EVENTS.replace("$files", files))
    timed("parse", started)
    for name, statement in STEPS.items():
        started = time.perf_counter()
        connection.execute(statement)
        timed(name, started)
    pairs = connection.execute("SELECT kafka_cluster_id, group_id FROM groups").fetchall()
    waves = waves_of(pairs, MODEL_VERSION)
    with ProcessPoolExecutor(cores) as pool, result.open("w", encoding="utf-8") as file:
        started = time.perf_counter()
        dynamic = sum(pool.map(_replayed, _chunks(connection, REPLAYED)))
        timed("replay", started)
        started = time.perf_counter()
        for (protocol,) in connection.execute("SELECT DISTINCT protocol FROM groups ORDER BY 1").fetchall():
            known = (row for rows in _chunks(connection, ROWS, protocol) for row in rows)
            samples = (sample_of(usable(row["stops"]), AS_OF_MS) for row in known)
            work = partial(_advised, model=class_model(samples), waves=waves)
            for found in pool.map(work, _chunks(connection, ROWS, protocol)):
                file.writelines(json.dumps(each) + "\n" for each in found)
        timed("recommend", started)
    totals = connection.execute(
        "SELECT sum(downs)::BIGINT, sum(returned)::BIGINT, sum(blind)::BIGINT, sum(ghost_wanted_ms)::BIGINT FROM "
        "stop_days"
    ).fetchone()
    rebalances = connection.execute("SELECT sum(rebalances)::BIGINT FROM groups").fetchone()
    assert totals is not None
    assert rebalances is not None
    names = ("downs", "returned", "blind", "ghost_wanted_ms")
    return {
        **dict(zip(names, totals, strict=True)),
        "rebalances": rebalances[0], "rebalances_dynamic": dynamic, "s": seconds,
    }  # fmt: skip


def main() -> None:
    """Do the work in this process, bound to its cores, and print the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", help="a glob")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    o = parser.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: o.cores]))
    o.scratch.mkdir(parents=True, exist_ok=True)
    print(json.dumps(learn(o.files, o.cores, o.scratch, o.result)))


if __name__ == "__main__":
    main()
