"""The rules about nodes keep every promise in every state of one pod and its node, and each broken one is found."""

from __future__ import annotations

import pytest

from mutants.evidence.nodes import MUTANTS, NodeMutant
from mutants.evidence.page import PAGE, mutant_row, variant_row
from mutants.searched import MUTANTS as SEARCHED
from simulator.evidence.check import search
from simulator.evidence.continuity import catalogue
from simulator.evidence.nodes.model import NodeModel, initial
from simulator.evidence.nodes.scenario import (
    NODE_ASSUMPTIONS,
    NODE_SCENARIOS,
    NOTHING_IS_PROVEN,
    NodeScenario,
)
from simulator.evidence.nodes.state import FAULTS
from simulator.evidence.variant import ASSUMPTIONS, VARIANTS
from staticgroup.core.evidence.certificate import CertificateKind

LIVING = "a living member is removed"
STATES_IN_ALL_MAX = 200_000


@pytest.mark.parametrize("scenario", NODE_SCENARIOS, ids=lambda s: s.name)
def test_every_reachable_state_keeps_every_promise(scenario: NodeScenario) -> None:
    """The search is complete, proves the dead wherever that is possible, and gives the page's figures."""
    outcome = search(scenario)
    assert outcome.violation == "", "\n".join(outcome.trace)
    assert outcome.is_complete
    assert (outcome.removals == 0) == (scenario.name in NOTHING_IS_PROVEN)
    assert variant_row(scenario, outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_killed_by_the_trace_of_the_page(mutant: NodeMutant) -> None:
    with mutant.applied() as scenario:
        outcome = search(scenario)
    assert outcome.violation == LIVING
    assert mutant_row(mutant, outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("assumption", NODE_ASSUMPTIONS, ids=lambda s: s.name)
def test_the_rules_rest_on_each_assumption(assumption: NodeScenario) -> None:
    """Without it a living member is removed, by the trace that the page prints."""
    outcome = search(assumption)
    assert outcome.violation == LIVING
    steps = "\n".join(f"{n}. {step}" for n, step in enumerate(outcome.trace, start=1))
    assert steps in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "proof"),
    [
        ("reaped", CertificateKind.REAPED), ("stuck", CertificateKind.REBOOTED), ("rebooted", CertificateKind.REBOOTED),
        ("node deleted by its cloud", CertificateKind.NODE_GONE), ("tainted, trusted", CertificateKind.NODE_GONE), ("sweep", "swept"),
    ],
)  # fmt: skip
def test_each_proof_comes_where_it_can(name: str, proof: str) -> None:
    """Were one of them never given, its safety would be hollow."""
    model = NodeModel(next(s for s in NODE_SCENARIOS if s.name == name))
    found, due = {model.start}, [model.start]
    while due:
        for step in model.moves(due.pop()):
            if step.removes and step.says.endswith(f": {proof}"):
                return
            if step.after not in found:
                found.add(step.after)
                due.append(step.after)
    pytest.fail(f"{proof} is never given")


def test_names_are_told_apart() -> None:
    """The command line finds all explorations and mutants by their names."""
    explorations = [
        *VARIANTS, *ASSUMPTIONS, *catalogue.SCENARIOS, *catalogue.DEEP, *catalogue.ASSUMPTIONS, *NODE_SCENARIOS,
        *NODE_ASSUMPTIONS,
    ]  # fmt: skip
    for named in (explorations, SEARCHED):
        names = [one.name for one in named]
        assert len(set(names)) == len(names)


def test_every_fault_of_a_scenario_is_known_and_may_happen() -> None:
    """A misspelt fault would never happen."""
    for scenario in (*NODE_SCENARIOS, *NODE_ASSUMPTIONS):
        assert set(scenario.faults) <= set(FAULTS), scenario.name
        assert sum(initial(scenario).left) == sum(scenario.faults.values())


def test_all_scenarios_together_stay_affordable() -> None:
    """The sum of states is the cost; so many take one core about half a minute."""
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    names = {s.name for s in NODE_SCENARIOS}
    states = [int(row[3].strip().replace(",", "")) for row in rows if row[1].strip() in names and len(row) == 9]
    assert len(states) == len(NODE_SCENARIOS)
    assert sum(states) < STATES_IN_ALL_MAX
