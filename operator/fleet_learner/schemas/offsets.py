"""The tables of Kafka's own records of the groups, from `__consumer_offsets`."""

from __future__ import annotations

from .table import Table, columns

ASSIGNMENT_INTERVALS = Table(
    "silver/assignment_intervals",
    1,
    columns(
        """
        kafka_cluster_id string!
        group_id string!
        group_key bigint!
        member_id string!
        instance_id string
        group_epoch bigint!
        partitions bigint!
        from_ms bigint!
        to_ms bigint
        """
    ),
    ("group_key", "member_id", "from_ms"),
)
"""One row per member and time with one assignment, from `__consumer_offsets`; `to_ms` null: at the end of the log."""

OFFSETS_MEMBERS = Table(
    "bronze/offsets_members",
    1,
    columns(
        """
        topic string!
        partition int!
        offset bigint!
        timestamp_ms bigint!
        kind string!
        key_type int!
        value_version int
        group_id string
        group_type string
        group_epoch bigint
        protocol_type string
        protocol_name string
        leader_id string
        member_id string
        instance_id string
        member_epoch bigint
        session_timeout_ms bigint
        rebalance_timeout_ms bigint
        client_id string
        client_host string
        state string
        assignment array<string>
        pending_revocation array<string>
        members bigint
        tombstone boolean!
        detail string
        """
    ),
    ("topic", "partition", "offset", "member_id"),
)
"""One row per member of a classic group's record, one per other record of a group; see offsets/codec.py."""

GROUP_CHANGES = Table(
    "silver/group_changes",
    1,
    columns(
        """
        topic string!
        partition int!
        offset bigint!
        timestamp_ms bigint!
        kind string!
        group_id string!
        group_type string!
        group_epoch bigint
        epochs bigint
        instance_id string
        member_id string
        previous_member_id string
        """
    ),
    ("topic", "partition", "offset", "kind", "instance_id", "member_id"),
)
"""One row per change that `__consumer_offsets` proves; see sources/offsets_evidence.py."""

KAFKA = Table(
    "source/kafka",
    1,
    columns(
        """
        key binary
        value binary
        topic string!
        partition int!
        offset bigint!
        timestamp timestamp!
        timestampType int!
        """
    ),
    ("topic", "partition", "offset"),
)
"""What Spark's own Kafka source yields, in its order and names (its `headers` only on request)."""
