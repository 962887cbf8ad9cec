"""The tables of the bill, as constants like those of `fleet_learner.schemas`."""

from __future__ import annotations

from fleet_learner.schemas import Table, columns

OFFSET_COMMITS = Table(
    "bronze/offset_commits",
    1,
    columns(
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
"""One row per offset commit or its tombstone; `log_…` is its own position in `__consumer_offsets`. See commits.py."""

CAUSES = Table(
    "silver/causes",
    1,
    columns(
        """
        log_partition int!
        log_offset bigint!
        index int!
        at_ms bigint!
        kind string!
        group_id string!
        group_type string!
        rebalances bigint!
        group_epoch bigint
        protocol_type string
        protocol_name string
        members bigint!
        static_members bigint!
        joined bigint!
        departed bigint!
        returned bigint!
        halves_before bigint!
        bystanders bigint!
        clients array<string>!
        hosts array<string>!
        caused array<string>!
        moved array<string>!
        knows_owners boolean!
        """
    ),
    ("log_partition", "log_offset", "index"),
)
"""One row per fact that a group's record proves, in the order of the log; see causes.py."""

STANDSTILLS = Table(
    "silver/standstills",
    1,
    columns(
        """
        kafka_cluster_id string!
        group_id string!
        topic string!
        partition int!
        log_partition int!
        from_offset bigint!
        to_offset bigint
        from_ms bigint!
        to_ms bigint
        cause_offset bigint!
        causes array<string>!
        rebalances bigint!
        group_epoch bigint
        group_type string!
        role string!
        evidence string!
        silence_ms bigint
        usual_ms bigint
        longest_usual_ms bigint
        standstill_ms bigint
        margin_ms bigint
        is_interrupted boolean!
        advanced bigint
        """
    ),
    ("kafka_cluster_id", "group_id", "topic", "partition", "from_offset"),
    day_of="from_ms",
)
"""One row per partition and silence with a cause; `standstill_ms` null: not known, `evidence` says why.
`from_offset` and `to_offset` are positions in the log; `to_offset` null: the silence had not ended. See
standstills.py."""

BILL = Table(
    "gold/bill",
    1,
    columns(
        """
        kafka_cluster_id string!
        group_id string!
        group_type string
        protocol_type string
        protocol_name string
        members bigint!
        static_members bigint!
        partitions bigint!
        commits bigint!
        covered_from_ms bigint
        covered_to_ms bigint
        covered_ms bigint!
        rebalances bigint!
        restart_rebalances bigint!
        restarts bigint!
        departures bigint!
        joins bigint!
        started bigint!
        emptied bigint!
        unchanged bigint!
        static_gone bigint!
        static_back bigint!
        static_replaced bigint!
        absorbed bigint!
        silent_partition_ms bigint!
        margin_partition_ms bigint!
        away_partition_ms bigint!
        measured bigint!
        not_known bigint!
        interrupted_share double
        interrupted_members bigint!
        interrupted_clients array<string>!
        interrupted_hosts array<string>!
        records_delayed bigint
        help string!
        """
    ),
    ("kafka_cluster_id", "group_id"),
)
"""One row per group that has commits or members in the log; counts are of the covered time. See account.py."""

GROUP_RECORDS = Table(
    "bronze/group_records",
    1,
    columns(
        """
        log_partition int!
        log_offset bigint!
        timestamp_ms bigint!
        group_id string
        key binary
        value binary
        """
    ),
    ("log_partition", "log_offset"),
)
"""One row per group record (no offset commit): all of the window, and the last older one of each key."""

BILL_SLICES = Table(
    "gold/bill_slices",
    1,
    (*BILL.columns, *columns("slice_from_ms bigint!\nslice_to_ms bigint!")),
    ("kafka_cluster_id", "group_id", "slice_from_ms"),
    day_of="slice_from_ms",
)
"""One row per group and slice of time from a midnight (UTC) on: its gold/bill. Slices never overlap."""
