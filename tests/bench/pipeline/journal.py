"""Write the journals of a fleet of any size: the files that its operators would have written.

The one idea: `events` draws the members' history, a block of groups at a time, and DuckDB writes it as records of
`journal.records`, a million in a few seconds. Each block adds the facts about its groups (timeouts, rollouts, and a
rebalance for every return that was not absorbed), and the whole has the operators' beats. There is a file for each day
of observation; the last day's are separate, so that they can come a day later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import duckdb

from bench.pipeline import events
from bench.pipeline.events import AS_OF_MS, DAY_MS, DAYS, K8S_CLUSTERS, LARGE_GROUP_MEMBERS_MAX, ROWS_PER_FILE, START_MS

BEAT_MS: Final = 120_000
BLOCKS_PER_FILE: Final = 4
LAST_DAY: Final = "last-day"
_MEMBERS: Final = """
CREATE OR REPLACE TABLE facts AS
WITH named AS (
  SELECT *, 'kafka-' || hash(group_id) % 6 AS cluster, CASE WHEN hash(group_id) % 5 = 0 THEN 'Consumer'
    ELSE 'Classic' END AS way
  FROM block
), sizes AS (SELECT group_id, count(DISTINCT instance_id) AS members FROM block GROUP BY group_id)
SELECT named.* EXCLUDE (members, protocol, kafka_cluster_id, absorbed, image_digest, node_name, reason),
  way AS protocol, cluster AS kafka_cluster_id, sizes.members AS members, 4 * sizes.members AS partitions,
  kind = 'member.rejoined' AND hash(event_id) % 100 < 80 AS absorbed,
  CASE WHEN kind <> 'member.down' THEN '' WHEN hash(event_id) % 100 < 92 THEN 'Deleted'
    WHEN hash(event_id) % 100 < 95 THEN 'Evicted'
    WHEN hash(event_id) % 100 < 99 THEN 'Error' ELSE 'OOMKilled' END AS reason,
  'sha256:' || lpad(md5(rollout_id), 64, '0') AS image_digest, 'node-' || hash(pod_uid) % 97 AS node_name
FROM named JOIN sizes USING (group_id)
"""
_OBSERVED: Final = "operator_id, seq, observed_at_ms, source_time_ms, time_lo_ms, time_hi_ms"
_NAMES: Final = "kafka_cluster_id, group_id, namespace, static_group, workload, protocol"
_DATA: Final = {
    "kind IN ('member.down', 'member.up')": "instance_id, pod_name, pod_uid, restart_count, node_name, "
    "image_digest, rollout_id, reason, session_timeout_ms",
    "kind = 'member.rejoined'": "instance_id, member_id := instance_id || '-' || restart_count, "
    "previous_member_id := NULL, group_epoch := NULL, absorbed, members, partitions_total := partitions",
    "kind = 'member.removed'": "instance_id, member_id := instance_id || '-' || restart_count, attempt := 1, "
    "certificates := [pod_uid || ' E1'], reason := 'scaled down', outcome",
}
_GROUPS: Final = f"""
CREATE OR REPLACE TABLE groups AS
WITH one AS (
  SELECT group_id, any_value(source) AS source, any_value(operator_id) AS operator_id,
    any_value(namespace) AS namespace,
    any_value(static_group) AS static_group, any_value(workload) AS workload, any_value(protocol) AS protocol,
    any_value(kafka_cluster_id) AS kafka_cluster_id, any_value(members) AS members
  FROM facts GROUP BY group_id
), rolled AS (
  SELECT group_id, rollout_id, min(event_ms) AS start_ms, max(event_ms) AS end_ms FROM facts WHERE kind = 'member.down'
  GROUP BY group_id, rollout_id
)
SELECT 'timeout.changed' AS kind, one.group_id || '/timeout' AS event_id, {START_MS} AS at_ms,
  {{session_timeout_ms_before: NULL, session_timeout_ms_after: 45000, timeout_source: 'Fixed'}}::JSON AS more, one.*
FROM one
UNION ALL
SELECT 'rollout.started', rollout_id || '/started', start_ms, {{rollout_id: rollout_id, replicas: members}}::JSON, one.*
FROM rolled JOIN one USING (group_id)
UNION ALL
SELECT 'rollout.finished', rollout_id || '/finished', end_ms,
  {{rollout_id: rollout_id, replicas: members, rebalances: 0}}::JSON, one.*
FROM rolled JOIN one USING (group_id)
UNION ALL
SELECT 'group.rebalanced', facts.event_id || '/rebalanced', facts.observed_at_ms,
  {{group_epoch: NULL, state_before: 'Stable', members: facts.members, partitions_total: facts.partitions,
    partitions_moved: 4}}::JSON,
  one.*
