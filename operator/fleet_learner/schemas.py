"""The tables of the pipeline: every column with its type and its null rule, written once, for Spark and for Arrow.

The one idea: a table is a constant. Transforms end in a `select` of these columns, files are written with these types,
and a changed column means a new schema id of the table. Neither Spark nor Arrow is imported before it is asked for,
so that plain code (the simulated fleet, the decoder, the command line's help) can use the names.

Units: every time is Unix milliseconds in UTC as a bigint (`_ms`); a sum of doubles differs in its last digit with the
number of Spark partitions, a sum of integers does not. Missing is null, never "" or −1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class QuarantineReason(StrEnum):
    """Say why a record is not in silver; the last four in the words of `staticgroup.api.journal.Defect`."""

    EMPTY = "Empty"
    NOT_UTF8 = "NotUtf8"
    NOT_JSON = "NotJson"
    NOT_AN_EVENT = "NotAnEvent"
    UNKNOWN_TYPE = "UnknownType"
    INVALID = "Invalid"


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    name: with the unit last.
    type: a type of Spark's DDL (`string`, `int`, `bigint`, `double`, `boolean`, `binary`) or an `array<…>` of one.
    nullable: whether null has a meaning here.
    """

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A table: its columns, its grain and the order of its rows.

    Parameters
    ----------
    name: layer and noun, which is also its folder below the root.
    version: counts incompatible changes; part of `schema_id`.
    columns: in the order of the files.
    key: the columns that name one row (the grain), and by which rows are sorted in every file.
    day_of: the time whose UTC day partitions the table, as the column `day`; None: it is not partitioned by day.
    is_kept_by_run: partitioned by the run that wrote the rows, and a run replaces its own only.
    """

    name: str
    version: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    day_of: str | None = None
    is_kept_by_run: bool = False

    @property
    def schema_id(self) -> str:
        """Return the name of this table's schema, as the table itself carries it."""
        return f"urn:staticgroup:table:{self.name.replace('/', '.')}:{self.version}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def ddl(self) -> str:
        """Return the columns in Spark's DDL."""
        return ", ".join(f"`{c.name}` {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)

    @cached_property
    def spark_nullable(self) -> StructType:
        """Return the schema for reading files, where Spark takes no column's word for being never null."""
        from pyspark.sql import types as T

        return T.StructType([T.StructField(f.name, f.dataType, nullable=True) for f in self.spark.fields])

    @cached_property
    def spark(self) -> StructType:
        """Return the schema for Spark."""
        from pyspark.sql import types as T

        return T.StructType([T.StructField(c.name, _spark_type(c.type), c.nullable) for c in self.columns])

    @cached_property
    def arrow(self) -> pa.Schema:
        """Return the schema for Arrow."""
        import pyarrow as pa

        return pa.schema([pa.field(c.name, _arrow_type(c.type), c.nullable) for c in self.columns])


def _spark_type(name: str) -> Any:
    from pyspark.sql import types as T

    if name.startswith("array<"):
        return T.ArrayType(_spark_type(name[6:-1]), containsNull=False)
    plain = {"string": T.StringType, "int": T.IntegerType, "bigint": T.LongType, "double": T.DoubleType}
    return (plain | {"boolean": T.BooleanType, "binary": T.BinaryType, "timestamp": T.TimestampType})[name]()


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    if name.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(name[6:-1]), nullable=False))
    if name == "timestamp":
        return pa.timestamp("us", tz="UTC")
    plain = {"string": pa.string, "int": pa.int32, "bigint": pa.int64, "double": pa.float64}
    return (plain | {"boolean": pa.bool_, "binary": pa.binary})[name]()


def _columns(text: str) -> tuple[Column, ...]:
    """Read columns written one a line as `name type[!]`; `!` forbids null."""

    def parsed() -> Iterator[Column]:
        for line in text.split("\n"):
            if line.strip():
                name, _, kind = line.strip().partition(" ")
                yield Column(name, kind.rstrip("!"), not kind.endswith("!"))

    return tuple(parsed())


_ORIGIN = """
    topic string
    partition int
    offset bigint
    timestamp_ms bigint
    file string
"""
"""Where a record was read: topic, partition, offset and the broker's time, or file and the byte its line begins at."""

_GROUP = """
    kafka_cluster_id string!
    group_id string!
    group_key bigint!
    namespace string
    static_group string
    workload string
    protocol string
"""
"""`group_key` = `xxhash64(kafka_cluster_id, group_id)` of Spark (seed 42)."""

_RECORD = """
    event_id string!
    source string!
    kind string!
    event_ms bigint!
    observed_at_ms bigint!
    source_time_ms bigint
    time_lo_ms bigint
    time_hi_ms bigint
    k8s_cluster_uid string!
    operator_id string!
    seq bigint!
"""
"""`kind` is the record's type without `io.staticgroup.` and `.v1`; `event_ms` the best single time (see silver.py)."""

