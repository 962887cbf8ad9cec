"""The agent of Connect workers as the admission policy brings it into pods, or leaves it out whole, against a real API
server."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from live_cluster import Kubectl
from policy_lab import POD_NAME, SCOPE, TIMEOUT_KEY, Lab, a_lab, composed, env_of, reads

from staticgroup.api import policy
from support.waiting import until

pytestmark = pytest.mark.cluster

IMAGE = "registry.example/staticgroup@sha256:" + "0" * 64
NAME = "staticgroup-connect-agent"
PATH = f"/opt/{NAME}"
OPTION = f"-javaagent:{PATH}/{NAME}.jar"
IDS = [
    POD_NAME, composed("STATICGROUP_CONNECT_INSTANCE_ID"), reads("STATICGROUP_CONNECT_SESSION_TIMEOUT_MS", TIMEOUT_KEY),
]  # fmt: skip
SIZE = {"cpu": "100m", "memory": "32Mi"}
INIT_CONTAINER = {
    "name": NAME, "image": IMAGE, "imagePullPolicy": "IfNotPresent",
    "command": ["cp", f"/opt/staticgroup/agent/{NAME}.jar", f"{PATH}/"],
    "resources": {"limits": SIZE, "requests": SIZE},
    "securityContext": {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"},
    },
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "volumeMounts": [{"mountPath": PATH, "name": NAME}],
}  # fmt: skip
VOLUME = {"name": NAME, "emptyDir": {"sizeLimit": "8Mi"}}
MOUNT = {"name": NAME, "mountPath": PATH, "readOnly": True}
EMPTY = {"name": "KAFKA_OPTS"}
"""As the API server keeps a variable whose value is ""."""


def policy_with_an_image(name: str, failure_policy: policy.FailurePolicy) -> dict[str, Any]:
    return policy.admission_policy(name=name, failure_policy=failure_policy, agent_image=IMAGE)


@pytest.fixture(scope="module", params=["Fail", "Ignore"])
def lab(request: pytest.FixtureRequest, kubectl: Kubectl, crds: str) -> Iterator[Lab]:
    with a_lab(kubectl, policy_with_an_image, request.param) as made:
        yield made


def workers(lab: Lab, workload: str, **client: Any) -> None:
    lab.group(workload, client={"type": "Connect", "injectAgent": True} | client)


def worker(lab: Lab, workload: str, *env: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A worker's pod, with changes of its spec; those of `container` are of its container."""
    container = {"name": "connect", "image": "kafka", "env": list(env)} | changes.pop("container", {})
    pod = lab.pod(workload, containers=changes.pop("containers", [container]))
    pod["spec"] |= changes
    return pod


def admitted(lab: Lab, pod: dict[str, Any]) -> dict[str, Any]:
    name = pod["metadata"]["name"]
    return lab.admit_with_id(pod, f"{name}.{SCOPE}")


def agent_of(pod: dict[str, Any], container: str = "connect") -> dict[str, Any]:
    spec = pod["spec"]
    mine = next(c for c in spec["containers"] if c["name"] == container)
    options = [e for e in mine.get("env", []) if e["name"] == "KAFKA_OPTS"]
    inits, volumes, mounts = spec.get("initContainers", []), spec.get("volumes", []), mine.get("volumeMounts", [])
    return {"options": options, "inits": inits, "volumes": volumes, "mounts": mounts}


def nothing_but(*options: dict[str, Any]) -> dict[str, Any]:
    return {"options": list(options), "inits": [], "volumes": [], "mounts": []}


def all_of_it(text: str) -> dict[str, Any]:
    options = [{"name": "KAFKA_OPTS", "value": text}]
    return {"options": options, "inits": [INIT_CONTAINER], "volumes": [VOLUME], "mounts": [MOUNT]}


