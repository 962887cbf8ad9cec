"""The fence around the notes of Deployments' pods, on a real API server: each writer is tried as itself."""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from live_cluster import Kubectl

from staticgroup.api import names, slot_policy
from support.waiting import until

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
SCOPE = "3fa9c1d2"
NOTE = f"{names.SLOT_ANNOTATION}-{SCOPE}"
HAS_IT, WAITS = "{uid} has web-7", "{uid} waits 1 -"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A namespace where the fence is in force, and who writes there."""

    kubectl: Kubectl
    namespace: str

    @property
    def operator(self) -> str:
        return f"system:serviceaccount:{self.namespace}:operator"

    def pod(self, **annotations: str) -> Json:
        """A pod that exists; no scheduler takes it."""
        body = a_pod(self.namespace)
        created: Json = json.loads(self.kubectl.must("create", "-o", "json", "-f", "-", stdin=json.dumps(body)))
        for key, text in annotations.items():
            self.write(created, {f"{names.SLOT_ANNOTATION}-{key}": text}, self.operator)
        return created

    def patch(self, pod: Json, patch: Json, user: str, *options: str) -> str:
        """Write a merge patch as a user; returns what the API server has against it, "" for nothing."""
        text = json.dumps(patch).replace("{uid}", pod["metadata"]["uid"])
        answer = self.kubectl.run(
            "patch", "pod", pod["metadata"]["name"], "-n", self.namespace, "--type=merge", "-p", text,
            *(("--as", user) if user else ()), *options,
        )  # fmt: skip
        return "" if answer.returncode == 0 else answer.stderr

    def write(self, pod: Json, annotations: Json, user: str) -> None:
        assert self.patch(pod, {"metadata": {"annotations": annotations}}, user) == ""

    def refusal(self, pod: Json, annotations: Json, user: str, *options: str) -> str:
        return self.patch(pod, {"metadata": {"annotations": annotations}}, user, *options)


def a_pod(namespace: str, **metadata: Any) -> Json:
    base = {"name": f"web-{uuid.uuid4().hex[:8]}", "namespace": namespace, "labels": {"app": "web"}}
    containers = [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"schedulerName": "none", "serviceAccountName": "app", "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": base | metadata, "spec": spec | {"containers": containers}}


@pytest.fixture(scope="module")
def fenced(kubectl: Kubectl) -> Iterator[Fenced]:
    name = f"staticgroup-fence-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", name)
    for account in ("app", "operator"):
        kubectl.must("create", "serviceaccount", account, "-n", name)
    made = Fenced(kubectl=kubectl, namespace=name)
    # More rights than an installation gives: what is refused, the fence refuses.
    for account in ("operator", "app"):
        kubectl.must(
            "create", "rolebinding", account, "-n", name, "--clusterrole=cluster-admin", f"--serviceaccount={name}:{account}"
        )
    binding = slot_policy.fence_binding(name=name)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    binding["spec"]["matchResources"] = {"namespaceSelector": selector}
    kubectl.apply(slot_policy.fence(name=name, operator=made.operator))
    kubectl.apply(binding)
    first = made.pod()
    until(
        lambda: made.refusal(first, {NOTE: "x"}, "", "--dry-run=server"), deadline_s=30, what="the fence in force"
    )
    yield made
    kubectl.run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
    kubectl.run("delete", "pods", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false")
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_the_operator_writes_a_claim_then_a_slot_then_how_often_it_said_so(fenced: Fenced) -> None:
    pod = fenced.pod()
    for text in (WAITS, "{uid} waits 2 web-7", "{uid} waits 3 web-7", HAS_IT, "{uid} has web-7 1", "{uid} has web-7 12"):
        fenced.write(pod, {NOTE: text}, fenced.operator)
    other = f"{names.SLOT_ANNOTATION}-0badc0de"
    fenced.write(pod, {other: "{uid} has web-9"}, fenced.operator)


NOT_WHAT_IT_WRITES = "hold a note that begins with the pod's own uid"
KEEPS = "a pod keeps the slot that it has"
ALONE = "are written by the StaticGroup operator alone"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (HAS_IT, "{uid} has web-8", KEEPS),
        (HAS_IT, "{uid} has web-77", KEEPS),
        (HAS_IT, "{uid} waits 1 web-7", KEEPS),
        ("{uid} has web-7 1", "{uid} has web-8 2", KEEPS),
        (HAS_IT, None, NOT_WHAT_IT_WRITES),
        (WAITS, None, NOT_WHAT_IT_WRITES),
        ("", "0a1b has web-7", NOT_WHAT_IT_WRITES),
        ("", "has web-7", NOT_WHAT_IT_WRITES),
        ("", "{uid}", NOT_WHAT_IT_WRITES),
        ("", "{uid} has", NOT_WHAT_IT_WRITES),
        ("", "{uid} has  web-7", NOT_WHAT_IT_WRITES),
        ("", "{uid} has web-7 web-8", NOT_WHAT_IT_WRITES),
        ("", "{uid} has web-7\n{uid} has web-8", NOT_WHAT_IT_WRITES),
        ("", "{uid}x has web-7", NOT_WHAT_IT_WRITES),
    ],
)
def test_the_operator_too_writes_only_notes_and_never_changes_a_slot(
    fenced: Fenced, before: str, after: str | None, says: str
) -> None:
    pod = fenced.pod(**({SCOPE: before} if before else {}))
    assert says in fenced.refusal(pod, {NOTE: after}, fenced.operator)


@pytest.mark.parametrize("user", ["", "app"])
@pytest.mark.parametrize("option", [(), ("--subresource=status",)])
def test_nobody_else_writes_a_note(fenced: Fenced, user: str, option: tuple[str, ...]) -> None:
    """Neither the cluster's administrator ("") nor an account that may do all; pods/status carries annotations too."""
    account = f"system:serviceaccount:{fenced.namespace}:{user}" if user else ""
    fresh, has_one = fenced.pod(), fenced.pod(**{SCOPE: HAS_IT})
    assert ALONE in fenced.refusal(fresh, {NOTE: HAS_IT}, account, *option)
    assert ALONE in fenced.refusal(has_one, {NOTE: "{uid} has web-8"}, account, *option)
    assert ALONE in fenced.refusal(has_one, {NOTE: "{uid} has web-7 1"}, account, *option)
    assert ALONE in fenced.refusal(has_one, {NOTE: None}, account, *option)
    assert fenced.refusal(has_one, {"own/annotation": "x"}, account, *option) == ""


