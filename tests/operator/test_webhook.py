"""The webhook in pods of its own, before a real API server: it gives what the renderer says, and one dead replica costs
no id.

It is asked beside the admission policy's tests on an API server that could serve the policy; that one injects only for
`method: Policy`, so the two do not meet.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from live_cluster import Kubectl
from policy_lab import SCOPE, Lab
from slot_lab import IMAGE as WAITER
from slot_lab import has_waiter, issue, settle
from test_chart_variants import render
from test_policy_rendering import GROUPS, a_pod, admitted, stored
from test_slot_policy import a_pod as a_replicas_pod_drawn
from test_slot_policy import admitted as admitted_slots

from staticgroup.api import names
from staticgroup.api.rendering import AgentImage, is_meant, rendered
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.runtime.webhook import certificates
from support.devcluster.cluster import Cluster
from support.devcluster.process import signal_each
from support.long_drills import by_length
from support.waiting import until
from support.webhook_drill import PodCreator, drill, stateful_pod, webhook_objects

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
PODS = by_length(short=60, long=200)
ASKED = by_length(short=("plain", "several", "debezium", "ordinal", "observed", "strimzi"), long=tuple(sorted(GROUPS)))
SECRET = "staticgroup-webhook"
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The webhook's two pods, serving one namespace; `objects` as the chart has them."""

    lab: Lab
    system: str
    objects: tuple[Json, ...]

    def shown(self) -> bytes:
        """The certificate that is stored now."""
        secret = json.loads(self.lab.kubectl.must("get", "secret", SECRET, "-n", self.system, "-o", "json"))
        return base64.b64decode(secret.get("data", {}).get(certificates.CERTIFICATE, ""))

    def processes(self, replica: str) -> list[int]:
        """The processes of one replica, by the cgroup of its pod."""
        selector = f"app.kubernetes.io/component=webhook,staticgroup.io/webhook={replica}"
        found = json.loads(self.lab.kubectl.must("get", "pods", "-n", self.system, "-l", selector, "-o", "json"))[
            "items"
        ]
        cluster = Cluster.load(os.environ["E2E_CLUSTER"])
        return [pid for pod in found for pid in cluster.pod_processes(pod["metadata"]["uid"])]

    def signal(self, replica: str, number: signal.Signals) -> None:
        """Send a signal to every process of one replica."""
        pids = self.processes(replica)
        assert pids, f"replica {replica} has no process"
        signal_each(pids, number)


def aged(hosts: Iterable[str]) -> Json:
    """A Secret whose certificate and authority are both due for renewal, and hold for weeks."""
    names, now_s = tuple(hosts), time.time()
    first = certificates.due(None, names, now_s=now_s - 250 * DAY_S, trusted_for_s=0)
    again = certificates.due(first, names, now_s=now_s - 65 * DAY_S, trusted_for_s=0)
    assert again is not None
    return {key: base64.b64encode(value).decode() for key, value in again.entries().items()}


@pytest.fixture(scope="module")
def webhook(kubectl: Kubectl, crds: str) -> Iterator[Installed]:
    run = uuid.uuid4().hex[:8]
    system, served = f"staticgroup-webhook-{run}", f"staticgroup-served-{run}"
    for name in (system, served, f"{served}-off"):
        kubectl.must("create", "namespace", name)
        kubectl.must("create", "serviceaccount", "app", "-n", name)
    repository, _, tag = os.environ["OPERATOR_IMAGE"].rpartition(":")
    values = f"image.repository={repository},image.tag={tag},image.pullPolicy=Never,watchNamespaces={{{served}}}"
    waiter = f"slots.image.repository={WAITER.name.partition(':')[0]},slots.image.tag={WAITER.name.partition(':')[2]}"
    slots = f"workloads.deployments=true,{waiter},slots.image.pullPolicy={WAITER.pull_policy}"
    chosen = ("injection.policy.enabled=false,injection.webhook.enabled=true,crds.install=false", values, slots)
    objects = tuple(
        webhook_objects(render("default", "--namespace", system, *(o for v in chosen for o in ("--set", v))))
    )
    for each in objects:
        data = {"data": aged(f"{SECRET}-{n}.{system}.svc" for n in range(2))} if each["kind"] == "Secret" else {}
        kubectl.apply(each | data)
    for replica in range(2):
        kubectl.must("rollout", "status", f"deployment/{SECRET}-{replica}", "-n", system, "--timeout=50s")
    yield Installed(lab=Lab(kubectl=kubectl, namespace=served), system=system, objects=objects)
    for kind in ("MutatingWebhookConfiguration", "ClusterRole", "ClusterRoleBinding"):
        for each in objects:
            if each["kind"] == kind:
                kubectl.run("delete", kind, each["metadata"]["name"])
    kubectl.run("delete", "ksg", "--all", "-n", served)
    kubectl.run("delete", "namespace", system, served, f"{served}-off", "--wait=false")


