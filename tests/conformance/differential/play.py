"""Play a history, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from conformance.differential.duo import SHORT_MS, Slot
from conformance.differential.history import CLASSIC, Op
from conformance.differential.steps_classic import ClassicSteps
from conformance.differential.steps_consumer import ConsumerSteps


class Player(ClassicSteps, ConsumerSteps):
    """One run of one history."""

    async def run(self) -> None:
        """Play all steps.

        Raises
        ------
        Difference: the sides do not agree; the transcript ends with where.
        """
        try:
            for number, op in enumerate(self.history.ops):
                self.transcript.append(f"{number:3} {op}")
                acted = await self._act(op)
                self.seen[f"step {op.kind}" if acted else "idle"] += 1
        finally:
            for waiting in self.waiting.values():
                waiting.task.cancel()
            await asyncio.gather(*(w.task for w in self.waiting.values()), return_exceptions=True)

    async def _act(self, op: Op) -> bool:
        """Let the slot of a step act, or the first after it that is in a position to; returns whether one was."""
        before = len(self.transcript)
        for offset in range(len(self.slots)):
            slot = self.slots[(op.slot + offset) % len(self.slots)]
            await cast("Awaitable[None]", getattr(self, f"_{op.kind}")(slot, op))
            if len(self.transcript) > before or op.kind == "kill":
                return True
        return False

    async def _fail_over(self, _slot: Slot, _op: Op) -> None:
        """Another broker becomes the coordinator: what waits is refused, what was not written is lost."""
        self.model.fail_over()
        await self.real.fail_over()
        await self._finish_waiting()
        assert not self.waiting, "the model left a request waiting"
        self._recall_leader()
        deadline_ms = self.model.coordinator.timers.next_deadline_ms()
        if deadline_ms is not None and deadline_ms - self.model.now_ms <= SHORT_MS:
            await self._wait(SHORT_MS / 1000 + 1.0)  # a removal was undone, and its short session begins again
        else:
            await self._compare_groups()

    def _recall_leader(self) -> None:
        """Give the model the leader that the broker had chosen for the generation that was loaded."""
        group = cast(Any, self.model.coordinator.groups.get(self.group))
        if getattr(group, "group_type", "") != CLASSIC or not group.members:
            return
        symbol = self.led.get(group.generation_id)
        self.leader, self.leader_is_open = symbol, symbol is None
        if symbol is not None and self.model_ids[symbol] in group.members:
            group.leader = self.model_ids[symbol]
