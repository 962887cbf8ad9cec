"""The live view: two groups side by side, every partition's last minute, the operator's Events and the narrator.

The one idea: drawing is a function of a Picture and the terminal's size; 80 columns by 24 lines suffice.
"""

from __future__ import annotations

import textwrap

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.text import Text

from support.demo.measure import RECENT_MS
from support.demo.picture import GroupPicture, Picture
from support.demo.role import PARTITIONS

HISTORY_MS = 60_000
COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "white", "bright_cyan", "bright_yellow")
"""One for each ordinal: a partition that changes its pod changes its colour."""
SHADES = ("█", "▓", "▒", "░", "▞", "▚", "▙", "▟")
"""The same for terminals without colours."""
STILL = "·"
_OPERATOR_LINES = 4
_NARRATION_LINES = 3
_PODS_MIN = 3


def owner(group: GroupPicture, partition: int, from_ms: float, until_ms: float) -> int | None:
    """Return the ordinal of the pod that received records of a partition in most of a time; None when nobody did."""
    held_ms = {
        ordinal: sum(max(0.0, min(last, until_ms) - max(first, from_ms)) for first, last in times.get(partition, []))
        for ordinal, times in group.received.items()
    }
    longest = max(held_ms, key=lambda ordinal: held_ms[ordinal], default=None)
    return longest if longest is not None and sum(held_ms.values()) * 2 >= until_ms - from_ms else None


def strip(group: GroupPicture, partition: int, picture: Picture, cells: int) -> Text:
    """Draw the last minute of a partition, the newest at the right: its consumers, or that it had none."""
    end_ms, text = picture.at_ms - RECENT_MS / 2, Text()
    cell_ms = HISTORY_MS / cells
    begun = [times[partition][0][0] for times in group.received.values() if times.get(partition)]
    for cell in range(cells):
        from_ms = end_ms - (cells - cell) * cell_ms
        if not begun or from_ms < min(begun):
            text.append(" ")
            continue
        ordinal = owner(group, partition, from_ms, from_ms + cell_ms)
        if ordinal is None:
            text.append(STILL, style="bold red")
        else:
            text.append(SHADES[ordinal % len(SHADES)], style=COLOURS[ordinal % len(COLOURS)])
    return text


def group_panel(group: GroupPicture, picture: Picture, width: int) -> Panel:
    """Draw one group."""
    words, lines = picture.words, list[Text]()
    for pod in group.pods:
        colour, shade = COLOURS[pod.ordinal % len(COLOURS)], SHADES[pod.ordinal % len(SHADES)]
        name = f"{group.name}-{pod.name.rpartition('-')[2]}"
        held = " ".join(map(str, pod.partitions)) or "-"
        lines.append(
            Text.assemble(
                (f"{shade} {name}".ljust(18), colour),
                (pod.state.ljust(12), "" if pod.state == "Ready" else "bold"),
                f"{words.piece[0]} {held}",
            )
        )
    lines.append(Text(f"{group.records_per_s:.0f} {words.unit}", style="dim"))
    for partition in range(PARTITIONS):
        waits = group.still_s.get(partition)
        is_consumed = any(times.get(partition) for times in group.received.values())
        verdict = f" {waits:3.0f} s" if waits is not None else "  ok" if is_consumed else "  -"
        end = Text(verdict, style="bold red" if waits is not None else "green")
        lines.append(Text.assemble(f"{partition} ", strip(group, partition, picture, width - 12), end))
    lines.append(Text.assemble("rebalances in this scene: ", (str(group.rebalances), "bold")))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Panel(Group(*lines), title=group.title, border_style="dim")


def operator_panel(picture: Picture, width: int, lines: int) -> Panel:
    """Draw what the operator says: the columns of `kubectl get ksg`, then its latest Events, the newest in full."""
    columns = "  ".join(f"{name} {value}" for name, value in picture.columns.items() if value)
    shown: list[str] = []
    for event in reversed(picture.events):
        shown = textwrap.wrap(event, width - 4, max_lines=max(1, lines - 1 - len(shown)), placeholder=" …") + shown
        if len(shown) >= lines - 1:
            break
    texts = [Text(columns or "no status yet", style="bold", no_wrap=True, overflow="ellipsis")]
    texts += [Text(line, no_wrap=True) for line in shown[-(lines - 1) :]]
    return Panel(Group(*texts), title="the operator: kubectl get ksg, Events", border_style="dim", height=lines + 2)


def narrator_panel(picture: Picture, line_count: int) -> RenderableType:
    """Draw the narrator's latest lines, the newest bright."""
    shown = picture.lines[-line_count:]
    texts = []
    for index, (at_ms, text) in enumerate(shown):
        line = Text(f"{clock(at_ms - picture.started_at_ms)} {text}")
        line.stylize("bold" if index == len(shown) - 1 else "dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        texts.append(line)
    return Group(*texts)


def clock(elapsed_ms: int) -> str:
    """Return minutes and seconds."""
    return f"{elapsed_ms // 60_000}:{elapsed_ms // 1000 % 60:02d}"


def draw(picture: Picture, width: int, height: int) -> RenderableType:
    """Draw a moment for a terminal of a size; below 80x24 the right and the lower edge are cut."""
    group_lines = PARTITIONS + 4 + max([_PODS_MIN, *(len(group.pods) for group in picture.groups)])
    spare = max(0, height - 1 - group_lines - (_OPERATOR_LINES + 2) - _NARRATION_LINES)
    events, narration = _OPERATOR_LINES + spare // 2, _NARRATION_LINES + spare - spare // 2
    head = Text.assemble(
        ("StaticGroup ", "bold"),
        (picture.scene, "bold cyan"),
        f"   {clock(picture.at_ms - picture.started_at_ms)}   ",
        (f"{STILL} nobody", "bold red"),
        no_wrap=True,
        overflow="ellipsis",
    )
    sides = Layout(name="groups", size=group_lines)
    if picture.groups:
        share = width // len(picture.groups)
        sides.split_row(*(Layout(group_panel(group, picture, share)) for group in picture.groups))
    else:
        sides.update(Panel(f"The {picture.words.workers} are starting.", height=group_lines))
    root = Layout()
    root.split_column(
        Layout(head, size=1), sides, Layout(operator_panel(picture, width, events), size=events + 2),
        Layout(narrator_panel(picture, narration), size=narration),
    )  # fmt: skip
    return root


def plain(picture: Picture) -> str:
    """Say a moment in one line, for an output that is no terminal."""
    parts, words = [], picture.words
    for group in picture.groups:
        waiting = ", ".join(f"{words.piece[0]}{partition} {waits:.0f} s" for partition, waits in group.still_s.items())
        parts.append(
            f"{group.name}: {group.records_per_s:.0f} {words.unit}, {group.rebalances} rebalances, "
            + (f"standing still: {waiting}" if waiting else words.all_run)
        )
    return f"{clock(picture.at_ms - picture.started_at_ms)}   " + " | ".join(parts)
