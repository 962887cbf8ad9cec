"""Make a classic group rebalance exactly once, although all of its members are static.

Why: static members that come back cause no rebalance, so a topic that a new version of the application subscribes stays
without a reader (KAFKA-12759). One idea: a temporary dynamic member joins, which begins a rebalance, and leaves before
that is over, so that the others share all partitions among themselves. While it is in the group the coordinator
keeps its JoinGroup unanswered, so it speaks over a connection of its own.
Source: KIP-394; GroupMetadataManager.classicGroupJoinExistingMember, prepareRebalance.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ..core.group import GroupView, RebalanceOutcome
from .calls.joining import TemporaryMember, join, leave_as
from .calls.reading import describe_groups
from .connection import BrokerConnection
from .errors import Code, Refusal, refusal_by
from .pool import Attempt, ClusterPool
from .wire import Api

_LOOK_AGAIN_S: Final = 0.01


def rebalance_once(group_id: str, protocol: str) -> Attempt[RebalanceOutcome]:
    """Return the attempt to make a group rebalance; Refusal, from the attempt: nobody has joined."""

    async def attempt(pool: ClusterPool, deadline_s: float) -> RebalanceOutcome:
        # Step 1: a member id, over a connection that nobody else uses.
        node, others = await pool.coordinator(group_id, deadline_s)
        own = await pool.connection_beside(node, deadline_s)
        try:
            code, member = await own.call(join(group_id, protocol), deadline_s)
            if code != Code.member_id_required:
                raise refusal_by(Api.JOIN_GROUP, code, group_id, pool.settings.principal)

            # Step 2: join by it; the answer comes only when the rebalance is over or the member gone.
            joining = asyncio.create_task(own.call(join(group_id, protocol, member), deadline_s))
            try:
                return await _leave_when_joined(others, joining, member, deadline_s)
            finally:
                joining.cancel()
                await asyncio.gather(joining, return_exceptions=True)
        finally:
            own.close()

    return attempt


async def _leave_when_joined(
    others: BrokerConnection, joining: asyncio.Task[tuple[int, TemporaryMember]], member: TemporaryMember,
    deadline_s: float,
) -> RebalanceOutcome:  # fmt: skip
    """Wait until the group shows the temporary member, then take it away; what goes wrong ends with its session."""
    try:
        # Step 3: leave once the coordinator shows it, and not before: an unknown member cannot leave.
        while not joining.done():
            answers = await others.call(describe_groups((member.group_id,)), deadline_s)
            group = answers.get(member.group_id)
            if isinstance(group, GroupView) and any(m.member_id == member.member_id for m in group.members):
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
        if joining.done() and joining.result()[0] != Code.none:
            return RebalanceOutcome.REFUSED
        code = await others.call(leave_as(member), deadline_s)
    except Refusal:
        return RebalanceOutcome.UNKNOWN
    return RebalanceOutcome.BEGUN if code == Code.none else RebalanceOutcome.UNKNOWN
