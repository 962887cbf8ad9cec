"""A status as the operator writes it, against a real API server: nothing is pruned, changed or refused."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from live_cluster import Kubectl

from staticgroup.api import status as api
from staticgroup.api.conditions import set_condition, stated
from staticgroup.api.names import FIELD_MANAGER, INSTANCE_ID_ANNOTATION
from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason

pytestmark = pytest.mark.cluster

T0 = datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
ETCD_REQUEST_BYTES_MAX = 1_572_864  # etcd --max-request-bytes


def crowded_status() -> api.StaticGroupStatus:
    """Every field set and every list full, with ids of a usual length."""
    conditions = ()
    for kind in ConditionType:
        new = stated(kind, Reason.NOT_OBSERVED_YET, status=ConditionStatus.UNKNOWN, message="so", observed_generation=1, now=T0)
        conditions = set_condition(conditions, new, T0)
    ids = [f"orders-consumer-{number}.3fa9c1d2" for number in range(api.INCARNATIONS_MAX)]
    member = "orders-consumer-4.3fa9c1d2-3f2b0a52-8f5e-4b0e-9d07-0b2f5a1c9c11"
    return api.StaticGroupStatus(
        observed_generation=1,
        conditions=list(conditions),
        protocol=api.GroupProtocol.CONSUMER,
        group_state="Stable",
        columns=api.Columns(members="3/4", timeout="45s"),
        injected=api.Injected(
            scope="3fa9c1d2",
            watch_epoch="1",
            method=api.InjectedMethod.POLICY,
            id_template="{podName}.3fa9c1d2",
            session_timeout_ms=45_000,
            suffix_follows_preset=True,
            ids=[
                api.InjectedId(annotation=f"{INSTANCE_ID_ANNOTATION}.{n}", suffix=f"-{n}")
                for n in range(api.INJECTED_IDS_MAX)
            ],
            env=[
                api.InjectedEnv(container="", name=f"ID_{n}", annotation=f"{INSTANCE_ID_ANNOTATION}.{n}")
                for n in range(api.INJECTED_ENV_MAX)
            ],
        ),
        issued=api.Issued(ordinals="0-4,7", templates=["{podName}"] * api.TEMPLATES_MAX),
        members=api.Members(expected=4, joined=3, away=1, missing=1, departed=1, foreign=1, dynamic=1, conflicting=1),
        exceptions=[
            api.MemberException(
                instance_id=i,
                pod_name="p",
                kind=api.ExceptionKind.SUSPECT,
                reason="NodeSilent",
                message="m" * 300,
                since=T0,
            )
            for i in ids[: api.EXCEPTIONS_MAX]
        ],
        ledger=api.Ledger(
            overflow=True,
            incarnations=[
                api.Incarnation(
                    pod_name=f"orders-consumer-{number}",
                    uid=f"3f2b0a52-8f5e-4b0e-9d07-{number:012d}",
                    instance_ids=[i],
                    node_name="node",
                    state=api.IncarnationState.SUSPECT if number % 2 else api.IncarnationState.DEAD,
                    certificate=None if number % 2 else api.Certificate.E1_PRIME,
                    confirmed_by="b" * 256 if number % 2 else None,
                    evidence="e" * 300,
                    since=T0,
                    resource_version="1700000",
                )
                for number, i in enumerate(ids)
            ],
        ),
        settling=[
            api.Settling(instance_id=i, member_id=member, coordinator="1 (b:9092)", acknowledged_at=T0)
            for i in ids[: api.SETTLING_MAX]
        ],
        last_removal=api.LastRemoval(
            at=T0, instance_id=ids[0], member_id=member, certificate=api.Certificate.E1, reason="scaled 5→4"
        ),
        last_confirmed_removal=api.ConfirmedRemoval(
            at=T0, instance_id=ids[0], member_id=member, confirmed_by="b" * 256, reason="scaled 5→4"
        ),
        timeout=api.Timeout(
            effective_ms=45_000,
            recommended=api.Recommended(lower_ms=1, target_ms=2, upper_ms=3, uncapped_ms=4),
            samples=7,
            source=api.TimeoutSource.BROKER,
            broker_min_ms=45_000,
            broker_max_ms=60_000,
        ),
    )


@pytest.fixture
def group(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    metadata = {"name": "reported", "namespace": namespace}
    body = {"apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": metadata}
    spec = {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    kubectl.apply(body | {"spec": spec})
    return body


def report(kubectl: Kubectl, group: dict[str, Any], status: api.StaticGroupStatus) -> dict[str, Any]:
    arguments = ("--subresource=status", f"--field-manager={FIELD_MANAGER}")
    kubectl.apply(group | {"status": status.to_wire()}, *arguments)
    name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]
    stored: dict[str, Any] = json.loads(kubectl.must("get", "ksg", name, "-n", namespace, "-o", "json"))
    return stored


def test_a_status_with_every_list_full_is_stored_as_written(kubectl: Kubectl, group: dict[str, Any]) -> None:
    status = crowded_status()
    stored = report(kubectl, group, status)
    assert stored["status"] == status.to_wire()
    assert api.StaticGroupStatus.model_validate(stored["status"]) == status
    assert len(json.dumps(stored)) < ETCD_REQUEST_BYTES_MAX / 2


def test_what_a_later_status_leaves_out_is_gone(kubectl: Kubectl, group: dict[str, Any]) -> None:
    """Server-side apply removes what its manager no longer names: None in a model means absent."""
    report(kubectl, group, crowded_status())
    less = api.StaticGroupStatus(observed_generation=2, members=api.Members(expected=1))
    stored = report(kubectl, group, less)["status"]
    # Parsed, because an emptied list-map vanishes where an emptied atomic list stays as [].
    assert api.StaticGroupStatus.model_validate(stored) == less
    assert {"injected", "ledger", "lastRemoval", "columns"}.isdisjoint(stored)


def test_a_status_out_of_bounds_is_refused_by_the_api_server_too(kubectl: Kubectl, group: dict[str, Any]) -> None:
    wire = {"members": {"expected": -1}}
    answer = kubectl.run(
        "apply", "--server-side", "--subresource=status", "-f", "-", stdin=json.dumps(group | {"status": wire})
    )
    assert answer.returncode != 0
    assert "status.members.expected" in answer.stderr
