"""An administrator in a process of its own, for brokers that are killed while they are asked.

Why: librdkafka's admin client may abort its whole process when brokers vanish under it (seen with 2.16: assertion
`eonce->refcnt > 0` in rd_kafka_enq_once_del_source_return), and that process would be the test session. One idea: each
call runs in a child; when the child dies, another one is asked.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from support.devcluster.kafka_admin import BrokerAdmin, BrokerRefused

CHILDREN_MAX = 3
_admins: dict[str, BrokerAdmin] = {}
"""Of the child: one client for each set of brokers."""


def _call(bootstrap: str, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[bool, Any]:
    """Make one call in the child; a refusal comes back as its error and text, because it does not pickle."""
    if bootstrap not in _admins:
        _admins[bootstrap] = BrokerAdmin(bootstrap)
    try:
        return True, getattr(_admins[bootstrap], method)(*arguments, **named)
    except BrokerRefused as refused:
        return False, (refused.error, str(refused).removeprefix(f"{refused.error}: "))
    except TimeoutError:
        del _admins[bootstrap]  # such a client may never answer again
        return False, ("_TIMED_OUT", f"{method} had no answer")


class DetachedAdmin(BrokerAdmin):
    """Every public method of BrokerAdmin, made in a child process.

    Parameters
    ----------
    bootstrap: PLAINTEXT addresses.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._pool: ProcessPoolExecutor | None = None

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "close" or not hasattr(BrokerAdmin, name):
            return object.__getattribute__(self, name)
        return lambda *arguments, **named: self._ask(name, arguments, named)

    def close(self) -> None:
        """End the child."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _ask(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for attempt in range(CHILDREN_MAX):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            try:
                granted, answer = self._pool.submit(_call, self._bootstrap, method, arguments, named).result(120)
            except BrokenProcessPool:
                self.close()
                if attempt + 1 == CHILDREN_MAX:
                    raise
                continue
            if granted:
                return answer
            raise BrokerRefused(*answer)
        raise AssertionError("unreachable")
