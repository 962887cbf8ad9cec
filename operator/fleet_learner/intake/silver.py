"""From raw records to facts: parse, quarantine with a reason, drop copies, and split into three tables.

The one idea: every raw record has exactly one *fate* (silver, quarantine or duplicate), so that the three add up to the
records read. Spark itself parses a record with one schema for all types; it accepts the same records as
`journal.records.read`, and numbers in place of text.

Copies have the same source and id. Within a run the copy that was observed first counts; between runs the one that was
read first. Fields that this version does not know stay in bronze.
"""

from __future__ import annotations

from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Final

from journal.records import TEXT_MAX
from staticgroup.api.absences import SKEW_MS

from ..lake.lake import day_column
from ..schemas import BEATS, GROUP_EVENTS, MEMBER_EVENTS, QUARANTINE, QuarantineReason, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TYPE_PREFIX: Final = "io.staticgroup."
TYPE_SUFFIX: Final = ".v1"
BEAT: Final = "coverage.beat"

_GROUP_FIELDS: Final = ("kafka_cluster_id", "group_id", "namespace", "static_group", "workload", "protocol")
_PROCESS: Final = ("instance_id", "pod_name", "pod_uid", "restart_count", "node_name")
REQUIRED: Final = {
    "member.down": _PROCESS,
    "member.up": _PROCESS,
    "member.rejoined": ("instance_id", "member_id", "absorbed"),
    "member.departed": ("instance_id", "pod_uid", "certificate"),
    "member.removed": ("instance_id", "member_id", "outcome"),
    "member.fenced": ("instance_id", "member_id"),
    "member.released": ("instance_id", "member_id", "pod_uid", "outcome"),
    "group.rebalanced": (),
    "rollout.started": ("rollout_id", "replicas"),
    "rollout.finished": ("rollout_id", "replicas", "rebalances"),
    "workload.scaled": ("replicas_before", "replicas_after"),
    "timeout.changed": ("session_timeout_ms_after", "timeout_source"),
    "removal.held": ("instance_id", "member_id", "guard", "message"),
    BEAT: ("static_groups", "watch_epoch"),
}
"""Required fields of each type, besides operator_id, seq, observed_at_ms and, except in beats, the group."""
_MAY_BE_EMPTY: Final = {"kafka_cluster_id", "node_name", "watch_epoch"}

_DATA: Final = """
    operator_id STRING, seq BIGINT, observed_at_ms BIGINT, source_time_ms BIGINT, time_lo_ms BIGINT, time_hi_ms BIGINT,
    kafka_cluster_id STRING, group_id STRING, namespace STRING, static_group STRING, workload STRING, protocol STRING,
    instance_id STRING, pod_name STRING, pod_uid STRING, restart_count BIGINT, node_name STRING, image_digest STRING,
    rollout_id STRING, reason STRING, session_timeout_ms BIGINT, member_id STRING, previous_member_id STRING,
    attempt BIGINT, group_epoch BIGINT, absorbed BOOLEAN, certificate STRING, certificates ARRAY<STRING>,
    outcome STRING, state_before STRING, members BIGINT, partitions_total BIGINT, partitions_moved BIGINT,
    replicas BIGINT, replicas_before BIGINT, replicas_after BIGINT, rebalances BIGINT,
    session_timeout_ms_before BIGINT, session_timeout_ms_after BIGINT, timeout_source STRING, guard STRING,
    message STRING, static_groups BIGINT, watch_epoch STRING, watch_scope STRING, interval_ms BIGINT,
    unreachable_groups ARRAY<STRING>, unreachable_total BIGINT
"""
_FIELDS: Final = ", ".join(": ".join(field.split()) for field in _DATA.split(","))
RECORD_DDL: Final = (
    "specversion STRING, id STRING, source STRING, type STRING, subject STRING, time STRING, "
    f"datacontenttype STRING, dataschema STRING, partitionkey STRING, data STRUCT<{_FIELDS}>, _corrupt STRING"
)
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
_SOURCE: Final = r"^/k8s/([^/]+)/"
_ORIGIN: Final = ("topic", "partition", "file", "offset")
CLUSTER_ID_MAX: Final = 253
"""Maximum length of a Kafka cluster's id in a recommendation."""
SIZE_MAX: Final = 10_000_000
"""A Kafka cluster holds some millions of partitions, so a larger number of members or partitions is no fact."""
_SIZES: Final = ("members", "partitions_total", "partitions_moved", "replicas", "replicas_before", "replicas_after")
_EMPTY_IS_UNKNOWN: Final = ("image_digest", "rollout_id", "reason", "node_name", "state_before", "previous_member_id")


