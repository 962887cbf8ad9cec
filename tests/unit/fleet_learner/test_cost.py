"""The cost of a timeout: a worked example by hand and grid, the hazard rule, rent or buy, and limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.estimates.cost import (
    CostRates,
    cheapest,
    cost_per_day,
    dynamic_cost_per_day,
    eviction_cost,
    evictions_per_day,
    ghost_seconds_per_day,
    return_hazard,
    timeout_grid_ms,
)
from fleet_learner.estimates.laws import Law, LognormalLaw, MixtureLaw, NeverLaw, ParetoLaw, TabulatedLaw


@dataclass(frozen=True)
class DelayedExponential:
    """A node that is replaced after 2 min and Exp(13 min)."""

    delay_ms: float = 120_000.0
    mean_ms: float = 780_000.0

    def at(self, time_ms: np.ndarray | float) -> np.ndarray:
        return np.exp(-np.maximum(np.asarray(time_ms) - self.delay_ms, 0.0) / self.mean_ms)

    def integral_ms(self, time_ms: np.ndarray | float) -> np.ndarray:
        beyond = np.maximum(np.asarray(time_ms) - self.delay_ms, 0.0)
        return np.minimum(np.asarray(time_ms), self.delay_ms) + self.mean_ms * (1 - np.exp(-beyond / self.mean_ms))


STOPS, DEATHS = 36.0, 0.24
RESTARTS = MixtureLaw(
    (0.99, 0.01),
    (LognormalLaw(mean=math.log(25_000), deviation=0.5), LognormalLaw(mean=math.log(150_000), deviation=0.5)),
)
EXAMPLE = MixtureLaw((STOPS / (STOPS + DEATHS), DEATHS / (STOPS + DEATHS)), (RESTARTS, DelayedExponential()))
SECONDS = np.arange(1_000.0, 1_800_001.0, 1_000.0)


def rates(kappa: float) -> CostRates:
    return CostRates(
        stops_per_day=STOPS + DEATHS, member_partitions=4.0, eviction_partition_seconds=kappa,
        heartbeat_interval_ms=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "partitions", "kappa", "optimum_s", "costs"),
    [
        (4.0, 48, 384.0, 107, {10: 14_900, 45: 5_777, 107: 4_502, 96: 4_508, 1800: 5_071}),
        (45.0, 48, 4_320.0, 1800, {10: 152_851, 45: 24_945, 1080: 5_231, 1800: 5_181}),
        (0.3, 48, 28.8, 1, {10: 2_451, 45: 4_048, 1: 1_189, 6: 1_911, 1800: 5_061}),
    ],
    ids=["eager", "streams", "cooperative"],
)
def test_the_worked_example(
    seconds: float, partitions: float, kappa: float, optimum_s: int, costs: dict[int, float]
) -> None:
    """12 members, 48 partitions, 3 deploys a day: figures of an independent computation, to half a per cent."""
    assert eviction_cost(rebalance_seconds=seconds, stopped_partitions=partitions) == pytest.approx(kappa)
    priced = cost_per_day(EXAMPLE, rates(kappa), SECONDS)
    assert SECONDS[int(cheapest(priced))] / 1000 == pytest.approx(optimum_s, abs=1)
    for timeout_s, cost in costs.items():
        assert priced[timeout_s - 1] == pytest.approx(cost, rel=0.005)


def test_at_the_optimum_the_hazard_is_nu_over_kappa() -> None:
    """C'(T) = 0 ⇔ h(T) = ν/κ: .0104 per second."""
    priced = cost_per_day(EXAMPLE, rates(384.0), SECONDS)
    best_ms = float(SECONDS[int(cheapest(priced))])
    assert return_hazard(EXAMPLE, best_ms, 1_000.0) == pytest.approx(4 / 384, rel=0.03)


