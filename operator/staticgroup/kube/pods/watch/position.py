"""How far a stream is, who waits for it to get further, and how far it can be by now."""

import asyncio
from collections.abc import Callable
from typing import Final

REVISIONS_PER_S: Final = 1_500
"""What etcd's own page on restores takes for more than is written on average; 5,000 nodes renew 500 Leases in a second."""
REVISIONS_AT_ONCE: Final = 50_000_000
"""A position is known to be the present one minutes late, clocks differ, and loads have peaks: nine hours at that rate."""
COUNTED_MAX: Final = 10**12
"""From here on resourceVersions are taken for times, as other stores than etcd may count: milliseconds since 1970 have been above it
since 2001, and an etcd needs 21 years of 1,500 writes in a second."""


class Position:
    """The resourceVersion up to which every event of a scope has been folded.

    Attributes
    ----------
    reached: that resourceVersion; 0 before the first LIST.
    last_heard_s: when anything was heard last, on the clock of `clock_s`.
    latest: the highest resourceVersion that a consistent read has answered, here or in the process before; 0 when none is known.

    Parameters
    ----------
    clock_s: monotonic seconds.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self.reached = 0
        self.last_heard_s = clock_s()
        self.latest = 0
        self._latest_at_s = clock_s()
        self._clock_s = clock_s
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def heard(self) -> None:
        """Note that the API server said something just now."""
        self.last_heard_s = self._clock_s()

    def read(self, resource_version: int, *, age_s: float = 0.0) -> None:
        """Note what a consistent read answered so many seconds ago."""
        if resource_version >= self.latest:
            self.latest, self._latest_at_s = resource_version, self._clock_s() - age_s

    def is_out_of_reach(self, resource_version: int) -> bool:
        """True when no cluster writes so much since the latest consistent read; False when none is known.

        Notes
        -----
        Who restores etcd for Kubernetes raises its revision, so that no client that knows a later one is misled: by 10**9 in etcd's
        own example, for a backup that is a week old (etcd, "Disaster recovery"). That is the only trace of
        a restore where the Lease was restored, too.
        """
        if not 0 < self.latest < COUNTED_MAX or resource_version < self.latest:
            return False
        elapsed_s = max(0.0, self._clock_s() - self._latest_at_s)
        return resource_version - self.latest > REVISIONS_AT_ONCE + REVISIONS_PER_S * elapsed_s

    @property
    def latest_age_s(self) -> float:
        """How long ago `latest` was read, seconds."""
        return self._clock_s() - self._latest_at_s

    def forget_reads(self) -> None:
        """Compare with no consistent read of before: the API server went back in time."""
        self.latest = 0

    def advance(self, resource_version: int) -> None:
        """Move on, never back, and wake those who waited for this."""
        self.heard()
        self.reached = max(self.reached, resource_version)
        due = [waiter for waiter in self._waiters if waiter[0] <= self.reached]
        if due:
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > self.reached]
            for _, future in due:
                if not future.done():
                    future.set_result(None)

    async def reach(self, resource_version: int, timeout_s: float) -> bool:
        """Wait until every event up to a resourceVersion has been folded; False when time ran out."""
        if self.reached >= resource_version:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (resource_version, future)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True
