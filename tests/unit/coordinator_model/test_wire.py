"""Answers of the listener to requests without groups: the bytes of Fetch, and settings that are only validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.answers import answered
from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.wire.cluster import CLUSTER_APIS, DELETE, GROUP_RESOURCE, SET, Broker
from coordinator_model.wire.codec import Api, Body, decode, encode, response_type
from coordinator_model.wire.groups import Peer
from coordinator_model.wire.values import TopicIds


@pytest.fixture
def broker() -> Broker:
    coordinator = GroupCoordinator(image=TopicImage({"orders": 1}))

    def submit(request: m.Request) -> m.Response:
        return answered(coordinator.handle(request, 0).response)

    return Broker(coordinator, "127.0.0.1", 9092, TopicIds(lambda: coordinator.image), submit)


def ask(broker: Broker, api: Api, version: int, body: Mapping[str, Any]) -> Body:
    return CLUSTER_APIS[api](broker, version, dict(body), Peer("client", "/127.0.0.1"))


def fetched(broker: Broker, version: int, partition: int) -> bytes:
    """Return the bytes of the answer to a Fetch of one partition of orders."""
    wanted = {"partition": partition, "fetch_offset": 0}
    named = {"topic": "orders"} if version < 13 else {"topic_id": broker.ids.of("orders")}
    body = ask(broker, Api.FETCH, version, {"topics": [{**named, "partitions": [wanted]}]})
    return encode(response_type(Api.FETCH, version), body)


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize(("partition", "code"), [(0, ErrorCode.NONE), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
def test_fetch_answers_an_empty_record_set_and_never_null(
    broker: Broker, version: int, partition: int, code: ErrorCode
) -> None:
    """FetchResponse.partitionResponse and ReplicaManager answer MemoryRecords.EMPTY; kafka-python dies of a null."""
    body, _ = decode(response_type(Api.FETCH, version), fetched(broker, version, partition))
    (answered,) = body["responses"][0]["partitions"]
    assert (answered["error_code"], answered["records"]) == (code, b"")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (4, "0000000000000001 0006 6f7264657273 00000001 00000000 0000" + "00" * 16 + "ffffffff 00000000"),
        (12, "00000000 0000 00000000 02 07 6f7264657273 02 00000000 0000" + "00" * 24 + "00 ffffffff 01 00 00 00"),
    ],
)
def test_the_bytes_of_a_fetch_answer(broker: Broker, version: int, expected: str) -> None:
    """FetchResponseData of kafka-clients 4.4.0 writes these bytes for MemoryRecords.EMPTY: no transactions, 0 bytes.

    A reader of records, such as kafka-python 3.0, takes a length of 0 (compact: 1) and no other for an empty set.
    """
    assert fetched(broker, version, 0) == bytes.fromhex(expected)


def alter(broker: Broker, *, validate_only: bool, **operation: object) -> Body:
    config = {"name": "consumer.session.timeout.ms", "config_operation": SET, **operation}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": [config]}
    body = {"resources": [resource], "validate_only": validate_only}
    answered: Body = ask(broker, Api.INCREMENTAL_ALTER_CONFIGS, 1, body)["responses"][0]
    return answered


def test_settings_that_are_only_tried_are_judged_and_not_applied(broker: Broker) -> None:
    """ConfigurationControlManager.incrementalAlterConfigs and ControllerApis:
    validateOnly returns before any record.
    """
    tried = alter(broker, validate_only=True, value="50000")
    assert (tried["error_code"], broker.coordinator.group_configs) == (ErrorCode.NONE, {})
    refused = alter(broker, validate_only=True, value="60001")
    assert refused["error_code"] == ErrorCode.INVALID_CONFIG
    assert alter(broker, validate_only=False, value="50000")["error_code"] == ErrorCode.NONE
    alter(broker, validate_only=True, value=None, config_operation=DELETE)
    assert broker.coordinator.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
