"""No difference for Argo CD and Flux: what a repository applies stays as it is while the operator and the API server write beside it.

Both tools apply with a field manager of their own and compare by a dry run on the server. Sources: KEP-555 (server-side apply);
Argo CD's ServerSideDiff; the ResourceManager of Flux.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.names import FIELD_MANAGER
from staticgroup.kube.translate.owners import is_put_back
from support.full_status import full_status
from support.waiting import until

pytestmark = pytest.mark.cluster

MANAGERS = ("argocd-controller", "kustomize-controller")
Json = dict[str, Any]
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Connected",
    "message": "3 brokers answer",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
STATUSES: dict[str, Json] = {
    "StaticGroup": full_status().to_wire(),
    "KafkaConnection": {"observedGeneration": 1, "conditions": [READY], "brokers": 3, "clusterId": "5L6g3nShT-eMCtK--X86sw"},
}


def samples() -> Iterator[Any]:
    """Yield what we and Git both write; the samples of frameworks are more of the same beside workloads, whose controllers write status."""
    for path in sorted((REPOSITORY / "deploy/samples").glob("*.yaml")):
        if path.stem.startswith("framework-"):
            continue
        for n, body in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
            if body["kind"] in (*STATUSES, "Secret"):
                yield pytest.param(body, id=f"{path.stem}-{n}")


def admission_policies() -> Iterator[Any]:
    """Yield the chart's policies; without a binding they act on nothing."""
    for path in ("deploy/policy.yaml", "deploy/confirmation-policy.yaml"):
        for body in yaml.safe_load_all((REPOSITORY / path).read_text(encoding="utf-8")):
            if body["kind"].endswith("Policy"):
                yield pytest.param(body, id=body["kind"])


def apply(kubectl: Kubectl, body: Json, manager: str, *arguments: str) -> Json:
    """Apply as a tool does that forces nothing, and return the object."""
    command = ("apply", "--server-side", f"--field-manager={manager}", *arguments, "--show-managed-fields", "-o", "json", "-f", "-")
    found: Json = json.loads(kubectl.must(*command, stdin=json.dumps(body)))
    return found


def live(kubectl: Kubectl, body: Json) -> Json:
    place = ["-n", body["metadata"]["namespace"]] if "namespace" in body["metadata"] else []
    command = ("get", body["kind"], body["metadata"]["name"], *place, "--show-managed-fields", "-o", "json")
    found: Json = json.loads(kubectl.must(*command))
    return found


def reported(kubectl: Kubectl, body: Json) -> None:
    """Write a status as the operator does."""
    known = {key: body[key] for key in ("apiVersion", "kind")}
    place = {key: body["metadata"][key] for key in ("namespace", "name")}
    wire = known | {"metadata": place, "status": STATUSES[body["kind"]]}
    kubectl.apply(wire, "--subresource=status", f"--field-manager={FIELD_MANAGER}")


def owned(obj: Json, manager: str) -> set[str]:
    """Return the paths of the fields that a manager owns."""

    def leaves(node: Json, path: str) -> Iterator[str]:
        for key, child in node.items():
            if key != ".":
                yield from leaves(child, f"{path}/{key}") if child else (f"{path}/{key}",)

    entries = [e for e in obj["metadata"].get("managedFields") or () if e["manager"] == manager]
    return {path for e in entries for path in leaves(e["fieldsV1"], "")}


