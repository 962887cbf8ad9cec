"""The generated part of the reference page: every figure is the result of a search, none is written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from simulator.evidence.check import SearchResult, search
from simulator.evidence.continuity import catalogue
from simulator.evidence.continuity.scenario import Scenario
from simulator.evidence.nodes.scenario import NODE_ASSUMPTIONS, NODE_SCENARIOS, NodeScenario
from simulator.evidence.variant import ASSUMPTIONS, VARIANTS, Variant

from . import continuity, nodes
from .continuity import ContinuityMutant
from .covered import COVERED
from .mutants import MUTANTS, Mutant
from .nodes import NodeMutant

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "evidence-model.md"
BEGIN, END = "<!-- figures: evidence-model -->", "<!-- /figures -->"
SHOWN = ("newest", "podgc", "other writer", "another container shown", "last state", "reads first")
SHOWN_OF_CONTINUITY = (
    "old epochs",
    "facts before the barrier",
    "set not compared",
    "spans forgotten",
    "status unread",
    "write unbound",
    "Lease before the LIST",
    "facts over a restore",
)
SHOWN_OF_NODES = ("grace from the vanish", "any boot", "boot of any time", "forgotten ledger", "unready exempt")
"""Mutants whose shortest trace the page prints."""


def page_with_figures(page: str) -> str:
    """Return the page with the part between its marks made again.

    Raises
    ------
    ValueError: the page lacks the marks, a variant is not safe, or a mutant survives; no page says so.
    """
    head, _, rest = page.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise ValueError(f"the page needs the marks {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{_figures()}\n{END}{tail}"


def variant_row(variant: Variant | Scenario | NodeScenario, outcome: SearchResult) -> str:
    """Return the row of one variant; the same search always gives the same row."""
    departures = f"{outcome.departures:,}" if variant.progress else "-"
    return (
        f"| {variant.name} | {variant.says} | {outcome.states:,} | {outcome.transitions:,} | {outcome.depth} | "
        f"{outcome.removals:,} | {departures} |"
    )


def mutant_row(mutant: Mutant | ContinuityMutant | NodeMutant, outcome: SearchResult) -> str:
    """Return the row of one mutant; the last figure is the length of the shortest trace to what it breaks."""
    return f"| {mutant.name} | {mutant.says} | {mutant.variant} | {len(outcome.trace)} |"


def _figures() -> str:
    lines = ["### Variants", "", *_variants(VARIANTS)]
    table, traces = _mutants(MUTANTS)
    lines += ["### Mutants", "", *table]
    lines += ["### Faults that another clause makes up for", "", *_covered(COVERED)]
    lines += ["### Shortest traces", ""]
    for name in SHOWN:
        lines += _trace(next(m.says for m in MUTANTS if m.name == name), traces[name])
    lines += ["### What the proof rests on", "", *_assumptions(ASSUMPTIONS)]
    lines += ["## Continuity: variants", "", *_variants(catalogue.SCENARIOS)]
    lines += ["### Large ones (`--deep`)", "", *_variants(catalogue.DEEP)]
    table, traces = _mutants(continuity.MUTANTS)
    lines += ["### Mutants of the continuity rules", "", *table]
    lines += ["### Continuity rules that another clause makes up for", "", *_covered(continuity.COVERED)]
    lines += ["### Shortest traces through a broken continuity rule", ""]
    for name in SHOWN_OF_CONTINUITY:
        lines += _trace(next(m.says for m in continuity.MUTANTS if m.name == name), traces[name])
    lines += ["### What the continuity rules rest on", "", *_assumptions(catalogue.ASSUMPTIONS)]
    lines += node_figures()
    return "\n".join(lines)


def node_figures() -> list[str]:
    """Return the lines about the rules that nodes are judged by."""
    lines = ["## Nodes: variants", "", *_variants(NODE_SCENARIOS)]
    table, traces = _mutants(nodes.MUTANTS)
    lines += ["### Mutants of the rules about nodes", "", *table]
    lines += ["### Shortest traces through a broken rule about nodes", ""]
    for name in SHOWN_OF_NODES:
        lines += _trace(next(m.says for m in nodes.MUTANTS if m.name == name), traces[name])
    lines += ["### What the rules about nodes rest on", "", *_assumptions(NODE_ASSUMPTIONS)]
    return lines


def _variants(variants: Iterable[Variant | Scenario | NodeScenario]) -> Iterator[str]:
    yield "| variant | about | states | transitions | depth | removals | departures that end |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    states = 0
    for variant in variants:
        outcome = search(variant)
        if outcome.violation:
            raise ValueError(f"{variant.name}: {outcome.violation}")
        states += outcome.states
        yield variant_row(variant, outcome)
    yield from ("", f"Together {states:,} states. Every one of them keeps every promise.", "")


def _mutants(mutants: Iterable[Mutant | ContinuityMutant | NodeMutant]) -> tuple[list[str], dict[str, SearchResult]]:
    lines = ["| mutant | what is broken | found in | steps |", "|---|---|---|--:|"]
    traces: dict[str, SearchResult] = {}
    for mutant in mutants:
        with mutant.applied() as variant:
            traces[mutant.name] = search(variant)
        if not traces[mutant.name].breaks_promise:
            raise ValueError(f"mutant {mutant.name} survives")
        lines.append(mutant_row(mutant, traces[mutant.name]))
    return [*lines, ""], traces


def _covered(faults: Iterable[tuple[Mutant | ContinuityMutant, str]]) -> Iterator[str]:
    yield from ("| fault | covered by |", "|---|---|")
    for fault, covered_by in faults:
        yield f"| {fault.name} | {covered_by} |"
    yield ""


def _assumptions(variants: Iterable[Variant | Scenario | NodeScenario]) -> Iterator[str]:
    for variant in variants:
        yield from _trace(variant.says, search(variant))


def _trace(title: str, outcome: SearchResult) -> list[str]:
    steps = [f"{number}. {step}" for number, step in enumerate(outcome.trace, start=1)]
    return [f"**{title[0].upper()}{title[1:]}**: {outcome.violation} after {len(steps)} steps.", "", *steps, ""]
