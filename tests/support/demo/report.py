"""What the demo found out: the figures, whether they are as promised, the table and build/demo.json.

The one idea: the promise is checked by pure functions over figures, and a run whose "without" column shows no trouble
is not believed either: then the measurement is broken, not the world in order.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from support.demo.measure import Course, Stillness
from support.demo.wording import TAKEOVER_PROMISE_S, Wording

REPORT = Path(__file__).parents[3] / "build" / "demo.json"
SESSION_EXPIRY, OPERATOR, ITSELF = "session expiry", "the operator", "itself, leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """A rolling restart of all pods as their work felt it.

    Parameters
    ----------
    rebalances: prepared rebalances in the broker's log.
    interruptions: how often consumers that ran on had to give up their partitions; of Connect and Streams, how many
        tasks or partitions were taken from pods that ran on.
    interrupted_s: time consumers were without any because of that, summed over them; None where it is not asked.
    moves: how often a partition or task went to another pod.
    duration_s: of `kubectl rollout restart` and `status`.
    restored_records: read again to rebuild state; None where there is none. rebuilds: partitions for which that was
        done, times.
    twice: records that were worked on again. p99_delay_s: within which 99 % of the records were done with after they
        were sent.
    """

    rebalances: int
    interruptions: int
    interrupted_s: float | None
    moves: int
    stillness: Stillness
    duration_s: float
    restored_records: int | None = None
    rebuilds: int | None = None
    twice: int | None = None
    p99_delay_s: float | None = None
    course: Course | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """A scale-down by one pod as the work of the group felt it.

    Parameters
    ----------
    partitions: the pieces of work that the departed pod did.
    takeover_s: the longest time in which nobody did one of them.
    member_left_after_s: from the end of the process to the broker's line about its last member; negative when the
        member left before.
    interruptions, restored_records: as in a rolling restart.
    """

    partitions: tuple[int, ...]
    takeover_s: float
    member_left_after_s: float
    member_ended_by: str
    session_timeout_s: float
    interruptions: int = 0
    restored_records: int | None = None
    course: Course | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that was measured in one run.

    Parameters
    ----------
    unconsumed_records, twice: by group: records that were acknowledged and not consumed, pairs of lives of one task
        that overlap; None where a role does not know such a thing.
    state_without, state_with: the rolling restart of groups with state and slow polls; None where the role has none.
    """

    roll_without: Roll
    roll_with: Roll
    scale_down_without: ScaleDown
    scale_down_with: ScaleDown
    unconsumed_records: dict[str, int] | None = None
    twice: dict[str, int] | None = None
    state_without: Roll | None = None
    state_with: Roll | None = None

    @property
    def faults(self) -> dict[str, int]:
        """What went wrong with the work itself, by group, the managed one last."""
        return {**(self.unconsumed_records or {}), **(self.twice or {})}


def differences(figures: Figures, words: Wording) -> list[str]:
    """Return in words what differs from the promise; empty when nothing does."""
    found, most = [], words.rebalances_max
    if figures.roll_with.rebalances > most:
        said = f"not {most}" if not most else f"more than {most}"
        found.append(f"the rolling restart with StaticGroup caused {figures.roll_with.rebalances} rebalances, {said}")
    if figures.roll_with.interruptions:
        found.append(f"it {words.took.format(count=figures.roll_with.interruptions)}, not 0")
    if figures.roll_with.moves:
        found.append(f"it moved {words.pieces} to other pods {figures.roll_with.moves} times, not 0")
    if figures.roll_with.restored_records:
        found.append(f"it restored {figures.roll_with.restored_records} records, not 0")
    found += _differences_with_state(figures.state_without, figures.state_with)
    if figures.scale_down_with.takeover_s >= TAKEOVER_PROMISE_S:
        took = f"{figures.scale_down_with.takeover_s:.1f} s, not below {TAKEOVER_PROMISE_S:.0f} s"
        found.append(f"with StaticGroup the departed pod's {words.pieces} stood still for {took}")
    if figures.scale_down_with.member_ended_by != OPERATOR:
        found.append(f"the departed member was not removed by the operator: {figures.scale_down_with.member_ended_by}")
    found += [f"group {name} {words.missed.format(count=count)}" for name, count in figures.faults.items() if count]
    if not figures.roll_without.rebalances:
        found.append(f"the rolling restart of {words.roll_without} shows no rebalance: the measurement cannot be right")
    if words.holds_without and figures.scale_down_without.takeover_s <= figures.scale_down_with.takeover_s:
        found.append("the scale-down was no slower without the operator: nothing was shown")
    return found