def without_managers(obj: Json) -> Json:
    return obj | {"metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def assert_no_difference(kubectl: Kubectl, body: Json, manager: str, before: Json) -> None:
    """Compare as the tools do, then apply again: the object stays the very version that it is."""
    assert without_managers(apply(kubectl, body, manager, "--dry-run=server")) == without_managers(before)
    shown = kubectl.run("diff", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=json.dumps(body))
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    again = apply(kubectl, body, manager)
    # A 1.36.3 server stores a ValidatingAdmissionPolicy anew although neither the dry run nor kubectl finds a difference.
    numbers = ("generation",) if body["kind"] == "ValidatingAdmissionPolicy" else ("generation", "resourceVersion")
    for number in numbers:
        assert again["metadata"].get(number) == before["metadata"].get(number)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("sample", list(samples()))
def test_sample_that_is_applied_again_differs_in_nothing(kubectl: Kubectl, namespace: str, sample: Json, manager: str) -> None:
    name = f"{sample['metadata']['name'][:30]}-{uuid.uuid4().hex[:6]}"
    body = sample | {"metadata": sample["metadata"] | {"namespace": namespace, "name": name}}
    try:
        apply(kubectl, body, manager)
        if body["kind"] in STATUSES:
            reported(kubectl, body)
        before = live(kubectl, body)
        if body["kind"] in STATUSES:
            assert before["status"]
            assert owned(before, FIELD_MANAGER)
        assert owned(before, manager).isdisjoint(owned(before, FIELD_MANAGER))
        assert_no_difference(kubectl, body, manager, before)
    finally:
        kubectl.run("delete", body["kind"], name, "-n", namespace, "--wait=false")


def test_sample_that_kubectl_applied_from_its_side_differs_in_nothing(kubectl: Kubectl, namespace: str) -> None:
    for path in ("staticgroup-minimal", "staticgroup-streams"):
        text = (REPOSITORY / f"deploy/samples/{path}.yaml").read_text(encoding="utf-8")
        kubectl.must("apply", "-n", namespace, "-f", "-", stdin=text)
        shown = kubectl.run("diff", "-n", namespace, "-f", "-", stdin=text)
        assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr


@pytest.mark.parametrize("path", sorted((REPOSITORY / "crds").glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("crds")
def test_definition_that_is_applied_again_differs_in_nothing(kubectl: Kubectl, path: Any) -> None:
    """The API server adds names, conditions and defaults to it."""
    body: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    for manager in MANAGERS:
        apply(kubectl, body, manager)
        assert_no_difference(kubectl, body, manager, live(kubectl, body))


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("policy", list(admission_policies()))
def test_policy_that_is_applied_again_differs_in_nothing(kubectl: Kubectl, policy: Json, manager: str) -> None:
    """The API server adds defaults within fields that have one owner, so each manager has an object of its own."""
    name = f"gitops-{uuid.uuid4().hex[:8]}"
    body = policy | {"metadata": policy["metadata"] | {"name": name}}
    try:
        apply(kubectl, body, manager)
        if body["kind"] == "ValidatingAdmissionPolicy":  # a controller checks its types and writes a status
            until(lambda: live(kubectl, body).get("status", {}).get("observedGeneration"), deadline_s=30, what="its types are checked")
        assert_no_difference(kubectl, body, manager, live(kubectl, body))
    finally:
        kubectl.run("delete", body["kind"], name, "--wait=false")


# the scope of the ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cleared", [False, True])
def test_whoever_puts_another_status_over_ours_owns_its_history_or_nobody_does(kubectl: Kubectl, namespace: str, is_cleared: bool) -> None:
    """By that a status that was put back is known at the next start (`runtime.memory.memories`).

    Where somebody has cleared managedFields (`[{}]`, as the documentation of Kubernetes says), nothing is noted until the next apply.
    """
    sample = next(s for (s,) in (p.values for p in samples()) if s["kind"] == "StaticGroup")
    body = sample | {"metadata": sample["metadata"] | {"namespace": namespace, "name": f"put-back-{uuid.uuid4().hex[:6]}"}}
    place = (body["kind"], body["metadata"]["name"], "-n", namespace)
    path = "/f:status/f:continuity/f:digest"
    apply(kubectl, body, MANAGERS[0])
    reported(kubectl, body)
    assert path in owned(live(kubectl, body), FIELD_MANAGER)
    if is_cleared:
        kubectl.must("patch", *place, "--type=merge", "-p", json.dumps({"metadata": {"managedFields": [{}]}}))
        assert "managedFields" not in live(kubectl, body)["metadata"]
    older = json.dumps({"status": {"continuity": {"digest": "0" * 32}}})
    kubectl.must("patch", *place, "--subresource=status", "--field-manager=backup", "--type=merge", "-p", older)
    found = live(kubectl, body)
    assert found["status"]["continuity"]["digest"] == "0" * 32
    owners = {e["manager"] for e in found["metadata"].get("managedFields") or () if path in owned(found, e["manager"])}
    assert owners == (set() if is_cleared else {"backup"})


def test_operator_that_applies_the_same_status_again_owns_the_history_that_nobody_owned(kubectl: Kubectl, namespace: str) -> None:
    """By that a running operator answers cleared managedFields, and whoever replaces the object by a manifest that tells others."""
    sample = next(s for (s,) in (p.values for p in samples()) if s["kind"] == "StaticGroup")
    body = sample | {"metadata": sample["metadata"] | {"namespace": namespace, "name": f"owned-{uuid.uuid4().hex[:6]}"}}
    made = apply(kubectl, body, MANAGERS[0])
    replaced = made | {"metadata": {k: v for k, v in made["metadata"].items() if k != "resourceVersion"}}
    reported(kubectl, body)
    clear = ("patch", body["kind"], body["metadata"]["name"], "-n", namespace, "--type=merge", "-p", json.dumps({"metadata": {"managedFields": [{}]}}))
    for command, stdin in ((clear, ""), (("replace", "-f", "-"), json.dumps(replaced))):
        kubectl.must(*command, stdin=stdin)
        before = live(kubectl, body)
        assert is_put_back(before)
        reported(kubectl, body)
        after = live(kubectl, body)
        assert not is_put_back(after)
        assert after["status"] == before["status"]


def test_existing_staticgroup_takes_the_scope_that_its_status_says_and_no_other(kubectl: Kubectl, namespace: str) -> None:
    spec: Json = {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    body: Json = {
        "apiVersion": "staticgroup.io/v1alpha1",
        "kind": "StaticGroup",
        "metadata": {"name": "adopts-its-scope", "namespace": namespace},
        "spec": spec,
    }
    apply(kubectl, body, "argocd-controller")
    reported(kubectl, body)
    drawn = live(kubectl, body)["status"]["injected"]["scope"]
    other = body | {"spec": spec | {"identity": {"scope": "0ddba115" if drawn != "0ddba115" else "5ca1ab1e"}}}
    command = ("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-")
    refused = kubectl.run(*command, stdin=json.dumps(other))
    assert refused.returncode != 0
    assert "spec.identity.scope can be written later only as status.injected.scope says" in refused.stderr
    written = body | {"spec": spec | {"identity": {"scope": drawn}}}
    assert apply(kubectl, written, "argocd-controller")["spec"]["identity"]["scope"] == drawn
    for changed in (other, body):
        refused = kubectl.run(*command, stdin=json.dumps(changed))
        assert "spec.identity.scope is immutable and stays" in refused.stderr
    reported(kubectl, written)
    assert_no_difference(kubectl, written, "argocd-controller", live(kubectl, written))
