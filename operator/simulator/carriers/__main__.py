"""`python -m simulator.carriers`: search every variant; `tests/mutants/carriers.py` takes the clauses away."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from .catalogue import BROKEN, DEEP, QUICK, SCENARIOS
from .found import Found
from .runs import search_runs
from .scenario import Scenario
from .search import search


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def row(found: Found) -> str:
    """Return one line of the table."""
    bound = "exhausted" if found.is_exhausted else "UNSAFE" if found.trace else "cut off"
    inside = f", {found.inside:,} live inside the assumptions" if found.inside else ""
    return (
        f"{found.scenario:42} {found.states:>9,} states {found.removals:>7,} removals  "
        f"{found.questions:>6,} questions  "
        f"{found.seconds:7.1f} s  {bound}{inside}"
    )


def _tell(found: Found) -> None:
    _say(row(found))
    for trace in (found.trace, found.inside_trace):
        for number, step in enumerate(trace, start=1):
            _say(f"  {number:>2}  {step}")


def _searched(scenario: Scenario) -> Found:
    def progress(states: int, seconds: float) -> None:
        _say(f"  {scenario.name}: {states:,} states visited, {seconds:.0f} s")

    return search(scenario, progress=progress)


def _is_as_promised(found: Found) -> bool:
    return not found.trace and found.removals > 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    0 when no variant has a live removal outside of the assumptions, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m simulator.carriers", description=__doc__)
    parser.add_argument(
        "--deep", action="store_true", help="search the variants with several faults too; takes up to an hour"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="search this variant only")
    parser.add_argument("--list", action="store_true", help="name all variants")
    chosen = parser.parse_args(arguments)
    names = {one.name for one in SCENARIOS}
    if unknown := [name for name in chosen.only if name not in names]:
        parser.error(f"nothing is named {', '.join(unknown)}; see --list")
    if chosen.list:
        for one in SCENARIOS:
            _say(f"{one.name:42}  {one.says}")
        return 0

    def is_wanted(one: Scenario) -> bool:
        return one.name in chosen.only if chosen.only else chosen.deep or not one.is_deep

    began_s = time.process_time()
    are_well = True
    for scenario in filter(is_wanted, (*QUICK, *BROKEN, *DEEP)):
        found = _searched(scenario)
        _tell(found)
        are_well = are_well and _is_as_promised(found)
    if not chosen.only:
        found = search_runs(steps=2 if chosen.deep else 1)
        _tell(found)
        are_well = are_well and _is_as_promised(found)
    _say(f"{time.process_time() - began_s:.0f} s of CPU")
    return 0 if are_well else 1


if __name__ == "__main__":
    sys.exit(main())
