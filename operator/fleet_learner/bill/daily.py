"""Keep the bill of a Kafka cluster from day to day: each run reads new records of `__consumer_offsets`.

Why: the topic is compacted, so the commits that measure a standstill disappear after a while; the bill of a month has
to be computed during the month. The one idea: group records are few and are all kept, because the members of a group
are known only from all of them; commits are many and are read again from the last midnight on, or from the midnight
before the earliest open silence. A later run replaces all rows of a day.

Each log has a lake of its own, with numbered runs like those of the journal's tables: a killed run is repeated from its
plan, and an unreadable log does not delay the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from fleet_learner.days.facts import DAY_MS
from fleet_learner.errors import SourceError
from fleet_learner.lake import Lake, Plan, Published, Written

from .account import CONTEXT_MS, bills
from .cause_rows import causes
from .commits import COMMIT, group_of_key, offset_commits
from .job import keeping
from .schemas import BILL_SLICES, GROUP_RECORDS, STANDSTILLS
from .silences import GROUP
from .standstills import KNOWN, standstills

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fleet_learner.schemas import Table

    from .log import OffsetsLog

FOLDER: Final = "offsets"
TABLES: Final = (GROUP_RECORDS, STANDSTILLS, BILL_SLICES)
OPEN_DAYS_MAX: Final = 3
"""An open silence is awaited for so many days: the partition may never see a commit again."""
_ANEW: Final = "give its entry below offsets_logs another name, under which it is read from its beginning"
_LOG: Final = "log"
_NEXT: Final = "next_from_ms"
OnStep = Callable[[str], None]


def bill_lake(journal: Lake, name: str) -> Lake:
    """Return the tables of one log, below those of the journal.

    Parameters
    ----------
    name: of the log in the configuration.
    """
    return Lake(journal.spark, f"{journal.root}/{FOLDER}/{name}")


def take_in(lake: Lake, log: OffsetsLog, *, now_ms: int, keep_days: int, on_step: OnStep = lambda _: None) -> Published:
    """Measure the new records of a log, and publish the result.

    Parameters
    ----------
    now_ms: time of this run; a run that continues an unfinished plan keeps the plan's time.
    keep_days: how long a group record is kept after a newer record of its key has replaced it.

    Returns
    -------
    The new run; the last one when the log has no new record.

    Raises
    ------
    ConflictError: another writer published this number.
    SourceError: the log is not the one that earlier runs read.
    """
    before = lake.runs.latest()
    plan = lake.runs.unfinished()
    if plan is None:
        plan = _new_plan(before, log, now_ms)
        if before is not None and plan.sources[_LOG]["start"] == plan.sources[_LOG]["end"]:
            return before
        lake.runs.begin(plan)
    else:
        _assert_same_log(plan, log)
    with keeping() as keep:
        written, counts = _write(lake, log, plan, before, keep_days, keep, on_step)
    tables = {
        table.name: lake.state(table, each.version) for table, each in written.items() if each.version is not None
    }
    published = Published(plan=plan, tables=tables, counts=counts)
    lake.runs.publish(published)
    return published


def _new_plan(before: Published | None, log: OffsetsLog, now_ms: int) -> Plan:
    ends = _texts(log.ends)
    if before is None:
        start, since_ms, read = {}, 0, _texts(log.starts)
    else:
        start, since_ms = before.plan.sources[_LOG]["end"], before.counts[_NEXT]
        _assert_same_log(before.plan, log)
        again = log.offsets_at(max(0, since_ms - CONTEXT_MS))
        read = {p: min(start.get(p, log.starts[int(p)]), again[int(p)]) for p in ends}
    settings = {
        "kafka_cluster_id": log.kafka_cluster_id,
        "topic_id": _topic_id(before, log),
        "since_ms": since_ms,
        "read": read,
    }
    number = 0 if before is None else before.number + 1
    return Plan(number=number, as_of_ms=now_ms, sources={_LOG: {"start": start, "end": ends}}, settings=settings)


def _assert_same_log(plan: Plan, log: OffsetsLog) -> None:
    """Refuse a log other than the plan's, whether the plan is of an earlier run or of an unfinished one."""
    known = plan.settings["kafka_cluster_id"]
    if known != log.kafka_cluster_id:
        raise SourceError(f"{log.topic} is of the Kafka cluster {log.kafka_cluster_id}, and was of {known}: {_ANEW}")
    topic_id = plan.settings.get("topic_id")  # runs of earlier versions noted none
    if None not in (topic_id, log.topic_id) and topic_id != log.topic_id:
        raise SourceError(f"{log.topic} was made again since it was read: {_ANEW}")
    if len(log.ends) != len(plan.sources[_LOG]["end"]):
        raise SourceError(
            f"{log.topic} has another number of partitions than before, and a group's records lie in two of them now: "
            f"{_ANEW}"
        )
    shorter = [p for p, end in plan.sources[_LOG]["end"].items() if log.ends.get(int(p), 0) < end]
    if shorter:
        raise SourceError(
            f"{log.topic} ends before what was read of partition {shorter[0]}: it was made again; {_ANEW}"
        )


