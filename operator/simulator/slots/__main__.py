"""`python -m simulator.slots`: search every variant, and print what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .catalogue import DEEP, QUICK
from .search import Found, search


def row(found: Found) -> str:
    """Return one line of the table."""
    bound = "exhausted" if found.is_exhausted else "UNSAFE" if found.trace else "cut off"
    return f"{found.scenario:32} {found.states:>9,} states {found.given:>6,} passed on {found.seconds:7.1f} s  {bound}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    0 when every variant was exhausted and no two living processes had one slot, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m simulator.slots", description=__doc__)
    parser.add_argument("--deep", action="store_true", help="search the larger variants too; takes minutes")
    are_well = True
    for scenario in (*QUICK, *(DEEP if parser.parse_args(arguments).deep else ())):
        found = search(scenario)
        sys.stdout.write("\n".join((row(found), *(f"  {step}" for step in found.trace))) + "\n")
        sys.stdout.flush()
        are_well = are_well and found.is_exhausted
    return 0 if are_well else 1


if __name__ == "__main__":
    sys.exit(main())
