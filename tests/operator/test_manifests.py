"""What the API server accepts and refuses, with the committed CRDs; its message must name the field and the remedy."""

import json
import re
from typing import Any

import pytest
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.resources.clusterkafkaconnection import ClusterKafkaConnection
from staticgroup.api.resources.kafkaconnection import Connection, KafkaConnection
from staticgroup.api.resources.staticgroup import StaticGroup
from support.manifests import Refused, accepted, refused

pytestmark = pytest.mark.cluster

VALID = accepted()
INVALID = refused()
MODELS: dict[str, type[StaticGroup | Connection]] = {
    model.__name__: model for model in (StaticGroup, KafkaConnection, ClusterKafkaConnection)
}


def test_the_collection_is_large_enough_to_mean_something() -> None:
    assert (len(VALID) >= 15, len(INVALID) >= 45) == (True, True)


@pytest.mark.parametrize("body", VALID.values(), ids=VALID)
def test_a_valid_manifest_is_accepted_and_defaulted_as_the_models_default_it(
    body: dict[str, Any], kubectl: Kubectl, namespace: str
) -> None:
    """Both sides fill in the defaults; they must agree at every level, so that policy and operator see the same."""
    manifest = json.dumps(body)
    try:
        # What apply prints is what the API server answered, which is the object as it is stored.
        stored = json.loads(kubectl.must("apply", "-n", namespace, "-f", "-", "-o", "json", stdin=manifest))
    finally:
        kubectl.run("delete", "-n", namespace, "-f", "-", "--wait=false", stdin=manifest)
    model = MODELS[body["kind"]]
    ours = model.from_wire(body | {"metadata": body["metadata"] | {"namespace": namespace}})
    assert model.from_wire(stored).spec == ours.spec
    assert stored["spec"] == ours.spec.to_wire()


@pytest.mark.parametrize("case", INVALID.values(), ids=INVALID)
def test_an_invalid_manifest_is_refused_with_field_and_remedy(case: Refused, kubectl: Kubectl, namespace: str) -> None:
    manifest = json.dumps(case.before)
    try:
        if case.before:
            kubectl.must("apply", "-n", namespace, "-f", "-", stdin=manifest)
        answer = kubectl.run("apply", "-n", namespace, "-f", "-", stdin=json.dumps(case.body))
    finally:
        if case.before:
            kubectl.run("delete", "-n", namespace, "-f", "-", "--ignore-not-found", "--wait=false", stdin=manifest)
    assert answer.returncode != 0
    assert re.search(rf"(?<![\w.]){re.escape(case.field)}(?![\w\[])", answer.stderr), answer.stderr
    assert case.message in answer.stderr


def test_the_crds_apply_cleanly_and_again_without_a_change(kubectl: Kubectl, crds: str) -> None:
    plural = {"staticgroups", "kafkaconnections", "clusterkafkaconnections"}
    again = kubectl.run("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
    assert (again.returncode, again.stderr) == (0, "")
    for name in plural:
        live = json.loads(kubectl.must("get", "crd", f"{name}.staticgroup.io", "-o", "json"))
        conditions = {each["type"]: each["status"] for each in live["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions["NamesAccepted"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"
        assert f"{name}.staticgroup.io serverside-applied" in crds


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("ksg.spec.removal", "every pod that was there when it joined has ended"),
        ("ksg.spec.client.concurrency", "Kafka Streams' num.stream.threads or Spring's concurrency"),
        ("ksg.spec.idTemplate", "Placeholders: {podName}"),
        ("ksg.status.injected", "the admission policy reads this"),
        ("ksg.status.memory.suspects", "Pods whose processes may live unseen"),
        ("ckconn.spec.allowedNamespaces", "no member is removed"),
        ("kconn.spec.tls.enabled", "there is no way to skip that"),
    ],
)
def test_kubectl_explain_describes_fields(path: str, text: str, kubectl: Kubectl, crds: str) -> None:
    said = " ".join(kubectl.must("explain", path).split())
    assert text in said


def test_the_columns_are_filled_from_spec_and_status(kubectl: Kubectl, namespace: str) -> None:
    metadata = {"name": "columns", "namespace": namespace}
    body = {"apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": metadata}
    # An operator that other tests have installed meanwhile leaves the figures of a suspended StaticGroup as they are.
    spec = {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders-group", "mode": "Suspended"}
    kubectl.apply(body | {"spec": spec})
    ready = {
        "type": "Ready", "status": "False", "reason": "Suspended", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    }  # fmt: skip
    status = {
        "protocol": "Classic", "members": {"expected": 4, "joined": 3, "departed": 2}, "sessionTimeout": {"summary": "60s", "source": "Fixed"},
        "conditions": [ready],
    }  # fmt: skip
    kubectl.apply(body | {"status": status}, "--subresource=status")
    header, row = kubectl.must("get", "ksg", "columns", "-n", namespace, "-o", "wide").splitlines()
    titles = ["NAME", "MODE", "GROUP", "WORKLOAD", "EXPECTED", "JOINED", "DEPARTED", "TIMEOUT", "READY", "REASON", "PROTOCOL"]
    assert header.split() == [*titles, "AGE"]
    values = ["columns", "Suspended", "orders-group", "orders", "4", "3", "2", "60s", "False", "Suspended", "Classic"]
    assert row.split()[:-1] == values
