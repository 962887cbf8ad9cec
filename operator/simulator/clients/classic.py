"""A consumer of the classic protocol with an eager assignor.

Source: KIP-345, KIP-814; AbstractCoordinator and ConsumerCoordinator of the Java client.
"""

from __future__ import annotations

import asyncio
from typing import Any

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
from .consumer_protocol import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


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
        """Leave, unless static (KIP-345: it means to come back) or told to remain (KIP-1092)."""
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
                protocol_type="consumer",
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
        assignment = decode_assignment(synced.assignment)
        self.saw_round(self.generation_id)
        self.own((topic, number) for topic, numbers in assignment.items() for number in numbers)
        self.tell("joined", member=self.member_id, generation=self.generation_id, partitions=len(self.owned))
        return True

    def _take_error(self, code: ErrorCode) -> None:
        """Forget what the error says is gone; AbstractCoordinator keeps the member id on ILLEGAL_GENERATION."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.tell("told that it is unknown", member=self.member_id)
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
            protocols=(Protocol(settings.assignor, encode_subscription(settings.topics)),),
        )

    def _assign(self, joined: JoinGroupResponse) -> tuple[tuple[str, bytes], ...]:
        in_order = sorted(joined.members, key=lambda m: (m.group_instance_id or m.member_id, m.member_id))
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in in_order}
        assigned = assign_range(subscriptions, self.cluster.image.partitions)
        return tuple((member_id, encode_assignment(assignment)) for member_id, assignment in assigned.items())
