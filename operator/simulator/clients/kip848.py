"""A consumer of the KIP-848 protocol.

Source: KIP-848, KIP-1082, KIP-1092; ConsumerHeartbeatRequestManager and ConsumerMembershipManager of the Java client.
"""

from __future__ import annotations

import asyncio
from typing import Any

from coordinator_model.assignors.subscription import to_pairs, to_topic_partitions
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

from .base import Consumer, Fatal

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH = 0, -1, -2


class Kip848Consumer(Consumer):
    """Sends heartbeats at the coordinator's interval, and owns what the coordinator assigns."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.member_id = f"{self.rng.getrandbits(128):032x}"
        self.member_epoch = JOIN_EPOCH
        self._interval_s = 0.0
        self._sends_all = True
        self._has_to_confirm = False

    async def take_part(self) -> None:
        """Join and stay a member; leave only by Fatal."""
        while True:
            response = await self.ask(self._beat())
            if response is None:
                self._sends_all = True  # HeartbeatState.reset: the coordinator may have missed the last one
            elif response.error_code is ErrorCode.NONE:
                self._sends_all = self._has_to_confirm = False
                await self._take(response)
            elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self.tell("is answered that it is fenced", code=response.error_code.name, member=self.member_id)
                self.own(())
                self.member_epoch, self._sends_all = JOIN_EPOCH, True
            else:
                raise Fatal(response.error_code)

    async def say_goodbye(self) -> None:
        """Leave for good when dynamic, for a while when static, also when set to remain (KIP-1092, isLeavingGroup)."""
        close, is_static = self.settings.close, self.instance_id is not None
        if self.member_epoch <= 0 or (close == "remain" and not is_static):
            return
        epoch = LEAVE_EPOCH if close == "leave" or not is_static else LEAVE_FOR_A_WHILE_EPOCH
        await self.try_once(
            ConsumerGroupHeartbeatRequest(
                group_id=self.settings.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                group_instance_id=self.instance_id,
            )
        )

    def forget_membership(self) -> None:
        """Become a new member with the next join."""
        self.member_id = f"{self.rng.getrandbits(128):032x}"
        self.member_epoch, self._sends_all = JOIN_EPOCH, True

    async def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        is_new = self.member_epoch == JOIN_EPOCH
        self.member_epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.member_epoch > 0:
            self.saw_round(response.member_epoch)
        if is_new:
            self.tell("joined", member=self.member_id, epoch=self.member_epoch)
        if response.assignment is None:
            await asyncio.sleep(self._interval_s)
            return
        assigned = frozenset(to_pairs(response.assignment))
        if self.owned - assigned:
            await self.wait_for_poll()
            self.own(self.owned & assigned)
        self.own(assigned)
        self._has_to_confirm = True  # at once: the coordinator waits for it before it gives revoked ones away
        if is_new:
            self.tell("assigned", partitions=len(self.owned))

    def _beat(self) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        is_full = self.member_epoch == JOIN_EPOCH or self._sends_all
        return ConsumerGroupHeartbeatRequest(
            client_id=self.process.pod_name,
            client_host=self.link.host,
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            group_instance_id=self.instance_id,
            rebalance_timeout_ms=settings.rebalance_timeout_ms if is_full else -1,
            subscribed_topic_names=tuple(sorted(settings.topics)) if is_full else None,
            topic_partitions=to_topic_partitions(self.owned) if is_full or self._has_to_confirm else None,
        )
