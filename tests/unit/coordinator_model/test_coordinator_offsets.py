"""Checks of offset commits, and fetched offsets."""

from __future__ import annotations

from conformance.classic_bench import GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.offset_messages import TxnOffsetCommitRequest

from .coordinator_bench import NONE, UNKNOWN, commit, fetch


def test_member_commits_and_anybody_fetches(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest.testGenericGroupOffsetCommit…."""
    (m1,) = bench.stable("x")
    assert commit(bench, m1, "x", 1) is NONE
    assert fetch(bench) == (("t", 0, 42),)
    assert fetch(bench, ("t", 0), ("t", 1)) == (("t", 0, 42), ("t", 1, -1))
    bench.fail_over()
    assert fetch(bench) == (("t", 0, 42),)


def test_commit_of_a_replaced_member_is_fenced(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest: …WithFencedInstanceId; before version 7 the instance id is not on the wire."""
    (m1,) = bench.stable("x")
    new = bench.bounce("x")
    assert commit(bench, m1, "x", 1) is ErrorCode.FENCED_INSTANCE_ID
    assert commit(bench, m1, "x", 1, version=6) is UNKNOWN
    assert commit(bench, new, "x", 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, new, None, 1) is NONE
    assert fetch(bench) == (("t", 0, 42),)


def test_commit_without_a_generation(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest.testSimpleGroupOffsetCommit…: only while nobody is a member."""
    assert commit(bench, "", None, -1) is NONE
    assert bench.group.is_simple
    bench.fail_over()
    assert bench.group.is_simple, "a group of offsets alone is found again"
    bench.advance(0)
    bench.join("x")
    assert commit(bench, "", None, -1) is UNKNOWN


def test_commit_to_an_absent_group(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest.testOffsetCommitWithUnknownGroup: the error changed with version 9."""
    assert commit(bench, "m", None, 1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, "m", None, 1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.coordinator.groups == {}


def test_commit_counts_as_a_heartbeat(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest.testGenericGroupOffsetCommitMaintainsSession."""
    (m1,) = bench.stable("x", session_timeout_ms=6_000)
    for _ in range(3):
        bench.advance(5_999)
        assert commit(bench, m1, "x", 1) is NONE
    bench.advance(6_000)
    assert bench.group.members == {}


def test_transactional_offsets_count_when_the_transaction_ends(bench: ClassicBench) -> None:
    """OffsetMetadataManagerTest.testGenericGroupTransactionalOffsetCommit, …WithUnknownMemberId,
    …WithIllegalGenerationId and testCompleteTransaction….
    """
    (m1,) = bench.stable("x")

    def txn(member_id: str, instance_id: str | None, generation_id: int, producer_id: int, offset: int) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            group_id=GROUP, producer_id=producer_id, generation_id=generation_id, member_id=member_id,
            group_instance_id=instance_id, offsets=(("t", producer_id, offset),),
        )
        return bench.send(request).error

    assert txn(m1, "x", 1, 1, 10) is NONE
    assert txn("", None, -1, 2, 20) is NONE
    assert txn("made-up", "x", 1, 3, 30) is ErrorCode.FENCED_INSTANCE_ID
    assert txn("made-up", None, 1, 3, 30) is UNKNOWN
    assert txn(m1, "x", 2, 3, 30) is ErrorCode.ILLEGAL_GENERATION
    assert fetch(bench) == ()
    bench.log += bench.coordinator.end_transaction(1, 0, committed=True).records
    bench.log += bench.coordinator.end_transaction(2, 0, committed=False).records
    assert fetch(bench) == (("t", 1, 10),)
    bench.fail_over()
    assert fetch(bench) == (("t", 1, 10),)