@pytest.mark.parametrize(
    ("before", "after"),
    [("-Xint", f"-Xint {OPTION}"), ("", OPTION), ("-Da=$(HEAP) $$(x)", f"-Da=$(HEAP) $$(x) {OPTION}")],
    ids=["text", "empty", "references"],
)
def test_the_agent_goes_behind_the_options_that_are_there(lab: Lab, before: str, after: str) -> None:
    workers(lab, "appended")
    heap, log = {"name": "HEAP", "value": "1g"}, {"name": "LOG", "value": "$(KAFKA_OPTS)"}
    pod = admitted(lab, worker(lab, "appended", heap, {"name": "KAFKA_OPTS", "value": before}, log))
    assert env_of(pod, "connect") == [*IDS, heap, {"name": "KAFKA_OPTS", "value": after}, log]
    assert agent_of(pod) == all_of_it(after)


REFERENCE = {"name": "KAFKA_OPTS", "valueFrom": {"configMapKeyRef": {"name": "worker", "key": "opts"}}}
PROVIDED = {"name": "KAFKA_OPTS", "value": f"-javaagent:/agent/{NAME}.jar"}
FROM_ELSEWHERE = {"envFrom": [{"configMapRef": {"name": "worker"}}]}


@pytest.mark.parametrize(
    ("env", "container"),
    [
        ([], {}),
        ([REFERENCE], {}),
        ([PROVIDED], {}),
        ([EMPTY, EMPTY | {"value": "-Xint"}], {}),
        ([], FROM_ELSEWHERE),
    ],
    ids=["absent, as the image may set it", "a reference", "with the agent", "twice", "perhaps from elsewhere"],
)
def test_options_that_cannot_be_extended_keep_the_agent_out_whole(
    lab: Lab, env: list[dict[str, Any]], container: dict[str, Any]
) -> None:
    """The control first: the same pod with options that can be."""
    workers(lab, "refused")
    assert agent_of(admitted(lab, worker(lab, "refused", EMPTY))) == all_of_it(OPTION)
    pod = admitted(lab, worker(lab, "refused", *env, container=container))
    assert agent_of(pod) == nothing_but(*env)
    assert env_of(pod, "connect") == [*IDS, *env]


def test_options_that_may_come_from_elsewhere_are_not_replaced_in_debeziums_image_either(lab: Lab) -> None:
    workers(lab, "elsewhere", type="Debezium")
    assert agent_of(admitted(lab, worker(lab, "elsewhere"))) == all_of_it(OPTION)
    assert agent_of(admitted(lab, worker(lab, "elsewhere", container=FROM_ELSEWHERE))) == nothing_but()


def test_options_as_text_win_over_those_from_elsewhere(lab: Lab) -> None:
    """As they do for the kubelet."""
    workers(lab, "both")
    pod = admitted(lab, worker(lab, "both", {"name": "KAFKA_OPTS", "value": "-Xint"}, container=FROM_ELSEWHERE))
    assert agent_of(pod) == all_of_it(f"-Xint {OPTION}")


def test_what_the_pod_has_already_stays_and_the_agent_is_first_to_come(lab: Lab) -> None:
    workers(lab, "furnished")
    init, volume = {"name": "plugins", "image": "plugins"}, {"name": "data", "emptyDir": {}}
    mount = {"name": "data", "mountPath": "/data"}
    body = worker(lab, "furnished", EMPTY, container={"volumeMounts": [mount]}, initContainers=[init], volumes=[volume])
    found = agent_of(admitted(lab, body))
    assert [each["name"] for each in found["inits"]] == [NAME, "plugins"]
    assert found["inits"][0] == INIT_CONTAINER
    assert (found["volumes"], found["mounts"]) == ([volume, VOLUME], [mount, MOUNT])


@pytest.mark.parametrize("container", [None, "connect"], ids=["the first by default", "named"])
def test_only_the_workers_container_gets_the_agent(lab: Lab, container: str | None) -> None:
    workers(lab, f"two-{container or 'first'}", **({"container": container} if container else {}))
    connect = {"name": "connect", "image": "kafka", "env": [EMPTY]}
    side = {"name": "side", "image": "side", "env": [{"name": "KAFKA_OPTS", "value": "-Xint"}]}
    containers = [side, connect] if container else [connect, side]
    pod = admitted(lab, worker(lab, f"two-{container or 'first'}", containers=containers))
    assert agent_of(pod) == all_of_it(OPTION)
    assert agent_of(pod, "side") | {"inits": [], "volumes": []} == nothing_but(*side["env"])


