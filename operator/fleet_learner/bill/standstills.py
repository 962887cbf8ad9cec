"""Measure how long a partition stood still around each rebalance and absence: silver/standstills.

Definition: the silence from the last commit before the cause to the first commit with progress after it, less the usual
silence of the partition; known to ± one usual silence, because no record shows the work between two commits. Several
causes in one silence are one standstill: no second of a partition is billed twice.

A partition without new records makes no progress either. So a silence is billed only if the commits distinguish idle
from stopped: the partition makes progress regularly (evidence PROGRESS), or its consumer commits the same offset again
and again while it lives (LIVE_COMMITS: the time without any commit is billed, a lower bound), or the silence is more
than twice as long as any of the many silences nearby (LONG_SILENCE, minus the longest of them). All other standstills
are unknown, and `evidence` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from .causes import CauseKind
from .restarts import RETURN_MAX_MS
from .schemas import STANDSTILLS
from .silences import GROUP, PARTITION, numbered, silences, steps
from .usual import HOUR_MS, REGULAR, usual_silences

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Evidence(StrEnum):
    """Name the evidence of a standstill, or why it is not known.

    PROGRESS, LIVE_COMMITS, LONG_SILENCE: known. The others: IDLE_OR_STOPPED (commits come irregularly, with progress
    only), TOO_FEW (commits nearby), COMPACTED (commits may be missing), OFFSET_DELETED (it was deleted meanwhile), OPEN
    (the log ends before the first progress), GROUP_EMPTY (the group had no members for so long that this may be
    intended).
    """

    PROGRESS = "Progress"
    LIVE_COMMITS = "LiveCommits"
    LONG_SILENCE = "LongSilence"
    IDLE_OR_STOPPED = "IdleOrStopped"
    TOO_FEW = "TooFew"
    COMPACTED = "Compacted"
    OFFSET_DELETED = "OffsetDeleted"
    OPEN = "Open"
    GROUP_EMPTY = "GroupEmpty"


KNOWN: Final = (Evidence.PROGRESS.value, Evidence.LIVE_COMMITS.value, Evidence.LONG_SILENCE.value)


class Role(StrEnum):
    """Name the owner of the partition before the rebalance.

    CAUSE: a member that departed or was replaced. MOVED: another member, which had to give it up. KEPT: another member,
    which kept it. UNKNOWN: the log does not name the owners.
    """

    CAUSE = "Cause"
    MOVED = "Moved"
    KEPT = "Kept"
    UNKNOWN = "Unknown"


def as_is(frame: DataFrame) -> DataFrame:
    """Return a frame without persisting it."""
    return frame


def standstills(
    commits: DataFrame, causes: DataFrame, kafka_cluster_id: str, *, keep: Callable[[DataFrame], DataFrame] = as_is
) -> DataFrame:
    """Measure the standstills of all groups.

    Parameters
    ----------
    commits: bronze/offset_commits. A later run reads again from an hour before the earliest open silence.
    causes: silver/causes, from the beginning of each group.
    kafka_cluster_id: id of the topic's cluster; the records do not contain it.
    keep: receives each frame that is used several times, to persist it; results do not depend on it.

    Returns
    -------
    silver/standstills: each silence with a rebalance, and each other silence that interrupted a partition or belongs to
    a replaced member. An open silence keeps its key when it is closed.
    """
    from pyspark.sql import functions as F

    in_order = keep(numbered(causes))
    every = keep(steps(commits, in_order))
    cut = keep(silences(every))
    hour = F.floor(F.col("from_ms") / HOUR_MS).cast("bigint")
    caused = cut.where("has_cause").withColumn("hour", hour)
    learned = caused.join(usual_silences(every, cut), [*PARTITION, "hour"], "left")
    judged = _measured(_with_roles(_with_causes(learned, in_order), in_order, keep(_topic_names(commits))))
    is_wanted = (F.col("rebalances") > 0) | F.col("is_interrupted") | (F.col("role") == Role.CAUSE.value)
    return (
        judged.where(is_wanted)
        .withColumn("kafka_cluster_id", F.lit(kafka_cluster_id))
        .withColumn("advanced", F.col("committed_offset") - F.col("committed_offset_before"))
        .select(*STANDSTILLS.names)
    )


# causes --------------------------------------------------------------------------------------------------------------


def _with_causes(silences: DataFrame, causes: DataFrame) -> DataFrame:
    """Add the causes of each silence: sums up to its last cause, minus the sums before its first one."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    so_far = W.partitionBy(*GROUP).orderBy("number").rowsBetween(W.unboundedPreceding, 0)
    kinds = [kind.value for kind in CauseKind]
    own = F.array(*(F.when(F.col("kind") == kind, 1).otherwise(0) for kind in kinds))
    sums = F.array(*(F.sum(F.when(F.col("kind") == kind, 1).otherwise(0)).over(so_far) for kind in kinds))
    counted = causes.select(
        *GROUP, "number", "log_offset", "group_epoch", "group_type", "rebalances", own.alias("own"), sums.alias("sums"),
        F.sum("rebalances").over(so_far).alias("all_rebalances"),
        F.sum(F.col("knows_owners").cast("int")).over(so_far).alias("owners_known"),
        F.col("knows_owners").cast("int").alias("own_known"),
    )  # fmt: skip
    first = counted.select(
        *GROUP,
        F.col("number").alias("first_number"),
        F.col("log_offset").alias("cause_offset"),
        F.zip_with("sums", "own", lambda a, b: a - b).alias("sums_before"),
        (F.col("all_rebalances") - F.col("rebalances")).alias("rebalances_before"),
        (F.col("owners_known") - F.col("own_known")).alias("known_before"),
    )
    last = counted.select(
        *GROUP, F.col("number").alias("last_number"), "group_epoch", "group_type", "sums", "all_rebalances",
        "owners_known",
    )  # fmt: skip
    joined = silences.join(first, [*GROUP, "first_number"], "inner").join(last, [*GROUP, "last_number"], "inner")
    named = F.transform(
        F.zip_with("sums", "sums_before", lambda a, b: a - b),
        lambda count, i: F.when(count > 0, F.element_at(F.array(*map(F.lit, kinds)), i + 1)),
    )
    return joined.withColumns(
        {
            "causes": F.filter(named, lambda kind: kind.isNotNull()),
            "rebalances": F.col("all_rebalances") - F.col("rebalances_before"),
            "knows_owners": F.col("owners_known") > F.col("known_before"),
        }
    )


