"""Ask brokers which groups they coordinate, once for many readings.

Why: ListGroups cannot be asked about one group. An answer about 10,000 takes 40 ms of processor to check and decode,
and each group that does not exist, and after a start each that does, calls for one. Two ideas. Readings share an answer
that was asked for after they began: one is on its way at a time, and those that come meanwhile wait for the next, each
as long as it may, and the request as long as the last of them. And the types of other groups in an answer are hints for
a while, which a describe proves or belies; absence is believed only of a new answer.
Source: KIP-518, KIP-848 (ListGroups v4, v5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .addresses import HostPort
from .calls.reading import BrokerNode, list_groups
from .connection import problem_of_failure
from .errors import Code, Recovery, Refusal
from .pool import ClusterPool

HINT_S = 15.0
"""How long the types of all groups are kept: through a start, and no longer; those of 10,000 groups take 1.3 MiB."""

ListAnswer = tuple[int, Mapping[str, str]]
"""An error code, and the type of each group."""


class Listings:
    """The answers to ListGroups of the brokers of one cluster."""

    def __init__(self, pool: ClusterPool) -> None:
        self._pool = pool
        self._hints: dict[BrokerNode, Mapping[str, str]] = {}
        self._ends: dict[BrokerNode, asyncio.TimerHandle] = {}
        self._next: dict[BrokerNode, asyncio.Task[ListAnswer]] = {}
        self._until_s: dict[BrokerNode, float] = {}
        """The latest deadline of those who wait for the next answer."""
        self._turns: dict[BrokerNode, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[ListAnswer]] = set()

    def hint(self, node: BrokerNode, group_id: str) -> str:
        """Return the type of a group as this broker wrote it lately; "" when it wrote none."""
        return self._hints.get(node, {}).get(group_id, "")

    async def ask(self, node: BrokerNode, deadline_s: float) -> ListAnswer:
        """Return an answer that was asked for after this call; raises Refusal.

        Parameters
        ----------
        deadline_s: of the loop's clock.
        """
        self._until_s[node] = max(deadline_s, self._until_s.get(node, deadline_s))
        if node not in self._next:
            asked = self._next[node] = asyncio.create_task(self._ask(node))
            self._tasks.add(asked)
            asked.add_done_callback(self._note_end)
        try:
            async with asyncio.timeout_at(deadline_s):
                return await asyncio.shield(self._next[node])
        except TimeoutError:
            raise _late(node) from None

    async def _ask(self, node: BrokerNode) -> ListAnswer:
        async with self._turns.setdefault(node, asyncio.Lock()):
            del self._next[node]  # what is sent now may be older than those who come from here on
            until_s = self._until_s.pop(node)
            if asyncio.get_running_loop().time() >= until_s:  # nobody waits any more
                raise _late(node)
            connection = await self._pool.connection_to(node, until_s)
            code, types = await connection.call(list_groups(), until_s)
        if code == Code.none:  # the earlier hints, and their timer, go: nothing may hold them
            if node in self._ends:
                self._drop(node)
            self._hints[node] = types
            self._ends[node] = asyncio.get_running_loop().call_later(HINT_S, self._drop, node)
        return code, types

    def forget(self) -> None:
        """Drop all hints: one was belied."""
        for node in tuple(self._hints):
            self._drop(node)

    def _drop(self, node: BrokerNode) -> None:
        self._ends.pop(node).cancel()
        del self._hints[node]

    def _note_end(self, asked: asyncio.Task[ListAnswer]) -> None:
        """Let a question go, and its problem, for which nobody may wait any more."""
        self._tasks.discard(asked)
        if not asked.cancelled():
            asked.exception()


def _late(node: BrokerNode) -> Refusal:
    """Return the refusal of a broker that did not answer, or not others before, while there was time."""
    problem = problem_of_failure(HostPort(host=node.host, port=node.port), TimeoutError())
    return Refusal(problem, recovery=Recovery.FIND_COORDINATOR)
