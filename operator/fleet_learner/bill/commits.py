"""Decode all offset commits of `__consumer_offsets` with column functions, in the JVM.

Why: nearly all records of that topic are commits, some hundred thousand a second in a large fleet; a decoder in Python
would be the slowest part of a run. The one idea: the preceding lengths give the position of every field, so a commit is
a handful of `substring`s, and the total size checks the lengths. `commit.py` does the same in plain Python. Of the
tagged fields of version 4 only a topic id without other fields is read, as today's brokers write it; others are
skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .commit import COMMIT_KEY_TYPES, HIGHEST_VERSION
from .schemas import OFFSET_COMMITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMMIT: Final = "OFFSET_COMMIT"
UNKNOWN: Final = "UNKNOWN"
BAD: Final = "BAD"
_STRING_MAX: Final = 32767
_INT16: Final = 2**15
_INT32: Final = 2**31


def offset_commits(records: DataFrame) -> DataFrame:
    """Decode the offset commits among the records of the topic.

    Parameters
    ----------
    records: of this topic, with the columns of a Kafka source.

    Returns
    -------
    bronze/offset_commits. A value of an unknown version has the kind UNKNOWN; a broken record has the kind BAD and only
    its position. Both are rows, so that they are counted.
    """
    from pyspark.sql import functions as F

    commits = records.where(_unsigned("key", F.lit(1), 2).isin(*COMMIT_KEY_TYPES)).select(
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
    )
    decoded = _with_value(_with_key(commits))
    is_good = F.col("is_key_good") & F.coalesce("is_value_good", F.lit(True))
    known = [
        F.when(is_good, F.col(column.name)).alias(column.name)
        for column in OFFSET_COMMITS.columns
        if column.name not in _PLACE
    ]
    is_unknown = F.col("value_version").isNotNull() & ~F.col("value_version").between(0, HIGHEST_VERSION)
    kind = F.when(~is_good, BAD).when(is_unknown, UNKNOWN).otherwise(COMMIT)
    return decoded.select(
        "log_partition", "log_offset", "timestamp_ms", kind.alias("kind"), F.isnull("value").alias("tombstone"), *known
    ).select(*OFFSET_COMMITS.names)


_PLACE: Final = frozenset({"log_partition", "log_offset", "timestamp_ms", "kind", "tombstone"})


def group_of_key(name: str) -> Column:
    """Return the group id of a key, the first field after the type in every key; null if it is not UTF-8."""
    from pyspark.sql import functions as F

    return _text(name, F.lit(5), _unsigned(name, F.lit(3), 2))


def _with_key(commits: DataFrame) -> DataFrame:
    """Add group_id, topic, partition and whether the key keeps to its layout."""
    from pyspark.sql import functions as F

    group_end = F.lit(5) + F.col("group_length")
    topic_end = group_end + 2 + F.col("topic_length")
    return (
        commits.withColumn("group_length", _unsigned("key", F.lit(3), 2))
        .withColumn("topic_length", _unsigned("key", group_end, 2))
        .withColumns(
            {
                "group_id": _text("key", F.lit(5), F.col("group_length")),
                "topic": _text("key", group_end + 2, F.col("topic_length")),
                "partition": _signed("key", topic_end, 4).cast("int"),
                "is_key_good": F.coalesce(
                    (F.length("key") == topic_end + 3)
                    & (F.col("group_length") <= _STRING_MAX)
                    & (F.col("topic_length") <= _STRING_MAX),
                    F.lit(False),
                ),
            }
        )
        .withColumn("is_key_good", F.col("is_key_good") & F.col("group_id").isNotNull() & F.col("topic").isNotNull())
    )


def _with_places(commits: DataFrame) -> DataFrame:
    """Add the value's version, the start of its parts and the length of its metadata."""
    from pyspark.sql import functions as F

    version = F.col("value_version")
    is_flexible = version == HIGHEST_VERSION
    fixed = _unsigned("value", F.col("length_at"), 2)
    after = F.col("metadata_at") + F.col("metadata_length")
    return (
        commits.withColumn("value_version", _signed("value", F.lit(1), 2).cast("int"))
        .withColumn("length_at", F.when(version < 3, 11).otherwise(15))
        .withColumn("varint", F.when(is_flexible, _varint("value", F.col("length_at"))))
        .withColumn("metadata_at", F.col("length_at") + F.coalesce(F.col("varint.size"), F.lit(2)))
        .withColumn("metadata_length", F.when(is_flexible, F.col("varint.number") - 1).otherwise(fixed))
        .withColumn("stamp_at", after)
        .withColumn("end", (after + F.when(version == 1, 16).otherwise(8)).cast("int"))
        .withColumn("has_topic_id", is_flexible & (F.hex(F.substring("value", F.col("end"), F.lit(3))) == "010010"))
    )


