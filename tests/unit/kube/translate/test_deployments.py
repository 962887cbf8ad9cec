"""What a Deployment wants and how it replaces its pods, as its controller resolves that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.workloads import DEPLOYMENT
from staticgroup.core.workload import Rollout, WorkloadView
from staticgroup.kube.translate import MalformedObject, deployment_view
from support.narrowing import of_type

Json = dict[str, Any]


def deployment(*, strategy: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"namespace": "shop", "name": "web", "uid": "d-1", "generation": 4},
        "spec": {
            "replicas": 5,
            "template": {"spec": {"terminationGracePeriodSeconds": 45, "containers": [{"name": "app"}]}},
            **({"strategy": strategy} if strategy is not None else {}),
            **spec,
        },
        "status": {"observedGeneration": 3, "replicas": 6, "readyReplicas": 4, "updatedReplicas": 2},
    }


def rolling(surge: Any, unavailable: Any) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def view(raw: Json) -> WorkloadView:
    return of_type(WorkloadView, deployment_view(raw))


def rollout(raw: Json) -> Rollout:
    return of_type(Rollout, view(raw).rollout)


def test_a_deployment_wants_a_number_of_pods_and_no_ordinal_until_its_slots_are_known() -> None:
    found = view(deployment(minReadySeconds=7))
    assert (found.kind, found.replicas, found.listed, found.start) == (DEPLOYMENT, 5, (), 0)
    assert (found.metadata_generation, found.observed_generation) == (4, 3)
    assert (found.ready_replicas, found.updated_replicas, found.termination_grace_s) == (4, 2, 45)
    assert found.rollout is not None
    assert found.rollout.min_ready_s == 7
    assert not found.wants(0)


def test_what_the_api_server_fills_in_may_be_absent() -> None:
    raw = deployment()
    del raw["spec"]["replicas"], raw["status"]
    found = view(raw)
    assert (found.replicas, found.update_strategy, found.updated_replicas) == (1, "RollingUpdate", 0)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "resolved"),
    [
        # TestResolveFenceposts of Kubernetes' pkg/controller/deployment/util/deployment_util_test.go, without its nils,
        # which the API server fills in
        (0, "0%", "0%", 1),
        (10, "39%", "39%", 3),
        # numbers are taken as they are; where nothing could be replaced, one may be lacking
        (10, 0, 0, 1),
        (10, 1, 0, 0),
        (10, 0, 1, 1),
        (1, "0%", "20%", 1),
        (1, "20%", "20%", 0),
        # the default, for few pods: none may be lacking below 4
        (1, "25%", "25%", 0),
        (3, "25%", "25%", 0),
        (4, "25%", "25%", 1),
        (5, "25%", "25%", 1),
        (8, "25%", "25%", 2),
        (5, "0%", "10%", 1),
        (5, "1%", "10%", 0),
    ],
)
def test_numbers_and_percentages_are_resolved_as_the_controller_does(
    replicas: int, surge: Any, unavailable: Any, resolved: int
) -> None:
    raw = deployment(replicas=replicas, strategy=rolling(surge, unavailable))
    assert rollout(raw).max_unavailable == resolved
    assert rollout(raw).max_unavailable_text == str(unavailable)


@pytest.mark.parametrize("strategy", [None, {}, {"type": "RollingUpdate"}, {"rollingUpdate": {}}])
def test_a_strategy_that_is_absent_is_the_default_of_a_quarter(strategy: Json | None) -> None:
    found = rollout(deployment(strategy=strategy))
    assert (found.max_unavailable, found.max_unavailable_text, found.is_recreate) == (1, "25%", False)


def test_recreate_ends_all_pods_before_the_first_new_one_however_many_may_be_lacking() -> None:
    found = rollout(deployment(replicas=1, strategy={"type": "Recreate"}))
    assert (found.is_recreate, found.ends_before_it_begins) == (True, True)
    assert view(deployment(strategy={"type": "Recreate"})).update_strategy == "Recreate"


@pytest.mark.parametrize(("unavailable", "ends_first"), [(0, False), (1, True), ("10%", False), ("20%", True)])
def test_pods_end_before_their_successors_are_ready_where_some_may_be_lacking(unavailable: Any, ends_first: bool) -> None:
    assert rollout(deployment(strategy=rolling(1, unavailable))).ends_before_it_begins is ends_first


@pytest.mark.parametrize(("paused", "is_paused"), [(True, True), (False, False), (None, False)])
def test_a_paused_deployment_is_known(paused: bool | None, is_paused: bool) -> None:
    assert rollout(deployment(paused=paused)).is_paused is is_paused


@pytest.mark.parametrize(
    ("surge", "unavailable", "field"),
    [
        ("oops", "39%", "maxSurge"), ("55%", "urg", "maxUnavailable"), ("%", "25%", "maxSurge"), ("-5%", "25%", "maxSurge"), (True, 1, "maxSurge"),
        (1.5, 1, "maxSurge"), ("٢%", 1, "maxSurge"), ("9" * 400 + "%", 1, "maxSurge"),
        (1, "2 %", "maxUnavailable"), (1, [], "maxUnavailable"), (1, {}, "maxUnavailable"),
    ],
)  # fmt: skip
def test_what_is_neither_a_number_nor_a_percentage_is_named(surge: Any, unavailable: Any, field: str) -> None:
    found = of_type(MalformedObject, deployment_view(deployment(strategy=rolling(surge, unavailable))))
    assert (found.kind, found.field) == ("Deployment", f"spec.strategy.rollingUpdate.{field}")


def test_a_null_is_as_good_as_absent() -> None:
    assert rollout(deployment(strategy=rolling(None, None))) == rollout(deployment())


@pytest.mark.parametrize(
    ("field", "raw"),
    [
        ("", "x"), ("", None), (".spec", {"metadata": {}, "spec": []}), ("metadata.namespace", {"spec": {}}),
        ("spec.replicas", deployment(replicas="5")), ("spec.replicas", deployment(replicas=True)),
        ("spec.minReadySeconds", deployment(minReadySeconds="7")),
        ("spec.strategy", deployment(strategy="Recreate")),  # type: ignore[arg-type]
        ("spec.strategy.type", deployment(strategy={"type": 1})),
        ("spec.strategy.rollingUpdate", deployment(strategy={"rollingUpdate": 1})),
        ("spec.template", deployment(template=[])),
    ],
)  # fmt: skip
def test_a_wrong_shape_is_named_by_its_field(field: str, raw: Any) -> None:
    found = of_type(MalformedObject, deployment_view(raw))
    assert (found.kind, found.field) == ("Deployment", field)


_AMOUNT = st.integers(0, 2**31 - 1) | st.integers(0, 999_999_999).map(lambda n: f"{n}%")


@given(st.integers(0, 2**31 - 1), _AMOUNT, _AMOUNT)
def test_something_is_always_replaced(replicas: int, surge: Any, unavailable: Any) -> None:
    found = rollout(deployment(replicas=replicas, strategy=rolling(surge, unavailable)))
    assert found.max_unavailable > 0 or (surge not in (0, "0%") and replicas > 0) or isinstance(surge, int)
    assert found.max_unavailable >= 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "maxSurge", "spec"]), inner),
    max_leaves=5,
)


@given(st.sampled_from(["metadata", "spec", "status"]), st.sampled_from(["replicas", "strategy", "template", "name"]), _JSON)
def test_no_shape_raises(place: str, key: str, wrong: Any) -> None:
    raw = deployment()
    raw[place][key] = wrong
    assert isinstance(deployment_view(raw), WorkloadView | MalformedObject)
