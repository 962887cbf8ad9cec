"""Build a report from values of the tables: all groups, and details of those worth acting on.

The one idea: plain values in, one `Report` out; no Spark, no files, no clock. The curves of a page use the same outages
and prices as the recommendation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_learner.estimates.cost import (
    CostRates,
    dynamic_cost_per_day,
    evictions_per_day,
    ghost_seconds_per_day,
    return_hazard,
)
from fleet_learner.estimates.kaplan_meier import SurvivalCurve, kaplan_meier, log_log_band
from journal.recommendations import PriceSource, Recommendation

from .advice.clusters import advise_clusters
from .advice.groups import advise
from .curves import CostPoint, HazardPoint, SurvivalPoint, Timeline, WhatIf, Window
from .methods import METHOD_NAMES, methods
from .model import (
    Before,
    BillRow,
    Counts,
    DayCost,
    GroupKey,
    GroupPage,
    GroupRow,
    ImageDrift,
    Money,
    QualityCheck,
    Report,
    Verdict,
    lost_per_watched_day,
)
from .units import duration

PAGES = 20
CURVE_POINTS = 100
WHAT_IF_MS = (10_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """One group's sums over the window.

    Parameters
    ----------
    covered_ms, span_ms: time with a watching operator, and all time since the group's first record.
    lost_partition_ms_by_day: one value per day of the window.
    """

    key: GroupKey
    protocol: str
    members: int
    partitions: int | None
    counts: Counts
    covered_ms: int
    span_ms: int
    lost_partition_ms_by_day: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """The single facts of one group, for its page.

    Parameters
    ----------
    gaps_ms, is_returned: (n,) each; blind outages and wanted removals are not among them.
    rates: the prices of its recommendation.
    """

    gaps_ms: NDArray[np.float64]
    is_returned: NDArray[np.bool_]
    rates: CostRates
    timeline: Timeline


def worth_a_page(rows: Sequence[GroupRow], limit: int = PAGES) -> tuple[GroupRow, ...]:
    """Return the groups that get a page, in order: those with something to do, or with missing evidence."""
    return tuple(row for row in rows if row.advice.is_action or _is_open(row))[:limit]


def _is_open(row: GroupRow) -> bool:
    """Return whether more evidence may lead to a change: not for groups without losses or without a verdict."""
    is_judged = bool(row.advice.reasons)
    return is_judged and row.advice.verdict is Verdict.NOT_KNOWN and row.counts.lost_partition_ms > 0


def group_rows(
    histories: Sequence[GroupHistory],
    recommendations: Mapping[tuple[str, str], Recommendation],
    sources: Mapping[tuple[str, str], str | None] | None = None,
) -> tuple[GroupRow, ...]:
    """Return all groups: those with something to do, by saving; then those with missing evidence; then others.

    Parameters
    ----------
    sources: of the timeouts in force, as the operators report them.
    """
    known = sources or {}
    pairs = [(history, _pair(history.key)) for history in histories]
    rows = [_row(history, recommendations.get(pair), known.get(pair)) for history, pair in pairs]

    def order(row: GroupRow) -> tuple[int, int, int, str, str]:
        rank = 0 if row.advice.is_action else 1 if _is_open(row) else 2
        saving = row.advice.saving
        gain = saving.best_partition_ms if saving is not None else 0
        return (rank, -gain, -row.counts.lost_partition_ms, *_pair(row.key))

    return tuple(sorted(rows, key=order))


def _pair(key: GroupKey) -> tuple[str, str]:
    return key.kafka_cluster_id, key.group_id


def _row(history: GroupHistory, recommendation: Recommendation | None, source: str | None) -> GroupRow:
    return GroupRow(
        key=history.key,
        protocol=history.protocol,
        members=history.members,
        partitions=history.partitions,
        session_timeout_ms=None if recommendation is None else recommendation.current_ms,
        coverage=history.covered_ms / history.span_ms if history.span_ms else 0.0,
        covered_ms=history.covered_ms,
        counts=history.counts,
        advice=advise(
            recommendation, key=history.key, source=source, members=history.members, partitions=history.partitions
        ),
        lost_partition_ms_by_day=history.lost_partition_ms_by_day,
    )


def build_report(
    *,
    created_ms: int,
    run_id: str,
    window: Window,
    histories: Sequence[GroupHistory],
    recommendations: Mapping[tuple[str, str], Recommendation],
    details: Mapping[GroupKey, GroupDetail],
    sources: Mapping[tuple[str, str], str | None] | None = None,
    days: Sequence[DayCost],
    drift: Sequence[ImageDrift] = (),
    quality: Sequence[QualityCheck] = (),
    before: Before | None = None,
    bill: Sequence[BillRow] = (),
    money: Money | None = None,
    is_stop_stated: bool = False,
    versions: Sequence[tuple[str, str]] = (),
) -> Report:
    """Build the report.

    Parameters
    ----------
    created_ms: the report's present, Unix milliseconds.
    details: of the groups that are `worth_a_page`; a group without details gets no page.
    sources: of the timeouts in force (Fixed, Structural, Broker, Fleet).
    before: the window before; None: no history yet.
    is_stop_stated: the configuration states how long a rebalance stops a partition, for every kind of group in the
        report; else the losses rest on an assumption.
    versions: of the rules and libraries behind the figures, by name.
    """
    rows = group_rows(histories, recommendations, sources)
    span_ms, covered_ms = sum(h.span_ms for h in histories), sum(h.covered_ms for h in histories)
    pages = [
        group_page(row, details[row.key], recommendations[_pair(row.key)])
        for row in worth_a_page(rows)
        if row.key in details and _pair(row.key) in recommendations
    ]
    return Report(
        created_ms=created_ms,
        run_id=run_id,
        window=window,
        counts=sum_counts([h.counts for h in histories]),
        groups=len(rows),
        kafka_clusters=len({row.key.kafka_cluster_id for row in rows}),
        members=sum(row.members for row in rows),
        coverage=covered_ms / span_ms if span_ms else 0.0,
        covered_ms=covered_ms,
        lost_partition_ms_per_day=lost_per_watched_day((h.counts, h.covered_ms) for h in histories),
        days=tuple(days),
        clusters=advise_clusters(recommendations[_pair(r.key)] for r in rows if _pair(r.key) in recommendations),
        rows=rows,
        pages=tuple(pages),
        drift=tuple(drift),
        quality=tuple(quality),
        methods=methods(versions),
        before=before,
        bill=tuple(sorted(bill, key=lambda b: (-b.silent_partition_ms, *_pair(b.key)))),
        money=money,
        stop_source=(PriceSource.STATED if is_stop_stated else PriceSource.ASSUMED).value,
    )


def sum_counts(all_counts: Sequence[Counts]) -> Counts:
    """Add up; the rebalances with dynamic members are known only if known for every group."""
    names = [name for name in Counts.__slots__ if name != "rebalances_if_dynamic"]
    dynamic = [c.rebalances_if_dynamic for c in all_counts]
    known = [d for d in dynamic if d is not None]
    return Counts(
        **{name: sum(getattr(c, name) for c in all_counts) for name in names},
        rebalances_if_dynamic=sum(known) if known and len(known) == len(dynamic) else None,
    )


def group_page(row: GroupRow, detail: GroupDetail, recommendation: Recommendation) -> GroupPage:
    """Compute the curves and the what-if table of one group."""
    curve = kaplan_meier(detail.gaps_ms, detail.is_returned)
    return GroupPage(
        row=row,
        survival=survival_points(curve),
        cost=cost_points(curve, detail.rates, _grid(recommendation)),
        hazard=hazard_points(curve),
        waiting_partitions=detail.rates.member_partitions,
        eviction_partition_ms=round(detail.rates.eviction_partition_seconds * 1000),
        timeline=detail.timeline,
        what_if=what_if(curve, detail.rates, now_ms=recommendation.current_ms, advised_ms=row.advice.then_ms),
        samples=int(detail.gaps_ms.size),
        censored=int((~detail.is_returned).sum()),
        method=METHOD_NAMES[recommendation.evidence.method],
    )


def survival_points(curve: SurvivalCurve, points: int = CURVE_POINTS) -> tuple[SurvivalPoint, ...]:
    """Return the curve with its pointwise 95 % band, at most at `points` of its steps, including the last."""
    size = curve.times_ms.size
    if size == 0:
        return ()
    lower, upper = log_log_band(curve, 0.95)
    chosen = np.unique(np.round(np.linspace(0, size - 1, min(size, points))).astype(int))
    return tuple(
        SurvivalPoint(
            gap_ms=round(float(curve.times_ms[i])),
            survival=float(curve.survival[i]),
            lower=float(lower[i]),
            upper=float(upper[i]),
        )
        for i in chosen
    )


def _grid(recommendation: Recommendation) -> list[int]:
    """Return timeouts to price: evenly spread factors within the bounds, and the present and advised ones."""
    low_ms = max(recommendation.bounds_minimum_ms or 0, 6_000)
    high_ms = max(recommendation.bounds_maximum_ms or 1_800_000, 2 * low_ms)
    spread = [round(t) for t in np.geomspace(low_ms, min(high_ms, 1_800_000), 40)]
    known = [t for t in (recommendation.current_ms, recommendation.recommended_ms) if t]
    return sorted({*spread, *known})


def cost_points(curve: SurvivalCurve, rates: CostRates, timeouts_ms: Sequence[int]) -> tuple[CostPoint, ...]:
    """Price timeouts on the group's own curve."""
    grid = np.asarray(timeouts_ms, dtype=np.float64)
    evicted = evictions_per_day(curve, rates, grid)
    waited = ghost_seconds_per_day(curve, rates, grid)
    return tuple(
        CostPoint(
            timeout_ms=timeout_ms,
            eviction_partition_ms=round(float(e) * rates.eviction_partition_seconds * 1000),
            waiting_partition_ms=round(float(w) * rates.member_partitions * 1000),
            evictions_per_day=float(e),
        )
        for timeout_ms, e, w in zip(timeouts_ms, evicted, waited, strict=True)
    )


