"""A StaticGroup over a StrimziPodSet on a real API server: the whole operator, the policy, and a controller that does
as Strimzi's.

Kubelets and the coordinator are played by the test. No replica of Strimzi takes part: its definition is written by hand
(pod_sets.yaml), and its controller's three steps (StrimziPodSetController.reconcile) are here.
"""

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from live_cluster import Kubectl

from simulator.operators.entrance import entered
from staticgroup.api import policy
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_gateways import FakeKafka

pytestmark = [pytest.mark.cluster]

Json = dict[str, Any]
DEFINITION = Path(__file__).parent / "pod_sets.yaml"
SET, LABELS = "connect-connect", {"strimzi.io/name": "connect-connect", "strimzi.io/controller": "strimzipodset"}
DEADLINE_S = 40.0


async def eventually(look: Callable[[], Any], what: str) -> Any:
    """Return what a look at the cluster gives, once it is not nothing."""
    until_s = time.monotonic() + DEADLINE_S
    while not (found := await asyncio.to_thread(look)):
        assert time.monotonic() < until_s, f"not within {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.2)
    return found


class Strimzi:
    """The StrimziPodSet, its controller, the kubelet of its pods, and the members that their processes are."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self.kubectl, self.namespace = kubectl, namespace
        self.node = f"{namespace}-node"
        self.kafka = FakeKafka()
        self.listed: set[int] = set()

    def get(self, *what: str) -> Json:
        answer = self.kubectl.run("get", *what, "-n", self.namespace, "-o", "json")
        return json.loads(answer.stdout) if answer.returncode == 0 else {}

    def list_pods(self, *ordinals: int) -> None:
        """What Strimzi's cluster operator writes when a KafkaConnect is scaled."""
        self.listed = set(ordinals)
        container = {"name": SET, "image": "none"}
        pods = [
            {"metadata": {"name": f"{SET}-{n}", "labels": LABELS}, "spec": {"containers": [container]}}
            for n in ordinals
        ]
        spec = {"selector": {"matchLabels": LABELS}, "pods": pods}
        self.kubectl.apply(
            {
                "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet",
                "metadata": {"name": SET, "namespace": self.namespace}, "spec": spec,
            }
        )  # fmt: skip

    def reconcile(self, *, slow: frozenset[int] = frozenset()) -> None:
        """Make what is listed, delete what is not (but for some, which still end), and write the status."""
        mine = self.get("strimzipodsets.core.strimzi.io", SET)
        pods = {p["metadata"]["name"]: p for p in self.get("pods")["items"]}
        for pod in mine["spec"]["pods"]:
            if pod["metadata"]["name"] not in pods:
                self._create(pod, mine["metadata"]["uid"])
        kept = {p["metadata"]["name"] for p in mine["spec"]["pods"]} | {f"{SET}-{n}" for n in slow}
        for name in sorted(set(pods) - kept):
            self.kubectl.must("delete", "pod", name, "-n", self.namespace, "--wait=false")
        wanted = len(mine["spec"]["pods"])
        status = {
            "observedGeneration": mine["metadata"]["generation"], "pods": wanted, "readyPods": wanted,
            "currentPods": wanted,
        }  # fmt: skip
        self.kubectl.apply(
            {
                "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet",
                "metadata": {"name": SET, "namespace": self.namespace}, "status": status,
            },
            "--subresource=status",
        )  # fmt: skip

    def _pod(self, pod: Json, owner_uid: str) -> Json:
        owner = {
            "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": SET, "uid": owner_uid,
            "controller": True,
        }  # fmt: skip
        metadata = pod["metadata"] | {"namespace": self.namespace, "ownerReferences": [owner]}
        bound = {
            "nodeName": self.node, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
            "serviceAccountName": "app",
        }  # fmt: skip
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"] | bound}

    def _create(self, pod: Json, owner_uid: str) -> None:
        self.kubectl.must("create", "-f", "-", stdin=json.dumps(self._pod(pod, owner_uid)))

    def is_injected(self) -> bool:
        """True once the policy's cache knows the StaticGroup: a pod that is only tried would get an id."""
        pod = {
            "metadata": {"name": f"{SET}-99", "labels": LABELS},
            "spec": {"containers": [{"name": SET, "image": "none"}]},
        }
        answer = self.kubectl.must(
            "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(self._pod(pod, str(uuid.uuid4())))
        )
        return "staticgroup.io/instance-id" in json.loads(answer)["metadata"].get("annotations", {})

    def id_of(self, ordinal: int) -> str:
        """The id that the policy gave to a pod."""
        found: str = self.get("pod", f"{SET}-{ordinal}")["metadata"]["annotations"]["staticgroup.io/instance-id"]
        return found

    def report(self, ordinal: int, phase: str, state: Json) -> None:
        """What the kubelet says of a pod."""
        entry = {
            "name": SET, "image": "none", "imageID": "", "ready": "running" in state, "restartCount": 0, "state": state,
        }  # fmt: skip
        status = {"phase": phase, "containerStatuses": [entry | {"containerID": f"containerd://{ordinal}"}]}
        self.kubectl.must(
            "patch", "pod", f"{SET}-{ordinal}", "-n", self.namespace, "--subresource=status", "--type=merge", "-p",
            json.dumps({"status": status}),
        )  # fmt: skip

    def start(self, *ordinals: int) -> None:
        for n in ordinals:
            self.report(n, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
            self.kafka.join(self.id_of(n))

    def finish(self, ordinal: int) -> None:
        ended = {"exitCode": 0, "reason": "Completed", "containerID": f"containerd://{ordinal}"}
        times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}
        self.report(ordinal, "Succeeded", {"terminated": ended | times})

    def condition(self, group: str, kind: str) -> tuple[str, str]:
        found = [c for c in self.get("ksg", group).get("status", {}).get("conditions", ()) if c["type"] == kind]
        return (found[0]["status"], found[0]["message"]) if found else ("", "")

    @property
    def left(self) -> list[str]:
        return [entry.instance_id for entry, _ in self.kafka.leaves]


