"""Classic groups brought to a given state, for the tests of further rules."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.classic_bench import GROUP, ClassicBench, Pending
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.records import Record, RecordType
from coordinator_model.classic.member import GroupMetadata, MemberMetadata

UNIDENTIFIED = 3
"""A JoinGroup version that lets members join without coming back with a given member id."""


def errors(joins: Sequence[Pending]) -> list[ErrorCode]:
    return [join.error for join in joins]


def given_members(bench: ClassicBench, count: int, *, static: bool = True) -> None:
    """Load a stable group of members m0, m1, … in generation 1; m0 leads."""
    members = tuple(
        MemberMetadata(f"m{n}", f"x{n}" if static else None, f"client-{n}", f"/host-{n}", 9_000, 4_000, b"s", b"\x02")
        for n in range(count)
    )
    value = GroupMetadata("consumer", 1, "range", "m0", 7, members)
    bench.log.append(Record(RecordType.CLASSIC_GROUP_METADATA, (GROUP,), value))
    bench.fail_over()


def three_in_completing_rebalance(bench: ClassicBench) -> list[str]:
    """Three dynamic members admitted to generation 1 that have not sent SyncGroup; session and rebalance 5 s, 5 s."""
    joins = [
        bench.join(api_version=UNIDENTIFIED, session_timeout_ms=6_000, rebalance_timeout_ms=5_000) for _ in range(3)
    ]
    bench.advance(3_000)
    bench.advance(2_000)
    assert (bench.group.state, bench.group.generation_id) == ("CompletingRebalance", 1)
    return [join.joined.member_id for join in joins]


def with_pending_member(bench: ClassicBench) -> tuple[Pending, Pending, str]:
    """Two members whose JoinGroup waits for a third that was given its id (GMMT.setupGroupWithPendingMember)."""
    (leader_id,) = _stable_dynamic(bench)
    asked = bench.join(session_timeout_ms=6_000)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    follower = bench.join(api_version=UNIDENTIFIED)
    leader = bench.join(member_id=leader_id)
    assert leader.waits
    assert follower.waits
    assert bench.group.pending_members == {asked.joined.member_id}
    return leader, follower, asked.joined.member_id


def _stable_dynamic(bench: ClassicBench) -> list[str]:
    joined = bench.join(api_version=UNIDENTIFIED)
    bench.advance(3_000)
    bench.complete_round()
    return [joined.joined.member_id]
