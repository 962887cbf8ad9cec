"""What of a state can make no difference any more, so that states which differ in nothing else are one."""

from __future__ import annotations

from typing import Any

from .product import Product
from .scenario import Scenario
from .state import NOWHERE, State


def without_history(s: State, c: Scenario, product: Product) -> State:
    """Take out what can make no difference any more."""
    left = s.left
    changes: dict[str, Any] = {}
    if not (left.hand or left.restore or left.unseen_restore or left.backup) and s.status >= 0:
        changes |= {"status": -1, "status_known": 0, "position": NOWHERE, "standby": None}
    if s.backup is not None and not (left.restore or left.unseen_restore or left.status):
        changes["backup"] = None
    if not left.stale and s.before:
        changes["before"] = 0
    if not left.fail and s.stored != s.holder:
        changes["stored"] = s.holder
    holding = (s.holder, s.before if left.stale else 0, s.stored if left.fail else 0)
    living = tuple(
        p
        for p in s.processes
        if not (p.silenced and c.are_silent(p.silenced) and (p.member <= 0 or p.member not in holding))
    )
    if len(living) < len(s.processes):
        changes["processes"] = living
    if s.removed and (not c.is_consumer or all(p.own != s.removed for p in s.processes)):
        changes["removed"] = 0
    if not left.hand and s.standby is None:
        named = {*(product.carriers(s.memory) or ()), *product.suspects(s.memory)}
        seen = tuple((n, text) for n, text in s.seen if text[-1] not in "g" or "d" not in text or f"u{n}" in named)
        if len(seen) < len(s.seen):
            changes["seen"] = seen
    return s._replace(**changes) if changes else s
