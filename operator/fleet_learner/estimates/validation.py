"""Check the estimators by simulation: coverage of bounds, regret of choices, power of alarms.

The one idea: draw workloads from a known truth, estimate from n stops each, and count. A bound that states 90 % must
cover in at least 90 % of the workloads, give or take the Monte Carlo error; a choice is judged by its extra cost over
the best choice under the true law; an alarm by its frequency without and with a change. `python -m
fleet_learner.estimates.validation --write` puts the tables into docs/reference/fleet-learner.md; randomness is Philox
with a key for each cell, so each cell can be reproduced alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .class_sums import class_model
from .cost import CostRates, cheapest, cost_per_day, timeout_grid_ms
from .drift import average_run_length, rollout_means, slower_since
from .gap_law import ClassModel, GapSample, estimate_law, moments
from .kaplan_meier import kaplan_meier, upper_quantile_ms
from .pooling import posterior
from .tolerance import lognormal_bound_ms, order_statistic_bound_ms
from .truths import ROLLOUT_SIZE, SCENARIOS, Scenario, draw_workload, draw_workloads, true_quantile_ms

PAGE = Path("docs/reference/fleet-learner.md")
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
SHARE, CONFIDENCE = 0.99, 0.9
SIZES = (5, 10, 30, 100, 300, 1000)
WORKLOADS = 600
SEED = 4
HORIZON_MS = 1_800_000.0


def _own_order_statistic(sample: GapSample, model: ClassModel) -> float:
    if not np.all(sample.is_returned):
        return math.inf
    effect = moments(sample).design_effect(model.correlation)
    return order_statistic_bound_ms(sample.gaps_ms, SHARE, CONFIDENCE, design_effect=effect)


def _own_band(sample: GapSample, model: ClassModel) -> float:
    effect = moments(sample).design_effect(model.correlation)
    curve = kaplan_meier(sample.gaps_ms, sample.is_returned)
    return upper_quantile_ms(curve, SHARE, CONFIDENCE, design_effect=effect)


def _pooled(sample: GapSample, model: ClassModel) -> float:
    if model.prior is None:
        return math.inf
    own = moments(sample).corrected(model.correlation)
    return posterior(model.prior, *own).quantile_bound_ms(SHARE, CONFIDENCE)


def _chosen(sample: GapSample, model: ClassModel) -> float:
    estimate = estimate_law(sample, model, horizon_ms=HORIZON_MS)
    return math.inf if estimate is None else estimate.bound_ms


Estimator = Callable[[GapSample, ClassModel], float]
ESTIMATORS: tuple[tuple[str, Estimator], ...] = (
    ("largest gap seen", lambda sample, model: float(sample.gaps_ms.max())),
    ("lognormal, own stops", lambda sample, model: lognormal_bound_ms(sample.gaps_ms, SHARE, CONFIDENCE)),
    ("order statistic", _own_order_statistic),
    ("Kaplan–Meier, beta product", _own_band),
    ("pooled", _pooled),
    ("**chosen**", _chosen),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Hold one cell: bounds that exist, the share of them that cover, and their size relative to the truth."""

    bounded: int
    covered: float
    ratio_median: float
    ratio_p95: float

    @property
    def standard_error(self) -> float:
        """Return the Monte Carlo error of a coverage of 90 %."""
        return math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / max(self.bounded, 1))

    def text(self) -> str:
        """Write the cell of a table."""
        if self.bounded == 0:
            return "–"
        return f"{100 * self.covered:.0f} %, {self.ratio_median:.2f} / {self.ratio_p95:.2f}"


