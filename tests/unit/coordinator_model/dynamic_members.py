"""Dynamic members of a classic group."""

from __future__ import annotations

from conformance.classic_bench import ClassicBench
from coordinator_model.base.errors import ErrorCode

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
REBALANCING, ILLEGAL = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION


def dynamic_members(
    bench: ClassicBench, count: int, *, session_timeout_ms: int = 10_000, rebalance_timeout_ms: int = 60_000
) -> list[str]:
    """Let members without instance ids join an empty group together; the group then waits for SyncGroup."""
    joins = [
        bench.join_dynamic(session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=rebalance_timeout_ms)
        for _ in range(count)
    ]
    while any(j.waits for j in joins):
        bench.advance(3_000)
    assert bench.group.state == "CompletingRebalance"
    return [j.joined.member_id for j in joins]
