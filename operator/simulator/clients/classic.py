"""A consumer of the classic protocol with an eager assignor.

Source: KIP-345, KIP-814; AbstractCoordinator and ConsumerCoordinator of the Java client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from coordinator_model.assignors.range import assign
from coordinator_model.assignors.subscription import (
    DecodedAssignment,
    DecodedSubscription,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    to_pairs,
)
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    Protocol,
    SyncGroupRequest,
)

from .base import Consumer, Fatal

PROTOCOL_VERSION = 0
"""Of what the clients write into metadata and assignments; later versions only append."""


class ClassicConsumer(Consumer):
    """Joins, syncs and beats; revokes everything before each rejoin."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        text = self.process.environment.get(self.settings.session_timeout_variable, "")
        self.session_timeout_ms = int(text) if text else self.settings.session_timeout_ms
        self.heartbeat_s = self.settings.heartbeat_s or self.session_timeout_ms / 3000
        self.generation_id = -1
        self.is_leader = False
        self._assigned_for: TopicImage | None = None

    async def take_part(self) -> None:
        """Join and stay a member; leave only by Fatal."""
        await self._join_until_stable()
        while True:
            await asyncio.sleep(self.heartbeat_s)
            if self.is_leader and self._assigned_for is not self.cluster.image:
                await self._join_until_stable()  # only the leader watches the topics
                continue
            response = await self.ask(
                HeartbeatRequest(
                    group_id=self.settings.group_id,
                    generation_id=self.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
            )
            if response is not None and response.error_code is not ErrorCode.NONE:
                self._take_error(response.error_code)
                await self._join_until_stable()

    async def say_goodbye(self) -> None:
        """Leave, unless static (KIP-345: it means to come back) or set to remain (KIP-1092)."""
        leaves = self.settings.close == "leave" or (self.settings.close == "default" and self.instance_id is None)
        if leaves and self.member_id:
            # Java names the member id alone, also for a static member.
            identity = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
            await self.try_once(LeaveGroupRequest(group_id=self.settings.group_id, members=(identity,)))

    def forget_membership(self) -> None:
        """Become a new member with the next join."""
        self.member_id = ""
        self.generation_id = -1

    async def _join_until_stable(self) -> None:
        if self.owned:
            await self.wait_for_poll()
        self.own(())
        while True:
            joined = await self.ask(self._join_request(), timeout_s=self._join_timeout_s)
            if joined is None:
                continue
            if joined.error_code is not ErrorCode.NONE:
                if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                    self.member_id = joined.member_id
                else:
                    self._take_error(joined.error_code)
                continue
            self.member_id, self.generation_id = joined.member_id, joined.generation_id
            self.is_leader = joined.leader == joined.member_id
            if await self._sync(joined):
                return

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Fetch the assignment, as leader also make it; False when the member must join again."""
        assignments = self._assign(joined) if self.is_leader and not joined.skip_assignment else ()
        synced = await self.ask(
            SyncGroupRequest(
                group_id=self.settings.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=self.settings.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            )
        )
        if synced is None:
            return False
        if synced.error_code is not ErrorCode.NONE:
            self._take_error(synced.error_code)
            return False
        if self.is_leader:
            self._assigned_for = self.cluster.image
        self.saw_round(self.generation_id)
        self.own(to_pairs(decode_assignment(synced.assignment).partitions))
        self.tell("joined", member=self.member_id, generation=self.generation_id, partitions=len(self.owned))
        return True

    def _take_error(self, code: ErrorCode) -> None:
        """Forget what the error says is gone; AbstractCoordinator keeps the member id on ILLEGAL_GENERATION."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.tell("is answered UNKNOWN_MEMBER_ID", member=self.member_id)
            self.forget_membership()
        elif code is ErrorCode.ILLEGAL_GENERATION:
            self.generation_id = -1
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            raise Fatal(code)

    @property
    def _join_timeout_s(self) -> float:
        return self.settings.rebalance_timeout_ms / 1000 + self.settings.library.join_slack_s

    def _join_request(self) -> JoinGroupRequest:
        settings = self.settings
        return JoinGroupRequest(
            api_version=settings.library.join_version,
            client_id=self.process.pod_name,
            client_host=self.link.host,
            group_id=settings.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            protocol_type=settings.protocol_type,
            protocols=(Protocol(settings.assignor, encoded_topics(settings.topics)),),
        )

    def _assign(self, joined: JoinGroupResponse) -> tuple[tuple[str, bytes], ...]:
        members = {
            # Dynamic members are served by their member ids, in one order with the instance ids of the others.
            m.member_id: MemberSubscription(
                m.group_instance_id or m.member_id, topics=decode_subscription(m.metadata).topics
            )
            for m in joined.members
        }
        assigned = assign(members, self.cluster.image)
        return tuple((m, encode_assignment(DecodedAssignment(PROTOCOL_VERSION, own))) for m, own in assigned.items())


def encoded_topics(topics: Iterable[str]) -> bytes:
    """Encode the topics that a member wants."""
    return encode_subscription(DecodedSubscription(PROTOCOL_VERSION, tuple(topics)))
