"""The continuity rules keep every promise in every state of one pod name, and each broken one is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from mutants.evidence.continuity import COVERED, MUTANTS, ContinuityMutant, scenario_named
from mutants.evidence.mutants import MUTANTS as OTHER_MUTANTS
from mutants.evidence.page import PAGE, mutant_row, variant_row
from simulator.evidence.check import search
from simulator.evidence.continuity import catalogue
from simulator.evidence.continuity.actor import Step
from simulator.evidence.continuity.model import ContinuityModel, initial
from simulator.evidence.continuity.rules import Rules
from simulator.evidence.continuity.scenario import FAULTS, GAP, Scenario
from simulator.evidence.continuity.state import Lease, Span, State, Status, canonical
from simulator.evidence.variant import ASSUMPTIONS, VARIANTS

LIVING = "a living member is removed"
STATES_IN_ALL_MAX = 400_000


@pytest.mark.parametrize("scenario", catalogue.SCENARIOS, ids=lambda s: s.name)
def test_every_reachable_state_keeps_every_promise(scenario: Scenario) -> None:
    """The search is complete, removes the dead, and gives the page's figures."""
    outcome = search(scenario)
    assert outcome.violation == "", "\n".join(outcome.trace)
    assert outcome.is_complete
    assert outcome.removals > 0
    assert variant_row(scenario, outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_killed_by_the_trace_of_the_page(mutant: ContinuityMutant) -> None:
    """The shortest trace ends with the LeaveGroup, and is as long as the page says."""
    with mutant.applied() as scenario:
        outcome = search(scenario)
    assert outcome.violation == LIVING
    assert "LeaveGroup" in outcome.trace[-1]
    assert mutant_row(mutant, outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("fault", "covered_by"), COVERED, ids=[m.name for m, _ in COVERED])
def test_broken_rule_is_made_up_for_by_another_clause(fault: ContinuityMutant, covered_by: str) -> None:
    """It is listed and not counted; were it killed one day, it would belong to the mutants."""
    with fault.applied() as scenario:
        outcome = search(scenario)
    assert outcome.violation == "", covered_by
    assert outcome.removals > 0
    assert f"| {fault.name} | {covered_by} |" in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("assumption", catalogue.ASSUMPTIONS, ids=lambda s: s.name)
def test_the_rules_rest_on_each_assumption(assumption: Scenario) -> None:
    """Without it a living member is removed, by the trace that the page prints."""
    outcome = search(assumption)
    assert outcome.violation == LIVING
    steps = "\n".join(f"{n}. {step}" for n, step in enumerate(outcome.trace, start=1))
    assert steps in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("broken", ["is_same_object", "was_outside"])
def test_a_name_stays_clear_by_either_rule_alone(broken: str) -> None:
    """Were it never kept clear, safety would be hollow: after the one gap a chain is proven without any word."""
    assert _is_proven_after_the_gap(replace(Rules(), **{broken: lambda *_: False}))


def test_no_name_stays_clear_by_neither_rule() -> None:
    """What neither rule keeps clear is held by its span until somebody speaks."""
    assert not _is_proven_after_the_gap(
        replace(Rules(), is_same_object=lambda *_: False, was_outside=lambda _: False)
    )


def _is_proven_after_the_gap(rules: Rules) -> bool:
    scenario = replace(scenario_named("gap"), rules=rules)
    return any("proven dead" in step.says and not state.left[GAP] for state, step in _steps(scenario))


def _steps(scenario: Scenario) -> Iterator[tuple[State, Step]]:
    model = ContinuityModel(scenario)
    found, due = {model.start}, [model.start]
    while due:
        state = due.pop()
        for step in model.moves(state):
            yield state, step
            after = model.canonical(step.after)
            if after not in found:
                found.add(after)
                due.append(after)


def test_every_rule_is_broken_by_some_mutant() -> None:
    """A rule that nobody breaks might as well not be there."""
    broken = {name for m in (*MUTANTS, *(fault for fault, _ in COVERED)) for name in m.changes}
    assert broken == {rule.name for rule in fields(Rules)}


def test_names_are_told_apart() -> None:
    """The command line finds variants, scenarios, assumptions and mutants by their names."""
    variants = [*VARIANTS, *ASSUMPTIONS, *catalogue.SCENARIOS, *catalogue.DEEP, *catalogue.ASSUMPTIONS]
    mutants = [*OTHER_MUTANTS, *MUTANTS]
    for named in (variants, mutants):
        names = [one.name for one in named]
        assert len(set(names)) == len(names)


def test_every_fault_of_a_scenario_is_known() -> None:
    """A misspelt fault would never happen."""
    for scenario in (*catalogue.SCENARIOS, *catalogue.DEEP, *catalogue.ASSUMPTIONS):
        assert set(scenario.faults) <= set(FAULTS), scenario.name


def test_the_page_names_every_large_scenario() -> None:
    """They are searched by `make full` only; their rows are written with all others."""
    page = PAGE.read_text(encoding="utf-8")
    for scenario in catalogue.DEEP:
        assert f"| {scenario.name} | {scenario.says} |" in page


def test_all_scenarios_together_stay_affordable() -> None:
    """The sum of states is the cost; so many take one core about twenty seconds."""
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    names = {s.name for s in catalogue.SCENARIOS}
    states = [int(row[3].strip().replace(",", "")) for row in rows if row[1].strip() in names and len(row) == 9]
    assert len(states) == len(catalogue.SCENARIOS)
    assert sum(states) < STATES_IN_ALL_MAX


def test_states_that_differ_by_the_names_of_epochs_are_one_state() -> None:
    """Epochs only compare, and a span hides only what still runs."""

    def state(status_epoch: int, lease_epoch: int, hides: int) -> State:
        begun = initial(Scenario(name="any", is_durable=True))
        status = Status(status_epoch, 1, None, 2, 0, (Span(1, hides),))
        replicas = (begun.replicas[0]._replace(epoch=lease_epoch),)
        return begun._replace(status=status, lease=Lease(lease_epoch, 0), replicas=replicas)

    assert canonical(state(3, 7, 0)) == canonical(state(1, 4, 1 << 2)) != canonical(state(5, 5, 0))
