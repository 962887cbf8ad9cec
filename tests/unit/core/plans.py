"""What a plan decided, in short."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from staticgroup.api.reasons import Reason
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.schema import Condition
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.guards import Guard
from staticgroup.core.issuance import issue
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan, survey
from staticgroup.core.snapshot import History, RemovalRecord, Snapshot
from staticgroup.core.status.projection import project

from .builders import COORDINATOR, NOW_S, departure, history, id_of, spec

T = TypeVar("T")
NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
DEAD, LIVE, SUSPECT = PodState.DEAD, PodState.LIVE, PodState.SUSPECT


def planned(
    snapshot: Snapshot | None = None, memory: History | None = None, now_s: float = NOW_S, **spec_changes: object
) -> Plan:
    return plan(spec(**spec_changes), snapshot or departure(), memory or history(), now_s)


def conditions_of(
    snapshot: Snapshot,
    memory: History | None = None,
    executed: Executed | None = None,
    wish: StaticGroupSpec | None = None,
) -> dict[str, Condition]:
    wish = wish or spec()
    decided = plan(wish, snapshot, memory or history(), NOW_S)
    conditions = project(wish, snapshot, decided, executed or Executed(), None, NOW).conditions
    for each in conditions:  # a reason stands for one status, and belongs to certain conditions
        reason = Reason(each.reason)
        assert each.type in reason.types
        assert each.status == reason.status
    return {c.type: c for c in conditions}


def read_keys(wish: StaticGroupSpec, snapshot: Snapshot, memory: History, now_s: float = NOW_S) -> list[str]:
    """Return the ids of the seats that are read afresh before anything is decided."""
    return [seat.key for seat in survey(wish, snapshot, issue(wish, snapshot, memory), now_s).reads]


def removed(decided: Plan) -> set[tuple[str, str]]:
    return {(r.entry.member_id, r.entry.instance_id) for a in decided.actions for r in a.removals}


def only_guard(decided: Plan) -> Guard:
    assert not decided.actions
    (held,) = decided.held
    assert held.text
    return Guard(held.reason)


def acknowledged(**changes: object) -> RemovalRecord:
    values: dict[str, object] = {
        "instance_id": id_of(2), "member_id": "m2", "coordinator": COORDINATOR, "acknowledged_at_s": NOW_S - 1,
    }
    return RemovalRecord(**(values | changes))


def present(value: T | None) -> T:
    assert value is not None
    return value