FROM facts JOIN one USING (group_id) WHERE facts.kind = 'member.rejoined' AND NOT facts.absorbed
"""


def _line(kind: str, data: str, at_ms: str, subject: str, key: str) -> str:
    """Return SQL for one record."""
    envelope = (
        f"specversion := '1.0', id := event_id, source := source, type := 'io.staticgroup.' || {kind} || '.v1', "
        f"subject := {subject}, time := strftime(make_timestamp({at_ms} * 1000), '%Y-%m-%dT%H:%M:%S.%gZ'), "
        f"datacontenttype := 'application/json', dataschema := 'urn:staticgroup:journal:' || {kind} || ':1', "
        f"partitionkey := {key}, data := {data}"
    )
    return f"to_json(struct_pack({envelope}))::VARCHAR AS line"


def _lines() -> str:
    """Return SQL for all records of a block: (at_ms, line)."""
    key = "kafka_cluster_id || '/' || group_id"
    member = f"{key} || chr(47) || instance_id"
    of_members = [
        f"SELECT observed_at_ms AS at_ms, "
        f"{_line('kind', f'struct_pack({_OBSERVED}, {_NAMES}, {data})', 'observed_at_ms', member, key)} "
        f"FROM facts WHERE {where}"
        for where, data in _DATA.items()
    ]
    seen = (
        "operator_id, seq := 0, observed_at_ms := at_ms, source_time_ms := NULL, time_lo_ms := at_ms - 5000, "
        "time_hi_ms := at_ms"
    )
    data = f"json_merge_patch(to_json(struct_pack({seen}, {_NAMES})), more)"
    of_groups = f"SELECT at_ms, {_line('kind', data, 'at_ms', key, key)} FROM groups"
    return " UNION ALL ".join([*of_members, of_groups])


def _beats(connection: duckdb.DuckDBPyConnection, seed: int) -> str:
    connection.register("windows", events.blind_windows(seed))
    uid = "printf('%08d-5a1f-4c6e-9b0d-%012d', n, n * 7919)"
    data = (
        "struct_pack(operator_id, seq := 0, observed_at_ms := at_ms, source_time_ms := NULL, time_lo_ms := NULL, "
        f"time_hi_ms := NULL, static_groups := 500, watch_epoch := '0', interval_ms := {BEAT_MS}, "
        "unreachable_groups := []::VARCHAR[], unreachable_total := 0)"
    )
    line = _line("'coverage.beat'", data, "at_ms", "operator_id", "operator_id")
    return f"""
    SELECT at_ms, {line} FROM (
      SELECT at_ms, uid || '/operator-0' AS operator_id, '/k8s/' || uid || '/operator/0' AS source,
        uid || '/' || at_ms || '/beat' AS event_id
      FROM (SELECT {uid} AS uid FROM range({K8S_CLUSTERS}) t(n)), 
        range({START_MS + 7_000}, {AS_OF_MS}, {BEAT_MS}) b(at_ms)
      WHERE NOT EXISTS (FROM windows w WHERE w.k8s_cluster_uid = uid AND at_ms BETWEEN w.start_ms AND w.end_ms)
    )
    """


def write(folder: Path, rows: int, seed: int) -> int:
    """Write the journals of a fleet with about so many facts about members, unless they are there; return the
    records."""
    note = folder / "written.json"
    settings = {"events": rows, "seed": seed}
    if note.exists() and (known := json.loads(note.read_text())) | settings == known:
        return int(known["records"])
    for name in ("days", LAST_DAY):
        (folder / name).mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET temp_directory = '{folder}'")
    connection.execute("CREATE TABLE lines (at_ms BIGINT, line VARCHAR)")
    connection.execute(f"INSERT INTO lines {_beats(connection, seed)}")
    records = _cut(connection, folder, "beats")
    blocks = max(rows // ROWS_PER_FILE, 1)
    for block in range(blocks):
        large = min(rows // 1_000, LARGE_GROUP_MEMBERS_MAX, ROWS_PER_FILE // (3 * events.STOPS_PER_MEMBER + 2))
        connection.register("block", events.table(seed, block, large if block == 0 else 0))
        for statement in (_MEMBERS, _GROUPS, f"INSERT INTO lines {_lines()}"):
            connection.execute(statement)
        if (block + 1) % BLOCKS_PER_FILE == 0 or block + 1 == blocks:
            records += _cut(connection, folder, f"{block:05d}")
    note.write_text(json.dumps(settings | {"records": records}))
    return records


def _cut(connection: duckdb.DuckDBPyConnection, folder: Path, name: str) -> int:
    """Write the collected lines into a file for each day, in order, without lines observed after the end."""
    for day in range(DAYS):
        start_ms = START_MS + day * DAY_MS
        path = folder / ("days" if day < DAYS - 1 else LAST_DAY) / f"{day:02d}-{name}.jsonl"
        connection.execute(
            f"COPY (SELECT line FROM lines WHERE at_ms >= {start_ms} AND at_ms < {start_ms + DAY_MS} ORDER BY at_ms, "
            f"line) TO '{path}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01')"
        )
    row = connection.execute(f"SELECT count(*) FROM lines WHERE at_ms >= {START_MS} AND at_ms < {AS_OF_MS}").fetchone()
    connection.execute("DELETE FROM lines")
    return int(row[0]) if row else 0


if __name__ == "__main__":
    events.main(write, __doc__)
