"""A hundred curves at once are the curves of the drawn samples, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fleet_learner.estimates import bootstrap
from fleet_learner.estimates.bootstrap import drawn_survivals, rollout_counts
from fleet_learner.estimates.drift import effective_number
from fleet_learner.estimates.gap_law import _own_survival
from fleet_learner.estimates.kaplan_meier import kaplan_meier
from fleet_learner.estimates.tail import ParetoTail

TIMES_MS = np.concatenate(([0.0], np.geomspace(1_000.0, 600_000.0, 80)))
TAIL = ParetoTail(threshold_ms=2.0, shape=0.3, scale_ms=0.7, number=5_000, share=0.1)


def test_the_bootstrap_draws_whole_rollouts() -> None:
    """As many rollouts as there are, each with all of its stops, some twice, some not (Field & Welsh 2007)."""
    cluster = np.array([7, 7, 7, 2, 9, 9])
    members = {7: [0, 1, 2], 2: [3], 9: [4, 5]}
    seen = set()
    for counts in rollout_counts(cluster, 200, np.random.Generator(np.random.Philox(key=[3, 0]))):
        by_rollout = {name: {int(counts[i]) for i in stops} for name, stops in members.items()}
        assert all(len(each) == 1 for each in by_rollout.values())
        assert sum(each.copy().pop() for each in by_rollout.values()) == 3
        seen.add(tuple(counts.tolist()))
    assert len(seen) == 10  # all multisets of 3 rollouts


def sample(
    seed: int, number: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64], np.random.Generator]:
    """Gaps with many ties, some that did not end, in rollouts of all sizes."""
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    gaps_ms = np.round(np.exp(rng.normal(10.0, 0.8, number)) / 500) * 500
    return gaps_ms, rng.random(number) < 0.9, rng.integers(0, max(number // 4, 1), number), rng


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("tail", [None, TAIL])
@pytest.mark.parametrize(("seed", "number"), [(1, 400), (2, 31), (3, 1), (4, 2_000)])
def test_each_curve_is_that_of_the_sample_with_its_stops_repeated(
    seed: int, number: int, tail: ParetoTail | None, *, is_weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps_ms, is_returned, cluster, rng = sample(seed, number)
    weights = np.exp2(-rng.random(number)) if is_weighted else None
    counts = rollout_counts(cluster, 40, rng)
    monkeypatch.setattr(bootstrap, "_CELLS_MAX", 7_000)  # several times around
    made = drawn_survivals(gaps_ms, is_returned, weights, counts, TIMES_MS, tail=tail, at_risk_min=12.0)
    for row, count in zip(made, counts, strict=True):
        index = np.repeat(np.arange(number), count)
        mass = None if weights is None else weights[index] * (effective_number(weights[index]) / weights[index].sum())
        curve = kaplan_meier(gaps_ms[index], is_returned[index], mass)
        expected = _own_survival(curve, tail, 1.2)(TIMES_MS)  # ten members at risk, of 1.2 stops each
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12)
