"""Injection without admission policies: a release on an API server of 1.35, and a real Kubernetes 1.29.

1.35 is today's API server with the interfaces of 1.35 (`--emulated-version`, KEP-4330), with nodes on which the
operator and the webhook run in pods. 1.29 is its own code, without nodes: both processes run beside it, and it finds
them through Services of type ExternalName, which API servers resolve themselves (k8s.io/apiserver,
pkg/util/proxy.ResolveCluster).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.devcluster.cluster import Cluster
from support.devcluster.old_apiserver import OldApiServer, old_api_server, version
from support.devcluster.process import signal_each
from support.devcluster.programs import helm_program, programs_directory
from support.scene.stage import OPERATOR_IMAGE, Stage
from support.waiting import until
from support.webhook_drill import PodCreator, drill, stateful_pod, webhook_objects

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "operator"))

from test_chart_variants import render  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.long]

Json = dict[str, Any]
Kube = Callable[..., str]
SHOP, SYSTEM = "shop", "staticgroup-system"
PODS, EVERY_S = 200, 0.1
GROUP = {
    "apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": {"name": "orders", "namespace": SHOP},
    "spec": {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"},
}  # fmt: skip
CONNECTION = {
    "apiVersion": "staticgroup.io/v1alpha1", "kind": "KafkaConnection", "metadata": {"name": "kafka",
    "namespace": SHOP},
    "spec": {"bootstrapServers": ["kafka.example:9092"]},
}  # fmt: skip


def prepared(kube: Kube) -> None:
    """A namespace with an account, and what a user applies there."""
    kube("create", "namespace", SHOP)
    kube("create", "serviceaccount", "app", "-n", SHOP)
    for body in (CONNECTION, GROUP):
        kube("apply", "--server-side", "-f", "-", stdin=json.dumps(body))


def issued(kube: Kube) -> Json:
    """What the operator lets pods be given, once it does."""

    def injected_with_method() -> Json | None:
        status = json.loads(kube("get", "ksg", "orders", "-n", SHOP, "-o", "json")).get("status", {})
        found: Json = status.get("injected") or {}
        return found if found.get("method") not in (None, "None") else None

    return until(injected_with_method, deadline_s=120, what="status.injected with a method")


def no_id_is_lost(kube: Kube, kubeconfig: str, kill: Callable[[], object]) -> None:
    """Create 200 pods, with one replica killed in the middle; each has its id."""
    found = issued(kube)
    assert found["method"] == "Webhook"
    seen = drill(
        PodCreator(kubeconfig),
        [stateful_pod(SHOP, "orders", n) for n in range(PODS)],
        every_s=EVERY_S,
        troubles={PODS // 2: kill},
    )
    print(seen.figures())
    assert seen.without_id(found["scope"]) == []


def test_a_release_on_kubernetes_1_35_chooses_the_webhook_and_no_id_is_lost() -> None:
    cluster = Cluster("sg-e2e-emulated")
    try:
        cluster.up(apiserver_arguments=("--emulated-version=1.35",))
        assert "mutatingadmissionpolicies" not in cluster.kubectl(
            "api-resources", "--api-group=admissionregistration.k8s.io"
        )
        Stage.ground(cluster)
        repository, _, tag = OPERATOR_IMAGE.rpartition(":")
        values = f"image.repository={repository},image.tag={tag},image.pullPolicy=Never"
        installed = subprocess.run(
            [str(helm_program()), "--kubeconfig", cluster.state.kubeconfig, "upgrade", "--install", "staticgroup",
             str(REPOSITORY / "charts/staticgroup"), "--namespace", SYSTEM, "--create-namespace", "--set", values,
             "--wait", "--timeout", "180s"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert installed.returncode == 0, installed.stderr
        prepared(cluster.kubectl)
        label = "app.kubernetes.io/component=webhook"
        pods = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", label, "-o", "json"))["items"]
        assert len(pods) == 2
        no_id_is_lost(
            cluster.kubectl, cluster.state.kubeconfig,
            lambda: signal_each(cluster.pod_processes(pods[0]["metadata"]["uid"]), signal.SIGKILL),
        )  # fmt: skip
    finally:
        cluster.down()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[OldApiServer]:
    with old_api_server(tmp_path / "old") as server:
        yield server


@contextmanager
def running(log: Path, kubeconfig: Path, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the product meanwhile."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)} | {
        f"STATICGROUP_{name}": value for name, value in settings.items()
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "staticgroup", *arguments], env=environment, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_api_server_of_kubernetes_1_29_gives_every_pod_its_id(old: OldApiServer, tmp_path: Path) -> None:
    def kube(*arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [str(programs_directory() / "kubectl"), f"--kubeconfig={old.kubeconfig}", *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    assert json.loads(kube("version", "-o", "json"))["serverVersion"]["gitVersion"] == version()
    kube("apply", "--server-side", "-k", str(REPOSITORY / "crds"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    kube("create", "namespace", SYSTEM)
    ports = {0: 19443, 1: 19444}
    commands: dict[int, dict[str, str]] = {}
    for body in webhook_objects(render("default", "--kube-version", version().removeprefix("v"))):
        if body["kind"] == "Deployment":
            replica = int(body["metadata"]["name"][-1])
            env = body["spec"]["template"]["spec"]["containers"][0]["env"]
            commands[replica] = {each["name"].removeprefix("STATICGROUP_"): each.get("value", SYSTEM) for each in env}
            continue
        if body["kind"] == "Service":
            replica = int(body["metadata"]["name"][-1])
            body["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": ports[replica]}]}
        if body["kind"] == "MutatingWebhookConfiguration":
            for entry in body["webhooks"]:
                service = entry["clientConfig"]["service"]
                service["port"] = ports[int(service["name"][-1])]
        kube("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(body))
    prepared(kube)
    with ExitStack() as stack:
        webhooks = [
            stack.enter_context(running(
                tmp_path / f"webhook-{replica}.log", old.kubeconfig, "webhook",
                **settings, PORT=str(ports[replica]), HEALTH_PORT=str(ports[replica] + 10),
            ))
            for replica, settings in sorted(commands.items())
        ]  # fmt: skip
        stack.enter_context(running(
            tmp_path / "operator.log", old.kubeconfig, "run", NAMESPACE=SYSTEM, IDENTITY="operator-0",
            HEALTH_PORT="19480",
        ))  # fmt: skip
        no_id_is_lost(kube, str(old.kubeconfig), webhooks[0].kill)
        assert [each.poll() is None for each in webhooks] == [False, True]
