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
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..core.group import (
    BrokerBounds,
    GroupView,
    KafkaProblem,
    KafkaProblemKind,
    LeaveCall,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    ReleaseEntry,
    ReleaseOutcome,
    ReleaseResult,
)
from .addresses import Resolver, SystemResolver
from .answers import BrokerNode
from .bounds import read_bounds, set_config
from .calls.leaving import leave_group, temporary_leave
from .calls.reading import metadata
from .connection import BrokerConnection, silence_library_loggers, too_old
from .describe import GroupReader
from .errors import (
    ACTED_MAYBE,
    DID_NOTHING,
    RELEASE_OUTCOMES,
    Code,
    Recovery,
    Refusal,
    problem_of,
    verdict_of,
)
from .leaves import one_by_one, outcomes_of
from .login.credentials import ConnectionSettings
from .pool import ClusterPool, TokenProviderFactory
from .retries import back_off_s, may_retry
from .rights import GroupRights, try_rights, with_topic_right
from .wire import Api, negotiate

POOL_UNUSED_MAX_S = 15 * 60.0
"""A pool that nobody used for so long is closed, and the secrets in it are let go."""
JOIN_GROUP_FLOOR = 5
"""JoinGroup v5 carries group.instance.id (Kafka 2.3)."""
REPORTED_APIS = (Api.JOIN_GROUP, Api.LEAVE_GROUP, Api.DESCRIBE_GROUPS, Api.LIST_GROUPS, Api.DESCRIBE_CONFIGS)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What `probe` found.

    Parameters
    ----------
    api_versions: API key → (lowest, highest) version of the broker that answered; absent: not served.
    """

    cluster_id: str | None
    brokers: tuple[BrokerNode, ...]
    api_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class KafkaGateway(Protocol):
    """Everything the operator asks of Kafka; expected trouble is a value."""

    async def describe(self, settings: ConnectionSettings, group_id: str) -> GroupView | KafkaProblem:
        """Read one group completely; type ABSENT when it does not exist."""

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        """Read the session timeout bounds of the group's coordinator and the group's own setting."""

    async def leave(
        self,
        settings: ConnectionSettings,
        group_id: str,
        entries: Sequence[LeaveEntry],
        by: LeaveCall = LeaveCall.LEAVE_GROUP,
    ) -> LeaveResult | KafkaProblem:
        """Remove static members at once, each by compare-and-set."""

    async def release(
        self,
        settings: ConnectionSettings,
        group_id: str,
        entry: ReleaseEntry,
        by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT,
    ) -> ReleaseResult | KafkaProblem:
        """Let a static member leave for a while, by compare-and-set."""

    async def probe(self, settings: ConnectionSettings) -> ClusterFacts | KafkaProblem:
        """Connect, log in, and tell what the cluster is."""

    async def set_group_config(self, settings: ConnectionSettings, group_id: str, values: Mapping[str, int]) -> KafkaProblem | None:
        """Set settings of the group, all in one request; None when the brokers have taken them."""

    async def describe_rights(
        self, settings: ConnectionSettings, group_id: str, *, alters: bool = False
    ) -> GroupRights | KafkaProblem:
        """Find out, by calls that change nothing, which rights are missing; `alters`: also the one to set the group's settings."""

    async def close(self) -> None:
        """Close every connection."""


