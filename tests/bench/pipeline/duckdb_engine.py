"""The baseline: the same work in DuckDB, in its fastest known form.

The one idea: the rules of `fleet_learner.intake.silver` and `fleet_learner.intake.sessions` in SQL over 64-bit numbers
only. Text is hashed while the files are read; a hash table finds copies, and only those rows are ordered. A common
expression that is used twice is materialised, and row order is not preserved.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from bench.pipeline.events import AS_OF_MS
from bench.pipeline.job import RESULT, Engine, Task, own_cpu_s
from staticgroup.api.absences import UNSEEN_MS

MEMORY_LIMIT: Final = "8GB"
"""Far more than 10 M events take; 100 M must leave room for the machine."""
NEVER_MS: Final = 2**50
FACTS: Final = f"""
SELECT member_key, group_key, k8s_cluster_uid, event_ms, observed_at_ms, restart_count, time_lo_ms,
  CASE kind WHEN 'member.rejoined' THEN 0 WHEN 'member.down' THEN 1 WHEN 'member.up' THEN 3 ELSE 2 END AS rank,
  hash(pod_uid, restart_count) AS run,
  hash(source, event_id) AS fact
FROM read_parquet($events)
WHERE event_ms <= {AS_OF_MS}
  AND (kind IN ('member.down', 'member.up', 'member.rejoined') OR (kind = 'member.removed' AND outcome = 'Removed'))
"""
ONCE: Final = """
SELECT * FROM facts ANTI JOIN copied USING (fact)
UNION ALL
SELECT * FROM facts SEMI JOIN copied USING (fact)
QUALIFY row_number() OVER (PARTITION BY fact ORDER BY observed_at_ms) = 1
"""
OF_MEMBER: Final = "PARTITION BY member_key ORDER BY event_ms * 4 + rank, coalesce(restart_count, -1), fact"
BEFORE: Final = f"({OF_MEMBER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
AFTER: Final = f"({OF_MEMBER} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
MARKED: Final = f"""
SELECT *, last_value(CASE WHEN rank <> 3 THEN rank END IGNORE NULLS) OVER {BEFORE} AS mark,
  last_value(CASE WHEN rank = 3 THEN run END IGNORE NULLS) OVER {BEFORE} AS run_last,
  first_value(CASE WHEN rank IN (0, 2) THEN event_ms * 4 + rank END IGNORE NULLS) OVER {AFTER} AS next,
  first_value(CASE WHEN rank IN (0, 2) THEN coalesce(time_lo_ms, -1) END IGNORE NULLS) OVER {AFTER} AS next_lo_ms
FROM once
"""
DATED: Final = f"""
SELECT *, coalesce(rank = 1 AND mark = 0 AND run = run_before AND run_before <> run_last, false) AS is_late
FROM (SELECT *, last_value(CASE WHEN rank = 3 THEN run_last END IGNORE NULLS) OVER {BEFORE} AS run_before FROM marked)
"""


def paired(end_ms: str, away_ms_max: int | None = None) -> str:
    """Return SQL for outages as if somebody had looked all the time, as `sessions.paired` makes them.

    Parameters
    ----------
    end_ms: of the window, in SQL.
    away_ms_max: as of `sessions.outages`.
    """
    limit = NEVER_MS if away_ms_max is None else away_ms_max
    return f"""
SELECT group_key, k8s_cluster_uid, event_ms AS down_ms,
  CASE WHEN unseen OR given_up THEN 'blind' WHEN next IS NULL THEN 'open' WHEN next % 4 = 0 THEN 'returned'
    ELSE 'removed' END
    AS end_kind,
  CASE WHEN unseen THEN greatest(0, lo_ms - observed_at_ms) ELSE moment_ms - event_ms END AS gap_ms
FROM (
  SELECT *, observed_at_ms - event_ms > {UNSEEN_MS} OR moment_ms - lo_ms > {UNSEEN_MS} AS unseen
  FROM (
    SELECT *, CASE WHEN next % 4 = 0 AND NOT given_up
      THEN greatest(event_ms, least(CASE WHEN next_lo_ms < 0 THEN event_ms ELSE next_lo_ms END, moment_ms))
      ELSE moment_ms END AS lo_ms
    FROM (
      SELECT *, least(coalesce(next // 4, {end_ms}), event_ms + {limit}) AS moment_ms,
        coalesce(next // 4, {end_ms}) - event_ms > {limit} AS given_up,
        last_value(CASE WHEN rank <> 3 AND NOT is_late THEN event_ms * 4 + rank END IGNORE NULLS) OVER {BEFORE}
          AS mark_in_time
      FROM dated
    )
    WHERE rank = 1 AND NOT is_late AND NOT coalesce(mark_in_time % 4 = 1 AND mark_in_time // 4 >= event_ms - {limit},
      false)
  )
)
"""


def seen(end_ms: str) -> str:
    """Return SQL for outages, cut where nobody looked.

    Parameters
    ----------
    end_ms: of the window, in SQL.
    """
    return f"""
SELECT group_key,
  CASE WHEN blind_ms IS NULL THEN end_kind ELSE 'blind' END AS end_kind,
  CASE WHEN blind_ms IS NULL THEN gap_ms ELSE greatest(0, blind_ms - down_ms) END AS gap_ms
FROM (
  SELECT group_key, end_kind, gap_ms, down_ms,
    list_filter(windows, lambda w: w.end_ms > down_ms
      AND w.start_ms < CASE end_kind WHEN 'open' THEN {end_ms} ELSE down_ms + gap_ms END)[1].start_ms AS blind_ms
  FROM paired LEFT JOIN by_cluster USING (k8s_cluster_uid)
)
"""


QUERY: Final = f"""
WITH facts AS MATERIALIZED ({FACTS}),
  copied AS (SELECT fact FROM facts GROUP BY fact HAVING count(*) > 1),
  once AS ({ONCE}),
  marked AS ({MARKED}),
  dated AS ({DATED}),
  paired AS ({paired(str(AS_OF_MS))}),
  by_cluster AS (
    SELECT k8s_cluster_uid, list({{'start_ms': start_ms, 'end_ms': end_ms}} ORDER BY start_ms) AS windows
    FROM read_parquet($windows) GROUP BY k8s_cluster_uid
  ),
  seen AS ({seen(str(AS_OF_MS))})
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