def _topic_id(before: Published | None, log: OffsetsLog) -> str | None:
    """Return the topic's id; the previous run's id if the brokers do not report it this time."""
    known: str | None = before.plan.settings.get("topic_id") if before is not None else None
    return log.topic_id or known


def _write(
    lake: Lake,
    log: OffsetsLog,
    plan: Plan,
    before: Published | None,
    keep_days: int,
    keep: Callable[[DataFrame], DataFrame],
    on_step: OnStep,
) -> tuple[dict[Table, Written], dict[str, int]]:
    """Write the tables of a run; each is a function of the plan, of earlier tables and of the log."""
    from pyspark.sql import functions as F

    since_ms, number, cluster = plan.settings["since_ms"], plan.number, plan.settings["kafka_cluster_id"]
    records = keep(log.records(lake.spark, _numbers(plan.settings["read"]), _numbers(plan.sources[_LOG]["end"])))
    new = _group_rows(records).where(_is_after(plan.sources[_LOG]["start"]))
    old = lake.published(GROUP_RECORDS, before)
    kept = _worth_keeping(old.unionByName(new), plan.as_of_ms - keep_days * DAY_MS)
    written = {GROUP_RECORDS: lake.overwrite(GROUP_RECORDS, kept, run=number)}
    on_step(f"{GROUP_RECORDS.name}: {written[GROUP_RECORDS].rows} rows")

    every = keep(offset_commits(records))
    commits = every.where((F.col("kind") == COMMIT) & (F.col("timestamp_ms") >= since_ms - CONTEXT_MS))
    caused = keep(causes(_as_records(lake.read(GROUP_RECORDS, written[GROUP_RECORDS].version), log.topic)))
    stood = standstills(commits, caused, cluster, keep=keep).where(F.col("from_ms") >= since_ms)
    stood = _best_of(keep(stood), lake.published(STANDSTILLS, before, since_ms=since_ms))
    written[STANDSTILLS] = lake.replace_since(STANDSTILLS, stood, since_ms=since_ms, run=number)
    on_step(f"{STANDSTILLS.name}: {written[STANDSTILLS].rows} rows")

    measured = keep(lake.read(STANDSTILLS, written[STANDSTILLS].version, since_ms=since_ms))
    earlier = None if before is None else lake.published(BILL_SLICES, before, since_ms=since_ms)
    newest_ms = records.agg(F.max(F.unix_millis("timestamp"))).collect()[0][0]
    heard_ms = min(plan.as_of_ms, plan.as_of_ms if newest_ms is None else newest_ms)
    slices = _slices(commits, caused, measured, plan, earlier, heard_ms)
    written[BILL_SLICES] = lake.replace_since(BILL_SLICES, slices, since_ms=since_ms, run=number)
    on_step(f"{BILL_SLICES.name}: {written[BILL_SLICES].rows} rows")
    bad = every.where(F.col("kind") != COMMIT).count()
    return written, {_NEXT: _next_from_ms(measured, heard_ms), "bad_records": bad}