def _topic_names(commits: DataFrame) -> DataFrame:
    """Return the topics by id, as far as commits name both: KIP-848 assigns by id, commits go by name."""
    from pyspark.sql import functions as F

    named = commits.where(F.col("topic_id").isNotNull()).select("topic_id", "topic").distinct()
    return named.groupBy("topic_id").agg(F.max("topic").alias("named"))


def _with_roles(silences: DataFrame, causes: DataFrame, topics: DataFrame) -> DataFrame:
    """Add the role of the partition's owner."""
    from pyspark.sql import functions as F

    found = silences.join(_named_by_causes(causes, topics), [*PARTITION], "left").withColumns(
        {f"is_{name}": F.coalesce(F.exists(f"{name}_at", _is_in_silence), F.lit(False)) for name in _NAMED}
    )
    has_names = (F.col("group_type") == "Classic") | F.col("is_named")
    ids = topics.select(F.col("named").alias("topic"), F.lit(True).alias("is_named")).distinct()
    role = (
        F.when(F.col("is_caused"), Role.CAUSE.value)
        .when(F.col("is_moved"), Role.MOVED.value)
        .when(F.col("knows_owners") & F.coalesce(has_names, F.lit(False)), Role.KEPT.value)
        .otherwise(Role.UNKNOWN.value)
    )
    return found.join(F.broadcast(ids), ["topic"], "left").withColumn("role", role)


_NAMED: Final = ("caused", "moved")
_PARTITION: Final = "^(.*)-([0-9]{1,9})$"


def _is_in_silence(number: Column) -> Column:
    from pyspark.sql import functions as F

    return number.between(F.col("first_number"), F.col("last_number"))


