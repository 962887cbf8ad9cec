"""The kubectl plugin as a user has it: one file on the PATH, found by the real kubectl, on a real API server.

People are impersonated, each with rights of his own; nothing of the operator runs, what it writes is written here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.names import FIELD_MANAGER
from support.full_status import full_status
from support.waiting import until

sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import facts, plugin

pytestmark = pytest.mark.cluster

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def call(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Call the real kubectl with the plugin on the PATH."""
    folder = tmp_path_factory.mktemp("bin")
    built = facts.Facts(
        version=facts.version(), at_s=facts.committed_at_s(), image="localhost/staticgroup",
        base_url="https://example.invalid",
    )  # fmt: skip
    file = folder / plugin.NAME
    file.write_bytes(plugin.plugin(built))
    file.chmod(0o755)
    (folder / "kubectl").symlink_to(kubectl.program)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": kubectl.kubeconfig}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=Path("/"),
        )

    return run


@pytest.fixture(scope="module")
def shop(kubectl: Kubectl, crds: str) -> Iterator[str]:
    """A namespace with a StaticGroup that has suspects, which ann may read."""
    name = f"staticgroup-plugin-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", name)
    body: dict[str, Any] = {
        "apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup",
        "metadata": {"name": "orders", "namespace": name},
    }  # fmt: skip
    kubectl.apply(
        body | {"spec": {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}}
    )
    status = full_status().to_wire()
    kubectl.apply(body | {"status": status}, "--subresource=status", f"--field-manager={FIELD_MANAGER}")
    groups = "staticgroups.staticgroup.io"
    kubectl.must("create", "role", "read", "--verb=get,list", f"--resource={groups}", "-n", name)
    kubectl.must("create", "rolebinding", "read", "--role=read", "--user=ann", "-n", name)
    until(
        lambda: kubectl.run("auth", "can-i", "list", groups, "-n", name, "--as=ann").returncode == 0,
        deadline_s=30, what="the roles to be in force",
    )  # fmt: skip
    yield name
    kubectl.run("delete", "ksg", "--all", "-n", name)
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_kubectl_finds_the_plugin(call: Call) -> None:
    assert f"/{plugin.NAME}" in call("plugin", "list").stdout
    assert call("staticgroup", "--version").stdout == f"staticgroup {facts.version()}\n"


def test_status_and_explain_need_only_the_right_to_read(call: Call, shop: str) -> None:
    found = call("staticgroup", "status", "-n", shop, "--as=ann")
    assert (found.returncode, found.stderr) == (0, "")
    header, row, *rest = found.stdout.splitlines()
    assert (header.split()[:3], row.split()[:3]) == (["NAMESPACE", "NAME", "GROUP"], [shop, "orders", "orders"])
    assert any(f"{shop}/orders: NotObservedYet" in line for line in rest)
    printed = call("staticgroup", "explain", "orders", "-n", shop, "--as=ann")
    assert "Suspects, 2 pods whose end was not seen" in printed.stdout
    assert "a pod that nobody saw, because it joined before the pod watch was complete" in printed.stdout
    (item,) = json.loads(call("staticgroup", "status", "orders", "-n", shop, "-o", "json", "--as=ann").stdout)["items"]
    assert item["members"]["joined"] == full_status().members.joined  # type: ignore[union-attr]
    everywhere = call("staticgroup", "status", "-A", "-o", "json")
    assert shop in {each["namespace"] for each in json.loads(everywhere.stdout)["items"]}


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("status", "-A"), "you may not list staticgroups.staticgroup.io in all namespaces"),
        (("status", "-n", "kube-system"), "you may not list staticgroups.staticgroup.io in namespace kube-system"),
        (("explain", "orders", "-n", "kube-system"),
         "you may not get staticgroups.staticgroup.io in namespace kube-system"),
        (("explain", "gone"), "there is no StaticGroup"),
    ],
)  # fmt: skip
def test_the_plugin_says_what_a_reader_may_not_do(
    call: Call, shop: str, arguments: tuple[str, ...], refusal: str
) -> None:
    where = () if "-n" in arguments or "-A" in arguments else ("-n", shop)
    answer = call("staticgroup", *arguments, *where, "--as=ann")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert refusal in answer.stderr


def findings(call: Call, *arguments: str) -> dict[str, dict[str, Any]]:
    answer = call("staticgroup", "doctor", "-o", "json", *arguments)
    return {each["check"]: each for each in json.loads(answer.stdout)["findings"]}


