"""The tables of the bill, as constants like those of `fleet_learner.schemas`."""

from __future__ import annotations

from fleet_learner.schemas import Table, _columns

OFFSET_COMMITS = Table(
    "bronze/offset_commits",
    1,
    _columns(
        """
        log_partition int!
        log_offset bigint!
        timestamp_ms bigint!
        kind string!
        tombstone boolean!
        group_id string
        topic string
        partition int
        value_version int
        committed_offset bigint
        leader_epoch int
        metadata string
        commit_ms bigint
        expire_ms bigint
        topic_id string
        """
    ),
    ("log_partition", "log_offset"),
)
"""One row per offset commit or its tombstone; `log_…` is its own place in `__consumer_offsets`. See commits.py."""
