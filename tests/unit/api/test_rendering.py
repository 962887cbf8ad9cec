"""What a pod receives, rendered in Python; that the policy's CEL says the same is asked of a real API server
(tests/operator)."""

import copy
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.injection import resolve_injected
from staticgroup.api.rendering import AgentImage, is_meant, json_patch, rendered
from staticgroup.api.resources.client import Client
from staticgroup.api.resources.injected import InjectedMethod

Json = dict[str, Any]
SCOPE = "3fa9c1d2"
IMAGE = AgentImage(name="registry.example/staticgroup:1")
ID, TIMEOUT = names.INSTANCE_ID_ANNOTATION, names.SESSION_TIMEOUT_ANNOTATION
OPTION = f"-javaagent:{names.AGENT_MOUNT_PATH}/{names.AGENT_JAR}"


def injected(**client: Any) -> Json:
    return resolve_injected(
        Client.model_validate(client), method=InjectedMethod.POLICY, scope=SCOPE,
        id_template=f"{{podName}}.{SCOPE}", session_timeout_ms=45_000,
    ).to_wire()


def a_pod(**container: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    metadata = {"name": "db-2", "namespace": "prod", "labels": {names.POD_INDEX_LABEL: "2"}, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "app", "image": "app", **container}]}}


def a_group(status: Json, **spec: Any) -> Json:
    return {"spec": {"workloadRef": {"name": "db"}} | spec, "status": {"injected": status}}


def patched(pod: Json, patch: list[Json]) -> Json:
    """Apply `add` operations, as RFC 6902 has them for members of objects."""
    result = copy.deepcopy(pod)
    for operation in patch:
        *way, last = operation["path"].removeprefix("/").split("/")
        place: Any = result
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        assert operation["op"] == "add"
        place[last] = operation["value"]
    return result


