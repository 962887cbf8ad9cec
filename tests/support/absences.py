"""The published stories of absences (docs/reference/journal/absences.json) as records, to test readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from journal import records as journal

from . import absence_definition
from .absence_definition import Absence, EventKind, MemberEvent

FILE: Final = Path(__file__).resolve().parents[2] / "docs/reference/journal/absences.json"
GROUP: Final = {
    "operator_id": "op-1", "seq": 0, "kafka_cluster_id": "kafka-1", "group_id": "orders", "namespace": "shop",
    "static_group": "orders", "workload": "orders", "protocol": "Classic",
}  # fmt: skip
_FIELDS: Final = ("down_ms", "gap_ms", "started_ms", "starts", "back_lo_ms", "back_ms", "absorbed")


@dataclass(frozen=True, slots=True)
class Story:
    """Facts of one member, unwatched times, and the resulting absences."""

    name: str
    facts: tuple[journal.GroupData, ...]
    blind: tuple[tuple[int, int], ...]
    as_of_ms: int
    absences: tuple[dict[str, Any], ...]

    @property
    def events(self) -> list[MemberEvent]:
        return events(self.facts)


def stories() -> list[Story]:
    """Read the stories."""
    return [
        Story(
            each["name"], tuple(fact(number, row) for number, row in enumerate(each["facts"])),
            tuple((begin, until) for begin, until in each.get("blind", [])), each["as_of_ms"],
            tuple(dict.fromkeys(_FIELDS) | absence for absence in each["absences"]),
        )
        for each in json.loads(FILE.read_text(encoding="utf-8"))["stories"]
    ]  # fmt: skip


def fact(number: int, row: dict[str, Any], instance_id: str = "orders-0") -> journal.GroupData:
    """Return the fact of one row; `number` makes its member.id unique."""
    times = {"observed_at_ms": row["seen"], "source_time_ms": row.get("at"), "time_lo_ms": row.get("lo"),
             "time_hi_ms": row.get("hi"), "instance_id": instance_id}  # fmt: skip
    if "back" in row:
        return journal.MemberRejoined(**GROUP | times, member_id=f"m{number}", absorbed=row["back"])
    if "down" in row or "up" in row:
        pod_uid, run = (row.get("down") or row["up"]).split("/")
        kind = journal.MemberDown if "down" in row else journal.MemberUp
        return kind(**GROUP | times, pod_name=instance_id, pod_uid=pod_uid, restart_count=int(run), node_name="n")
    if "departed" in row:
        return journal.MemberDeparted(**GROUP | times, pod_uid="p", certificate="E1")
    outcome = "Removed" if "removed" in row else "Resurrected"
    return journal.MemberRemoved(**GROUP | times, member_id=f"m{number}", outcome=outcome)


def events(facts: Iterable[journal.GroupData]) -> list[MemberEvent]:
    """Return the facts as input of the definition of an absence."""
    return [event for fact in facts if (event := event_of(fact)) is not None]


def event_of(fact: journal.GroupData) -> MemberEvent | None:
    """Return one fact as such input; None if it begins and ends no absence."""
    match fact:
        case journal.MemberDown():
            kind = EventKind.ENDED
        case journal.MemberUp():
            kind = EventKind.STARTED
        case journal.MemberRejoined():
            kind = EventKind.RETURNED
        case journal.MemberRemoved(outcome=journal.RemovalOutcome.REMOVED):
            kind = EventKind.REMOVED
        case journal.MemberDeparted():
            kind = EventKind.DEPARTED
        case _:
            return None
    known = {f.name for f in fields(MemberEvent)} - {"kind"}
    values = {name: value for name, value in fact.model_dump().items() if name in known and value is not None}
    return MemberEvent(kind=kind, **values)


def event_ms(fact: journal.GroupData) -> int:
    """Return the best single time of a fact of any kind."""
    bound_ms = fact.time_lo_ms if isinstance(fact, journal.MemberDown) else fact.time_hi_ms
    return absence_definition.event_ms(fact.observed_at_ms, fact.source_time_ms, bound_ms)


def as_row(absence: Absence) -> dict[str, Any]:
    """Return an absence in the form of the stories."""
    down = {"down": f"{absence.down.pod_uid}/{absence.down.restart_count}", "end": absence.end.value}
    return {name: getattr(absence, name) for name in _FIELDS} | down


def line(number: int, found: journal.GroupData, k8s_cluster_uid: str = "k8s-1") -> str:
    """Return the journal's line of a fact of a story."""
    fact_id = f"{number}/{found.noun}/{found.instance_id}"  # type: ignore[attr-defined]
    return journal.write(journal.group_record(k8s_cluster_uid, fact_id, found))
