"""KIP-848 groups: what the coordinator calls for them.

Timers: ("consumer-session" | "consumer-rebalance" | "consumer-join" | "consumer-sync", group, member) and
("consumer-regex", group).
"""

from __future__ import annotations

from ..base.errors import ErrorCode, GroupError
from ..base.messages import (
    ConsumerGroupDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Request,
)
from ..base.offset_messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from ..base.result import Step
from ..base.shard import ErrorResponse, Expire, Handler, Shard, refusal
from .describe import describe
from .fencing import expire_member, expire_rebalance
from .group import ConsumerGroup
from .heartbeat import arm_session, heartbeat
from .member import MemberState
from .records import REPLAY
from .regex import resolve

__all__ = ["ACCESS", "ERROR_RESPONSE", "EXPIRE", "HANDLERS", "ON_LOADED", "REPLAY", "check_commit", "check_fetch"]

CONSUMER_COMMIT_VERSION = 9
"""From here on consumer-protocol members may commit (KIP-848)."""


def on_loaded(shard: Shard, step: Step) -> None:
    """Give every loaded member its session in full, and those that were revoking their rebalance timeout.

    Members of the classic protocol too get the group's session timeout, not their own, until their next heartbeat.
    """
    for group in shard.groups_of(ConsumerGroup):
        for member in group.members.values():
            arm_session(shard, step, group.group_id, member.member_id)
            if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                group.rebalance_timer_epochs[member.member_id] = member.member_epoch
                key = ("consumer-rebalance", group.group_id, member.member_id)
                step.arm(key, member.metadata.rebalance_timeout_ms)


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
    """Refuse a commit to a consumer group that its member may not make (ConsumerGroup.validateOffsetCommit).

    An older epoch will do for partitions that the member has held since then (KIP-1251); one wrong partition refuses
    all. Classic-protocol members get ILLEGAL_GENERATION where others get STALE_MEMBER_EPOCH.
    """
    if isinstance(request, TxnOffsetCommitRequest):
        transactional, epoch = True, request.generation_id
    else:
        transactional, epoch = False, request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return
    if transactional and epoch == -1 and not request.member_id and request.group_instance_id is None:
        return
    member = group.member(request.member_id)
    if not transactional and not member.uses_classic_protocol and request.api_version < CONSUMER_COMMIT_VERSION:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.member_epoch:
        return
    stale = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    since = {**member.current.pending_revocation, **member.current.assigned}
    allowed = all((t, p) in since and epoch >= since[t, p] for t, p, _ in request.offsets)
    if epoch > member.member_epoch or not allowed:
        raise GroupError(stale, f"The member epoch {epoch} does not allow this commit.")


def check_fetch(group: ConsumerGroup, request: OffsetFetchRequest) -> None:
    """Refuse a fetch that names a member or an epoch unless both fit (ConsumerGroup.validateOffsetFetch)."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = group.member(request.member_id or "")
    if request.member_epoch != member.member_epoch:
        code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
        raise GroupError(code, f"The member epoch {request.member_epoch} is not {member.member_epoch}.")


HANDLERS: dict[type[Request], Handler] = {
    ConsumerGroupHeartbeatRequest: heartbeat,
    ConsumerGroupDescribeRequest: describe,
}
EXPIRE: dict[str, Expire] = {
    "consumer-session": expire_member,
    "consumer-join": expire_member,
    "consumer-sync": expire_member,
    "consumer-rebalance": expire_rebalance,
    "consumer-regex": resolve,
}
ON_LOADED = on_loaded
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {
    ConsumerGroupHeartbeatRequest: refusal(ConsumerGroupHeartbeatResponse),
    ConsumerGroupDescribeRequest: lambda request, error: ConsumerGroupDescribeResponse(
        groups=tuple(ConsumerGroupDescribedGroup(group_id=g, error_code=error.code) for g in request.group_ids)
    ),
}
ACCESS: dict[type[Request], str] = {ConsumerGroupHeartbeatRequest: "READ"}
