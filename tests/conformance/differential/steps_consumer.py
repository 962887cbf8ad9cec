"""Steps of KIP-848."""

from __future__ import annotations

from typing import Any

from conformance.differential.duo import LONG_MS, SHORT_MS, Build, Duo, Name, Slot
from conformance.differential.history import CONSUMER, Op
from coordinator_model.base import messages as m
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode as E


class ConsumerSteps(Duo):
    """What members of the consumer protocol do."""

    def _consumer_request(self, slot: Slot, symbol: str, epoch: int, **changes: Any) -> Build:
        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group, "member_id": name(symbol), "member_epoch": epoch,
                "group_instance_id": slot.instance, "rebalance_timeout_ms": LONG_MS,
                "subscribed_topic_names": slot.topics, "server_assignor": slot.assignor, "topic_partitions": slot.owned,
            }
            return m.ConsumerGroupHeartbeatRequest(**{**fields, **changes})

        return build

    async def _beat_consumer(self, slot: Slot, symbol: str, epoch: int, **changes: Any) -> m.Response | None:
        answer = await self._send(slot, self._consumer_request(slot, symbol, epoch, **changes))
        if isinstance(answer, m.ConsumerGroupHeartbeatResponse) and answer.error_code is E.NONE and epoch >= 0:
            if slot.current != symbol:
                slot.forget()
            slot.current, slot.protocol, slot.dead, slot.generation = symbol, CONSUMER, False, answer.member_epoch
            slot.owned = slot.owned if answer.assignment is None else answer.assignment
        return answer

    async def _cjoin(self, slot: Slot, _op: Op) -> None:
        """A new process with an id of its own."""
        if slot.waits:
            return
        owned, slot.owned = slot.owned, ()
        answer = await self._beat_consumer(slot, self._new_symbol(slot), 0)
        if answer is None or answer.error_code is not E.NONE:
            slot.owned = owned

    async def _crejoin(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.protocol == CONSUMER:
            slot.owned = ()
            await self._beat_consumer(slot, slot.current, 0)

    async def _away(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            bare = {"subscribed_topic_names": None, "topic_partitions": None, "server_assignor": None}
            await self._beat_consumer(slot, slot.current, -2, **bare, rebalance_timeout_ms=-1)
            slot.dead = True

    async def _cbounce(self, slot: Slot, op: Op) -> None:
        await self._away(slot, op)
        await self._cjoin(slot, op)

    async def _cleave(self, slot: Slot, op: Op) -> None:
        if slot.current:
            instance = slot.instance if op.arg % 3 else None
            await self._beat_consumer(slot, slot.current, -1, group_instance_id=instance)
            slot.forget()

    async def _cbeat(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.protocol == CONSUMER and not slot.dead:
            await self._beat_consumer(slot, slot.current, slot.generation)

    async def _cbeat_slim(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.protocol == CONSUMER:
            bare = {"subscribed_topic_names": None, "topic_partitions": None, "server_assignor": None}
            await self._beat_consumer(slot, slot.current, max(1, slot.generation), **bare, rebalance_timeout_ms=-1)

    async def _cbeat_ahead(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.generation >= 0:
            await self._send(slot, self._consumer_request(slot, slot.current, slot.generation + 1))

    async def _cbeat_behind(self, slot: Slot, op: Op) -> None:
        if slot.current and slot.protocol == CONSUMER and slot.generation > 1:
            owned = slot.owned if op.arg % 2 else ()
            before = slot.generation - 1
            await self._beat_consumer(slot, slot.current, before, topic_partitions=owned)

    async def _cbeat_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        epoch = (max(1, slot.generation), -1, -2)[op.arg % 3]
        if epoch != -2 or slot.instance:
            await self._send(slot, self._consumer_request(slot, symbol, epoch))

    async def _cinvalid(self, slot: Slot, op: Op) -> None:
        changes: tuple[dict[str, Any], ...] = (
            {"group_instance_id": ""}, {"member_epoch": -3}, {"server_assignor": "nope"}, {"rebalance_timeout_ms": 0},
        )
        await self._send(slot, self._consumer_request(slot, slot.current or "new", 0, **changes[op.arg % 4]))

    async def _subscribe(self, slot: Slot, op: Op) -> None:
        choices = (("orders",), ("orders", "payments"), ("payments",), ("orders", "absent"))
        slot.topics = choices[op.arg % 4]
        await self._cbeat(slot, op)

    async def _assignor(self, slot: Slot, op: Op) -> None:
        slot.assignor = ("range", None)[op.arg % 2]
        await self._cbeat(slot, op)

    async def _csettle(self, _slot: Slot, op: Op) -> None:
        """Let all live members heartbeat until nothing changes."""
        for _ in range(6):
            before = [(slot.generation, slot.owned) for slot in self.slots]
            for slot in self.slots:
                await self._cbeat(slot, op)
            if before == [(slot.generation, slot.owned) for slot in self.slots]:
                return

    def _config_request(self, **values: int | None) -> Build:
        pairs = tuple((name.replace("_", "."), None if v is None else str(v)) for name, v in values.items())
        return lambda _name: AlterGroupConfigRequest(group_id=self.group, configs=pairs)

    async def _config(self, slot: Slot, op: Op) -> None:
        interval_ms = (600, 700, 800, None)[op.arg % 4]
        await self._send(slot, self._config_request(consumer_heartbeat_interval_ms=interval_ms))
        await self._wait(0.5)

    async def _config_bad(self, slot: Slot, op: Op) -> None:
        values = ({"consumer_session_timeout_ms": 999}, {"consumer_nonsense": 1}, {"consumer_heartbeat_interval_ms": 1})
        await self._send(slot, self._config_request(**values[op.arg % 3]))

    async def _clapse(self, slot: Slot, op: Op) -> None:
        """A member beats once under a short session and falls silent."""
        if not slot.current or slot.protocol != CONSUMER or slot.dead:
            return
        await self._send(slot, self._config_request(consumer_session_timeout_ms=SHORT_MS))
        await self._wait(0.5)
        await self._cbeat(slot, op)
        await self._send(slot, self._config_request(consumer_session_timeout_ms=None))
        await self._wait(SHORT_MS / 1000 + 1.0)
        slot.forget()
