"""The tables of a journal: raw records, quarantined records, and facts."""

from __future__ import annotations

from .table import GROUP, ORIGIN, RECORD, Table, columns

EVENTS = Table(
    "bronze/events",
    1,
    columns(f"raw binary\n{ORIGIN}"),
    ("topic", "partition", "file", "offset"),
    is_kept_by_run=True,
)
"""One row per record read, exactly as it was (null: a Kafka record without a value)."""

QUARANTINE = Table(
    "bronze/quarantine",
    1,
    columns(f"raw binary\n{ORIGIN}\nreason string!\ndetail string"),
    ("topic", "partition", "file", "offset"),
    is_kept_by_run=True,
)
"""One row per quarantined record, with a `QuarantineReason` and the field at fault."""

MEMBER_EVENTS = Table(
    "silver/member_events",
    2,
    columns(
        f"""{RECORD}{GROUP}
        instance_id string!
        member_key bigint!
        pod_name string
        pod_uid string
        restart_count bigint
        node_name string
        image_digest string
        rollout_id string
        reason string
        session_timeout_ms bigint
        member_id string
        previous_member_id string
        attempt bigint
        group_epoch bigint
        absorbed boolean
        members bigint
        partitions_total bigint
        certificates array<string>
        outcome string
        """
    ),
    ("group_key", "member_key", "event_ms", "event_id", "source"),
    day_of="event_ms",
)
"""One row per fact about a member, once per `source` and `event_id`; `kind` is `member.down`, `member.up`, …

`member_key` = `xxhash64(kafka_cluster_id, group_id, instance_id)`; `certificates` has one entry for `member.departed`.
"""

GROUP_EVENTS = Table(
    "silver/group_events",
    1,
    columns(
        f"""{RECORD}{GROUP}
        instance_id string
        group_epoch bigint
        state_before string
        members bigint
        partitions_total bigint
        partitions_moved bigint
        rollout_id string
        replicas bigint
        replicas_before bigint
        replicas_after bigint
        rebalances bigint
        session_timeout_ms_before bigint
        session_timeout_ms_after bigint
        timeout_source string
        member_id string
        guard string
        message string
        """
    ),
    ("group_key", "event_ms", "event_id", "source"),
    day_of="event_ms",
)
"""One row per fact about a group: `group.rebalanced`, `rollout.started`, …, `removal.held` (which has an instance)."""

BEATS = Table(
    "silver/beats",
    1,
    columns(
        """
        event_id string!
        source string!
        k8s_cluster_uid string!
        operator_id string!
        seq bigint!
        observed_at_ms bigint!
        interval_ms bigint!
        watch_epoch string
        static_groups bigint
        unreachable_groups array<string>
        unreachable_total bigint
        """
    ),
    ("k8s_cluster_uid", "observed_at_ms", "event_id", "source"),
    day_of="observed_at_ms",
)
"""One row per coverage beat: at `observed_at_ms` this operator was alive and its watches were in sync."""

BLIND_WINDOWS = Table(
    "silver/blind_windows",
    1,
    columns("k8s_cluster_uid string!\nstart_ms bigint!\nend_ms bigint!"),
    ("k8s_cluster_uid", "start_ms"),
)
"""One row per maximal time in which no operator of a Kubernetes cluster beat; never overlapping."""

OUTAGES = Table(
    "silver/outages",
    2,
    columns(
        f"""{GROUP}
        k8s_cluster_uid string!
        instance_id string!
        member_key bigint!
        event_id string!
        source string!
        down_ms bigint!
        started_ms bigint
        back_lo_ms bigint
        back_ms bigint
        gap_ms bigint!
        end_kind string!
        absorbed boolean
        starts bigint!
        reason string
        rollout_id string
        image_digest string
        node_name string
        pod_uid string
        session_timeout_ms bigint
        """
    ),
    ("group_key", "member_key", "down_ms", "event_id", "source"),
    day_of="down_ms",
)
"""One row per absence (`event_id` of the `member.down` that began it), as `staticgroup.api.absences` defines it.

`gap_ms` ≥ 0, a lower bound unless returned; `back_lo_ms`, `back_ms` and `absorbed` only if it returned; `started_ms`
null when no container was seen to start.
"""
