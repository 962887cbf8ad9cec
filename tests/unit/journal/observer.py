"""An observer that runs round after round and keeps what it would record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from journal.rounds import Fact, Recorder, Remembered, record_round
from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Snapshot
from unit.core.builders import NOW_S, departure, group, history, member, spec, workload

NOW_MS = int(NOW_S * 1000)
STEP_MS = 10_000
UNREACHABLE = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")


class Observer:
    """One operator process: reads snapshots, ten seconds apart, and collects its facts."""

    def __init__(self, operator_id: str = "op") -> None:
        self.operator_id = operator_id
        self.picture: Remembered | None = None
        self.facts: list[Fact] = []
        self.now_ms = NOW_MS

    def look(self, snapshot: Snapshot, **changes: Any) -> list[Fact]:
        """Plan like a round, and record; returns the new facts."""
        self.now_ms += STEP_MS
        the_spec = changes.pop("spec", spec())
        decided = plan(the_spec, snapshot, changes.pop("history", history()), self.now_ms / 1000)
        known = decided.timeout
        values = {
            "executed": Executed(), "began_ms": self.now_ms, "ended_ms": self.now_ms + 100,
            "timeout_before_ms": (known.inject_ms or known.brokers.group_ms) if known else None,
        }  # fmt: skip
        recorder = Recorder(
            before=self.picture, operator_id=self.operator_id, kafka_cluster_id=changes.pop("kafka_cluster_id", "kc"),
            spec=the_spec, snapshot=snapshot, plan=replace(decided, **changes.pop("plan", {})),
            **(values | changes),
        )  # fmt: skip
        record_round(recorder)
        self.picture = recorder.remembered
        self.facts += recorder.facts
        return recorder.facts


def running(**changes: Any) -> Snapshot:
    """Three pods, three members, nobody departed."""
    values = {"workload": workload(3), "chains": {}, "fresh": {}, "group": group(*(member(n) for n in range(3)))}
    return departure(**(values | changes))


def kinds(facts: list[Fact]) -> list[str]:
    return [f.data.noun for f in facts]


def bounds(fact: Fact) -> tuple[int | None, int | None]:
    return fact.data.time_lo_ms, fact.data.time_hi_ms


def kip848(epoch: int, *members: Any, **changes: Any) -> GroupView:
    values = {"group_type": GroupType.CONSUMER, "group_epoch": epoch, "assignment_epoch": epoch, "protocol_type": ""}
    members = members or tuple(member(n, member_epoch=epoch, assigned_partitions=4) for n in range(3))
    return group(*members, **(values | changes))
