"""Each clause of the rule is needed: without it the search finds a live removal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mutants.carriers import CLAUSES, Clause
from simulator.carriers.catalogue import named
from simulator.carriers.search import search


@pytest.mark.long  # the whole rule is searched in make test
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda c: c.name)
def test_without_a_clause_a_live_member_is_removed(clause: Clause) -> None:
    """What `test_carriers_model` finds safe with it."""
    assert clause.is_missed(clause.search())


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda c: c.name)
def test_each_clause_can_be_taken_away(clause: Clause) -> None:
    """A name that has moved would leave the product whole."""
    with clause.without():
        assert not clause.scenario or replace(named(clause.scenario), **clause.changes)


def test_a_clause_that_was_taken_away_is_there_again() -> None:
    clause = next(c for c in CLAUSES if c.name == "no carriers")
    assert clause.is_missed(clause.search())
    assert search(named(clause.scenario)).trace == ()
