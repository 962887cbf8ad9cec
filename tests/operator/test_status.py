"""A status as the operator writes it, against a real API server: nothing is pruned, changed or refused."""

import json
from typing import Any

import pytest
from live_cluster import Kubectl

from staticgroup.api.names import FIELD_MANAGER
from staticgroup.api.resources import status as api
from support.full_status import full_status

pytestmark = pytest.mark.cluster

ETCD_REQUEST_BYTES_MAX = 1_572_864  # etcd --max-request-bytes


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
    status = full_status(is_crowded=True)
    stored = report(kubectl, group, status)
    assert stored["status"] == status.to_wire()
    assert api.StaticGroupStatus.model_validate(stored["status"]) == status
    assert len(json.dumps(stored)) < ETCD_REQUEST_BYTES_MAX


def test_what_a_later_status_leaves_out_is_gone(kubectl: Kubectl, group: dict[str, Any]) -> None:
    """Server-side apply removes what its manager no longer names: None in a model means absent."""
    report(kubectl, group, full_status(is_crowded=True))
    less = api.StaticGroupStatus(observed_generation=2, members=api.MembersStatus(expected=1))
    stored = report(kubectl, group, less)["status"]
    # Parsed, because an emptied list-map vanishes where an emptied atomic list stays as [].
    assert api.StaticGroupStatus.model_validate(stored) == less
    assert {"injected", "lastRemoval", "sessionTimeout"}.isdisjoint(stored)
    assert {"watch", "issued", "absences", "writer"}.isdisjoint(stored["memory"])


def test_a_status_out_of_bounds_is_refused_by_the_api_server_too(kubectl: Kubectl, group: dict[str, Any]) -> None:
    wire = {"members": {"expected": -1}}
    answer = kubectl.run(
        "apply", "--server-side", "--subresource=status", "-f", "-", stdin=json.dumps(group | {"status": wire})
    )
    assert answer.returncode != 0
    assert "status.members.expected" in answer.stderr
