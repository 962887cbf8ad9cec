"""The table of faults and phases as Markdown: figures that were seen, and the judgement over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from support.fault_proxy.kafka_relay import KafkaFault
from support.fault_proxy.kube_front import FRONT_FAULTS
from support.faults.lane import Fault
from support.faults.phases import Phase

ALL_FAULTS: tuple[Fault, ...] = (*FRONT_FAULTS, *KafkaFault)
Row = Mapping[str, Any]


def complaints(rows: Iterable[Row], accusations: Sequence[str]) -> list[str]:
    """Return what must not be: a live member removed, an operator that died, a status that never came right again."""
    found = list(accusations)
    for row in rows:
        where = f"{row['fault']}, {row['phase']}"
        if not row["is_alive"]:
            found.append(f"{where}: the operator ended")
        if row["settled_s"] is None:
            found.append(f"{where}: the status never came right again")
        if row["ended_by"] == "nobody":
            found.append(f"{where}: the departed member is still there")
        found += [f"{where}: {each}" for each in row["exceptions"]]
    return found


def table(rows: Sequence[Row], faults: Sequence[Fault]) -> list[str]:
    """Return one table: a line for each fault, a column for each phase."""
    cells = {(row["fault"], row["phase"]): row for row in rows}
    lines = [f"| fault | {' | '.join(Phase)} |", f"|---|{'---|' * len(Phase)}"]
    for fault in faults:
        texts = [_cell(cells.get((str(fault), str(phase)))) for phase in Phase]
        if any(text != "–" for text in texts):
            lines.append(f"| {fault} | {' | '.join(texts)} |")
    return lines


def said(rows: Sequence[Row], faults: Sequence[Fault]) -> list[str]:
    """Return what the status said under each fault, in any phase."""
    lines = ["| fault | not True in the status meanwhile |", "|---|---|"]
    for fault in faults:
        found = sorted({text for row in rows if row["fault"] == str(fault) for text in row["said"]})
        if any(row["fault"] == str(fault) for row in rows):
            lines.append(f"| {fault} | {', '.join(f'`{text}`' for text in found) or 'nothing'} |")
    return lines


def summary(rows: Sequence[Row], live_members_removed: int) -> list[str]:
    """Return in a sentence what holds of all cells together."""
    ends = [row["ended_by"] for row in rows]
    dead = sum(not (row["is_alive"] and row["is_healthy"]) for row in rows)
    return [
        f"{len(rows)} cells: live members removed {live_members_removed}; departed members ended by the operator "
        f"{ends.count('operator')}, by their session {ends.count('session')}, by nobody {ends.count('nobody')}; "
        "operators that ended or "
        f"were unhealthy {dead}; tracebacks {sum(len(row['exceptions']) for row in rows)}; most memory of any operator "
        f"{max(row['rss_max_mib'] for row in rows)} MiB."
    ]


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    if not row["is_reached"]:
        return "not reached"
    by = "" if row["ended_by"] == "operator" else f" ({row['ended_by']})"
    return f"{_seconds(row['member_gone_s'])}{by} / {_seconds(row['settled_s'])}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "never"
    return "meanwhile" if value < 0 else f"{value:.1f}"