def _group_rows(records: DataFrame) -> DataFrame:
    """Return bronze/group_records of the records that were read."""
    from pyspark.sql import functions as F

    from fleet_learner.sources.offsets_topic import group_records

    return group_records(records).select(
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        group_of_key("key").alias("group_id"),
        "key",
        "value",
    )


def _is_after(start: Mapping[str, int]) -> Any:
    """Return whether a row lies at or behind the end of the previous run."""
    from pyspark.sql import functions as F

    if not start:
        return F.lit(True)
    pairs = [part for p, offset in sorted(start.items()) for part in (F.lit(int(p)), F.lit(offset))]
    return F.col("log_offset") >= F.coalesce(F.create_map(*pairs)[F.col("log_partition")], F.lit(0))


def _worth_keeping(rows: DataFrame, oldest_ms: int) -> DataFrame:
    """Drop what Kafka's compaction would drop: old records that are not the last of their key, and old tombstones.

    The last old record of each key is kept, too: only it shows that the window's first record is a change.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    of_key = W.partitionBy("log_partition", "key").orderBy(F.col("log_offset").desc())
    is_old = F.col("timestamp_ms") < oldest_ms
    of_age = W.partitionBy("log_partition", "key", "is_old").orderBy(F.col("log_offset").desc())
    is_dead = (F.row_number().over(of_key) == 1) & F.col("value").isNull()
    return (
        rows.withColumn("is_old", is_old)
        .withColumn("is_base", (F.row_number().over(of_age) == 1) & ~is_dead)
        .where(~F.col("is_old") | F.col("is_base"))
        .select(*GROUP_RECORDS.names)
    )


def _as_records(rows: DataFrame, topic: str) -> DataFrame:
    """Give kept records the columns of a Kafka source again."""
    from pyspark.sql import functions as F

    return rows.select(
        "key",
        "value",
        F.lit(topic).alias("topic"),
        F.col("log_partition").alias("partition"),
        F.col("log_offset").alias("offset"),
        F.timestamp_millis("timestamp_ms").alias("timestamp"),
    )


def _best_of(new: DataFrame, old: DataFrame) -> DataFrame:
    """Keep an earlier run's measurements if the log no longer holds the commits behind them."""
    from pyspark.sql import functions as F

    key, is_known = list(STANDSTILLS.key), F.col("evidence").isin(*KNOWN)
    kept = old.where(is_known).join(new.where(is_known).select(*key), key, "left_anti")
    return new.join(kept.select(*key), key, "left_anti").unionByName(kept).select(*STANDSTILLS.names)


