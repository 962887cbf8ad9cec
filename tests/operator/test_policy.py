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
from staticgroup.api.resources.durable import InjectedMethod
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


def test_a_users_variable_of_the_same_name_is_replaced_and_the_others_follow_in_order(lab: Lab) -> None:
    lab.group("user-env")
    env = [
        {"name": "FIRST", "value": "1"},
        {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"},
        {"name": "LAST", "value": "id=$(KAFKA_GROUP_INSTANCE_ID)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
    ]
    pod = lab.admit_with_id(
        lab.pod("user-env", containers=[{"name": "app", "image": "app", "env": env}]), f"user-env-0.{SCOPE}"
    )
    assert env_of(pod, "app") == [*GENERIC, env[0], env[2], env[3]]


def test_a_container_that_sets_only_our_variables_ends_up_with_ours(lab: Lab) -> None:
    """A list of nothing but new entries: Object literals in it made the API server panic (1.36.3)."""
    lab.group("only-ours")
    env = [{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "1"}, {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"}]
    pod = lab.admit_with_id(
        lab.pod("only-ours", containers=[{"name": "app", "image": "app", "env": env}]), f"only-ours-0.{SCOPE}"
    )
    assert env_of(pod, "app") == GENERIC


def test_only_the_first_container_gets_the_variables_by_default(lab: Lab) -> None:
    lab.group("two")
    containers = [{"name": "app", "image": "app"}, {"name": "proxy", "image": "proxy"}]
    pod = lab.admit_with_id(lab.pod("two", containers=containers), f"two-0.{SCOPE}")
    assert (env_of(pod, "app"), env_of(pod, "proxy")) == (GENERIC, [])


def test_a_named_container_gets_the_variables_and_no_init_container_does(lab: Lab) -> None:
    lab.group("named", identity={"container": "app"})
    containers = [{"name": "proxy", "image": "proxy"}, {"name": "app", "image": "app"}]
    body = lab.pod("named", containers=containers)
    body["spec"]["initContainers"] = [{"name": "init", "image": "init"}]
    pod = lab.admit_with_id(body, f"named-0.{SCOPE}")
    assert (env_of(pod, "app"), env_of(pod, "proxy")) == (GENERIC, [])
    assert "env" not in pod["spec"]["initContainers"][0]


def test_without_a_timeout_no_session_variable_is_set_and_the_users_own_stays(lab: Lab) -> None:
    """KIP-848 clients refuse to start with session.timeout.ms."""
    lab.group("no-timeout", session_timeout_ms=None)
    own = {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "9000"}
    containers = [{"name": "app", "image": "app", "env": [own]}]
    pod = lab.admit_with_id(lab.pod("no-timeout", containers=containers), f"no-timeout-0.{SCOPE}", None)
    assert env_of(pod, "app") == [*GENERIC[:2], own]


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
    lab.group("several", identity={"env": entries})
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


def test_the_pods_name_may_stand_several_times_in_the_template(lab: Lab) -> None:
    lab.group("repeated", template="{podName}-{podName}.{scope}")
    pod = lab.admit_with_id(lab.pod("repeated", 1), f"repeated-1-repeated-1.{SCOPE}")
    value = f"$(STATICGROUP_POD_NAME)-$(STATICGROUP_POD_NAME).{SCOPE}"
    assert env_of(pod, "app")[:2] == [POD_NAME, {"name": "KAFKA_GROUP_INSTANCE_ID", "value": value}]


def test_a_users_variable_with_the_name_of_ours_for_the_pods_name_is_replaced(lab: Lab) -> None:
    """Behind it the kubelet would expand the user's value into the id."""
    lab.group("own-pod-name")
    env = [{"name": "STATICGROUP_POD_NAME", "value": "forged"}, {"name": "OTHER", "value": "$(STATICGROUP_POD_NAME)"}]
    containers = [{"name": "app", "image": "app", "env": env}, {"name": "side", "image": "side", "env": env}]
    pod = lab.admit_with_id(lab.pod("own-pod-name", containers=containers), f"own-pod-name-0.{SCOPE}")
    assert (env_of(pod, "app"), env_of(pod, "side")) == ([*GENERIC, env[1]], env)


def test_a_users_variable_of_that_name_stays_where_no_id_is_composed(lab: Lab) -> None:
    lab.group("not-composed", template="{workloadName}_{ordinal}.{scope}")
    own = {"name": "STATICGROUP_POD_NAME", "value": "mine"}
    containers = [{"name": "app", "image": "app", "env": [own]}]
    pod = lab.admit_with_id(lab.pod("not-composed", containers=containers), f"not-composed_0.{SCOPE}")
    assert env_of(pod, "app") == [*BY_ANNOTATION, own]


def test_two_groups_of_one_workload_share_the_variable_with_the_pods_name(lab: Lab) -> None:
    """The policy runs once for each; the second run finds the variables of the first."""
    lab.group("shared")
    identity = {"env": [{"suffix": "-b", "instanceIdName": "B_INSTANCE_ID", "sessionTimeoutName": ""}]}
    lab.group("shared-b", spec={"workloadRef": {"name": "shared"}}, identity=identity)

    def look() -> dict[str, Any] | None:
        admitted = lab.admit(lab.pod("shared"))
        keys = {ID_KEY, f"{ID_KEY}.b"}
        return admitted if keys <= admitted["metadata"].get("annotations", {}).keys() else None

    env = env_of(until(look, deadline_s=30, what="both ids"), "app")
    assert env[0] == POD_NAME
    assert sorted(env[1:], key=lambda entry: entry["name"]) == [composed("B_INSTANCE_ID", "-b"), *GENERIC[1:]]


def test_the_largest_pod_stays_within_the_cost_that_the_api_server_allows(lab: Lab) -> None:
    """Eight consumers in the last of twenty containers, each of which has a hundred variables of its own."""
    entries = [
        {"container": "c19", "suffix": f"-{n}", "instanceIdName": f"INSTANCE_ID_{n}", "sessionTimeoutName": f"T_{n}"}
        for n in range(8)
    ]
    lab.group("large", identity={"env": entries})
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


def test_a_preset_names_the_variables(lab: Lab) -> None:
    lab.group("spring", identity={"preset": "SpringBoot"})
    pod = lab.admit_with_id(lab.pod("spring"), f"spring-0.{SCOPE}")
    prefix = "SPRING_KAFKA_CONSUMER_PROPERTIES_"
    expected = [POD_NAME, composed(f"{prefix}GROUP_INSTANCE_ID"), reads(f"{prefix}SESSION_TIMEOUT_MS", TIMEOUT_KEY)]
    assert env_of(pod, "app") == expected


def test_the_twentieth_container_is_still_reached(lab: Lab) -> None:
    lab.group("crowd", identity={"container": "c19"})
    containers = [{"name": f"c{number}", "image": "app"} for number in range(policy.CONTAINERS_MAX)]
    pod = lab.admit_with_id(lab.pod("crowd", containers=containers), f"crowd-0.{SCOPE}")
    assert (env_of(pod, "c19"), env_of(pod, "c0")) == (GENERIC, [])


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"suspend": True}], ids=["observed", "suspended"])
def test_a_group_that_stops_being_managed_stops_injecting(lab: Lab, spec: dict[str, Any]) -> None:
    workload = f"stopping-{next(iter(spec)).lower()}"
    lab.group(workload)
    lab.admit_with_id(lab.pod(workload), f"{workload}-0.{SCOPE}")
    lab.group(workload, spec=spec)
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
        patch = json.dumps({"status": {"staticGroupUid": uid}})
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