def test_a_pod_gets_its_id_as_soon_as_the_status_names_it_and_none_afterwards(webhook: Installed) -> None:
    """Nothing is remembered: each review reads the StaticGroups consistently, so the next pod already follows the
    status."""
    lab = webhook.lab
    lab.group("first", method=InjectedMethod.WEBHOOK)
    # The API server learns of the configuration and its authority by a watch.
    lab.admit_with_id(lab.pod("first"), f"first-0.{SCOPE}")
    for method, expected in (
        (InjectedMethod.NONE, None),
        (InjectedMethod.WEBHOOK, f"first-0.{SCOPE}"),
        (InjectedMethod.POLICY, None),
    ):
        lab.group("first", method=method)
        found = lab.admit(lab.pod("first"))["metadata"].get("annotations", {})
        assert found.get("staticgroup.io/instance-id") == expected, method


def is_told(pod: Json) -> bool:
    """Tell whether the API server asks about a pod at all, by the selectors of the entries."""
    labels = pod["metadata"].get("labels") or {}
    return names.POD_INDEX_LABEL in labels or labels.get("strimzi.io/controller") == "strimzipodset"


@pytest.mark.parametrize("workload", ASKED)
def test_the_webhook_and_the_renderer_say_the_same_of_generated_pods(webhook: Installed, workload: str) -> None:
    lab = webhook.lab
    lab.group(workload, **({"method": InjectedMethod.WEBHOOK} | GROUPS[workload]))
    group = stored(lab, workload)
    rng = random.Random(f"webhook {workload}")
    pods = [a_pod(rng, lab, workload, n) for n in range(24)]
    agent = AgentImage(name=os.environ["OPERATOR_IMAGE"], pull_policy="Never")
    given = [is_told(pod) and is_meant(pod, group, InjectedMethod.WEBHOOK) for pod in pods]
    ours = [
        rendered(pod, group["status"]["injected"], agent) if is_given else pod
        for pod, is_given in zip(pods, given, strict=True)
    ]
    moved = [pod | {"metadata": pod["metadata"] | {"namespace": f"{lab.namespace}-off"}} for pod in ours]
    by_webhook, by_renderer = admitted(lab.kubectl, pods), admitted(lab.kubectl, moved)
    assert by_webhook == by_renderer
    assert any(given) is (workload not in ("no-method", "observed", "suspended"))
    assert SCOPE not in group["status"]["injected"]["idTemplate"] or (SCOPE in json.dumps(by_webhook)) is any(given)


def test_the_webhook_gives_pods_of_deployments_what_the_policy_gives_them(webhook: Installed) -> None:
    """Of drawn pods as of the policy's test; here each is asked about twice, by two entries."""
    lab = webhook.lab
    group = issue(lab, "slots", SCOPE, method="Webhook")
    settle(lab, "slots", SCOPE)
    rng = random.Random("webhook slots")
    pods = [a_replicas_pod_drawn(rng, lab, "slots") for _ in range(PODS)]
    meant = [
        names.POD_TEMPLATE_HASH_LABEL in pod["metadata"]["labels"] and is_meant(pod, group, InjectedMethod.WEBHOOK)
        for pod in pods
    ]
    ours = [
        rendered(pod, group["status"]["injected"], AgentImage(), WAITER) if is_ours else pod
        for pod, is_ours in zip(pods, meant, strict=True)
    ]
    moved = [pod | {"metadata": pod["metadata"] | {"namespace": f"{lab.namespace}-off"}} for pod in ours]
    found = admitted_slots(lab.kubectl, pods)
    assert found == admitted_slots(lab.kubectl, moved)
    injected = [has_waiter(pod, SCOPE) for pod in found]
    assert any(injected)
    assert not all(injected)


def test_a_tool_that_applies_the_chart_again_leaves_what_the_webhook_wrote(webhook: Installed) -> None:
    """KEP-555: fields that a manager does not state stay with their owner; here the bundle of each entry, and the
    certificate."""
    kubectl = webhook.lab.kubectl
    for each in webhook.objects:
        if each["kind"] not in ("MutatingWebhookConfiguration", "Secret"):
            continue
        where = (each["kind"], each["metadata"]["name"], "-n", webhook.system, "-o", "json")
        before = json.loads(kubectl.must("get", *where))
        command = ("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-")
        kubectl.must(*command, stdin=json.dumps(each))
        after = json.loads(kubectl.must("get", *where))
        assert (after.get("webhooks"), after.get("data")) == (before.get("webhooks"), before.get("data"))
        assert all(entry["clientConfig"]["caBundle"] for entry in after.get("webhooks", ()))


def test_no_pod_loses_its_id_while_a_replica_is_killed_and_certificates_rotate(webhook: Installed) -> None:
    """Long: 200 pods in 100 s, while the authority is renewed, one replica killed, and the other frozen for ten
    seconds."""
    lab = webhook.lab
    lab.group("drill", method=InjectedMethod.WEBHOOK)
    before = webhook.shown()
    is_long = by_length(short=False, long=True)
    troubles = {PODS // 3: lambda: webhook.signal("0", signal.SIGKILL)}
    if is_long:
        troubles |= {140: lambda: webhook.signal("1", signal.SIGSTOP), 160: lambda: webhook.signal("1", signal.SIGCONT)}
    pods = [stateful_pod(lab.namespace, "drill", n) for n in range(PODS)]
    seen = drill(PodCreator(lab.kubectl.kubeconfig), pods, every_s=by_length(short=0.05, long=0.5), troubles=troubles)
    print(seen.figures())
    assert seen.without_id(SCOPE) == []
    if is_long:
        until(lambda: webhook.shown() != before, deadline_s=120, what="a certificate by the new authority")