@pytest.fixture
def strimzi(kubectl: Kubectl, crds: str) -> Any:
    namespace = f"staticgroup-strimzi-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", namespace)
    kubectl.must("create", "serviceaccount", "app", "-n", namespace)
    made = Strimzi(kubectl, namespace)
    kubectl.must(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": made.node}})
    )
    facts = {"status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}
    kubectl.must("patch", "node", made.node, "--subresource=status", "--type=merge", "-p", json.dumps(facts))
    yield made
    kubectl.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", namespace)
    kubectl.run("delete", "ksg,kconn", "--all", "-n", namespace)
    kubectl.run("delete", "-f", str(DEFINITION), "--wait=false")
    kubectl.run("delete", "node", made.node, "--wait=false")
    kubectl.run("delete", "namespace", namespace, "--wait=false")


def declare(kubectl: Kubectl, namespace: str) -> None:
    """What a user writes, and the policy as the chart installs it with workloads.strimzi."""
    written = policy.admission_policy(name=namespace)
    del written["spec"]["matchConstraints"]["objectSelector"]
    binding = policy.policy_binding(name=namespace)
    binding["spec"]["matchResources"] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    }
    kubectl.apply(written)
    kubectl.apply(binding)
    here = {"namespace": namespace}
    kubectl.apply(
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": here | {"name": "kafka-user"},
            "stringData": {"username": "u", "password": "p"},
        }
    )  # fmt: skip
    connection = {
        "bootstrapServers": ["kafka.example.com:9092"],
        "sasl": {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}},
    }
    api = "staticgroup.io/v1alpha1"
    kubectl.apply(
        {"apiVersion": api, "kind": "KafkaConnection", "metadata": here | {"name": "kafka"}, "spec": connection}
    )
    common = {"connectionRef": {"name": "kafka"}, "groupProtocol": "Classic"}
    ref = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": SET}
    kubectl.apply(
        {
            "apiVersion": api, "kind": "StaticGroup", "metadata": here | {"name": "connect"},
            "spec": common | {"workloadRef": ref, "groupId": "connect-cluster"},
        }
    )  # fmt: skip
    kubectl.apply(
        {
            "apiVersion": api, "kind": "StaticGroup", "metadata": here | {"name": "other"},
            "spec": common | {"workloadRef": {"name": "web"}, "groupId": "other"},
        }
    )  # fmt: skip


@asynccontextmanager
async def operating(strimzi: Strimzi) -> AsyncIterator[None]:
    """Run the whole operator for one namespace, with the coordinator of the test."""
    assert os.environ.get("KUBECONFIG"), "the cluster tests need KUBECONFIG"
    configuration = Configuration()
    await config.load_kube_config(client_configuration=configuration)
    transport = connect(configuration)
    namespace = strimzi.namespace
    settings = Settings(
        identity="one", namespace=namespace, watch_namespaces=(namespace,), policy_name=namespace,
        leader_election=False, group_poll_s=5.0,
    )  # fmt: skip
    task = asyncio.create_task(entered(Operator(settings, transport, kafka=strimzi.kafka)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


async def test_the_pods_of_a_strimzi_pod_set_get_ids_and_only_the_dead_ones_leave(
    kubectl: Kubectl, strimzi: Strimzi
) -> None:
    declare(kubectl, strimzi.namespace)
    async with operating(strimzi):
        status, message = await eventually(
            lambda: (found := strimzi.condition("connect", "WorkloadFound"))[0] and found,
            "the condition of a kind that is not served",
        )
        assert status == "Unknown"
        assert (
            "the API server serves no StrimziPodSet in core.strimzi.io/v1; install Strimzi's cluster operator"
            in message
        )
        await eventually(
            lambda: "StatefulSet" in (found := strimzi.condition("other", "WorkloadFound"))[1] and found[0] == "False",
            "the other StaticGroup is served",
        )

        kubectl.must("apply", "--server-side", "-f", str(DEFINITION))
        await eventually(
            lambda: kubectl.run("get", "strimzipodsets.core.strimzi.io", "-n", strimzi.namespace).returncode == 0,
            "discovery",
        )
        strimzi.list_pods(0, 1, 2, 4)
        await eventually(lambda: strimzi.condition("connect", "WorkloadFound")[0] == "True", "the set is found")
        await eventually(strimzi.is_injected, "the policy injects")
        strimzi.reconcile()
        strimzi.start(0, 1, 2, 4)
        ids = {n: strimzi.id_of(n) for n in (0, 1, 2, 4)}
        assert all(ids[n].startswith(f"{SET}-{n}.") for n in ids)
        await eventually(
            lambda: strimzi.get("ksg", "connect")["status"].get("members", {}).get("joined") == 4,
            "four members have joined",
        )

        strimzi.list_pods(0, 2)
        strimzi.finish(1)
        strimzi.reconcile(slow=frozenset({4}))
        await eventually(lambda: ids[1] in strimzi.left, "the member of the pod that ended has left")
        held = await eventually(
            lambda: [e for e in strimzi.get("ksg", "connect")["status"].get("issues", ()) if e["kind"] == "Held"],
            "the other one is held",
        )
        assert [e["reason"] for e in held] == ["PodStillRunning"]
        assert strimzi.left == [ids[1]]

        strimzi.finish(4)
        strimzi.reconcile()
        await eventually(lambda: len(strimzi.left) == 2, "the second one has left")
    assert strimzi.left == [ids[1], ids[4]]
    assert set(strimzi.kafka.members) == {ids[0], ids[2]}