@pytest.mark.parametrize("user", ["", "operator"])
def test_no_pod_is_born_with_a_note(fenced: Fenced, user: str) -> None:
    """A copy by `kubectl debug --copy-to --keep-annotations`, a restored backup, or a pod template that has one."""
    options = ("--as", fenced.operator) if user else ()
    copy = a_pod(fenced.namespace, annotations={NOTE: f"{uuid.uuid4()} has web-7"})
    answer = fenced.kubectl.run("create", "-f", "-", *options, stdin=json.dumps(copy))
    assert answer.returncode != 0
    assert ALONE in answer.stderr


def test_no_binding_brings_a_note(fenced: Fenced) -> None:
    """The API server copies the annotations of a Binding into the pod."""
    pod = fenced.pod()
    uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{fenced.namespace}/pods/{name}/binding"

    def bind(annotations: Json) -> str:
        body = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        }  # fmt: skip
        answer = fenced.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
        return "" if answer.returncode == 0 else answer.stderr

    assert ALONE in bind({NOTE: f"{uid} has web-7"})
    assert bind({"scheduler/own": "x"}) == ""


ELSE: dict[str, Callable[[], Json]] = {
    "label": lambda: {"metadata": {"labels": {"app": "other"}}},
    "new label": lambda: {"metadata": {"labels": {"new": "x"}}},
    "no labels": lambda: {"metadata": {"labels": None}},
    "annotation": lambda: {"metadata": {"annotations": {"own/annotation": "x"}}},
    "its own annotation that is no note": lambda: {"metadata": {"annotations": {names.SLOT_ANNOTATION: "x"}}},
    "finalizer": lambda: {"metadata": {"finalizers": ["example.com/stay"]}},
    "owner": lambda: {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": str(uuid.uuid4())}]}},
    "image": lambda: {"spec": {"containers": [
        {"name": "app", "image": "other", "resources": {"requests": {"cpu": "1"}}}]}},
    "deadline": lambda: {"spec": {"activeDeadlineSeconds": 1}},
}  # fmt: skip


@pytest.mark.parametrize("what", ELSE)
def test_the_operators_account_can_change_nothing_else(fenced: Fenced, what: str) -> None:
    pod = fenced.pod()
    fenced.write(pod, {"kept": "1"}, "")
    patch = ELSE[what]()
    allowed = "may write annotations staticgroup.io/slot-... of pods and nothing else"
    assert allowed in fenced.patch(pod, patch, fenced.operator)
    beside = json.loads(json.dumps(patch))
    beside.setdefault("metadata", {}).setdefault("annotations", {})[NOTE] = WAITS
    assert allowed in fenced.patch(pod, beside, fenced.operator), "not in one patch with a note either"
    assert allowed in fenced.patch(pod, {"metadata": {"annotations": {"kept": None}}}, fenced.operator)
    assert fenced.patch(pod, patch, "", "--dry-run=server") == "", "the patch itself is possible"


def test_the_operators_account_makes_no_pods_and_uses_no_subresource(fenced: Fenced) -> None:
    account = ("--as", fenced.operator)
    made = fenced.kubectl.run("create", "-f", "-", *account, stdin=json.dumps(a_pod(fenced.namespace)))
    assert "nothing else" in made.stderr
    pod = fenced.pod()
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert "nothing else" in fenced.patch(pod, status, fenced.operator, "--subresource=status")


def test_kubelets_and_other_writers_are_not_disturbed(fenced: Fenced) -> None:
    """With and without a note: status, conditions, labels, owners, finalizers, eviction, resize, deletion."""
    for notes in ({}, {SCOPE: HAS_IT}):
        pod = fenced.pod(**notes)
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        kubelets = {"metadata": {"uid": "{uid}"}, "status": {"phase": "Running", "conditions": [condition]}}
        assert fenced.patch(pod, kubelets, "", "--subresource=status") == ""
        for what, make in ELSE.items():
            assert fenced.patch(pod, make(), "") == "", what
        container = {"name": "app", "image": "other", "resources": {"requests": {"cpu": "2"}}}
        assert fenced.patch(pod, {"spec": {"containers": [container]}}, "", "--subresource=resize") == ""
        name = pod["metadata"]["name"]
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": fenced.namespace},
        }  # fmt: skip
        path = f"/api/v1/namespaces/{fenced.namespace}/pods/{name}/eviction"
        fenced.kubectl.must("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        assert fenced.patch(pod, {"metadata": {"finalizers": None}}, "") == ""