def coverage(
    scenario: Scenario, stops: int, workloads: int = WORKLOADS, seed: int = SEED, estimators: Sequence[str] = ()
) -> dict[str, Coverage]:
    """Count for every estimator how often its bound holds.

    Parameters
    ----------
    stops: seen of each workload.
    estimators: names; empty: all.

    Returns
    -------
    dict[str, Coverage]
        By estimator. A bound of infinity does not count as a bound.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, 1000 * SCENARIOS.index(scenario) + stops]))
    drawn = draw_workloads(scenario, stops, workloads, rng)
    model = class_model([each.sample for each in drawn])
    truth = np.array([true_quantile_ms(each.law, SHARE) for each in drawn])
    cells = {}
    for name, estimate in ESTIMATORS:
        if estimators and name not in estimators:
            continue
        bounds = np.array([estimate(each.sample, model) for each in drawn])
        finite = np.isfinite(bounds)
        ratio = bounds[finite] / truth[finite]
        cells[name] = Coverage(
            bounded=int(finite.sum()),
            covered=float((ratio >= 1).mean()) if ratio.size else math.nan,
            ratio_median=float(np.median(ratio)) if ratio.size else math.nan,
            ratio_p95=float(np.quantile(ratio, 0.95)) if ratio.size else math.nan,
        )
    return cells


# regret ---------------------------------------------------------------------------------------------------------------

PRICES = (
    ("eager, 4 s rebalance", 384.0),
    ("Streams, 45 s restore", 4_320.0),
    ("cooperative, 0.3 s", 29.0),
)
MEMBER_PARTITIONS = 4.0
REGRET_SIZES = (10, 30, 100, 1000)
REGRET_WORKLOADS = 300
CHOICES = ("45 s", "κ/ν", "q99 bound", "own curve", "**chosen**")


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """Hold the extra cost of a choice over the best one: 0.1 is 10 %."""

    median: float
    p95: float

    def text(self) -> str:
        """Write the cell of a table."""
        return f"{100 * self.median:.1f} / {100 * self.p95:.1f} %"


def regret(
    scenario: Scenario, stops: int, eviction_cost: float, workloads: int = REGRET_WORKLOADS, seed: int = SEED
) -> dict[str, Regret]:
    """Compare choices with the best choice under the true law.

    Parameters
    ----------
    stops: seen of each workload.
    eviction_cost: κ in partition-seconds; ν is 4 partitions, timeouts are 6 s to 30 min.

    Returns
    -------
    dict[str, Regret]
        By choice.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, 500_000 + 1000 * SCENARIOS.index(scenario) + stops]))
    drawn = draw_workloads(scenario, stops, workloads, rng)
    model = class_model([each.sample for each in drawn])
    rates = CostRates(stops_per_day=1.0, member_partitions=MEMBER_PARTITIONS, eviction_partition_seconds=eviction_cost)
    grid = timeout_grid_ms(6_000.0, HORIZON_MS)
    losses: dict[str, list[float]] = {name: [] for name in CHOICES}
    for each in drawn:
        truth = cost_per_day(each.law, rates, grid)
        estimate = estimate_law(each.sample, model, horizon_ms=HORIZON_MS)
        own = kaplan_meier(each.sample.gaps_ms, each.sample.is_returned)
        chosen = own if estimate is None else estimate.law
        picks = {
            "45 s": _nearest(grid, 45_000.0),
            "κ/ν": _nearest(grid, rates.rent_or_buy_ms),
            "q99 bound": _nearest(grid, HORIZON_MS if estimate is None else estimate.bound_ms),
            "own curve": int(cheapest(cost_per_day(own, rates, grid))),
            "**chosen**": int(cheapest(cost_per_day(chosen, rates, grid))),
        }
        for name, index in picks.items():
            losses[name].append(float(truth[index] / truth.min() - 1.0))
    return {
        name: Regret(median=float(np.median(values)), p95=float(np.quantile(values, 0.95)))
        for name, values in losses.items()
    }


def _nearest(grid: NDArray[np.float64], timeout_ms: float) -> int:
    return int(np.argmin(np.abs(grid - min(timeout_ms, HORIZON_MS))))


# slower restarts ------------------------------------------------------------------------------------------------------

