"""The admission policy, against a real API server: every expression is evaluated there, under both failure policies.

Pods are created with `--dry-run=server`, which runs admission and returns the pod as it would be stored; nothing else
on the cluster (garbage collector, StatefulSet controller) can then interfere. With failurePolicy Fail an expression
that errs refuses the pod, so a pod that comes back has passed every expression. Source: KEP-3962.
"""

import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from live_cluster import REPOSITORY, Kubectl
from policy_lab import BY_ANNOTATION, GENERIC, ID_KEY, POD_NAME, SCOPE, TIMEOUT_KEY, Lab, a_lab, composed, env_of, reads

from staticgroup.api import names, policy
from staticgroup.api.resources.injected import InjectedMethod
from support.waiting import until

pytestmark = pytest.mark.cluster


def our_policy(name: str, failure_policy: policy.FailurePolicy) -> dict[str, Any]:
    return policy.admission_policy(name=name, failure_policy=failure_policy)


@pytest.fixture(scope="module", params=["Fail", "Ignore"])
def lab(request: pytest.FixtureRequest, kubectl: Kubectl, crds: str) -> Iterator[Lab]:
    with a_lab(kubectl, our_policy, request.param) as made:
        yield made


def test_a_pod_without_any_env_gets_annotations_and_variables(lab: Lab) -> None:
    lab.group("plain")
    pod = lab.admit_with_id(lab.pod("plain", 3), f"plain-3.{SCOPE}")
    assert pod["metadata"]["annotations"] == {ID_KEY: f"plain-3.{SCOPE}", TIMEOUT_KEY: "45000"}
    assert env_of(pod, "app") == GENERIC


def a_container(name: str, *env: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "image": name} | ({"env": list(env)} if env else {})


OWN_ID = {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"}
OWN_TIMEOUT = {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "9000"}
FIRST, LAST = {"name": "FIRST", "value": "1"}, {"name": "LAST", "value": "id=$(KAFKA_GROUP_INSTANCE_ID)"}
NODE = {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}
FORGED = {"name": "STATICGROUP_POD_NAME", "value": "forged"}
OTHER = {"name": "OTHER", "value": "$(STATICGROUP_POD_NAME)"}
CROWD = [a_container(f"c{number}") for number in range(policy.CONTAINERS_MAX)]
SPRING = "SPRING_KAFKA_CONSUMER_PROPERTIES_"
REPEATED = {"name": "KAFKA_GROUP_INSTANCE_ID", "value": f"$(STATICGROUP_POD_NAME)-$(STATICGROUP_POD_NAME).{SCOPE}"}
Env = dict[str, list[dict[str, Any]]]
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], Env]] = {
    # What others set of the same name goes, and everything else follows in its order.
    "user-env": ({}, [a_container("app", FIRST, OWN_ID, LAST, NODE)], {"app": [*GENERIC, FIRST, LAST, NODE]}),
    # A list of nothing but new entries: Object literals in it made the API server panic (1.36.3).
    "only-ours": ({}, [a_container("app", OWN_TIMEOUT, OWN_ID)], {"app": GENERIC}),
    "first-by-default": ({}, [a_container("app"), a_container("proxy")], {"app": GENERIC, "proxy": []}),
    "named": (
        {"client": {"container": "app"}}, [a_container("proxy"), a_container("app")], {"app": GENERIC, "proxy": []},
    ),
    "twentieth": ({"client": {"container": "c19"}}, CROWD, {"c19": GENERIC, "c0": []}),
    # KIP-848 clients refuse to start with session.timeout.ms.
    "no-timeout": (
        {"session_timeout_ms": None}, [a_container("app", OWN_TIMEOUT)], {"app": [*GENERIC[:2], OWN_TIMEOUT]},
    ),
    "repeated": (
        {"template": "{podName}-{podName}.{scope}"}, [a_container("app")], {"app": [POD_NAME, REPEATED, GENERIC[2]]},
    ),
    # Behind ours the kubelet would expand the user's value into the id.
    "own-pod-name": (
        {}, [a_container("app", FORGED, OTHER), a_container("side", FORGED, OTHER)],
        {"app": [*GENERIC, OTHER], "side": [FORGED, OTHER]},
    ),
    "not-composed": (
        {"template": "{workloadName}_{ordinal}.{scope}"}, [a_container("app", FORGED)], {"app": [*BY_ANNOTATION, FORGED]},
    ),
    "spring": (
        {"client": {"type": "SpringBoot"}}, [a_container("app")],
        {"app": [POD_NAME, composed(f"{SPRING}GROUP_INSTANCE_ID"), reads(f"{SPRING}SESSION_TIMEOUT_MS", TIMEOUT_KEY)]},
    ),
}  # fmt: skip
IDS = {"repeated": "repeated-0-repeated-0", "not-composed": "not-composed_0"}


