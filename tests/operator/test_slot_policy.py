"""The policy for pods of Deployments, on a real API server: everything or nothing, once, and as the renderer says."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from live_cluster import Kubectl
from policy_lab import Lab, a_lab
from slot_lab import (
    GENERIC,
    HASH,
    IMAGE,
    a_replicas_pod,
    has_waiter,
    issue,
    keyed,
    policy_with_an_image,
    settle,
    timeout_of,
)
from test_policy_rendering import BETWEEN, END_OF_OBJECT

from staticgroup.api import names, policy
from staticgroup.api.rendering import AgentImage, is_meant, rendered
from staticgroup.api.resources.injected import InjectedMethod
from support.waiting import until

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
SEED = 35
SCOPE, OTHER = "3fa9c1d2", "0badc0de"
SLOT, SLOT_IN = f"{names.SLOT_NAME}-{SCOPE}", f"{names.SLOT_NAME}-{SCOPE}-in"
TWO = (keyed("side", "ORDERS_ID", "-orders"), keyed("", "AUDIT_ID", "-audit"), timeout_of("side"))
# How many pods are drawn of each Deployment, and what its StaticGroups give; 250 in all, and the few that are off.
WORKLOADS: dict[str, tuple[int, list[Json]]] = {
    "plain": (80, [{"scope": SCOPE}]),
    "several": (60, [{"scope": SCOPE, "env": TWO}]),
    "no-timeout": (40, [{"scope": SCOPE, "timeout_ms": None}]),
    "shared": (70, [{"scope": SCOPE}, {"scope": OTHER, "name": "shared-audit", "env": (keyed("app", "AUDIT_ID"),)}]),
    "observed": (6, [{"scope": SCOPE, "mode": "Observe"}]),
    "by-webhook": (6, [{"scope": SCOPE, "method": "Webhook"}]),
}
ENV: tuple[Json, ...] = (
    {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"},
    {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "1"},
    {"name": "AUDIT_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {"name": "OTHER", "value": "$(KAFKA_GROUP_INSTANCE_ID)"},
    {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    {"name": "EMPTY", "value": ""},
)
VOLUMES: tuple[Json, ...] = (
    {"name": "data", "emptyDir": {}},
    {"name": "settings", "configMap": {"name": "settings", "optional": True}},
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "kafka"}}]}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
)  # fmt: skip
INITS: tuple[Json, ...] = (
    {"name": "migrate", "image": "init", "command": ["true"]},
    {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
    {"name": "fetch", "image": "fetch", "env": [{"name": "A", "value": "b"}]},
)


@pytest.fixture(scope="module")
def lab(kubectl: Kubectl, crds: str) -> Iterator[Lab]:
    with a_lab(kubectl, policy_with_an_image, "Fail") as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere(kubectl: Kubectl, lab: Lab) -> Iterator[str]:
    """A namespace where no policy is in force."""
    name = f"{lab.namespace}-off"
    kubectl.must("create", "namespace", name)
    kubectl.must("create", "serviceaccount", "app", "-n", name)
    yield name
    kubectl.run("delete", "namespace", name, "--wait=false")


def a_container(rng: random.Random, name: str) -> Json:
    made: Json = {"name": name, "image": "app"}
    env = rng.sample(ENV, rng.randrange(4))
    if env or rng.random() < 0.3:
        made["env"] = env
    if rng.random() < 0.25:
        made["envFrom"] = [{"configMapRef": {"name": "worker"}}]
    if rng.random() < 0.3:
        made["securityContext"] = {"runAsNonRoot": True}
    if rng.random() < 0.3:
        made["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    return made


def a_pod(rng: random.Random, lab: Lab, workload: str) -> Json:
    """One pod of everything that the policy looks at or adds to, by the seed."""
    others = rng.sample(["side", "proxy2", "third"], rng.randrange(4))
    containers = ["app", *others] if rng.random() < 0.7 else [*others, "app"]
    if rng.random() < 0.05:
        containers = [f"c{n}" for n in range(policy.CONTAINERS_MAX)] + containers
    spec: Json = {"containers": [a_container(rng, name) for name in containers]}
    for field, choices in (("volumes", VOLUMES), ("initContainers", INITS)):
        chosen = rng.sample(choices, rng.randrange(len(choices) + 1))
        if chosen or rng.random() < 0.3:
            spec[field] = chosen
    if "volumes" in spec and "data" in [v["name"] for v in spec["volumes"]]:
        spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": rng.choice(["/data", "/staticgroup/in"])}]
    if rng.random() < 0.4:
        spec["securityContext"] = rng.choice([{}, {"runAsUser": 0}, {"runAsUser": 7, "fsGroup": 7}])
    match rng.randrange(24):
        case 0:
            spec["volumes"] = [*spec.get("volumes", ()), {"name": rng.choice([SLOT, SLOT_IN]), "emptyDir": {}}]
        case 1:
            spec["initContainers"] = [*spec.get("initContainers", ()), {"name": SLOT, "image": "init"}]
        case 2:
            spec["containers"].append({"name": SLOT, "image": "app"})
        case 3:
            spec.pop("securityContext", None)
            for each in spec["containers"]:
                each.pop("securityContext", None)
            spec |= {"os": {"name": "windows"}}
        case 4:
            spec |= {"os": {"name": "linux"}}
        case _:
            pass
    return spoiled(rng, a_replicas_pod(lab, workload, **spec))


def spoiled(rng: random.Random, pod: Json) -> Json:
    """Now and then a pod that is not the Deployment's, or has a name or annotations already."""
    metadata = pod["metadata"]
    owner = metadata["ownerReferences"][0]
    match rng.randrange(20):
        case 0:
            owner["controller"] = False
        case 1:
            owner["kind"] = "StatefulSet"
        case 2:
            owner["apiVersion"] = "argoproj.io/v1alpha1"
        case 3:
            owner["name"] = rng.choice([f"other-{HASH}", owner["name"].removesuffix(f"-{HASH}"), f"{owner['name']}x"])
        case 4:
            del metadata["labels"][names.POD_TEMPLATE_HASH_LABEL]
        case 5:
            metadata["labels"][names.POD_TEMPLATE_HASH_LABEL] = ""
        case 6:
            del metadata["ownerReferences"]
        case 7:
            metadata["name"] = "copy"
        case 8 | 9:
            metadata["annotations"] = rng.choice([{}, {"a.b/c_d": "1"}, {names.SESSION_TIMEOUT_ANNOTATION: "forged"}])
        case _:
            pass
    return pod


