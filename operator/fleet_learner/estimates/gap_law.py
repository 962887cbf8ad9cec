"""Choose the estimate that a workload's own data support, with its uncertainty.

The one idea: with many stops the data speak for themselves (Kaplan–Meier); with few, the class of similar workloads
adds its experience (partial pooling); with neither, nothing is claimed. Beyond the data the law falls like the class's
tail, because no lognormal law contains one slow image pull in a hundred. The border, 230 effective stops, is where a
distribution-free 90 % bound of the 99th percentile begins to exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bootstrap import drawn_survivals, rollout_counts
from .dependence import Spread, spread
from .drift import effective_number
from .kaplan_meier import SurvivalCurve, kaplan_meier, upper_quantile_ms
from .laws import Law, LognormalLaw, TabulatedLaw
from .pooling import ClassPrior, Posterior, censored_log_moments, posterior
from .tail import ParetoTail
from .tolerance import stops_needed

SHARE = 0.99
CONFIDENCE = 0.9
STOPS_FOR_OWN_CURVE = stops_needed(SHARE, CONFIDENCE)
DRAWS = 100
AT_RISK_MIN = 10
"""With fewer members still away, a curve is a few accidents."""

Survival = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSample:
    """Hold the gaps of one workload.

    Parameters
    ----------
    gaps_ms: (n,) ≥ 0.
    is_returned: (n,); False: still away when last seen. Blind gaps and wanted removals do not belong here.
    cluster: (n,) code of the rollout; a stop outside a rollout has a code of its own.
    weights: (n,) by age; None: 1 each.
    """

    gaps_ms: NDArray[np.float64]
    is_returned: NDArray[np.bool_]
    cluster: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMoments:
    """Summarise a workload.

    Parameters
    ----------
    number: of gaps, an unseen end counted by its information; 0: no ended gap.
    mean, variance: of ln gap, as if all stops were independent.
    spread: by rollout; None when there is no ended gap.
    """

    number: float
    mean: float
    variance: float
    spread: Spread | None

    def design_effect(self, correlation: float) -> float:
        """Return the design effect of the stops, ≥ 1."""
        return 1.0 if self.spread is None else self.spread.design_effect(correlation)

    def corrected(self, correlation: float) -> tuple[float, float, float, float]:
        """Return effective number, mean, variance and degrees of freedom, given the class's correlation in rollouts."""
        if self.spread is None:
            return 0.0, self.mean, self.variance, 0.0
        informed = self.number / self.spread.number
        return (
            self.number / self.spread.design_effect(correlation),
            self.mean,
            self.variance * self.spread.variance_factor(correlation),
            self.spread.degrees(correlation) * min(informed, 1.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassModel:
    """Hold the model of a class of workloads.

    Parameters
    ----------
    prior: how workloads differ; None with too few workloads.
    correlation: of ln gap inside a rollout.
    tail: of gap / exp(workload's mean of ln gap), a ratio without unit ("ms" in its fields reads 1); None: too few.
    """

    prior: ClassPrior | None
    correlation: float
    tail: ParetoTail | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LawEstimate:
    """Hold the estimate of a workload's gaps.

    Parameters
    ----------
    law: best estimate.
    stops_effective: effective number of stops.
    bound_ms: with 90 % confidence at least 99 % of the gaps are shorter; inf: no such bound.
    posterior: of ln gap, when the class was needed; None: the curve is the workload's own.
    """

    law: Law
    stops_effective: float
    bound_ms: float
    sample: GapSample
    posterior: Posterior | None

    tail: ParetoTail | None
    design_effect: float
    horizon_ms: float

    @property
    def is_pooled(self) -> bool:
        """Return whether the class was needed."""
        return self.posterior is not None

    def drawn(self, rng: np.random.Generator) -> Law:
        """Draw 100 laws that the data allow: from the posterior, or curves of rollouts drawn with replacement."""
        if self.posterior is not None:
            known = self.posterior
            deviation = np.sqrt(known.degrees * known.variance / rng.chisquare(known.degrees, (DRAWS, 1)))
            mean = known.mean + math.sqrt(known.mean_variance) * rng.standard_normal((DRAWS, 1))
            return _pooled_law(LognormalLaw(mean=mean, deviation=deviation).at, self.tail, mean, self.horizon_ms)

        def survival(times: NDArray[np.float64]) -> NDArray[np.float64]:
            sample = self.sample
            counts = rollout_counts(sample.cluster, DRAWS, rng)
            return drawn_survivals(
                sample.gaps_ms, sample.is_returned, sample.weights, counts, times,
                tail=self.tail, at_risk_min=AT_RISK_MIN * self.design_effect,
            )  # fmt: skip

        return TabulatedLaw(survival, self.horizon_ms)


def moments(sample: GapSample) -> SampleMoments:
    """Summarise a workload's gaps."""
    informed, mean, variance = censored_log_moments(sample.gaps_ms, sample.is_returned)
    if informed == 0:
        return SampleMoments(number=0.0, mean=math.nan, variance=0.0, spread=None)
    ended = sample.is_returned
    parts = spread(np.log(np.maximum(sample.gaps_ms[ended], 1.0)), sample.cluster[ended])
    return SampleMoments(number=informed, mean=mean, variance=variance, spread=parts)


def estimate_law(sample: GapSample, model: ClassModel, *, horizon_ms: float) -> LawEstimate | None:
    """Estimate the law of a workload's gaps.

    Parameters
    ----------
    model: of its class.
    horizon_ms: longest time that matters.

    Returns
    -------
    LawEstimate | None
        None when there are too few stops and no class to learn from.
    """
    own = moments(sample)
    number, mean, variance, degrees = own.corrected(model.correlation)
    weight = 1.0 if sample.weights is None else effective_number(sample.weights) / max(sample.gaps_ms.size, 1)
    effective = number * weight
    is_own = effective >= STOPS_FOR_OWN_CURVE
    if not is_own and model.prior is None:
        return None
    known = None if model.prior is None else posterior(model.prior, number, mean, variance, degrees)
    curve = _curve(sample)
    bound = math.inf
    if is_own:
        bound = upper_quantile_ms(curve, SHARE, CONFIDENCE, design_effect=own.design_effect(model.correlation))
    centre = mean if known is None else known.mean
    if known is not None and math.isinf(bound):
        far = None if model.tail is None else model.tail.quantile_ms(1.0 - SHARE)
        bound = max(known.quantile_bound_ms(SHARE, CONFIDENCE), 0.0 if far is None else math.exp(centre) * far)
    effect = own.design_effect(model.correlation)
    if is_own or known is None:
        law: Law = TabulatedLaw(_own_survival(curve, model.tail, effect), horizon_ms)
    else:
        law = _pooled_law(known.survival, model.tail, centre, horizon_ms)
    return LawEstimate(
        law=law,
        stops_effective=effective,
        bound_ms=bound,
        sample=sample,
        posterior=None if is_own else known,
        tail=model.tail,
        design_effect=effect,
        horizon_ms=horizon_ms,
    )


def _own_survival(curve: SurvivalCurve, tail: ParetoTail | None, design_effect: float) -> Survival:
    """Follow the curve while enough members are at risk, then continue from there with the class's tail."""
    centre_ms = max(curve.quantile_ms(0.5), 1.0)
    known = curve.times_ms[curve.at_risk >= AT_RISK_MIN * design_effect]
    if tail is None or known.size == 0 or math.isinf(centre_ms):
        return curve.at
    cut = float(known[-1])
    level, reference = float(curve.at(cut)), float(tail.exceedance(max(cut / centre_ms, tail.threshold_ms)))

    def survival(times_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        beyond = tail.exceedance(np.maximum(times_ms / centre_ms, tail.threshold_ms)) / max(reference, 1e-12)
        own = curve.at(times_ms)
        return np.where(times_ms > cut, np.maximum(own, level * np.minimum(beyond, 1.0)), own)

    return survival


def _pooled_law(
    survival: Survival, tail: ParetoTail | None, centre: NDArray[np.float64] | float, horizon_ms: float
) -> Law:
    """Follow a lognormal law, but never below the class's tail; `centre` of ln gap, (b, 1) for b laws."""
    if tail is None:
        return TabulatedLaw(survival, horizon_ms)

    def heavier(times_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        ratios = times_ms / np.exp(centre)
        far = np.where(ratios > tail.threshold_ms, tail.exceedance(ratios), 0.0)
        return np.maximum(survival(times_ms), far)

    return TabulatedLaw(heavier, horizon_ms)


def _curve(sample: GapSample) -> SurvivalCurve:
    if sample.weights is None:
        return kaplan_meier(sample.gaps_ms, sample.is_returned)
    scale = effective_number(sample.weights) / float(sample.weights.sum())
    return kaplan_meier(sample.gaps_ms, sample.is_returned, sample.weights * scale)