def _differences_with_state(without: Roll | None, with_it: Roll | None) -> list[str]:
    if without is None or with_it is None:
        return []
    found = []
    if with_it.rebalances or with_it.rebuilds:
        found.append(
            f"with state, the rolling restart with StaticGroup caused {with_it.rebalances} rebalances and "
            f"{with_it.rebuilds} rebuilds, not 0"
        )
    if not without.rebuilds:
        found.append("with state, dynamic members rebuilt nothing: the measurement cannot be right")
    if without.stillness.sum_s <= with_it.stillness.sum_s:
        found.append("with state, partitions stood still no longer without the operator: nothing was shown")
    return found


def rows(figures: Figures, words: Wording) -> list[tuple[str, str, str]]:
    """Return the table's lines: measured without and with StaticGroup; a line without values is a title."""
    one, other = figures.roll_without, figures.roll_with
    left, right = figures.scale_down_without, figures.scale_down_with
    *without, with_it = figures.faults.values()
    return [
        *_with_state(figures.state_without, figures.state_with, words),
        ("Rolling restart of all pods", words.roll_without, words.with_it),
        ("rebalances, by the broker's log", str(one.rebalances), str(other.rebalances)),
        (words.taken, str(one.interruptions), str(other.interruptions)),
        *_interrupted(one.interrupted_s, other.interrupted_s),
        (f"{words.pieces} moved to another pod, times", str(one.moves), str(other.moves)),
        *_restored(one.restored_records, other.restored_records),
        (f"time with any {words.piece} standing still", *_seconds(one.stillness.any_s, other.stillness.any_s)),
        (f"longest standstill of one {words.piece}", *_seconds(one.stillness.longest_s, other.stillness.longest_s)),
        (f"standstill, summed over {words.pieces}", *_seconds(one.stillness.sum_s, other.stillness.sum_s)),
        ("the rollout took", *_seconds(one.duration_s, other.duration_s)),
        ("Scale-down by one pod", words.scale_without, words.with_it),
        (f"its {words.pieces} stood still for", *_seconds(left.takeover_s, right.takeover_s)),
        ("process ended until member gone", *_seconds(left.member_left_after_s, right.member_left_after_s)),
        ("member ended by", left.member_ended_by, right.member_ended_by),
        ("session timeout of its pod", *_seconds(left.session_timeout_s, right.session_timeout_s)),
        *([] if one.interrupted_s is not None else [(words.taken, str(left.interruptions), str(right.interruptions))]),
        *_restored(left.restored_records, right.restored_records),
        (words.lost, " and ".join(map(str, without)), str(with_it)),
    ]


def _with_state(one: Roll | None, other: Roll | None, words: Wording) -> list[tuple[str, str, str]]:
    if one is None or other is None:
        return []
    return [
        ("Rolling restart, with state and slow polls", words.roll_without, words.with_it),
        ("rebalances, by the broker's log", str(one.rebalances), str(other.rebalances)),
        ("states rebuilt, partitions", str(one.rebuilds), str(other.rebuilds)),
        *_restored(one.restored_records, other.restored_records),
        ("records worked on twice", str(one.twice), str(other.twice)),
        (f"time with any {words.piece} standing still", *_seconds(one.stillness.any_s, other.stillness.any_s)),
        (f"longest standstill of one {words.piece}", *_seconds(one.stillness.longest_s, other.stillness.longest_s)),
        (f"standstill, summed over {words.pieces}", *_seconds(one.stillness.sum_s, other.stillness.sum_s)),
        ("99 % of the records done within", *_seconds(one.p99_delay_s or 0.0, other.p99_delay_s or 0.0)),
        ("the rollout took", *_seconds(one.duration_s, other.duration_s)),
    ]


def _seconds(without: float, with_it: float) -> tuple[str, str]:
    return f"{without:.1f} s", f"{with_it:.1f} s"


def _interrupted(without: float | None, with_it: float | None) -> list[tuple[str, str, str]]:
    if without is None or with_it is None:
        return []
    return [("running consumers interrupted, sum", f"{without:.2f} s", f"{with_it:.2f} s")]


def _restored(without: int | None, with_it: int | None) -> list[tuple[str, str, str]]:
    return [("records restored", str(without), str(with_it))] if without is not None else []


def table(figures: Figures, words: Wording) -> Table:
    """Return the table for the terminal."""
    shown = Table(title="Measured in this run", title_justify="left", caption=words.caption, caption_justify="left")
    shown.add_column("")
    shown.add_column("without", justify="right", no_wrap=True)
    shown.add_column("with", justify="right", no_wrap=True)
    for name, without, with_it in rows(figures, words):
        if name[0].isupper():
            shown.add_section()
        shown.add_row(name, without, with_it, style="bold" if name[0].isupper() else "")
    return shown


def write(figures: Figures, found: list[str], **run: Any) -> None:
    """Write build/demo.json: the figures, what differs from the promise, and about the run itself."""
    REPORT.parent.mkdir(exist_ok=True)
    content = {**run, "figures": asdict(figures), "differences": found, "promise_is_kept": not found}
    REPORT.write_text(json.dumps(content, indent=2) + "\n")