@pytest.mark.parametrize(
    "changes",
    [
        {"volumes": [{"name": NAME, "emptyDir": {}}]},
        {"initContainers": [{"name": NAME, "image": "theirs"}]},
        {
            "container": {"volumeMounts": [{"name": "own", "mountPath": PATH}]},
            "volumes": [{"name": "own", "emptyDir": {}}],
        },
        {
            "container": {"volumeMounts": [{"name": "own", "mountPath": f"{PATH}/"}]},
            "volumes": [{"name": "own", "emptyDir": {}}],
        },
        *(
            {
                "container": {"volumeMounts": [{"name": "own", "mountPath": above}]},
                "volumes": [{"name": "own", "emptyDir": {}}],
            }
            for above in ("/opt", "/opt/")
        ),
        {"containers": [{"name": "connect", "image": "kafka", "env": [EMPTY]}, {"name": NAME, "image": "theirs"}]},
    ],
    ids=[
        "volume", "init container", "mount", "mount with a slash", "mount above", "mount above with a slash",
        "container",
    ],
)  # fmt: skip
def test_a_name_or_place_that_is_taken_keeps_the_agent_out_whole(lab: Lab, changes: dict[str, Any]) -> None:
    workers(lab, "taken")
    body = worker(lab, "taken", EMPTY, **changes)
    found = agent_of(admitted(lab, body))
    assert found["options"] == [EMPTY]
    assert len(found["inits"]) == len(body["spec"].get("initContainers", []))
    assert len(found["volumes"]) == len(body["spec"].get("volumes", []))
    assert len(found["mounts"]) == len(body["spec"]["containers"][0].get("volumeMounts", []))


@pytest.mark.parametrize("kind", ["Connect", "Debezium"])
def test_a_second_admission_changes_nothing(lab: Lab, kind: str) -> None:
    """As after another webhook's change (reinvocationPolicy IfNeeded), or of a pod that is copied."""
    workers(lab, "again", type=kind)
    once = admitted(lab, worker(lab, "again", {"name": "KAFKA_OPTS", "value": "-Xint"}, subdomain="connect"))
    twice = lab.admit({"apiVersion": "v1", "kind": "Pod", "metadata": _kept(once), "spec": once["spec"]})
    assert twice["spec"] == once["spec"]
    assert agent_of(twice) == all_of_it(f"-Xint {OPTION}")


def _kept(pod: dict[str, Any]) -> dict[str, Any]:
    return {key: pod["metadata"][key] for key in ("name", "namespace", "labels", "annotations", "ownerReferences")}


def test_two_groups_of_one_workload_bring_it_once(lab: Lab) -> None:
    """The policy runs once for each, in one request."""
    workers(lab, "shared")
    lab.group(
        "shared-b", spec={"workloadRef": {"name": "shared"}}, client={"type": "Connect", "injectAgent": True},
        template="b.{podName}",
    )  # fmt: skip

    def look() -> dict[str, Any] | None:
        pod = lab.admit(worker(lab, "shared", EMPTY))
        ids = [e for e in env_of(pod, "connect") if e["name"] == "STATICGROUP_CONNECT_INSTANCE_ID"]
        return pod if agent_of(pod)["inits"] and ids else None

    for _ in range(5):
        assert agent_of(until(look, deadline_s=30, what="an agent")) == all_of_it(OPTION)


def test_a_pod_that_runs_as_root_gets_an_unprivileged_init_container(lab: Lab) -> None:
    """The kubelet refuses a container that is root and says that it is not."""
    workers(lab, "root")
    for user, named in ((0, {"runAsUser": 65532}), (1001, {})):
        (init,) = agent_of(admitted(lab, worker(lab, "root", EMPTY, securityContext={"runAsUser": user})))["inits"]
        assert init["securityContext"] == INIT_CONTAINER["securityContext"] | named


