"""Simulate the effects of other timeouts on a group: many weeks, all timeouts over the same gaps.

The one idea: common random numbers. Each replicate draws its stops, gaps and heartbeat ages once, and every timeout is
judged on them, so differences between timeouts are far more exact than the numbers themselves. A gap is sorted into the
grid of timeouts once; the effect of each timeout is then a running sum. The generator is Philox with the group in its
key: the result does not depend on the distribution of groups over processes. The closed form is `estimates.cost`; a
test compares the two.

It is about as fast as drawing random numbers: one number yields a gap and an age, because the whole and the fractional
part of a uniform number on 0..k are independent; the neighbouring timeouts of each gap are precomputed for the whole
table, so that an age is only compared with the next one; and blocks of gaps stay in the cache.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..estimates.cost import CostRates
from ..estimates.laws import Law

QUANTILES = 4_096
WEEK_DAYS = 7.0
BLOCK_GAPS = 14_000
"""Gaps per block: the arrays fit into a core's L2 cache, and are too small for malloc to map and unmap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Hold the effects of each timeout: (replicates, g) per day of the simulated time."""

    timeouts_ms: NDArray[np.float64]
    evictions_per_day: NDArray[np.float64]
    ghost_seconds_per_day: NDArray[np.float64]
    cost_per_day: NDArray[np.float64]

    def mean_and_error(self, measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard error of a measure for each timeout: (g,) and (g,)."""
        values = getattr(self, measure)
        return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])


def gap_table_ms(law: Law, horizon_ms: float) -> NDArray[np.float64]:
    """Tabulate a law for drawing.

    Returns
    -------
    (4096,) float64: gaps in the middle of equally likely classes, ascending; inf for those beyond the horizon.
    """
    times = np.concatenate(([0.0], np.geomspace(10.0, horizon_ms, 20_000)))
    returned = 1.0 - np.asarray(law.at(times))
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    gaps = np.interp(shares, np.maximum.accumulate(returned), times)
    return np.where(shares > returned[-1], np.inf, gaps)


def weekly_evictions(
    kafka_cluster_id: str,
    group_id: str,
    law: Law,
    rates: CostRates,
    timeouts_ms: Iterable[int],
    *,
    share: float = 0.9,
    replicates: int = 1_000,
) -> dict[int, tuple[int, int]]:
    """Simulate weeks, and return the range of evictions in most of them, which an average does not show.

    Parameters
    ----------
    timeouts_ms: those below the heartbeat interval are left out.
    share: of the weeks that lie within the answer, as many below as above.

    Returns
    -------
    dict
        By timeout the least and the greatest number.
    """
    grid = sorted({t for t in timeouts_ms if t >= rates.heartbeat_interval_ms})
    if not grid:
        return {}
    gaps = gap_table_ms(law, float(grid[-1]))
    weeks = simulate(kafka_cluster_id, group_id, gaps, rates, np.array(grid, dtype=np.float64), replicates=replicates)
    tails = ((1 - share) / 2, (1 + share) / 2)
    low, high = np.quantile(weeks.evictions_per_day * WEEK_DAYS, tails, axis=0, method="nearest")
    return {t: (round(a), round(b)) for t, a, b in zip(grid, low.tolist(), high.tolist(), strict=True)}


def simulate(
    kafka_cluster_id: str,
    group_id: str,
    gaps_ms: NDArray[np.float64],
    rates: CostRates,
    timeouts_ms: NDArray[np.float64],
    *,
    replicates: int = 200,
    days: float = WEEK_DAYS,
    seed: int = 0,
) -> WhatIf:
    """Simulate a group.

    Parameters
    ----------
    gaps_ms: (k,) equally likely gaps, ascending: observed ones, or `gap_table_ms`; inf: does not return by itself.
    timeouts_ms: (g,) ascending, none below the heartbeat interval.
    replicates: of `days` each.
    seed: of the run; the group's name is in the key too.

    Returns
    -------
    WhatIf

    Raises
    ------
    ValueError
        When a timeout is below the heartbeat interval (Kafka allows none above a third of the timeout), or when the
        gaps do not ascend.
    """
    if timeouts_ms.size and float(timeouts_ms[0]) < rates.heartbeat_interval_ms:
        raise ValueError(f"a timeout of {timeouts_ms[0]} ms is below the heartbeat interval")
    if not (gaps_ms[1:] >= gaps_ms[:-1]).all():
        raise ValueError("gaps do not ascend")
    rng = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(f"{kafka_cluster_id}/{group_id}".encode())]))
    expected = rates.stops_per_day * days
    counts = rng.poisson(expected * (1.0 - rates.dead_share), replicates)
    dead = rng.poisson(expected * rates.dead_share, replicates)
    returned, away_ms, ages_ms = _sums(rng, counts, gaps_ms, timeouts_ms, rates.heartbeat_interval_ms)
    late = counts[:, None] - returned
    # Members back in time were kept for the gap; late ones for T − age.
    ghosts_ms = away_ms + late * timeouts_ms - ages_ms[:, None]
    if dead.any():
        ghosts_ms += dead[:, None] * _dead_ms(rates, timeouts_ms)
    evictions = late / days
    ghost_seconds = ghosts_ms / (1000.0 * days)
    return WhatIf(
        timeouts_ms=timeouts_ms,
        evictions_per_day=evictions,
        ghost_seconds_per_day=ghost_seconds,
        cost_per_day=rates.eviction_partition_seconds * evictions + rates.member_partitions * ghost_seconds,
    )


def _sums(
    rng: np.random.Generator,
    counts: NDArray[np.int64],
    gaps_ms: NDArray[np.float64],
    timeouts_ms: NDArray[np.float64],
    heartbeat_interval_ms: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw so many gaps and ages for each replicate, and sum them.

    Returns
    -------
    The number back within each timeout, (replicates, g); their gaps and ages, (replicates, g), ms; the ages of all,
    (replicates,), ms.
    """
    replicates, cells = counts.size, timeouts_ms.size + 1
    first, limits = _cells(gaps_ms, timeouts_ms, heartbeat_interval_ms)
    ends = counts.cumsum()
    starts = ends - counts
    rows = np.arange(0, replicates * cells, cells)
    back = np.empty(replicates * cells)
    away_ms = np.empty(replicates * cells)
    ages_ms = np.zeros(replicates)
    low = 0
    while low < replicates:
        high = max(low + 1, int(ends.searchsorted(starts[low] + BLOCK_GAPS, side="right")))
        ages = rng.random(int(ends[high - 1] - starts[low]))
        ages *= gaps_ms.size
        whole = np.floor(ages)
        which = whole.astype(np.intp)
        ages -= whole
        ages *= heartbeat_interval_ms
        away = gaps_ms.take(which)
        away += ages
        cell = rows[: high - low].repeat(counts[low:high])
        cell += first.take(which)
        for limit in limits:
            cell += away > limit.take(which)
        of_block = slice(low * cells, high * cells)
        back[of_block] = np.bincount(cell, minlength=(high - low) * cells)
        away_ms[of_block] = np.bincount(cell, away, minlength=(high - low) * cells)
        if ages.size:
            ages_ms[low:high] = np.add.reduceat(ages, np.minimum(starts[low:high] - starts[low], ages.size - 1))
        low = high
    ages_ms[counts == 0] = 0.0  # reduceat returns an element for an empty slice
    away_ms[cells - 1 :: cells] = 0.0  # beyond all timeouts, perhaps infinite
    up_to = np.tri(timeouts_ms.size, cells).T  # the cells up to a timeout hold the members back within it
    return back.reshape(replicates, cells) @ up_to, away_ms.reshape(replicates, cells) @ up_to, ages_ms


def _cells(
    gaps_ms: NDArray[np.float64], timeouts_ms: NDArray[np.float64], heartbeat_interval_ms: float
) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
    """Sort the gaps into the grid of timeouts: cell c is between timeouts c−1 and c.

    Returns
    -------
    The cell of each gap with age 0, (k,), and the further timeouts that a gap plus an age may exceed, (k,) each: those
    within one heartbeat interval, which is one for a grid that is not very fine.
    """
    edges = np.concatenate(([0], gaps_ms.searchsorted(timeouts_ms, side="right"), [gaps_ms.size]))
    per_cell = edges[1:] - edges[:-1]
    reach = timeouts_ms.searchsorted(timeouts_ms + heartbeat_interval_ms, side="right")
    steps = int((reach - np.arange(timeouts_ms.size)).max(initial=0))
    beyond: NDArray[np.float64] = np.append(timeouts_ms, np.full(steps + 1, np.inf))
    cells = per_cell.size
    return np.arange(cells).repeat(per_cell), [beyond[n : n + cells].repeat(per_cell) for n in range(steps)]


def _dead_ms(rates: CostRates, timeouts_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the expected time for which a member that never returns is kept, averaged over the heartbeat's age."""
    interval = rates.heartbeat_interval_ms

    def remaining(limit_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """E max(limit − u, 0) for u uniform on 0..interval."""
        inside = np.clip(limit_ms, 0.0, interval)
        below = inside**2 / (2.0 * interval) if interval > 0 else np.zeros_like(limit_ms)
        return below + np.maximum(limit_ms - interval, 0.0)

    unaided = remaining(timeouts_ms)
    aided = unaided - remaining(timeouts_ms - rates.operator_delay_ms)
    return (1.0 - rates.operator_availability) * unaided + rates.operator_availability * aided


def rates_of(
    *,
    members: int,
    partitions: int,
    deploys_per_day: float,
    failures_per_member_day: float,
    eviction_partition_seconds: float,
    heartbeat_interval_ms: float = 3_000.0,
) -> CostRates:
    """Price a group that does not exist yet, such as one that deploys twice as often, or has ten members.

    Parameters
    ----------
    deploys_per_day: each stops every member once.

    Returns
    -------
    CostRates
    """
    return CostRates(
        stops_per_day=members * (deploys_per_day + failures_per_member_day),
        member_partitions=partitions / members,
        eviction_partition_seconds=eviction_partition_seconds,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )
