"""Read both accounts of an audit with Spark: the log's from `__consumer_offsets`, the journal's from silver.

The one idea: both become plain values per group on the driver, because an audit is about single facts. Only changes and
facts reach the driver, not records: some hundreds per group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from ..intake.sessions import BEATS_MISSED_MAX
from ..sources.offsets_evidence import ChangeKind
from .compare import Account, Fact, LogChange, MemberFact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG_KINDS = (ChangeKind.FOUND, ChangeKind.REBALANCED, ChangeKind.ABSORBED, ChangeKind.REPLACED, ChangeKind.GONE)
_OF_PODS = ("member.down", "member.up")
"""Facts about pods need no read of the group, and may be recorded long after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One beat of an operator.

    Parameters
    ----------
    unreachable: StaticGroups (`<namespace>/<name>`) whose group could not be read.
    is_whole: `unreachable` names them all.
    """

    k8s_cluster_uid: str
    operator: tuple[str, str]
    at_ms: int
    interval_ms: int
    unreachable: frozenset[str] = frozenset()
    is_whole: bool = True


def log_accounts(records: DataFrame, groups: Sequence[str]) -> dict[str, list[LogChange]]:
    """Return what the log proves, by group id, in the order of the log.

    Parameters
    ----------
    records: of `__consumer_offsets`, with the columns of a Kafka source.
    groups: ids of interest.
    """
    from pyspark.sql import functions as F

    from ..sources.offsets_topic import group_changes

    changes = group_changes(records).where(F.col("kind").isin([kind.value for kind in _LOG_KINDS]))
    wanted = changes.where(F.col("group_id").isin(list(groups)))
    found: dict[str, list[LogChange]] = defaultdict(list)
    for row in sorted(wanted.collect(), key=lambda row: (row["group_id"], row["partition"], row["offset"])):
        found[row["group_id"]].append(
            LogChange(
                kind=ChangeKind(row["kind"]),
                group_type=row["group_type"],
                at_ms=row["timestamp_ms"],
                epoch=row["group_epoch"],
                epochs=row["epochs"],
                instance_id=row["instance_id"],
                member_id=row["member_id"],
                previous_member_id=row["previous_member_id"],
            )
        )
    return dict(found)


def journal_accounts(
    group_events: DataFrame, member_events: DataFrame, beats: DataFrame, *, kafka_cluster_id: str, groups: Sequence[str]
) -> dict[str, Account]:
    """Return the journal's account of each group of one Kafka cluster, by group id.

    Parameters
    ----------
    group_events, member_events, beats: the tables of silver.
    groups: ids of interest; empty means all.
    """
    from pyspark.sql import functions as F

    def mine(table: DataFrame) -> DataFrame:
        of_cluster = table.where(F.col("kafka_cluster_id") == kafka_cluster_id)
        return of_cluster.where(F.col("group_id").isin(list(groups))) if groups else of_cluster

    names = ["group_id", "kind", "event_id", "event_ms", "observed_at_ms", "time_lo_ms", "time_hi_ms",
             "k8s_cluster_uid", "namespace", "static_group"]  # fmt: skip
    of_groups = mine(group_events).select(*names, "group_epoch").collect()
    of_members = (
        mine(member_events)
        .where(~F.col("kind").isin(*_OF_PODS))
        .select(*names, "instance_id", "member_id", "outcome", "attempt", "absorbed")
        .collect()
    )
    spans = seen_spans(_beats(beats))
    rows: dict[str, list[Any]] = defaultdict(list)
    for row in (*of_groups, *of_members):
        rows[row["group_id"]].append(row)
    return {group_id: _account(each, spans) for group_id, each in rows.items()}


def _account(rows: Sequence[Any], spans: Mapping[str, Sequence[Span]]) -> Account:
    first_ms = min(row["time_lo_ms"] if row["time_lo_ms"] is not None else row["observed_at_ms"] for row in rows)
    back = {(r["instance_id"], r["member_id"], r["attempt"]) for r in rows if r["kind"] == "member.removed"
            and r["outcome"] == "Resurrected"}  # fmt: skip
    places = {(r["k8s_cluster_uid"], f"{r['namespace']}/{r['static_group']}") for r in rows}
    seen = [interval for uid, name in sorted(places) for interval in seen_by(spans.get(uid, ()), name)]
    return Account(
        facts=[
            Fact(
                event_id=r["event_id"],
                lo_ms=r["time_lo_ms"] if r["time_lo_ms"] is not None else first_ms,
                hi_ms=r["time_hi_ms"] if r["time_hi_ms"] is not None else r["event_ms"],
                epoch=r["group_epoch"],
            )
            for r in rows
            if r["kind"] == "group.rebalanced"
        ],
        removals=[
            _member_fact(r, is_claimed=(r["instance_id"], r["member_id"], r["attempt"]) not in back)
            for r in rows
            if r["kind"] == "member.removed" and r["outcome"] == "Removed"
        ],
        rejoins=[_member_fact(r, is_claimed=r["absorbed"]) for r in rows if r["kind"] == "member.rejoined"],
        seen=[(max(a, first_ms), b) for a, b in seen if b > first_ms],
    )


def _member_fact(row: Any, *, is_claimed: bool) -> MemberFact:
    return MemberFact(
        instance_id=row["instance_id"], member_id=row["member_id"], at_ms=row["event_ms"], is_claimed=is_claimed
    )


# coverage ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Two consecutive beats of one operator, and the groups that it could not read at either of them."""

    from_ms: int
    to_ms: int
    unreachable: frozenset[str]
    is_whole: bool


