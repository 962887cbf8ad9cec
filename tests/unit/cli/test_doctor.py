"""`doctor`: what a person can find, and what the operator's pod finds besides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.client import Configuration

from staticgroup.api import crd
from staticgroup.cli import doctor
from staticgroup.cli.api_server import GROUP_PATH, through_kubectl
from staticgroup.cli.doctor import CheckResult
from staticgroup.cli.operator import brokers
from staticgroup.kube.transport import Transport, connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process import kube_client, logs, namespaces

from .fake_kubectl import REFUSED, FakeKubectl, Json
from .statuses import GROUPS, NOW, READY, WAITING, call, condition, group

REPOSITORY = Path(__file__).parents[3]
SCHEMAS = {kind: crd.status_schema(kind) for kind in doctor.KINDS}

IDS = "new pods get their ids by policy staticgroup-inject or webhook staticgroup-inject"
POLICY, BINDING, WEBHOOK = (
    f"{doctor.ADMISSION}/{plural}/staticgroup-inject"
    for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations")
)


def cluster() -> dict[str, Json | str]:
    """A cluster in which all is well."""
    schemas = {
        kind: crd.definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        | {"x-kubernetes-group-version-kind": [{"group": "staticgroup.io", "version": "v1alpha1", "kind": kind}]}
        for kind in doctor.KINDS
    }
    objects: dict[str, Json | str] = {
        "/version": {"major": "1", "minor": "36"},
        f"/openapi/v3{GROUP_PATH}": {"components": {"schemas": schemas}},
        GROUPS: {"items": [READY]},
        f"{GROUP_PATH}/namespaces/shop/kafkaconnections": {"items": []},
    }
    for path in ("deploy/policy.yaml", "deploy/operator/deployment.yaml"):
        for body in yaml.safe_load_all((REPOSITORY / path).read_text(encoding="utf-8")):
            if body["kind"].startswith("MutatingAdmissionPolicy"):
                objects[POLICY if body["kind"] == "MutatingAdmissionPolicy" else BINDING] = body
            elif body["kind"] == "Deployment":
                objects["/apis/apps/v1/deployments"] = {"items": [body | {"status": {"readyReplicas": 2}}]}
    lease = {"holderIdentity": "pod-1", "renewTime": "2026-11-21T11:59:58.000000Z", "leaseDurationSeconds": 15}
    objects["/apis/coordination.k8s.io/v1/namespaces/staticgroup-system/leases/staticgroup-operator"] = {"spec": lease}
    return objects


def examined(objects: dict[str, Json | str], **may: Any) -> dict[str, str]:
    """Return the mark of each check."""
    api = through_kubectl(run=FakeKubectl(objects, **may))
    return {
        f.check: f"{f.mark} {'' if f.is_good else f.remedy}".strip() for f in doctor.examine(api, "shop", SCHEMAS, NOW)
    }


def test_nothing_is_wrong_with_a_cluster_in_which_all_is_well() -> None:
    found = examined(cluster())
    assert len(found) == 15
    assert set(found.values()) == {"ok"}


@pytest.mark.parametrize(("is_good", "last"), [(True, "no problem found"), (False, "problems: 0, warnings: 1")])
def test_the_last_line_counts_warnings_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_good: bool, last: str
) -> None:
    """Nobody reads fifteen lines above one that says that all is well."""
    found = [CheckResult("the one", True, ""), CheckResult("the other", is_good, "mend it", is_fatal=False)]
    monkeypatch.setattr(doctor, "examine", lambda *_: found)
    assert call(monkeypatch, FakeKubectl(cluster()), "doctor", "-n", "shop") == 0
    assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("path", "answer", "check", "mark"),
    [
        (f"/openapi/v3{GROUP_PATH}", None, "StaticGroup is served", "FAIL install the CRDs of the operator's version: kubectl staticgroup crds | kubectl apply -f -"),
        ("/apis/apps/v1/deployments", {"items": []}, "an operator is installed", "FAIL no Deployment"),
        ("/apis/apps/v1/deployments", REFUSED.format("deployments"), "an operator is installed", "warn not checked: you may not list deployments.apps in all namespaces"),
        (POLICY, None, IDS, "warn the policy has no object; set injection.policy.enabled"),
        (BINDING, None, IDS, "warn the policy has no binding"),
        ("/version", {"minor": "35+"}, IDS, "warn an API server before 1.36 serves no such policy"),
        (GROUPS, {"items": [WAITING]}, "StaticGroup shop/orders", "warn Ready: 2 removals wait"),
        (GROUPS, {"items": [group(conditions=[condition("Unknown", "WorkloadUnreadable", "no right")])]}, "StaticGroup shop/orders", "warn Ready: no right"),
        (GROUPS, {"items": [group()]}, "StaticGroup shop/orders", "warn no operator has written a status"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(path: str, answer: Any, check: str, mark: str) -> None:
    objects = cluster()
    if answer is None:
        del objects[path]
    else:
        objects[path] = answer
    assert examined(objects)[check].startswith(mark)


@pytest.mark.parametrize(
    ("bundles", "mark"),
    [
        (("Y2E=", "Y2E="), "ok"),
        (("Y2E=", None), "warn the webhook has no certificate yet"),
        ((), "warn an API server before 1.36"),
    ],
)
def test_before_1_36_the_webhook_gives_the_ids(bundles: tuple[str | None, ...], mark: str) -> None:
    entries = [
        {"name": f"inject-{n}.staticgroup.io", "clientConfig": {"caBundle": b} if b else {}}
        for n, b in enumerate(bundles)
    ]
    objects = (
        cluster() | {"/version": {"major": "1", "minor": "35"}} | ({WEBHOOK: {"webhooks": entries}} if entries else {})
    )
    assert examined(objects)[IDS].startswith(mark)


def test_an_operator_that_names_no_policy_has_the_one_of_the_guide() -> None:
    objects: Any = json.loads(json.dumps(cluster()))
    (container,) = objects["/apis/apps/v1/deployments"]["items"][0]["spec"]["template"]["spec"]["containers"]
    container["env"] = [e for e in container["env"] if e["name"] not in ("STATICGROUP_POLICY_NAME", "STATICGROUP_WEBHOOK_NAME")]
    assert examined(objects)[IDS] == "ok"


def test_a_connection_of_the_whole_cluster_is_looked_at_where_a_group_names_one() -> None:
    connections = f"{GROUP_PATH}/clusterkafkaconnections"
    shared = {
        "metadata": {"name": "shared"},
        "status": {"conditions": [condition("False", "BrokersUnreachable", "nobody answers")]},
    }
    named = READY | {"spec": READY["spec"] | {"connectionRef": {"kind": "ClusterKafkaConnection", "name": "shared"}}}
    objects = cluster() | {connections: {"items": [shared]}}
    assert "ClusterKafkaConnection shared" not in examined(objects)
    found = examined(objects | {GROUPS: {"items": [named]}})
    assert found["ClusterKafkaConnection shared"] == "warn Ready: nobody answers"
    refused = examined(objects | {GROUPS: {"items": [named]}, connections: REFUSED.format("x")})
    assert refused["what the statuses of ClusterKafkaConnections say"].startswith("warn not checked")


LEASE = "/apis/coordination.k8s.io/v1/namespaces/staticgroup-system/leases/staticgroup-operator"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"holderIdentity": ""}, "nobody holds Lease"),
        ({"holderIdentity": "pod-1", "renewTime": "2026-11-21T11:59:00Z", "leaseDurationSeconds": 15}, "60 s ago"),
    ],
)
def test_an_operator_that_does_not_lead_is_named(spec: Json, why: str) -> None:
    found = examined(cluster() | {LEASE: {"spec": spec}})
    assert any(
        check.startswith("a replica of operator") and mark.startswith("FAIL") and why in mark
        for check, mark in found.items()
    )


def test_a_schema_older_than_the_program_is_named_by_field() -> None:
    objects = cluster()
    document: Any = objects[f"/openapi/v3{GROUP_PATH}"]
    document = json.loads(json.dumps(document))
    del document["components"]["schemas"]["StaticGroup"]["properties"]["status"]["properties"]["connect"]
    found = examined(objects | {f"/openapi/v3{GROUP_PATH}": document})
    assert "no status.connect" in found["StaticGroup is served"]


def test_rights_of_the_operator_and_of_the_caller_are_kept_apart() -> None:
    found = examined(cluster(), may={("patch", "staticgroups"): False})
    account = "rights of system:serviceaccount:staticgroup-system:staticgroup-operator in all namespaces"
    assert found[account].startswith("FAIL it may not patch staticgroups/status.staticgroup.io")
    assert (
        found["you may change StaticGroups in namespace shop"] == "warn you may not patch staticgroups.staticgroup.io"
    )


def test_the_doctor_says_what_only_the_operator_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, FakeKubectl(cluster() | {LEASE: {"spec": {}}}), "doctor", "-o", "json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["problems"] == 1
    assert (
        "Ask it: kubectl -n staticgroup-system exec deploy/staticgroup-operator -- staticgroup doctor"
        in printed["notChecked"]
    )


# in the operator's pod


async def connections(_: Operator, namespace: str) -> AsyncIterator[CheckResult]:
    yield CheckResult(f"connections of namespace {namespace}", True)


async def connected() -> Transport:
    return connect(Configuration())


async def there(_: Transport, wanted: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in wanted if name != "gone")


def in_pod(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    objects: dict[str, Json | str],
    *arguments: str,
    **may: Any,
) -> dict[str, str]:
    monkeypatch.setattr(brokers, "connections", connections)
    monkeypatch.setattr(kube_client, "connected", connected)
    monkeypatch.setattr(namespaces, "there", there)
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # it is the whole process's
    for name, value in (("LEASE_NAME", "lease"), ("NAMESPACE", "ops"), ("WATCH_NAMESPACES", "shop,bill,gone")):
        monkeypatch.setenv(f"STATICGROUP_{name}", value)
    call(monkeypatch, FakeKubectl(objects, **may), "doctor", "-o", "json", *arguments)
    printed = json.loads(capsys.readouterr().out)
    assert printed["notChecked"] == ""
    return {each["check"]: f"{each['mark']} {each['remedy']}".strip() for each in printed["findings"]}


def test_the_operators_pod_checks_its_own_rights_and_connections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = in_pod(monkeypatch, capsys, cluster())
    gone = found.pop("namespace gone exists and can be read")
    assert gone.startswith("warn it is not served; take it out of watchNamespaces")
    assert set(found.values()) == {"ok"}
    assert {"rights of the operator in namespace shop", "rights of the operator in namespace bill"} <= found.keys()
    assert {"rights of the operator to list nodes", "rights of the operator to hold Lease ops/lease"} <= found.keys()
    assert {"connections of namespace shop", "connections of namespace bill"} <= found.keys()
    assert not any(check.startswith(("you may", "operator ", "StaticGroup shop")) for check in found)
    only_bill = in_pod(monkeypatch, capsys, cluster(), "-n", "bill")
    assert "connections of namespace bill" in only_bill
    assert not any("shop" in check for check in only_bill)


def test_what_the_operators_account_lacks_is_fatal_where_nothing_works_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = in_pod(monkeypatch, capsys, cluster(), may={("list", "pods"): False, ("list", "nodes"): False})
    assert found["rights of the operator in namespace shop"].startswith(
        "FAIL it may not list pods; install the chart's roles"
    )
    assert found["rights of the operator to list nodes"].startswith("warn without it no end of a pod is believed")


def test_an_older_definition_is_fatal_to_the_operator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Server-side apply refuses a status with one field that the definition does not know."""
    objects = cluster()
    document: Any = json.loads(json.dumps(objects[f"/openapi/v3{GROUP_PATH}"]))
    del document["components"]["schemas"]["StaticGroup"]["properties"]["status"]["properties"]["connect"]
    found = in_pod(monkeypatch, capsys, objects | {f"/openapi/v3{GROUP_PATH}": document})
    assert found["StaticGroup is served"].startswith("FAIL it is older than this program")


def test_a_setting_that_is_malformed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATICGROUP_LEASE_NAME", "lease")
    monkeypatch.setenv("STATICGROUP_CONCURRENCY", "0")
    assert call(monkeypatch, FakeKubectl(cluster()), "doctor") == 2
    assert "STATICGROUP_CONCURRENCY" in capsys.readouterr().err
