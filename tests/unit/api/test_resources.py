"""The models against the wire: round trips, defaults, and that nothing undocumented or unbounded gets in."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from staticgroup.api.protocols import ProtocolChoice, RoleChoice
from staticgroup.api.resources.client import ClientType
from staticgroup.api.resources.clusterkafkaconnection import ClusterKafkaConnection
from staticgroup.api.resources.kafkaconnection import KafkaConnection
from staticgroup.api.resources.memory import Settling
from staticgroup.api.resources.staticgroup import Mode, StaticGroup, StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from support.full_status import at_default, full_status
from support.manifests import accepted

VALID = accepted()
MINIMAL: dict[str, Any] = {
    "apiVersion": "staticgroup.io/v1alpha1",
    "kind": "StaticGroup",
    "metadata": {"name": "orders", "namespace": "ns"},
    "spec": {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"},
}


def test_the_shortest_object_is_defaulted_at_every_level() -> None:
    spec = StaticGroup.from_wire(MINIMAL).spec.to_wire()
    assert spec == MINIMAL["spec"] | {
        "mode": "Manage",
        "workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "connectionRef": {"kind": "KafkaConnection", "name": "kafka"},
        "groupProtocol": "Auto",
        "client": {"type": "Generic", "concurrency": 1, "suffixes": [], "env": [], "injectAgent": False},
        "assumeExclusive": False,
        "sessionTimeout": {"writeGroupConfig": False},
        "removal": "Departed",
        "onTopicChange": "Rebalance",
    }


@pytest.mark.parametrize("protocol", ProtocolChoice)
@pytest.mark.parametrize("kind", ClientType)
def test_what_the_members_are_follows_from_their_client(kind: ClientType, protocol: ProtocolChoice) -> None:
    spec = StaticGroupSpec.model_validate(MINIMAL["spec"] | {"client": {"type": kind}, "groupProtocol": protocol})
    if kind in (ClientType.CONNECT, ClientType.DEBEZIUM):
        assert spec.role is RoleChoice.CONNECT
    else:
        is_streams = kind is ClientType.KAFKA_STREAMS or protocol is ProtocolChoice.STREAMS
        assert spec.role is (RoleChoice.STREAMS if is_streams else RoleChoice.CONSUMER)


@pytest.mark.parametrize("kind", ClientType)
def test_a_template_that_is_left_out_has_the_scope_where_the_operator_issues_the_ids(kind: ClientType) -> None:
    body = MINIMAL["spec"] | {"client": {"type": kind}}
    default = "{podName}" if kind is ClientType.OWN else "{podName}.{scope}"
    assert StaticGroupSpec.model_validate(body).template == default
    written = body | {"idTemplate": "{workloadName}-{ordinal}"}
    assert StaticGroupSpec.model_validate(written).template == "{workloadName}-{ordinal}"


@pytest.mark.parametrize("body", VALID.values(), ids=VALID)
def test_a_manifest_that_the_api_server_takes_round_trips(body: dict[str, Any]) -> None:
    body = body | {"metadata": body["metadata"] | {"namespace": "ns"}}
    kinds = (StaticGroup, KafkaConnection, ClusterKafkaConnection)
    models = {m.__name__: m for m in kinds}
    model = models[body["kind"]]
    parsed = model.from_wire(body)
    assert model.from_wire(json.loads(json.dumps(parsed.to_wire()))) == parsed


def test_a_full_status_round_trips_through_json() -> None:
    """Every field is set; one that a new version adds must be set too, or nothing shows that it survives."""
    status = full_status()
    assert list(at_default(status)) == []
    wire = json.loads(json.dumps(status.to_wire()))
    assert StaticGroupStatus.model_validate(wire) == status
    assert wire["memory"]["seats"][0]["firstSeen"] == "2026-01-02T03:04:05.250000Z"


@given(
    st.datetimes(timezones=st.timezones(no_cache=True), min_value=datetime(1971, 1, 1), max_value=datetime(9000, 1, 1))
)
def test_a_time_of_any_zone_is_written_in_utc_and_means_the_same(moment: datetime) -> None:
    wire = Settling(instance_id="i", member_id="m", coordinator="1@b:1", acknowledged_at=moment).to_wire()[
        "acknowledgedAt"
    ]
    assert wire.endswith("Z")
    # In UTC, because Python calls two times in a zone's fold unequal whatever they mean.
    assert Settling.model_validate(
        {"instanceId": "i", "memberId": "m", "coordinator": "1@b:1", "acknowledgedAt": wire}
    ).acknowledged_at == moment.astimezone(UTC)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValidationError):
        Settling(instance_id="i", member_id="m", coordinator="1@b:1", acknowledged_at=datetime(2026, 1, 1))


def test_a_field_of_a_newer_version_is_ignored() -> None:
    body = MINIMAL | {"spec": MINIMAL["spec"] | {"fromTheFuture": 1}, "status": {"alsoNew": True}}
    parsed = StaticGroup.from_wire(body)
    assert parsed.spec == StaticGroup.from_wire(MINIMAL).spec


def test_models_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        StaticGroup.from_wire(MINIMAL).spec.mode = Mode.SUSPENDED  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"groupId": ""},
        {"groupId": "g" * 250},
        {"mode": "Dry"},
        {"removal": "Always"},
        {"sessionTimeout": {"seconds": 1801}},
        {"client": {"concurrency": 65}},
        {"client": {"suffixes": ["0"]}},
    ],
)
def test_a_value_out_of_bounds_is_refused_without_an_api_server_too(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StaticGroup.from_wire(MINIMAL | {"spec": MINIMAL["spec"] | change})


CONNECTION: dict[str, Any] = {"bootstrapServers": ["kafka-0.example.com:9092"]}
CLUSTER_IDS = {
    "Apache Kafka": "MkU3OEVBNTcwNTJENDM2Qk",
    "Confluent Cloud": "lkc-1abc2d",
    "Redpanda": "redpanda.2d339cd9-b540-484d-80da-16cd0650e49b",
    "WarpStream": "vci_1d4930d7_8e6d_4ad9_b27a_654ed4aaa3ee",
    "a name that an administrator chose (Redpanda's cluster_id)": "Orders & Payments (east)",
    "the longest that a recommendation may name": "c" * 253,
}
"""As brokers report them; Redpanda takes any text for its property cluster_id."""


@pytest.mark.parametrize("cluster_id", CLUSTER_IDS.values(), ids=CLUSTER_IDS.keys())
def test_every_cluster_id_that_brokers_report_can_be_expected(cluster_id: str) -> None:
    body = {"metadata": {"name": "kafka", "namespace": "ns"}, "spec": CONNECTION | {"clusterId": cluster_id}}
    body["status"] = {"clusterId": cluster_id}
    connection = KafkaConnection.from_wire(body)
    assert connection.status is not None
    assert connection.spec.cluster_id == connection.status.cluster_id == cluster_id


@pytest.mark.parametrize("cluster_id", ["", " redpanda.1", "redpanda.1 ", "redpanda.1\n", "a\tb", "c" * 254])
def test_a_cluster_id_that_was_copied_with_something_around_it_is_refused(cluster_id: str) -> None:
    with pytest.raises(ValidationError, match="clusterId"):
        KafkaConnection.from_wire({"metadata": {"name": "kafka"}, "spec": CONNECTION | {"clusterId": cluster_id}})
