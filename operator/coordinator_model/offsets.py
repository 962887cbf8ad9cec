"""Committed offsets, and the checks of commits and fetches.

Whether a topic exists is not asked here: the broker's front (KafkaApis) does that before.
Source: OffsetMetadataManager of Kafka 4.4; ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .base.errors import ErrorCode, GroupError
from .base.messages import Request, Response
from .base.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
)
from .base.records import Record, RecordType
from .base.result import Step
from .base.shard import ErrorResponse, Group, Handler, Replay, Shard
from .classic.group import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup, illegal_state
from .classic.rebalance import arm_session
from .consumer import requests as consumer
from .streams import group as streams_group
from .streams.group import StreamsGroup

INSTANCE_ID_VERSION = 7
"""From here on OffsetCommit carries the group instance id (KIP-345)."""
TXN_INSTANCE_ID_VERSION = 3
"""From here on TxnOffsetCommit carries the group instance id."""
TXN_MODERN_ERRORS_VERSION = 6
"""From here on TxnOffsetCommit answers GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH as they are (KIP-1319)."""
GROUP_NOT_FOUND_VERSION = 9
"""From here on a commit to an absent group gets GROUP_ID_NOT_FOUND, and members other than classic ones commit."""


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """Value of an OFFSET_COMMIT record.

    Parameters
    ----------
    producer_id: the transaction that must end before the offset counts; None outside of transactions.
    """

    offset: int
    producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Value of a TRANSACTION_END record: whether the producer's offsets count."""

    committed: bool


def commit(shard: Shard, step: Step, request: OffsetCommitRequest) -> Response:
    """Carry out OffsetCommit: all partitions or, when the member may not commit, none.

    A commit to a classic group that is stable or about to rebalance counts as a heartbeat. An absent group is created
    when no generation is given: a so-called simple group, which has no members.
    """
    group = _group(shard, request.group_id, request.generation_id_or_member_epoch, request.api_version)
    if isinstance(group, ClassicGroup):
        instance_id = request.group_instance_id if request.api_version >= INSTANCE_ID_VERSION else None
        generation_id = request.generation_id_or_member_epoch
        validate_commit(group, request.member_id, instance_id, generation_id, transactional=False)
        if group.state in (STABLE, PREPARING_REBALANCE):
            arm_session(step, group, group.members[request.member_id])
    else:
        _check(CHECK_COMMIT, group, request)
    return _store(shard, step, request.group_id, request.offsets, None)


def commit_in_transaction(shard: Shard, step: Step, request: TxnOffsetCommitRequest) -> Response:
    """Carry out TxnOffsetCommit: the offsets count when the transaction has been committed."""
    if not request.group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    modern = request.api_version >= TXN_MODERN_ERRORS_VERSION
    group = _group(shard, request.group_id, request.generation_id, GROUP_NOT_FOUND_VERSION if modern else 0)
    if isinstance(group, ClassicGroup):
        instance_id = request.group_instance_id if request.api_version >= TXN_INSTANCE_ID_VERSION else None
        validate_commit(group, request.member_id, instance_id, request.generation_id, transactional=True)
    else:
        try:
            _check(CHECK_COMMIT, group, request)
        except GroupError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH and not modern:
                raise GroupError(ErrorCode.ILLEGAL_GENERATION) from error
            raise
    return _store(shard, step, request.group_id, request.offsets, request.producer_id)


def validate_commit(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation_id: int, *, transactional: bool
) -> None:
    """Refuse a commit to a classic group that its sender may not make (ClassicGroup.validateOffsetCommit).

    Parameters
    ----------
    generation_id: negative: from an admin client or a consumer without group management.
    transactional: such commits may leave member and generation out, and may come while a rebalance completes.
    """
    if group.state == DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation_id < 0 and group.state == EMPTY:
        return
    if generation_id >= 0 or member_id or group_instance_id is not None:
        group.validate_member(member_id, group_instance_id)
        if generation_id != group.generation_id:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional and group.state != EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.state == COMPLETING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)


def fetch(shard: Shard, step: Step, request: OffsetFetchRequest) -> Response:
    """Carry out OffsetFetch; -1 where nothing is committed, as everywhere in an absent group or one that has none."""
    group = shard.groups.get(request.group_id)
    known = shard.offsets.get(request.group_id, {})
    if group is None or isinstance(group, ClassicGroup):
        known = {} if group is None or group.state == DEAD else known
    else:
        try:
            _check(CHECK_FETCH, group, request)
        except GroupError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            known = {}
    wanted = sorted(known) if request.partitions is None else request.partitions
    return OffsetFetchResponse(offsets=tuple((t, p, known.get((t, p), -1)) for t, p in wanted))


def check_streams_commit(group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
    """Refuse a commit to a streams group unless the member may commit every partition of it."""
    if isinstance(request, TxnOffsetCommitRequest):
        transactional, epoch = True, request.generation_id
    else:
        transactional, epoch = False, request.generation_id_or_member_epoch
    if transactional and epoch == -1 and not request.member_id and request.group_instance_id is None:
        return
    if epoch < 0 and group.is_empty:
        return
    group.member(request.member_id)
    if not transactional and request.api_version < GROUP_NOT_FOUND_VERSION:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "OffsetCommit version 9 or above must be used")
    for topic, partition, _ in request.offsets:
        streams_group.check_commit(group, request.member_id, epoch, topic, partition)


