"""Worlds of clients that append something to the ids they are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.group import MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.status.projection import project

from .builders import NOW_S, SCOPE, departure, group, history, id_of, known_pod
from .plans import NOW, present

SPRING = {"type": "SpringBoot"}
STREAMS = {"type": "KafkaStreams"}


def members(*texts: str) -> tuple[MemberView, ...]:
    return tuple(MemberView(member_id=f"m-{text}", instance_id=text) for text in texts)


def seen(*texts: str, **changes: Any) -> Snapshot:
    """Two pods that have been Ready for long with the ids of two consumers, and these members."""
    pods = tuple(known_pod(n, f"u{n}", instance_ids=frozenset({id_of(n), f"{id_of(n)}-a"})) for n in range(2))
    changes = {"pods": pods} | changes
    return departure(group=group(*members(*texts)), chains={}, fresh={}, **changes)


def ids(*appended: str) -> tuple[str, ...]:
    return tuple(f"web-{ordinal}.{SCOPE}{text}" for ordinal in range(2) for text in appended)


def decide(wish: StaticGroupSpec, snapshot: Snapshot, memory: History | None = None) -> Plan:
    """Plan one round; pods hold what their clients are expected to make of their ids, as a round has them."""
    known = memory or history()
    naming = present(plan(wish, snapshot, known, NOW_S).naming)
    return plan(wish, replace(snapshot, pods=tuple(naming.expand(p) for p in snapshot.pods)), known, NOW_S)


def status_after(wish: StaticGroupSpec, snapshot: Snapshot, memory: History) -> StaticGroupStatus:
    """Return the status after one round."""
    return project(wish, snapshot, decide(wish, snapshot, memory), Executed(), None, NOW)


def said(wish: StaticGroupSpec, snapshot: Snapshot, memory: History | None = None) -> dict[str, tuple[str, str, str]]:
    status = status_after(wish, snapshot, memory or history())
    return {c.type: (c.status.value, c.reason, c.message) for c in status.conditions}
