"""Every scenario of `crash`, killed at every await, or at every few, on all cores."""

from __future__ import annotations

import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .crash import SCENARIOS, CrashScenario, CrashVerdict, crash, scenario_named

CHUNK = 8
AWAITS_MIN = 100
"""A scenario with fewer awaits than this has lost its content."""


@dataclass(slots=True)
class Row:
    """What became of one scenario.

    Parameters
    ----------
    awaits: N, measured without a crash.
    removals: without a crash.
    every: at each so many of them the victim is killed, beginning with the first.
    """

    scenario: CrashScenario
    awaits: int
    removals: int
    every: int = 1
    runs: int = 0
    not_reached: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)

    def add(self, at: int, result: CrashVerdict | str) -> None:
        """Count one run; a text is the traceback of one that ended with an exception."""
        self.runs += 1
        if isinstance(result, str):
            self.bad.append((at, result.strip().splitlines()[-1]))
        elif result.violations:
            self.bad.append((at, str(result.violations[0])))
        elif not result.crashed:
            self.not_reached += 1

    @property
    def tried(self) -> range:
        """The awaits at which the victim is killed."""
        return range(1, self.awaits + 1, self.every)

    @property
    def is_good(self) -> bool:
        """True when every await that is to be tried was tried, and nothing was violated."""
        return not self.bad and not self.not_reached and self.runs == len(self.tried) and self.awaits >= AWAITS_MIN


def run_suite(scenarios: Sequence[CrashScenario] = SCENARIOS, *, jobs: int, every: int = 1) -> int:
    """Kill the victim of each scenario at every `every`-th await; returns 1 on violations and unreached awaits."""
    rows = {s.name: _measured(s, every) for s in scenarios}
    began_s = time.monotonic()
    for row in rows.values():
        _say(f"{row.scenario.name:20} {row.awaits:>5} awaits  {row.scenario.says}")
    work = [(name, at) for name, row in rows.items() for at in row.tried]
    for (name, at), result in _results(work, jobs):
        rows[name].add(at, result)
        if rows[name].bad and rows[name].bad[-1][0] == at:
            _say(f"{name} killed at await {at}: {rows[name].bad[-1][1]}")
            _say(f"  replay: python -m simulator crash --scenario {name} --at {at}")
    _say(f"{'scenario':20} {'awaits':>7} {'runs':>6} {'violated':>9} {'not reached':>12}")
    for row in rows.values():
        _say(f"{row.scenario.name:20} {row.awaits:>7} {row.runs:>6} {len(row.bad):>9} {row.not_reached:>12}")
    took_s = time.monotonic() - began_s
    good = all(row.is_good for row in rows.values())
    _say(f"{len(work)} crashes in {took_s:.0f} s, {len(work) / max(took_s, 0.001):.1f} a second: {_word(good, every)}")
    return 0 if good else 1


def replay_crash(scenario: CrashScenario, at: int) -> int:
    """Run one scenario with one crash and print its history.

    Returns
    -------
    1 when something was violated, 2 when the scenario has no such await.
    """
    verdict = crash(scenario, at, keep_trace=True)
    _say(verdict.trace.rstrip())
    if not verdict.crashed and not verdict.violations:
        _say(f"{scenario.name} has only {verdict.resumptions} awaits; nobody was killed at {at}")
        return 2
    for violation in verdict.violations:
        _say(f"VIOLATION: {violation}")
    _say(f"{scenario.name} killed at await {at}: {'violated' if verdict.violations else 'nothing violated'}")
    return 1 if verdict.violations else 0


def _measured(scenario: CrashScenario, every: int) -> Row:
    whole = crash(scenario, 0)
    row = Row(scenario=scenario, awaits=whole.resumptions, removals=whole.removals, every=every)
    if whole.violations:
        row.bad.append((0, str(whole.violations[0])))
    elif whole.removals != scenario.removals:
        row.bad.append((0, f"{whole.removals} removals without a crash instead of {scenario.removals}"))
    return row


def _one(work: tuple[str, int]) -> tuple[tuple[str, int], CrashVerdict | str]:
    try:
        return work, crash(scenario_named(work[0]), work[1])
    except Exception:  # the others go on; the suite as a whole fails
        return work, traceback.format_exc()


def _results(work: Iterable[tuple[str, int]], jobs: int) -> Iterator[tuple[tuple[str, int], CrashVerdict | str]]:
    if jobs <= 1:
        yield from map(_one, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_one, work, chunksize=CHUNK)


def _word(good: bool, every: int) -> str:
    which = "every await" if every == 1 else f"each of every {every} awaits"
    return f"nothing violated, {which} reached" if good else "FAILED"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