def hazard_points(curve: SurvivalCurve, points: int = 30) -> tuple[HazardPoint, ...]:
    """Return the chance of return per second, over windows that widen with time, while members are away."""
    if curve.times_ms.size < 2:
        return ()
    times = np.geomspace(max(float(curve.times_ms[0]), 1_000.0), float(curve.times_ms[-1]), points)
    return tuple(
        HazardPoint(gap_ms=round(t), per_second=return_hazard(curve, t, window_ms=max(5_000.0, 0.5 * t))) for t in times
    )


def what_if(
    curve: SurvivalCurve,
    rates: CostRates,
    *,
    now_ms: int | None,
    advised_ms: int | None,
    recommended_ms: int | None = None,
) -> tuple[WhatIf, ...]:
    """Price the present timeout, the advised one, some others and dynamic members side by side.

    Parameters
    ----------
    recommended_ms: for operators, if there is no advice for people.
    """
    named = {"now": now_ms, "advised": advised_ms, "recommended": recommended_ms if advised_ms is None else None}
    timeouts = sorted({*WHAT_IF_MS, *(t for t in named.values() if t)})
    lines = []
    for point in cost_points(curve, rates, timeouts):
        notes = [note for note, t in named.items() if t == point.timeout_ms]
        lines.append(
            WhatIf(
                label=", ".join([duration(point.timeout_ms), *notes]),
                timeout_ms=point.timeout_ms,
                evictions_per_day=point.evictions_per_day,
                rebalances_per_day=2 * point.evictions_per_day,
                lost_partition_ms_per_day=point.total_partition_ms,
            )
        )
    leaves = rates.stops_per_day
    dynamic = WhatIf(
        label="dynamic members that leave when they stop",
        timeout_ms=None,
        evictions_per_day=leaves,
        rebalances_per_day=2 * leaves,
        lost_partition_ms_per_day=round(dynamic_cost_per_day(curve, rates) * 1000),
    )
    return (*lines, dynamic)
