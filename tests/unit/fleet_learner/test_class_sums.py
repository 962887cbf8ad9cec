"""A class model does not depend on the split of the sums, nor, nearly, on the grid of lengths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleet_learner.estimates.class_sums import GapCounts, class_model, class_of_sums
from fleet_learner.estimates.gap_law import GapSample, moments
from fleet_learner.estimates.tail import fit_tail


def workloads(number: int, stops: int) -> list[GapSample]:
    rng = np.random.Generator(np.random.Philox(key=[11, number]))
    made = []
    for _ in range(number):
        gaps = 25_000 * math.exp(0.4 * rng.standard_normal()) * np.exp(0.5 * rng.standard_normal(stops))
        gaps = np.floor(np.where(rng.random(stops) < 0.02, 20 * gaps, gaps))
        made.append(GapSample(gaps_ms=gaps, is_returned=rng.random(stops) < 0.95, cluster=np.arange(stops) // 4))
    return made


def test_a_class_is_the_same_however_its_workloads_are_spread_over_tasks() -> None:
    samples = workloads(30, 40)
    found = [moments(sample) for sample in samples]
    counts = [GapCounts.of(sample, each.mean) for sample, each in zip(samples, found, strict=True)]
    halves = [GapCounts.union(counts[::2]), GapCounts.union(counts[1::2])]
    assert class_of_sums(found, GapCounts.union(halves[::-1])) == class_model(samples)


def test_no_gap_is_lost_or_counted_twice() -> None:
    samples = workloads(5, 100)
    counted = GapCounts.union(GapCounts.of(sample, 10.0) for sample in samples)
    assert (counted.returned + counted.censored).sum() == 500
    assert counted.returned.sum() == sum(int(sample.is_returned.sum()) for sample in samples)
    assert np.all(np.diff(counted.step) > 0)
    assert GapCounts.union([]).step.size == 0


def test_the_tail_of_counted_lengths_is_that_of_the_lengths_themselves() -> None:
    """A length is moved by a 400th of a per cent at most; so are threshold, shape and far quantiles, nearly."""
    samples = workloads(60, 200)
    means = [moments(sample).mean for sample in samples]
    ratios = np.concatenate([sample.gaps_ms / math.exp(mean) for sample, mean in zip(samples, means, strict=True)])
    exact = fit_tail(ratios, np.concatenate([sample.is_returned for sample in samples]))
    counted = class_model(samples).tail
    assert counted.number == exact.number
    assert counted.threshold_ms == pytest.approx(exact.threshold_ms, rel=1e-4)
    assert counted.shape == pytest.approx(exact.shape, abs=0.001)
    for chance in (0.01, 0.001):
        assert counted.quantile_ms(chance) == pytest.approx(exact.quantile_ms(chance), rel=0.001)


def test_a_class_without_an_end_teaches_nothing() -> None:
    never = GapSample(gaps_ms=np.array([5.0]), is_returned=np.array([False]), cluster=np.array([0]))
    model = class_model([never])
    assert (model.prior, model.correlation, model.tail) == (None, 0.0, None)
