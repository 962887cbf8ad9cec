"""Ask a real API server what it thinks of the rendered chart: a server-side dry run knows more than any schema.

KUBECTL and KUBECONFIG name the API server. Everything is a dry run but the CRDs (from crds/) and a namespace that
enforces the restricted Pod Security Standard.
"""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl
from test_chart_variants import VARIANTS, Manifest, helm, render

pytestmark = pytest.mark.cluster

# Admission looks a pod's account up, and a dry run of the chart creates none.
ACCOUNT = "present"


@pytest.fixture(scope="module")
def restricted(kubectl: Kubectl) -> Iterator[str]:
    """A namespace that refuses pods which break the restricted standard."""
    name = f"staticgroup-chart-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    kubectl.must("create", "serviceaccount", ACCOUNT, "-n", name)
    yield name
    kubectl.run("delete", "namespace", name, "--wait=false")


def in_namespace(manifests: list[Manifest], namespace: str) -> list[Manifest]:
    """Move what belongs to a namespace into one that exists; a dry run creates none."""
    for each in manifests:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace
        if each["kind"] == "Pod":
            each["spec"]["serviceAccountName"] = ACCOUNT
    return manifests


def dry_run(kubectl: Kubectl, manifests: list[Manifest]) -> "subprocess.CompletedProcess[str]":
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    options = ("--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server")
    return kubectl.run("apply", *options, "-f", "-", stdin=text)


@pytest.mark.parametrize("variant", [each for each in VARIANTS if not each.startswith("prometheus-")])
def test_api_server_accepts_every_object(kubectl: Kubectl, crds: str, restricted: str, variant: str) -> None:
    manifests = in_namespace(render(variant), restricted)
    answer = dry_run(kubectl, manifests)
    assert answer.returncode == 0, answer.stderr
    assert "would violate PodSecurity" not in answer.stderr
    assert "unknown field" not in answer.stderr
    assert len(answer.stdout.splitlines()) == len(manifests)


def pod_of(deployment: Manifest, namespace: str) -> Manifest:
    template = deployment["spec"]["template"]
    metadata = {"name": "operator", "namespace": namespace, "labels": template["metadata"]["labels"]}
    spec = {**template["spec"], "serviceAccountName": ACCOUNT}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("variant", VARIANTS)
def test_restricted_namespace_admits_the_pods(kubectl: Kubectl, restricted: str, variant: str) -> None:
    """The API server only warns about a Deployment; it is its pods that would be refused."""
    (deployment,) = [each for each in render(variant) if each["kind"] == "Deployment"]
    pod = pod_of(deployment, restricted)
    created = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert created.returncode == 0, created.stderr

    pod["spec"]["containers"][0]["securityContext"].pop("capabilities")
    refused = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert "violates PodSecurity" in refused.stderr


def documents(folder: Path) -> list[dict[str, Any]]:
    return [each for path in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def test_samples_are_accepted(kubectl: Kubectl, namespace: str) -> None:
    samples = documents(REPOSITORY / "deploy" / "samples")
    for each in samples:
        each["metadata"]["namespace"] = namespace
    answer = dry_run(kubectl, samples)
    assert answer.returncode == 0, answer.stderr
    assert {each["kind"] for each in samples} == {
        "Secret", "ConfigMap", "KafkaConnection", "StaticGroup", "StatefulSet",
    }  # fmt: skip


@pytest.mark.parametrize("folder", ["deploy", "deploy/operator", "crds"])
def test_kubectl_builds_the_kustomization(kubectl: Kubectl, folder: str) -> None:
    built = list(yaml.safe_load_all(kubectl.must("kustomize", str(REPOSITORY / folder))))
    kinds = {each["kind"] for each in built}
    assert "CustomResourceDefinition" in kinds
    assert ("MutatingAdmissionPolicy" in kinds) is (folder == "deploy")


def test_policy_is_rendered_for_the_cluster_that_serves_it(kubectl: Kubectl, crds: str, restricted: str) -> None:
    """What the chart concludes from the API server itself, not from options of ours."""
    command = [helm(), "install", "staticgroup", str(REPOSITORY / "charts" / "staticgroup"), "--namespace", restricted]
    options = ["--kubeconfig", kubectl.kubeconfig, "--dry-run=server", "--set", "crds.install=false"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    served = "mutatingadmissionpolicies" in kubectl.must("api-resources", "--api-group=admissionregistration.k8s.io")
    assert ("kind: MutatingAdmissionPolicy\n" in done.stdout) is served
