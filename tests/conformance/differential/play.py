"""Play a history, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

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
                await cast("Awaitable[None]", getattr(self, f"_{op.kind}")(self.slots[op.slot], op))
        finally:
            for waiting in self.waiting.values():
                waiting.task.cancel()
            await asyncio.gather(*(w.task for w in self.waiting.values()), return_exceptions=True)
