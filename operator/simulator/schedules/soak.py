"""Many schedules, on all cores, and the table that shows what they were made of.

Each seed is a simulation of its own; only this runner knows processes and the wall clock.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..faults import FAULTS
from ..world import settings
from .drawn_changes import ChangeKind
from .schedule import PASSED_ON, Verdict, run

REMOVAL_SHARE, ZOMBIE_SHARE = 0.30, 0.20
ALL_KINDS_FROM = 300
"""In so many schedules every kind of fault and of change must have happened."""
PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One schedule that ended with an exception instead of a verdict."""

    seed: int
    error: str


@dataclass(slots=True)
class Tally:
    """What became of many schedules.

    Parameters
    ----------
    breaches: by assumption, the live members that were removed because their pods had broken it.
    bad: verdicts with violations; failures: schedules that ended with an exception.
    faults, met: see `Verdict`; met_in: how many schedules met it at all.
    """

    count: int = 0
    with_removal: int = 0
    with_zombie: int = 0
    virtual_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    faults_in: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    met_in: Counter[str] = field(default_factory=Counter)
    removals: int = 0
    breaches: Counter[str] = field(default_factory=Counter)
    bad: list[Verdict] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, result: Verdict | Failure) -> None:
        """Count one schedule."""
        self.count += 1
        if isinstance(result, Failure):
            self.failures.append(result)
            return
        self.with_removal += result.removals > 0
        self.with_zombie += result.holds_with_zombie > 0
        self.removals += result.removals
        self.breaches.update(b.assumption.value for b in result.breaches)
        self.virtual_s += result.virtual_s
        self.faults += result.faults
        self.faults_in.update(result.faults.keys())
        self.met += result.met
        self.met_in.update(result.met.keys())
        if result.violations:
            self.bad.append(result)

    def complaints(self) -> list[str]:
        """Return why this run proves nothing, or the opposite; empty: all is well."""
        found = [f"schedule {v.seed}: {v.violations[0]}" for v in self.bad]
        found += [f"schedule {f.seed}: {f.error.strip().splitlines()[-1]}" for f in self.failures]
        if self.with_removal < REMOVAL_SHARE * self.count:
            found.append(f"only {self.with_removal} of {self.count} schedules reached a removal")
        if self.with_zombie < ZOMBIE_SHARE * self.count:
            found.append(f"only {self.with_zombie} of {self.count} schedules held the member of a living zombie")
        if self.count >= ALL_KINDS_FROM:
            found += [f"the fault {kind} never happened" for kind in sorted(FAULTS.keys() - self.faults.keys())]
            found += [f"nobody ever {kind}" for kind in ChangeKind if not self.met[kind]]
            if settings.DEPLOYED_SHARE and not self.met[PASSED_ON]:
                found.append(f"no {PASSED_ON}")
        return found

    def table(self) -> str:
        """Render the counts."""
        lines = [f"{'fault':44} {'happened':>9} {'in schedules':>13}"]
        lines += [
            f"{kind.replace('_', ' '):44} {n:>9} {self.faults_in[kind]:>13}" for kind, n in self.faults.most_common()
        ]
        lines += ["", f"{'what the operators met':44} {'times':>9} {'in schedules':>13}"]
        lines += [f"{what:44} {self.met[what]:>9} {self.met_in[what]:>13}" for what in sorted(self.met)]
        lines += [
            "",
            f"{self.count} schedules, {self.virtual_s / 3600:.1f} virtual hours, {sum(self.faults.values())} faults of "
            f"{len(self.faults)} kinds",
            f"with a removal: {self.with_removal} ({_share(self.with_removal, self.count)}, at least "
            f"{REMOVAL_SHARE:.0%})",
            f"with a hold of a living zombie: {self.with_zombie} ({_share(self.with_zombie, self.count)}, at least "
            f"{ZOMBIE_SHARE:.0%})",
            f"members removed: {self.removals}, of them alive because an assumption was broken: "
            + (", ".join(f"{n} inside {kind}" for kind, n in sorted(self.breaches.items())) or "none"),
            f"with a violation: {len(self.bad)}, ended with an exception: {len(self.failures)}",
        ]
        return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def judged(seed: int) -> Verdict | Failure:
    """Run one schedule in this process, whatever happens to it."""
    try:
        return run(seed)
    except Exception:  # the others go on; the run as a whole fails
        return Failure(seed=seed, error=traceback.format_exc())


def results(seeds: Iterable[int], jobs: int) -> Iterator[Verdict | Failure]:
    """Run schedules in `jobs` processes and yield what became of them, in any order."""
    if jobs <= 1:
        yield from map(judged, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(judged, seeds, chunksize=2)


def replay_command(seed: int) -> str:
    """Return the one command that shows a schedule again."""
    return f"python -m simulator replay --seed {seed}"


def soak(*, schedules: int, jobs: int, first_seed: int) -> int:
    """Run schedules and say how it went; returns 1 when anything was violated or the run is hollow."""
    tally, began_s = Tally(), time.monotonic()
    told_s = began_s
    for result in results(range(first_seed, first_seed + schedules), jobs):
        tally.add(result)
        if isinstance(result, Failure):
            _say(f"schedule {result.seed} ended with an exception\n{result.error}")
            _say(f"  replay: {replay_command(result.seed)}")
        elif result.violations or result.breaches:
            _say(
                f"schedule {result.seed}: " + "; ".join(str(v) for v in (*result.violations[:5], *result.breaches[:5]))
            )
            _say(f"  replay: {replay_command(result.seed)}")
        now_s = time.monotonic()
        if now_s - told_s >= PROGRESS_EVERY_S:
            told_s = now_s
            speed = tally.count / (now_s - began_s)
            left_s = (schedules - tally.count) / speed
            _say(f"{tally.count} of {schedules} schedules, {speed:.1f} a second, {left_s:.0f} s left")
    took_s = time.monotonic() - began_s
    _say(tally.table())
    _say(f"{tally.count / took_s:.2f} schedules a second ({took_s:.0f} s, {jobs} processes)")
    complaints = tally.complaints()
    for complaint in complaints:
        _say(f"FAILED: {complaint}")
    return 1 if complaints else 0


def replay(seed: int) -> int:
    """Run one schedule again and print its history; returns 1 when something was violated."""
    result = judged_with_trace(seed)
    if isinstance(result, Failure):
        _say(result.error)
        return 1
    _say(result.trace.rstrip())
    _say(f"faults: {', '.join(f'{kind} {n}' for kind, n in sorted(result.faults.items()))}")
    _say(f"met: {', '.join(f'{what} {n}' for what, n in sorted(result.met.items()))}")
    for violation in result.violations:
        _say(f"VIOLATION: {violation}")
    for breach in result.breaches:
        _say(f"an assumption was broken: {breach}")
    return 1 if result.violations else 0


def judged_with_trace(seed: int) -> Verdict | Failure:
    """Run one schedule and keep its history."""
    try:
        return run(seed, keep_trace=True)
    except Exception:
        return Failure(seed=seed, error=traceback.format_exc())


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
