"""The operator's real Kafka gateway over the model cluster.

Only sockets and bytes are replaced: pool, coordinator cache, retries, deadlines, batching and the meaning of every
error code are the product's own code. A model connection answers a `wire.Call` with objects of the shape that the
call's own `read` expects (`translation`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from kio.index import load_request_schema

from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.messages import LeaveGroupRequest, MemberIdentity, Request
from staticgroup.kafka.addresses import HostPort
from staticgroup.kafka.calls.reading import metadata
from staticgroup.kafka.calls.settings import SET_OPERATION
from staticgroup.kafka.connection import BrokerConnection, problem_of_failure, too_old
from staticgroup.kafka.errors import Recovery, Refusal
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.pool import ClusterPool
from staticgroup.kafka.wire import Api, Call, VersionRanges, negotiate

from ..kafka.cluster import LEAVE, ModelKafkaCluster
from ..kafka.network import ConnectionLost, Exchange, KafkaLink
from .translation import AT_ANY_BROKER, heartbeat, node_at, shown, to_model

T = TypeVar("T")
API_VERSIONS: Mapping[int, tuple[int, int]] = {
    Api.METADATA: (0, 13),
    Api.FIND_COORDINATOR: (0, 6),
    Api.JOIN_GROUP: (0, 9),
    Api.HEARTBEAT: (0, 4),
    Api.LEAVE_GROUP: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.LIST_GROUPS: (0, 5),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.STREAMS_GROUP_HEARTBEAT: (0, 1),
    Api.STREAMS_GROUP_DESCRIBE: (0, 1),
}
"""What a 4.4 broker offers of the calls that the operator makes."""


@dataclass(eq=False, slots=True, kw_only=True)
class WireLeave:
    """One LeaveGroup request, or one leave from a streams group, as it was put on the wire.

    Parameters
    ----------
    invoked_s, returned_s: virtual seconds; returned_s None: no answer came, or its sender was dead by then.
    members: (member id, instance id) of each entry, as sent.
    codes: the answer's error code for each entry; empty without an answer or with a top-level error.
    """

    operator: str
    principal: str
    group_id: str
    members: tuple[tuple[str, str | None], ...]
    reasons: tuple[str | None, ...]
    invoked_s: float
    returned_s: float | None = None
    error_code: int | None = None
    codes: tuple[int, ...] = ()


@dataclass(eq=False, slots=True, kw_only=True)
class WireRelease:
    """One temporary leave as it was sent; error_code None: no answer came, or its sender was dead by then."""

    operator: str
    group_id: str
    member_id: str
    instance_id: str | None
    member_epoch: int
    error_code: int | None = None


class ModelKafkaGateway(KioGateway):
    """`KioGateway` without sockets.

    Parameters
    ----------
    name: of the operator that it belongs to.
    rng: order of bootstrap servers and back-off.

    Attributes
    ----------
    link: the way to the brokers, with its faults.
    leaves: every LeaveGroup, and every leave from a streams group, that was sent, in order.
    on_leave: called when one is put on the wire.
    releases, on_release: the same of heartbeats that the operator sends on behalf of members.
    temporary: member ids that were drawn for joins of the operator's own; what leaves by them is nobody else's member.
    alterations: (virtual seconds, values) of each change of a group's settings that was sent, in order.
    """

    def __init__(self, cluster: ModelKafkaCluster, *, name: str, rng: random.Random) -> None:
        super().__init__(rng=rng, clock=cluster.loop.time, pause=asyncio.sleep, resolver=_no_resolver)
        self.link = KafkaLink(name=name, principal="User:operator", host="/10.0.0.9")
        self.leaves: list[WireLeave] = []
        self.on_leave: list[Callable[[WireLeave], None]] = []
        self.releases: list[WireRelease] = []
        self.on_release: list[Callable[[WireRelease], None]] = []
        self.temporary: set[str] = set()
        self.alterations: list[tuple[float, dict[str, str | None]]] = []
        self._cluster = cluster

    def kill(self) -> None:
        """Refuse everything from now on: the operator's process is dead."""
        self.link.is_dead = True

    def _new_pool(self, settings: ConnectionSettings) -> ClusterPool:
        return _ModelPool(settings, gateway=self, cluster=self._cluster, rng=self._rng)


class _ModelPool(ClusterPool):
    """A pool whose connections lead into the model."""

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        gateway: ModelKafkaGateway,
        cluster: ModelKafkaCluster,
        rng: random.Random,
    ) -> None:
        super().__init__(settings, resolver=_no_resolver, rng=rng, clock=cluster.loop.time)
        self._gateway = gateway
        self._cluster = cluster

    async def _open(self, target: HostPort, deadline_s: float, adopts_cluster: bool) -> BrokerConnection:
        model = _ModelConnection(self._gateway, self._cluster, target, self.settings.principal)
        try:
            cluster = await model.call(metadata(), deadline_s)
        except Refusal as refusal:  # nothing was asked yet: the real one reports a failed connect in this way
            raise Refusal(refusal.problem, recovery=Recovery.BACK_OFF) from None
        self._admit(cluster, adopts_cluster)
        return cast(BrokerConnection, model)  # the same surface without a socket


