"""The operator dies in each scenario and nothing is violated; `make simulate-ci` tries every tenth await, `make full`
every single one."""

from __future__ import annotations

from functools import cache

import pytest

from simulator.crashes.crash import SCENARIOS, CrashScenario, CrashVerdict, crash, scenario_named
from simulator.crashes.suite import AWAITS_MIN, Row, replay_crash
from simulator.oracles.promises import Violation

TRIED = 2
"""Awaits of each scenario that are tried here: the first and the last; `make simulate-ci` tries every tenth."""


@cache
def whole(scenario: CrashScenario) -> CrashVerdict:
    """Run a scenario in which no process is killed."""
    return crash(scenario, 0, keep_trace=True)


def verdict(*, crashed: bool = True, violated: bool = False) -> CrashVerdict:
    """Make up what became of one run."""
    return CrashVerdict(
        scenario="roll", at=1, crashed=crashed, resumptions=1, removals=0,
        violations=(Violation("L1", 9.0, "web-1 is still a member"),) if violated else (),
    )


def full_row() -> Row:
    """Return a row all of whose awaits were tried but the last."""
    row = Row(scenario=SCENARIOS[0], awaits=AWAITS_MIN, removals=1)
    for at in range(1, AWAITS_MIN):
        row.add(at, verdict())
    return row


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_scenario_happens_as_its_name_says(scenario: CrashScenario) -> None:
    """Without a crash it has its content: enough awaits, and exactly the removals it is about."""
    result = whole(scenario)
    assert result.violations == (), result.trace
    assert not result.crashed
    assert result.resumptions >= AWAITS_MIN
    assert result.removals == scenario.removals


@pytest.mark.parametrize("part", range(TRIED))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_is_violated_after_a_crash(scenario: CrashScenario, part: int) -> None:
    """S1-S14 hold and the departed are gone in the end, whatever the operator had just begun."""
    result = crash(scenario, 1 + part * (whole(scenario).resumptions - 1) // (TRIED - 1))
    assert result.violations == (), result.trace
    assert result.crashed


def test_there_are_scenarios_with_one_and_with_two_operators() -> None:
    """Also the standby is killed, and also KIP-848 groups are among them."""
    assert len({s.name for s in SCENARIOS}) == len(SCENARIOS)
    assert sum(s.operators == 1 for s in SCENARIOS) >= 3
    assert sum(s.operators == 2 for s in SCENARIOS) >= 3
    assert {s.victim for s in SCENARIOS} == {"operator-a", "operator-b"}
    assert {s.protocol for s in SCENARIOS} == {"classic", "consumer"}


def test_in_a_take_over_the_standby_removes_the_member() -> None:
    """The leader that stands still must be the one that leads, or nothing is taken over."""
    lines = whole(scenario_named("take-over")).trace.splitlines()
    leaves = [line.split()[1] for line in lines if "sends LeaveGroup" in line]
    assert leaves == ["operator-b"]


def test_runs_are_equal_up_to_the_crash() -> None:
    """Otherwise the n-th await of one run were not that of another, and some would never be tried."""
    scenario = scenario_named("scale-down")
    undisturbed = whole(scenario).trace.splitlines()
    killed = crash(scenario, 200, keep_trace=True).trace.splitlines()
    end = next(n for n, line in enumerate(killed) if "operator killed" in line)
    assert killed[:end] == undisturbed[:end]
    assert killed[end:] != undisturbed[end:]


def test_a_row_is_good_only_when_every_await_was_tried() -> None:
    """A missing one fails the suite."""
    row = full_row()
    assert not row.is_good
    row.add(AWAITS_MIN, verdict())
    assert row.is_good


@pytest.mark.parametrize(
    "last",
    [verdict(violated=True), verdict(crashed=False), "Traceback\nDeadlock: nothing is ready"],
    ids=["violated", "not reached", "exception"],
)
def test_a_row_is_bad_after_one_bad_run(last: CrashVerdict | str) -> None:
    """Violated, never reached or ended with an exception: each fails the suite."""
    row = full_row()
    row.add(AWAITS_MIN, last)
    assert not row.is_good


def test_a_scenario_without_content_is_bad() -> None:
    """A scenario that shrank to some awaits would pass quickly and prove little."""
    row = Row(scenario=SCENARIOS[0], awaits=AWAITS_MIN - 1, removals=1)
    for at in range(1, AWAITS_MIN):
        row.add(at, verdict())
    assert row.runs == row.awaits
    assert not row.is_good


def test_replay_shows_the_crash(capsys: pytest.CaptureFixture[str]) -> None:
    """The history names the moment in which the operator was killed and started again."""
    assert replay_crash(scenario_named("roll"), 30) == 0
    shown = capsys.readouterr().out
    assert "operator killed" in shown
    assert "resumption=30" in shown
    assert shown.rstrip().endswith("roll killed at await 30: nothing violated")


def test_replay_says_when_there_is_no_such_await(capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a crash must not look like one that survived it."""
    assert replay_crash(scenario_named("roll"), 100_000) == 2
    assert "nobody was killed at 100000" in capsys.readouterr().out


def test_an_unknown_scenario_is_named_with_all_there_are() -> None:
    """A mistyped name is answered with the names that exist."""
    with pytest.raises(ValueError, match="no scenario 'rol'; there are scale-down, "):
        scenario_named("rol")


def test_a_suite_at_every_other_await_is_good_only_when_each_of_them_was_tried() -> None:
    row = Row(scenario=SCENARIOS[0], awaits=101, removals=0, every=2)
    assert list(row.tried)[:3] == [1, 3, 5]
    for at in row.tried:
        assert not row.is_good
        row.add(at, verdict())
    assert row.is_good
