"""What the demo found out: the figures, whether they are as promised, the table and build/demo.json.

The one idea: the promise is checked by pure functions over figures, and a run whose "without" column shows no trouble is
not believed either: then the measurement is broken, not the world in order.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from support.demo.measure import Stillness

REPORT = Path(__file__).parents[3] / "build" / "demo.json"
TAKEOVER_PROMISE_S = 10.0
SESSION_EXPIRY, OPERATOR = "session expiry", "the operator"
CAPTION = (
    "A partition stands still when nobody receives a record of it for more than 1 s. With static ids the partitions of "
    "a restarting pod wait for it instead of moving: nothing is rebuilt elsewhere, and nobody else stops."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """A rolling restart of all pods as the consumers felt it.

    Parameters
    ----------
    rebalances: prepared rebalances in the broker's log.
    interruptions: how often consumers that ran on had to give up their partitions.
    interrupted_s: time they were without any because of that, summed over consumers.
    moves: how often a partition went to another pod.
    duration_s: of `kubectl rollout restart` and `status`.
    """

    rebalances: int
    interruptions: int
    interrupted_s: float
    moves: int
    stillness: Stillness
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """A scale-down by one pod as the consumers felt it.

    Parameters
    ----------
    partitions: those that the departed pod consumed.
    takeover_s: the longest time in which nobody consumed one of them.
    member_left_after_s: from the end of the process to the broker's line about its member.
    """

    partitions: tuple[int, ...]
    takeover_s: float
    member_left_after_s: float
    member_ended_by: str
    session_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that was measured in one run; `unconsumed_records` by group."""

    roll_without: Roll
    roll_with: Roll
    scale_down_without: ScaleDown
    scale_down_with: ScaleDown
    unconsumed_records: dict[str, int]


def differences(figures: Figures) -> list[str]:
    """Return in words what differs from the promise; empty when nothing does."""
    found = []
    if figures.roll_with.rebalances:
        found.append(f"the rolling restart with StaticGroup caused {figures.roll_with.rebalances} rebalances, not 0")
    if figures.roll_with.interruptions:
        found.append(f"it interrupted running consumers {figures.roll_with.interruptions} times, not 0")
    if figures.roll_with.moves:
        found.append(f"it moved partitions to other pods {figures.roll_with.moves} times, not 0")
    if figures.scale_down_with.takeover_s >= TAKEOVER_PROMISE_S:
        took = f"{figures.scale_down_with.takeover_s:.1f} s, not below {TAKEOVER_PROMISE_S:.0f} s"
        found.append(f"with StaticGroup the departed pod's partitions stood still for {took}")
    if figures.scale_down_with.member_ended_by != OPERATOR:
        found.append(f"the departed member was not removed by the operator: {figures.scale_down_with.member_ended_by}")
    found += [
        f"group {name} did not receive {count} acknowledged records"
        for name, count in figures.unconsumed_records.items()
        if count
    ]
    if not figures.roll_without.rebalances:
        found.append("the rolling restart of dynamic members shows no rebalance: the measurement cannot be right")
    if figures.scale_down_without.takeover_s <= figures.scale_down_with.takeover_s:
        found.append("the scale-down was no slower without the operator: nothing was shown")
    return found


def rows(figures: Figures) -> list[tuple[str, str, str]]:
    """Return the lines of the table: what was measured, without and with StaticGroup; a line without values is a title."""
    one, other = figures.roll_without, figures.roll_with
    left, right = figures.scale_down_without, figures.scale_down_with
    lost = figures.unconsumed_records

    def seconds(*values: float) -> tuple[str, str]:
        return f"{values[0]:.1f} s", f"{values[1]:.1f} s"

    return [
        ("Rolling restart of all pods", "dynamic members", "StaticGroup"),
        ("rebalances, by the broker's log", str(one.rebalances), str(other.rebalances)),
        ("running consumers interrupted, times", str(one.interruptions), str(other.interruptions)),
        ("running consumers interrupted, sum", f"{one.interrupted_s:.2f} s", f"{other.interrupted_s:.2f} s"),
        ("partitions moved to another pod, times", str(one.moves), str(other.moves)),
        ("time with any partition standing still", *seconds(one.stillness.any_s, other.stillness.any_s)),
        ("longest standstill of one partition", *seconds(one.stillness.longest_s, other.stillness.longest_s)),
        ("standstill, summed over partitions", *seconds(one.stillness.sum_s, other.stillness.sum_s)),
        ("the rollout took", *seconds(one.duration_s, other.duration_s)),
        ("Scale-down by one pod", "static ids alone", "StaticGroup"),
        ("its partitions stood still for", *seconds(left.takeover_s, right.takeover_s)),
        ("process ended until member gone", *seconds(left.member_left_after_s, right.member_left_after_s)),
        ("member ended by", left.member_ended_by, right.member_ended_by),
        ("session timeout of its pod", *seconds(left.session_timeout_s, right.session_timeout_s)),
        ("Records acknowledged, not consumed", f"{lost['dynamic']} and {lost['by-hand']}", str(lost["managed"])),
    ]


def table(figures: Figures) -> Table:
    """Return the table for the terminal."""
    shown = Table(title="Measured in this run", title_justify="left", caption=CAPTION, caption_justify="left")
    shown.add_column("")
    shown.add_column("without", justify="right", no_wrap=True)
    shown.add_column("with", justify="right", no_wrap=True)
    for name, without, with_it in rows(figures):
        if name[0].isupper():
            shown.add_section()
        shown.add_row(name, without, with_it, style="bold" if name[0].isupper() else "")
    return shown


def write(figures: Figures, found: list[str], **run: Any) -> None:
    """Write build/demo.json: the figures, what differs from the promise, and about the run itself."""
    REPORT.parent.mkdir(exist_ok=True)
    content = {**run, "figures": asdict(figures), "differences": found, "promise_is_kept": not found}
    REPORT.write_text(json.dumps(content, indent=2) + "\n")
