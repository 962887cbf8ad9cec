"""Raw objects become views, and what is wrong with an object is a value."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.evidence.certificate import Certificate, Unproven, certify
from staticgroup.core.evidence.pod import ContainerPhase, NodeView, PodVersion
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.translate import MalformedObject, node_view, pod_version, workload_view
from support.narrowing import of_type
from unit.kube.raw_objects import NODE, at, ended, pod, running, unknown, waiting, wrote


def version(raw: dict[str, Any]) -> PodVersion:
    found = of_type(PodVersion, pod_version(at(raw, 7) if "resourceVersion" not in raw["metadata"] else raw))
    return found


def test_running_pod_becomes_a_version_with_all_its_facts() -> None:
    found = version(pod())
    assert (found.owner_name, found.node_name, found.phase, found.resource_version) == ("web", "node-a", "Running", 7)
    assert [c.phase for c in found.required] == [ContainerPhase.RUNNING]
    assert found.started_containers == {"app"}
    assert found.instance_ids == {"web-0.1a2b3c4d"}
    assert found.created_at_s == 1767225600.0


def test_sidecar_and_ephemeral_container_are_required_and_plain_init_container_is_not() -> None:
    raw = pod()
    raw["spec"]["initContainers"] = [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]
    raw["spec"]["ephemeralContainers"] = [{"name": "debug"}]
    raw["status"]["initContainerStatuses"] = [ended("setup"), running("proxy")]
    found = version(raw)
    assert [(c.name, c.phase) for c in found.required] == [
        ("app", ContainerPhase.RUNNING), ("proxy", ContainerPhase.RUNNING), ("debug", ContainerPhase.ABSENT)]
    assert [(c.name, c.phase) for c in found.inits] == [("setup", ContainerPhase.TERMINATED)]
    assert found.started_containers == {"app", "setup", "proxy"}


def test_status_of_the_same_name_in_another_list_is_not_mistaken() -> None:
    raw = pod(statuses=[])
    raw["status"]["initContainerStatuses"] = [ended("app")]
    assert version(raw).required[0].phase is ContainerPhase.ABSENT


def test_container_without_status_entry_is_absent_and_empty_state_is_waiting() -> None:
    raw = pod(statuses=[{"name": "app", "state": {}}])
    assert version(raw).required[0].phase is ContainerPhase.WAITING
    assert version(pod(statuses=[])).required[0].phase is ContainerPhase.ABSENT


@pytest.mark.parametrize(
    "shown",
    [
        {"containerID": "containerd://old"},
        {"state": {"running": {}}},
        {"state": {"terminated": {"containerID": "containerd://old"}}},
        {"lastState": {"terminated": {"containerID": "containerd://old"}}},
        {"lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}},
        {"restartCount": 1},
    ],
)
def test_each_trace_of_a_run_counts_for_its_own_container(shown: Any) -> None:
    """A kubelet takes the id of a container that it lost away, and keeps lastState or the restart."""
    statuses = [waiting(), {**waiting("side"), **shown}]
    assert version(pod(statuses=statuses)).started_containers == {"side"}
    raw = pod(statuses=[waiting()])
    for kind in ("initContainerStatuses", "ephemeralContainerStatuses"):
        raw["status"][kind] = [{**waiting(kind), **shown}]
    assert version(raw).started_containers == {"initContainerStatuses", "ephemeralContainerStatuses"}


@pytest.mark.parametrize("entry", [waiting(), running(), ended()])
def test_container_shows_that_the_run_before_is_lost(entry: Any) -> None:
    lost = {"lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}
    assert version(pod(statuses=[{**entry, **lost}])).required[0].was_lost
    assert not version(pod(statuses=[entry])).required[0].was_lost


def test_container_that_is_waiting_or_unknown_without_a_trace_has_not_started() -> None:
    assert version(pod(statuses=[waiting(), unknown("side")])).started_containers == frozenset()


def test_terminated_container_shows_the_id_of_its_terminated_state_only() -> None:
    """lab: an image never pulled ends as ContainerStatusUnknown without containerID."""
    view = version(pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])).required[0]
    assert (view.phase, view.container_id, view.finished_at) == (ContainerPhase.TERMINATED, "", "")


def test_disruption_reason_counts_only_while_the_condition_is_true() -> None:
    raw = pod()
    raw["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
    assert version(raw).disruption_reason == "DeletionByPodGC"
    raw["status"]["conditions"][0]["status"] = "False"
    assert version(raw).disruption_reason == ""


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_pod_without_identity_is_malformed(field: str) -> None:
    raw = at(pod(), 7)
    del raw["metadata"][field]
    assert pod_version(raw) == MalformedObject(kind="Pod", field=f"metadata.{field}", found="nothing")


def test_pod_with_a_resource_version_that_is_no_number_is_malformed() -> None:
    raw = at(pod(), 7)
    raw["metadata"]["resourceVersion"] = "x7"
    found = of_type(MalformedObject, pod_version(raw))
    assert found.field == "metadata.resourceVersion"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["name", "state", "metadata", "type", "env", "value"]), inner, max_size=2), max_leaves=4)


def _paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(p for key, child in children for p in _paths(child, (*path, key)))]


_FULL = at(pod(), 7)
_FULL["spec"]["containers"][0]["env"] = [{"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
_FULL["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


@given(st.sampled_from(_paths(_FULL)), _json)
def test_translation_is_total_whatever_one_field_holds(path: tuple[Any, ...], value: Any) -> None:
    raw: Any = copy.deepcopy(_FULL)
    if not path:
        raw = value
    else:
        parent = raw
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
    assert isinstance(pod_version(raw), PodVersion | MalformedObject)
    assert isinstance(workload_view(raw), WorkloadView | MalformedObject)
    assert isinstance(node_view(raw), NodeView | MalformedObject)


def test_statefulset_becomes_a_view_with_kubernetes_defaults() -> None:
    raw = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 3},
        "spec": {"template": {"spec": {"containers": [{
            "name": "app", "image": "img",
            "env": [
                {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "45000"},
                {"name": "PASSWORD", "value": "canary"},
                {"name": "BROKER_REQUEST_TIMEOUT", "value": "120"},
                {"name": "STATICGROUP_CONNECT_REBALANCE_DELAY_MS", "value": "0"},
                {"name": "CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS", "value": "60000"},
            ],
            "startupProbe": {"failureThreshold": 30, "periodSeconds": 2, "initialDelaySeconds": 5},
        }]}}},
        "status": {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b"},
    }
    found = of_type(WorkloadView, workload_view(raw))
    assert (found.replicas, found.start, found.termination_grace_s, found.update_strategy) == (1, 0, 30, "RollingUpdate")
    assert found.is_rolling
    assert found.containers[0].startup_budget_s == 65
    assert found.containers[0].env_names[:2] == ("KAFKA_SESSION_TIMEOUT_MS", "PASSWORD")
    assert found.containers[0].env_values == (
        ("KAFKA_SESSION_TIMEOUT_MS", "45000"),
        ("BROKER_REQUEST_TIMEOUT", "120"),
        ("STATICGROUP_CONNECT_REBALANCE_DELAY_MS", "0"),
        ("CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS", "60000"),
    )
    assert "canary" not in repr(found)


def test_statefulset_deleted_with_the_orphan_finalizer_is_orphaning() -> None:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    orphaning = workload_view({"metadata": metadata | {"finalizers": ["orphan"]}})
    foreground = workload_view({"metadata": metadata | {"finalizers": ["foregroundDeletion"]}})
    assert isinstance(orphaning, WorkloadView)
    assert isinstance(foreground, WorkloadView)
    assert (orphaning.is_orphaning, foreground.is_orphaning, foreground.is_deleting) == (True, False, True)


EARLY, LATE = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"
PHASE, CONTAINERS, INIT = "f:phase", "f:containerStatuses", "f:initContainerStatuses"


@pytest.mark.parametrize(
    ("entries", "manager", "has_statuses"),
    [
        (None, "", False),
        ([], "", False),
        ([wrote("kubelet", PHASE, CONTAINERS)], "kubelet", True),
        ([wrote("k3s", PHASE, CONTAINERS, INIT, "f:conditions")], "k3s", True),
        ([wrote("kubelet", PHASE)], "kubelet", False),
        ([wrote("kube-controller-manager", PHASE, at=LATE), wrote("kubelet", CONTAINERS, at=EARLY)],
         "kube-controller-manager", False),
        ([wrote("kubelet", CONTAINERS), wrote("kueue", PHASE, at=LATE)], "kueue", False),
        ([wrote("kubelet", PHASE, CONTAINERS, at=EARLY), wrote("kueue", PHASE, at=LATE)], "kueue", False),
        ([wrote("kueue", PHASE, at=EARLY), wrote("kubelet", PHASE, CONTAINERS, at=LATE)], "kubelet", False),
        ([wrote("kubelet", PHASE, CONTAINERS, at=EARLY), wrote("kueue", "f:conditions", at=LATE)], "kubelet", True),
        ([wrote("kubelet", PHASE, CONTAINERS), wrote("somebody", PHASE, at=LATE, subresource="")], "kubelet", True),
    ],
    ids=[
        "absent", "none", "kubelet", "one program", "statuses of nobody", "pod garbage collector", "third party",
        "third party beside the kubelet", "third party before the kubelet", "third party wrote conditions",
        "not the subresource",
    ],
)
def test_phase_has_statuses_when_every_owner_of_the_phase_wrote_the_containers_too(
    entries: Any, manager: str, has_statuses: bool
) -> None:
    found = version(pod(managedFields=entries))
    assert (found.phase_manager, found.phase_has_statuses) == (manager, has_statuses)


@pytest.mark.parametrize("kind", ["initContainerStatuses", "ephemeralContainerStatuses"])
def test_phase_has_statuses_only_when_its_writer_owns_every_list_that_is_there(kind: str) -> None:
    raw = pod(managedFields=[wrote("kubelet", PHASE, CONTAINERS), wrote("other", f"f:{kind}")])
    assert version(raw).phase_has_statuses
    raw["status"][kind] = [running("x")]
    assert not version(raw).phase_has_statuses


def test_managed_fields_of_the_wrong_shape_make_the_pod_malformed() -> None:
    found = pod_version(at(pod(managedFields=[{"fieldsV1": "f:phase"}]), 7))
    assert found == MalformedObject(kind="Pod", field="metadata.managedFields[].fieldsV1", found="str")


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        (None, False),
        ([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}], False),
        ([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}], True),
        ([{"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}], True),
    ],
)
def test_node_shows_whether_it_is_out_of_service(taints: Any, expected: bool) -> None:
    """PodGCController.gcTerminating asks for the taint's key alone."""
    found = of_type(NodeView, node_view({"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": taints}}))
    assert found.is_out_of_service is expected


