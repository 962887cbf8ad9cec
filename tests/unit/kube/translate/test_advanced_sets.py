"""StatefulSets of OpenKruise: which ordinals are left when some are reserved, and what a roll in place is."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.api.workloads import ADVANCED_STATEFUL_SET
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.gateway import KubeGateway
from staticgroup.kube.problem import KubeProblem
from staticgroup.kube.translate import MalformedObject, advanced_set_view, workload_view
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type

Json = dict[str, Any]
REF = WorkloadRef(api_version="apps.kruise.io/v1beta1", name="orders")


def advanced(replicas: int = 3, *, status: Json | None = None, **spec: Any) -> Json:
    identity = {"namespace": "shop", "name": "orders", "uid": "k1", "generation": 4}
    revisions = {"observedGeneration": 4, "currentRevision": "a", "updateRevision": "a", "updatedReplicas": replicas}
    template = {"spec": {"containers": [{"name": "app"}]}}
    return {
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": identity,
        "spec": {"replicas": replicas, "template": template} | spec, "status": revisions | (status or {}),
    }  # fmt: skip


def viewed(replicas: int = 3, **spec: Any) -> WorkloadView:
    return of_type(WorkloadView, advanced_set_view(advanced(replicas, **spec)))


def wanted(view: WorkloadView) -> list[int]:
    return [ordinal for run in view.runs for ordinal in run]


def ordinals_of_kruise(start: int, replicas: int, reserved: list[int | str]) -> list[int]:
    """As GetReserveOrdinalIntSet and getStatefulSetReplicasRange count them, one by one."""
    holes: set[int] = set()
    for each in reserved:
        first, last = (each, each) if isinstance(each, int) else map(int, each.split("-"))
        if first > last:
            holes = set()
            break
        holes |= set(range(first, last + 1))
    found: list[int] = []
    while len(found) < replicas:
        if start not in holes:
            found.append(start)
        start += 1
    return found


ORDINALS = st.integers(0, 12)


@given(ORDINALS, st.integers(0, 8), st.lists(ORDINALS | st.builds("{}-{}".format, ORDINALS, ORDINALS), max_size=5))
@example(0, 3, [1])
@example(2, 3, [0, "3-4", 4, 9])
@example(0, 3, ["0-1"])
@example(0, 3, ["5-3", 0])
def test_the_wanted_ordinals_are_those_that_openkruise_counts(start: int, replicas: int, reserved: list[int | str]) -> None:
    view = viewed(replicas, ordinals={"start": start}, reserveOrdinals=reserved)
    expected = ordinals_of_kruise(start, replicas, reserved)
    assert wanted(view) == expected
    assert [view.wants(n) for n in range(40)] == [n in expected for n in range(40)]
    assert view.start == (expected[0] if expected else start)


def test_many_reserved_ordinals_and_many_pods_cost_nothing() -> None:
    assert wanted(viewed(3, reserveOrdinals=["1-2000000000"])) == [0, 2_000_000_001, 2_000_000_002]
    assert viewed(2_000_000_000, reserveOrdinals=[1]).listed is None


def test_all_else_is_as_of_a_statefulset() -> None:
    raw = advanced(2)
    view, plain = of_type(WorkloadView, advanced_set_view(raw)), of_type(WorkloadView, workload_view(raw))
    assert view.kind is ADVANCED_STATEFUL_SET
    assert {f: getattr(view, f) for f in WorkloadView.__slots__ if f != "kind"} == {
        f: getattr(plain, f) for f in WorkloadView.__slots__ if f != "kind"
    }


@pytest.mark.parametrize("reserved", [[], [1]])
def test_a_roll_ends_at_its_partition_whether_ordinals_are_reserved_or_not(reserved: list[int]) -> None:
    def is_rolling(updated: int, **rolling: Any) -> bool:
        status = {"updateRevision": "b", "updatedReplicas": updated}
        return viewed(3, status=status, reserveOrdinals=reserved, updateStrategy={"rollingUpdate": rolling}).is_rolling

    assert is_rolling(1)
    assert not is_rolling(1, partition=2)
    assert is_rolling(1, podUpdatePolicy="ReCreate")
    assert not is_rolling(1, podUpdatePolicy="InPlaceIfPossible"), "no pod is replaced"


def test_reserved_ordinals_of_another_shape_end_the_reading() -> None:
    found = advanced_set_view(advanced(reserveOrdinals={"1": True}))
    assert found == MalformedObject(kind="StatefulSet", field="spec.reserveOrdinals", found="dict")
    assert wanted(viewed(2, reserveOrdinals=[0, None])) == [0, 1]


# the read -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gateway(transport: Transport, clock: Clock) -> KubeGateway:
    return KubeGateway(transport, instance="operator-0", now_s=clock)


async def test_it_is_read_where_it_is_served(server: FakeApiServer, gateway: KubeGateway) -> None:
    found = of_type(KubeProblem, await gateway.read_workload("shop", REF))
    assert "serves no StatefulSet in apps.kruise.io/v1beta1; install OpenKruise 1.7 or newer" in found.message
    server.served["/apis/apps.kruise.io/v1beta1"] = {"kind": "APIResourceList", "resources": [{"name": "statefulsets"}]}
    assert await gateway.read_workload("shop", REF) is None