def _with_value(commits: DataFrame) -> DataFrame:
    """Add the fields of the value and whether it keeps to its layout; null of a tombstone or an unknown version."""
    from pyspark.sql import functions as F

    version = F.col("value_version")
    is_known = version.between(0, HIGHEST_VERSION)
    size = F.length("value") - F.col("end") + 1
    is_size_good = (
        F.when(version < HIGHEST_VERSION, size == 0)
        .when(_unsigned("value", F.col("end"), 1) == 0, size == 1)
        .when(F.col("has_topic_id"), size == 19)
        .otherwise(size > 1)
    )
    is_text_good = F.col("metadata_length").between(0, _STRING_MAX) & F.col("metadata").isNotNull()
    topic_id = F.translate(F.base64(F.substring("value", F.col("end") + 3, F.lit(16))), "+/=", "-_")
    is_good = (
        F.when(F.col("value").isNull(), True)
        .when(version.isNull() | (F.length("value") < 2), False)
        .when(~is_known, True)
        .otherwise(F.coalesce(is_size_good & is_text_good, F.lit(False)))
    )
    fields = {
        "committed_offset": F.when(is_known, _signed("value", F.lit(3), 8)),
        "leader_epoch": F.when(is_known & (version >= 3), _signed("value", F.lit(11), 4).cast("int")),
        "metadata": F.when(is_known, _text("value", F.col("metadata_at"), F.col("metadata_length"))),
        "commit_ms": F.when(is_known, _signed("value", F.col("stamp_at"), 8)),
        "expire_ms": F.when(version == 1, _signed("value", F.col("stamp_at") + 8, 8)),
        "topic_id": F.when(F.col("has_topic_id"), topic_id),
    }
    return _with_places(commits).withColumns(fields).withColumn("is_value_good", is_good)


def _unsigned(name: str, at: Column, size: int) -> Column:
    """Take a number of so many bytes; if the bytes end early, the check of the total size fails."""
    from pyspark.sql import functions as F

    return F.conv(F.hex(F.substring(name, at, F.lit(size))), 16, 10).cast("bigint")


def _signed(name: str, at: Column, size: int) -> Column:
    """Take a number in two's complement."""
    from pyspark.sql import functions as F

    part = F.hex(F.substring(name, at, F.lit(size)))
    if size == 8:
        return F.conv(part, 16, -10).cast("bigint")
    number = F.conv(part, 16, 10).cast("bigint")
    half = {2: _INT16, 4: _INT32}[size]
    return F.when(number < half, number).otherwise(number - 2 * half)


def _text(name: str, at: Column, length: Column) -> Column:
    """Take a string; null where it is not UTF-8."""
    from pyspark.sql import functions as F

    return F.try_validate_utf8(F.substring(name, at.cast("int"), length.cast("int")).cast("string"))


def _varint(name: str, at: Column) -> Column:
    """Take an unsigned varint of at most three bytes, which is more than a string may have: `number` and `size`."""
    from pyspark.sql import functions as F

    first, second, third = (_unsigned(name, at + n, 1) for n in range(3))
    one = F.struct(first.alias("number"), F.lit(1).alias("size"))
    two = F.struct((first - 128 + second * 128).alias("number"), F.lit(2).alias("size"))
    three = F.struct((first - 128 + (second - 128) * 128 + third * 16384).alias("number"), F.lit(3).alias("size"))
    return F.when(first < 128, one).when(second < 128, two).when(third < 128, three)
