"""A small version of the published tables, with their stated properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_learner.estimates import validation
from fleet_learner.estimates.truths import SCENARIOS, Scenario
from fleet_learner.estimates.validation import CONFIDENCE, DRIFT_SCENARIOS, PRICES, coverage, detection, regret

LOGNORMAL, TAIL, ROLLOUTS, CENSORED, ALL = SCENARIOS
WORKLOADS = 200
POOLING_SLACK = 0.03
"""Empirical Bayes plugs the class in as if it were known, which costs up to 3 % of coverage."""


def cell(scenario: Scenario, stops: int, name: str) -> validation.Coverage:
    return coverage(scenario, stops, WORKLOADS, estimators=(name,))[name]


@pytest.mark.parametrize("scenario", [LOGNORMAL, TAIL], ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["order statistic", "Kaplan–Meier, beta product", "**chosen**"])
@pytest.mark.parametrize("stops", [300, 1000])
def test_bounds_without_a_law_cover_whatever_the_law(scenario: Scenario, stops: int, name: str) -> None:
    """At least 90 %, less 3 Monte Carlo errors; all workloads have a bound."""
    found = cell(scenario, stops, name)
    assert found.bounded == WORKLOADS
    assert found.covered >= CONFIDENCE - 3 * found.standard_error


@pytest.mark.parametrize("scenario", [LOGNORMAL, ROLLOUTS, CENSORED], ids=lambda each: each.name)
@pytest.mark.parametrize("stops", [5, 30, 100])
def test_the_pooled_bound_covers_where_its_law_holds(scenario: Scenario, stops: int) -> None:
    """Stops in rollouts and cut-off ends included, from five stops on."""
    found = cell(scenario, stops, "pooled")
    assert found.bounded == WORKLOADS
    assert found.covered >= CONFIDENCE - POOLING_SLACK - 3 * found.standard_error


def test_the_pooled_bound_is_much_shorter_than_the_workloads_own() -> None:
    """Five stops: the class saves a factor at the 95th percentile."""
    cells = coverage(LOGNORMAL, 5, WORKLOADS, estimators=("pooled", "lognormal, own stops"))
    assert cells["pooled"].ratio_p95 < 0.4 * cells["lognormal, own stops"].ratio_p95


def test_a_tail_that_no_model_knows_breaks_the_pooled_bound_and_not_the_choice() -> None:
    """Why the choice adds the class's tail, and changes to the workload's own curve."""
    cells = coverage(TAIL, 300, WORKLOADS, estimators=("pooled", "**chosen**"))
    assert cells["pooled"].covered < 0.6
    assert cells["**chosen**"].covered >= CONFIDENCE - 3 * cells["**chosen**"].standard_error


@pytest.mark.parametrize(("label", "price"), PRICES, ids=[label for label, _ in PRICES])
def test_the_choice_costs_little_more_than_the_best(label: str, price: float) -> None:
    """30 stops: median regret below 2 %, and never above that of the default of 45 s."""
    found = regret(TAIL, 30, price, workloads=60)
    assert found["**chosen**"].median < 0.02
    assert found["**chosen**"].median <= found["45 s"].median
    assert found["**chosen**"].p95 < 0.15


@pytest.mark.parametrize("scenario", DRIFT_SCENARIOS, ids=lambda each: each.name)
@pytest.mark.parametrize(("baseline", "watched"), [(8, 30), (15, 60)])
def test_false_alarms_are_about_as_many_as_the_run_length_states(
    scenario: Scenario, baseline: int, watched: int
) -> None:
    """With a mean that is learned from few rollouts, and with gaps that are not lognormal: at most twice as many."""
    found = detection(scenario, baseline, watched, 1.0, workloads=600)
    stated = validation.stated_false_alarms(watched)
    assert stated / 4 <= found.alarmed <= 2 * stated + 3 * found.standard_error


def test_slower_restarts_are_found_the_surer_the_slower_and_the_longer_one_knows_the_workload() -> None:
    """Half as slow again with 15 rollouts before: nine in ten within thirty; twice as slow within a few."""
    shares = [detection(DRIFT_SCENARIOS[0], 15, 30, ratio, workloads=200) for ratio in (1.0, 1.25, 1.5, 2.0)]
    assert [each.alarmed for each in shares] == sorted(each.alarmed for each in shares)
    assert shares[2].alarmed >= 0.9 - 3 * shares[2].standard_error
    assert shares[3].alarmed >= 0.99
    assert shares[3].delay <= 5
    assert detection(DRIFT_SCENARIOS[0], 8, 30, 1.5, workloads=200).alarmed < shares[2].alarmed


def test_a_cell_repeats_by_itself() -> None:
    assert coverage(ALL, 10, 20) == coverage(ALL, 10, 20)
    assert detection(DRIFT_SCENARIOS[0], 8, 10, 1.5, 20) == detection(DRIFT_SCENARIOS[0], 8, 10, 1.5, 20)


def test_the_page_has_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    assert validation.main(["--write", "--page", str(page)]) == 1
    assert page.read_text() == "nothing here\n"
    assert "has no" in capsys.readouterr().err
