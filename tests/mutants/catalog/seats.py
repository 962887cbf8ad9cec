"""The history of each seat over gaps and restores."""

from __future__ import annotations

from .mutant import mutant
from .suites import HISTORIES

SEATS = tuple(
    mutant(name, path, HISTORIES, *changes)
    for path, name, *changes in (
        (
            "core/evidence/continuity.py",
            "name kept because it has an object, whatever its uid",
            ("if s.uid in view.seen)", "if s.ordinal in {n.ordinal for n in view.seats})"),
        ),
        (
            "core/evidence/continuity.py",
            "uids compared over a restore",
            ("before.timeline != view.timeline or before.workload_name", "before.workload_name"),
        ),
        (
            "core/evidence/continuity.py",
            "seats inside of the range kept by the generation rule",
            ("        runs.append(inside)\n", ""),
        ),
        (
            "core/evidence/continuity.py",
            "generation not compared",
            ("before.is_complete and before.workload == view.read else", "before.is_complete else"),
        ),
        (
            "core/workload.py",
            "observedGeneration not compared",
            (" and self.observed_generation == self.metadata_generation", ""),
        ),
        (
            "core/evidence/continuity.py",
            "object at an end of the gap taken for absent",
            ("return frozenset(min(o, INT32_MAX) for o in unexplained | {s.ordinal for s in view.seats})", "return frozenset()"),
        ),
        (
            "core/evidence/continuity.py",
            "incomplete list of seats taken for all of them",
            ("before.workload if before.is_complete and", "before.workload if"),
        ),
        (
            "core/evidence/continuity.py",
            "swapped ids of a container that was started again forgotten",
            ("    if _may_have_swapped(before, view):\n", "    if False:\n"),
        ),
        (
            "core/evidence/continuity.py",
            "ids by hand kept clear by a name",
            ("    if view.are_ids_by_hand or before", "    if before"),
        ),
        (
            "core/evidence/continuity.py",
            "blind spans forgotten at the next gap",
            ("        blind = (*blind, span) if lost else blind\n", "        blind = (span,) if lost else ()\n"),
        ),
        (
            "core/evidence/spans.py",
            "word closes a longer span",
            ("int(self.since_s) <= int(span.since_s) and ", ""),
        ),
        (
            "core/evidence/spans.py",
            "word said before the span was over",
            ("min(self.until_s, self.said_at_s)", "self.until_s"),
        ),
        (
            "runtime/memory/histories.py",
            "facts of the StatefulSet without a barrier behind them",
            ("if is_passed and self.pods.epoch == epoch else None", "if self.pods.epoch == epoch else None"),
        ),
        (
            "runtime/memory/histories.py",
            "history that the status does not tell taken for innocence",
            ("return first if history.injected is None and not is_doubted else self._forgotten(group, spec, first)", "return first"),
        ),
        (
            "runtime/memory/histories.py",
            "objects seen before the gap taken for seen",
            (" and self.pods.seen_under(pod.uid) in unbroken[o]", ""),
        ),
        (
            "core/status/memory.py",
            "object of a seat that is gone is no suspect",
            ("return (*remembered, *(i for i in seats.values() if i.uid not in known))", "return remembered"),
        ),
    )
)
