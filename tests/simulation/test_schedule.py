"""A schedule is as busy as it claims, comes out the same each time, and the runner rejects a hollow run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from simulator.faults import FAULTS
from simulator.oracles.assumptions import Assumption
from simulator.oracles.promises import Breach, Violation
from simulator.schedules.drawn_changes import ChangeKind
from simulator.schedules.schedule import BUSY_S, FAULTS_MIN, KINDS_MIN, PASSED_ON, Verdict, draw_faults, kinds, run
from simulator.schedules.soak import Failure, Tally, replay, replay_command, soak

SEEDS = range(1)


def verdict(
    seed: int, *, removals: int = 1, holds: int = 1, faults: Counter[str] | None = None, violated: bool = False,
    broken: tuple[Assumption, ...] = (),
) -> Verdict:
    """Make up what became of a schedule."""
    return Verdict(
        seed=seed, violations=(Violation("S1", 12.0, "operator-a removed live member m"),) if violated else (),
        breaches=tuple(Breach(kind, 12.0, "operator-a removed live member m") for kind in broken),
        faults=Counter(sorted(FAULTS)) if faults is None else faults, removals=removals, holds_with_zombie=holds,
        met=Counter((*(kind.value for kind in ChangeKind), PASSED_ON)), virtual_s=700.0,
    )


def tally(*results: Verdict | Failure) -> Tally:
    """Count schedules."""
    counted = Tally()
    for result in results:
        counted.add(result)
    return counted


class Stubborn(Random):
    """Draws the same kind of fault again and again."""

    def choices(self, population: Any, *arguments: Any, k: int = 1, **keywords: Any) -> list[Any]:
        return [population[0]] * k


@pytest.mark.parametrize("make", [Random, Stubborn])
def test_a_schedule_has_at_least_eight_faults_of_four_kinds_in_ten_minutes(make: type[Random]) -> None:
    """The definition of a schedule holds for each seed, not on average, and for the most one-sided draw."""
    for seed in range(300):
        drawn = draw_faults(make(seed), 100.0)
        assert len(drawn) >= FAULTS_MIN == 8
        assert len({fault.kind for _, fault in drawn}) >= KINDS_MIN == 4
        assert all(100.0 <= at_s <= 100.0 + BUSY_S for at_s, _ in drawn)
    assert BUSY_S >= 600.0


def test_every_kind_of_fault_is_drawn_in_three_hundred_schedules() -> None:
    """A kind that never happens proves nothing about the operator."""
    drawn = {fault.kind for seed in range(300) for _, fault in draw_faults(Random(seed), 0.0)}
    assert drawn == set(FAULTS)
    assert len(FAULTS) >= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_violated(seed: int) -> None:
    """S1-S14 and L1-L5 hold, and a schedule has what its drawing says; `make simulate-ci` runs 100."""
    result = run(seed)
    assert result.violations == (), result.trace
    assert result.faults.total() >= FAULTS_MIN
    assert len(result.faults) >= KINDS_MIN
    assert result.faults.keys() >= kinds(seed)
    assert result.virtual_s >= BUSY_S
    assert result.met["round done"] > 50


@pytest.mark.parametrize("seed", [3, 10])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    """Otherwise the command that replays a failure would show another one; also with 25 namespaces, or two teams."""
    first, second = run(seed, keep_trace=True), run(seed, keep_trace=True)
    assert first.trace == second.trace
    assert first == second
    assert len(first.trace.splitlines()) > 200


def test_a_run_as_it_should_be_has_no_complaints() -> None:
    """Removals in 30 % and living zombies held in 20 % of the schedules are enough."""
    busy = [verdict(n, removals=int(n < 3), holds=int(n < 2)) for n in range(10)]
    assert tally(*busy).complaints() == []


def test_a_live_removal_inside_an_assumption_is_counted_without_a_complaint() -> None:
    counted = tally(
        *(verdict(n, broken=(Assumption.A1, Assumption.A2)) for n in range(3)), verdict(4, broken=(Assumption.A2,))
    )
    assert counted.complaints() == []
    assert "alive because an assumption was broken: 3 inside A1, 4 inside A2" in counted.table()
    assert "alive because an assumption was broken: none" in tally(verdict(1)).table()


def test_a_violation_is_a_complaint_that_names_the_seed() -> None:
    """Its reader wants to replay it."""
    counted = tally(verdict(1), verdict(17, violated=True))
    assert counted.complaints() == ["schedule 17: S1 at 12.000 s: operator-a removed live member m"]
    assert replay_command(17) == "python -m simulator replay --seed 17"


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        (
            [verdict(1), Failure(seed=5, error="Traceback\nDeadlock: nothing is ready\n")],
            "schedule 5: Deadlock: nothing is ready",
        ),
        ([verdict(n, removals=int(n < 2)) for n in range(10)], "only 2 of 10 schedules reached a removal"),
        (
            [verdict(n, holds=int(n < 1)) for n in range(10)],
            "only 1 of 10 schedules held the member of a living zombie",
        ),
    ],
    ids=["exception", "no removals", "no living zombies"],
)
def test_schedules_that_prove_nothing_are_a_complaint(results: list[Verdict | Failure], complaint: str) -> None:
    """A run that did not happen is no proof, an operator that never removes is safe and useless, and the danger itself
    must be there often enough."""
    assert tally(*results).complaints() == [complaint]


@pytest.mark.parametrize(
    ("without", "complaint"),
    [
        ({"faults": Counter(k for k in FAULTS if k != "node_reboots")}, "the fault node_reboots never happened"),
        (
            {"met": Counter((*(k.value for k in ChangeKind if k is not ChangeKind.COPY), PASSED_ON))},
            "nobody ever copies a pod's id into a second workload",
        ),
        ({"met": Counter(kind.value for kind in ChangeKind)}, "no slot passed from pod to pod"),
    ],
    ids=["fault", "change", "slot"],
)
def test_a_kind_that_never_happened_is_a_complaint_in_a_long_run_only(without: dict[str, Any], complaint: str) -> None:
    """Twenty schedules need not have seen everything; three hundred must."""
    short, long = (tally(*(replace(verdict(n), **without) for n in range(count))) for count in (20, 300))
    assert (short.complaints(), long.complaints()) == ([], [complaint])


def test_soak_counts_and_ends_with_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    """The table shows each fault, both shares and the speed; a share that is too low ends with 1."""
    status = soak(schedules=2, jobs=1, first_seed=0)
    shown = capsys.readouterr().out
    assert "what the operators met" in shown
    assert "with a removal: " in shown
    assert "with a hold of a living zombie: " in shown
    assert "schedules a second" in shown
    assert status == (1 if "FAILED" in shown else 0)


def test_replay_prints_the_history(capsys: pytest.CaptureFixture[str]) -> None:
    """First the trace, then the settings of the world."""
    assert replay(0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["0.000", "kubelet/n1", "node", "registered"]
    assert any(" operator-a " in line and "operator starts" in line for line in lines)
    assert any(line.startswith("faults: ") for line in lines)
