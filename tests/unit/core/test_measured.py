"""What measured absences ask for: bounds that hold whatever their law is, held against SciPy and against drawn laws."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from staticgroup.core.absences.samples import (
    CONFIDENCE,
    SAMPLES_MAX,
    SAMPLES_MIN,
    Cause,
    Reservoir,
    Sample,
    measured_need,
    rank_of_bound,
    samples_needed,
)
from staticgroup.core.timeouts.desired import LOWER_AFTER_S, TimeoutHysteresis
from unit.core.plans import present

HEARTBEAT_MS = 3_000


def kept(*lengths_ms: int) -> Reservoir:
    samples = (Sample(at_s=n, lot=n, shortest_ms=0, longest_ms=ms) for n, ms in enumerate(lengths_ms))
    return Reservoir(samples=tuple(samples), seen=len(lengths_ms))


def need(percent: int = 95, **causes: Reservoir):
    named = {Cause[name.upper()]: reservoir for name, reservoir in causes.items()}
    return measured_need(named, percent=percent, heartbeat_ms=HEARTBEAT_MS)


@given(st.integers(1, SAMPLES_MAX), st.integers(50, 95))
def test_rank_is_that_of_the_binomial_law(number: int, percent: int) -> None:
    """SciPy's binomial: r is the least with P(Bin(n, p) <= r - 1) >= 95 %."""
    rank = rank_of_bound(number, percent)
    if rank is None:
        assert binom.cdf(number - 1, number, percent / 100) < CONFIDENCE
        return
    assert binom.cdf(rank - 1, number, percent / 100) >= CONFIDENCE - 1e-9
    assert rank == 1 or binom.cdf(rank - 2, number, percent / 100) < CONFIDENCE


def test_as_many_samples_are_needed_as_the_books_say() -> None:
    """Hahn & Meeker, table of one-sided distribution-free tolerance bounds: 59 for 95 % at 95 %, 29 for 90 %, 5 for 50 %."""
    assert [samples_needed(p) for p in (95, 90, 50)] == [59, 29, 5]
    assert [rank_of_bound(n, 95) for n in (58, 59)] == [None, 59]
    assert samples_needed(95) <= SAMPLES_MAX


@pytest.mark.parametrize("law", ["even", "lognormal", "two kinds"])
def test_bound_covers_the_percentile_as_often_as_it_claims(law: str) -> None:
    """Drawn from known laws, 600 times: with 64 samples the 90th percentile is covered at least 95 % of the time."""
    rng = random.Random(law)
    draws = {
        "even": (lambda: rng.uniform(20, 50), 47.0),
        "lognormal": (lambda: rng.lognormvariate(3.4, 0.5), 56.9),
        "two kinds": (lambda: rng.uniform(20, 22) if rng.random() < 0.8 else rng.uniform(60, 80), 70.0),
    }
    draw, truth_s = draws[law]
    hits = 0
    for _ in range(600):
        found = present(need(percent=90, rollout=kept(*(int(1000 * draw()) for _ in range(64)))))
        assert found.is_bound
        hits += found.need_ms - HEARTBEAT_MS >= truth_s * 1000
    assert hits / 600 >= CONFIDENCE - 0.01


def test_nothing_measured_asks_for_nothing() -> None:
    assert need() is None
    assert need(node_loss=kept(600_000), crash=kept(5_000)) is None


def test_few_absences_stretch_the_longest_and_do_not_stand_alone() -> None:
    found = present(need(rollout=kept(20_000, 40_000)))
    assert (found.need_ms, found.is_bound, found.samples, found.is_enough) == (63_000, False, 2, False)


def test_enough_absences_stretch_the_longest_ever_less() -> None:
    found = present(need(rollout=kept(20_000, 30_000, 48_000), drain=kept(25_000, 26_000, 27_000)))
    assert (found.need_ms, found.is_bound, found.samples) == (59_000, False, 6)
    assert (found.longest_ms, found.cause, found.is_enough) == (48_000, Cause.ROLLOUT, True)


def test_many_absences_bound_the_percentile_and_leave_the_outliers() -> None:
    found = present(need(percent=80, rollout=kept(*range(1_000, 61_000, 1_000), 900_000)))
    assert found.is_bound
    assert found.need_ms == 55_000 + HEARTBEAT_MS


def test_frequent_short_crashes_do_not_hide_slow_rollouts() -> None:
    found = present(need(rollout=kept(*[40_000] * 59), crash=kept(*[2_000] * SAMPLES_MAX)))
    assert (found.need_ms, found.cause) == (43_000, Cause.ROLLOUT)


def test_crashes_count_once_there_are_enough_and_never_replace_the_estimate_of_rollouts() -> None:
    few = kept(*[90_000] * (SAMPLES_MIN - 1))
    assert need(rollout=kept(*[10_000] * 59), crash=few).need_ms == 13_000
    many = kept(*[90_000] * SAMPLES_MIN)
    assert need(rollout=kept(*[10_000] * 59), crash=many).need_ms == 111_000
    assert not need(crash=many).is_enough
    assert not need(rollout=kept(10_000), crash=many).is_enough


def test_value_goes_up_at_once_and_down_after_a_day_to_the_highest_of_that_day() -> None:
    now_s, first = 1_000_000.0, TimeoutHysteresis(timeout_ms=90_000)
    assert first.after(120_000, now_s + 1) == TimeoutHysteresis(timeout_ms=120_000)
    lower = first.after(40_000, now_s)
    assert lower == TimeoutHysteresis(timeout_ms=90_000, lower_since_s=now_s, lower_ms=40_000)
    peak = lower.after(60_000, now_s + 3_600)
    assert peak == TimeoutHysteresis(timeout_ms=90_000, lower_since_s=now_s, lower_ms=60_000)
    assert peak.after(50_000, now_s + LOWER_AFTER_S - 1).timeout_ms == 90_000
    down = peak.after(50_000, now_s + LOWER_AFTER_S)
    assert down == TimeoutHysteresis(timeout_ms=60_000, lower_since_s=now_s + LOWER_AFTER_S, lower_ms=50_000)


def test_higher_need_in_between_begins_the_day_anew() -> None:
    lower = TimeoutHysteresis(timeout_ms=90_000).after(40_000, 0.0)
    assert lower.after(90_000, 50_000.0) == TimeoutHysteresis(timeout_ms=90_000)


@given(st.lists(st.tuples(st.integers(5, 300), st.integers(0, 100_000)), min_size=1, max_size=30))
def test_value_in_use_is_never_below_what_is_asked_for(asked: list[tuple[int, int]]) -> None:
    state, now_s = TimeoutHysteresis(timeout_ms=1), 0.0
    for asked_s, pause_s in asked:
        now_s += pause_s
        before, state = state, state.after(asked_s * 1000, now_s)
        assert state.timeout_ms >= asked_s * 1000
        assert state.after(asked_s * 1000, now_s) == state
        if state.timeout_ms < before.timeout_ms:
            assert before.lower_since_s is not None
            assert now_s - before.lower_since_s >= LOWER_AFTER_S
