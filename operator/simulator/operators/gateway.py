"""The operator's real Kafka gateway over the model cluster.

Only sockets and bytes are replaced: pool, coordinator cache, retries, deadlines, batching and the meaning of every
error code are the product's own code. A model connection answers a `wire.Call` with objects of the shape that the
call's own `read` expects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from kio.index import load_request_schema

from coordinator_model.base.broker_config import group_defaults, properties
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    Request,
)
from coordinator_model.streams.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from staticgroup.kafka.addresses import HostPort
from staticgroup.kafka.answers import ClusterAnswer
from staticgroup.kafka.calls.reading import metadata
from staticgroup.kafka.calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, OWN_SOURCE, SET_OPERATION
from staticgroup.kafka.connection import BrokerConnection, problem_of_failure, too_old
from staticgroup.kafka.describe import GroupReader
from staticgroup.kafka.errors import Code, Recovery, Refusal
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.pool import ClusterPool
from staticgroup.kafka.wire import Api, Call, VersionRanges, negotiate

from ..kafka.cluster import LEAVE, ModelKafkaCluster
from ..kafka.network import ConnectionLost, Exchange, KafkaLink

T = TypeVar("T")
KAFKA_PORT = 9092
DEFAULT_SOURCE = 5
"""DescribeConfigsResponse.ConfigSource DEFAULT_CONFIG."""
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
    """One temporary leave as it was put on the wire; error_code None: no answer came, or its sender was dead by then."""

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
    alterations: (virtual seconds, values) of each change of a group's settings that was sent, in order.
    """

    def __init__(self, cluster: ModelKafkaCluster, *, name: str, rng: random.Random) -> None:
        super().__init__(rng=rng, clock=cluster.loop.time, pause=asyncio.sleep, resolver=_no_resolver)
        self.link = KafkaLink(name=name, principal="User:operator", host="/10.0.0.9")
        self.leaves: list[WireLeave] = []
        self.on_leave: list[Callable[[WireLeave], None]] = []
        self.releases: list[WireRelease] = []
        self.on_release: list[Callable[[WireRelease], None]] = []
        self.alterations: list[tuple[float, dict[str, str | None]]] = []
        self._cluster = cluster

    def kill(self) -> None:
        """Refuse everything from now on: the operator's process is dead."""
        self.link.is_dead = True

    def _pool(self, settings: ConnectionSettings) -> ClusterPool:
        if settings.fingerprint not in self._pools:
            pool = _ModelPool(settings, gateway=self, cluster=self._cluster, rng=self._rng)
            self._pools[settings.fingerprint] = pool
            self._readers[settings.fingerprint] = GroupReader(pool, pause=self._pause, rng=self._rng)
        return super()._pool(settings)


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
            model.cluster = await model.call(metadata(), deadline_s)
        except Refusal as refusal:  # nothing was asked yet: the real one reports a failed connect in this way
            raise Refusal(refusal.problem, recovery=Recovery.BACK_OFF) from None
        self._admit(model.cluster, adopts_cluster)
        return cast(BrokerConnection, model)  # the same surface without a socket


class _ModelConnection:
    """What the pool and the gateway use of a `BrokerConnection`."""

    def __init__(
        self, gateway: ModelKafkaGateway, cluster: ModelKafkaCluster, target: HostPort, principal: str
    ) -> None:
        self.target = target
        self.cluster = ClusterAnswer(cluster_id=None, brokers=())
        self.in_flight = 0
        self.opened_at_s = self.used_at_s = cluster.loop.time()
        self.login_until_s = float("inf")
        self._gateway = gateway
        self._kafka = cluster
        self._principal = principal
        self._node_id = _node_at(cluster, target)
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
        if api in _AT_ANY_BROKER:
            answer = _AT_ANY_BROKER[api]

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
        response = await self._to_coordinator(_to_model(api, request), timeout_s)
        return self._shown(api, response) if api in _SHOWN_MEMBERS else response

    async def _to_coordinator(self, request: Request, timeout_s: float) -> Any:
        return await self._kafka.request(
            self._gateway.link, request, node_id=self._node_id, timeout_s=timeout_s, principal=self._principal
        )

    async def _alter(self, request: Any, timeout_s: float) -> Any:
        """Set settings of one group; the coordinator of the model stands for the controller, which the brokers forward this to."""
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
        response = await self._to_coordinator(_heartbeat(Api.STREAMS_GROUP_HEARTBEAT, request), timeout_s)
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
        response = await self._to_coordinator(_heartbeat(api, request), timeout_s)
        sent.error_code = int(response.error_code)
        return response

    def _shown(self, api: Api, response: Any) -> Any:
        """Shape the description of a group that has epochs; without DESCRIBE on the topics it has no members and error 29."""
        is_hidden = (self._principal, "DESCRIBE_TOPIC") in self._kafka.denied
        groups = tuple(
            SimpleNamespace(
                group_id=group.group_id,
                error_code=Code.TOPIC_AUTHORIZATION_FAILED if is_hidden and group.members else group.error_code,
                group_state=group.group_state,
                group_epoch=group.group_epoch,
                assignment_epoch=group.assignment_epoch,
                members=() if is_hidden else tuple(_SHOWN_MEMBERS[api](member) for member in group.members),
            )
            for group in response.groups
        )
        return SimpleNamespace(groups=groups)


