"""Every reachable state of a Deployment's pods and of the operators that give them slots: no two processes have one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from simulator.slots.catalogue import DEEP, QUICK
from simulator.slots.moves import Rule, has_two_of_one, moves
from simulator.slots.search import search, start
from simulator.slots.state import Known, Left, Patch, Pod, Scenario, State, canonical
from staticgroup.core.slots.hand_out import SlotPod, is_free, passes_on

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in DEEP)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_no_two_living_processes_have_one_slot(scenario: Scenario) -> None:
    """The search is complete, and slots do pass on in it."""
    found = search(scenario)
    assert found.trace == ()
    assert found.is_exhausted
    assert found.given > 0


def _claiming(slot: str, pods: Sequence[SlotPod]) -> set[str]:
    return {pod.uid for pod in pods if pod.claimed == slot and not pod.has_ended}


def _had(slot: str, pods: Sequence[SlotPod]) -> list[SlotPod]:
    return [pod for pod in pods if pod.given == slot]


def _others_may_claim_it(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    return uid in _claiming(slot, pods) and is_free(slot, pods)


def _claim_was_not_seen(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    return _claiming(slot, pods) <= {uid} and is_free(slot, pods)


def _end_that_a_list_shows_counts(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    had = _had(slot, pods)
    return _claiming(slot, pods) == {uid} and bool(had) and all(pod.has_ended for pod in had)


def _one_end_is_enough(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    return _claiming(slot, pods) == {uid} and any(pod.is_end_watched for pod in _had(slot, pods))


def _gone_is_ended(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    had = _had(slot, pods)
    return _claiming(slot, pods) == {uid} and bool(had) and all(pod.has_ended or pod.is_lost for pod in had)


TWO = Scenario(name="two leaders", operators=2)
BEGINS_ANEW = Scenario(name="begins anew", left=Left(force=1, crash=1))
FORCE = Scenario(name="force", left=Left(force=1))
LATE = Scenario(name="late proof", left=Left(force=1, crash=1, late=1))
FOUR = Scenario(name="four pods", pods=4)


@pytest.mark.parametrize(
    ("scenario", "rule", "steps"),
    [
        (TWO, _others_may_claim_it, 16),
        (TWO, _claim_was_not_seen, 12),
        (BEGINS_ANEW, _end_that_a_list_shows_counts, 18),
        (FORCE, _one_end_is_enough, 16),
        (FORCE, _gone_is_ended, 10),
        (replace(LATE, are_late_ends_told_apart=False), passes_on, 19),
        (replace(FOUR, is_versioned=False), passes_on, 21),
    ],
    ids=["nobody else claims it", "the claim was seen", "the watch brought the end", "every pod that had it has ended",
         "gone is not ended", "an end that is proven late does not count", "a request counts for one version only"],
)  # fmt: skip
def test_each_clause_is_needed(scenario: Scenario, rule: Rule, steps: int) -> None:
    found = search(scenario, rule)
    assert len(found.trace) == steps, "\n".join(found.trace)


def test_states_that_differ_by_names_are_one_state() -> None:
    one = State(
        pods=(Pod("R", 1, 1, True), Pod("W", -1)), known=((Known("f"), Known("f")), (Known(), Known("x", 1))),
        is_blind=(False, True), patches=(Patch(1, 2),), left=Left(),
    )  # fmt: skip
    same = State(
        pods=(Pod("W", -2), Pod("R", 2, 2, True)), known=((Known("x", 2), Known()), (Known("f"), Known("f"))),
        is_blind=(True, False), patches=(Patch(0, 1),), left=Left(),
    )  # fmt: skip
    assert canonical(one) == canonical(same)
    assert canonical(one) != canonical(one._replace(patches=(Patch(1, 1),)))
    assert canonical(one) != canonical(one._replace(is_blind=(True, False)))


@pytest.mark.parametrize("scenario", [QUICK[0], replace(LATE, left=Left(force=1, gap=1, late=1)), TWO])
def test_the_same_follows_from_states_that_are_one(scenario: Scenario) -> None:
    """What follows from a state and from the one that stands for it differs by names alone."""
    order, seen = [start(scenario)], {start(scenario)}
    for s in order:
        stands_for_it = canonical(s)
        itself = {_least(stands_for_it)}  # a move that changes only what is forgotten
        of_it, of_that = ({_least(canonical(t)) for _, t in moves(each, scenario)} for each in (s, stands_for_it))
        assert of_it - itself == of_that - itself
        assert has_two_of_one(s) == has_two_of_one(stands_for_it)
        new = [t for _, t in moves(s, scenario) if t not in seen] if len(order) < 600 else []
        seen.update(new)
        order += list(dict.fromkeys(new))


def _least(s: State) -> State:
    """Return the least state of all that differ by the names of pods alone, by trying every one."""
    return min(_renamed(s, order) for order in permutations(range(len(s.pods))))


def _renamed(s: State, order: tuple[int, ...]) -> State:
    def named(note: int) -> int:
        return note and (order.index(abs(note) - 1) + 1) * (1 if note > 0 else -1)

    rows = sorted(
        (tuple(row[i]._replace(note=named(row[i].note)) for i in order), blind)
        for row, blind in zip(s.known, s.is_blind, strict=True)
    )
    return State(
        pods=tuple(s.pods[i]._replace(note=named(s.pods[i].note), slot=named(s.pods[i].slot)) for i in order),
        known=tuple(row for row, _ in rows), is_blind=tuple(blind for _, blind in rows),
        patches=tuple(sorted(Patch(order.index(p.pod), named(p.note)) for p in s.patches)), left=s.left,
    )  # fmt: skip


def test_a_search_that_is_cut_off_has_shown_nothing() -> None:
    assert not search(replace(TWO, states_max=10)).is_exhausted


def test_the_page_has_every_variant() -> None:
    page = (REPOSITORY / "docs" / "reference" / "models.md").read_text(encoding="utf-8")
    assert [one.name for one in (*QUICK, *DEEP) if f"| {one.name} | {one.says} |" not in page] == []


def test_the_command_line_says_what_it_does() -> None:
    command = [sys.executable, "-m", "simulator.slots", "--help"]
    done = subprocess.run(command, cwd=REPOSITORY / "operator", capture_output=True, text=True, check=False)
    assert (done.returncode, "--deep" in done.stdout) == (0, True)
