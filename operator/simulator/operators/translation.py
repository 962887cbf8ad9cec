"""Translates the operator's kio requests to the coordinator model, and the model's answers for `read`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from coordinator_model.base.broker_config import group_defaults, properties
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    Protocol,
    Request,
)
from coordinator_model.streams.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from staticgroup.kafka.addresses import HostPort
from staticgroup.kafka.calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, OWN_SOURCE
from staticgroup.kafka.errors import Code
from staticgroup.kafka.wire import Api

from ..kafka.cluster import ModelKafkaCluster
from ..kafka.network import Exchange

KAFKA_PORT = 9092
UNKNOWN_TOPIC_OR_PARTITION = 3
DEFAULT_SOURCE = 5
"""DescribeConfigsResponse.ConfigSource DEFAULT_CONFIG."""


def broker_address(node_id: int) -> HostPort:
    """Return where a model broker is advertised."""
    return HostPort(host=f"broker-{node_id}.kafka.example.com", port=KAFKA_PORT)


def node_at(cluster: ModelKafkaCluster, target: HostPort) -> int:
    """Return the broker at an address; any other address is a bootstrap server in front of all of them."""
    return next((n for n in cluster.brokers if broker_address(n) == target), cluster.any_broker())


def _metadata(cluster: ModelKafkaCluster, request: Any, exchange: Exchange) -> Any:
    brokers = tuple(_node(node_id) for node_id in cluster.brokers if cluster.is_up(node_id))
    is_hidden = (exchange.principal, "DESCRIBE_TOPIC") in cluster.denied

    def shown(name: str) -> Any:
        count = cluster.image.partitions.get(name, 0)
        code = Code.topic_authorization_failed if is_hidden else Code.none if count else UNKNOWN_TOPIC_OR_PARTITION
        return SimpleNamespace(name=name, error_code=code, partitions=(None,) * (0 if code else count))

    topics = tuple(shown(each.name) for each in request.topics or ())
    return SimpleNamespace(cluster_id=cluster.cluster_id, brokers=brokers, topics=topics)


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
            BROKER_RESOURCE: Code.cluster_authorization_failed,
            GROUP_RESOURCE: Code.group_authorization_failed,
        }

    def values_of(resource: Any) -> dict[str, str]:
        if resource.resource_type == BROKER_RESOURCE:
            return properties(cluster.settings)
        return {**group_defaults(cluster.settings), **cluster.group_configs.get(resource.resource_name, {})}

    def is_own(resource: Any, name: str) -> bool:
        return resource.resource_type == GROUP_RESOURCE and name in cluster.group_configs.get(
            resource.resource_name, {}
        )

    def result(resource: Any) -> Any:
        code = refused.get(resource.resource_type, Code.none)
        shown = {} if code else {k: v for k, v in values_of(resource).items() if k in resource.configuration_keys}
        return SimpleNamespace(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=code,
            configs=tuple(
                SimpleNamespace(
                    name=name, value=value, config_source=OWN_SOURCE if is_own(resource, name) else DEFAULT_SOURCE
                )
                for name, value in shown.items()
            ),
        )

    return SimpleNamespace(results=tuple(result(resource) for resource in request.resources))


AT_ANY_BROKER: Mapping[Api, Callable[[ModelKafkaCluster, Any, Exchange], Any]] = {
    Api.METADATA: _metadata,
    Api.FIND_COORDINATOR: _find_coordinator,
    Api.DESCRIBE_CONFIGS: _describe_configs,
}


def to_model(api: Api, request: Any) -> Request:
    """Return a request of the operator as one of the model."""
    if api is Api.LIST_GROUPS:
        return ListGroupsRequest()
    if api is Api.DESCRIBE_GROUPS:
        return DescribeGroupsRequest(groups=tuple(request.groups))
    if api is Api.CONSUMER_GROUP_DESCRIBE:
        return ConsumerGroupDescribeRequest(api_version=1, group_ids=tuple(request.group_ids))
    if api is Api.STREAMS_GROUP_DESCRIBE:
        return StreamsGroupDescribeRequest(group_ids=tuple(request.group_ids))
    if api is Api.JOIN_GROUP:
        return JoinGroupRequest(
            api_version=5,
            group_id=request.group_id,
            member_id=request.member_id,
            session_timeout_ms=request.session_timeout // timedelta(milliseconds=1),
            rebalance_timeout_ms=request.rebalance_timeout // timedelta(milliseconds=1),
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
        )
    assert api is Api.HEARTBEAT, f"the model does not answer {api.name}"
    return HeartbeatRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )


def heartbeat(api: Api, request: Any) -> Request:
    """Return the heartbeat of a leave, for good or temporary."""
    common = {"group_id": request.group_id, "member_id": request.member_id, "member_epoch": request.member_epoch}
    if api is Api.CONSUMER_GROUP_HEARTBEAT:
        return ConsumerGroupHeartbeatRequest(**common, group_instance_id=request.instance_id)
    return StreamsGroupHeartbeatRequest(
        **common, group_instance_id=request.instance_id, shutdown_application=request.shutdown_application
    )


def shown(api: Api, response: Any, *, is_hidden: bool) -> Any:
    """Shape the description of a group that has epochs, and leave any other answer as it is.

    Parameters
    ----------
    is_hidden: the sender lacks DESCRIBE on the topics: then there are no members, and error 29 where there were any.
    """
    if api not in _SHOWN_MEMBERS:
        return response
    groups = tuple(
        SimpleNamespace(
            group_id=group.group_id,
            error_code=Code.topic_authorization_failed if is_hidden and group.members else group.error_code,
            group_state=group.group_state,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            members=() if is_hidden else tuple(_SHOWN_MEMBERS[api](member) for member in group.members),
        )
        for group in response.groups
    )
    return SimpleNamespace(groups=groups)


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
        member_type=getattr(member, "member_type", -1),
        assignment=assignment,
    )


def _node(node_id: int) -> Any:
    address = broker_address(node_id)
    return SimpleNamespace(node_id=node_id, host=address.host, port=address.port)