def broker_address(node_id: int) -> HostPort:
    """Return where a model broker is advertised."""
    return HostPort(host=f"broker-{node_id}.kafka.example.com", port=KAFKA_PORT)


def _node_at(cluster: ModelKafkaCluster, target: HostPort) -> int:
    """Return the broker at an address; any other address is a bootstrap server in front of all of them."""
    return next((n for n in cluster.brokers if broker_address(n) == target), cluster.any_broker())


def _metadata(cluster: ModelKafkaCluster, _request: Any, _exchange: Exchange) -> Any:
    brokers = tuple(_node(node_id) for node_id in cluster.brokers if cluster.is_up(node_id))
    return SimpleNamespace(cluster_id=cluster.cluster_id, brokers=brokers)


def _find_coordinator(cluster: ModelKafkaCluster, request: Any, exchange: Exchange) -> Any:
    def locate(key: str) -> Any:
        node_id = cluster.locate(key)
        if (exchange.principal, "DESCRIBE") in cluster.denied:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        else:
            code = ErrorCode.NONE if node_id is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
        found = _node(-1 if node_id is None else node_id)
        return SimpleNamespace(key=key, error_code=code, node_id=found.node_id, host=found.host, port=found.port)

    return SimpleNamespace(coordinators=tuple(locate(key) for key in request.coordinator_keys))


def _describe_configs(cluster: ModelKafkaCluster, request: Any, exchange: Exchange) -> Any:
    """Show broker and group settings as stored, not as clamped (ConfigHelper)."""
    refused: dict[int, int] = {}
    if (exchange.principal, "DESCRIBE_CONFIGS") in cluster.denied:
        refused = {
            BROKER_RESOURCE: Code.CLUSTER_AUTHORIZATION_FAILED,
            GROUP_RESOURCE: Code.GROUP_AUTHORIZATION_FAILED,
        }

    def values_of(resource: Any) -> dict[str, str]:
        if resource.resource_type == BROKER_RESOURCE:
            return properties(cluster.settings)
        return {**group_defaults(cluster.settings), **cluster.group_configs.get(resource.resource_name, {})}

    def is_own(resource: Any, name: str) -> bool:
        return resource.resource_type == GROUP_RESOURCE and name in cluster.group_configs.get(resource.resource_name, {})

    def result(resource: Any) -> Any:
        code = refused.get(resource.resource_type, Code.NONE)
        shown = {} if code else {k: v for k, v in values_of(resource).items() if k in resource.configuration_keys}
        return SimpleNamespace(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=code,
            configs=tuple(
                SimpleNamespace(name=name, value=value, config_source=OWN_SOURCE if is_own(resource, name) else DEFAULT_SOURCE)
                for name, value in shown.items()
            ),
        )

    return SimpleNamespace(results=tuple(result(resource) for resource in request.resources))


_AT_ANY_BROKER: Mapping[Api, Callable[[ModelKafkaCluster, Any, Exchange], Any]] = {
    Api.METADATA: _metadata,
    Api.FIND_COORDINATOR: _find_coordinator,
    Api.DESCRIBE_CONFIGS: _describe_configs,
}


def _to_model(api: Api, request: Any) -> Request:
    if api is Api.LIST_GROUPS:
        return ListGroupsRequest()
    if api is Api.DESCRIBE_GROUPS:
        return DescribeGroupsRequest(groups=tuple(request.groups))
    if api is Api.CONSUMER_GROUP_DESCRIBE:
        return ConsumerGroupDescribeRequest(group_ids=tuple(request.group_ids))
    if api is Api.STREAMS_GROUP_DESCRIBE:
        return StreamsGroupDescribeRequest(group_ids=tuple(request.group_ids))
    assert api is Api.HEARTBEAT, f"the model does not answer {api.name}"
    return HeartbeatRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )


def _heartbeat(api: Api, request: Any) -> Request:
    """Return a heartbeat by which somebody leaves, for good or for a while."""
    told = {"group_id": request.group_id, "member_id": request.member_id, "member_epoch": request.member_epoch}
    if api is Api.CONSUMER_GROUP_HEARTBEAT:
        return ConsumerGroupHeartbeatRequest(**told, group_instance_id=request.instance_id)
    return StreamsGroupHeartbeatRequest(
        **told, group_instance_id=request.instance_id, shutdown_application=request.shutdown_application
    )


def _shown_consumer(member: Any) -> Any:
    topics = tuple(SimpleNamespace(partitions=partitions) for _, partitions in member.assignment)
    return _shown_member(member, SimpleNamespace(topic_partitions=topics))


def _shown_thread(member: Any) -> Any:
    tasks = tuple(SimpleNamespace(partitions=partitions) for _, partitions in member.assignment.active_tasks)
    return _shown_member(member, SimpleNamespace(active_tasks=tasks))


_SHOWN_MEMBERS: Mapping[Api, Callable[[Any], Any]] = {
    Api.CONSUMER_GROUP_DESCRIBE: _shown_consumer,
    Api.STREAMS_GROUP_DESCRIBE: _shown_thread,
}


def _shown_member(member: Any, assignment: Any) -> Any:
    return SimpleNamespace(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        assignment=assignment,
    )


def _node(node_id: int) -> Any:
    address = broker_address(node_id)
    return SimpleNamespace(node_id=node_id, host=address.host, port=address.port)


async def _no_resolver(host: str, port: int) -> tuple[str, ...]:
    raise AssertionError(f"the simulation was asked to resolve {host}:{port}")
