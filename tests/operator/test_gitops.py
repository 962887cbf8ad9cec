"""No difference for Argo CD and Flux: what a repository applies stays as it is while the operator and the API server
write beside it.

Both tools apply with a field manager of their own and compare by a dry run on the server. Sources: KEP-555 (server-side
apply); Argo CD's ServerSideDiff; the ResourceManager of Flux.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.names import FIELD_MANAGER
from support.full_status import full_status

pytestmark = pytest.mark.cluster

MANAGERS = ("argocd-controller", "kustomize-controller")
Json = dict[str, Any]
READY = {
    "type": "Ready", "status": "True", "reason": "Connected", "message": "3 brokers answer",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
}  # fmt: skip
STATUSES: dict[str, Json] = {
    "StaticGroup": full_status().to_wire(),
    "KafkaConnection": {
        "observedGeneration": 1, "conditions": [READY], "brokers": 3, "clusterId": "5L6g3nShT-eMCtK--X86sw",
    },
}  # fmt: skip


def samples() -> Iterator[Any]:
    """Yield what we and Git both write; the samples of frameworks are more of the same beside workloads, whose
    controllers write status."""
    for path in sorted((REPOSITORY / "deploy/samples").glob("*.yaml")):
        if path.stem.startswith("framework-"):
            continue
        for n, body in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
            if body["kind"] in (*STATUSES, "Secret"):
                yield pytest.param(body, id=f"{path.stem}-{n}")


def admission_policies() -> Iterator[Any]:
    """Yield the chart's policy; without a binding it acts on nothing."""
    for body in yaml.safe_load_all((REPOSITORY / "deploy/policy.yaml").read_text(encoding="utf-8")):
        if body["kind"].endswith("Policy"):
            yield pytest.param(body, id=body["kind"])


def apply(kubectl: Kubectl, body: Json, manager: str, *arguments: str) -> Json:
    """Apply as a tool does that forces nothing, and return the object."""
    command = (
        "apply", "--server-side", f"--field-manager={manager}", *arguments, "--show-managed-fields", "-o", "json", "-f",
        "-",
    )  # fmt: skip
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
    for number in ("generation", "resourceVersion"):
        assert again["metadata"].get(number) == before["metadata"].get(number)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("sample", list(samples()))
def test_sample_that_is_applied_again_differs_in_nothing(
    kubectl: Kubectl, namespace: str, sample: Json, manager: str
) -> None:
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
        assert_no_difference(kubectl, body, manager, live(kubectl, body))
    finally:
        kubectl.run("delete", body["kind"], name, "--wait=false")