def parsed(events: DataFrame) -> DataFrame:
    """Parse raw records.

    Parameters
    ----------
    events: bronze/events.

    Returns
    -------
    The same rows with `event` (the record, null where it cannot be parsed), `kind`, and `reason` and `detail`, which
    are null for a good record.
    """
    from pyspark.sql import functions as F

    text = F.when(F.expr("is_valid_utf8(raw)"), F.col("raw").cast("string"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowNonNumericNumbers": "false"}
    kind = F.regexp_extract("event.type", r"^io\.staticgroup\.(.+)\.v1$", 1)
    with_event = (
        events.withColumn("text", text)
        .withColumn("event", F.from_json("text", RECORD_DDL, options))
        .withColumn("kind", kind)
    )
    verdict = _verdict()
    return (
        with_event.withColumn("verdict", verdict)
        .withColumn("reason", F.col("verdict.reason"))
        .withColumn("detail", F.col("verdict.detail"))
        .drop("verdict", "text")
    )


def _verdict() -> Column:
    """Return struct(reason, detail) of the first rule that a record breaks; null when it breaks none."""
    from pyspark.sql import functions as F

    def bad(reason: QuarantineReason, detail: Column | str = "") -> Column:
        text = F.lit(detail) if isinstance(detail, str) else detail
        return F.struct(F.lit(reason.value).alias("reason"), text.alias("detail"))

    is_object = F.coalesce(F.expr("schema_of_variant(try_parse_json(text))").startswith("OBJECT"), F.lit(False))
    is_json = F.expr("try_parse_json(text)").isNotNull()
    is_event = F.coalesce((F.col("event.specversion") == "1.0") & F.col("event.type").isNotNull(), F.lit(False))
    is_known = F.col("kind").isin(*REQUIRED)
    expected = F.concat(F.lit("urn:staticgroup:journal:"), F.col("kind"), F.lit(":1"))
    missing = F.concat_ws(", ", *_missing())  # skips nulls and is compiled, unlike a filter of an array
    rules = (
        (F.col("raw").isNull() | (F.length("raw") == 0), bad(QuarantineReason.EMPTY)),
        (F.col("text").isNull(), bad(QuarantineReason.NOT_UTF8)),
        (F.col("event._corrupt").isNotNull() & ~is_json, bad(QuarantineReason.NOT_JSON)),
        (F.col("event._corrupt").isNotNull() & ~is_object, bad(QuarantineReason.NOT_AN_EVENT)),
        (~is_event, bad(QuarantineReason.NOT_AN_EVENT)),
        (~is_known, bad(QuarantineReason.UNKNOWN_TYPE, F.substring("event.type", 1, 1000))),
        (F.col("event._corrupt").isNotNull(), bad(QuarantineReason.INVALID, "a field has the wrong type")),
        (missing != "", bad(QuarantineReason.INVALID, F.concat(F.lit("missing: "), missing))),
        (F.col("event.dataschema") != expected, bad(QuarantineReason.INVALID, "dataschema: not of this type")),
        (~F.col("event.time").rlike(_TIME), bad(QuarantineReason.INVALID, "time: not RFC 3339 in UTC")),
        (~F.col("event.source").rlike(_SOURCE), bad(QuarantineReason.INVALID, "source: no cluster")),
        (_out_of_bounds(), bad(QuarantineReason.INVALID, "a number, a time or the length of a text is out of bounds")),
    )
    first, *rest = rules
    return reduce(lambda chain, rule: chain.when(*rule), rest, F.when(*first))


def _missing() -> list[Column]:
    """Return, for every possibly required field, its name if it is missing, else null."""
    from pyspark.sql import functions as F

    def absent(path: str, name: str) -> Column:
        column = F.col(path)
        return column.isNull() if name in _MAY_BE_EMPTY or name in _NOT_TEXT else column.isNull() | (column == "")

    envelope = ("id", "source", "subject", "time", "datacontenttype", "dataschema", "partitionkey")
    found = [F.when(absent(f"event.{name}", name), F.lit(name)) for name in envelope]
    found += [F.when(absent(f"event.data.{n}", n), F.lit(n)) for n in ("operator_id", "seq", "observed_at_ms")]
    not_beat = F.col("kind") != BEAT
    found += [F.when(not_beat & absent(f"event.data.{name}", name), F.lit(name)) for name in _GROUP_FIELDS]
    for name in sorted({name for names in REQUIRED.values() for name in names}):
        needs = F.col("kind").isin(*[kind for kind, names in REQUIRED.items() if name in names])
        found.append(F.when(needs & absent(f"event.data.{name}", name), F.lit(name)))
    return found


_NOT_TEXT: Final = {
    "seq",
    "observed_at_ms",
    "restart_count",
    "absorbed",
    "replicas",
    "replicas_before",
    "replicas_after",
    "rebalances",
    "session_timeout_ms_after",
    "static_groups",
}
_OF_TYPE: Final = {name: kind for name, kind in (field.split() for field in _DATA.split(","))}
_TIMES: Final = ("observed_at_ms", "source_time_ms", "time_lo_ms", "time_hi_ms")
_YEAR_10000_MS: Final = 253_402_300_800_000


def _out_of_bounds() -> Column:
    from pyspark.sql import functions as F

    def of(kind: str) -> list[Column]:
        return [F.col(f"event.data.{name}") for name, each in _OF_TYPE.items() if each == kind]

    late = [F.col(f"event.data.{name}") >= _YEAR_10000_MS for name in _TIMES]
    wrong = [F.least(*of("BIGINT")) < 0, F.greatest(*map(F.length, of("STRING"))) > TEXT_MAX, *late]
    return reduce(lambda one, other: one | other, (F.coalesce(rule, F.lit(False)) for rule in wrong))


def quarantine(rows: DataFrame) -> DataFrame:
    """Return bronze/quarantine: the parsed rows that were refused."""
    from pyspark.sql import functions as F

    return rows.where(F.col("reason").isNotNull()).select(*QUARANTINE.names)


def facts(rows: DataFrame) -> DataFrame:
    """Return the facts of the good records, copies included.

    Parameters
    ----------
    rows: of `parsed`.

    Returns
    -------
    One row per good record with the columns of all silver tables, where it was read, `fact`, a hash of its source and
    id, and `row`, a number that no other has. `event_ms` is what `staticgroup.api.absences.event_ms` says. The facts
    are stored on local disk, because three tables and some counts use them, parsing is the most expensive part of a
    run, and recomputed row numbers would differ. They are stored as rows, because columns of fifty fields took half of
    the time.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    made = _named(
        rows.where(F.col("reason").isNull()).select(
            "kind",
            *_ORIGIN,
            F.monotonically_increasing_id().alias("row"),
            F.xxhash64("event.source", "event.id").alias("fact"),
            F.col("event.id").alias("event_id"),
            F.col("event.source").alias("source"),
            F.regexp_extract("event.source", _SOURCE, 1).alias("k8s_cluster_uid"),
            "event.data.*",
        )
    )
    return made.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def copies(facts: DataFrame) -> DataFrame:
    """Return which facts of one run are copies.

    Parameters
    ----------
    facts: of `facts`.

    Returns
    -------
    (row), of each copy; of facts with the same source and id exactly one is no copy, whatever their order.

    Notes
    -----
    Copies are few, and facts have fifty fields. So only hashes are exchanged to find copies, and only facts with equal
    hashes are ordered. The position orders them but is no identity: topics of two Kafka clusters may have one name.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    repeated = facts.groupBy("fact").agg(F.count("*").alias("times")).where("times > 1").select("fact")
    first = W.partitionBy("source", "event_id").orderBy("observed_at_ms", "operator_id", "seq", *_ORIGIN, "row")
    ranked = (
        facts.select("row", "fact", "source", "event_id", "observed_at_ms", "operator_id", "seq", *_ORIGIN)
        .join(repeated, on="fact", how="left_semi")
        .withColumn("rank", F.row_number().over(first))
    )
    return ranked.where("rank > 1").select("row")


def originals(facts: DataFrame, copies: DataFrame) -> DataFrame:
    """Return the facts without those that `copies` names."""
    return facts.join(copies, on="row", how="left_anti")


def _named(facts: DataFrame) -> DataFrame:
    """Add the tables' own columns: unknown values become null, times become `event_ms`, names get keys."""
    from pyspark.sql import functions as F

    early = F.when(F.col("kind") == "member.down", F.col("time_lo_ms")).otherwise(F.col("time_hi_ms"))
    known = {name: F.nullif(F.col(name), F.lit("")) for name in _EMPTY_IS_UNKNOWN}
    known |= {name: F.when(F.col(name) <= SIZE_MAX, F.col(name)) for name in _SIZES}
    # Two operators that never reached their brokers report two groups, even under one name.
    unreached = F.concat_ws("/", F.concat(F.lit("?"), "k8s_cluster_uid"), "namespace", "static_group")
    cluster = F.when(F.col("kafka_cluster_id") == "", unreached).otherwise(F.col("kafka_cluster_id"))
    # Two operators in one Kubernetes cluster that serve different namespaces do not stand in for each other.
    teller = F.concat_ws("/", "k8s_cluster_uid", F.nullif("watch_scope", F.lit("")))
    return (
        facts.withColumns(known)
        .withColumn("kafka_cluster_id", _fitting(cluster))
        .withColumn("k8s_cluster_uid", teller)
        .withColumn("event_ms", F.coalesce("source_time_ms", early, "observed_at_ms"))
        .withColumn("event_ms", F.least("event_ms", "observed_at_ms"))
        .withColumn("event_ms", F.greatest("event_ms", F.col("observed_at_ms") - SKEW_MS, F.lit(0)))
        .withColumn("group_key", F.xxhash64("kafka_cluster_id", "group_id"))
    )


def _fitting(cluster: Column) -> Column:
    """Shorten an id that is too long for a recommendation; a digest keeps it unique."""
    from pyspark.sql import functions as F

    begin = F.substring(cluster, 1, CLUSTER_ID_MAX - 65)
    return F.when(F.length(cluster) > CLUSTER_ID_MAX, F.concat(begin, F.lit("~"), F.sha2(cluster, 256))).otherwise(
        cluster
    )


def member_events(facts: DataFrame) -> DataFrame:
    """Return silver/member_events of facts."""
    from pyspark.sql import functions as F

    one = F.when(F.col("certificate").isNotNull(), F.array("certificate"))
    member = F.xxhash64("kafka_cluster_id", "group_id", "instance_id")
    members = facts.where(F.col("kind").startswith("member."))
    return _selected(
        members.withColumn("member_key", member).withColumn("certificates", F.coalesce(one, "certificates")),
        MEMBER_EVENTS,
    )


def group_events(facts: DataFrame) -> DataFrame:
    """Return silver/group_events of facts."""
    from pyspark.sql import functions as F

    return _selected(facts.where(~F.col("kind").startswith("member.") & (F.col("kind") != BEAT)), GROUP_EVENTS)


def beats(facts: DataFrame) -> DataFrame:
    """Return silver/beats of facts."""
    from pyspark.sql import functions as F

    records = facts.where(F.col("kind") == BEAT)
    return _selected(records.withColumn("interval_ms", F.coalesce("interval_ms", F.lit(30_000))), BEATS)


def days(facts: DataFrame) -> dict[str, dict[date, int]]:
    """Count facts by the table that they go to and their day there."""
    from pyspark.sql import functions as F

    is_beat = F.col("kind") == BEAT
    name = (
        F.when(F.col("kind").startswith("member."), MEMBER_EVENTS.name)
        .when(is_beat, BEATS.name)
        .otherwise(GROUP_EVENTS.name)
    )
    day = F.when(is_beat, day_column(str(BEATS.day_of))).otherwise(day_column(str(MEMBER_EVENTS.day_of)))
    found: dict[str, dict[date, int]] = {}
    for row in facts.groupBy(name.alias("name"), day.alias("day")).count().collect():
        found.setdefault(row["name"], {})[row["day"]] = row["count"]
    return found


def _selected(rows: DataFrame, table: Table) -> DataFrame:
    return rows.select(*table.names)
