"""The policy's CEL and the product's renderer, asked about the same generated pods: on a real API server they say the
same.

What the API server adds to every pod (defaults) must not count: the rendered pod is sent through a namespace without
the policy, and the untouched one through the policy's; what comes out is compared whole.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from live_cluster import Kubectl
from policy_lab import SCOPE, Lab, a_lab

from staticgroup.api import names, policy
from staticgroup.api.rendering import AgentImage, is_meant, rendered
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.api.workloads import STATEFUL_SET, STRIMZI_POD_SET, WorkloadKind
from support.waiting import until

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
SEED = 20
PODS_OF_A_GROUP = 24
IMAGE = AgentImage(name="registry.example/staticgroup:1", pull_policy="Always")
AGENT = names.AGENT_NAME
PATH = names.AGENT_MOUNT_PATH
TEMPLATES = (
    "{podName}.{scope}", "{workloadName}_{ordinal}.{scope}", "{podName}-{podName}.{scope}", "{podName}-{ordinal}",
)  # fmt: skip
TWO = [
    {"container": "side", "suffix": "-orders"},
    {"suffix": ".audit", "instanceIdName": "AUDIT_ID", "sessionTimeoutName": ""},
    {"container": "side", "instanceIdName": "THIRD_ID"},
]
STRIMZI = {"apiVersion": "core.strimzi.io/v1beta2", "kind": "StrimziPodSet"}
GROUPS: dict[str, Json] = {
    "plain": {},
    "ordinal": {"template": TEMPLATES[1]},
    "repeated": {"template": TEMPLATES[2]},
    "both": {"template": TEMPLATES[3]},
    "no-timeout": {"session_timeout_ms": None},
    "several": {"client": {"type": "Custom", "env": TWO}},
    "no-method": {"method": InjectedMethod.NONE},
    "observed": {"spec": {"mode": "Observe"}},
    "suspended": {"spec": {"mode": "Suspended"}},
    "connect": {"client": {"type": "Connect", "injectAgent": True}},
    "connect-side": {"client": {"type": "Connect", "injectAgent": True, "container": "side"}},
    "provided": {"client": {"type": "Connect"}},
    "debezium": {"client": {"type": "Debezium", "injectAgent": True}},
    "debezium-provided": {"client": {"type": "Debezium"}},
    "strimzi": {"spec": {"workloadRef": STRIMZI | {"name": "strimzi"}}},
    "strimzi-ordinal": {"spec": {"workloadRef": STRIMZI | {"name": "strimzi-ordinal"}}, "template": TEMPLATES[1]},
    "debezium-ordinal": {"client": {"type": "Debezium"}, "template": TEMPLATES[1]},
}
ENV: tuple[Json, ...] = (
    {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"},
    {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "1"},
    {"name": names.POD_NAME_VARIABLE, "value": "forged"},
    {"name": "AUDIT_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {"name": "OTHER", "value": "$(KAFKA_GROUP_INSTANCE_ID)"},
    {"name": "OTHER", "value": "again"},
    {"name": "EMPTY", "value": ""},
    {"name": "ADVERTISED_HOST_NAME", "value": "here"},
)
OPTIONS: tuple[list[Json], ...] = (
    [],
    [{"name": "KAFKA_OPTS", "value": ""}],
    [{"name": "KAFKA_OPTS"}],
    [{"name": "KAFKA_OPTS", "value": "-Da=$(HEAP) $$(x)"}],
    [{"name": "KAFKA_OPTS", "value": f"-javaagent:/own/{names.AGENT_JAR}"}],
    [{"name": "KAFKA_OPTS", "valueFrom": {"configMapKeyRef": {"name": "worker", "key": "opts"}}}],
    [{"name": "KAFKA_OPTS", "value": "a"}, {"name": "KAFKA_OPTS", "value": "b"}],
)
END_OF_OBJECT, BETWEEN = "\n}\n{\n", "\n},\n{\n"
"""kubectl prints one object after the other."""
MOUNTS = ("/data", "/opt", "/opt/", PATH, f"{PATH}/x", f"{PATH}-other", "/option", "/")


def policy_with_an_image(name: str, failure_policy: policy.FailurePolicy) -> Json:
    """As the chart installs it with workloads.strimzi: its conditions alone say whose pods are meant."""
    written = policy.admission_policy(
        name=name, failure_policy=failure_policy, agent_image=IMAGE.name, agent_pull_policy=IMAGE.pull_policy
    )
    del written["spec"]["matchConstraints"]["objectSelector"]
    return written


def kind_of(workload: str) -> WorkloadKind:
    return STRIMZI_POD_SET if workload.startswith("strimzi") else STATEFUL_SET


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


def a_container(rng: random.Random, name: str, volumes: list[Json]) -> Json:
    env = [*rng.sample(ENV, rng.randrange(4)), *rng.choice(OPTIONS)]
    rng.shuffle(env)
    made: Json = {"name": name, "image": "app"}
    if env or rng.random() < 0.3:
        made["env"] = env
    if rng.random() < 0.25:
        made["envFrom"] = [{"configMapRef": {"name": "worker"}}]
    if rng.random() < 0.4:
        made["volumeMounts"] = [{"name": "data", "mountPath": rng.choice(MOUNTS)}] if rng.random() < 0.8 else []
        if made["volumeMounts"] and not any(v["name"] == "data" for v in volumes):
            volumes.append({"name": "data", "emptyDir": {}})
    return made


def a_pod(rng: random.Random, lab: Lab, workload: str, ordinal: int) -> Json:
    """One pod of everything that the policy looks at, by the seed."""
    volumes: list[Json] = []
    others = rng.sample(["side", "proxy", "third"], rng.randrange(3))
    containers = ["app", *others] if rng.random() < 0.7 else [*others, "app"]
    if rng.random() < 0.05:
        containers.append(AGENT)
    if rng.random() < 0.05:
        containers = [f"c{n}" for n in range(policy.CONTAINERS_MAX)] + ["side"]
    containers_made = [a_container(rng, name, volumes) for name in containers]
    pod = lab.pod(workload, ordinal, containers=containers_made, kind=kind_of(workload))
    spec, metadata = pod["spec"], pod["metadata"]
    if rng.random() < 0.06:
        volumes.append({"name": AGENT, "emptyDir": {}})
    if volumes or rng.random() < 0.2:
        spec["volumes"] = volumes
    if rng.random() < 0.3:
        spec["initContainers"] = [{"name": rng.choice(["init", "init", AGENT]), "image": "init"}]
        if any(c["name"] == spec["initContainers"][0]["name"] for c in spec["containers"]):
            del spec["initContainers"]
    if rng.random() < 0.5:
        spec["subdomain"] = "headless"
    if rng.random() < 0.5:
        spec["securityContext"] = rng.choice([{}, {"runAsUser": 0}, {"runAsUser": 7}])
    if rng.random() < 0.3:
        metadata["annotations"] = rng.choice(
            [{}, {"a.b/c_d": "1"}, {names.INSTANCE_ID_ANNOTATION: "forged", names.SESSION_TIMEOUT_ANNOTATION: "1"}]
        )
    if kind_of(workload) is STRIMZI_POD_SET:
        odd = rng.choice([*[""] * 6, "x", "-debug", "-0"])
        metadata["name"] = rng.choice([*[metadata["name"]] * 8, f"other-{ordinal}", f"{workload}-0{ordinal}"]) + odd
        if rng.random() < 0.2:
            metadata["labels"] = {names.POD_INDEX_LABEL: "7"}  # not its controller's word
    return spoiled(rng, pod)


def spoiled(rng: random.Random, pod: Json) -> Json:
    """Now and then a pod that is not the workload's, or not seen by the object selector."""
    owner = pod["metadata"]["ownerReferences"][0]
    match rng.randrange(20):
        case 0:
            owner["controller"] = False
        case 1:
            owner["kind"] = "ReplicaSet"
        case 2:
            owner["apiVersion"] = rng.choice(
                ["apps.kruise.io/v1", "core.strimzi.io/v1beta2", "core.strimzi.iox/v1", "apps/v1"]
            )
        case 3:
            owner["name"] = "another"
        case 4:
            del pod["metadata"]["labels"]
        case 5:
            del owner["controller"]
        case 6:
            del pod["metadata"]["ownerReferences"]
        case 7:
            pod["metadata"]["name"] += "-copy"  # by hand, which keeps labels and owner
        case 8:
            pod["metadata"]["name"] += "-orders"
            pod["metadata"]["labels"] = {names.POD_INDEX_LABEL: pod["metadata"]["name"].partition("-")[2]}
        case _:
            pass
    return pod


