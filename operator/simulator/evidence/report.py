"""The generated part of the reference page: every figure is the result of a search, none is written by hand."""

from __future__ import annotations

from .check import Outcome, search
from .covered import COVERED
from .mutants import MUTANTS
from .variant import ASSUMPTIONS, VARIANTS, Variant

BEGIN, END = "<!-- figures: evidence-model -->", "<!-- /figures -->"
SHOWN = ("newest", "podgc", "other writer", "another container shown", "last state", "reads first")
"""Mutants whose shortest trace the page prints."""


def page_with_figures(page: str) -> str:
    """Return the page with the part between its marks made anew.

    Raises
    ------
    ValueError: the page lacks the marks, a variant is not safe, or a mutant survives; no page says so.
    """
    head, _, rest = page.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise ValueError(f"the page needs the marks {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{_figures()}\n{END}{tail}"


def variant_row(variant: Variant, outcome: Outcome) -> str:
    """Return the row of one variant; the same search always gives the same row."""
    departures = f"{outcome.departures:,}" if variant.progress else "-"
    return (
        f"| {variant.name} | {variant.says} | {outcome.states:,} | {outcome.transitions:,} | {outcome.depth} | "
        f"{outcome.removals:,} | {departures} |"
    )


def _figures() -> str:
    lines = [
        "### Variants",
        "",
        "| variant | about | states | transitions | depth | removals | departures that end |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    states = 0
    for variant in VARIANTS:
        outcome = search(variant)
        if outcome.violation:
            raise ValueError(f"{variant.name}: {outcome.violation}")
        states += outcome.states
        lines.append(variant_row(variant, outcome))
    lines += ["", f"Together {states:,} states. Every one of them keeps every promise.", ""]
    lines += ["### Mutants", "", "| mutant | what is broken | found in | steps |", "|---|---|---|--:|"]
    traces: dict[str, Outcome] = {}
    for mutant in MUTANTS:
        with mutant.applied() as variant:
            traces[mutant.name] = search(variant)
        if not traces[mutant.name].breaks_promise:
            raise ValueError(f"mutant {mutant.name} survives")
        lines.append(f"| {mutant.name} | {mutant.says} | {mutant.variant} | {len(traces[mutant.name].trace)} |")
    lines += ["", "### Faults that another clause makes up for", "", "| fault | covered by |", "|---|---|"]
    lines += [f"| {mutant.name} | {covered_by} |" for mutant, covered_by in COVERED]
    lines += ["", "### Shortest traces", ""]
    for name in SHOWN:
        lines += _trace(next(m.says for m in MUTANTS if m.name == name), traces[name])
    lines += ["### What the proof rests on", ""]
    for variant in ASSUMPTIONS:
        lines += _trace(variant.says, search(variant))
    return "\n".join(lines)


def _trace(title: str, outcome: Outcome) -> list[str]:
    steps = [f"{number}. {step}" for number, step in enumerate(outcome.trace, start=1)]
    return [f"**{title[0].upper()}{title[1:]}**: {outcome.violation} after {len(steps)} steps.", "", *steps, ""]
