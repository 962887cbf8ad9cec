"""A StaticGroup over a StatefulSet of OpenKruise on a real API server, beside one of Kubernetes of the same name.

As in test_pod_sets.py, of which this takes the world: OpenKruise itself does not take part, its definition is written by
hand (advanced_sets.yaml), and what its controller makes of reserved ordinals is here.
"""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Kubectl
from test_pod_sets import SET, Strimzi, declare, eventually, operating

from staticgroup.api import names, policy

pytestmark = [pytest.mark.cluster]

Json = dict[str, Any]
DEFINITION = Path(__file__).parent / "advanced_sets.yaml"
REF = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": SET}
REF_OF_OBJECT = {"apiVersion": REF["apiVersion"], "kind": REF["kind"]}
LABELS = {"app": SET}


class Kruise(Strimzi):
    """The StatefulSet of OpenKruise, its controller, the kubelet of its pods, and the members of their processes."""

    def list_pods(self, *ordinals: int) -> None:
        """What a user writes who wants these: all others below the last one are reserved, one of them as a range."""
        self.listed = set(ordinals)
        first, *others = [n for n in range(max(ordinals)) if n not in ordinals] or [max(ordinals) + 1]
        container = {"name": SET, "image": "none"}
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
        spec = {"replicas": len(ordinals), "reserveOrdinals": [f"{first}-{first}", *others], "template": template}
        metadata = {"name": SET, "namespace": self.namespace}
        self.kubectl.apply(REF_OF_OBJECT | {"metadata": metadata, "spec": spec | {"selector": {"matchLabels": LABELS}}})

    def reconcile(self, *, slow: frozenset[int] = frozenset()) -> None:
        mine = self.get("statefulsets.apps.kruise.io", SET)
        pods = {p["metadata"]["name"] for p in self.get("pods")["items"]}
        for n in sorted(self.listed):
            if f"{SET}-{n}" not in pods:
                self._create(made(n), mine["metadata"]["uid"])
        kept = {f"{SET}-{n}" for n in self.listed | slow}
        for name in sorted(pods - kept):
            self.kubectl.must("delete", "pod", name, "-n", self.namespace, "--wait=false")
        count = len(self.get("pods")["items"])
        status = {
            "observedGeneration": mine["metadata"]["generation"], "replicas": count, "readyReplicas": count,
            "updatedReplicas": count, "currentRevision": "a", "updateRevision": "a",
        }  # fmt: skip
        metadata = {"name": SET, "namespace": self.namespace}
        self.kubectl.apply(REF_OF_OBJECT | {"metadata": metadata, "status": status}, "--subresource=status")

    def is_injected(self) -> bool:
        answer = self.kubectl.must(
            "create", "--dry-run=server", "-o", "json", "-f", "-",
            stdin=json.dumps(self._pod(made(99), str(uuid.uuid4()))),
        )  # fmt: skip
        return names.INSTANCE_ID_ANNOTATION in json.loads(answer)["metadata"].get("annotations", {})

    def _pod(self, pod: Json, owner_uid: str) -> Json:
        written = super()._pod(pod, owner_uid)
        written["metadata"]["ownerReferences"][0] |= REF
        return written


def made(ordinal: int) -> Json:
    """A pod as newStatefulSetPod of OpenKruise makes it: named and labelled as that of a StatefulSet (updateIdentity)."""
    name = f"{SET}-{ordinal}"
    labels = LABELS | {names.POD_INDEX_LABEL: str(ordinal), "statefulset.kubernetes.io/pod-name": name}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": SET, "image": "none"}]}}


@pytest.fixture
def kruise(kubectl: Kubectl, crds: str) -> Any:
    namespace = f"staticgroup-kruise-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", namespace)
    kubectl.must("create", "serviceaccount", "app", "-n", namespace)
    world = Kruise(kubectl, namespace)
    kubectl.must(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": world.node}})
    )
    facts = {"status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}
    kubectl.must("patch", "node", world.node, "--subresource=status", "--type=merge", "-p", json.dumps(facts))
    kubectl.must("apply", "--server-side", "-f", str(DEFINITION))
    yield world
    kubectl.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", namespace)
    kubectl.run("delete", "ksg,kconn", "--all", "-n", namespace)
    kubectl.run("delete", "-f", str(DEFINITION), "--wait=false")
    kubectl.run("delete", "node", world.node, "--wait=false")
    kubectl.run("delete", "namespace", namespace, "--wait=false")


async def test_only_the_member_of_a_reserved_ordinal_whose_pod_ended_leaves(kubectl: Kubectl, kruise: Kruise) -> None:
    await eventually(
        lambda: kubectl.run("get", "statefulsets.apps.kruise.io", "-n", kruise.namespace).returncode == 0, "discovery"
    )
    declare(kubectl, kruise.namespace, REF)
    # As the chart installs it: the pods have the label that its selector looks for.
    kubectl.apply(policy.admission_policy(name=kruise.namespace))
    plain = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": SET, "namespace": kruise.namespace},
        "spec": {
            "replicas": 0, "serviceName": SET, "selector": {"matchLabels": {"app": "none"}},
            "template": {
                "metadata": {"labels": {"app": "none"}}, "spec": {"containers": [{"name": SET, "image": "none"}]},
            },
        },
    }  # fmt: skip
    kubectl.apply(plain)
    async with operating(kruise):
        kruise.list_pods(0, 1, 2, 4)
        await eventually(lambda: kruise.condition("connect", "WorkloadFound")[0] == "True", "the set is found")
        await eventually(kruise.is_injected, "the policy injects")
        kruise.reconcile()
        kruise.start(0, 1, 2, 4)
        ids = {n: kruise.id_of(n) for n in (0, 1, 2, 4)}
        await eventually(
            lambda: kruise.get("ksg", "connect")["status"].get("members", {}).get("joined") == 4, "four have joined"
        )
        kruise.list_pods(0, 2, 4)
        kruise.finish(1)
        kruise.reconcile()
        await eventually(lambda: kruise.left, "the member of the reserved ordinal has left")
        await eventually(lambda: "wants 3 pods" in kruise.condition("connect", "WorkloadFound")[1], "the status says it")
    assert kruise.left == [ids[1]]
    assert set(kruise.kafka.members) == {ids[0], ids[2], ids[4]}