def check_streams_fetch(group: StreamsGroup, request: OffsetFetchRequest) -> None:
    """Refuse a fetch of a streams group's offsets that names a member or an epoch unless both fit."""
    streams_group.check_fetch(group, request.member_id, request.member_epoch)


CHECK_COMMIT: dict[str, Callable[[Any, Any], None]] = {
    "consumer": consumer.check_commit,
    "streams": check_streams_commit,
}
CHECK_FETCH: dict[str, Callable[[Any, Any], None]] = {"consumer": consumer.check_fetch, "streams": check_streams_fetch}
"""Type of a group that is not classic → checks of a commit and of a fetch of its offsets."""


def _check(checks: dict[str, Callable[[Any, Any], None]], group: Group, request: Request) -> None:
    check = checks.get(group.group_type)
    if check is None:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
    check(group, request)


def offset_tombstones(shard: Shard, group_id: str) -> list[Record]:
    """Return the tombstones that delete all offsets of a group, those of open transactions too (deleteAllOffsets)."""
    keys = set(shard.offsets.get(group_id, {}))
    for pending in shard.pending_offsets.values():
        keys.update((topic, partition) for g, topic, partition in pending if g == group_id)
    return [Record(RecordType.OFFSET_COMMIT, (group_id, t, p), None) for t, p in sorted(keys)]


def end_transaction(shard: Shard, step: Step, producer_id: int, *, committed: bool) -> None:
    """End a producer's transaction: its offsets now count, or never will; one control record says which."""
    record = Record(RecordType.TRANSACTION_END, (producer_id,), TransactionEnd(committed))
    replay_end(shard, record)
    step.records.append(record)


def replay_end(shard: Shard, record: Record) -> None:
    """Take the end of a transaction from the log.

    Of a mix of plain and transactional commits the one that was written last counts, whenever the transaction ended.
    Source: OffsetMetadataManager.replayEndTransactionMarker.
    """
    pending = shard.pending_offsets.pop(int(record.key[0]), {})
    if not isinstance(record.value, TransactionEnd):
        raise illegal_state(f"Not a TransactionEnd: {record.value!r}")
    if not record.value.committed:
        return
    for (group_id, topic, partition), (order, offset) in pending.items():
        shard.offsets.setdefault(group_id, {})[topic, partition] = offset
        _drop_pending(shard, (group_id, topic, partition), before=order)


def replay_offset(shard: Shard, record: Record) -> None:
    """Take an OFFSET_COMMIT record from the log; the group of an offset is created if it does not exist.

    A plain commit is newer than every pending one of its partition; those then never count.
    """
    group_id, topic, partition = record.group_id, str(record.key[1]), int(record.key[2])
    if record.value is None:
        offsets = shard.offsets.get(group_id, {})
        offsets.pop((topic, partition), None)
        if not offsets:
            shard.offsets.pop(group_id, None)
        _drop_pending(shard, (group_id, topic, partition))
        return
    if not isinstance(record.value, OffsetCommitValue):
        raise illegal_state(f"Not an OffsetCommitValue: {record.value!r}")
    if group_id not in shard.groups:
        shard.groups[group_id] = ClassicGroup(group_id)
    offset, producer_id = record.value.offset, record.value.producer_id
    if producer_id is not None:
        shard.pending_commits += 1
        pending = shard.pending_offsets.setdefault(producer_id, {})
        pending[group_id, topic, partition] = (shard.pending_commits, offset)
    else:
        shard.offsets.setdefault(group_id, {})[topic, partition] = offset
        _drop_pending(shard, (group_id, topic, partition))


def _drop_pending(shard: Shard, key: tuple[str, str, int], before: int | None = None) -> None:
    for pending in shard.pending_offsets.values():
        if key in pending and (before is None or pending[key][0] < before):
            del pending[key]


def _group(shard: Shard, group_id: str, generation_id: int, api_version: int) -> Any:
    group = shard.groups.get(group_id)
    if group is not None:
        return group
    if generation_id < 0:
        group = shard.groups[group_id] = ClassicGroup(group_id)
        return group
    if api_version >= GROUP_NOT_FOUND_VERSION:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise GroupError(ErrorCode.ILLEGAL_GENERATION)


def _store(
    shard: Shard,
    step: Step,
    group_id: str,
    offsets: tuple[tuple[str, int, int], ...],
    producer_id: int | None,
) -> OffsetCommitResponse:
    for topic, partition, offset in offsets:
        value = OffsetCommitValue(offset, producer_id)
        record = Record(RecordType.OFFSET_COMMIT, (group_id, topic, partition), value)
        replay_offset(shard, record)
        step.records.append(record)
    return OffsetCommitResponse(results=tuple((t, p, ErrorCode.NONE) for t, p, _ in offsets))


def _commit_refused(request: OffsetCommitRequest | TxnOffsetCommitRequest, error: GroupError) -> OffsetCommitResponse:
    return OffsetCommitResponse(error_code=error.code, results=tuple((t, p, error.code) for t, p, _ in request.offsets))


HANDLERS: dict[type[Request], Handler] = {
    OffsetCommitRequest: commit,
    TxnOffsetCommitRequest: commit_in_transaction,
    OffsetFetchRequest: fetch,
}
REPLAY: dict[RecordType, Replay] = {
    RecordType.OFFSET_COMMIT: replay_offset,
    RecordType.TRANSACTION_END: replay_end,
}
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {
    OffsetCommitRequest: _commit_refused,
    TxnOffsetCommitRequest: _commit_refused,
    OffsetFetchRequest: lambda request, error: OffsetFetchResponse(error_code=error.code, error_message=error.message),
}
