"""`convert`: the StatefulSet that replaces a Deployment, what is said beside it, and that any reader of YAML reads it alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from staticgroup.cli import command_line, conversion
from staticgroup.cli.api_server import Refused

from .fake_kubectl import REFUSED, FakeKubectl, Json
from .statuses import call

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
SERVICES = "/api/v1/namespaces/shop/services"
POD: Json = {
    "containers": [{"name": "app", "image": "registry.example/orders:1.0", "env": [{"name": "DEBUG", "value": "no"}]}]
}


def deployment(name: str = "orders", pod: Json | None = None, /, **spec: Any) -> Json:
    """A Deployment as the API server shows it."""
    written = {
        "replicas": 3, "minReadySeconds": 5, "revisionHistoryLimit": 4, "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "selector": {"matchLabels": {"app": "orders"}},
        "template": {
            "metadata": {
                "creationTimestamp": None, "labels": {"app": "orders", "tier": "backend", "pod-template-hash": "7d9f"},
                "annotations": {"prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "2026-11-21"},
            },
            "spec": POD if pod is None else pod,
        },
    }  # fmt: skip
    metadata = {
        "name": name, "namespace": "shop", "uid": "5a7e", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-11-21T11:15:00Z", "managedFields": [{"manager": "kubectl"}], "labels": {"team": "a"},
        "annotations": {
            "deployment.kubernetes.io/revision": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "owner": "ann",
        },
    }  # fmt: skip
    return {"metadata": metadata, "spec": written | spec, "status": {"replicas": 3}}


def service(name: str, cluster_ip: str, **selector: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"clusterIP": cluster_ip, "selector": selector}}


def converted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: Json, *services: Json
) -> tuple[list[Json], str]:
    name = body["metadata"]["name"]
    fake = FakeKubectl({f"{DEPLOYMENTS}/{name}": body, SERVICES: {"items": list(services)}})
    assert call(monkeypatch, fake, "convert", f"deployment/{name}") == 0
    printed = capsys.readouterr()
    return list(yaml.safe_load_all(printed.out)), printed.err


def test_the_statefulset_is_the_deployment_without_what_the_server_added(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    objects, _ = converted(monkeypatch, capsys, deployment())
    assert objects == [
        {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "orders", "namespace": "shop", "labels": {"team": "a"}},
            "spec": {"clusterIP": "None", "selector": {"app": "orders"}},
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "orders", "namespace": "shop", "labels": {"team": "a"}, "annotations": {"owner": "ann"}},
            "spec": {
                "replicas": 3, "minReadySeconds": 5, "revisionHistoryLimit": 4, "selector": {"matchLabels": {"app": "orders"}},
                "serviceName": "orders", "podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": {"app": "orders", "tier": "backend"}, "annotations": {"prometheus.io/scrape": "true"}},
                    "spec": POD,
                },
            },
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("services", "kinds", "name"),
    [
        ([service("all", "None", tier="backend"), service("web", "10.0.0.1", app="orders")], ["StatefulSet"], "all"),
        ([service("orders", "10.0.0.1", app="orders")], ["Service", "StatefulSet"], "orders-pods"),
        ([service("other", "None", app="bills"), service("none", "None")], ["Service", "StatefulSet"], "orders"),
    ],
    ids=["there is one", "its name is taken", "it selects other pods"],
)
def test_a_headless_service_is_printed_only_if_the_pods_have_none(
    services: list[Json],
    kinds: list[str],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    objects, _ = converted(monkeypatch, capsys, deployment(), *services)
    assert [each["kind"] for each in objects] == kinds
    assert objects[-1]["spec"]["serviceName"] == name
    assert objects[0]["metadata"]["name"] == (name if len(kinds) == 2 else "orders")


CLAIM: Json = POD | {
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}, {"name": "tmp", "emptyDir": {}}]
}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (deployment(), ["maxSurge and maxUnavailable are not taken over"]),
        (deployment(strategy={"type": "Recreate"}), ["strategy Recreate has no counterpart"]),
        (deployment(progressDeadlineSeconds=60), ["maxSurge", "progressDeadlineSeconds has no counterpart"]),
        (deployment(paused=True), ["maxSurge", "paused has no counterpart"]),
        (deployment("orders", CLAIM), ["maxSurge", "Volume data: all pods share the claim shared"]),
        (deployment("o" * 53), ["maxSurge", "Choose another name"]),
        (deployment("a.b"), ["maxSurge", "Choose another name"]),
    ],
)
def test_what_has_no_counterpart_is_said(
    body: Json, said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, words = converted(monkeypatch, capsys, body)
    notes = [line.removeprefix("* ") for line in words.splitlines() if line.startswith("* ")]
    assert len(notes) == len(said)
    assert all(note.startswith(begin) for note, begin in zip(notes, said, strict=True)), notes


def test_whoever_owns_the_deployment_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = deployment()
    body["metadata"]["ownerReferences"] = [{"kind": "Shop", "name": "big"}]
    _, words = converted(monkeypatch, capsys, body)
    assert "* Shop big owns the Deployment" in words


def test_the_staticgroup_comes_first_in_the_order_of_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, words = converted(monkeypatch, capsys, deployment())
    before, sample, after = words.partition("   apiVersion: staticgroup.io/v1alpha1")
    sample, _, after = (sample + after).partition("\n2. ")
    assert before.endswith(
        "1. Create this StaticGroup, with your connection and group.id, and wait until it says WorkloadFound=False:\n\n"
    )
    group = yaml.safe_load(sample)
    assert group["metadata"] == {"name": "orders", "namespace": "shop"}
    assert group["spec"]["workloadRef"] == {"name": "orders"}
    assert after.startswith("Apply the StatefulSet.")
    assert after.endswith("kubectl -n shop scale deployment/orders --replicas=0\n")


def test_services_that_may_not_be_read_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl({f"{DEPLOYMENTS}/orders": deployment(), SERVICES: REFUSED.format("services")})
    assert call(monkeypatch, fake, "convert", "deployment/orders") == 0
    printed = capsys.readouterr()
    assert [each["kind"] for each in yaml.safe_load_all(printed.out)] == ["Service", "StatefulSet"]
    assert "* Services: you may not list services in namespace shop." in printed.err


@pytest.mark.parametrize(
    ("name", "status", "refusal"),
    [
        ("deployment/orders", 1, "you may not get deployments.apps in namespace shop"),
        ("statefulset/orders", 2, "statefulset/orders is no deployment/NAME"),
        ("orders", 2, "orders is no deployment/NAME"),
    ],
)
def test_a_deployment_that_cannot_be_read_is_refused(
    name: str, status: int, refusal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl({f"{DEPLOYMENTS}/orders": REFUSED.format("deployments.apps")})
    assert call(monkeypatch, fake, "convert", name) == status
    assert refusal in capsys.readouterr().err


def test_a_file_is_read_by_kubectl_with_the_services_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = deployment() | {"kind": "Deployment"}
    texts = [json.dumps(each, indent=4) for each in (service("all", "None", app="orders") | {"kind": "Service"}, own)]
    commands = []

    def run(command: Any, stdin: str) -> tuple[int, str, str]:
        commands.append(command[-3:])
        return 0, stdin or "\n".join(texts) + "\n", ""

    monkeypatch.setattr(command_line, "run", run)
    assert command_line.main(["convert", "-f", "orders.yaml"]) == 0
    assert commands == [["-o=json", "-f", "orders.yaml"], ["-o=yaml", "-f", "-"]]
    (found,) = yaml.safe_load_all(capsys.readouterr().out)
    assert (found["kind"], found["spec"]["serviceName"]) == ("StatefulSet", "all")


@pytest.mark.parametrize(
    ("answer", "status", "refusal"),
    [
        ((0, json.dumps({"kind": "Service"}), ""), 2, "orders.yaml holds 0 Deployments"),
        ((0, json.dumps({"kind": "Deployment", "spec": {}}), ""), 2, "orders.yaml holds 0 Deployments"),
        ((0, json.dumps(deployment() | {"kind": "Deployment"}) * 2, ""), 2, "orders.yaml holds 2 Deployments"),
        ((1, "", 'error: the path "orders.yaml"\ndoes not exist'), 1, 'the path "orders.yaml" does not exist'),
    ],
)
def test_a_file_without_one_deployment_is_refused(
    answer: tuple[int, str, str],
    status: int,
    refusal: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "run", lambda command, stdin: answer)
    assert command_line.main(["convert", "-f", "orders.yaml"]) == status
    printed = capsys.readouterr()
    assert (printed.out, refusal in printed.err) == ("", True)


def test_where_there_is_no_kubectl_the_objects_are_json_which_is_yaml_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the operator's pod, whose account reads the Deployment."""
    with_kubectl, _ = converted(monkeypatch, capsys, deployment())

    def run(command: Any, stdin: str) -> tuple[int, str, str]:
        raise Refused(f"{command[0]} is not on the PATH")

    assert list(yaml.safe_load_all(conversion.as_yaml(with_kubectl, run))) == with_kubectl