def _slices(
    commits: DataFrame, caused: DataFrame, stood: DataFrame, plan: Plan, earlier: DataFrame | None, heard_ms: int
) -> DataFrame:
    """Compute a bill for the finished days, and one for the current day.

    Parameters
    ----------
    earlier: slices of the previous run, from the start of this one; None: there was no previous run.
    heard_ms: time of the newest record, where the next run begins.
    """
    from pyspark.sql import functions as F

    cluster = plan.settings["kafka_cluster_id"]
    groups = commits.select(*GROUP).union(caused.select(*GROUP)).distinct()
    begun = [] if earlier is None else [row[0] for row in earlier.select("slice_from_ms").distinct().collect()]
    since_ms, today_ms = plan.settings["since_ms"], plan.as_of_ms // DAY_MS * DAY_MS
    if since_ms == 0:
        first_ms = commits.agg(F.min("timestamp_ms")).collect()[0][0]
        since_ms = today_ms if first_ms is None else min(first_ms // DAY_MS * DAY_MS, today_ms)
    made = None
    for from_ms, to_ms in bounds(since_ms, plan.as_of_ms, heard_ms, begun):
        each = bills(
            commits.where(F.col("timestamp_ms").between(from_ms - CONTEXT_MS, to_ms - 1)),
            caused.where(F.col("at_ms") < to_ms),
            stood.where(F.col("from_ms").between(from_ms, to_ms - 1)),
            cluster,
            from_ms=from_ms,
            # Group records are kept from the first run on, so none is missing since the first log was complete.
            known_from=None if earlier is None else _known_from(earlier, groups, from_ms),
        )
        slice_ = each.withColumn("slice_from_ms", F.lit(from_ms).cast("bigint")).withColumn(
            "slice_to_ms", F.lit(to_ms).cast("bigint")
        )
        made = slice_ if made is None else made.unionByName(slice_)
    assert made is not None
    return (made if earlier is None else _as_full_as_before(made, earlier)).select(*BILL_SLICES.names)


def _known_from(earlier: DataFrame, groups: DataFrame, from_ms: int) -> DataFrame:
    """Return (log_partition, covered_from_ms) of a slice as in the previous run: compacted records stay lost."""
    from pyspark.sql import functions as F

    same = earlier.where(F.col("slice_from_ms") == from_ms).select("group_id", "covered_from_ms")
    return same.join(groups, ["group_id"], "inner").groupBy("log_partition").agg(
        F.min("covered_from_ms").alias("covered_from_ms")
    )  # fmt: skip


def _as_full_as_before(slices: DataFrame, earlier: DataFrame) -> DataFrame:
    """Keep the highest count of commits of a slice that any run saw, and groups that were deleted since.

    Compaction removes records, after a group's tombstones all of them, and never brings one back.
    """
    from pyspark.sql import functions as F

    key = list(BILL_SLICES.key)
    rest = [name for name in BILL_SLICES.names if name not in key]
    now, before = (
        each.select(*key, F.struct(*rest).alias(name)) for each, name in ((slices, "now"), (earlier, "before"))
    )
    kept = now.join(before, key, "full").withColumn("kept", F.coalesce("now", "before"))
    most = {name: F.greatest(f"now.{name}", f"before.{name}").alias(name) for name in ("commits", "partitions")}
    return kept.select(*key, *(most.get(name, F.col(f"kept.{name}")) for name in rest))


def bounds(since_ms: int, as_of_ms: int, heard_ms: int, begun: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the slices of a run, from the midnight of its start to the midnight after its end: (from, to), half-open.

    A later run reads again from a midnight up to `OPEN_DAYS_MAX` days before the newest record. Existing slices keep
    their start: a slice must begin there, or two slices would cover the same time.

    Parameters
    ----------
    since_ms, as_of_ms, heard_ms: start and end of the run, and the time of its newest record, Unix milliseconds.
    begun: starts of the previous run's slices.
    """
    today_ms, heard_day_ms = as_of_ms // DAY_MS * DAY_MS, heard_ms // DAY_MS * DAY_MS
    end_ms = max(since_ms, today_ms) + DAY_MS
    again = range(heard_day_ms - OPEN_DAYS_MAX * DAY_MS, heard_day_ms + DAY_MS, DAY_MS)
    yield from pairwise([since_ms, *sorted(at_ms for at_ms in {*again, *begun} if since_ms < at_ms < end_ms), end_ms])


def _next_from_ms(measured: DataFrame, newest_ms: int) -> int:
    """Return the midnight from which the next run reads again; never later than the log's newest record."""
    from pyspark.sql import functions as F

    as_of_ms = newest_ms
    oldest_ms = as_of_ms - OPEN_DAYS_MAX * DAY_MS
    is_waited_for = F.col("to_offset").isNull() & (F.col("from_ms") >= oldest_ms)
    earliest_ms = measured.where(is_waited_for).agg(F.min("from_ms")).collect()[0][0]
    return min(as_of_ms, as_of_ms if earliest_ms is None else earliest_ms) // DAY_MS * DAY_MS


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}
