"""Answers to AdmissionReviews: what the renderer gives, or nothing, and never a refusal (AdmissionReview, admission.k8s.io/v1)."""

import base64
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.injection import resolve_injected
from staticgroup.api.rendering import AgentImage, rendered
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.runtime.webhook.review import Outcome, Reviewer

Json = dict[str, Any]
AGENT = AgentImage(name="registry.example/staticgroup:1")
WAITER = AgentImage(name="registry.example/waiter:1")


def injected(method: InjectedMethod = InjectedMethod.WEBHOOK, **client: Any) -> Json:
    wish = {"workloadRef": {"name": "db"}, "connectionRef": {"name": "k"}, "groupId": "g", "client": client}
    return resolve_injected(
        StaticGroupSpec.model_validate(wish).client, method=method, scope="3fa9c1d2",
        id_template="{podName}.3fa9c1d2", session_timeout_ms=45_000,
    ).to_wire()


def group(name: str = "db", **fields: Any) -> Json:
    spec = {"workloadRef": {"name": fields.pop("workload", "db")}} | fields.pop("spec", {})
    return {"metadata": {"name": name}, "spec": spec, "status": {"injected": fields.pop("status", injected())}}


def pod(**metadata: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    own = {"name": "db-2", "labels": {names.POD_INDEX_LABEL: "2"}, "ownerReferences": [owner]}
    return {"metadata": own | metadata, "spec": {"containers": [{"name": "app", "image": "app"}]}}


def review(obj: Json, **request: Any) -> Json:
    asked = {
        "uid": "r1", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "prod", "name": "db-2", "object": obj,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}


async def ask(asked: Json, groups: Sequence[Json] | KubeProblem | Exception) -> tuple[list[Json], Outcome]:
    async def read(namespace: str) -> list[Json] | KubeProblem:
        assert namespace == "prod"
        if isinstance(groups, Exception):
            raise groups
        return groups if isinstance(groups, KubeProblem) else list(groups)

    given = copy.deepcopy(asked)
    answer, outcome = await Reviewer(read=read, agent=AGENT, waiter=WAITER).answer(given)
    assert given == asked
    response = answer["response"]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert ("patchType" in response) == bool(patch)
    return patch, outcome


def patched(obj: Json, patch: list[Json]) -> Json:
    result = copy.deepcopy(obj)
    for operation in patch:
        *way, last = operation["path"].removeprefix("/").split("/")
        place: Any = result
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[last] = operation["value"]
    return result


def names_in(patch: list[Json]) -> list[str]:
    """Return the ids that a patch annotates a pod with."""
    (annotations,) = [operation["value"] for operation in patch if operation["path"] == "/metadata/annotations"]
    return [value for key, value in annotations.items() if "instance-id" in key]


async def test_a_meant_pod_gets_what_the_renderer_gives() -> None:
    patch, outcome = await ask(review(pod()), [group()])
    assert outcome is Outcome.INJECTED
    assert patched(pod(), patch) == rendered(pod(), injected(), AGENT)


async def test_a_pod_of_a_deployment_gets_its_waiter_once_and_others_of_replica_sets_nothing() -> None:
    entry = {"container": "", "name": "ID", "annotation": names.INSTANCE_ID_ANNOTATION, "key": "ID", "value": "%s.s"}
    ours = group(
        status=injected() | {"env": [entry]}, spec={"workloadRef": {"kind": "Deployment", "name": "db"}},
    )  # fmt: skip
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db-6d4b", "uid": "u", "controller": True}
    new = pod(name="db-6d4b-x7", ownerReferences=[owner], labels={names.POD_TEMPLATE_HASH_LABEL: "6d4b"})
    patch, outcome = await ask(review(new), [ours])
    assert outcome is Outcome.INJECTED
    given = patched(new, patch)
    assert given == rendered(new, ours["status"]["injected"], AGENT, WAITER)
    assert [c["image"] for c in given["spec"]["initContainers"]] == [WAITER.name]
    assert (await ask(review(given), [ours]))[0] == []
    other = pod(name="web-6d4b-x7", ownerReferences=[owner | {"name": "web-6d4b"}], labels=new["metadata"]["labels"])
    assert await ask(review(other), [ours, group()]) == ([], Outcome.NOTHING_MEANT)


async def test_a_copy_of_a_pod_gets_nothing_of_a_template_by_ordinal() -> None:
    by_ordinal = group(status=injected() | {"idTemplate": "consumer-{ordinal}"})
    assert names_in((await ask(review(pod()), [by_ordinal]))[0]) == ["consumer-2"]
    assert await ask(review(pod(name="db-2-copy"), name="db-2-copy"), [by_ordinal]) == ([], Outcome.NOTHING_MEANT)


async def test_a_second_review_of_the_same_pod_changes_nothing() -> None:
    """The configuration names two webhooks, of one replica each: what the first gave the second leaves as it is."""
    patch, _ = await ask(review(pod()), [group()])
    again, _ = await ask(review(patched(pod(), patch)), [group()])
    assert again == []


async def test_every_static_group_of_the_workload_gives_its_own() -> None:
    other = injected(env=[{"instanceIdName": "AUDIT_ID", "suffix": "-audit"}])
    patch, _ = await ask(review(pod()), [group("b", status=other), group("a"), group("c", workload="other")])
    names_of = [e["name"] for e in patched(pod(), patch)["spec"]["containers"][0]["env"]]
    assert {"KAFKA_GROUP_INSTANCE_ID", "AUDIT_ID"} <= set(names_of)


async def test_a_pod_of_a_strimzi_pod_set_gets_its_own_by_its_name_alone() -> None:
    """Strimzi labels its pods with no ordinal, and an upgrade of it writes another version into the owner (Labels, WorkloadUtils)."""
    owner = {"apiVersion": "core.strimzi.io/v1beta2", "kind": "StrimziPodSet", "name": "db", "uid": "u", "controller": True}
    ref = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": "db"}
    worker = pod(labels={"strimzi.io/controller": "strimzipodset"}, ownerReferences=[owner])
    patch, outcome = await ask(review(worker), [group("for-a-stateful-set"), group(spec={"workloadRef": ref})])
    assert outcome is Outcome.INJECTED
    assert patched(worker, patch) == rendered(worker, injected(), AGENT)
    assert names_in(patch) == ["db-2.3fa9c1d2"]


async def test_a_static_group_of_a_kind_that_this_release_does_not_know_takes_no_id_from_others() -> None:
    patch, outcome = await ask(review(pod()), [group("a", spec={"workloadRef": {"kind": "Later", "name": "db"}}), group("b")])
    assert outcome is Outcome.INJECTED
    assert names_in(patch) == ["db-2.3fa9c1d2"]


NOT_MEANT: dict[str, tuple[Json, list[Json]]] = {
    "no StaticGroup": (review(pod()), []),
    "another workload": (review(pod()), [group(workload="other")]),
    "policy in force": (review(pod()), [group(status=injected(InjectedMethod.POLICY))]),
    "nothing in force": (review(pod()), [group(status=injected(InjectedMethod.NONE))]),
    "no status": (review(pod()), [{"metadata": {"name": "db"}, "spec": {"workloadRef": {"name": "db"}}}]),
    "observed": (review(pod()), [group(spec={"mode": "Observe"})]),
    "suspended": (review(pod()), [group(spec={"mode": "Suspended"})]),
    "no index label": (review(pod(labels={})), [group()]),
    "a pod set's, without a number": (
        review(pod(name="db-x", ownerReferences=[{"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": "db", "controller": True}])),
        [group(spec={"workloadRef": {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": "db"}})],
    ),
    "no labels": (review(pod(labels=None)), [group()]),
    "no owner": (review(pod(ownerReferences=None)), [group()]),
    "update": (review(pod(), operation="UPDATE"), [group()]),
    "ephemeral container": (review(pod(), subResource="ephemeralcontainers"), [group()]),
    "another resource": (review(pod(), resource={"group": "apps", "version": "v1", "resource": "statefulsets"}), [group()]),
    "no object": (review(pod(), object=None), [group()]),
}


@pytest.mark.parametrize("case", NOT_MEANT)
async def test_a_pod_that_is_not_meant_stays_as_it_is(case: str) -> None:
    assert await ask(*NOT_MEANT[case]) == ([], Outcome.NOTHING_MEANT)


async def test_a_pod_comes_without_an_id_when_static_groups_cannot_be_read() -> None:
    problem = problem_of(503, verb="list", resource="staticgroups.staticgroup.io", namespace="prod")
    assert await ask(review(pod()), problem) == ([], Outcome.UNREADABLE)


@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        (review(pod()), RuntimeError("anything")),
        (review(pod()), [{"metadata": {"name": "db"}, "spec": {}}]),
        (review(pod()), [group(status=injected() | {"env": [{}]})]),
        (review(pod() | {"spec": {}}), [group()]),
    ],
)
async def test_a_pod_is_admitted_as_it_is_whatever_goes_wrong(asked: Json, groups: Any) -> None:
    assert await ask(asked, groups) == ([], Outcome.FAILED)


async def test_a_pod_whose_template_has_no_namespace_is_rendered_with_that_of_the_request() -> None:
    worker = injected(type="Debezium")
    bare = pod()
    bare["spec"]["subdomain"] = "workers"
    patch, _ = await ask(review(bare), [group(status=worker)])
    assert all("namespace" not in str(operation["path"]) for operation in patch)


@pytest.mark.parametrize("asked", [{}, {"request": None}, {"request": {}}, {"request": {"uid": 3}}])
async def test_a_review_without_a_uid_is_refused(asked: Json) -> None:
    async def read(_: str) -> list[Json]:
        raise AssertionError

    with pytest.raises(ValueError, match="uid"):
        await Reviewer(read=read, agent=AGENT, waiter=WAITER).answer(asked)


async def test_a_static_group_that_cannot_be_rendered_takes_no_id_from_the_others() -> None:
    """The admission policy asks each StaticGroup by itself, too: a parameter that fails is left out, the others count (KEP-3962)."""
    broken = {key: value for key, value in injected().items() if key != "env"}
    patch, outcome = await ask(review(pod()), [group("a", status=broken), group("b")])
    assert outcome is Outcome.FAILED
    assert names_in(patch) == ["db-2.3fa9c1d2"]
