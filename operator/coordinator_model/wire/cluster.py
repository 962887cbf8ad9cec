"""Everything a client asks of a broker besides groups: brokers, topics, their (empty) contents, settings.

One idea: one broker, one leader, empty partitions; the answers follow from the topic image and the settings alone.
Source: the message schemas of Kafka 4.4; ConfigHelper and ControllerApis for configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..base import messages as m
from ..base.broker_config import group_defaults, properties
from ..base.config_messages import AlterGroupConfigRequest
from ..base.errors import ErrorCode
from ..coordinator import GroupCoordinator
from .codec import SERVED, Api, Body
from .groups import UNKNOWN_TOPIC_ID, Peer
from .values import TopicIds

CLUSTER_ID = "coordinator-model-0000"
BROKER_RESOURCE, GROUP_RESOURCE = 4, 32
STATIC_BROKER, DEFAULT, GROUP_CONFIG = 4, 5, 8
"""ConfigResource.Type and DescribeConfigsResponse.ConfigSource."""
SET, DELETE = 0, 1
"""AlterConfigOp.OpType."""
INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS = 17, 36, 37
MAX_PARTITIONS = 10_000
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LEADER_EPOCH = 0


@dataclass(frozen=True, slots=True)
class Broker:
    """What the answers are made from.

    Parameters
    ----------
    host, port: the address that clients connect to.
    submit: carries out a request of the model and returns its answer; for requests that never wait.
    """

    coordinator: GroupCoordinator
    host: str
    port: int
    ids: TopicIds
    submit: Callable[[m.Request], m.Response]

    @property
    def node_id(self) -> int:
        """Return the broker's id."""
        return self.coordinator.settings.node_id

    def has(self, topic: str | None, partition: int) -> bool:
        """Say whether a partition exists."""
        return topic is not None and 0 <= partition < self.coordinator.image.partitions.get(topic, 0)


Answer = Callable[[Broker, int, Body, Peer], Body]


