"""Estimate workloads with few restarts from similar ones: partial pooling by empirical Bayes.

The one idea: y = ln gap of one workload is normal with its own mean and variance, and these vary between workloads of a
class by a law that the class itself shows. The fewer data a workload has, the more it is pulled towards its class. Only
(n, mean, variance) of each workload are needed: sums that merge, so the pooling runs in SQL at any size. Sources: Smyth
2004, Linear Models and Empirical Bayes, §6.2 (variances: scaled inverse χ², moments of the log); Efron & Morris 1975
(means). Bounds are quantiles of μ + z·σ under the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, digamma, ndtr, polygamma
from scipy.stats import norm

VARIANCE_NODES = 64
DEGREES_MAX = 1e6
"""Degrees of freedom that stand for "all workloads have the same variance"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPrior:
    """Describe how workloads of one class differ.

    Parameters
    ----------
    degrees: d₀, the class's weight in degrees of freedom of a workload's variance.
    variance: s₀², the class's variance of ln gap inside a workload.
    mean: M₀, mean of the workloads' means of ln gap.
    mean_variance: τ², variance of those means.
    workloads: number of workloads behind the prior.
    """

    degrees: float
    variance: float
    mean: float
    mean_variance: float
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """The posterior of one workload's ln gap: mean ~ N(mean, mean_variance), variance ~ degrees·variance/χ²."""

    mean: float
    mean_variance: float
    variance: float
    degrees: float

    def quantile_bound_ms(self, share: float, confidence: float) -> float:
        """Bound the workload's quantile from above: the confidence quantile of exp(μ + z·σ).

        Returns
        -------
        float
            Milliseconds. Deterministic: σ is integrated over 64 equally likely values.
        """
        z = float(norm.ppf(share))
        sigmas = self._sigmas()
        spread = math.sqrt(self.mean_variance)
        low = self.mean + z * float(sigmas.min()) - 10 * spread
        high = self.mean + z * float(sigmas.max()) + 10 * spread
        for _ in range(40):
            middle = 0.5 * (low + high)
            if float(ndtr((middle - self.mean - z * sigmas) / spread).mean()) < confidence:
                low = middle
            else:
                high = middle
        return math.exp(high)

    def survival(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Predict P(next gap > time): the law averaged over its uncertainty, hence with a heavier tail."""
        sigmas = self._sigmas()
        total = np.sqrt(sigmas**2 + self.mean_variance)
        logs = np.log(np.maximum(np.asarray(time_ms, dtype=np.float64), 1e-9))
        return 1.0 - ndtr((logs[..., None] - self.mean) / total).mean(axis=-1)

    def _sigmas(self) -> NDArray[np.float64]:
        shares = (np.arange(VARIANCE_NODES) + 0.5) / VARIANCE_NODES
        return np.sqrt(self.degrees * self.variance / chdtri(self.degrees, shares))


def class_prior(
    number: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    degrees: NDArray[np.float64] | None = None,
) -> ClassPrior | None:
    """Learn from the workloads of a class how they differ.

    Parameters
    ----------
    number: (w,) effective gaps of each workload: the variance of its mean is variance / number.
    mean, variance: (w,) of ln gap; the variance without bias.
    degrees: (w,) of freedom of the variances; None: number − 1.

    Returns
    -------
    ClassPrior | None
        None with fewer than 3 workloads whose variance is known: nothing to learn from.

    Notes
    -----
    e = ln v − ψ(d/2) + ln(d/2) has variance ψ'(d/2) + ψ'(d₀/2); with d that differ, the mean of ψ'(d/2) is taken off.
    """
    known = number - 1 if degrees is None else degrees
    usable = (known >= 1) & (variance > 0) & (number > 0)
    number, mean, variance, known = number[usable], mean[usable], variance[usable], known[usable]
    if number.size < 3:
        return None
    logs = np.log(variance) - digamma(known / 2) + np.log(known / 2)
    excess = float(logs.var(ddof=1) - polygamma(1, known / 2).mean())
    prior_degrees = min(2.0 * _inverse_trigamma(excess), DEGREES_MAX) if excess > 0 else DEGREES_MAX
    prior_variance = math.exp(float(logs.mean()) + float(digamma(prior_degrees / 2)) - math.log(prior_degrees / 2))
    shrunk = (prior_degrees * prior_variance + known * variance) / (prior_degrees + known)
    mean_variance, centre = _between(mean, shrunk / number)
    return ClassPrior(
        degrees=prior_degrees,
        variance=prior_variance,
        mean=centre,
        mean_variance=mean_variance,
        workloads=number.size,
    )


def posterior(
    prior: ClassPrior, number: float, mean: float, variance: float, degrees: float | None = None
) -> Posterior:
    """Combine a workload's own gaps with its class.

    Parameters
    ----------
    number: effective gaps, ≥ 0; 0 gives the class itself.
    mean, variance: of ln gap.
    degrees: of freedom of the variance; None: number − 1, at least 0.

    Returns
    -------
    Posterior
    """
    if number <= 0:
        return Posterior(
            mean=prior.mean, mean_variance=prior.mean_variance, variance=prior.variance, degrees=prior.degrees
        )
    known = max(number - 1.0, 0.0) if degrees is None else degrees
    shrunk = (prior.degrees * prior.variance + known * variance) / (prior.degrees + known)
    noise = shrunk / number
    weight = prior.mean_variance / (prior.mean_variance + noise)
    return Posterior(
        mean=weight * mean + (1.0 - weight) * prior.mean,
        mean_variance=max(prior.mean_variance * noise / (prior.mean_variance + noise), 1e-12),
        variance=shrunk,
        degrees=prior.degrees + known,
    )


def censored_log_moments(
    gaps_ms: NDArray[np.float64], is_returned: NDArray[np.bool_], rounds: int = 100
) -> tuple[float, float, float]:
    """Estimate mean and variance of ln gap when some ends were not seen.

    Parameters
    ----------
    gaps_ms: (n,) ≥ 0.
    is_returned: (n,); False: the gap was longer than that.
    rounds: of the expectation–maximisation at most.

    Returns
    -------
    tuple[float, float, float]
        (effective number, mean, variance with n−1). The number counts ended gaps in full and the others by their share
        of information about the variance; (0, nan, nan) without an ended gap.

    Notes
    -----
    Normal law of ln gap, Dempster, Laird & Rubin 1977: an unseen end contributes E[y | y > c] and E[y² | y > c].
    """
    logs = np.log(np.maximum(gaps_ms, 1.0))
    seen, cut = logs[is_returned], logs[~is_returned]
    if seen.size == 0:
        return 0.0, math.nan, math.nan
    mean, variance = float(seen.mean()), float(seen.var())
    if cut.size == 0 or variance <= 0:
        return float(seen.size), mean, variance * seen.size / max(seen.size - 1, 1)
    total, informed = logs.size, float(seen.size)
    for _ in range(rounds):
        sigma = math.sqrt(variance)
        alpha = (cut - mean) / sigma
        ratio = np.exp(norm.logpdf(alpha) - norm.logsf(alpha))
        expected = mean + sigma * ratio
        inner = variance * np.maximum(1.0 + alpha * ratio - ratio**2, 0.0)
        mean_next = float((seen.sum() + expected.sum()) / total)
        variance_next = float((((seen - mean_next) ** 2).sum() + ((expected - mean_next) ** 2 + inner).sum()) / total)
        informed = seen.size + float((1.0 - inner / variance).sum())
        settled = abs(mean_next - mean) < 1e-9 and abs(variance_next - variance) < 1e-9
        mean, variance = mean_next, variance_next
        if settled:
            break
    return informed, mean, variance * informed / max(informed - 1.0, 1.0)


def _between(means: NDArray[np.float64], noise: NDArray[np.float64]) -> tuple[float, float]:
    """Solve Σ (m−M)²/(τ²+noise) = w−1 for τ² (Paule & Mandel 1982), which weighs workloads by their precision."""
    low, high = 0.0, float(means.var(ddof=1)) * 4 + 1e-9
    for _ in range(60):
        middle = 0.5 * (low + high)
        weight = 1.0 / (middle + noise)
        centre = float((weight * means).sum() / weight.sum())
        if float((weight * (means - centre) ** 2).sum()) > means.size - 1:
            low = middle
        else:
            high = middle
    variance = max(0.5 * (low + high), 1e-6)
    weight = 1.0 / (variance + noise)
    return variance, float((weight * means).sum() / weight.sum())


def _inverse_trigamma(value: float) -> float:
    """Solve ψ'(x) = value by Newton's steps on 1/ψ' (Smyth 2004, appendix)."""
    if value > 1e7:
        return 1.0 / math.sqrt(value)
    if value < 1e-6:
        return 1.0 / value
    x = 0.5 + 1.0 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1.0 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x
