"""A keyed work queue: events only say *look again*, and the queue decides when.

One key is one StaticGroup. A key is never worked on twice at once; adding it while it runs means one more run
afterwards; failures back off per key from 1 s to 1 min; the number of concurrent rounds is bounded. The shape is
controller-runtime's and client-go's workqueue; the clock is the event loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

BACKOFF_MIN_S = 1.0
BACKOFF_MAX_S = 60.0
"""A rotated Secret or a broker that came back sends no event; this is how long a user waits for it at most."""
Key = tuple[str, str]
"""(namespace, name) of a StaticGroup."""


@dataclass(slots=True)
class _Entry:
    """State of one key."""

    running: bool = False
    dirty: bool = False
    forgotten: bool = False
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    due_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one round asks for: look again after `requeue_after_s`, or back off when it `failed`."""

    requeue_after_s: float | None = None
    failed: bool = False


Work = Callable[[Key], Awaitable[Outcome]]


@dataclass(slots=True)
class WorkQueue:
    """Run `work` for keys, at most `concurrency` at once and never one key twice at once.

    Parameters
    ----------
    work: one round; an exception counts as a failure and is logged once with the key.
    concurrency: most rounds at once, 1 or more.
    """

    work: Work
    concurrency: int = 16
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _ready: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)
    _queued: set[Key] = field(default_factory=set)
    _workers: list[asyncio.Task[None]] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of keys that wait or run now."""
        return len(self._queued) + sum(e.running for e in self._entries.values())

    def add(self, key: Key) -> None:
        """Ask for a round of this key as soon as a worker is free; a waiting back-off is cut short."""
        entry = self._entries.setdefault(key, _Entry())
        if entry.running:
            entry.dirty = True
            return
        self._cancel_timer(entry)
        self._enqueue(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Ask for a round after a delay; an earlier one that is already scheduled stays."""
        entry = self._entries.setdefault(key, _Entry())
        due_at = asyncio.get_running_loop().time() + delay_s
        if entry.running or key in self._queued or (entry.timer is not None and entry.due_at <= due_at):
            return
        self._cancel_timer(entry)
        entry.due_at = due_at
        entry.timer = asyncio.get_running_loop().call_later(delay_s, self._enqueue, key)

    def forget(self, key: Key) -> None:
        """Drop everything known of a key whose object is gone; a running round still ends."""
        entry = self._entries.get(key)
        if entry is None:
            return
        self._cancel_timer(entry)
        entry.dirty, entry.forgotten = False, entry.running
        if not entry.running:
            self._entries.pop(key, None)

    def start(self) -> None:
        """Start the workers."""
        self._workers = [asyncio.create_task(self._run(), name=f"reconcile-{n}") for n in range(self.concurrency)]

    async def stop(self) -> None:
        """Cancel the workers and wait until they ended; rounds are safe to cut anywhere."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for entry in self._entries.values():
            self._cancel_timer(entry)

    @staticmethod
    def _cancel_timer(entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def _enqueue(self, key: Key) -> None:
        entry = self._entries.get(key)
        if entry is None or key in self._queued:
            return
        entry.timer = None
        self._queued.add(key)
        self._ready.put_nowait(key)

    async def _run(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if entry.running:
                entry.dirty = True
                continue
            entry.running, entry.dirty = True, False
            try:
                outcome = await self.work(key)
            except Exception:
                log.exception("round failed", extra={"key": "/".join(key)})
                outcome = Outcome(failed=True)
            finally:
                entry.running = False
            self._finish(key, entry, outcome)

    def _finish(self, key: Key, entry: _Entry, outcome: Outcome) -> None:
        """Schedule the next round of a key after one has ended; a forgotten key has no past."""
        if entry.forgotten:
            entry.forgotten, entry.failures = False, 0
            outcome = Outcome()
        entry.failures = entry.failures + 1 if outcome.failed else 0
        if entry.dirty:
            entry.dirty = False
            if not outcome.failed:
                self._enqueue(key)
                return
        if outcome.failed:
            self.add_after(key, min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** (entry.failures - 1)))
        elif outcome.requeue_after_s is not None:
            self.add_after(key, outcome.requeue_after_s)
        elif key not in self._queued and entry.timer is None:
            self._entries.pop(key, None)