@pytest.mark.parametrize("workload", CASES)
def test_a_pods_variables(lab: Lab, workload: str) -> None:
    """And no init container's."""
    group, containers, expected = CASES[workload]
    lab.group(workload, **group)
    body = lab.pod(workload, containers=containers)
    body["spec"]["initContainers"] = [{"name": "init", "image": "init"}]
    timeout = None if "session_timeout_ms" in group else "45000"
    pod = lab.admit_with_id(body, f"{IDS.get(workload, f'{workload}-0')}.{SCOPE}", timeout)
    assert {name: env_of(pod, name) for name in expected} == expected
    assert "env" not in pod["spec"]["initContainers"][0]


@pytest.mark.parametrize("kept", [True, False], ids=["null", "absent"])
def test_a_withdrawn_timeout_is_not_injected_even_if_its_variable_is_still_listed(lab: Lab, kept: bool) -> None:
    """To CEL a stored null is there and an absent field is not; both mean that no timeout is injected."""
    workload = f"withdrawn-timeout-{kept}".lower()
    lab.group(workload, session_timeout_ms=30_000)
    lab.admit_with_id(lab.pod(workload), f"{workload}-0.{SCOPE}", "30000")
    get = ("get", "ksg", workload, "-n", lab.namespace, "-o", "json")
    status = json.loads(lab.kubectl.must(*get))["status"]
    del status["injected"]["sessionTimeoutMs"]
    status["injected"] |= {"sessionTimeoutMs": None} if kept else {}
    metadata = {"name": workload, "namespace": lab.namespace}
    body = {"apiVersion": names.API_VERSION, "kind": "StaticGroup", "metadata": metadata, "status": status}
    lab.kubectl.apply(body, "--subresource=status")
    stored = json.loads(lab.kubectl.must(*get))["status"]["injected"]
    assert ("sessionTimeoutMs" in stored, stored.get("sessionTimeoutMs")) == (kept, None)
    assert [entry["annotation"] for entry in stored["env"]] == [ID_KEY, TIMEOUT_KEY]
    pod = lab.admit_with_id(lab.pod(workload), f"{workload}-0.{SCOPE}", None)
    assert env_of(pod, "app") == GENERIC[:2]


def test_a_new_timeout_reaches_the_next_pod(lab: Lab) -> None:
    lab.group("changing", session_timeout_ms=45_000)
    lab.admit_with_id(lab.pod("changing"), f"changing-0.{SCOPE}", "45000")
    lab.group("changing", session_timeout_ms=1_800_000)
    lab.admit_with_id(lab.pod("changing"), f"changing-0.{SCOPE}", "1800000")


def test_several_consumers_of_a_pod_get_an_id_each(lab: Lab) -> None:
    entries = [
        {"container": "a", "suffix": "-orders"},
        {"container": "b", "suffix": "-audit.log", "instanceIdName": "AUDIT_ID", "sessionTimeoutName": ""},
        {"container": "a", "suffix": "", "instanceIdName": "THIRD_ID"},
    ]
    lab.group("several", client={"type": "Custom", "env": entries})
    containers = [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]
    body = lab.pod("several", 2, containers=containers)
    pod = lab.admit_with_id(body, f"several-2.{SCOPE}")
    assert pod["metadata"]["annotations"] == {
        ID_KEY: f"several-2.{SCOPE}", f"{ID_KEY}.orders": f"several-2.{SCOPE}-orders",
        f"{ID_KEY}.audit.log": f"several-2.{SCOPE}-audit.log", TIMEOUT_KEY: "45000",
    }  # fmt: skip
    timeout = reads("KAFKA_SESSION_TIMEOUT_MS", TIMEOUT_KEY)
    assert env_of(pod, "a")[0] == POD_NAME
    others = sorted(env_of(pod, "a")[1:], key=lambda entry: entry["name"])
    assert others == [composed("KAFKA_GROUP_INSTANCE_ID", "-orders"), timeout, composed("THIRD_ID")]
    assert env_of(pod, "b") == [POD_NAME, composed("AUDIT_ID", "-audit.log")]


