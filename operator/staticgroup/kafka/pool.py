"""The connections to one cluster as one principal, and what was learned over them.

Why: ten thousand groups must share a few sockets, and no answer may come from another cluster than the expected one.
One idea: a slot per address holds at most one connection in use and one being given up; every connection proves its
cluster id before its first group call; the coordinators and group types learned are hints that the brokers correct.
Source: Kafka protocol guide (FindCoordinator); KIP-368 (why SASL connections are renewed by age).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ..api.resources.kafkaconnection import is_cluster_id
from ..core.group import GroupType, KafkaProblem, KafkaProblemKind
from .addresses import HostPort, Resolver, check, parse_host_port
from .calls.reading import BrokerNode, ClusterFacts, find_coordinators, metadata
from .connection import BrokerConnection, open_connection, problem_of_failure
from .errors import Recovery, Refusal, refusal, refusal_by
from .login.credentials import ConnectionSettings
from .login.msk_iam import MskIamToken
from .login.oauth import ClientCredentials
from .login.tls import client_context
from .login.tokens import MountedToken, TokenProvider
from .wire import Api, negotiate

IDLE_MAX_S = 9 * 60.0
"""Brokers close connections idle for 10 min (connections.max.idle.ms)."""
SASL_AGE_MAX_S = 50 * 60.0
"""aiokafka does not re-authenticate (KIP-368); managed brokers end sessions after about an hour."""
LOGIN_MARGIN_S = 10.0
"""A connection is not used any more this long before the token of its login ends."""
GROUPS_PER_REQUEST = 100
ABSENCE_SETTLE_S = 2.0
"""How long a group that was seen must be missing before it is called absent."""
SILENCE_MAX_S = 15.0
"""A broker that kept somebody waiting in vain is not asked again for as long as that took, and no longer than this."""
REMEMBERED_GROUPS_MAX = 100_000
"""Of coordinators and of types; when full, all is forgotten and learned again."""

Located = BrokerNode | Refusal
TokenProviderFactory = Callable[[ConnectionSettings], TokenProvider]
T = TypeVar("T")
Attempt = Callable[["ClusterPool", float], Awaitable[T]]
"""One operation until a deadline in loop time; raises Refusal, by which it may be made again."""


@dataclass(slots=True)
class _Slot:
    """The connections to one address; what one user of it waited for in vain, the others do not wait for again."""

    target: HostPort
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    current: BrokerConnection | None = None
    retiring: BrokerConnection | None = None
    quiet_until_s: float = float("-inf")
    problem: KafkaProblem | None = None

    def leave_alone(self, waited_s: float, problem: KafkaProblem | None = None) -> None:
        """Do not ask this address again for as long as somebody waited in vain; without a problem it was silent."""
        self.quiet_until_s = asyncio.get_running_loop().time() + min(waited_s, SILENCE_MAX_S)
        self.problem = problem or problem_of_failure(self.target, TimeoutError())

    def refuse_if_left_alone(self) -> None:
        """Raise the last Refusal again while its time has not passed."""
        if self.problem is not None and asyncio.get_running_loop().time() < self.quiet_until_s:
            raise Refusal(self.problem, recovery=Recovery.BACK_OFF)


class ClusterPool:
    """Connections and knowledge of one cluster.

    Parameters
    ----------
    clock: monotonic seconds, for ages; deadlines are in loop time.
    now_s: wall clock, in which tokens say their end.
    make_tokens: makes the token provider instead of the one that the settings ask for.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        resolver: Resolver,
        rng: random.Random,
        clock: Callable[[], float],
        now_s: Callable[[], float] = time.time,
        make_tokens: TokenProviderFactory | None = None,
    ) -> None:
        self.settings = settings
        self.types: dict[str, GroupType] = {}
        self.cluster_id: str | None = None
        self.brokers: tuple[BrokerNode, ...] = ()
        self._resolver = resolver
        self._rng = rng
        self._clock = clock
        self._now_s = now_s
        self._slots: dict[HostPort, _Slot] = {}
        self._coordinators: dict[str, BrokerNode] = {}
        self._missed_since_s: dict[str, float | None] = {}
        self._operations = 0
        self._is_retired = False
        self._context = settings.tls.context() if settings.tls else None
        self._tokens = self._token_provider(make_tokens)
        self.used_at_s = clock()

    def _token_provider(self, make_tokens: TokenProviderFactory | None) -> TokenProvider | None:
        settings, sasl = self.settings, self.settings.sasl
        oauth, aws_msk_iam = (sasl.oauth, sasl.aws_msk_iam) if sasl else (None, None)
        if make_tokens and (oauth or aws_msk_iam):
            return make_tokens(settings)
        if aws_msk_iam:
            timeout_s = settings.request_timeout_s
            return MskIamToken(aws_msk_iam, now_s=self._now_s, clock=self._clock, timeout_s=timeout_s)
        if oauth is None:
            return None
        mounted = MountedToken(oauth.token_file, now_s=self._now_s, clock=self._clock) if oauth.token_file else None
        if oauth.token_endpoint is None and mounted:
            return mounted
        context = client_context()
        if settings.tls and settings.tls.ca_pem:
            context.load_verify_locations(cadata=settings.tls.ca_pem)
        return ClientCredentials(
            oauth,
            clock=self._clock,
            resolver=self._resolver,
            context=context,
            allow_loopback=settings.allow_loopback,
            timeout_s=settings.request_timeout_s,
            assertion=mounted,
        )

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[float]:
        """Keep the pool open for one operation and give its deadline in loop time."""
        self._operations += 1
        self.used_at_s = self._clock()
        try:
            yield asyncio.get_running_loop().time() + self.settings.request_timeout_s
        finally:
            self._operations -= 1
            if self._is_retired and not self._operations:
                self.close()

    async def any_connection(self, deadline_s: float) -> BrokerConnection:
        """Return a connection to any broker: an open one, else bootstrap servers in random order, else known brokers.

        Raises
        ------
        Refusal: the most telling problem of all brokers tried.
        """
        for slot in self._slots.values():
            if slot.current and self._is_usable(slot.current):
                return self._touch(slot.current)
        bootstrap: list[HostPort] = []
        for parsed in map(parse_host_port, self.settings.bootstrap_servers):
            if isinstance(parsed, KafkaProblem):
                raise Refusal(parsed)
            bootstrap.append(parsed)
        known = [HostPort(host=node.host, port=node.port) for node in self.brokers]
        self._rng.shuffle(bootstrap)
        self._rng.shuffle(known)
        targets = list(dict.fromkeys(bootstrap + known[:3]))
        refusals: list[Refusal] = []
        for position, target in enumerate(targets):
            now_s = asyncio.get_running_loop().time()
            share_s = (deadline_s - now_s) / (len(targets) - position)  # a silent broker must not use up all the time
            try:
                return await self._connection(target, now_s + share_s, adopts_cluster=True)
            except Refusal as refused:
                refusals.append(refused.with_traceback(None))  # which would lead back to this list
                if refused.kind in (KafkaProblemKind.AUTHENTICATION_FAILED, KafkaProblemKind.WRONG_CLUSTER):
                    break  # another broker would say the same, and count another failed log-in
        telling = [r for r in refusals if r.kind is not KafkaProblemKind.UNREACHABLE]
        raise Refusal((telling or refusals)[0].problem)

    async def connection_to(self, node: BrokerNode, deadline_s: float) -> BrokerConnection:
        """Return a connection to one broker at its advertised address."""
        return await self._connection(HostPort(host=node.host, port=node.port), deadline_s, adopts_cluster=False)

    async def connection_beside(self, node: BrokerNode, deadline_s: float) -> BrokerConnection:
        """Open a connection that nobody else gets, for a request that is answered late; the caller closes it."""
        return await self._open(HostPort(host=node.host, port=node.port), deadline_s, adopts_cluster=False)

    async def _connection(self, target: HostPort, deadline_s: float, *, adopts_cluster: bool) -> BrokerConnection:
        slot = self._slots.setdefault(target, _Slot(target))
        try:
            async with asyncio.timeout_at(deadline_s), slot.lock:
                if slot.current and self._is_usable(slot.current):
                    return self._touch(slot.current)
                self._give_up(slot)
                slot.refuse_if_left_alone()
                began_s = asyncio.get_running_loop().time()
                try:
                    slot.current = await self._open(target, deadline_s, adopts_cluster)
                except BaseException as error:  # of the deadline too, which arrives as a cancellation
                    problem = error.problem if isinstance(error, Refusal) else None
                    slot.leave_alone(asyncio.get_running_loop().time() - began_s, problem)
                    raise
                slot.current.on_silence = slot.leave_alone
                return slot.current
        except TimeoutError as error:
            raise Refusal(problem_of_failure(target, error), recovery=Recovery.BACK_OFF) from None

    async def _open(self, target: HostPort, deadline_s: float, adopts_cluster: bool) -> BrokerConnection:
        if self.settings.sasl and self.settings.sasl.aws_msk_iam:
            self.settings.sasl.aws_msk_iam.check_host(target.host)
        address = await check(target, allow_loopback=self.settings.allow_loopback, resolver=self._resolver)
        if isinstance(address, KafkaProblem):
            raise Refusal(address)
        connection = await open_connection(
            self.settings, target, address,
            context=self._context, tokens=self._tokens, deadline_s=deadline_s, now_s=self._clock(),
        )  # fmt: skip
        try:
            self._admit(await connection.call(metadata(), deadline_s), adopts_cluster)
        except BaseException:
            connection.close()
            raise
        return connection

    def _admit(self, cluster: ClusterFacts, adopts_cluster: bool) -> None:
        """Refuse a broker of another cluster before any group call."""
        expected, reported = self.settings.cluster_id, cluster.cluster_id
        if expected and reported != expected:
            shown = reported if reported and is_cluster_id(reported) else "an unreadable one"
            right = f"correct spec.bootstrapServers, or spec.clusterId if {shown} is the right cluster"
            text = f"the brokers report cluster id {shown}, but spec.clusterId is {expected}; {right}"
            raise refusal(KafkaProblemKind.WRONG_CLUSTER, text)
        if self.cluster_id is not None and reported != self.cluster_id:
            # only a bootstrap server may change our mind, and then no connection to the former cluster stays
            self._coordinators.clear()
            self.types.clear()
            self._missed_since_s.clear()
            if not adopts_cluster:
                text = "a broker that this cluster advertises belongs to another cluster"
                kind, recovery = KafkaProblemKind.COORDINATOR_UNAVAILABLE, Recovery.FIND_COORDINATOR
                raise refusal(kind, f"{text}; the cluster is looked up again", recovery=recovery)
            self._close_connections()
        self.cluster_id, self.brokers = reported, cluster.brokers

    async def coordinators(self, group_ids: Sequence[str], deadline_s: float) -> dict[str, Located]:
        """Locate the coordinator of each group; cached ones are not asked for. Refusal: no broker could be asked."""
        located: dict[str, Located] = {g: self._coordinators[g] for g in group_ids if g in self._coordinators}
        missing = [g for g in group_ids if g not in located]
        if not missing:
            return located
        connection = await self.any_connection(deadline_s)
        size = GROUPS_PER_REQUEST if (negotiate(Api.FIND_COORDINATOR, connection.versions) or 0) >= 4 else 1
        for start in range(0, len(missing), size):
            chunk = missing[start : start + size]
            answers = await connection.call(find_coordinators(chunk), deadline_s)
            for group_id in chunk:
                answer = answers.get(group_id)
                if answer is None:
                    text = f"the broker did not answer where group {group_id!r} is coordinated; see its log"
                    located[group_id] = refusal(KafkaProblemKind.UNEXPECTED_ANSWER, text)
                elif isinstance(answer, int):
                    principal = self.settings.principal
                    located[group_id] = refusal_by(Api.FIND_COORDINATOR, answer, group_id, principal)
                else:
                    if len(self._coordinators) >= REMEMBERED_GROUPS_MAX:
                        self._coordinators.clear()
                    located[group_id] = self._coordinators[group_id] = answer
        return located

    async def coordinator(self, group_id: str, deadline_s: float) -> tuple[BrokerNode, BrokerConnection]:
        """Locate one group's coordinator and connect to it; raises Refusal."""
        located = (await self.coordinators((group_id,), deadline_s))[group_id]
        if isinstance(located, Refusal):
            raise located
        return located, await self.connection_to(located, deadline_s)

    def forget_coordinators(self, group_ids: Iterable[str]) -> None:
        """Ask again for these groups next time."""
        for group_id in group_ids:
            self._coordinators.pop(group_id, None)

    def forget_broker(self, node: BrokerNode) -> None:
        """Drop every coordinator entry of a broker whose connection was lost."""
        self.forget_coordinators([group for group, at in self._coordinators.items() if at == node])

    def remember_type(self, group_id: str, group_type: GroupType) -> None:
        """Keep what a describe has proven."""
        if len(self.types) >= REMEMBERED_GROUPS_MAX:
            self.types.clear()
            self._missed_since_s.clear()
        self.types[group_id] = group_type
        self._missed_since_s[group_id] = None

    def believes_absence(self, group_id: str) -> bool:
        """Say whether a group that the coordinator does not show may be called absent.

        A new coordinator answers reads from what it knows to be committed; for a moment after a fail-over that may
        be nothing, without any error (seen on 4.4.0: an existing group read as GROUP_ID_NOT_FOUND). So a group that
        was seen before is believed gone only when it is still not shown ABSENCE_SETTLE_S after it was first missed.
        """
        if group_id not in self._missed_since_s:
            return True
        since_s = self._missed_since_s[group_id]
        if since_s is None:
            since_s = self._missed_since_s[group_id] = self._clock()
        if self._clock() - since_s < ABSENCE_SETTLE_S:
            return False
        del self._missed_since_s[group_id]
        return True

    def sweep(self) -> None:
        """Close connections that are idle or given up and no longer needed."""
        for slot in self._slots.values():
            if slot.current and not slot.current.in_flight and not self._is_usable(slot.current):
                slot.current.close()
                slot.current = None
            if slot.retiring and not slot.retiring.in_flight:
                slot.retiring.close()
                slot.retiring = None

    def retire(self) -> None:
        """Close once the operations under way have ended; new ones go to another pool."""
        self._is_retired = True
        if not self._operations:
            self.close()

    def close(self) -> None:
        """Close every connection at once."""
        self._close_connections()
        self._slots.clear()

    def _close_connections(self) -> None:
        for slot in self._slots.values():
            for connection in (slot.current, slot.retiring):
                if connection:
                    connection.close()
            slot.current = slot.retiring = None

    def _is_usable(self, connection: BrokerConnection) -> bool:
        now_s = self._clock()
        is_idle = not connection.in_flight and now_s - connection.used_at_s > IDLE_MAX_S
        is_old = self.settings.sasl is not None and now_s - connection.opened_at_s > SASL_AGE_MAX_S
        is_ending = now_s > connection.login_until_s - LOGIN_MARGIN_S
        return connection.is_open and not is_idle and not is_old and not is_ending

    def _touch(self, connection: BrokerConnection) -> BrokerConnection:
        connection.used_at_s = self._clock()
        return connection

    def _give_up(self, slot: _Slot) -> None:
        """Set the current connection aside; it is closed once its requests are answered, or by the next one."""
        if slot.retiring:
            slot.retiring.close()
        slot.retiring, slot.current = slot.current, None
        if slot.retiring and not slot.retiring.in_flight:
            slot.retiring.close()
            slot.retiring = None
