"""How far a stream is, and who waits for it to get further."""

import asyncio
from collections.abc import Callable


class Position:
    """The resourceVersion up to which every event of a scope has been folded.

    Attributes
    ----------
    reached: that resourceVersion; 0 before the first LIST.
    last_heard_s: when anything was heard last, on the clock of `clock_s`.

    Parameters
    ----------
    clock_s: monotonic seconds.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self.reached = 0
        self.last_heard_s = clock_s()
        self._clock_s = clock_s
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def heard(self) -> None:
        """Note that the API server said something just now."""
        self.last_heard_s = self._clock_s()

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
