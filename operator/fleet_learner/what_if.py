"""Simulate what other timeouts would do to a group: many weeks, all timeouts over the same gaps.

The one idea: common random numbers. Each replicate draws its stops, gaps and heartbeat ages once, and every timeout is
judged on them, so differences between timeouts are far more exact than the numbers themselves. A gap is sorted into
the grid of timeouts once; what each timeout would have done is then a running sum. The generator is Philox with the
group in its key: the result does not depend on how groups are spread over processes.
The closed form is `estimates.cost`; a test holds the two together.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .estimates.cost import CostRates
from .estimates.laws import Law

QUANTILES = 4_096
WEEK_DAYS = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Hold what each timeout did: (replicates, g) per day of the simulated time."""

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
    gaps_ms: (k,) equally likely gaps: observed ones, or `gap_table_ms`; inf: does not come back by itself.
    timeouts_ms: (g,) ascending, none below the heartbeat interval.
    replicates: of `days` each.
    seed: of the run; the group's name is in the key too.

    Returns
    -------
    WhatIf

    Raises
    ------
    ValueError
        When a timeout is below the heartbeat interval: Kafka allows none above a third of the timeout.
    """
    if timeouts_ms.size and float(timeouts_ms[0]) < rates.heartbeat_interval_ms:
        raise ValueError(f"a timeout of {timeouts_ms[0]} ms is below the heartbeat interval")
    rng = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(f"{kafka_cluster_id}/{group_id}".encode())]))
    expected = rates.stops_per_day * days
    counts = rng.poisson(expected * (1.0 - rates.dead_share), replicates)
    gaps = gaps_ms[rng.integers(0, gaps_ms.size, int(counts.sum()))]
    ages = rng.random(gaps.size) * rates.heartbeat_interval_ms
    cells = timeouts_ms.size + 1
    # A member is back in time when gap + age of its last heartbeat ≤ T.
    cell = np.searchsorted(timeouts_ms, gaps + ages, side="left")
    row = np.repeat(np.arange(replicates), counts) * cells

    def back_in_time(weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        summed = np.bincount(row + cell, weights, minlength=replicates * cells).reshape(replicates, cells)
        return np.cumsum(summed, axis=1)[:, :-1]

    returned = back_in_time(None)
    late = counts[:, None] - returned
    waited = back_in_time(np.where(np.isfinite(gaps), gaps, 0.0))
    age_sum = np.bincount(row // cells, ages, minlength=replicates)[:, None]
    # Late ones held their place for T − age.
    ghosts = waited + late * timeouts_ms - (age_sum - back_in_time(ages))
    dead = rng.poisson(expected * rates.dead_share, replicates)[:, None] * _dead_ms(rates, timeouts_ms)
    evictions = late / days
    ghost_seconds = (ghosts + dead) / 1000.0 / days
    return WhatIf(
        timeouts_ms=timeouts_ms,
        evictions_per_day=evictions,
        ghost_seconds_per_day=ghost_seconds,
        cost_per_day=rates.eviction_partition_seconds * evictions + rates.member_partitions * ghost_seconds,
    )


def _dead_ms(rates: CostRates, timeouts_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expect how long a place is kept for somebody who does not come back, the heartbeat's age averaged."""
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
    """Price a group that does not exist yet: what if it deployed twice as often, or had ten members?

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