def test_provided_agents_are_not_injected(lab: Lab) -> None:
    workers(lab, "provided", injectAgent=False)
    pod = admitted(lab, worker(lab, "provided", EMPTY))
    assert agent_of(pod) == nothing_but(EMPTY)
    assert env_of(pod, "connect") == [*IDS, EMPTY]


HOST = {"name": "ADVERTISED_HOST_NAME", "value": "$(STATICGROUP_POD_NAME).connect."}


@pytest.mark.parametrize("is_injected", [True, False], ids=["injected", "provided"])
def test_debeziums_image_gets_the_pods_name_and_needs_no_options(lab: Lab, is_injected: bool) -> None:
    workload = "debezium-injected" if is_injected else "debezium-provided"
    workers(lab, workload, type="Debezium", injectAgent=is_injected)
    pod = admitted(lab, worker(lab, workload, {"name": "GROUP_ID", "value": "g"}, subdomain="connect"))
    host = HOST | {"value": f"{HOST['value']}{lab.namespace}.svc"}
    options = [{"name": "KAFKA_OPTS", "value": OPTION}] if is_injected else []
    assert env_of(pod, "connect") == [*IDS, {"name": "GROUP_ID", "value": "g"}, *options, host]
    assert agent_of(pod) == (all_of_it(OPTION) if is_injected else nothing_but())


@pytest.mark.parametrize(
    ("env", "changes"),
    [
        ([{"name": "ADVERTISED_HOST_NAME", "value": "mine"}], {}),
        ([], {"subdomain": ""}),
        ([], {"container": FROM_ELSEWHERE}),
    ],
    ids=["it has one", "there is no headless Service", "perhaps from elsewhere"],
)
def test_debeziums_image_keeps_the_name_that_it_has(
    lab: Lab, env: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    workers(lab, "addressed", type="Debezium")
    pod = admitted(lab, worker(lab, "addressed", *env, **{"subdomain": "connect"} | changes))
    assert [e for e in env_of(pod, "connect") if e["name"] == "ADVERTISED_HOST_NAME"] == env


def test_without_an_image_ids_are_injected_and_no_agent(kubectl: Kubectl, crds: str) -> None:
    """The policy as generated, which the chart completes."""
    with a_lab(
        kubectl, lambda name, failure: policy.admission_policy(name=name, failure_policy=failure), "Fail"
    ) as lab:
        workers(lab, "imageless")
        assert agent_of(admitted(lab, worker(lab, "imageless", EMPTY))) == nothing_but(EMPTY)


def test_it_passes_where_restricted_pods_are_enforced(lab: Lab) -> None:
    label = ("label", "namespace", lab.namespace, "--overwrite")
    lab.kubectl.must(*label, "pod-security.kubernetes.io/enforce=restricted")
    try:
        workers(lab, "restricted")
        mine = {k: v for k, v in INIT_CONTAINER["securityContext"].items() if k != "seccompProfile"}
        body = worker(
            lab, "restricted", EMPTY, container={"securityContext": mine},
            securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
        )  # fmt: skip
        assert agent_of(admitted(lab, body)) == all_of_it(OPTION)
        body["spec"]["containers"][0]["securityContext"] = {}
        refused = lab.kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
        assert 'violates PodSecurity "restricted' in refused.stderr
        assert NAME not in refused.stderr
    finally:
        lab.kubectl.must(*label, "pod-security.kubernetes.io/enforce-")


def test_a_guaranteed_pod_stays_one(lab: Lab) -> None:
    workers(lab, "guaranteed")
    size = {"cpu": "1", "memory": "1Gi"}
    body = worker(lab, "guaranteed", EMPTY, container={"resources": {"requests": size, "limits": size}})
    pod = admitted(lab, body)
    assert agent_of(pod) == all_of_it(OPTION)
    assert pod["status"]["qosClass"] == "Guaranteed"


def test_the_largest_worker_stays_within_the_cost_that_the_api_server_allows(lab: Lab) -> None:
    workers(lab, "large", container="c19", type="Debezium")
    env = [{"name": f"VARIABLE_{n}", "value": str(n)} for n in range(200)]
    mounts = [{"name": f"v{n}", "mountPath": f"/v{n}"} for n in range(40)]
    containers = [
        {"name": f"c{n}", "image": "app", "env": env, "volumeMounts": mounts} for n in range(policy.CONTAINERS_MAX)
    ]
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(40)]
    inits = [{"name": f"i{n}", "image": "i"} for n in range(20)]
    pod = admitted(
        lab, worker(lab, "large", containers=containers, volumes=volumes, initContainers=inits, subdomain="c")
    )
    found = agent_of(pod, "c19")
    assert found["options"] == [{"name": "KAFKA_OPTS", "value": OPTION}]
    assert (len(found["inits"]), len(found["volumes"]), len(found["mounts"])) == (21, 41, 41)
    assert env_of(pod, "c0") == env


