"""An event loop in a thread, so that tests that are no coroutines can have proxies beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
CALL_TIMEOUT_S = 30.0


class LoopThread:
    """Run coroutines and calls in one loop until it is stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="fault-proxies")

    def start(self) -> LoopThread:
        """Begin."""
        self._thread.start()
        return self

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop and return what it gave."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        """End the loop with all that is left in it."""
        self.run(_cancel_the_rest())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self.loop.close()


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
