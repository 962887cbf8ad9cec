"""Share one read among the callers that wait for the same, begun after each of them asked.

A read that began before a call may miss what was written in between. So a caller that comes while one is under way
waits for the next, with all others that came meanwhile. A roll of thousands of pods costs two reads at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class SharedReads(Generic[T]):
    """Reads by key; `read` raises nothing."""

    read: Callable[[str], Awaitable[T]]
    _running: dict[str, asyncio.Task[T]] = field(default_factory=dict)
    _next: dict[str, asyncio.Task[T]] = field(default_factory=dict)

    async def __call__(self, key: str) -> T:
        """Return what a read that begins from now on shows."""
        if key in self._next:
            return await asyncio.shield(self._next[key])
        running = self._running.get(key)
        if running is None:
            return await asyncio.shield(self._begin(key))
        self._next[key] = asyncio.ensure_future(self._after(running, key))
        return await asyncio.shield(self._next[key])

    def _begin(self, key: str) -> asyncio.Task[T]:
        task = self._running[key] = asyncio.ensure_future(self._one(key))
        return task

    async def _one(self, key: str) -> T:
        try:
            return await self.read(key)
        finally:
            del self._running[key]

    async def _after(self, running: asyncio.Task[T], key: str) -> T:
        """Begin the next read when the running one is over; all callers until then wait for it."""
        await asyncio.wait((running,))
        del self._next[key]
        return await self._begin(key)