class KioGateway:
    """The real gateway: one pool of connections per fingerprint of settings.

    Parameters
    ----------
    rng: order of bootstrap servers and back-off.
    clock: monotonic seconds, for connection ages; deadlines run in loop time.
    now_s: wall clock, in which tokens tell their end.
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
        self._pools: dict[str, ClusterPool] = {}
        self._readers: dict[str, GroupReader] = {}
        self._fingerprints: dict[str, str] = {}

    async def describe(self, settings: ConnectionSettings, group_id: str) -> GroupView | KafkaProblem:
        """Read one group completely; a problem whenever members could be hidden (no DESCRIBE, a moving coordinator)."""
        try:
            self._pool(settings)
            return await self._readers[settings.fingerprint].describe(group_id)
        except Refusal as refusal:
            return refusal.problem

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        """Read the bounds; None in them is what the broker does not serve or show, `problems` says which right is missing."""

        async def read(pool: ClusterPool, deadline_s: float) -> BrokerBounds:
            node = await pool.coordinator(group_id, deadline_s)
            connection = await pool.connection_to(node, deadline_s)
            return await read_bounds(connection, node, group_id, settings.principal, deadline_s)

        return await self._retried(settings, group_id, read)

    async def leave(
        self,
        settings: ConnectionSettings,
        group_id: str,
        entries: Sequence[LeaveEntry],
        by: LeaveCall = LeaveCall.LEAVE_GROUP,
    ) -> LeaveResult | KafkaProblem:
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
        if by is LeaveCall.STREAMS_HEARTBEAT:
            return await self._retried(settings, group_id, one_by_one(group_id, entries))
        call = leave_group(group_id, entries)

        async def attempt(pool: ClusterPool, deadline_s: float) -> LeaveResult:
            node = await pool.coordinator(group_id, deadline_s)
            connection = await pool.connection_to(node, deadline_s)
            _refuse_old_broker(connection)
            unknown = LeaveResult(coordinator=str(node), outcomes=(LeaveOutcome.RETRY,) * len(entries))
            try:
                answer = await connection.call(call, deadline_s)
            except Refusal as refusal:
                pool.forget_broker(node)
                if refusal.sent:
                    return unknown
                raise
            if answer.error_code in ACTED_MAYBE:
                pool.forget_coordinators((group_id,))
                return unknown
            if answer.error_code != Code.NONE:
                verdict = verdict_of(Api.LEAVE_GROUP, answer.error_code)
                recovery = verdict.recovery if answer.error_code in DID_NOTHING else Recovery.NONE
                problem = problem_of(
                    Api.LEAVE_GROUP, answer.error_code, group_id=group_id, principal=settings.principal
                )
                raise Refusal(problem, recovery=recovery)
            return LeaveResult(coordinator=str(node), outcomes=outcomes_of(entries, answer))

        return await self._retried(settings, group_id, attempt)

    async def release(
        self,
        settings: ConnectionSettings,
        group_id: str,
        entry: ReleaseEntry,
        by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT,
    ) -> ReleaseResult | KafkaProblem:
        """Let a static member leave for a while, by compare-and-set.

        Returns
        -------
        ReleaseResult: RETRY when the request may have reached the broker and no answer came.
        KafkaProblem: nothing was done.

        Notes
        -----
        Repeated only after NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS, when the broker did nothing.
        """
        call = temporary_leave(group_id, entry, by)

        async def attempt(pool: ClusterPool, deadline_s: float) -> ReleaseResult:
            node = await pool.coordinator(group_id, deadline_s)
            connection = await pool.connection_to(node, deadline_s)
            unknown = ReleaseResult(coordinator=str(node), outcome=ReleaseOutcome.RETRY)
            try:
                code = await connection.call(call, deadline_s)
            except Refusal as refusal:
                pool.forget_broker(node)
                if refusal.sent:
                    return unknown
                raise
            if code in ACTED_MAYBE:
                pool.forget_coordinators((group_id,))
                return unknown
            outcome = RELEASE_OUTCOMES.get(code)
            if outcome is None:
                recovery = verdict_of(call.api, code).recovery if code in DID_NOTHING else Recovery.NONE
                problem = problem_of(call.api, code, group_id=group_id, principal=settings.principal)
                raise Refusal(problem, recovery=recovery)
            return ReleaseResult(coordinator=str(node), outcome=outcome)

        return await self._retried(settings, group_id, attempt)

    async def probe(self, settings: ConnectionSettings) -> ClusterFacts | KafkaProblem:
        """Connect, log in, and tell what the cluster is; BROKER_TOO_OLD where no compare-and-set removal can be done."""

        async def read(pool: ClusterPool, deadline_s: float) -> ClusterFacts:
            connection = await pool.any_connection(deadline_s)
            cluster = await connection.call(metadata(), deadline_s)
            _refuse_old_broker(connection)
            keys = (*REPORTED_APIS, Api.CONSUMER_GROUP_DESCRIBE, Api.CONSUMER_GROUP_HEARTBEAT, Api.STREAMS_GROUP_HEARTBEAT)
            versions = {int(key): connection.versions[key] for key in keys if key in connection.versions}
            return ClusterFacts(cluster_id=cluster.cluster_id, brokers=cluster.brokers, api_versions=versions)

        return await self._retried(settings, "", read)

    async def set_group_config(self, settings: ConnectionSettings, group_id: str, values: Mapping[str, int]) -> KafkaProblem | None:
        """Set settings of the group, all in one request; see `set_config`."""
        return await self._retried(settings, group_id, set_config(group_id, values))

    async def describe_rights(
        self, settings: ConnectionSettings, group_id: str, *, alters: bool = False
    ) -> GroupRights | KafkaProblem:
        """Find out, by calls that change nothing, which rights are missing.

        Notes
        -----
        READ is tried by a heartbeat of a member that does not exist; the broker checks rights first
        (KafkaApis.handleHeartbeatRequest).
        """

        async def read(pool: ClusterPool, deadline_s: float) -> GroupRights:
            located = (await pool.coordinators((group_id,), deadline_s))[group_id]
            if isinstance(located, Refusal):
                if located.problem.kind is not KafkaProblemKind.NOT_AUTHORIZED:
                    raise located
                return GroupRights(describe_group=False, missing=(located.problem.missing_acl,))
            connection = await pool.connection_to(located, deadline_s)
            return await try_rights(connection, located, group_id, settings.principal, deadline_s, alters=alters)

        rights = await self._retried(settings, group_id, read)
        if isinstance(rights, KafkaProblem) or not rights.describe_group:
            return rights
        view = await self.describe(settings, group_id)
        return with_topic_right(rights, view)

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._readers.clear()
        self._fingerprints.clear()
        self._system_resolver.close()

    def socket_count(self) -> int:
        """Count open connections to all brokers."""
        return sum(pool.socket_count() for pool in self._pools.values())

    def _pool(self, settings: ConnectionSettings) -> ClusterPool:
        """Return the pool of these settings; give up what rotation or disuse has left behind."""
        before = self._fingerprints.get(settings.name)
        if settings.name and before != settings.fingerprint:
            self._fingerprints[settings.name] = settings.fingerprint
            if before is not None and before not in self._fingerprints.values():
                self._retire(before)
        pool = self._pools.get(settings.fingerprint)
        if pool is None:
            self._retire_unused()
            pool = ClusterPool(
                settings,
                resolver=self._resolver_of(settings),
                rng=self._rng,
                clock=self._clock,
                now_s=self._now_s,
                make_tokens=self._make_tokens,
            )
            self._pools[settings.fingerprint] = pool
            self._readers[settings.fingerprint] = GroupReader(pool, pause=self._pause, rng=self._rng)
        pool.sweep()
        return pool

    def _resolver_of(self, settings: ConnectionSettings) -> Resolver:
        """Return the given resolver, or the system's within the shares of the namespaces with these settings."""

        async def resolve(host: str, port: int) -> Sequence[str]:
            named = [name for name, known in self._fingerprints.items() if known == settings.fingerprint]
            tenants = sorted({name.partition("/")[0] for name in named or [settings.name]})
            return await self._system_resolver.resolve(tenants, host, port)

        return self._given_resolver or resolve

    def _retire_unused(self) -> None:
        now_s = self._clock()
        for fingerprint, pool in tuple(self._pools.items()):
            if now_s - pool.used_at_s > POOL_UNUSED_MAX_S:
                self._retire(fingerprint)

    def _retire(self, fingerprint: str) -> None:
        pool = self._pools.pop(fingerprint, None)
        self._readers.pop(fingerprint, None)
        if pool:
            pool.retire()

    async def _retried(
        self,
        settings: ConnectionSettings,
        group_id: str,
        attempt_once: Callable[[ClusterPool, float], Awaitable[T]],
    ) -> T | KafkaProblem:
        """Run one operation under one deadline; ask again where the refusal says that this can help."""
        pool = self._pool(settings)
        async with pool.operation() as deadline_s:
            attempt = 0
            while True:
                try:
                    return await attempt_once(pool, deadline_s)
                except Refusal as refusal:
                    if refusal.recovery is not Recovery.BACK_OFF:
                        pool.forget_coordinators((group_id,))
                    pause_s = back_off_s(attempt, self._rng)
                    in_time = asyncio.get_running_loop().time() + pause_s < deadline_s
                    if not in_time or not may_retry(refusal, attempt):
                        pool.forget_coordinators((group_id,))
                        return refusal.problem
                await self._pause(pause_s)
                attempt += 1


def _refuse_old_broker(connection: BrokerConnection) -> None:
    """Refuse a broker that cannot do what keeps live members safe: compare-and-set removal, static joins."""
    versions = connection.versions
    if negotiate(Api.LEAVE_GROUP, versions) is None:
        raise Refusal(too_old(connection.target, Api.LEAVE_GROUP))
    if versions.get(Api.JOIN_GROUP, (0, 0))[1] < JOIN_GROUP_FLOOR:
        raise Refusal(too_old(connection.target, Api.JOIN_GROUP))
