"""Steps of the classic protocol and removals."""

from __future__ import annotations

import random
from typing import Any, cast

from conformance.differential.duo import SHORT_MS, Build, Duo, Name, Slot
from conformance.differential.history import CLASSIC, Op
from conformance.wire.conversation import assignment
from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode as E
from coordinator_model.base.offset_messages import OffsetCommitRequest


class ClassicSteps(Duo):
    """What members of the classic protocol do, and what an administrator does to members of any protocol."""

    async def _join(self, slot: Slot, _op: Op, **changes: Any) -> None:
        """A new process: without member id, for a dynamic one in two rounds."""
        if slot.waits and not slot.instance:
            return
        slot.dead = False
        answer = await self._send(slot, self._join_request(slot, "", **changes))
        if isinstance(answer, m.JoinGroupResponse) and answer.error_code is E.MEMBER_ID_REQUIRED:
            symbol = self._symbol(answer.member_id, self.model_ids)
            slot.forget()
            await self._send(slot, self._join_request(slot, symbol, **changes))

    async def _rejoin(self, slot: Slot, _op: Op) -> None:
        if slot.current and not slot.waits and not slot.dead:
            await self._send(slot, self._join_request(slot, slot.current))

    async def _rejoin_changed(self, slot: Slot, op: Op) -> None:
        slot.variant = 1 - slot.variant
        await self._rejoin(slot, op)

    async def _other_protocol(self, slot: Slot, op: Op) -> None:
        slot.offers = (("range", "roundrobin"), ("roundrobin",), ("roundrobin", "range"))[op.arg % 3]
        await (self._join(slot, op) if op.arg % 2 and slot.instance else self._rejoin(slot, op))

    async def _join_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        await self._send(slot, self._join_request(slot, symbol))

    async def _join_foreign(self, slot: Slot, op: Op) -> None:
        other = self.slots[(slot.index + 1 + op.arg) % len(self.slots)]
        if slot.current and other is not slot and other.instance:
            await self._send(slot, self._join_request(slot, slot.current, group_instance_id=other.instance))

    async def _wrong_type(self, slot: Slot, _op: Op) -> None:
        if slot.instance and any(each.current for each in self.slots):
            await self._send(slot, self._join_request(slot, "made-up", protocol_type="connect"))

    async def _bad_session(self, slot: Slot, op: Op) -> None:
        session_ms = (499, 1_800_001)[op.arg % 2]
        await self._send(slot, self._join_request(slot, "", session_timeout_ms=session_ms))

    def _sync_request(self, slot: Slot, symbol: str) -> Build:
        def build(name: Name) -> m.Request:
            rows: tuple[tuple[str, bytes], ...] = ()
            if slot.leads:
                symbols = sorted(self._symbol(each, self.real_ids) for each in slot.listed)
                rows = tuple((name(each), assignment(("orders", (number,)))) for number, each in enumerate(symbols))
            return m.SyncGroupRequest(
                group_id=self.group, generation_id=slot.generation, member_id=name(symbol),
                group_instance_id=slot.instance, protocol_type="consumer", protocol_name=self._selected(),
                assignments=rows,
            )

        return build

    def _selected(self) -> str:
        group = self.model.coordinator.groups.get(self.group)
        return getattr(group, "protocol_name", None) or "range"

    async def _sync(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.protocol == CLASSIC and not slot.waits and not slot.dead:
            await self._send(slot, self._sync_request(slot, slot.current))

    def _beat_request(self, slot: Slot, symbol: str, **changes: Any) -> Build:
        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group, "generation_id": slot.generation, "member_id": name(symbol),
                "group_instance_id": slot.instance,
            }
            return m.HeartbeatRequest(**{**fields, **changes})

        return build

    async def _beat(self, slot: Slot, _op: Op) -> None:
        if slot.current and not slot.dead:
            await self._send(slot, self._beat_request(slot, slot.current))

    async def _beat_wrong(self, slot: Slot, op: Op) -> None:
        if slot.current:
            wrong = slot.generation + (1, -1)[op.arg % 2]
            await self._send(slot, self._beat_request(slot, slot.current, generation_id=wrong))

    async def _beat_alone(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            await self._send(slot, self._beat_request(slot, slot.current, group_instance_id=None))

    async def _beat_stale(self, slot: Slot, op: Op) -> None:
        if slot.stale:
            await self._send(slot, self._beat_request(slot, slot.stale[op.arg % len(slot.stale)]))

    async def _kill(self, slot: Slot, _op: Op) -> None:
        slot.dead = True

    async def _settle(self, _slot: Slot, op: Op) -> None:
        """Let all live members rejoin if the group asks for it, then sync."""
        for _ in range(2):
            for slot in self.slots:
                group = self.model.coordinator.groups.get(self.group)
                if slot.protocol == CLASSIC and getattr(group, "state", "") == "PreparingRebalance":
                    await self._rejoin(slot, op)
            for slot in self.slots:
                group = self.model.coordinator.groups.get(self.group)
                if getattr(group, "state", "") == "CompletingRebalance":
                    await self._sync(slot, op)

    async def _lapse(self, slot: Slot, op: Op) -> None:
        """A static member comes back with a short session, beats once and falls silent."""
        group = self.model.coordinator.groups.get(self.group)
        if not slot.instance or not slot.current or getattr(group, "state", "") != "Stable" or slot.waits:
            return
        if getattr(group, "group_type", "") != CLASSIC:
            return
        await self._join(slot, op, session_timeout_ms=SHORT_MS)
        if getattr(self.model.coordinator.groups.get(self.group), "state", "") != "Stable" or not slot.current:
            await self._send(slot, self._leave_request(("", slot.instance)))
            return
        await self._send(slot, self._beat_request(slot, slot.current))
        await self._wait(SHORT_MS / 1000 + 1.0)
        slot.forget()

    def _commit_request(self, slot: Slot, symbol: str, epoch: int) -> Build:
        def build(name: Name) -> m.Request:
            return OffsetCommitRequest(
                api_version=9, group_id=self.group, generation_id_or_member_epoch=epoch,
                member_id=name(symbol) if symbol else "", group_instance_id=slot.instance,
                offsets=(("orders", slot.index, 7),),
            )

        return build

    async def _commit(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            await self._send(slot, self._commit_request(slot, slot.current, slot.generation))

    async def _commit_wrong(self, slot: Slot, op: Op) -> None:
        symbol = (slot.stale or ["made-up"])[-1] if op.arg % 3 else (slot.current or "made-up")
        await self._send(slot, self._commit_request(slot, symbol, slot.generation + op.arg % 2))

    # removal

    async def _leave(self, slot: Slot, op: Op) -> None:
        if slot.current:
            await self._send(slot, self._leave_request((slot.current, slot.instance if op.arg % 4 else None)))
            slot.forget()

    async def _leave_instance(self, slot: Slot, _op: Op) -> None:
        if slot.instance:
            await self._send(slot, self._leave_request(("", slot.instance)))
            slot.forget()

    async def _leave_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        await self._send(slot, self._leave_request((symbol, slot.instance if op.arg % 3 else None)))

    async def _leave_batch(self, _slot: Slot, op: Op) -> None:
        rng = random.Random(op.arg)
        entries: list[tuple[str, str | None]] = []
        removed = []
        for slot in rng.sample(self.slots, rng.randint(1, 3)):
            forms = [("", slot.instance), ("made-up", slot.instance), ("", "nobody"), (slot.current or "no", None)]
            forms += [(slot.current or "no", slot.instance)] * 3
            entries.append(rng.choice(forms))
            removed.append(slot)
        if rng.random() < 0.3:
            entries.append(entries[0])
        await self._send(removed[0], self._leave_request(*entries))
        answer = self.model.ask(m.DescribeGroupsRequest(groups=(self.group,)))[0]
        shown = self.model.ask(m.ConsumerGroupDescribeRequest(group_ids=(self.group,)))[0]
        left = {each.member_id for g in cast(Any, answer).groups + cast(Any, shown).groups for each in g.members}
        for slot in removed:
            if slot.current and self.model_ids.get(slot.current, slot.current) not in left:
                slot.forget()

    async def _delete(self, slot: Slot, _op: Op) -> None:
        await self._send(slot, lambda _name: m.DeleteGroupsRequest(group_ids=(self.group,)))
