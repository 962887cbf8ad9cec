"""The work in DuckDB, as fast as it was found to go: the baseline.

The one idea: the rules of `fleet_learner.silver` and `fleet_learner.sessions` in SQL over 64-bit numbers only. Text is
hashed while the files are read; what is copied is looked for with a hash table, and only there are rows put in order.
A common expression that is used twice is materialised, and row order is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from bench.pipeline.events import AS_OF_MS
from bench.pipeline.job import RESULT, Engine, Task, own_cpu_s

MEMORY_LIMIT: Final = "8GB"
"""Far more than 10 M events take; 100 M must leave room for the machine."""
FACTS: Final = f"""
SELECT member_key, group_key, k8s_cluster_uid, observed_at_ms, source_time_ms, restart_count,
  event_ms * 4 + CASE kind WHEN 'member.down' THEN 0 WHEN 'member.up' THEN 2 ELSE 1 END AS packed,
  hash(pod_uid, restart_count) AS run,
  hash(source, event_id) AS fact,
  coalesce(CASE kind WHEN 'member.down' THEN time_lo_ms ELSE time_hi_ms END, observed_at_ms) AS operator_ms
FROM read_parquet($events)
WHERE event_ms <= {AS_OF_MS}
  AND (kind IN ('member.down', 'member.up') OR (kind = 'member.removed' AND outcome = 'Removed'))
"""
ONCE: Final = """
SELECT * FROM facts ANTI JOIN copied USING (fact)
UNION ALL
SELECT * FROM facts SEMI JOIN copied USING (fact)
QUALIFY row_number() OVER (PARTITION BY fact ORDER BY observed_at_ms) = 1
"""
FOLLOWED: Final = """
SELECT *, coalesce(packed_1 = packed + 2 AND run_1 = run, false)
  OR coalesce(packed_1 % 4 = 0 AND packed_2 = packed_1 + 2 AND run_2 = run_1, false) AS second_counts
FROM (
  SELECT group_key, k8s_cluster_uid, packed, run, source_time_ms, operator_ms,
    lead(packed, 1) OVER w AS packed_1, lead(packed, 2) OVER w AS packed_2,
    lead(run, 1) OVER w AS run_1, lead(run, 2) OVER w AS run_2,
    lead(source_time_ms, 1) OVER w AS source_1, lead(source_time_ms, 2) OVER w AS source_2,
    lead(operator_ms, 1) OVER w AS operator_1, lead(operator_ms, 2) OVER w AS operator_2
  FROM once
  WINDOW w AS (PARTITION BY member_key ORDER BY packed, restart_count, fact)
)
WHERE packed % 4 = 0
"""
PAIRED: Final = f"""
SELECT group_key, k8s_cluster_uid, down_ms,
  CASE WHEN next IS NULL THEN 'open' WHEN next % 4 = 2 THEN 'returned' WHEN next % 4 = 1 THEN 'removed' ELSE 'blind' END
    AS end_kind,
  greatest(0, CASE
    WHEN next IS NULL THEN {AS_OF_MS} - down_ms
    WHEN next % 4 = 0 THEN 0
    WHEN source_time_ms IS NOT NULL AND next_source IS NOT NULL THEN next_source - source_time_ms
    ELSE next_operator - operator_ms END) AS gap_ms
FROM (
  SELECT group_key, k8s_cluster_uid, packed // 4 AS down_ms, source_time_ms, operator_ms,
    CASE WHEN second_counts THEN packed_2 ELSE packed_1 END AS next,
    CASE WHEN second_counts THEN source_2 ELSE source_1 END AS next_source,
    CASE WHEN second_counts THEN operator_2 ELSE operator_1 END AS next_operator
  FROM followed
)
"""
SEEN: Final = f"""
SELECT group_key,
  CASE WHEN blind_ms IS NULL THEN end_kind ELSE 'blind' END AS end_kind,
  CASE WHEN blind_ms IS NULL THEN gap_ms ELSE greatest(0, blind_ms - down_ms) END AS gap_ms
FROM (
  SELECT group_key, end_kind, gap_ms, down_ms,
    list_filter(windows, lambda w: w.end_ms > down_ms
      AND w.start_ms < CASE end_kind WHEN 'open' THEN {AS_OF_MS} ELSE down_ms + gap_ms END)[1].start_ms AS blind_ms
  FROM paired LEFT JOIN by_cluster USING (k8s_cluster_uid)
)
"""
QUERY: Final = f"""
WITH facts AS MATERIALIZED ({FACTS}),
  copied AS (SELECT fact FROM facts GROUP BY fact HAVING count(*) > 1),
  once AS ({ONCE}),
  followed AS ({FOLLOWED}),
  paired AS ({PAIRED}),
  by_cluster AS (
    SELECT k8s_cluster_uid, list({{'start_ms': start_ms, 'end_ms': end_ms}} ORDER BY start_ms) AS windows
    FROM read_parquet($windows) GROUP BY k8s_cluster_uid
  ),
  seen AS ({SEEN})
SELECT group_key, count(*) AS downs,
  count_if(end_kind = 'returned')::BIGINT AS returned, count_if(end_kind = 'removed')::BIGINT AS removed,
  count_if(end_kind = 'open')::BIGINT AS open, count_if(end_kind = 'blind')::BIGINT AS blind,
  sum(gap_ms)::BIGINT AS gap_ms, max(gap_ms) AS gap_ms_max
FROM seen GROUP BY group_key
"""


def ready(task: Task) -> Engine:
    """Return the work, bound to this many threads."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {task.cores}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    connection.execute(f"SET temp_directory = '{task.scratch}'")
    inputs = {"events": f"'{task.folder}/events/*.parquet'", "windows": f"'{task.folder}/blind_windows.parquet'"}
    query = QUERY
    for name, path in inputs.items():
        query = query.replace(f"${name}", path)

    def work(result: Path) -> None:
        connection.execute(f"COPY (SELECT {', '.join(RESULT)} FROM ({query})) TO '{result}' (FORMAT parquet)")

    return Engine(work=work, cpu_s=own_cpu_s)
