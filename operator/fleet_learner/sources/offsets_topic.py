"""Read `__consumer_offsets` with Spark: evidence independent of the operator, and history before its start.

The one idea: nearly all records of this topic are offset commits, which the JVM drops by the first two bytes of the
key; only the others go to the decoder and become flat rows. The topic is compacted: its history disappears, so it has
to be read continuously, and nothing may depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fleet_learner import schemas
from fleet_learner.offsets.bytes import BadRecord
from fleet_learner.offsets.codec import GroupRecord, Member, RecordKind, decode

from .offsets_evidence import Fold

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TOPIC: Final = "__consumer_offsets"
BAD: Final = "BAD"
"""`kind` of a record that breaks the layout of its type; `detail` says how."""
_COMMIT_KEY_TYPES: Final = (0, 1)


def group_records(records: DataFrame) -> DataFrame:
    """Leave out the offset commits.

    Parameters
    ----------
    records: with the columns of a Kafka source, of this topic.

    Returns
    -------
    The same columns; a record without a key stays, to be counted.
    """
    from pyspark.sql import functions as F

    key_type = F.conv(F.hex(F.substring("key", 1, 2)), 16, 10).cast("int")
    return records.where(F.coalesce(~key_type.isin(*_COMMIT_KEY_TYPES), F.lit(True)))


def offsets_members(records: DataFrame) -> DataFrame:
    """Decode the records of groups.

    Parameters
    ----------
    records: with the columns of a Kafka source, of this topic.

    Returns
    -------
    bronze/offsets_members. An unknown type or version has the kind UNKNOWN, a broken record the kind BAD: both are
    rows, so that they are counted.
    """
    return in_log_order(records, _decoded_rows, schemas.OFFSETS_MEMBERS)


def group_changes(records: DataFrame) -> DataFrame:
    """Return what the records prove, in the order of the log.

    Parameters
    ----------
    records: with the columns of a Kafka source; all at once, because the members of a group are known only from earlier
        records.

    Returns
    -------
    silver/group_changes.
    """
    return in_log_order(records, _changed_rows, schemas.GROUP_CHANGES)


def assignment_intervals(members: DataFrame, kafka_cluster_id: str) -> DataFrame:
    """Return the times of each member's assignments.

    Parameters
    ----------
    members: bronze/offsets_members.
    kafka_cluster_id: id of the topic's cluster; the records do not contain it.

    Returns
    -------
    silver/assignment_intervals. A classic group's record holds for all its members until its next one, a KIP-848
    member's until its own next one; consecutive equal assignments are separate rows.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    is_classic = F.col("kind") == RecordKind.GROUP_METADATA.value
    of_member = W.partitionBy("group_id", "member_id")
    slot = W.partitionBy("group_id", "slot").orderBy("offset").rangeBetween(1, W.unboundedFollowing)
    assigned = (F.col("kind").isin(RecordKind.GROUP_METADATA.value, RecordKind.CURRENT_MEMBER.value)) & F.col(
        "group_type"
    ).isNotNull()
    return (
        members.withColumn("instance_id", F.coalesce("instance_id", F.max("instance_id").over(of_member)))
        .where(assigned)
        .withColumn("slot", F.when(is_classic, F.lit("")).otherwise(F.col("member_id")))
        .withColumn("to_ms", F.min("timestamp_ms").over(slot))
        .where(~F.col("tombstone") & F.col("assignment").isNotNull())
        .select(
            F.lit(kafka_cluster_id).alias("kafka_cluster_id"),
            "group_id",
            F.xxhash64(F.lit(kafka_cluster_id), "group_id").alias("group_key"),
            "member_id",
            "instance_id",
            F.coalesce("group_epoch", "member_epoch").alias("group_epoch"),
            F.size("assignment").cast("bigint").alias("partitions"),
            F.col("timestamp_ms").alias("from_ms"),
            "to_ms",
        )
        .select(*schemas.ASSIGNMENT_INTERVALS.names)
    )


def in_log_order(records: DataFrame, rows: Any, table: schemas.Table) -> DataFrame:
    """Turn the records of groups into rows, each partition of the log in its order.

    Parameters
    ----------
    records: with the columns of a Kafka source, of this topic.
    rows: takes a record and a dictionary, which lasts for the task, and yields rows by column name.
    table: of the rows.
    """
    from pyspark.sql import functions as F

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        state: dict[tuple[str, int], Any] = {}
        for batch in batches:
            found = [row for record in batch.to_pylist() for row in rows(record, state)]
            columns = [pa.array([row.get(f.name) for row in found], f.type) for f in table.arrow]
            yield pa.RecordBatch.from_arrays(columns, names=list(table.names))

    wanted = group_records(records).select(
        "key", "value", "topic", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms")
    )
    in_order = wanted.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    return in_order.mapInArrow(run, table.spark_nullable)


def _decoded_rows(record: Mapping[str, Any], _: object) -> Iterator[dict[str, Any]]:
    origin = {name: record[name] for name in ("topic", "partition", "offset", "timestamp_ms")}
    try:
        decoded = decode(record["key"], record["value"])
    except BadRecord as error:
        key = record["key"] or b""
        key_type = int.from_bytes(key[:2], "big", signed=True) if len(key) >= 2 else -1
        yield {**origin, "kind": BAD, "key_type": key_type, "tombstone": record["value"] is None, "detail": str(error)}
        return
    common = {**origin, **_of_group(decoded)}
    for member in decoded.members or (None,):
        yield {**common, **(_of_member(member) if member is not None else {})}


def _of_group(record: GroupRecord) -> dict[str, Any]:
    return {
        "kind": record.kind.value,
        "key_type": record.key_type,
        "value_version": record.value_version,
        "group_id": record.group_id,
        "group_type": record.group_type.value if record.group_type else None,
        "group_epoch": record.epoch,
        "protocol_type": record.protocol_type,
        "protocol_name": record.protocol_name,
        "leader_id": record.leader_id,
        "members": len(record.members),
        "tombstone": record.tombstone,
    }


def _of_member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "member_epoch": member.member_epoch,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "state": None if member.state is None else str(member.state),
        "assignment": None if member.assignment is None else list(member.assignment),
        "pending_revocation": None if member.pending_revocation is None else list(member.pending_revocation),
    }


def _changed_rows(record: Mapping[str, Any], state: dict[tuple[str, int], Fold]) -> Iterator[dict[str, Any]]:
    fold = state.setdefault((record["topic"], record["partition"]), Fold())
    try:
        decoded = decode(record["key"], record["value"])
    except BadRecord:
        return  # offsets_members counts it
    for change in fold.take(decoded):
        yield {
            **{name: record[name] for name in ("topic", "partition", "offset", "timestamp_ms")},
            "kind": change.kind.value,
            "group_id": change.group_id,
            "group_type": change.group_type,
            "group_epoch": change.epoch,
            "epochs": change.epochs,
            "instance_id": change.instance_id,
            "member_id": change.member_id,
            "previous_member_id": change.previous_member_id,
        }
