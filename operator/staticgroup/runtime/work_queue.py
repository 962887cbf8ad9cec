"""A keyed work queue: events only ask for a round, and the queue decides when it runs.

One key is one StaticGroup. No two rounds of a key run at once; adding it while one runs means one more afterwards.
Failures back off per key, the time of each round is bounded, and `turns.py` chooses the next. The shape is
controller-runtime's and client-go's workqueue; the clock is the event loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from . import turns

log = logging.getLogger(__name__)

BACKOFF_MIN_S = 1.0
BACKOFF_MAX_S = 30.0
"""A rotated Secret or a broker that came back sends no event: a user waits at most this long, and after a silent broker
`kafka.pool.SILENCE_MAX_S` longer."""
_CLOCK_SLACK_S = 0.001
"""A timer may fire as much too early as the clock is coarse."""
LATE_AFTER_S = 1.0
"""A round that lasts longer gives its place to another; a healthy round takes a fraction of it."""
BUSY_LAG_S = 0.05
"""A timer that fires this much too late shows that this process is busy. Then rounds last long because they wait for
the loop, not for a silent broker, and more rounds would delay all else on it, such as the renewal of the Lease."""
BUSY_SHARE = 4
"""A process whose loop takes longer than `BUSY_LAG_S` per turn runs at most this fraction (1/4) of its rounds at once:
each computes, so more would end no sooner, and a renewal of the Lease, which waits for the loop eight times, would come
too late."""
LOOP_FADES = 0.8
"""Share of the loop's longest turn that counts at the next dispatch: rounds that begin together compute together."""
KEPT_WHILE_BUSY_S = 8.0
"""A round keeps its place in a busy process no longer than this: some wait for a silent broker, others for a place."""
SPACING_S = 0.5
"""Changes so soon after a round began wait for those that follow: the end or start of a pod comes as three or four
events within less, and one round sees them all."""
Key = turns.Key