def api_versions(_broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer ApiVersions; the listener gives an error code when it could not read the request."""
    rows = [{"api_key": int(api), "min_version": low, "max_version": high} for api, (low, high) in SERVED.items()]
    return {"error_code": body.get("error_code", 0), "api_keys": rows}


def metadata(broker: Broker, version: int, body: Body, _peer: Peer) -> Body:
    """Answer Metadata: no topics named means all of them in v0, none of them later; null means all."""
    asked = body["topics"]
    if asked is None or (version == 0 and not asked):
        names: Iterable[tuple[str | None, object]] = [(name, None) for name in broker.coordinator.image.partitions]
    else:
        pairs = [(topic.get("name"), topic.get("topic_id")) for topic in asked]
        names = [(name if name is not None else broker.ids.name(topic_id), topic_id) for name, topic_id in pairs]
    return {
        "brokers": [{"node_id": broker.node_id, "host": broker.host, "port": broker.port}],
        "cluster_id": CLUSTER_ID,
        "controller_id": broker.node_id,
        "topics": [_topic(broker, version, name, topic_id) for name, topic_id in names],
    }


def _topic(broker: Broker, version: int, name: str | None, topic_id: object) -> Body:
    if name is None:
        return {"error_code": UNKNOWN_TOPIC_ID, "name": None if version >= 12 else "", "topic_id": topic_id}
    count = broker.coordinator.image.partitions.get(name)
    if count is None:
        return {"error_code": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "name": name}
    node = (broker.node_id,)
    rows = [
        {
            "partition_index": index,
            "leader_id": broker.node_id,
            "leader_epoch": _LEADER_EPOCH,
            "replica_nodes": node,
            "isr_nodes": node,
        }
        for index in range(count)
    ]
    return {"name": name, "topic_id": broker.ids.of(name), "partitions": rows}


def create_topics(broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer CreateTopics: the number of partitions is all that counts here; -1 is the broker's default, 1."""
    answers = []
    for topic in body["topics"]:
        name, count = topic["name"], 1 if topic["num_partitions"] == -1 else topic["num_partitions"]
        refusal = topic_refusal(name, count)
        if refusal is None and name in broker.coordinator.image.partitions:
            refusal = TOPIC_ALREADY_EXISTS
        if refusal is not None:
            answers.append({"name": name, "error_code": refusal})
            continue
        if not body.get("validate_only"):
            broker.coordinator.image = broker.coordinator.image.with_topic(name, count)
        answers.append({"name": name, "topic_id": broker.ids.of(name), "num_partitions": count})
    return {"topics": answers}


def topic_refusal(name: str, partitions: int) -> int | None:
    """Return the error code for a topic that cannot be made; None when it can.

    Source: Topic.validate; ReplicationControlManager.createTopic. The upper bound is the model's own.
    """
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        return INVALID_TOPIC_EXCEPTION
    return None if 1 <= partitions <= MAX_PARTITIONS else INVALID_PARTITIONS


def describe_cluster(broker: Broker, _version: int, _body: Body, _peer: Peer) -> Body:
    """Answer DescribeCluster."""
    node = {"broker_id": broker.node_id, "host": broker.host, "port": broker.port}
    return {"cluster_id": CLUSTER_ID, "controller_id": broker.node_id, "brokers": [node]}


def list_offsets(broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer ListOffsets: every partition begins and ends at 0."""

    def row(topic: str, partition: int) -> Body:
        if not broker.has(topic, partition):
            return {"partition_index": partition, "error_code": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        return {"partition_index": partition, "offset": 0, "leader_epoch": _LEADER_EPOCH}

    return {"topics": [_rows(topic, row, "name", "partition_index") for topic in body["topics"]]}


def offset_for_leader_epoch(broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer OffsetForLeaderEpoch: the one epoch ends at 0."""

    def row(topic: str, partition: int) -> Body:
        if not broker.has(topic, partition):
            return {"partition": partition, "error_code": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        return {"partition": partition, "leader_epoch": _LEADER_EPOCH, "end_offset": 0}

    return {"topics": [_rows(topic, row, "topic", "partition") for topic in body["topics"]]}


def _rows(topic: Body, row: Callable[[str, int], Body], name: str, index: str) -> Body:
    return {name: topic[name], "partitions": [row(topic[name], each[index]) for each in topic["partitions"]]}


def fetch(broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer Fetch: nothing is there; the listener has waited before.

    Records are an empty set, never null, also beside an error (FetchResponse.partitionResponse of Kafka 4.4).
    """

    def partition(name: str | None, index: int) -> Body:
        if broker.has(name, index):
            return {"partition_index": index, "last_stable_offset": 0, "log_start_offset": 0, "records": b""}
        code = UNKNOWN_TOPIC_ID if name is None else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {"partition_index": index, "error_code": code, "high_watermark": -1, "records": b""}

    def topic(each: Body) -> Body:
        name = each["topic"] if "topic" in each else broker.ids.name(each["topic_id"])
        return {**each, "partitions": [partition(name, p["partition"]) for p in each["partitions"]]}

    return {"responses": [topic(each) for each in body["topics"]]}


def describe_configs(broker: Broker, _version: int, body: Body, _peer: Peer) -> Body:
    """Answer DescribeConfigs for GROUP resources (any name, also one without settings) and for the broker."""
    return {"results": [_described(broker, resource) for resource in body["resources"]]}


def _described(broker: Broker, resource: Body) -> Body:
    kind, name = resource["resource_type"], resource["resource_name"]
    settings = broker.coordinator.settings
    head = {"resource_type": kind, "resource_name": name, "error_message": None}
    own: dict[str, str] = {}
    if kind == GROUP_RESOURCE and name:
        own = broker.coordinator.group_configs.get(name, {})
        values, source = group_defaults(settings), DEFAULT
    elif kind == BROKER_RESOURCE and name == str(broker.node_id):
        values, source = properties(settings), STATIC_BROKER
    else:
        return {**head, "error_code": int(ErrorCode.INVALID_REQUEST), "error_message": "no such resource here"}
    wanted = resource["configuration_keys"]
    rows = [
        {"name": key, "value": own.get(key, value), "config_source": GROUP_CONFIG if key in own else source}
        for key, value in {**values, **own}.items()
        if wanted is None or key in wanted
    ]
    return {**head, "configs": [{**row, "read_only": kind == BROKER_RESOURCE} for row in rows]}


def alter_configs(broker: Broker, _version: int, body: Body, peer: Peer) -> Body:
    """Answer IncrementalAlterConfigs; only GROUP resources can be altered, as Kafka's session bounds are static."""
    only = bool(body["validate_only"])
    return {"responses": [_altered(broker, resource, peer, validate_only=only) for resource in body["resources"]]}


def _altered(broker: Broker, resource: Body, peer: Peer, *, validate_only: bool) -> Body:
    kind, name = resource["resource_type"], resource["resource_name"]
    head = {"resource_type": kind, "resource_name": name, "error_message": None}
    operations = {each["config_operation"] for each in resource["configs"]}
    if kind != GROUP_RESOURCE or not operations <= {SET, DELETE}:
        message = "only SET and DELETE on resources of type GROUP are served"
        return {**head, "error_code": int(ErrorCode.INVALID_REQUEST), "error_message": message}
    changes = tuple((c["name"], c["value"] if c["config_operation"] == SET else None) for c in resource["configs"])
    request = AlterGroupConfigRequest(
        group_id=name,
        configs=changes,
        validate_only=validate_only,
        client_id=peer.client_id,
        client_host=peer.client_host,
    )
    answer = broker.submit(request)
    return {**head, "error_code": int(answer.error_code), "error_message": answer.error_message}


CLUSTER_APIS: dict[Api, Answer] = {
    Api.API_VERSIONS: api_versions,
    Api.METADATA: metadata,
    Api.CREATE_TOPICS: create_topics,
    Api.DESCRIBE_CLUSTER: describe_cluster,
    Api.LIST_OFFSETS: list_offsets,
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    Api.FETCH: fetch,
    Api.DESCRIBE_CONFIGS: describe_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: alter_configs,
}
