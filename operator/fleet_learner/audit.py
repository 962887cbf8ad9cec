"""Hold the journal against Kafka's own log of groups.

The one idea: what the coordinator wrote down needs nobody's word. `sources.offsets_evidence` says what its records prove
(rebalances, absorbed restarts, members that are gone); here both accounts are counted per group and laid side by side.
The log is compacted: of what happened before its first record of a group nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .sources.offsets_evidence import ChangeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLog:
    """What Kafka's log says about one group.

    Parameters
    ----------
    first_ms: time of its first record, Unix milliseconds.
    rebalances: steps of the generation or the group epoch after the first record.
    absorbed: instances that came back under another member.id without such a step.
    gone: static members that left, were removed or were expelled.
    """

    first_ms: int
    rebalances: int = 0
    absorbed: int = 0
    gone: int = 0


def group_logs(records: DataFrame) -> dict[str, GroupLog]:
    """Count what the log proves, per group.

    Parameters
    ----------
    records: of `__consumer_offsets`, with the columns of a Kafka source.

    Returns
    -------
    By group id.
    """
    from pyspark.sql import functions as F

    from .sources.offsets_topic import group_changes, offsets_members

    first = offsets_members(records).where(F.col("group_id").isNotNull()).groupBy("group_id")
    found = first.agg(F.min("timestamp_ms").alias("first_ms"))
    kind = F.col("kind")
    counted = (
        group_changes(records)
        .groupBy("group_id")
        .agg(
            F.sum(F.when(kind == ChangeKind.REBALANCED.value, F.col("epochs"))).alias("rebalances"),
            F.count_if(kind == ChangeKind.ABSORBED.value).alias("absorbed"),
            F.count_if(kind == ChangeKind.GONE.value).alias("gone"),
        )
    )
    rows = found.join(counted, on="group_id", how="left").na.fill(0).collect()
    return {
        row["group_id"]: GroupLog(
            first_ms=row["first_ms"], rebalances=row["rebalances"], absorbed=row["absorbed"], gone=row["gone"]
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One group in both accounts.

    Parameters
    ----------
    log: what Kafka's log says; None when the log does not know the group.
    rebalances, removals: what the journal says since the log's first record of the group.
    """

    group_id: str
    log: GroupLog | None
    rebalances: int
    removals: int

    @property
    def agrees(self) -> bool:
        """Say whether the rebalances are the same number, and no more members were removed than are gone."""
        return self.log is not None and self.log.rebalances == self.rebalances and self.removals <= self.log.gone


def compare(
    logs: Mapping[str, GroupLog],
    rebalances_ms: Mapping[str, Iterable[int]],
    removals_ms: Mapping[str, Iterable[int]],
) -> list[Finding]:
    """Hold the journal of one Kafka cluster against its log.

    Parameters
    ----------
    rebalances_ms, removals_ms: when the journal saw them, by group id, Unix milliseconds.

    Returns
    -------
    list[Finding]
        One per group of the journal, by group id. What the journal saw before the log's first record does not count.
    """
    found = []
    for group_id in sorted({*rebalances_ms, *removals_ms}):
        log = logs.get(group_id)
        since_ms = log.first_ms if log is not None else 0
        found.append(
            Finding(
                group_id=group_id,
                log=log,
                rebalances=sum(at > since_ms for at in rebalances_ms.get(group_id, ())),
                removals=sum(at > since_ms for at in removals_ms.get(group_id, ())),
            )
        )
    return found