def admitted(kubectl: Kubectl, pods: list[Json]) -> list[Json]:
    """The pods as the API server would store them, without what differs from one creation to the next."""
    bundle = {"apiVersion": "v1", "kind": "List", "items": pods}
    answer = kubectl.must("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(bundle))
    stored_pods: list[Json] = json.loads(f"[{answer.replace(END_OF_OBJECT, BETWEEN)}]")
    assert len(stored_pods) == len(pods)
    for pod in stored_pods:
        for field in ("uid", "creationTimestamp", "managedFields", "namespace"):
            pod["metadata"].pop(field, None)
        if not pod["metadata"].get("annotations"):
            pod["metadata"].pop("annotations", None)
    return stored_pods


def stored(lab: Lab, workload: str) -> Json:
    body: Json = json.loads(lab.kubectl.must("get", "ksg", workload, "-n", lab.namespace, "-o", "json"))
    return body


def settle(lab: Lab, workload: str, group: Json) -> None:
    """Wait until the policy's cache knows the StaticGroup as it is stored."""
    method = ((group.get("status") or {}).get("injected") or {}).get("method")
    first = lab.pod(workload, kind=kind_of(workload))
    if is_meant(first, group, InjectedMethod.POLICY):
        issued = (
            group["status"]["injected"]["idTemplate"].replace("{podName}", f"{workload}-0").replace("{ordinal}", "0")
        )

        def look() -> bool:
            found: Json = lab.admit(first)["metadata"].get("annotations", {})
            return any(value.startswith(issued) for value in found.values())

        until(look, deadline_s=30, what=f"{workload} injected by {method}")
    else:
        lab.admit_untouched(first)


@pytest.mark.parametrize("workload", sorted(GROUPS))
def test_the_policy_and_the_renderer_say_the_same_of_generated_pods(lab: Lab, elsewhere: str, workload: str) -> None:
    lab.group(workload, **GROUPS[workload])
    group = stored(lab, workload)
    settle(lab, workload, group)
    rng = random.Random(f"{SEED} {workload}")
    pods = [a_pod(rng, lab, workload, n) for n in range(PODS_OF_A_GROUP)]
    meant = [is_meant(pod, group, InjectedMethod.POLICY) for pod in pods]
    ours = [
        rendered(pod, group["status"]["injected"], IMAGE) if is_ours else pod
        for pod, is_ours in zip(pods, meant, strict=True)
    ]
    moved = [pod | {"metadata": pod["metadata"] | {"namespace": elsewhere}} for pod in ours]
    for pod, by_policy, by_renderer in zip(
        pods, admitted(lab.kubectl, pods), admitted(lab.kubectl, moved), strict=True
    ):
        assert by_policy == by_renderer, json.dumps(pod)
    is_off = workload in ("no-method", "observed", "suspended")
    assert any(meant) is not is_off
    assert not all(meant), "the generator makes pods that are not the workload's"
    assert SCOPE in json.dumps(ours) or is_off or GROUPS[workload].get("template") == TEMPLATES[3]
