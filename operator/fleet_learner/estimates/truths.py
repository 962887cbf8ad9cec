"""Draw workloads with a known law, to test estimators.

The one idea: a scenario is a lognormal law with one violation of the estimators' assumptions, or with all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .gap_law import GapSample
from .laws import Law, LognormalLaw, MixtureLaw, ParetoLaw

ROLLOUT_SIZE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Describe a scenario.

    Parameters
    ----------
    tail_weight: share of gaps of a Pareto law (index 1.5) that no model knows.
    correlation: of ln gap inside a rollout of 10.
    censored: share of gaps whose end is not seen, at a time independent of the gap.
    """

    name: str
    tail_weight: float = 0.0
    correlation: float = 0.0
    censored: float = 0.0


SCENARIOS = (
    Scenario(name="lognormal"),
    Scenario(name="1 % Pareto tail", tail_weight=0.01),
    Scenario(name="rollouts of 10, ρ = 0.5", correlation=0.5),
    Scenario(name="30 % censored", censored=0.3),
    Scenario(name="tail, rollouts and censoring", tail_weight=0.01, correlation=0.5, censored=0.3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Hold one true law and the observations of it."""

    law: Law
    sample: GapSample


def draw_workloads(scenario: Scenario, stops: int, workloads: int, rng: np.random.Generator) -> list[Workload]:
    """Draw workloads of one class: medians around 25 s (×/÷ 1.5), deviations of ln gap around 0.5.

    Returns
    -------
    list[Workload]
    """
    means = math.log(25_000.0) + 0.4 * rng.standard_normal(workloads)
    deviations = 0.5 * np.sqrt(20.0 / rng.chisquare(20.0, workloads))
    return [draw_workload(scenario, stops, float(m), float(d), rng) for m, d in zip(means, deviations, strict=True)]


def draw_workload(scenario: Scenario, stops: int, mean: float, deviation: float, rng: np.random.Generator) -> Workload:
    """Draw one workload.

    Parameters
    ----------
    mean, deviation: of ln gap, the gap in milliseconds.
    """
    cluster: NDArray[np.int64] = np.arange(stops) // (ROLLOUT_SIZE if scenario.correlation > 0 else 1)
    shared = rng.standard_normal(int(cluster[-1]) + 1)[cluster]
    own = rng.standard_normal(stops)
    mixed = math.sqrt(scenario.correlation) * shared + math.sqrt(1 - scenario.correlation) * own
    gaps = np.exp(mean + deviation * mixed)
    pareto = ParetoLaw(least_ms=math.exp(mean + 2 * deviation), index=1.5)
    heavy = rng.random(stops) < scenario.tail_weight
    gaps = np.where(heavy, pareto.least_ms * rng.random(stops) ** (-1 / pareto.index), gaps)
    limits = np.full(stops, np.inf)
    if scenario.censored > 0:
        # Exponential; its mean cuts off a gap of average length with the wanted chance.
        patience = -math.exp(mean + deviation**2 / 2) / math.log1p(-scenario.censored)
        limits = patience * rng.standard_exponential(stops)
    lognormal = LognormalLaw(mean=mean, deviation=deviation)
    law = MixtureLaw((1 - scenario.tail_weight, scenario.tail_weight), (lognormal, pareto))
    sample = GapSample(gaps_ms=np.minimum(gaps, limits), is_returned=gaps <= limits, cluster=cluster)
    return Workload(law=law, sample=sample)


def true_quantile_ms(law: Law, share: float) -> float:
    """Find the gap that is exceeded with chance 1 − share, by halving."""
    low, high = 1.0, 1e12
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if float(law.at(middle)) > 1 - share else (low, middle)
    return high
