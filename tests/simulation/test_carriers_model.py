"""Every reachable state of one seat, with the product's own decisions: a removed member is dead."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mutants.carriers import CLAUSES
from simulator.carriers.catalogue import BROKEN, QUICK, SCENARIOS
from simulator.carriers.runs import search_runs
from simulator.carriers.scenario import Scenario
from simulator.carriers.search import Model, search
from simulator.carriers.state import GONE, Process, canonical

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "models.md"
INSIDE = {"classic, fail-over", "classic, stale", "consumer, stale"}
"""Where a description is older than the last change, or a write is lost, just when a silence is over: see the page."""


@pytest.mark.parametrize("scenario", QUICK, ids=lambda s: s.name)
def test_a_removed_member_is_dead(scenario: Scenario) -> None:
    """The search is complete and some members are removed; what lies inside of A1 and A2 is counted apart."""
    found = search(scenario)
    assert found.trace == ()
    assert found.is_exhausted
    assert found.removals > 0
    assert (found.inside > 0) == (scenario.name in INSIDE)


@pytest.mark.parametrize("scenario", BROKEN, ids=lambda s: s.name)
def test_a_broken_assumption_costs_live_removals(scenario: Scenario) -> None:
    """Live removals are found, each of them by the broken assumption."""
    found = search(scenario)
    assert found.trace == ()
    assert found.is_exhausted
    assert found.inside > 0


def test_no_process_that_lives_is_released_after_a_crash() -> None:
    found = search_runs(steps=1)
    assert found.trace == ()
    assert found.removals > 50
    assert found.states > 10_000


def test_states_that_differ_by_the_names_of_members_are_one_state() -> None:
    """Member ids are opaque (KIP-345): only whether two are equal matters."""
    start = Model(QUICK[0]).start
    one = start._replace(holder=7, known=3, processes=(Process(1, 7), Process(2, GONE)))
    same = start._replace(holder=2, known=9, processes=(Process(1, 2), Process(2, GONE)))
    other = start._replace(holder=2, known=2, processes=(Process(1, 2), Process(2, GONE)))
    assert canonical(one) == canonical(same) != canonical(other)


def test_a_search_that_is_cut_off_has_shown_nothing() -> None:
    found = search(replace(QUICK[1], states_max=50))
    assert not found.is_exhausted
    assert found.trace == ()


def test_the_page_names_every_variant_and_clause() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [s.name for s in SCENARIOS if f"| {s.name} | {s.says} |" not in page] == []
    assert [c.name for c in CLAUSES if f"| {c.says} | {c.scenario or 'crash release'} |" not in page] == []


def test_the_command_line_prints_the_table() -> None:
    command = [sys.executable, "-m", "simulator.carriers", "--only", "classic, force"]
    done = subprocess.run(command, cwd=REPOSITORY / "operator", capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "exhausted" in done.stdout
