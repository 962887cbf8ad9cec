"""`python -m simulator.evidence`: search all variants, the large ones, or those that are named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .check import SearchResult, search
from .continuity import catalogue
from .continuity.scenario import Scenario
from .nodes.scenario import NODE_ASSUMPTIONS, NODE_SCENARIOS, NodeScenario
from .variant import ASSUMPTIONS, VARIANTS, Variant

_Any = Variant | Scenario | NodeScenario
_DEFAULT: tuple[_Any, ...] = (*VARIANTS, *catalogue.SCENARIOS, *NODE_SCENARIOS)
_ASSUMED: tuple[_Any, ...] = (*ASSUMPTIONS, *catalogue.ASSUMPTIONS, *NODE_ASSUMPTIONS)
_KINDS: tuple[tuple[str, tuple[_Any, ...]], ...] = (
    ("variant", _DEFAULT),
    ("deep", catalogue.DEEP),
    ("assumption", _ASSUMED),
)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _row(outcome: SearchResult) -> str:
    found = outcome.violation or "safe"
    if outcome.departures and not outcome.violation:
        found += f", {outcome.departures:,} departures end in a removal"
    return (
        f"{outcome.variant:34} {outcome.states:>9,} states {outcome.transitions:>11,} transitions "
        f"depth {outcome.depth:>2} {outcome.seconds:6.1f} s  {found}"
    )


def _tell(outcome: SearchResult) -> None:
    _say(_row(outcome))
    for number, step in enumerate(outcome.trace, start=1):
        _say(f"  {number:>2}  {step}")


def _search_variants(names: Sequence[str], *, is_deep: bool) -> int:
    """Search variants; returns 1 when one of them is not safe."""
    every = (*_DEFAULT, *catalogue.DEEP, *_ASSUMED)
    whole = catalogue.DEEP if is_deep else _DEFAULT
    chosen = [v for name in names for v in every if v.name == name] if names else list(whole)
    outcomes: list[SearchResult] = []
    for variant in chosen:
        outcomes.append(search(variant))
        _tell(outcomes[-1])
    states, seconds = sum(o.states for o in outcomes), sum(o.seconds for o in outcomes)
    _say(
        f"{len(outcomes)} variants, {states:,} states, {seconds:.1f} s of CPU, {states / max(seconds, 0.01):,.0f} states/s"
    )
    return 1 if any(o.violation for o in outcomes) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    0 when every variant that was searched is safe, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m simulator.evidence", description=__doc__)
    parser.add_argument("--variant", action="append", default=[], metavar="NAME", help="search this one only")
    parser.add_argument("--deep", action="store_true", help="search the large variants, and no others")
    parser.add_argument("--list", action="store_true", help="name the variants and assumptions")
    chosen = parser.parse_args(arguments)
    known = {one.name for _, named in _KINDS for one in named}
    if unknown := [name for name in chosen.variant if name not in known]:
        parser.error(f"nothing is named {', '.join(unknown)}; see --list")
    if chosen.list:
        for kind, named in _KINDS:
            for one in named:
                _say(f"{kind:10}  {one.name:34}  {one.says}")
        return 0
    return _search_variants(chosen.variant, is_deep=chosen.deep)


if __name__ == "__main__":
    sys.exit(main())
