"""Every reachable state of one ordinal keeps every promise, in every variant, with the product's own decisions."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from mutants.evidence.covered import COVERED
from mutants.evidence.mutants import MUTANTS
from mutants.evidence.page import PAGE, page_with_figures, variant_row
from simulator.evidence.check import Model, search
from simulator.evidence.objects import FAILED, RUNNING, TERMINATED, Pod
from simulator.evidence.policy import Policy
from simulator.evidence.questions import Event, Reading
from simulator.evidence.state import CONTINUOUS, GAPPED, Process, Seat, canonical, initial
from simulator.evidence.variant import ASSUMPTIONS, VARIANTS, Variant
from staticgroup.core.evidence.chain import IncarnationState

REPOSITORY = Path(__file__).resolve().parents[2]
NOTHING_CAN_BE_PROVEN = {"old kubelet", "virtual kubelet", "unknown kubelet", "hostPID", "stranger"}
STATES_IN_ALL_MAX = 900_000


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_every_reachable_state_keeps_every_promise(variant: Variant) -> None:
    """The search is complete, removes the dead wherever evidence can exist, and gives the page's figures."""
    outcome = search(variant)
    assert outcome.violation == "", "\n".join(outcome.trace)
    assert outcome.is_complete
    assert (outcome.removals == 0) == (variant.name in NOTHING_CAN_BE_PROVEN)
    assert (outcome.departures > 0) == variant.progress
    assert variant_row(variant, outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("assumption", ASSUMPTIONS, ids=lambda v: v.name)
def test_the_proof_rests_on_each_assumption(assumption: Variant) -> None:
    """Without it a living member is removed, by the trace that the page prints."""
    outcome = search(assumption)
    assert outcome.violation == "a living member is removed"
    steps = "\n".join(f"{n}. {step}" for n, step in enumerate(outcome.trace, start=1))
    assert steps in PAGE.read_text(encoding="utf-8")


def test_a_watch_that_lags_everywhere_is_as_safe() -> None:
    """Showing events late instead of at once adds states and no danger, so showing them at once hides nothing."""
    prompt_outcome = search(Variant(name="prompt", toggles=1, forces=1))
    late_outcome = search(Variant(name="late", toggles=1, forces=1, lags=True))
    assert (prompt_outcome.violation, late_outcome.violation) == ("", "")
    assert late_outcome.states > prompt_outcome.states
    assert late_outcome.removals >= prompt_outcome.removals > 0


def test_no_reading_does_better_than_with_perfect_evidence() -> None:
    """A round is given up when perfect evidence could not save it; so perfect evidence must be the best case."""
    model = Model(Variant(name="small", toggles=3, forces=1))
    books = _reachable_books(model)
    assert len(books) > 10
    allowed = 0
    for wanted, uid, passed, book, gap in product((0, 1), (0, 1, 2), (0, 1), books, (CONTINUOUS, GAPPED)):
        reading = Reading((True,), (False,), bool(wanted), uid, bool(passed), held_long=True)
        decided = model.policy.decide(book, gap, reading).removals
        best = model.policy.decide(model.policy.perfect_book, CONTINUOUS, reading).removals
        assert set(decided) <= set(best)
        allowed += bool(decided)
    assert allowed > 0


def _reachable_books(model: Model) -> set[int]:
    start = initial(model.variant)
    found, due = {start}, [start]
    while due:
        for move in model.moves(due.pop()):
            after = canonical(move.after)
            if after not in found:
                found.add(after)
                due.append(after)
    return {replica.book for state in found for replica in state.replicas}


def test_states_that_differ_by_the_names_of_members_are_one_state() -> None:
    """Member ids are opaque (KIP-345): only whether two are equal matters."""
    start = initial(Variant(name="any"))
    one = start._replace(seats=(Seat(holder=7, stored=3),), processes=(Process(members=(3,)),))
    other = start._replace(seats=(Seat(holder=2, stored=9),), processes=(Process(members=(9,)),))
    different = start._replace(seats=(Seat(holder=2, stored=9),), processes=(Process(members=(2,)),))
    assert canonical(one) == canonical(other) != canonical(different)


def test_the_book_of_the_model_is_the_products_book() -> None:
    """The kubelet's final status certifies, a force delete of the same pod leaves a suspect (chain.fold, vanish)."""
    policy = Policy(Variant(name="any"))
    born = Pod(uid=1)
    runs = born._replace(bound=True, phase="Running", statuses=(RUNNING,))
    ended = runs._replace(deleting=True, phase=FAILED, statuses=(TERMINATED,))

    def after(*pods: Pod, last_deleted: bool) -> IncarnationState:
        book = 0
        for number, pod in enumerate(pods, start=1):
            is_deleted = last_deleted and number == len(pods)
            book = policy.take(book, Event(pod, is_deleted=is_deleted))
        return policy.incarnations(book, ())[0].state

    assert after(born, runs, ended, last_deleted=False) is IncarnationState.DEAD
    assert after(born, runs, ended, ended, last_deleted=True) is IncarnationState.DEAD
    assert after(born, runs, runs, last_deleted=True) is IncarnationState.SUSPECT


def test_the_page_names_every_variant_mutant_and_covered_fault() -> None:
    """The page is written by the search itself; nothing of it may go missing."""
    page = PAGE.read_text(encoding="utf-8")
    for variant in VARIANTS:
        assert f"| {variant.name} | {variant.says} |" in page
    for mutant in MUTANTS:
        assert f"| {mutant.name} | {mutant.says} | {mutant.variant} |" in page
    for fault, covered_by in COVERED:
        assert f"| {fault.name} | {covered_by} |" in page


def test_all_variants_together_stay_affordable() -> None:
    """The sum of states is the cost of the proof; so many take one core about a minute and a half."""
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    names = {v.name for v in VARIANTS}
    states = [int(row[3].strip().replace(",", "")) for row in rows if row[1].strip() in names and len(row) == 9]
    assert len(states) == len(VARIANTS)
    assert sum(states) < STATES_IN_ALL_MAX


def test_a_search_that_gives_up_has_shown_nothing() -> None:
    """It counts neither as safe nor as a kill."""
    outcome = search(Variant(name="any"), states_max=20)
    assert outcome.violation == "the search gave up after 20 states"
    assert not outcome.is_complete
    assert not outcome.breaks_promise


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        page_with_figures("# A page\n")


def test_the_command_line_ends_with_1_and_the_trace_when_there_is_danger() -> None:
    """`--variant` of a safe variant ends with 0."""

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "simulator.evidence", "--variant", name]
        return subprocess.run(command, cwd=REPOSITORY / "operator", capture_output=True, text=True, check=False)

    safe, dangerous = run("stranger"), run("rejection before the first status")
    assert safe.returncode == 0
    assert "safe" in safe.stdout
    assert dangerous.returncode == 1
    assert "LeaveGroup of operator arrives: removed" in dangerous.stdout