def test_the_doctor_names_what_a_reader_may_not_read(call: Call, shop: str) -> None:
    found = findings(call, "-n", shop, "--as=ann")
    assert found["StaticGroup is served"]["mark"] == "ok"
    assert (
        found["an operator is installed"]["remedy"]
        == "not checked: you may not list deployments.apps in all namespaces"
    )
    assert found[f"you may see StaticGroups in namespace {shop}"]["mark"] == "ok"
    assert found[f"you may change StaticGroups in namespace {shop}"]["mark"] == "warn"
    assert f"StaticGroup {shop}/orders" in found


@pytest.fixture
def operator(kubectl: Kubectl) -> Iterator[str]:
    """An operator's Deployment, account and Lease as the manifests have them, without anything that runs."""
    namespace = f"staticgroup-plugin-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", namespace)
    (deployment,) = yaml.safe_load_all((REPOSITORY / "deploy/operator/deployment.yaml").read_text(encoding="utf-8"))
    deployment["metadata"]["namespace"] = namespace
    deployment["spec"]["replicas"] = 0
    kubectl.apply(deployment)
    lease = {
        "holderIdentity": "pod-1", "leaseDurationSeconds": 15,
        "renewTime": datetime.now(UTC).isoformat(timespec="microseconds"),
    }  # fmt: skip
    metadata = {"name": "staticgroup-operator", "namespace": namespace}
    kubectl.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease})
    yield namespace
    kubectl.run("delete", "namespace", namespace, "--wait=false")


def test_the_doctor_sees_the_operator_and_what_it_lacks(call: Call, kubectl: Kubectl, operator: str, shop: str) -> None:
    found = findings(call, "-n", shop)
    label, account = f"{operator}/staticgroup-operator", f"system:serviceaccount:{operator}:staticgroup-operator"
    assert found[f"operator {label}: 0 of 0 replicas ready"]["mark"] == "FAIL"
    assert found[f"a replica of operator {label} leads (pod-1)"]["mark"] == "ok"
    assert found[f"operator {label} has the version of this program"]["mark"] == "ok"
    rights = f"rights of {account} in all namespaces"
    assert found[rights]["remedy"].startswith("it may not get staticgroups.staticgroup.io")
    name = operator
    try:
        for body in yaml.safe_load_all((REPOSITORY / "deploy/operator/rbac.yaml").read_text(encoding="utf-8")):
            if (
                body["kind"] in ("ClusterRole", "ClusterRoleBinding")
                and body["metadata"]["name"] == "staticgroup-operator"
            ):
                body["metadata"]["name"] = name
                if body["kind"] == "ClusterRoleBinding":
                    body["roleRef"]["name"], body["subjects"][0]["namespace"] = name, operator
                kubectl.apply(body)
        asked = ("auth", "can-i", "create", "events.events.k8s.io", f"--as={account}")
        until(lambda: kubectl.run(*asked).returncode == 0, deadline_s=30, what="the roles to be in force")
        assert findings(call, "-n", shop)[rights]["mark"] == "ok"
    finally:
        kubectl.run("delete", "clusterrole,clusterrolebinding", name)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: a}}
spec:
  replicas: 2
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        image: registry.example/web:1.0
        command: [sh, -c, "trap 'exit 0' TERM\nwhile true; do sleep 1; done"]
        env: [{name: DEBUG, value: "no"}, {name: PORT, value: "8080"}]
        livenessProbe: {httpGet: {path: "/", port: 8080}}
      volumes: [{name: data, persistentVolumeClaim: {claimName: shared}}]
"""


def test_what_convert_prints_is_taken_by_the_api_server(
    call: Call, kubectl: Kubectl, shop: str, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")
    kubectl.must("apply", "-n", shop, "-f", str(file))
    from_cluster = call("staticgroup", "convert", "deployment/web", "-n", shop)
    from_file = call("staticgroup", "convert", "-f", str(file))
    for converted in (from_cluster, from_file):
        assert converted.returncode == 0, converted.stderr
        assert [line.split(":")[0] for line in converted.stderr.splitlines() if line.startswith("* ")] == [
            "* strategy Recreate has no counterpart", "* Volume data",
        ]  # fmt: skip
        taken = kubectl.must("apply", "--dry-run=server", "-n", shop, "-o", "json", "-f", "-", stdin=converted.stdout)
        service, stateful_set = json.loads(taken)["items"]
        assert (service["spec"]["clusterIP"], service["spec"]["selector"]) == ("None", {"app": "web"})
        deployment = json.loads(kubectl.must("get", "deployment", "web", "-n", shop, "-o", "json"))
        assert stateful_set["spec"]["template"]["spec"] == deployment["spec"]["template"]["spec"]
        assert stateful_set["spec"]["replicas"] == 2
    sample = from_cluster.stderr.partition("WorkloadFound=False:\n")[2].partition("\n2. ")[0]
    assert "created (server dry run)" in kubectl.must("apply", "--dry-run=server", "-f", "-", stdin=sample)
