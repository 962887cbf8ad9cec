"""StrimziPodSets as Strimzi writes them, and an API server that does not serve them."""

from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.api.workloads import KIND_OF, STATEFUL_SET, STRIMZI_POD_SET
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.gateway import KubeGateway
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.translate import MalformedObject, pod_set_view
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type

Json = dict[str, Any]
REF = WorkloadRef(api_version="core.strimzi.io/v1", kind="StrimziPodSet", name="connect-connect")


@pytest.fixture
def gateway(transport: Transport, clock: Clock) -> KubeGateway:
    return KubeGateway(transport, instance="operator-0", now_s=clock)


def listed_pod(name: str, **spec: Any) -> Json:
    container = {"name": "connect-connect", "image": "kafka", "readinessProbe": {"periodSeconds": 10, "initialDelaySeconds": 60}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]} | spec}


def pod_set(*pods: Json, status: Json | None = None, **metadata: Any) -> Json:
    identity = {"namespace": "shop", "name": "connect-connect", "uid": "p1", "generation": 4}
    return {
        "apiVersion": "core.strimzi.io/v1",
        "kind": "StrimziPodSet",
        "metadata": identity | metadata,
        "spec": {"selector": {"matchLabels": {"strimzi.io/name": "connect-connect"}}, "pods": list(pods)},
        "status": {"observedGeneration": 4, "pods": len(pods), "readyPods": len(pods), "currentPods": len(pods)} if status is None else status,
    }


def viewed(raw: object) -> WorkloadView:
    view = of_type(WorkloadView, pod_set_view(raw))
    return view


def wanted(view: WorkloadView) -> list[int]:
    return [ordinal for run in view.runs for ordinal in run]


def test_what_is_wanted_are_the_pods_of_the_list_holes_and_all() -> None:
    view = viewed(pod_set(*(listed_pod(f"connect-connect-{n}") for n in (7, 0, 2))))
    assert (wanted(view), view.replicas, view.start) == ([0, 2, 7], 3, 0)
    assert [view.wants(n) for n in (0, 1, 2, 3, 7, 8)] == [True, False, True, False, True, False]


def test_a_list_of_nobody_wants_nobody() -> None:
    view = viewed(pod_set())
    assert (wanted(view), view.replicas, view.containers) == ([], 0, ())


def test_a_set_without_the_list_cannot_be_read() -> None:
    """A wanted set that is not there must not be read as an empty one: every member would be departed."""
    raw = pod_set(listed_pod("connect-connect-0"))
    del raw["spec"]["pods"]
    assert pod_set_view(raw) == MalformedObject(kind="StrimziPodSet", field="spec.pods", found="nothing")


@pytest.mark.parametrize("name", ["other-0", "connect-connect", "connect-connect-01", "connect-connect-x", "connect-connect-0-1"])
def test_a_pod_of_another_name_ends_the_reading(name: str) -> None:
    found = pod_set_view(pod_set(listed_pod("connect-connect-0"), listed_pod(name)))
    assert found == MalformedObject(kind="StrimziPodSet", field="spec.pods[].metadata.name", found="str")


def test_a_pod_without_a_name_or_listed_twice_ends_the_reading() -> None:
    assert isinstance(pod_set_view(pod_set({"metadata": {}})), MalformedObject)
    assert isinstance(pod_set_view(pod_set(listed_pod("connect-connect-0"), listed_pod("connect-connect-0"))), MalformedObject)
    assert isinstance(pod_set_view(pod_set(*["connect-connect-0"])), MalformedObject)  # type: ignore[list-item]


def test_the_template_is_that_of_the_first_listed_pod() -> None:
    view = viewed(pod_set(listed_pod("connect-connect-3", terminationGracePeriodSeconds=5), listed_pod("connect-connect-1", initContainers=[{"name": "i"}])))
    assert (view.init_container_count, view.termination_grace_s) == (1, 30)
    assert [(c.name, c.startup_budget_s) for c in view.containers] == [("connect-connect", 90)]


def test_rolling_is_known_by_counts_because_its_status_names_no_revision() -> None:
    pods = [listed_pod(f"connect-connect-{n}") for n in range(3)]
    counts = {"pods": 3, "readyPods": 3}
    assert not viewed(pod_set(*pods)).is_rolling
    assert viewed(pod_set(*pods, status=counts | {"observedGeneration": 4, "currentPods": 2})).is_rolling
    assert viewed(pod_set(*pods, status=counts | {"observedGeneration": 3, "currentPods": 3})).is_rolling


def test_a_deleted_set_ends_with_its_pods_unless_they_are_orphaned() -> None:
    view = viewed(pod_set(listed_pod("connect-connect-0"), deletionTimestamp="2026-11-23T20:00:00Z"))
    orphaning = viewed(pod_set(deletionTimestamp="2026-11-23T20:00:00Z", finalizers=["orphan"]))
    assert (view.is_ending, orphaning.is_ending) == (True, False)


def test_a_kind_is_known_by_its_name() -> None:
    assert (KIND_OF["StatefulSet"], KIND_OF["StrimziPodSet"]) == (STATEFUL_SET, STRIMZI_POD_SET)


# the read -------------------------------------------------------------------------------------------------------


async def test_an_api_server_that_does_not_serve_the_kind_is_a_problem_and_no_absence(gateway: KubeGateway) -> None:
    """Both are answered with 404; read as an absence, every member of the group would be departed."""
    found = of_type(KubeProblem, await gateway.read_workload("shop", REF))
    assert found.kind is KubeProblemKind.NOT_FOUND
    assert "serves no StrimziPodSet in core.strimzi.io/v1; install Strimzi's cluster operator" in found.message


async def test_a_set_that_is_served_and_does_not_exist_is_absent(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.served["/apis/core.strimzi.io/v1"] = {"kind": "APIResourceList", "resources": [{"name": "strimzipodsets"}]}
    assert await gateway.read_workload("shop", REF) is None
    server.served["/apis/core.strimzi.io/v1"] = {"kind": "APIResourceList", "resources": [{"name": "others"}]}
    assert isinstance(await gateway.read_workload("shop", REF), KubeProblem)


async def test_a_refused_read_is_a_problem(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.denied.add(("get", "strimzipodsets.core.strimzi.io"))
    found = of_type(KubeProblem, await gateway.read_workload("shop", REF))
    assert found.kind is KubeProblemKind.FORBIDDEN