def admitted(kubectl: Kubectl, pods: list[Json]) -> list[Json]:
    """The pods as the API server would store them, without what differs from one creation to the next."""
    bundle = {"apiVersion": "v1", "kind": "List", "items": pods}
    answer = kubectl.must("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(bundle))
    stored: list[Json] = json.loads(f"[{answer.replace(END_OF_OBJECT, BETWEEN)}]")
    assert len(stored) == len(pods)
    for pod in stored:
        for field in ("uid", "name", "creationTimestamp", "managedFields", "namespace"):
            pod["metadata"].pop(field, None)
        if not pod["metadata"].get("annotations"):
            pod["metadata"].pop("annotations", None)
    return stored


def in_one_order(pods: list[Json]) -> list[Json]:
    """Two StaticGroups of a Deployment inject in the order in which the API server happens to know them."""
    for pod in pods:
        for field in ("initContainers", "volumes"):
            if field in pod["spec"]:
                pod["spec"][field].sort(key=lambda x: x["name"])
        for container in pod["spec"]["containers"]:
            container.get("env", []).sort(key=json.dumps)
    return pods


def by_the_renderer(pod: Json, groups: list[Json]) -> Json:
    given = pod
    for group in groups:
        if is_meant(pod, group, InjectedMethod.POLICY):
            given = rendered(given, group["status"]["injected"], AgentImage(), IMAGE)
    return given


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_the_policy_and_the_renderer_say_the_same_of_drawn_pods(lab: Lab, elsewhere: str, workload: str) -> None:
    count, wishes = WORKLOADS[workload]
    groups = [issue(lab, workload, **wish) for wish in wishes]
    is_off = workload in ("observed", "by-webhook")
    whole = [{"name": name, "image": "app"} for name in ("app", "side")]
    for wish in wishes:
        settle(lab, workload, wish["scope"], is_injected=not is_off, containers=whole)
    rng = random.Random(f"{SEED} {workload}")
    pods = [a_pod(rng, lab, workload) for _ in range(count)]
    ours = [by_the_renderer(pod, groups) for pod in pods]
    moved = [pod | {"metadata": pod["metadata"] | {"namespace": elsewhere}} for pod in ours]
    by_policy, by_renderer = admitted(lab.kubectl, pods), admitted(lab.kubectl, moved)
    if len(groups) > 1:
        by_policy, by_renderer = in_one_order(by_policy), in_one_order(by_renderer)
    for pod, found, expected in zip(pods, by_policy, by_renderer, strict=True):
        assert found == expected, json.dumps(pod)
    injected = [has_waiter(pod, SCOPE) for pod in by_policy]
    assert not any(injected) if is_off else any(injected) and not all(injected)
    print(f"{workload}: {len(pods)} pods, {sum(injected)} injected")


def test_a_pod_gets_waiter_volumes_and_variables(lab: Lab) -> None:
    """Word for word what the operator, the waiter and the kubelet read."""
    issue(lab, "whole", SCOPE, env=TWO)
    settle(lab, "whole", SCOPE, is_injected=False)  # its containers are not all there
    issue(lab, "whole", SCOPE)
    settle(lab, "whole", SCOPE)
    issue(lab, "whole", SCOPE, env=[*TWO, *GENERIC])
    two = [{"name": "app", "image": "app", "env": [{"name": "AUDIT_ID", "value": "mine"}, {"name": "X", "value": "x"}]}]
    side = {"name": "side", "image": "side"}
    before = a_replicas_pod(lab, "whole", containers=[*two, side], initContainers=[{"name": "migrate", "image": "init"}])
    pod = lab.admit(before)
    spec = pod["spec"]
    assert pod["metadata"]["annotations"] == {names.SESSION_TIMEOUT_ANNOTATION: "45000"}
    assert [c["name"] for c in spec["initContainers"]] == ["migrate", SLOT]
    waiter = spec["initContainers"][1]
    assert (waiter["image"], waiter["imagePullPolicy"]) == (IMAGE.name, IMAGE.pull_policy)
    assert waiter["args"] == [
        f"ORDERS_ID=%s.{SCOPE}-orders", f"AUDIT_ID=%s.{SCOPE}-audit", f"KAFKA_GROUP_INSTANCE_ID=%s.{SCOPE}",
    ]  # fmt: skip
    assert waiter["env"] == [{"name": "STATICGROUP_WORKLOAD", "value": "whole"}]
    assert waiter["volumeMounts"] == [
        {"name": SLOT, "mountPath": "/staticgroup/out"},
        {"name": SLOT_IN, "mountPath": "/staticgroup/in", "readOnly": True},
    ]
    assert waiter["resources"]["limits"] == waiter["resources"]["requests"] == {"cpu": "100m", "memory": "32Mi"}
    assert waiter["securityContext"]["runAsNonRoot"] is True
    volumes = {v.pop("name"): v for v in spec["volumes"]}
    assert volumes[SLOT] == {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    shown = {i["path"]: i["fieldRef"]["fieldPath"] for i in volumes[SLOT_IN]["downwardAPI"]["items"]}
    assert shown == {"uid": "metadata.uid", "note": f"metadata.annotations['staticgroup.io/slot-{SCOPE}']"}
    app, beside = ({e["name"]: e for e in c["env"]} for c in spec["containers"])
    assert list(app) == ["AUDIT_ID", "KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS", "X"]
    assert app["AUDIT_ID"]["valueFrom"] == {
        "fileKeyRef": {"volumeName": SLOT, "path": "env", "key": "AUDIT_ID", "optional": True}
    }
    assert list(beside) == ["ORDERS_ID", "KAFKA_SESSION_TIMEOUT_MS"]
    assert names.INSTANCE_ID_ANNOTATION not in json.dumps(pod["metadata"].get("annotations"))


def test_what_is_admitted_twice_is_injected_once(lab: Lab) -> None:
    """A copy that keeps the spec, and an API server that asks again after another mutation (reinvocationPolicy)."""
    issue(lab, "twice", SCOPE)
    once = settle(lab, "twice", SCOPE)
    again = a_replicas_pod(lab, "twice") | {"spec": once["spec"]}
    assert lab.admit(again)["spec"] == once["spec"]

    later = f"{lab.namespace}-z"  # policies are asked in the order of their names
    expression = "Object{metadata: Object.metadata{annotations: {'later': 'was here'}}}"
    written: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": later},
        "spec": {
            "matchConstraints": policy_with_an_image(later, "Fail")["spec"]["matchConstraints"],
            "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    }  # fmt: skip
    binding = policy.policy_binding(name=later)
    del binding["spec"]["paramRef"]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}}
    binding["spec"]["matchResources"] = {"namespaceSelector": selector}
    lab.kubectl.apply(written)
    lab.kubectl.apply(binding)
    try:
        found = settle_with(lab, "twice", "later")
        assert found["spec"] == once["spec"]
    finally:
        lab.kubectl.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", later)


def settle_with(lab: Lab, workload: str, annotation: str) -> Json:
    """The plainest pod, once it gets this annotation too."""

    def look() -> Json | None:
        pod = lab.admit(a_replicas_pod(lab, workload))
        return pod if annotation in pod["metadata"].get("annotations", {}) else None

    return until(look, deadline_s=30, what=f"annotation {annotation}")


def test_without_an_image_nothing_is_injected(kubectl: Kubectl, lab: Lab) -> None:
    """As a chart that does not know the waiter's image would install it."""
    issue(lab, "imageless", SCOPE)
    settle(lab, "imageless", SCOPE)
    written = policy_with_an_image(lab.namespace, "Fail")
    image = next(each for each in written["spec"]["variables"] if each["name"] == "slotImage")
    image["expression"] = "''"
    try:
        kubectl.apply(written)
        pod = settle(lab, "imageless", SCOPE, is_injected=False)
        assert "annotations" not in pod["metadata"]
        assert "volumes" not in pod["spec"]
    finally:
        kubectl.apply(policy_with_an_image(lab.namespace, "Fail"))
    settle(lab, "imageless", SCOPE)