def test_an_id_is_composed_of_the_pods_name_before_everything_of_the_user() -> None:
    own = {"name": "OWN", "value": "$(KAFKA_GROUP_INSTANCE_ID)"}
    pod = rendered(a_pod(env=[own, {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"}]), injected(), IMAGE)
    assert pod["metadata"]["annotations"] == {ID: f"db-2.{SCOPE}", TIMEOUT: "45000"}
    names_in_order = [e["name"] for e in pod["spec"]["containers"][0]["env"]]
    assert names_in_order == [names.POD_NAME_VARIABLE, "KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS", "OWN"]


def test_a_withdrawn_timeout_leaves_the_users_own() -> None:
    own = {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "9000"}
    status = injected() | {"sessionTimeoutMs": None}
    pod = rendered(a_pod(env=[own]), status, IMAGE)
    assert TIMEOUT not in pod["metadata"]["annotations"]
    assert pod["spec"]["containers"][0]["env"][-1] == own


@pytest.mark.parametrize("kind", ["Connect", "Debezium"])
def test_what_is_rendered_twice_is_rendered_once(kind: str) -> None:
    """An API server calls again after another injector (reinvocationPolicy IfNeeded)."""
    status = injected(type=kind, injectAgent=True)
    before = a_pod(env=[{"name": "KAFKA_OPTS", "value": "-Xint"}])
    before["spec"]["subdomain"] = "headless"
    once = rendered(before, status, IMAGE)
    assert rendered(once, status, IMAGE) == once
    assert json_patch(once, rendered(once, status, IMAGE)) == []
    env = {e["name"]: e.get("value") for e in once["spec"]["containers"][0]["env"]}
    assert env["KAFKA_OPTS"] == f"-Xint {OPTION}"
    assert env.get("ADVERTISED_HOST_NAME") == (
        f"$({names.POD_NAME_VARIABLE}).headless.prod.svc" if kind == "Debezium" else None
    )


@pytest.mark.parametrize(
    "spoil",
    [
        {"env": []},
        {"env": [{"name": "KAFKA_OPTS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"env": [{"name": "KAFKA_OPTS", "value": f"-javaagent:/a/{names.AGENT_JAR}"}]},
        {"env": [{"name": "KAFKA_OPTS"}, {"name": "KAFKA_OPTS", "value": "x"}]},
        {"env": [{"name": "KAFKA_OPTS"}], "volumeMounts": [{"name": "v", "mountPath": "/opt"}]},
        {"env": [{"name": "KAFKA_OPTS"}], "name": names.AGENT_NAME},
    ],
    ids=["absent", "reference", "has it", "twice", "mount above", "name taken"],
)
def test_the_agent_comes_whole_or_not_at_all(spoil: Json) -> None:
    status = injected(type="Connect", injectAgent=True)
    able = rendered(a_pod(env=[{"name": "KAFKA_OPTS"}]), status, IMAGE)["spec"]
    assert [c["name"] for c in able["initContainers"]] == [v["name"] for v in able["volumes"]] == [names.AGENT_NAME]
    before = a_pod(**spoil)
    after = rendered(before, status, IMAGE)["spec"]
    assert not {"initContainers", "volumes"} & after.keys()
    assert after["containers"][0].get("volumeMounts") == before["spec"]["containers"][0].get("volumeMounts")
    theirs = [e for e in after["containers"][0]["env"] if e["name"] == "KAFKA_OPTS"]
    assert theirs == spoil["env"]


def test_the_patch_makes_the_rendered_pod_and_nothing_is_edited_in_place() -> None:
    status = injected(type="Connect", injectAgent=True)
    before = a_pod(env=[{"name": "KAFKA_OPTS"}])
    before["metadata"]["annotations"] = {"a/b~c": "1"}
    kept = copy.deepcopy(before)
    after = rendered(before, status, IMAGE)
    assert before == kept
    assert patched(before, json_patch(before, after)) == after != before


@pytest.mark.parametrize(
    ("change", "is_ours"),
    [
        ({}, True),
        ({"mode": "Observe"}, False),
        ({"mode": "Suspended"}, False),
        ({"workloadRef": {"name": "other"}}, False),
    ],
)
def test_only_a_managed_group_of_the_workload_injects(change: Json, is_ours: bool) -> None:
    assert is_meant(a_pod(), a_group(injected(), **change), InjectedMethod.POLICY) is is_ours


def test_no_injector_acts_by_the_name_of_another_or_before_ids_are_issued() -> None:
    group = a_group(injected() | {"method": InjectedMethod.NONE.value})
    assert not is_meant(a_pod(), group, InjectedMethod.POLICY)
    assert not is_meant(a_pod(), {"spec": group["spec"]}, InjectedMethod.POLICY)


def test_a_status_that_was_restored_for_another_group_injects_nothing() -> None:
    group = a_group(injected()) | {"metadata": {"name": "db", "uid": "sg-1"}}
    for uid, is_its_own in (("sg-1", True), ("sg-elsewhere", False)):
        group["status"]["memory"] = {"staticGroupUid": uid}
        assert is_meant(a_pod(), group, InjectedMethod.POLICY) is is_its_own


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "controller"])
def test_a_pod_of_another_owner_is_not_meant(field: str) -> None:
    pod = a_pod()
    pod["metadata"]["ownerReferences"][0][field] = "" if field != "controller" else False
    assert not is_meant(pod, a_group(injected()), InjectedMethod.POLICY)


@pytest.mark.parametrize(
    "name", ["db-2-copy", "copy-2", "db", "db-3", "db-02", "db-2-2", "db-\N{ARABIC-INDIC DIGIT TWO}"]
)
@pytest.mark.parametrize("template", ["consumer-{ordinal}", f"{{podName}}.{SCOPE}"])
def test_a_copy_under_another_name_is_not_meant(name: str, template: str) -> None:
    """It keeps owner and labels of db-2, by hand; the id of db-2 would fence the pod that has it."""
    pod = a_pod()
    group = a_group(injected() | {"idTemplate": template})
    assert is_meant(pod, group, InjectedMethod.POLICY)
    pod["metadata"]["name"] = name
    assert not is_meant(pod, group, InjectedMethod.POLICY)


def ordinal_label(text: str) -> Json:
    return {names.POD_INDEX_LABEL: text}


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        ({"labels": {}}, False),
        ({"name": "db-2-orders", "labels": ordinal_label("2-orders")}, False),
        ({"labels": ordinal_label("3")}, False),
        ({"name": "db-02", "labels": ordinal_label("02")}, False),
        ({"name": "db-", "labels": ordinal_label("")}, False),
        ({"name": "db-2147483646", "labels": ordinal_label("2147483646")}, True),
        ({"name": None, "generateName": "db-"}, False),
        ({"name": "", "generateName": "db-"}, False),
    ],
    ids=["no label", "no ordinal", "another ordinal", "leading zero", "empty", "ten digits", "no name", "no name yet"],
)
def test_a_pod_is_meant_by_a_name_and_a_label_of_one_ordinal(metadata: Json, is_ours: bool) -> None:
    pod = a_pod()
    pod["metadata"] = {key: value for key, value in (pod["metadata"] | metadata).items() if value is not None}
    assert is_meant(pod, a_group(injected()), InjectedMethod.POLICY) is is_ours


WAITER = AgentImage(name="registry.example/waiter:1", pull_policy="Always")
SLOT = f"{names.SLOT_NAME}-{SCOPE}"
HASH = "6d4b75cb6d"


def of_a_file(container: str = "", name: str = "KAFKA_GROUP_INSTANCE_ID", suffix: str = "") -> Json:
    value = f"%s.{SCOPE}{suffix}"
    return {"container": container, "name": name, "annotation": ID + suffix, "key": name, "value": value}


def slots(*env: Json) -> Json:
    timeout = {"container": "", "name": "KAFKA_SESSION_TIMEOUT_MS", "annotation": TIMEOUT}
    return injected() | {"env": [*(env or (of_a_file(),)), timeout]}


def a_replicas_pod(**spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{HASH}", "uid": "u", "controller": True}
    labels = {names.POD_TEMPLATE_HASH_LABEL: HASH}
    metadata = {"generateName": f"web-{HASH}-", "namespace": "prod", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "app", "image": "app"}]} | spec}


OF_WEB = {"workloadRef": {"kind": "Deployment", "name": "web"}}


def test_a_deployments_pod_waits_behind_its_other_init_containers_and_reads_the_file() -> None:
    own = [{"name": "OWN", "value": "1"}, {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "mine"}]
    before = a_replicas_pod(
        containers=[{"name": "app", "image": "app", "env": own}], initContainers=[{"name": "init", "image": "i"}],
        volumes=[{"name": "data", "emptyDir": {}}],
    )  # fmt: skip
    kept = copy.deepcopy(before)
    pod = rendered(before, slots(), IMAGE, WAITER)
    assert before == kept
    assert pod["metadata"]["annotations"] == {TIMEOUT: "45000"}
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["init", SLOT]
    waiter = pod["spec"]["initContainers"][1]
    assert (waiter["image"], waiter["args"]) == (WAITER.name, [f"KAFKA_GROUP_INSTANCE_ID=%s.{SCOPE}"])
    assert waiter["env"] == [{"name": names.SLOT_WORKLOAD_VARIABLE, "value": "web"}]
    assert [v["name"] for v in pod["spec"]["volumes"]] == ["data", SLOT, f"{SLOT}-in"]
    env = pod["spec"]["containers"][0]["env"]
    assert [e["name"] for e in env] == ["KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS", "OWN"]
    file = {"volumeName": SLOT, "path": "env", "key": "KAFKA_GROUP_INSTANCE_ID", "optional": True}
    assert env[0]["valueFrom"] == {"fileKeyRef": file}
    assert rendered(pod, slots(), IMAGE, WAITER) == pod
    assert patched(before, json_patch(before, pod)) == pod


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": SLOT, "emptyDir": {}}]},
        {"volumes": [{"name": f"{SLOT}-in", "emptyDir": {}}]},
        {"initContainers": [{"name": SLOT, "image": "i"}]},
        {"containers": [{"name": "app", "image": "app"}, {"name": SLOT, "image": "i"}]},
        {"containers": [{"name": "side", "image": "app"}]},
        {"os": {"name": "windows"}},
    ],
    ids=["volume", "other volume", "init container", "container", "a consumer's container is missing", "windows"],
)
def test_the_waiter_comes_whole_or_not_at_all(spec: Json) -> None:
    status = slots(of_a_file("app"), of_a_file("app", "AUDIT_ID", "-audit"))
    assert rendered(a_replicas_pod(), status, IMAGE, WAITER) != a_replicas_pod()
    assert rendered(a_replicas_pod(**spec), status, IMAGE, WAITER) == a_replicas_pod(**spec)


