"""The policy for pods of Deployments, as the chart installs it where Rollouts of Argo are served too.

No controller of theirs runs here: their pods are those of a Deployment with the other label, by its sources.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_cluster import Kubectl
from policy_lab import Lab, a_lab
from slot_lab import IMAGE, a_replicas_pod, has_waiter, issue, policy_with_an_image
from test_slot_policy import SCOPE, a_pod, admitted, by_the_renderer

from staticgroup.api import names
from staticgroup.api.policy import FailurePolicy
from staticgroup.api.workloads import ARGO_ROLLOUT, DEPLOYMENT
from support.waiting import until

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
PODS = 60


def without_selector(name: str, failure_policy: FailurePolicy) -> Json:
    made = policy_with_an_image(name, failure_policy)
    del made["spec"]["matchConstraints"]["objectSelector"]
    return made


@pytest.fixture(scope="module")
def lab(kubectl: Kubectl, crds: str) -> Iterator[Lab]:
    with a_lab(kubectl, without_selector, "Fail") as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere(kubectl: Kubectl, lab: Lab) -> Iterator[str]:
    """A namespace where no policy is in force."""
    name = f"{lab.namespace}-off"
    kubectl.must("create", "namespace", name)
    kubectl.must("create", "serviceaccount", "app", "-n", name)
    yield name
    kubectl.run("delete", "namespace", name, "--wait=false")


def of_a_rollout(pod: Json) -> Json:
    """The same pod with the label of the other controller."""
    labels = dict(pod["metadata"].get("labels") or {})
    if names.POD_TEMPLATE_HASH_LABEL in labels:
        labels[names.ROLLOUT_HASH_LABEL] = labels.pop(names.POD_TEMPLATE_HASH_LABEL)
    return pod | {"metadata": pod["metadata"] | {"labels": labels}}


def as_it_is(pod: Json) -> Json:
    return pod


def unlabelled(pod: Json) -> Json:
    return pod | {"metadata": {key: value for key, value in pod["metadata"].items() if key != "labels"}}


@pytest.mark.parametrize("kind", [ARGO_ROLLOUT, DEPLOYMENT], ids=["Rollout", "Deployment"])
def test_the_policy_and_the_renderer_say_the_same_of_pods_of_either_kind(lab: Lab, elsewhere: str, kind: Any) -> None:
    workload = f"of-{kind.plural}"
    group = issue(lab, workload, SCOPE, kind=kind)
    mine, others = (of_a_rollout, as_it_is) if kind is ARGO_ROLLOUT else (as_it_is, of_a_rollout)

    def look() -> bool:
        return has_waiter(lab.admit(mine(a_replicas_pod(lab, workload))), SCOPE)

    until(look, deadline_s=30, what=f"a pod of {workload} with the waiter")
    rng = random.Random(f"rollouts {workload}")
    changes: list[Callable[[Json], Json]] = [mine] * PODS + [others] * 10 + [unlabelled] * 5
    pods = [change(a_pod(rng, lab, workload)) for change in changes]
    ours = [by_the_renderer(pod, [group]) for pod in pods]
    moved = [pod | {"metadata": pod["metadata"] | {"namespace": elsewhere}} for pod in ours]
    by_policy, by_renderer = admitted(lab.kubectl, pods), admitted(lab.kubectl, moved)
    for pod, found, expected in zip(pods, by_policy, by_renderer, strict=True):
        assert found == expected, json.dumps(pod)
    injected = [has_waiter(pod, SCOPE) for pod in by_policy]
    assert any(injected[:PODS])
    assert not all(injected[:PODS])
    assert not any(injected[PODS:]), "the label of the other kind, or none"
    waiters = [c for pod in by_policy for c in pod["spec"].get("initContainers", ()) if c["image"] == IMAGE.name]
    assert {json.dumps(c["env"]) for c in waiters} == {json.dumps([{"name": "STATICGROUP_WORKLOAD", "value": workload}])}