@pytest.mark.parametrize(
    ("version_text", "labels", "taints", "expected"),
    [
        ("v1.36.3", {}, [], (36, False)),
        ("v1.27.4-eks-1", {}, [], (27, False)),
        ("v1.29.0+k3s1", {}, [], (29, False)),
        ("kwok-v0.8.0", {}, [], (None, False)),
        ("v1.19.10-vk-azure-aci-1.5.0", {}, [], (19, True)),
        ("v1.30.0", {"type": "virtual-kubelet"}, [], (30, True)),
        ("v1.30.0", {}, [{"key": "virtual-kubelet.io/provider"}], (30, True)),
        ("v1.33.1", {"liqo.io/type": "virtual-node"}, [], (33, True)),
        ("v1.33.1", {}, [{"key": "virtual-node.liqo.io/not-allowed"}], (33, True)),
        ("v1.28.2", {"kosmos.io/node": "true"}, [], (28, True)),
        ("v1.28.2", {}, [{"key": "kosmos.io/node"}], (28, True)),
        ("v1.30.0", {"virtual-node.interlink/type": "virtual-kubelet"}, [], (30, True)),
        ("v1.30.0", {}, [{"key": "virtual-node.interlink/no-schedule"}], (30, True)),
        ("v1.30.0", {"node.kubernetes.io/instance-type": "eklet"}, [], (30, True)),
        ("v1.30.0", {}, [{"key": "eks.tke.cloud.tencent.com/eklet"}], (30, True)),
        ("v1.34.0", {"vcluster.loft.sh/fake-node": "true"}, [], (34, True)),
        ("v1.30.0", {"node.kubernetes.io/instance-type": "m5.large", "kosmos.io/node": "false"}, [{"key": "dedicated"}], (30, False)),
    ],
)
def test_node_shows_its_kubelet_and_whether_it_is_virtual(
    version_text: str, labels: Any, taints: Any, expected: tuple[int | None, bool]
) -> None:
    found = node_view({
        "metadata": {"name": "n", "uid": "u", "labels": labels}, "spec": {"taints": taints},
        "status": {"nodeInfo": {"kubeletVersion": version_text}},
    })
    assert isinstance(found, NodeView)
    assert (found.kubelet_minor, found.is_virtual) == expected


@pytest.mark.parametrize(
    ("runtime_class", "resources", "is_peer_pod"),
    [
        ("kata-remote", None, True),
        ("kata-remote-cc", None, True),
        ("confidential", {"limits": {"kata.peerpods.io/vm": "1"}}, True),
        ("confidential", {"requests": {"kata.peerpods.io/vm": "1"}}, True),
        ("kata-qemu", {"limits": {"cpu": "1"}, "requests": None}, False),
        ("gvisor", {}, False),
        (None, None, False),
    ],
)
def test_end_of_a_peer_pod_proves_nothing(runtime_class: str | None, resources: Any, is_peer_pod: bool) -> None:
    """Its machine, a second one after a restart of cloud-api-adaptor, may run on (confidential-containers/cloud-api-adaptor#1510)."""
    raw = pod(phase="Failed", statuses=[ended()])
    raw["spec"] |= {"runtimeClassName": runtime_class, "containers": [{"name": "app"} | ({"resources": resources} if resources else {})]}
    verdict = certify(version(raw), NODE, started=frozenset({"app"}), runs_known=True)
    assert isinstance(verdict, Unproven if is_peer_pod else Certificate), verdict
