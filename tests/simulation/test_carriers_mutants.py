"""Each clause of the rule is needed: without it the search finds a live removal."""

from __future__ import annotations

import pytest

from mutants.carriers import CLAUSES, Clause
from simulator.carriers.catalogue import named
from simulator.carriers.search import search
from support.long_drills import by_length

SHORT = tuple(clause for clause in CLAUSES if by_length(short=not clause.is_deep, long=True))


@pytest.mark.parametrize("clause", SHORT, ids=lambda c: c.name)
def test_without_a_clause_a_live_member_is_removed(clause: Clause) -> None:
    """What `test_carriers_model` finds safe with it."""
    assert clause.is_missed(clause.search())


def test_a_clause_that_was_taken_away_is_there_again() -> None:
    clause = next(c for c in CLAUSES if c.name == "no carriers")
    assert clause.is_missed(clause.search())
    assert search(named(clause.scenario)).trace == ()