def _named_by_causes(causes: DataFrame, topics: DataFrame) -> DataFrame:
    """Return for each partition the numbers of the causes that name it: `caused_at`, `moved_at`."""
    from pyspark.sql import functions as F

    def tagged(name: str) -> Column:
        return F.transform(name, lambda text: F.struct(F.lit(name).alias("how"), text.alias("text")))

    each = causes.select(*GROUP, "number", F.explode(F.concat(*map(tagged, _NAMED))).alias("each"))
    split = each.where(F.col("each.text").rlike(_PARTITION)).select(
        *GROUP,
        "number",
        "each.how",
        F.regexp_extract("each.text", _PARTITION, 1).alias("topic_id"),
        F.regexp_extract("each.text", _PARTITION, 2).cast("int").alias("partition"),
    )
    topic = F.coalesce("named", "topic_id").alias("topic")
    return (
        split.join(F.broadcast(topics), ["topic_id"], "left")
        .groupBy(*GROUP, topic, "partition")
        .agg(*(F.collect_set(F.when(F.col("how") == name, F.col("number"))).alias(f"{name}_at") for name in _NAMED))
    )


# measure -------------------------------------------------------------------------------------------------------------


def _measured(silences: DataFrame) -> DataFrame:
    """Add evidence, standstill and margin."""
    from pyspark.sql import functions as F

    silence_ms = F.greatest(F.col("to_ms") - F.col("from_ms"), F.lit(0))
    by_progress = F.when(silence_ms > F.col("longest_usual_ms"), silence_ms - F.col("usual_ms")).otherwise(0)
    by_commits = F.aggregate(
        F.filter("pauses", lambda pause: pause > F.col("live_longest_ms")),
        F.lit(0).cast("bigint"),
        lambda total, pause: total + pause - F.col("live_usual_ms"),
    )
    found = {
        Evidence.PROGRESS: (by_progress, F.col("usual_ms")),
        Evidence.LIVE_COMMITS: (by_commits, F.col("live_usual_ms")),
        Evidence.LONG_SILENCE: (silence_ms - F.col("record_ms"), F.col("record_ms")),
    }

    def chosen(which: int) -> Column:
        return F.coalesce(*(F.when(F.col("evidence") == name.value, pair[which]) for name, pair in found.items()))

    return (
        silences.withColumn("silence_ms", silence_ms)
        .withColumn("evidence", _evidence())
        .withColumns({"standstill_ms": chosen(0).cast("bigint"), "margin_ms": chosen(1)})
        .withColumn("is_interrupted", F.coalesce(F.col("standstill_ms") > 0, F.lit(False)))
    )


def _evidence() -> Column:
    from pyspark.sql import functions as F

    is_regular = F.col("longest_usual_ms") <= REGULAR * F.col("usual_ms")
    tail_ms = F.col("to_ms") - F.col("heard_ms")
    is_long = F.coalesce(F.col("silence_ms") > RETURN_MAX_MS, F.lit(True))
    is_longer = F.col("silence_ms") > REGULAR * F.col("record_ms")
    return _first(
        (~F.col("is_whole"), Evidence.COMPACTED),
        (F.col("is_deleted"), Evidence.OFFSET_DELETED),
        (F.col("heard_ms").isNull(), Evidence.OPEN),
        (F.array_contains("causes", CauseKind.EMPTIED.value) & is_long, Evidence.GROUP_EMPTY),
        (is_regular & (tail_ms <= F.col("longest_usual_ms")), Evidence.PROGRESS),
        (F.col("live_longest_ms") <= REGULAR * F.col("live_usual_ms"), Evidence.LIVE_COMMITS),
        (F.col("to_ms").isNull(), Evidence.OPEN),
        (is_longer & (tail_ms <= F.col("record_ms")), Evidence.LONG_SILENCE),
        (F.col("usual_ms").isNull() & F.col("live_usual_ms").isNull(), Evidence.TOO_FEW),
        default=Evidence.IDLE_OR_STOPPED,
    )


def _first(*rules: tuple[Column, Evidence], default: Evidence) -> Column:
    """Return the evidence of the first rule that holds; a null rule does not hold."""
    from pyspark.sql import functions as F

    chain: Any = F
    for holds, evidence in rules:
        chain = chain.when(F.coalesce(holds, F.lit(False)), evidence.value)
    found: Column = chain.otherwise(default.value)
    return found