@dataclass(slots=True)
class _Entry:
    """State of one key."""

    running: bool = False
    began_at: float = float("-inf")
    again_at: float | None = None
    forgotten: bool = False
    failures: int = 0
    backs_off_until: float = 0.0
    timer: asyncio.TimerHandle | None = None
    late_timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What one round asks for: another one after `requeue_after_s`, or a back-off when it `failed`."""

    requeue_after_s: float | None = None
    failed: bool = False


Work = Callable[[Key], Awaitable[Result]]


@dataclass(slots=True)
class WorkQueue:
    """Run `work` for keys, at most `concurrency` at once that are not late, and never one key twice at once.

    Parameters
    ----------
    work: one round; an exception counts as a failure and is logged once with the key.
    concurrency: most rounds at once that are not late, 1 or more; what follows from it is in `turns.Limits`.
    lane_of: (namespace, name) of the KafkaConnection that a key's round uses; the namespace is the tenant.
    deadline_s: a round that lasts longer is cancelled and counts as a failure; > 0, None: no deadline.
    on_given_up: called with each key whose round was cancelled at its deadline.
    """

    work: Work
    concurrency: int = 16
    lane_of: Callable[[Key], Key] = lambda key: key
    deadline_s: float | None = None
    on_given_up: Callable[[Key], None] | None = None
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _due: dict[Key, None] = field(default_factory=dict)
    """Keys whose round was asked for since the last dispatch."""
    _turns: turns.Turns = field(init=False)
    _rounds: set[asyncio.Task[None]] = field(default_factory=set)
    _context: Context | None = None
    _dispatch_asked_at: float | None = None
    _loop_s: float = 0.0

    def __post_init__(self) -> None:
        self._turns = turns.Turns(turns.Limits(places=self.concurrency))

    def __len__(self) -> int:
        """Return the number of keys that wait or run now."""
        return len(self._turns) + sum(key not in self._turns for key in self._due)

    def _is_waiting(self, key: Key) -> bool:
        return key in self._due or key in self._turns

    @property
    def late(self) -> int:
        """Return the number of rounds under way that gave up their place."""
        return self._turns.late

    def add(self, key: Key) -> None:
        """Ask for a round of this key as soon as a worker is free; a waiting back-off is cut short."""
        entry = self._entries.setdefault(key, _Entry())
        if entry.running:
            entry.again_at = float("-inf")
            return
        self._cancel_timer(entry)
        self._enqueue(key)

    def add_soon(self, key: Key) -> None:
        """Ask for a round of this key as `add` does, but not within `SPACING_S` after the last one began."""
        entry = self._entries.setdefault(key, _Entry())
        at = entry.began_at + SPACING_S
        if entry.running:
            entry.again_at = at if entry.again_at is None else min(entry.again_at, at)
        elif at <= asyncio.get_running_loop().time():
            self.add(key)
        else:
            self._add_at(key, entry, at)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Ask for a round after a delay; an earlier one that is already scheduled stays."""
        entry = self._entries.setdefault(key, _Entry())
        if not entry.running:
            self._add_at(key, entry, asyncio.get_running_loop().time() + delay_s)

    def _add_at(self, key: Key, entry: _Entry, due_at: float) -> None:
        if self._is_waiting(key) or (entry.timer is not None and entry.timer.when() <= due_at):
            return
        self._cancel_timer(entry)
        entry.timer = asyncio.get_running_loop().call_at(due_at, self._enqueue, key)

    def forget(self, key: Key) -> None:
        """Drop everything known of a key whose object is gone; a running round still ends."""
        entry = self._entries.get(key)
        if entry is None:
            return
        self._cancel_timer(entry)
        self._due.pop(key, None)
        self._turns.withdraw(key)
        entry.again_at, entry.forgotten = None, entry.running
        if not entry.running:
            self._entries.pop(key, None)

    def start(self) -> None:
        """Begin to run rounds; what was added before waits until now."""
        # A caller that adds a key has a context of its own, of a watch or a handler, that a round must not inherit.
        self._context = copy_context()
        self._dispatch_soon()

    async def stop(self) -> None:
        """Cancel the rounds and wait until they ended; they are safe to cut anywhere."""
        self._context = None
        for entry in self._entries.values():
            self._cancel_timer(entry)
        rounds = tuple(self._rounds)
        for running in rounds:
            running.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)

    @staticmethod
    def _cancel_timer(entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def _enqueue(self, key: Key) -> None:
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.timer = None
        self._due[key] = None
        self._dispatch_soon()

    def _dispatch_soon(self) -> None:
        """Begin the rounds whose turn it is, once the present callback has added all its keys."""
        if self._context is not None and self._dispatch_asked_at is None:
            self._dispatch_asked_at = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_soon(self._dispatch, context=self._context)

    def _dispatch(self) -> None:
        assert self._dispatch_asked_at is not None
        # Step 1: how busy the loop is decides how many rounds may be under way.
        took_s = asyncio.get_running_loop().time() - self._dispatch_asked_at
        self._loop_s, self._dispatch_asked_at = max(took_s, LOOP_FADES * self._loop_s), None
        places = max(1, self.concurrency // BUSY_SHARE) if self._loop_s > BUSY_LAG_S else self.concurrency
        # Step 2: keys that are due join the end of their lanes.
        for due in self._due:
            self._turns.wait(due, self.lane_of(due))
        self._due.clear()
        # Step 3: rounds begin in turn.
        while self._context is not None and (key := self._turns.next(places)) is not None:
            entry = self._entries[key]
            entry.running, entry.again_at = True, None
            entry.began_at = asyncio.get_running_loop().time()
            running = asyncio.create_task(
                self._run(key, entry), name=f"round {key[0]}/{key[1]}", context=self._context.copy()
            )
            self._rounds.add(running)
            running.add_done_callback(self._rounds.discard)

    async def _run(self, key: Key, entry: _Entry) -> None:
        result = Result(failed=True)
        self._watch_for_lateness(key, entry)
        try:
            result = await self._result(key)
        finally:
            entry.running = False
            if entry.late_timer is not None:
                entry.late_timer.cancel()
            self._turns.end(key, failed=result.failed)
        self._finish(key, entry, result)
        self._dispatch_soon()

    async def _result(self, key: Key) -> Result:
        """Run one round within its deadline; whatever goes wrong is a failure."""
        try:
            async with asyncio.timeout(self.deadline_s) as deadline:
                return await self.work(key)
        except Exception:
            if not deadline.expired():
                log.exception("round failed", extra={"key": "/".join(key)})
                return Result(failed=True)
        log.warning("round given up at its deadline", extra={"key": "/".join(key), "deadline_s": self.deadline_s})
        if self.on_given_up is not None:
            self.on_given_up(key)
        return Result(failed=True)

    def _watch_for_lateness(self, key: Key, entry: _Entry) -> None:
        entry.late_timer = asyncio.get_running_loop().call_later(LATE_AFTER_S, self._grow_late, key, entry)

    def _grow_late(self, key: Key, entry: _Entry) -> None:
        """Give the place of a round that lasts long to others; while it must keep it, try again."""
        assert entry.late_timer is not None
        now = asyncio.get_running_loop().time()
        is_kept = now - entry.late_timer.when() > BUSY_LAG_S and now - entry.began_at < KEPT_WHILE_BUSY_S
        if not is_kept and self._turns.grow_late(key):
            self._dispatch_soon()
        else:
            self._watch_for_lateness(key, entry)

    @staticmethod
    def _count(entry: _Entry, result: Result) -> None:
        """Set how long to back off; a failed round that was asked for during the back-off does not lengthen it."""
        if not result.failed:
            entry.failures, entry.backs_off_until = 0, 0.0
            return
        now = asyncio.get_running_loop().time()
        if now + _CLOCK_SLACK_S >= entry.backs_off_until or not entry.failures:
            entry.failures += 1
        entry.backs_off_until = now + min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** (entry.failures - 1))

    def _finish(self, key: Key, entry: _Entry, result: Result) -> None:
        """Schedule the next round of a key after one has ended; a forgotten key begins without failures."""
        if entry.forgotten:
            entry.forgotten, entry.failures = False, 0
            result = Result()
        self._count(entry, result)
        again_at, entry.again_at = entry.again_at, None
        if again_at is not None and not result.failed:
            if again_at <= asyncio.get_running_loop().time():
                self._enqueue(key)
                return
            self._add_at(key, entry, again_at)
        if result.failed:
            self.add_after(key, entry.backs_off_until - asyncio.get_running_loop().time())
        elif result.requeue_after_s is not None:
            self.add_after(key, result.requeue_after_s)
        elif not self._is_waiting(key) and entry.timer is None:
            self._entries.pop(key, None)
