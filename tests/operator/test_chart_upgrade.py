"""`helm upgrade` from the package of an earlier commit to today's, on a real API server: resources, statuses and CRDs stay.

The operator's image is one that no node has, so nobody but Helm and this test writes anything.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.names import FIELD_MANAGER
from support.scene.earlier import BEFORE_SEATS, is_known
from support.waiting import until

sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import chart, facts

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not is_known(BEFORE_SEATS), reason=f"the git history does not hold {BEFORE_SEATS[:12]}, the earlier version"),
]

RELEASE = "upgraded"
NEW_FIELD = "crashRelease"
"""A field of spec that the earlier CustomResourceDefinition does not know."""
NEW_DEFINITIONS = ("clusterkafkaconnections.staticgroup.io",)
"""What the earlier package did not bring, so that nobody who installed it can have them."""
Json = dict[str, Any]


class Helm:
    """The real helm with one release in one namespace."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self.namespace, self._kubeconfig = namespace, kubectl.kubeconfig

    def __call__(self, *arguments: str) -> str:
        command = [os.environ["HELM"], "--kubeconfig", self._kubeconfig, "--namespace", self.namespace, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The package of the earlier commit, and today's as `make release` builds it."""
    folder = tmp_path_factory.mktemp("packages")
    archive = subprocess.run(["git", "-C", str(REPOSITORY), "archive", BEFORE_SEATS, "charts"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder / "sources", filter="data")
    subprocess.run(
        [os.environ["HELM"], "package", str(folder / "sources/charts/staticgroup"), "--destination", str(folder)], check=True, capture_output=True
    )
    (earlier,) = folder.glob("*.tgz")
    today = folder / "today.tgz"
    of = facts.Facts(version=facts.version(), at_s=facts.committed_at_s(), image="localhost/staticgroup", base_url="https://example.invalid")
    today.write_bytes(chart.package(of, Path(os.environ["HELM"])))
    return earlier, today


@pytest.fixture
def helm(kubectl: Kubectl, crds: str) -> Iterator[Helm]:
    namespace = f"staticgroup-upgrade-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", namespace)
    yield Helm(kubectl, namespace)
    kubectl.run("delete", "ksg,kconn,pec", "--all", "-n", namespace)
    kubectl.run("delete", "namespace", namespace, "--wait=false")
    # For the tests that follow: the CRDs as they are committed, whatever became of the upgrade.
    kubectl.must("apply", "--server-side", "--force-conflicts", "-f", str(REPOSITORY / "crds"))
    until(lambda: takes_the_new_field(kubectl), deadline_s=30, what="today's schema to be served")


def takes_the_new_field(kubectl: Kubectl) -> bool:
    body = group("default") | {"spec": group("default")["spec"] | {NEW_FIELD: "Off"}}
    return kubectl.run("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(body)).returncode == 0


def group(namespace: str) -> Json:
    metadata = {"name": "orders", "namespace": namespace}
    spec = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    return {"apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": metadata, "spec": spec}


def status_of_then() -> Json:
    """The status that an operator of the earlier commit left in the middle of a scale-down."""
    recorded = (REPOSITORY / "tests" / "unit" / "runtime" / "recorded_12a30ef.yaml").read_text(encoding="utf-8")
    (found,) = (each["status"] for each in yaml.safe_load_all(recorded) if each["kind"] == "StaticGroup")
    return dict(found)


def read(kubectl: Kubectl, *names: str) -> Json:
    found: Json = json.loads(kubectl.must("get", *names, "-o", "json"))
    return found


def crd(kubectl: Kubectl) -> Json:
    return read(kubectl, "crd", "staticgroups.staticgroup.io")


def knows(definition: Json, field: str) -> bool:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return field in schema["properties"]


def is_within(part: Any, whole: Any) -> bool:
    """Return whether everything of one object is in another, which may have more."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


def test_helm_upgrade_keeps_resources_statuses_and_definitions(kubectl: Kubectl, helm: Helm, packages: tuple[Path, Path]) -> None:
    earlier, today = packages
    namespace = helm.namespace
    values = ("--set", f"image.repository=localhost/none,image.pullPolicy=Never,watchNamespaces={{{namespace}}}")
    for newer in NEW_DEFINITIONS:
        kubectl.must("delete", "crd", newer, "--ignore-not-found")
    helm("install", RELEASE, str(earlier), "--take-ownership", "--force-conflicts", *values)
    assert not knows(crd(kubectl), NEW_FIELD), "the earlier package brings the earlier definitions"
    until(lambda: not takes_the_new_field(kubectl), deadline_s=30, what="the earlier schema to be served")
    kubectl.apply(group(namespace))
    connection = {"metadata": {"name": "kafka", "namespace": namespace}, "spec": {"bootstrapServers": ["kafka.example:9092"]}}
    kubectl.apply({"apiVersion": "staticgroup.io/v1alpha1", "kind": "KafkaConnection", **connection})
    kubectl.apply(group(namespace) | {"status": status_of_then()}, "--subresource=status", f"--field-manager={FIELD_MANAGER}")
    before, definition = read(kubectl, "ksg", "orders", "-n", namespace), crd(kubectl)
    assert is_within(status_of_then(), before["status"])

    helm("upgrade", RELEASE, str(today), "--reset-then-reuse-values")
    until(lambda: takes_the_new_field(kubectl), deadline_s=30, what="today's schema to be served")
    after, now = read(kubectl, "ksg", "orders", "-n", namespace), crd(kubectl)
    assert now["metadata"]["uid"] == definition["metadata"]["uid"]
    assert knows(now, NEW_FIELD)
    assert (after["metadata"]["uid"], after["status"]) == (before["metadata"]["uid"], before["status"])
    assert is_within(before["spec"], after["spec"])
    assert read(kubectl, "kconn", "kafka", "-n", namespace)["spec"]["bootstrapServers"] == ["kafka.example:9092"]
    kept = read(kubectl, "deployment", f"{RELEASE}-staticgroup-operator", "-n", namespace)
    assert kept["spec"]["template"]["spec"]["containers"][0]["image"].startswith("localhost/none:")

    helm("rollback", RELEASE, "1")
    back = read(kubectl, "ksg", "orders", "-n", namespace)
    assert (back["metadata"]["uid"], back["status"]) == (before["metadata"]["uid"], before["status"])
    helm("uninstall", RELEASE)
    assert crd(kubectl)["metadata"]["uid"] == definition["metadata"]["uid"]
    assert read(kubectl, "ksg", "orders", "-n", namespace)["metadata"]["uid"] == before["metadata"]["uid"]
