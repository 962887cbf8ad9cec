"""Prints a scenario as a timeline: each happening with and without StaticGroup, and its cost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..engine.trace import Entry
from .comparison import Cost, History, experience
from .picture import drawn
from .scenario import Happening, Scenario
from .words import chapters, clock, sentence, words

WIDTH_MIN, WIDTH_MAX = 60, 110
LABEL = 10
BLOCKS, ASCII_BLOCKS = "·▁▂▃▄▅▆▇█", ".:-=+*%#@"
ABOUT: Final = """\
A restarting pod keeps its partitions, and they wait for it: that pays where moving
them is expensive. Double: two processes believed they owned a partition, as after a
force delete. More: docs/guide/simulate.md. Next: docs/guide/install.md."""
NOTES_MAX = 6
"""So many moments of one happening are printed; further ones are counted."""
DIM, BOLD, RED, GREEN, RESET = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Style:
    """How to write.

    Parameters
    ----------
    blocks: from nothing idle to everything idle.
    """

    is_colored: bool
    blocks: str
    width: int

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour, where there are colours."""
        return f"{colour}{text}{RESET}" if self.is_colored else text


def tell(scenario: Scenario, *, is_colored: bool, picture: Path | None = None) -> int:
    """Run a scenario with and without the operator and print its timeline; returns the exit status.

    Parameters
    ----------
    picture: file that is written as an SVG; None: none.
    """
    try:
        without, with_operator = (experience(scenario, is_static=is_static) for is_static in (False, True))
    except AssertionError as error:
        sys.stderr.write(f"The workload never came up: {error}\n")
        return 1
    width = min(max(shutil.get_terminal_size((100, 24)).columns, WIDTH_MIN), WIDTH_MAX)
    style = Style(is_colored, _blocks(), width)
    sys.stdout.write("\n".join(render(scenario, without, with_operator, style)) + "\n")
    if picture is not None:
        try:
            picture.write_text(drawn(scenario, without, with_operator), encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"--picture {picture}: {error.strerror or error}\n")
            return 1
        sys.stdout.write(f"\nThe picture is in {picture}\n")
    return 0


def _blocks() -> str:
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII_BLOCKS
    return BLOCKS


def render(scenario: Scenario, without: History, with_operator: History, style: Style) -> Iterator[str]:
    """Iterate over the lines of the timeline."""
    yield style.paint(f"{scenario.name}: {scenario.pods} pods, {scenario.partitions} partitions", BOLD)
    yield (
        f"{scenario.protocol} protocol, {scenario.library}; a pod needs {scenario.restart_seconds[0]:g} to "
        f"{scenario.restart_seconds[1]:g} s to start"
    )
    busy, idle = style.blocks[0], style.blocks[-1]
    legend = f"Each strip is time from left to right: {busy} every partition is worked on, {idle} none is"
    yield style.paint(legend, DIM)
    for happening, end_s in chapters(scenario):
        if end_s > happening.at_seconds:
            yield ""
            yield from _chapter(scenario, happening, end_s, (("without", without), ("with", with_operator)), style)
        else:
            yield ""
            yield style.paint(f"{clock(happening.at_seconds)}  {sentence(happening)}, and at the same moment:", BOLD)
    yield ""
    total = scenario.length_s
    yield from table(without.cost(0.0, total), with_operator.cost(0.0, total), style)


def _chapter(
    scenario: Scenario, happening: Happening, end_s: float, worlds: tuple[tuple[str, History], ...], style: Style
) -> Iterator[str]:
    start_s = happening.at_seconds
    yield style.paint(f"{clock(start_s)}  {sentence(happening)}", BOLD)
    columns = style.width - LABEL
    for label, history in worlds:
        levels = history.idle(start_s, end_s, columns)
        strip = "".join(_block(idle / scenario.partitions, style.blocks) for idle in levels)
        yield f"{label:>{LABEL - 2}}  {style.paint(strip, RED if label == 'without' else GREEN)}"
        yield f"{'':{LABEL}}{words(history.cost(start_s, end_s))}"
        notes = [note for note in moments(history) if start_s <= note[0] < end_s]
        for at_s, text in notes[:NOTES_MAX]:
            yield f"{'':{LABEL}}{style.paint(f'{clock(at_s)}  {text}', DIM)}"
        if len(notes) > NOTES_MAX:
            yield f"{'':{LABEL}}{style.paint(f'and {len(notes) - NOTES_MAX} more such moments', DIM)}"


def _block(share: float, blocks: str) -> str:
    """Draw a share of idle partitions; anything above nothing is seen."""
    steps = len(blocks) - 1
    return blocks[0] if share <= 0.0 else blocks[min(steps, 1 + int(share * steps))]


def moments(history: History) -> list[tuple[float, str]]:
    """Return (seconds, text) of what operators and clients did that interests a user."""
    found = [
        (at_s, f"StaticGroup reports {instance_id} as {reason} and leaves it alone")
        for at_s, instance_id, reason in history.held
    ]
    found += [
        (at_s, f"the session of {instance_id} runs out at the coordinator") for at_s, instance_id in history.expired
    ]
    found += [(at_s, text) for at_s, entry in history.entries if (text := _sentence(entry))]
    return sorted(found)


def _sentence(entry: Entry) -> str:
    """Return the sentence of an entry of the trace; "" for one that is of no interest here."""
    facts = dict(entry.facts)
    if entry.what == "leave applied" and facts.get("by") == "operator-a":
        return f"StaticGroup removes the member {facts['instance']}: nobody wants it, and its end is proven"
    if entry.what == "fatal error":
        return f"{_pod(entry)}: {facts['code']}, and the library decides to {facts['reaction']}"
    if entry.what == "is answered UNKNOWN_MEMBER_ID":
        return f"{_pod(entry)} finds that it is no member any more"
    return ""


def _pod(entry: Entry) -> str:
    return entry.who.removeprefix("client/").partition("/")[0]


def table(without: Cost, with_operator: Cost, style: Style) -> Iterator[str]:
    """Iterate over the lines of the table of all costs."""
    yield style.paint(f"{'in all':28}{'without':>12}{'with':>12}", BOLD)
    rows = (
        ("rebalances", without.rebalances, with_operator.rebalances),
        ("partitions moved", without.moved, with_operator.moved),
        ("idle partition-seconds", round(without.idle_s), round(with_operator.idle_s)),
        ("double partition-seconds", round(without.double_s), round(with_operator.double_s)),
    )
    for name, before, after in rows:
        colour = GREEN if after < before else RED if after > before else DIM
        yield f"{name:28}{before:>12}{style.paint(f'{after:>12}', colour)}"
    yield style.paint(ABOUT, DIM)