@given(st.floats(1, 3_600), st.floats(1, 5_000), st.floats(0.1, 50))
def test_rent_or_buy_is_at_most_twice_as_dear(gap_s: float, kappa: float, nu: float) -> None:
    """For every gap: cost of T = κ/ν ≤ 2 · min(evict at once, wait it out) (Karlin et al. 1990)."""
    prices = CostRates(stops_per_day=1.0, member_partitions=nu, eviction_partition_seconds=kappa)
    timeout_s = prices.rent_or_buy_ms / 1000
    paid = nu * gap_s if gap_s <= timeout_s else nu * timeout_s + kappa
    assert paid <= 2 * min(kappa, nu * gap_s) * (1 + 1e-9)


LAWS: list[Law] = [
    LognormalLaw(mean=10.0, deviation=0.6),
    ParetoLaw(least_ms=20_000.0, index=1.5),
    NeverLaw(),
    RESTARTS,
    TabulatedLaw(LognormalLaw(mean=10.0, deviation=0.6).at, 1_800_000.0),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("time", [0.0, 5_000.0, 40_000.0, 900_000.0])
def test_the_integral_of_every_law_is_the_area_under_its_survival(law: Law, time: float) -> None:
    """E min(gap, t) = ∫₀ᵗ S."""
    fine = np.linspace(0.0, time, 200_001)
    area = float(np.trapezoid(law.at(fine), fine))
    assert float(law.integral_ms(time)) == pytest.approx(area, rel=1e-4, abs=1.0)


def test_the_timer_runs_since_the_last_heartbeat() -> None:
    """A gap of 44 s survives a 45 s session for a heartbeat up to 1 s old: a third of an interval of 3 s."""

    class Exactly44s:
        def at(self, time_ms: np.ndarray | float) -> np.ndarray:
            return (np.asarray(time_ms) < 44_000.0).astype(float)

        def integral_ms(self, time_ms: np.ndarray | float) -> np.ndarray:
            return np.minimum(np.asarray(time_ms), 44_000.0)

    prices = replace(rates(1.0), stops_per_day=1.0, heartbeat_interval_ms=3_000.0)
    expelled = float(evictions_per_day(Exactly44s(), prices, np.array([45_000.0]))[0])
    assert expelled == pytest.approx(2 / 3, abs=1 / 16)


def test_the_operator_shortens_the_wait_for_the_dead() -> None:
    """Half of the stops are for good; with the operator there they wait 5 s instead of the timeout."""
    law = LognormalLaw(mean=10.0, deviation=0.1)
    prices = replace(rates(1.0), stops_per_day=2.0, dead_share=0.5)
    waits = [
        float(ghost_seconds_per_day(law, replace(prices, operator_availability=a), np.array([600_000.0]))[0])
        for a in (0.0, 0.5, 1.0)
    ]
    returning = float(law.integral_ms(600_000.0)) / 1000
    assert waits == pytest.approx([returning + 600, returning + 302.5, returning + 5])


def test_dynamic_members_pay_every_stop() -> None:
    """Two rebalances for each, and Streams' members, who do not leave, the session besides."""
    law = LognormalLaw(mean=math.log(25_000), deviation=0.01)
    prices = replace(rates(30.0), stops_per_day=10.0)
    assert dynamic_cost_per_day(law, prices) == pytest.approx(300.0)
    silent = dynamic_cost_per_day(law, prices, leaves_on_close=False, timeout_ms=45_000)
    assert silent == pytest.approx(300 + 10 * 4 * 25, rel=1e-3)


def test_the_shortest_of_equal_costs_is_taken() -> None:
    assert cheapest(np.array([[3.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0]])).tolist() == [1, 0]


@given(st.floats(1_000, 200_000), st.floats(0, 1_700_000))
def test_the_grid_keeps_both_ends(minimum: float, more: float) -> None:
    grid = timeout_grid_ms(minimum, minimum + more)
    assert grid[0] == minimum
    assert grid[-1] == max(minimum + more, minimum)
    assert np.all(np.diff(grid) > 0)