def test_the_ordinal_of_the_label_fills_the_template(lab: Lab) -> None:
    lab.group("by-ordinal", template="{workloadName}_{ordinal}.{scope}")
    pod = lab.admit_with_id(lab.pod("by-ordinal", 17), f"by-ordinal_17.{SCOPE}")
    assert env_of(pod, "app") == BY_ANNOTATION
    assert "annotations" not in lab.admit(lab.pod("by-ordinal", 17, name="by-ordinal-17-copy"))["metadata"]


def test_two_groups_of_one_workload_share_the_variable_with_the_pods_name(lab: Lab) -> None:
    """The policy runs once for each; the second run finds the variables of the first."""
    lab.group("shared")
    env = [{"suffix": "-b", "instanceIdName": "B_INSTANCE_ID", "sessionTimeoutName": ""}]
    lab.group("shared-b", spec={"workloadRef": {"name": "shared"}}, client={"type": "Custom", "env": env})

    def look() -> dict[str, Any] | None:
        admitted = lab.admit(lab.pod("shared"))
        keys = {ID_KEY, f"{ID_KEY}.b"}
        return admitted if keys <= admitted["metadata"].get("annotations", {}).keys() else None

    found = env_of(until(look, deadline_s=30, what="both ids"), "app")
    assert found[0] == POD_NAME
    assert sorted(found[1:], key=lambda entry: entry["name"]) == [composed("B_INSTANCE_ID", "-b"), *GENERIC[1:]]


def test_the_largest_pod_stays_within_the_cost_that_the_api_server_allows(lab: Lab) -> None:
    """Eight consumers in the last of twenty containers, each of which has a hundred variables of its own."""
    entries = [
        {"container": "c19", "suffix": f"-{n}", "instanceIdName": f"INSTANCE_ID_{n}", "sessionTimeoutName": f"T_{n}"}
        for n in range(8)
    ]
    lab.group("large", client={"type": "Custom", "env": entries})
    env = [{"name": f"VARIABLE_{n}", "value": str(n)} for n in range(100)]
    containers = [{"name": f"c{n}", "image": "app", "env": env} for n in range(policy.CONTAINERS_MAX)]

    def look() -> dict[str, Any] | None:
        admitted = lab.admit(lab.pod("large", containers=containers))
        return admitted if f"{ID_KEY}.7" in admitted["metadata"].get("annotations", {}) else None

    pod = until(look, deadline_s=30, what="the ids of eight consumers")
    assert (env_of(pod, "c19")[0], len(env_of(pod, "c19")), env_of(pod, "c0")) == (POD_NAME, 117, env)


@pytest.fixture
def bare_namespace(kubectl: Kubectl) -> Iterator[str]:
    name = f"staticgroup-kubelet-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", name)
    kubectl.must("create", "serviceaccount", "app", "-n", name)
    yield name
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_a_kubelet_composes_the_id_that_the_annotation_says(kubectl: Kubectl, bare_namespace: str) -> None:
    """The variables as the policy writes them, in a process: the id, and a user's own variable that refers to it."""
    own = {"name": "CLIENT_ID", "value": "client-$(KAFKA_GROUP_INSTANCE_ID)"}
    container = {
        "name": "app",
        "image": os.environ["OPERATOR_IMAGE"],
        "imagePullPolicy": "Never",
        "command": ["python", "-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        "env": [*GENERIC[:2], composed("B_INSTANCE_ID", "-b"), own],
    }
    spec = {"restartPolicy": "Never", "serviceAccountName": "app", "automountServiceAccountToken": False}
    metadata = {"name": "composed-3", "namespace": bare_namespace}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"containers": [container]}})
    over = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl.must("wait", "-n", bare_namespace, over, "pod/composed-3", "--timeout=50s")
    environment = json.loads(kubectl.must("logs", "-n", bare_namespace, "composed-3"))
    assert environment["KAFKA_GROUP_INSTANCE_ID"] == f"composed-3.{SCOPE}"
    assert environment["B_INSTANCE_ID"] == f"composed-3.{SCOPE}-b"
    assert environment["CLIENT_ID"] == f"client-composed-3.{SCOPE}"


