"""What a Rollout of Argo wants and how it replaces its pods, as its controller resolves that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.workloads import ARGO_ROLLOUT
from staticgroup.core.workload import Rollout, WorkloadView
from staticgroup.kube.translate import MalformedObject, rollout_view
from staticgroup.kube.translate.rollouts import deployment_of
from support.narrowing import of_type
from unit.kube.raw_rollouts import argo_rollout

Json = dict[str, Any]


def view(raw: Json) -> WorkloadView:
    return of_type(WorkloadView, rollout_view(raw))


def rollout(raw: Json) -> Rollout:
    return of_type(Rollout, view(raw).rollout)


def canary(surge: Any = None, unavailable: Any = None, **changes: Any) -> Json:
    given = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"canary": {key: value for key, value in given.items() if value is not None} | changes}


def test_a_rollout_wants_a_number_of_pods_and_its_generations_are_compared_though_one_is_a_text() -> None:
    found = view(argo_rollout(minReadySeconds=7))
    assert (found.kind, found.replicas, found.listed, found.start) == (ARGO_ROLLOUT, 5, (), 0)
    assert (found.metadata_generation, found.observed_generation) == (4, 3)
    assert (found.ready_replicas, found.updated_replicas, found.termination_grace_s) == (4, 2, 45)
    assert rollout(argo_rollout(minReadySeconds=7)).min_ready_s == 7


def test_what_nobody_wrote_yet_may_be_absent() -> None:
    raw = argo_rollout()
    del raw["spec"]["replicas"], raw["status"]
    found = view(raw)
    assert (found.replicas, found.observed_generation, found.updated_replicas) == (1, 0, 0)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "resolved"),
    [
        # TestResolveFenceposts of utils/replicaset/replicaset_test.go, without its nils, which get defaults before
        (0, "0%", "0%", 1),
        (10, "39%", "39%", 3),
        # TestMaxUnavailable; how many at most, because what is lacking above the replicas makes no difference here
        (10, 1, 5, 5),
        (10, 1, 10, 10),
        (5, 1, 10, 10),
        (10, 1, "50%", 5),
        (10, 1, "100%", 10),
        (5, 1, "100%", 5),
        # the defaults, which are written "25" without a sign (utils/defaults)
        (3, None, None, 0),
        (4, None, None, 1),
        (8, None, None, 2),
        (3, 0, None, 1),
        (8, "25", "25", 2),
    ],
)
def test_amounts_are_resolved_as_the_controller_does(replicas: int, surge: Any, unavailable: Any, resolved: int) -> None:
    assert rollout(argo_rollout(replicas=replicas, strategy=canary(surge, unavailable))).max_unavailable == resolved


@pytest.mark.parametrize(("surge", "unavailable", "field"), [("oops", "39%", "maxSurge"), ("55%", "urg", "maxUnavailable")])
def test_what_is_no_amount_is_named(surge: str, unavailable: str, field: str) -> None:
    """The errors of TestResolveFenceposts."""
    found = of_type(MalformedObject, rollout_view(argo_rollout(strategy=canary(surge, unavailable))))
    assert (found.kind, found.field) == ("Rollout", f"spec.strategy.canary.{field}")


STEPS = [{"setWeight": 20}, {"pause": {}}]


@pytest.mark.parametrize(
    ("strategy", "begins_beside", "ends_first", "is_paused"),
    [
        (canary(), False, True, False),
        (canary(1, 0), False, False, False),
        (canary(0, 1, steps=STEPS), False, True, True),
        (canary("0%", 1, steps=STEPS), False, True, True),
        (canary(steps=STEPS), True, False, True),
        (canary(1, 1, steps=STEPS), True, False, True),
        (canary(0, 1, trafficRouting={"nginx": {}}), True, False, True),
        ({"blueGreen": {"activeService": "web", "maxUnavailable": 1}}, True, False, True),
        ({"blueGreen": {}}, True, False, True),
    ],
    ids=[
        "rolling", "rolling, none lacking", "steps", "steps, percentage", "steps by default", "steps with a surge",
        "routed", "two colours", "two colours by default",
    ],
)  # fmt: skip
def test_a_pod_waits_only_where_another_is_given_up_for_it_before_it_is_ready(
    strategy: Json, begins_beside: bool, ends_first: bool, is_paused: bool
) -> None:
    found = rollout(argo_rollout(strategy=strategy))
    assert (found.begins_beside, found.ends_before_it_begins, found.is_paused) == (begins_beside, ends_first, is_paused)


@pytest.mark.parametrize(
    ("spec", "status"), [({"paused": True}, {}), ({}, {"abort": True}), ({}, {"pauseConditions": [{"reason": "x"}]})],
    ids=["by its spec", "aborted", "an analysis without a result"],
)  # fmt: skip
def test_a_rollout_that_stands_still_replaces_nothing(spec: Json, status: Json) -> None:
    raw = argo_rollout(strategy=canary(), **spec)
    assert rollout(raw | {"status": raw["status"] | status}).is_paused


@pytest.mark.parametrize(
    ("field", "raw"),
    [
        ("", None), ("metadata.namespace", {"spec": {"template": {"spec": {}}}}),
        ("status.observedGeneration", argo_rollout(status={"observedGeneration": "6d4b75"})),
        ("status.observedGeneration", argo_rollout(status={"observedGeneration": 3})),
        ("status.observedGeneration", argo_rollout(status={"observedGeneration": "9" * 5000})),
        ("spec.template", argo_rollout(template=None)),
        ("spec.strategy.canary", argo_rollout(strategy={"canary": []})),
        ("spec.strategy.canary.steps", argo_rollout(strategy={"canary": {"steps": 1}})),
    ],
)  # fmt: skip
def test_a_wrong_shape_is_named_by_its_field(field: str, raw: Any) -> None:
    found = of_type(MalformedObject, rollout_view(raw))
    assert (found.kind, found.field) == ("Rollout", field)


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}, "orders"),
        ({"kind": "ReplicaSet", "name": "orders"}, ""), ({"kind": "Deployment"}, ""), (None, ""), ("orders", ""),
    ],
)  # fmt: skip
def test_a_deployment_may_have_its_template(ref: Any, name: str) -> None:
    assert deployment_of(argo_rollout(workloadRef=ref)) == name


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["canary", "maxSurge", "steps"]), inner),
    max_leaves=5,
)
_KEYS = st.sampled_from(["replicas", "strategy", "template", "workloadRef", "observedGeneration", "pauseConditions"])


@given(st.sampled_from(["metadata", "spec", "status"]), _KEYS, _JSON)
def test_no_shape_raises(place: str, key: str, wrong: Any) -> None:
    raw = argo_rollout()
    raw[place][key] = wrong
    assert isinstance(rollout_view(raw), WorkloadView | MalformedObject)
    assert isinstance(deployment_of(raw), str)
