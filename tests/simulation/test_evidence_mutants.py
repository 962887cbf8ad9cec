"""Each fault of the product, or of the order of its steps, is found by the search, with the shortest way to it."""

from __future__ import annotations

import pytest

from mutants.evidence.covered import COVERED
from mutants.evidence.mutants import MUTANTS, Mutant
from mutants.searched import MUTANTS as SEARCHED
from mutants.searched import unsafe_variants, verdicts
from mutants.verdict import Fate
from simulator.evidence.check import STUCK, search

LIVING = "a living member is removed"
PROMISES = {
    "hold": "a member is removed before the hold window is over",
    "budget": "the batch exceeds the removal budget",
    "intent unread": "a member is removed whose ordinal was wanted all the time",
    "suspension": "a member is removed while the StaticGroup is suspended",
    "too strict": STUCK,
    "every container": STUCK,
    "evidence lost": STUCK,
}
KILLED_MIN = 35


def test_there_are_enough_mutants_and_each_has_its_name() -> None:
    """A lost row of the table would be a lost rule."""
    names = [m.name for m in MUTANTS]
    assert len(set(names)) == len(names) >= KILLED_MIN
    assert set(PROMISES) < set(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_killed(mutant: Mutant) -> None:
    """The search ends at the promise that the fault breaks; the trace ends where it happens."""
    with mutant.applied() as variant:
        outcome = search(variant)
    assert outcome.violation == PROMISES.get(mutant.name, LIVING)
    assert outcome.breaks_promise
    assert outcome.trace
    if outcome.violation == LIVING:
        assert "LeaveGroup" in outcome.trace[-1]


@pytest.mark.parametrize(("fault", "covered_by"), COVERED, ids=[m.name for m, _ in COVERED])
def test_fault_is_made_up_for_by_another_clause(fault: Mutant, covered_by: str) -> None:
    """It is listed and not counted; were it killed one day, it would belong to the mutants."""
    with fault.applied() as variant:
        outcome = search(variant)
    assert outcome.violation == "", covered_by
    assert outcome.removals > 0


def test_a_patch_ends_with_its_context() -> None:
    """The product is whole again after a mutant, or every later test would be about nothing."""
    for mutant in MUTANTS:
        before = [vars(owner)[attribute] for owner, attribute, _ in mutant.patches]
        with mutant.applied():
            assert all(vars(owner)[attribute] is broken for owner, attribute, broken in mutant.patches)
        assert [vars(owner)[attribute] for owner, attribute, _ in mutant.patches] == before


def test_the_runner_of_the_mutants_searches_those_of_both_models() -> None:
    """`run.py NAME` prints the shortest way; a variant that is not safe by itself would make every kill worthless."""
    chosen = [m for m in SEARCHED if m.name in ("absent", "newcomer")]
    assert unsafe_variants(chosen, 1) == []
    found = {v.name: v for v in verdicts(chosen, 1)}
    assert {v.fate for v in found.values()} == {Fate.KILLED}
    assert {name: "LeaveGroup" in v.trace[-1] for name, v in found.items()} == {"absent": True, "newcomer": True}
