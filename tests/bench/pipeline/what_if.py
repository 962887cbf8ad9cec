"""Compare the what-if simulation with NumPy itself: how many restart gaps a second does each draw?

The one idea: whatever the simulation does besides drawing (sorting gaps into the timeouts, adding up) is overhead. It is
measured against two ends: drawing a lognormal gap each, which is what a simulation without a table of gaps would have to
do, and making exactly the simulation's own random numbers. Rounds of the three take turns, so that noise meets all.
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
from fleet_learner.what_if import WEEK_DAYS, gap_table_ms, rates_of, simulate

GROUPS: Final = 200
REPLICATES: Final = 200
TIMEOUTS_MS: Final = np.geomspace(6_000.0, 1_800_000.0, 13)
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Gaps a second, the median of the rounds."""

    simulated: float
    lognormal: float
    own_draws: float
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


def measure() -> Rates:
    """Take the rounds on one CPU."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    groups = fleet()
    table = gap_table_ms(LognormalLaw(mean=float(np.log(25_000.0)), deviation=0.6), 86_400_000.0)
    rng = np.random.Generator(np.random.Philox(key=[1, 1]))
    counts = [round(rates.stops_per_day * WEEK_DAYS * REPLICATES) for rates in groups]

    def simulated() -> None:
        for number, rates in enumerate(groups):
            simulate("kafka", f"g{number}", table, rates, TIMEOUTS_MS, replicates=REPLICATES)

    def lognormal() -> None:
        for count in counts:
            rng.lognormal(10.0, 0.6, count)

    def own_draws() -> None:
        for count in counts:
            rng.poisson(count / REPLICATES, REPLICATES)
            table[rng.integers(0, table.size, count)]
            rng.random(count)

    taken: dict[str, list[float]] = {work.__name__: [] for work in (simulated, lognormal, own_draws)}
    for _ in range(ROUNDS):
        for work in (simulated, lognormal, own_draws):
            started = time.process_time()
            work()
            taken[work.__name__].append(time.process_time() - started)
    total = sum(counts)
    median = {name: float(np.median(seconds)) for name, seconds in taken.items()}
    return Rates(**{name: total / s for name, s in median.items()}, groups=GROUPS / median["simulated"])


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