def test_annotations_that_are_there_already_stay(lab: Lab) -> None:
    lab.group("annotated")
    body = lab.pod("annotated", annotations={"keep": "me", ID_KEY: "forged"})
    pod = lab.admit_with_id(body, f"annotated-0.{SCOPE}")
    assert pod["metadata"]["annotations"]["keep"] == "me"


@pytest.mark.parametrize("mode", ["Observe", "Suspended"])
def test_a_group_that_stops_being_managed_stops_injecting(lab: Lab, mode: str) -> None:
    workload = f"stopping-{mode.lower()}"
    lab.group(workload)
    lab.admit_with_id(lab.pod(workload), f"{workload}-0.{SCOPE}")
    lab.group(workload, spec={"mode": mode})
    assert env_of(lab.admit_untouched(lab.pod(workload)), "app") == []


def test_a_group_whose_method_is_none_stops_injecting(lab: Lab) -> None:
    lab.group("by-hand")
    lab.admit_with_id(lab.pod("by-hand"), f"by-hand-0.{SCOPE}")
    lab.group("by-hand", method=InjectedMethod.NONE)
    assert env_of(lab.admit_untouched(lab.pod("by-hand")), "app") == []


def test_a_group_whose_ids_are_withdrawn_stops_injecting(lab: Lab) -> None:
    lab.group("withdrawn")
    lab.admit_with_id(lab.pod("withdrawn"), f"withdrawn-0.{SCOPE}")
    patch = json.dumps({"status": {"injected": None}})
    lab.kubectl.must(
        "patch", "ksg", "withdrawn", "-n", lab.namespace, "--subresource=status", "--type=merge", "-p", patch
    )
    assert env_of(lab.admit_untouched(lab.pod("withdrawn")), "app") == []


def test_a_status_of_another_group_injects_nothing(lab: Lab) -> None:
    lab.group("restored")
    own = lab.kubectl.must("get", "ksg", "restored", "-n", lab.namespace, "-o", "jsonpath={.metadata.uid}")
    for uid, admit in (
        (own, lambda pod: lab.admit_with_id(pod, f"restored-0.{SCOPE}")),
        ("sg-elsewhere", lab.admit_untouched),
    ):
        patch = json.dumps({"status": {"memory": {"staticGroupUid": uid}}})
        lab.kubectl.must(
            "patch", "ksg", "restored", "-n", lab.namespace, "--subresource=status", "--type=merge", "-p", patch
        )
        admit(lab.pod("restored"))


def test_only_pods_that_the_workload_controls_are_touched(lab: Lab) -> None:
    """The control first, so that the policy is known to be in force; then each near miss."""
    lab.group("owner")
    lab.admit_with_id(lab.pod("owner"), f"owner-0.{SCOPE}")
    near_misses = {
        "another StatefulSet": {"name": "owner2"},
        "another kind": {"kind": "StatefulSets", "apiVersion": "example.com/v1"},
        "an owner that is no controller": {"controller": False},
    }
    for what, change in near_misses.items():
        body = lab.pod("owner")
        body["metadata"]["ownerReferences"][0] |= change
        assert "annotations" not in lab.admit(body)["metadata"], what
    orphan = lab.pod("owner")
    del orphan["metadata"]["ownerReferences"]
    assert "annotations" not in lab.admit(orphan)["metadata"]
    unlabelled = lab.pod("owner", labels={})
    assert "annotations" not in lab.admit(unlabelled)["metadata"]
    for copied in (
        lab.pod("owner", name="owner-0-copy"), lab.pod("owner", name="owner-1"), lab.pod("owner", name="copy-0")
    ):
        assert "annotations" not in lab.admit(copied)["metadata"], copied["metadata"]["name"]
    assert lab.admit(lab.pod("owner"))["metadata"]["annotations"][ID_KEY] == f"owner-0.{SCOPE}"


def test_the_committed_file_is_accepted_by_the_api_server(lab: Lab) -> None:
    """What the chart ships, byte for byte; the API server compiles and type-checks every expression."""
    path = REPOSITORY / "charts/staticgroup/files/policy.yaml"
    lab.kubectl.must("apply", "--server-side", "--dry-run=server", "-f", str(path))
