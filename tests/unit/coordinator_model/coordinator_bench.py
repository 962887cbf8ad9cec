"""Requests that several tests send to the coordinator."""

from __future__ import annotations

from conformance.answers import expect
from conformance.classic_bench import GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coordinator_model.base.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID


def fetch(bench: ClassicBench, *partitions: tuple[str, int]) -> tuple[tuple[str, int, int], ...]:
    answer = bench.send(OffsetFetchRequest(group_id=GROUP, partitions=partitions or None)).response
    assert isinstance(answer, OffsetFetchResponse)
    assert answer.error_code is NONE
    return answer.offsets


def commit(
    bench: ClassicBench, member_id: str, instance_id: str | None, generation_id: int, version: int = 10
) -> ErrorCode:
    request = OffsetCommitRequest(
        api_version=version, group_id=GROUP, generation_id_or_member_epoch=generation_id, member_id=member_id,
        group_instance_id=instance_id, offsets=(("t", 0, 42),),
    )
    answer = expect(OffsetCommitResponse, bench.send(request).response)
    assert answer.results == (("t", 0, answer.error_code),)
    return answer.error_code


def join_consumer_group(bench: ClassicBench, group_id: str, member_id: str = "m") -> None:
    answer = bench.send(
        ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, rebalance_timeout_ms=5_000, subscribed_topic_names=("t",),
            topic_partitions=(),
        )
    ).response
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.error_code is NONE, answer.error_message