EVENTS = Table(
    "bronze/events",
    1,
    _columns(f"raw binary\n{_ORIGIN}"),
    ("topic", "partition", "file", "offset"),
    is_kept_by_run=True,
)
"""One row per record read, exactly as it was (null: a Kafka record without a value)."""

QUARANTINE = Table(
    "bronze/quarantine",
    1,
    _columns(f"raw binary\n{_ORIGIN}\nreason string!\ndetail string"),
    ("topic", "partition", "file", "offset"),
    is_kept_by_run=True,
)
"""One row per record that silver refuses, with a `QuarantineReason` and the field at fault."""

MEMBER_EVENTS = Table(
    "silver/member_events",
    2,
    _columns(
        f"""{_RECORD}{_GROUP}
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
    _columns(
        f"""{_RECORD}{_GROUP}
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
    _columns(
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
    _columns("k8s_cluster_uid string!\nstart_ms bigint!\nend_ms bigint!"),
    ("k8s_cluster_uid", "start_ms"),
)
"""One row per maximal time in which no operator of a Kubernetes cluster beat; never overlapping."""

OUTAGES = Table(
    "silver/outages",
    2,
    _columns(
        f"""{_GROUP}
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
"""One row per absence (`event_id` of the `member.down` that began it), as `staticgroup.api.journal.absences` defines it.

`gap_ms` ≥ 0, a lower bound unless returned; `back_lo_ms`, `back_ms` and `absorbed` only if it returned; `started_ms` null when
no container was seen to start.
"""

REBALANCES = Table(
    "silver/rebalances",
    1,
    _columns(
        f"""{_GROUP}
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

ASSIGNMENT_INTERVALS = Table(
    "silver/assignment_intervals",
    1,
    _columns(
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
    _columns(
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
"""One row per member of a classic group's record, one per other record of a group; see offsets_codec.py."""

GROUP_CHANGES = Table(
    "silver/group_changes",
    1,
    _columns(
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

GAP_STATS = Table(
    "gold/gap_stats",
    1,
    _columns(
        """
        kafka_cluster_id string!
        namespace string!
        workload string!
        protocol string
        reason string!
        image_digest string
        week_ms bigint!
        returned bigint!
        censored bigint!
        blind bigint!
        sum_log_gap_micro bigint!
        sum_log_gap_squared_micro bigint!
        exceeded array<bigint>!
        """
    ),
    ("kafka_cluster_id", "namespace", "workload", "reason", "image_digest", "week_ms"),
)
"""One row per workload, reason, image and week: mergeable sums of y = ln(gap_ms) in millionths, counts over the grid."""

GROUP_DAY = Table(
    "gold/group_day",
    2,
    _columns(
        f"""{_GROUP}
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
    _columns(
        f"""{_GROUP}
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
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and UTC day on which anything happened to it, of the facts of that day alone; `instances` are hashes of the
instance ids that were heard of. gold/group_day is made of these rows.
"""

REPLAYED_DAY = Table(
    "gold/replayed_day",
    1,
    _columns(
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
"""One row per group and day with stops: the rebalances with dynamic members, and a hash of all that they were computed from."""

GROUP_STATE = Table(
    "gold/group_state",
    1,
    _columns(
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
        """
    ),
    ("group_key", "day_ms"),
    day_of="day_ms",
)
"""One row per group and UTC day that told something: the last timeout set (`set_ms`: when; `changed_ms`: the last that replaced
another), the last image started (`up_ms`: when), the last timeout that a stop was seen with, and the sums of partitions that
moved. Each is null where the day told nothing of it.
"""

RECOMMENDATION = Table(
    "gold/recommendation",
    2,
    _columns(
        f"""{_GROUP}
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
"""One row per group: the timeout that is advised, its interval and the evidence; null: none can be.

`advised_ms`: everything that was recommended so far, the newest last.
"""

CANARY = Table(
    "gold/canary",
    1,
    _columns(
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
"""One row: which wave may act from this run on, and what the verdict on the one before rests on."""

TABLES: tuple[Table, ...] = (
    EVENTS,
    QUARANTINE,
    MEMBER_EVENTS,
    GROUP_EVENTS,
    BEATS,
    BLIND_WINDOWS,
    OUTAGES,
    REBALANCES,
    ASSIGNMENT_INTERVALS,
    OFFSETS_MEMBERS,
    GROUP_CHANGES,
    GAP_STATS,
    BUSY_DAY,
    REPLAYED_DAY,
    GROUP_STATE,
    GROUP_DAY,
    RECOMMENDATION,
    CANARY,
)

KAFKA = Table(
    "source/kafka",
    1,
    _columns(
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
