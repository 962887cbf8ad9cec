"""What the operator asks of Kafka, and the answer to it over kio and aiokafka.

Why: everything above decides on values; here alone are sockets, deadlines and retries. One idea: reads are repeated
until their deadline where repeating can help; a removal is never repeated once the broker may have acted on it.
Source: KIP-345 (LeaveGroup v3), KIP-848, KIP-1071, KIP-1043; design of the removal order.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ..core.group import (
    BrokerBounds,
    GroupView,
    KafkaProblem,
    LeaveCall,
    LeaveEntry,
    LeaveResult,
    RebalanceOutcome,
    ReleaseOutcome,
)
from .addresses import Resolver, SystemResolver
from .bounds import bounds_of, set_config
from .calls.reading import ClusterFacts, metadata, topic_partitions
from .connection import silence_library_loggers
from .describe import GroupReader
from .errors import Recovery, Refusal, back_off_s
from .leaves import all_together, for_a_while, one_by_one, refuse_old_broker
from .login.credentials import ConnectionSettings
from .pool import Attempt, ClusterPool, TokenProviderFactory
from .rebalance import rebalance_once
from .rights import GroupRights, rights_of, with_topic_right
from .wire import Api

POOL_UNUSED_MAX_S = 15 * 60.0
"""A pool that nobody used for so long is closed, and the secrets in it are let go."""
REPORTED_APIS = (
    *(Api.JOIN_GROUP, Api.LEAVE_GROUP, Api.DESCRIBE_GROUPS, Api.LIST_GROUPS, Api.DESCRIBE_CONFIGS),
    *(Api.CONSUMER_GROUP_DESCRIBE, Api.CONSUMER_GROUP_HEARTBEAT, Api.STREAMS_GROUP_HEARTBEAT),
)

T = TypeVar("T")


class KioGateway:
    """Everything the operator asks of Kafka, by one pool per fingerprint of settings; expected trouble is a value.

    Parameters
    ----------
    rng: order of bootstrap servers and back-off.
    clock: monotonic seconds, for connection ages; deadlines run in loop time.
    now_s: wall clock, in which tokens say their end.
    pause: sleeps; tests give one that does not.
    make_tokens: replaces the OAuth token endpoint in tests.
    """

    def __init__(
        self,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_s: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        resolver: Resolver | None = None,
        make_tokens: TokenProviderFactory | None = None,
    ) -> None:
        silence_library_loggers()
        self._rng = rng or random.Random()
        self._clock = clock
        self._now_s = now_s
        self._pause = pause
        self._system_resolver = SystemResolver()
        self._given_resolver = resolver
        self._make_tokens = make_tokens
        self._readers: dict[str, GroupReader] = {}
        self._fingerprints: dict[str, str] = {}

    async def describe(self, settings: ConnectionSettings, group_id: str) -> GroupView | KafkaProblem:
        """Read one group completely, ABSENT if there is none; a problem whenever members could be hidden."""
        reader = self._reader(settings)
        found = await reader.describe(group_id)
        if isinstance(found, KafkaProblem):
            return found
        return replace(found, kafka_cluster_id=reader.pool.cluster_id or "")

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        """Read the session timeout bounds of the group's coordinator, and what is set on the group itself."""
        return await self._retried(settings, group_id, bounds_of(group_id))

    async def leave(
        self, settings: ConnectionSettings, group_id: str, entries: Sequence[LeaveEntry],
        by: LeaveCall = LeaveCall.LEAVE_GROUP,
    ) -> LeaveResult | KafkaProblem:  # fmt: skip
        """Remove static members by compare-and-set: in one request, or in a streams group by one for each, all at once.

        Returns
        -------
        LeaveResult: outcomes in the order of `entries`. All are RETRY when the request may have reached the broker
            and no answer came: describe again, then decide again.
        KafkaProblem: nothing was removed.

        Raises
        ------
        ValueError: on an empty list or an entry without both ids.

        Notes
        -----
        Repeated only after NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS, when the broker did nothing.
        """
        attempt = one_by_one if by is LeaveCall.STREAMS_HEARTBEAT else all_together
        return await self._retried(settings, group_id, attempt(group_id, entries))

    async def release(
        self, settings: ConnectionSettings, group_id: str, entry: LeaveEntry,
        by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT,
    ) -> ReleaseOutcome | KafkaProblem:  # fmt: skip
        """Let a static member leave for a while, by compare-and-set; results and repetition as for `leave`."""
        return await self._retried(settings, group_id, for_a_while(group_id, entry, by))

    async def rebalance(
        self, settings: ConnectionSettings, group_id: str, protocol: str
    ) -> RebalanceOutcome | KafkaProblem:
        """Make a classic group rebalance once, by its `GroupView.assignor`; a problem: nobody has joined."""
        return await self._retried(settings, group_id, rebalance_once(group_id, protocol))

    async def partition_counts(
        self, settings: ConnectionSettings, topics: Sequence[str]
    ) -> Mapping[str, int] | KafkaProblem:
        """Read how many partitions topics have; without those that do not exist, or may not be described."""

        async def read(pool: ClusterPool, deadline_s: float) -> Mapping[str, int]:
            connection = await pool.any_connection(deadline_s)
            return await connection.call(topic_partitions(topics), deadline_s)

        return await self._retried(settings, "", read)

    async def probe(self, settings: ConnectionSettings) -> ClusterFacts | KafkaProblem:
        """Connect, log in, and read what the cluster is; BROKER_TOO_OLD where it cannot remove by compare-and-set."""

        async def read(pool: ClusterPool, deadline_s: float) -> ClusterFacts:
            connection = await pool.any_connection(deadline_s)
            facts = await connection.call(metadata(), deadline_s)
            refuse_old_broker(connection)
            served = {int(key): connection.versions[key] for key in REPORTED_APIS if key in connection.versions}
            return replace(facts, api_versions=served)

        return await self._retried(settings, "", read)

    async def set_group_config(
        self, settings: ConnectionSettings, group_id: str, values: Mapping[str, int]
    ) -> KafkaProblem | None:
        """Set settings of the group, all in one request; None when the brokers have taken them."""
        return await self._retried(settings, group_id, set_config(group_id, values))

    async def describe_rights(
        self, settings: ConnectionSettings, group_id: str, *, alters: bool = False
    ) -> GroupRights | KafkaProblem:
        """Find out, by calls that change nothing, which rights are missing; `alters`: also the one to set settings."""
        rights = await self._retried(settings, group_id, rights_of(group_id, alters=alters))
        if isinstance(rights, KafkaProblem) or not rights.describe_group:
            return rights
        return with_topic_right(rights, await self.describe(settings, group_id))

    async def close(self) -> None:
        """Close every connection."""
        for reader in self._readers.values():
            reader.pool.close()
        self._readers.clear()
        self._fingerprints.clear()
        self._system_resolver.close()

    def _reader(self, settings: ConnectionSettings) -> GroupReader:
        """Return what reads groups with these settings; give up what rotation or disuse has left behind."""
        before = self._fingerprints.get(settings.name)
        if settings.name and before != settings.fingerprint:
            self._fingerprints[settings.name] = settings.fingerprint
            if before in self._readers and before not in self._fingerprints.values():
                self._readers.pop(before).pool.retire()
        reader = self._readers.get(settings.fingerprint)
        if reader is None:
            now_s = self._clock()
            for fingerprint, other in tuple(self._readers.items()):
                if now_s - other.pool.used_at_s > POOL_UNUSED_MAX_S:
                    self._readers.pop(fingerprint).pool.retire()
            reader = GroupReader(self._new_pool(settings), pause=self._pause, rng=self._rng)
            self._readers[settings.fingerprint] = reader
        reader.pool.sweep()
        return reader

    def _new_pool(self, settings: ConnectionSettings) -> ClusterPool:
        async def resolve(host: str, port: int) -> Sequence[str]:
            """Resolve within the shares of the namespaces with these settings."""
            named = [name for name, known in self._fingerprints.items() if known == settings.fingerprint]
            tenants = sorted({name.partition("/")[0] for name in named or [settings.name]})
            return await self._system_resolver.resolve(tenants, host, port)

        return ClusterPool(
            settings,
            resolver=self._given_resolver or resolve,
            rng=self._rng,
            clock=self._clock,
            now_s=self._now_s,
            make_tokens=self._make_tokens,
        )

    async def _retried(self, settings: ConnectionSettings, group_id: str, attempt_once: Attempt[T]) -> T | KafkaProblem:
        """Run one operation under one deadline; ask again where the refusal says that this can help."""
        pool = self._reader(settings).pool
        async with pool.operation() as deadline_s:
            attempt = 0
            while True:
                try:
                    return await attempt_once(pool, deadline_s)
                except Refusal as refusal:
                    pause_s = back_off_s(attempt, self._rng)
                    in_time = asyncio.get_running_loop().time() + pause_s < deadline_s
                    is_final = not in_time or not refusal.may_retry(attempt)
                    if is_final or refusal.recovery is not Recovery.BACK_OFF:
                        pool.forget_coordinators((group_id,))
                    if is_final:
                        return refusal.problem
                await self._pause(pause_s)
                attempt += 1
