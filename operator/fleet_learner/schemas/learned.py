"""The tables of learning: counts by group and day, and recommendations."""

from __future__ import annotations

from .table import GROUP, Table, columns

REBALANCES = Table(
    "silver/rebalances",
    1,
    columns(
        f"""{GROUP}
        event_id string!
        group_epoch bigint
        start_lo_ms bigint!
        start_hi_ms bigint!
        end_ms bigint
        trigger string!
        members bigint
        partitions_total bigint
        partitions_moved bigint
        rollout_id string
        """
    ),
    ("group_key", "start_hi_ms", "event_id"),
    day_of="start_hi_ms",
)
"""One row per rebalance of a group; its start lies in [start_lo_ms, start_hi_ms]."""

GROUP_DAY = Table(
    "gold/group_day",
    2,
    columns(
        f"""{GROUP}
        day_ms bigint!
        members bigint!
        partitions bigint
        downs bigint!
        returned bigint!
        removed bigint!
        open bigint!
        blind bigint!
        absorbed bigint!
        fenced bigint!
        held bigint!
        rollouts bigint!
        rebalances bigint!
        rebalances_dynamic bigint
        stopped_partition_ms bigint!
        ghost_wanted_ms bigint!
        ghost_late_ms bigint!
        ghost_operator_ms bigint!
        covered_ms bigint!
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and UTC day (`day_ms` its midnight); `rebalances_dynamic` is the counterfactual."""

BUSY_DAY = Table(
    "gold/busy_day",
    1,
    columns(
        f"""{GROUP}
        k8s_cluster_uid string
        day_ms bigint!
        members bigint
        partitions bigint
        instances array<bigint>!
        downs bigint!
        returned bigint!
        removed bigint!
        open bigint!
        blind bigint!
        absorbed bigint!
        fenced bigint!
        held bigint!
        rollouts bigint!
        rebalances bigint!
        stopped_partition_ms bigint!
        ghost_wanted_ms bigint!
        ghost_late_ms bigint!
        ghost_operator_ms bigint!
        k8s_cluster_uids array<string>
        replicas bigint
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and UTC day with events, from the facts of that day only. `members` are the coordinator's,
`replicas` the pods of the workload; `instances` are hashes of the recorded instance ids, `k8s_cluster_uids` the
clusters that recorded the group (null in older rows). gold/group_day is computed from these rows.
"""

REPLAYED_DAY = Table(
    "gold/replayed_day",
    1,
    columns(
        """
        group_key bigint!
        day_ms bigint!
        inputs bigint!
        rebalances_dynamic bigint!
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and day with stops: the rebalances with dynamic members, and a hash of the inputs."""

GROUP_STATE = Table(
    "gold/group_state",
    1,
    columns(
        """
        group_key bigint!
        day_ms bigint!
        set_timeout_ms bigint
        timeout_source string
        set_ms bigint
        changed_ms bigint
        moved bigint
        of_partitions bigint
        image_digest string
        up_ms bigint
        seen_timeout_ms bigint
        set_protocol string
        seen_protocol string
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and UTC day with news: the last timeout set (`set_ms`: when; `changed_ms`: the last that replaced
another), the last image started (`up_ms`: when), the last timeout of a stop, the group's protocol at each of them
(null also in older rows), and the sums of moved partitions. A column without news on that day is null.
"""

RECOMMENDATION = Table(
    "gold/recommendation",
    2,
    columns(
        f"""{GROUP}
        session_timeout_ms bigint
        timeout_source string
        changed_ms bigint
        recommended_ms bigint
        advised_ms array<bigint>
        price_source string
        goal_ms bigint
        low_ms bigint
        high_ms bigint
        method string!
        outages bigint!
        outages_effective double!
        censored bigint!
        coverage double!
        evictions_per_day_before double
        evictions_per_day_after double
        ghost_s_per_day_before double
        ghost_s_per_day_after double
        reason_codes array<string>
        wave int
        released boolean
        model_version string!
        valid_until_ms bigint!
        """
    ),
    ("group_key",),
    is_kept_by_run=True,
)
"""One row per group: the advised timeout, its interval and the evidence; null: no timeout can be advised.

`advised_ms`: all recommendations so far, the newest last.
"""

CANARY = Table(
    "gold/canary",
    1,
    columns(
        """
        model_version string!
        as_of_ms bigint!
        wave int!
        began_ms bigint!
        campaign_ms bigint!
        locked_until_ms bigint!
        withdrawn int
        is_over boolean!
        verdict string!
        evidence double!
        wave_stops bigint!
        treated_stops bigint!
        treated_evictions bigint!
        treated_evictions_promised double!
        treated_ghost_ms bigint!
        treated_ghost_promised_ms bigint!
        control_stops bigint!
        control_evictions bigint!
        control_evictions_promised double!
        control_ghost_ms bigint!
        control_ghost_promised_ms bigint!
        """
    ),
    ("model_version", "as_of_ms"),
    is_kept_by_run=True,
)
"""One row: the wave that may act from this run on, and the evidence of the verdict on the previous wave."""