DRIFT_WORKLOADS = 1000
DRIFT_RATIOS = (1.0, 1.1, 1.25, 1.5, 2.0)
DRIFT_ROLLOUTS = ((8, 10), (8, 30), (15, 30), (15, 60), (30, 60))
"""Rollouts of the baseline, and watched rollouts after them."""
DRIFT_SCENARIOS = (
    Scenario(name="lognormal", correlation=0.3),
    Scenario(name="1 % Pareto tail", tail_weight=0.01, correlation=0.3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Hold one cell: in what share of the workloads an alarm came, and after how many rollouts (median; nan: never)."""

    workloads: int
    alarmed: float
    delay: float

    @property
    def standard_error(self) -> float:
        """Return the Monte Carlo error of the share."""
        return math.sqrt(max(self.alarmed * (1 - self.alarmed), 1 / self.workloads) / self.workloads)

    def text(self) -> str:
        """Write the cell of a table."""
        share = f"{100 * self.alarmed:.1f} ± {100 * self.standard_error:.1f} %"
        return share if math.isnan(self.delay) else f"{share}, {self.delay:.0f}"


def stated_false_alarms(rollouts: int) -> float:
    """Return the share of workloads with a false alarm by the average run length, with a known mean."""
    return -math.expm1(-rollouts / average_run_length())


def detection(
    scenario: Scenario, baseline: int, watched: int, ratio: float, workloads: int = DRIFT_WORKLOADS, seed: int = SEED
) -> Detection:
    """Count alarms in workloads whose restarts take `ratio` times as long from the first watched rollout on.

    Parameters
    ----------
    baseline, watched: rollouts of 10 members each; the first ones define the former level.
    ratio: 1: nothing changed, and every alarm is a false one.
    """
    key = 700_000 + 10_000 * DRIFT_SCENARIOS.index(scenario) + 100 * baseline + watched
    rng = np.random.Generator(np.random.Philox(key=[seed, key]))
    delays = []
    for _ in range(workloads):
        sample = draw_workload(scenario, ROLLOUT_SIZE * (baseline + watched), math.log(25_000.0), 0.5, rng).sample
        means = rollout_means(np.log(sample.gaps_ms), sample.cluster)
        means[baseline:] += math.log(ratio)
        found = slower_since(means, baseline=baseline)
        if found is not None:
            delays.append(found.alarm - baseline + 1)
    return Detection(
        workloads=workloads,
        alarmed=len(delays) / workloads,
        delay=float(np.median(delays)) if delays else math.nan,
    )


# the page -------------------------------------------------------------------------------------------------------------


def tables(
    workloads: int = WORKLOADS, regret_workloads: int = REGRET_WORKLOADS, drift_workloads: int = DRIFT_WORKLOADS
) -> str:
    """Write the three tables as Markdown."""
    names = [name for name, _ in ESTIMATORS]
    lines = [
        f"Coverage: share of {workloads} workloads whose true 99th percentile is at or below the bound (stated: 90 %,",
        f"Monte Carlo error ±{100 * math.sqrt(0.09 / workloads):.1f} % each); then the bound relative to the truth,",
        "median / 95th percentile. –: no bound exists, which the estimator says.",
        "",
        "| truth | stops | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for scenario in SCENARIOS:
        for stops in SIZES:
            cells = coverage(scenario, stops, workloads)
            lines.append(f"| {scenario.name} | {stops} | " + " | ".join(cells[name].text() for name in names) + " |")
            sys.stderr.write(lines[-1] + "\n")
    lines += [
        "",
        "Regret: what a choice costs beyond the best timeout of somebody who knows the law, median / 95th "
        f"percentile of {regret_workloads} workloads; ν = 4 partitions, timeouts 6 s to 30 min, truth with "
        f"{SCENARIOS[1].name}.",
        "",
        "| prices | stops | " + " | ".join(CHOICES) + " |",
        "|---|---|" + "---|" * len(CHOICES),
    ]
    for label, price in PRICES:
        for stops in REGRET_SIZES:
            found = regret(SCENARIOS[1], stops, price, regret_workloads)
            lines.append(f"| {label} | {stops} | " + " | ".join(found[name].text() for name in CHOICES) + " |")
            sys.stderr.write(lines[-1] + "\n")
    lines += ["", *_drift_table(drift_workloads)]
    return "\n".join(lines)


def _drift_table(workloads: int) -> list[str]:
    lines = [
        f"Slower restarts: share of {workloads} workloads in which an alarm came within the rollouts after the change, "
        "± its Monte",
        "Carlo error, and after how many of them (median). × 1.0: nothing changed, so all are false alarms; *stated* "
        "is what the",
        "threshold's average run length promises when the mean is known. Rollouts of 10 members, ρ = 0.3.",
        "",
        "| truth | rollouts before | after | stated | " + " | ".join(f"× {ratio}" for ratio in DRIFT_RATIOS) + " |",
        "|---|---|---|---|" + "---|" * len(DRIFT_RATIOS),
    ]
    for scenario in DRIFT_SCENARIOS:
        for baseline, watched in DRIFT_ROLLOUTS:
            cells = [detection(scenario, baseline, watched, ratio, workloads).text() for ratio in DRIFT_RATIOS]
            stated = f"{100 * stated_false_alarms(watched):.1f} %"
            lines.append(f"| {scenario.name} | {baseline} | {watched} | {stated} | " + " | ".join(cells) + " |")
            sys.stderr.write(lines[-1] + "\n")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute the tables and print them, or write them into the page.

    Returns
    -------
    int
        0; 1 when the page lacks the markers.
    """
    parser = argparse.ArgumentParser(prog="python -m fleet_learner.estimates.validation", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE}")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="workloads for each cell")
    options = parser.parse_args(arguments)
    text = options.page.read_text() if options.write else f"{BEGIN}{END}"
    if BEGIN not in text or END not in text:
        sys.stderr.write(f"{options.page} has no {BEGIN} … {END}\n")
        return 1
    few = (min(options.workloads, REGRET_WORKLOADS), options.workloads * DRIFT_WORKLOADS // WORKLOADS)
    table = tables(options.workloads, *few)
    if not options.write:
        sys.stdout.write(table + "\n")
        return 0
    before, rest = options.page.read_text().split(BEGIN, 1)  # read the page only now: the tables took minutes
    options.page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