PROBE = f"""
import hashlib, json, os, time, zipfile
jar = "{PATH}/{NAME}.jar"
said = {{name: os.environ.get(name) for name in ("KAFKA_OPTS", "STATICGROUP_CONNECT_INSTANCE_ID")}}
jars = (jar, "/opt/staticgroup/agent/{NAME}.jar")
said["shipped"] = [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in jars]
said["manifest"] = zipfile.ZipFile(jar).read("META-INF/MANIFEST.MF").decode()
said["is_writable"] = os.access(jar, os.W_OK) or os.access("{PATH}", os.W_OK)
print(json.dumps(said), flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("user", [None, 0, 4711], ids=["of the image", "root", "another"])
def test_a_kubelet_brings_the_agent_of_the_image_into_a_worker(kubectl: Kubectl, crds: str, user: int | None) -> None:
    """A StatefulSet's pod, as its controller makes it: an init container of the operator's image, then the worker."""
    image = os.environ["OPERATOR_IMAGE"]

    def make(name: str, failure_policy: policy.FailurePolicy) -> dict[str, Any]:
        return policy.admission_policy(
            name=name, failure_policy=failure_policy, agent_image=image, agent_pull_policy="Never"
        )

    with a_lab(kubectl, make, "Fail") as lab:
        workers(lab, "brought")
        admitted(lab, worker(lab, "brought", EMPTY))
        container = {"name": "connect", "image": image, "imagePullPolicy": "Never", "command": ["python", "-c", PROBE]}
        options = {"name": "KAFKA_OPTS", "value": "-Xint"}
        security = {"seccompProfile": {"type": "RuntimeDefault"}} | ({} if user is None else {"runAsUser": user})
        spec = {
            "serviceAccountName": "app", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
            "securityContext": security, "containers": [container | {"env": [options]}],
        }  # fmt: skip
        labels = {"app": "brought"}
        kubectl.apply(
            {
                "apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": {"name": "brought", "namespace": lab.namespace},
                "spec": {
                    "serviceName": "brought", "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )  # fmt: skip
        logs = ("logs", "-n", lab.namespace, "brought-0", "-c", "connect")
        text = until(lambda: kubectl.run(*logs).stdout, deadline_s=60, what="what the worker says")
        said = json.loads(text)
        assert said["KAFKA_OPTS"] == f"-Xint {OPTION}"
        assert said["STATICGROUP_CONNECT_INSTANCE_ID"] == f"brought-0.{SCOPE}"
        assert said["shipped"][0] == said["shipped"][1]
        assert "Premain-Class: io.staticgroup.connect.agent.Agent" in said["manifest"]
        assert not said["is_writable"]
        pod = json.loads(kubectl.must("get", "pod", "brought-0", "-n", lab.namespace, "-o", "json"))
        (init,) = pod["status"]["initContainerStatuses"]
        assert (init["state"]["terminated"]["exitCode"], init["restartCount"]) == (0, 0)
        kubectl.must("delete", "statefulset", "brought", "-n", lab.namespace)
