"""Classic groups, and groups of members of both protocols, brought to a given state."""

from __future__ import annotations

from conformance.answers import expect
from coordinator_model.assignors.subscription import DecodedAssignment, decode_assignment, encode_assignment
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import JoinGroupResponse, SyncGroupResponse, TopicPartitions
from coordinator_model.classic.group import ClassicGroup

from .consumer_bench import ALL, FIRST, GROUP, SECOND, ConsumerBench, member


def stable_classic(bench: ConsumerBench, *instance_ids: str | None, user_data: bytes | None = None) -> list[str]:
    """Bring up a stable classic group in generation 1; the first member has all partitions."""
    for instance_id in instance_ids:
        answer = bench.join_classic("", instance_id)
        if answer is not None:
            answer = bench.join_classic(answer.member_id)
            assert answer is None
    bench.advance(3_000)
    bench.advance(3_000)
    group = bench.coordinator.groups[GROUP]
    ids = list(group.members)
    owned = encode_assignment(DecodedAssignment(3, ALL, user_data))
    for member_id in reversed(ids):
        instance_id = group.members[member_id].group_instance_id
        bench.sync_classic(member_id, 1, instance_id, assignments=((ids[0], owned),))
    assert group.state == "Stable"
    return ids


def classic_group(bench: ConsumerBench) -> ClassicGroup:
    """Return the group, which is a classic one."""
    return expect(ClassicGroup, bench.coordinator.groups[GROUP])


def given_mixed(bench: ConsumerBench) -> None:
    """Member m1 uses the classic protocol, static member m2 (y) the consumer protocol."""
    bench.given(member("m1", None, FIRST, classic=True), member("m2", "y", SECOND))


def admitted(answer: JoinGroupResponse | None) -> JoinGroupResponse:
    assert answer is not None
    assert answer.error_code is ErrorCode.NONE
    return answer


def partitions(answer: SyncGroupResponse | None) -> TopicPartitions:
    assert answer is not None
    assert answer.error_code is ErrorCode.NONE
    return decode_assignment(answer.assignment).partitions
