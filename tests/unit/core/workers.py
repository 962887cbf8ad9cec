"""Builders for Connect workers, their group and the plans for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.api.resources import status as api
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.schema import Condition
from staticgroup.core.findings import Finding
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import GroupView, MemberView, WorkerView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.status.projection import project
from staticgroup.core.workload import ContainerBudget

from .builders import NOW_S, departure, group, history, member, spec, workload
from .plans import NOW, conditions_of

WISH: dict[str, Any] = {
    "groupId": "connect-cluster", "groupProtocol": "Auto", "client": {"type": "Connect"},
}


def wish(**changes: Any) -> StaticGroupSpec:
    return spec(**(WISH | changes))


def worker(ordinal: int, tasks: int = 4, **changes: Any) -> MemberView:
    values: dict[str, Any] = {"host": f"web-{ordinal}.web.shop.svc", "connectors": 1, "tasks": tasks, "is_whole": True}
    return member(ordinal, worker=WorkerView(**(values | changes)))


def stock(number: int, **changes: Any) -> MemberView:
    return replace(worker(number, is_whole=False, **changes), member_id=f"connect-{number}", instance_id=None)


def cluster(*members: MemberView, **changes: Any) -> GroupView:
    return group(*members, **({"group_id": "connect-cluster", "protocol_type": "connect"} | changes))


def world(*members: MemberView, delay: dict[str, str] | None = None, state: str = "Stable", **changes: Any) -> Snapshot:
    container = ContainerBudget(name="app", startup_budget_s=20, env_values=tuple((delay or {}).items()))
    values: dict[str, Any] = {"workload": workload(2, containers=(container,)), "group": cluster(*members, state=state)}
    return departure(**(values | changes))


def decide(snapshot: Snapshot, memory: History | None = None, wished: StaticGroupSpec | None = None) -> Plan:
    return plan(wished or wish(), snapshot, memory or history(), NOW_S)


def completeness(snapshot: Snapshot, memory: History | None = None) -> Condition:
    return conditions_of(snapshot, memory, wish=wish())["MembershipComplete"]


def found(snapshot: Snapshot) -> list[Finding]:
    return list(findings_of_seats(wish(), decide(snapshot), snapshot))


def projected(
    snapshot: Snapshot, before: api.StaticGroupStatus | None = None, memory: History | None = None
) -> api.StaticGroupStatus:
    return project(wish(), snapshot, decide(snapshot, memory), Executed(), before, NOW)


WELL = world(worker(0), worker(1))