def test_without_the_waiters_image_a_deployments_pod_gets_nothing() -> None:
    assert rendered(a_replicas_pod(), slots(), IMAGE) == a_replicas_pod()


@pytest.mark.parametrize(
    ("change", "is_ours"),
    [
        ({}, True),
        ({"labels": {}}, False),
        ({"labels": {names.POD_TEMPLATE_HASH_LABEL: "other"}}, False),
        ({"name": f"webs-{HASH}"}, False),
        ({"name": "web"}, False),
        ({"kind": "StatefulSet"}, False),
        ({"kind": "Deployment", "name": "web"}, False),
        ({"apiVersion": "argoproj.io/v1alpha1"}, False),
        ({"controller": False}, False),
    ],
)
def test_a_deployments_pod_is_known_by_the_name_of_its_replica_set(change: Json, is_ours: bool) -> None:
    pod = a_replicas_pod()
    pod["metadata"] |= {key: change[key] for key in change if key == "labels"}
    pod["metadata"]["ownerReferences"][0] |= {key: change[key] for key in change if key != "labels"}
    assert is_meant(pod, a_group(slots(), **OF_WEB), InjectedMethod.POLICY) is is_ours


def test_kinds_are_not_mixed_up() -> None:
    """A StatefulSet may be called as a Deployment is, or as its ReplicaSet."""
    of_db = a_group(slots(), workloadRef={"kind": "Deployment", "name": "db"})
    assert not is_meant(a_pod(), of_db, InjectedMethod.POLICY)
    for name in ("web", f"web-{HASH}"):
        assert not is_meant(a_replicas_pod(), a_group(slots(), workloadRef={"name": name}), InjectedMethod.POLICY)
