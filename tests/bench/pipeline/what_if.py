"""Compare the what-if simulation with NumPy itself, in restart gaps per second.

The one idea: whatever the simulation does besides drawing (sorting gaps into the timeouts, adding up) is overhead. The
reference is NumPy drawing one lognormal gap for each restart. Two more rates give context: the simulation's own random
numbers alone, which it cannot beat, and the plain solution, which draws a lognormal gap and an age and checks them for
each timeout. Rounds alternate, so that noise affects all.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from fleet_learner.estimates.cost import CostRates
from fleet_learner.estimates.laws import LognormalLaw
from fleet_learner.recommendations.what_if import WEEK_DAYS, gap_table_ms, rates_of, simulate

GROUPS: Final = 200
REPLICATES: Final = 200
TIMEOUTS_MS: Final = np.geomspace(6_000.0, 1_800_000.0, 13)
LOG_MEDIAN, DEVIATION = float(np.log(25_000.0)), 0.6
ROUNDS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Gaps a second, the median of the rounds; groups: simulated a second."""

    simulated: float
    lognormal: float
    own_draws: float
    plain: float
    groups: float


def fleet() -> list[CostRates]:
    """Return groups of lognormal size with a deployment and a half a day."""
    rng = np.random.Generator(np.random.Philox(key=[1, 0]))
    sizes = np.ceil(rng.lognormal(np.log(10) - 0.5, 1.0, GROUPS)).astype(int).tolist()
    return [
        rates_of(members=n, partitions=4 * n, deploys_per_day=1.5, failures_per_member_day=0.05,
                 eviction_partition_seconds=20.0)
        for n in sizes
    ]  # fmt: skip


def plainly(rng: np.random.Generator, rates: CostRates) -> tuple[np.ndarray, np.ndarray]:
    """Return evictions and ghost-milliseconds of each replicate and timeout, in plain NumPy."""
    counts = rng.poisson(rates.stops_per_day * WEEK_DAYS, REPLICATES)
    starts = np.cumsum(counts) - counts
    gaps = rng.lognormal(LOG_MEDIAN, DEVIATION, counts.sum())
    ages = rng.random(gaps.size) * rates.heartbeat_interval_ms
    late, held = np.empty((2, TIMEOUTS_MS.size, REPLICATES))
    for number, timeout_ms in enumerate(TIMEOUTS_MS):
        left = timeout_ms - ages
        late[number] = np.add.reduceat(gaps > left, starts, dtype=np.int64)
        held[number] = np.add.reduceat(np.minimum(gaps, left), starts)
    return late, held


def measure() -> Rates:
    """Take the rounds on one CPU."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    groups = fleet()
    table = gap_table_ms(LognormalLaw(mean=LOG_MEDIAN, deviation=DEVIATION), 86_400_000.0)
    rng = np.random.Generator(np.random.Philox(key=[1, 1]))
    counts = [round(rates.stops_per_day * WEEK_DAYS * REPLICATES) for rates in groups]

    def simulated() -> None:
        for number, rates in enumerate(groups):
            simulate("kafka", f"g{number}", table, rates, TIMEOUTS_MS, replicates=REPLICATES)

    def lognormal() -> None:
        for count in counts:
            rng.lognormal(LOG_MEDIAN, DEVIATION, count)

    def own_draws() -> None:
        for count in counts:
            rng.random(count)

    def plain() -> None:
        for rates in groups:
            plainly(rng, rates)

    works = (simulated, lognormal, own_draws, plain)
    taken: dict[str, list[float]] = {work.__name__: [] for work in works}
    for _ in range(ROUNDS):
        for work in works:
            started = time.process_time()
            work()
            taken[work.__name__].append(time.process_time() - started)
    total = sum(counts)
    median = {name: float(np.median(seconds)) for name, seconds in taken.items()}
    return Rates(**{name: total / s for name, s in median.items()}, groups=GROUPS / median["simulated"])


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