def seen_spans(beats: Iterable[Beat]) -> dict[str, list[Span]]:
    """Return the spans of each Kubernetes cluster in order; beats too far apart form no span."""
    found: dict[str, list[Span]] = defaultdict(list)
    in_order = sorted(beats, key=lambda b: (b.k8s_cluster_uid, b.operator, b.at_ms))
    for (uid, _), row in groupby(in_order, key=lambda b: (b.k8s_cluster_uid, b.operator)):
        each = list(row)
        for one, other in pairwise(each):
            if other.at_ms - one.at_ms <= one.interval_ms * BEATS_MISSED_MAX:
                found[uid].append(
                    Span(
                        from_ms=one.at_ms,
                        to_ms=other.at_ms,
                        unreachable=one.unreachable | other.unreachable,
                        is_whole=one.is_whole and other.is_whole,
                    )
                )
    return {uid: sorted(spans, key=lambda s: (s.from_ms, s.to_ms)) for uid, spans in found.items()}


def seen_by(spans: Iterable[Span], static_group: str) -> list[tuple[int, int]]:
    """Return when a StaticGroup (`<namespace>/<name>`) could be read, as intervals that do not touch, in order."""
    found: list[tuple[int, int]] = []
    for span in spans:
        if static_group in span.unreachable or not span.is_whole:
            continue
        if found and span.from_ms <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], span.to_ms))
        else:
            found.append((span.from_ms, span.to_ms))
    return found


def _beats(beats: DataFrame) -> list[Beat]:
    rows = beats.select(
        "k8s_cluster_uid", "operator_id", "watch_epoch", "observed_at_ms", "interval_ms", "unreachable_groups",
        "unreachable_total",
    ).collect()  # fmt: skip
    return [
        Beat(
            k8s_cluster_uid=r["k8s_cluster_uid"],
            operator=(r["operator_id"], r["watch_epoch"] or ""),
            at_ms=r["observed_at_ms"],
            interval_ms=r["interval_ms"],
            unreachable=frozenset(r["unreachable_groups"] or ()),
            is_whole=(r["unreachable_total"] or 0) <= len(r["unreachable_groups"] or ()),
        )
        for r in rows
    ]