class _ModelConnection:
    """What the pool and the gateway use of a `BrokerConnection`."""

    def __init__(
        self, gateway: ModelKafkaGateway, cluster: ModelKafkaCluster, target: HostPort, principal: str
    ) -> None:
        self.target = target
        self.in_flight = 0
        self.opened_at_s = self.used_at_s = cluster.loop.time()
        self.login_until_s = float("inf")
        self._gateway = gateway
        self._kafka = cluster
        self._principal = principal
        self._node_id = node_at(cluster, target)
        self._deaths = cluster.deaths(self._node_id)
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return not self._is_closed and self._kafka.deaths(self._node_id) == self._deaths

    @property
    def versions(self) -> VersionRanges:
        return API_VERSIONS

    def close(self) -> None:
        self._is_closed = True

    async def call(self, call: Call[T], deadline_s: float) -> T:
        """Send one request and read its answer; raises Refusal as `BrokerConnection.call` does."""
        version = negotiate(call.api, API_VERSIONS)
        if version is None:
            raise Refusal(too_old(self.target, call.api))
        request = call.build(load_request_schema(call.api, version), version)
        self.in_flight += 1
        try:
            return call.read(await self._ask(call.api, request, deadline_s - self._kafka.loop.time()), version)
        except ConnectionLost as error:
            self.close()
            problem = problem_of_failure(self.target, ConnectionError(str(error)))
            raise Refusal(problem, recovery=Recovery.FIND_COORDINATOR, sent=True) from None
        finally:
            self.in_flight -= 1

    async def _ask(self, api: Api, request: Any, timeout_s: float) -> Any:
        if api in AT_ANY_BROKER:
            answer = AT_ANY_BROKER[api]

            def work(exchange: Exchange) -> None:
                exchange.reply(answer(self._kafka, request, exchange))

            return await self._kafka.exchange(
                self._gateway.link, self._node_id, work, timeout_s=timeout_s, principal=self._principal
            )
        if api is Api.LEAVE_GROUP:
            return await self._leave(request, timeout_s)
        if api is Api.STREAMS_GROUP_HEARTBEAT and request.member_epoch == LEAVE:
            return await self._leave_alone(request, timeout_s)
        if api in (Api.CONSUMER_GROUP_HEARTBEAT, Api.STREAMS_GROUP_HEARTBEAT):
            return await self._release(api, request, timeout_s)
        if api is Api.INCREMENTAL_ALTER_CONFIGS:
            return await self._alter(request, timeout_s)
        response = await self._to_coordinator(to_model(api, request), timeout_s)
        if api is Api.JOIN_GROUP:
            self._gateway.temporary.add(response.member_id)
        return shown(api, response, is_hidden=(self._principal, "DESCRIBE_TOPIC") in self._kafka.denied)

    async def _to_coordinator(self, request: Request, timeout_s: float) -> Any:
        return await self._kafka.request(
            self._gateway.link, request, node_id=self._node_id, timeout_s=timeout_s, principal=self._principal
        )

    async def _alter(self, request: Any, timeout_s: float) -> Any:
        """Set settings of one group; the model's coordinator stands for the controller."""
        (resource,) = request.resources
        asked = AlterGroupConfigRequest(
            group_id=resource.resource_name,
            configs=tuple((c.name, c.value if c.config_operation == SET_OPERATION else None) for c in resource.configs),
            validate_only=request.validate_only,
        )
        if not self._gateway.link.is_dead and not request.validate_only:
            self._gateway.alterations.append((self._kafka.loop.time(), dict(asked.configs)))
        response = await self._to_coordinator(asked, timeout_s)
        return SimpleNamespace(responses=(SimpleNamespace(error_code=int(response.error_code)),))

    async def _leave(self, request: Any, timeout_s: float) -> Any:
        if all(m.member_id in self._gateway.temporary for m in request.members):
            own = tuple(MemberIdentity(member_id=m.member_id) for m in request.members)
            return await self._to_coordinator(LeaveGroupRequest(group_id=request.group_id, members=own), timeout_s)
        entries = tuple(
            MemberIdentity(member_id=m.member_id, group_instance_id=m.group_instance_id, reason=m.reason)
            for m in request.members
        )
        sent = WireLeave(
            operator=self._gateway.link.name,
            principal=self._principal,
            group_id=request.group_id,
            members=tuple((e.member_id, e.group_instance_id) for e in entries),
            reasons=tuple(e.reason for e in entries),
            invoked_s=self._kafka.loop.time(),
        )
        self._note_leave(sent)
        response = await self._to_coordinator(LeaveGroupRequest(group_id=request.group_id, members=entries), timeout_s)
        sent.returned_s, sent.error_code = self._kafka.loop.time(), int(response.error_code)
        sent.codes = tuple(int(m.error_code) for m in response.members)
        return response

    async def _leave_alone(self, request: Any, timeout_s: float) -> Any:
        """Send a heartbeat by which one member leaves a streams group."""
        sent = WireLeave(
            operator=self._gateway.link.name,
            principal=self._principal,
            group_id=request.group_id,
            members=((request.member_id, request.instance_id),),
            reasons=(None,),
            invoked_s=self._kafka.loop.time(),
        )
        self._note_leave(sent)
        response = await self._to_coordinator(heartbeat(Api.STREAMS_GROUP_HEARTBEAT, request), timeout_s)
        sent.returned_s, sent.error_code = self._kafka.loop.time(), int(response.error_code)
        sent.codes = (int(response.error_code),)
        return response

    def _note_leave(self, sent: WireLeave) -> None:
        if not self._gateway.link.is_dead:
            self._gateway.leaves.append(sent)
            for hook in self._gateway.on_leave:
                hook(sent)

    async def _release(self, api: Api, request: Any, timeout_s: float) -> Any:
        sent = WireRelease(
            operator=self._gateway.link.name,
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.instance_id,
            member_epoch=request.member_epoch,
        )
        if not self._gateway.link.is_dead:
            self._gateway.releases.append(sent)
            for hook in self._gateway.on_release:
                hook(sent)
        response = await self._to_coordinator(heartbeat(api, request), timeout_s)
        sent.error_code = int(response.error_code)
        return response


async def _no_resolver(host: str, port: int) -> tuple[str, ...]:
    raise AssertionError(f"the simulation was asked to resolve {host}:{port}")
