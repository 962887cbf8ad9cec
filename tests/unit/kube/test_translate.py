"""Raw objects become views, and what is wrong with an object is a value."""

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kubernetes.admission import inject
from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.durable import InjectedMethod
from staticgroup.api.resources.identity import Identity
from staticgroup.core.evidence.pod import ContainerPhase, NodeView, PodVersion
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.translate import MalformedObject, node_view, pod_version, workload_view
from staticgroup.kube.translate.carried_ids import CARRIED_IDS_MAX, _expanded
from unit.kube.raw_objects import at, ended, pod, running, unknown, waiting, wrote


def version(raw: dict[str, Any], **rest: Any) -> PodVersion:
    found = pod_version(at(raw, 7) if "resourceVersion" not in raw["metadata"] else raw, **rest)
    assert isinstance(found, PodVersion), found
    return found


def test_running_pod_becomes_a_version_with_all_its_facts() -> None:
    found = version(pod())
    assert (found.owner_name, found.node_name, found.phase, found.resource_version) == ("web", "node-a", "Running", 7)
    assert found.runs
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
def test_container_tells_that_the_run_before_is_lost(entry: Any) -> None:
    lost = {"lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}
    assert version(pod(statuses=[{**entry, **lost}])).required[0].was_lost
    assert not version(pod(statuses=[entry])).required[0].was_lost


def test_container_that_is_waiting_or_unknown_without_a_trace_has_not_started() -> None:
    assert version(pod(statuses=[waiting(), unknown("side")])).started_containers == frozenset()


def test_terminated_container_shows_the_id_of_its_terminated_state_only() -> None:
    """lab: an image never pulled ends as ContainerStatusUnknown without containerID."""
    view = version(pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])).required[0]
    assert (view.phase, view.container_id, view.finished_at) == (ContainerPhase.TERMINATED, "", "")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "KAFKA_GROUP_INSTANCE_ID", "value": "literal-1"}, {"literal-1"}),
        ({"name": "kafka_group_instance_id", "value": "lower-1"}, {"lower-1"}),
        ({"name": "OTHER", "value": "not-asked-for"}, set()),
        ({"name": "MEMBER", "value": "asked-for"}, {"asked-for"}),
        ({"name": "INSTANCE_ID", "value": "$(POD)-x"}, {"web-0-x"}),
        ({"name": "INSTANCE_ID", "value": "$$(POD)"}, set()),
        ({"name": "INSTANCE_ID", "value": "$(UNKNOWN)-x"}, set()),
        ({"name": "INSTANCE_ID", "value": "a b"}, set()),
        ({"name": "INSTANCE_ID", "value": ".."}, set()),
        ({"name": "INSTANCE_ID", "value": ""}, set()),
        ({"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, {"shop"}),
        ({"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}}, {"from-a"}),
        ({"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}},
         {"0"}),
        ({"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, set()),
        ({"name": "INSTANCE_ID", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, set()),
    ],
)
def test_instance_ids_come_from_the_environment_as_the_kubelet_resolves_it(entry: Any, expected: set[str]) -> None:
    raw = pod(instance_id=None)
    raw["metadata"]["annotations"] = {"a/b": "from-a"}
    first = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    raw["spec"]["containers"][0]["env"] = [first, entry]
    assert version(raw, env_names=frozenset({"MEMBER"})).instance_ids == expected


def read(field_path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": field_path}}}


ANNOTATED = "staticgroup.io/session-timeout-ms"
INJECTED = {"name": "KAFKA_SESSION_TIMEOUT_MS", **read(f"metadata.annotations['{ANNOTATED}']")}


@pytest.mark.parametrize(
    ("containers", "annotation", "expected"),
    [
        ([[INJECTED]], "125000", (125_000,)),
        ([[{"name": "T", **read(f"metadata.annotations['{ANNOTATED}']")}]], "125000", (125_000,)),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "60000"}]], None, (60_000,)),
        ([[{"name": "kafka_session_timeout_ms", "value": "60000"}]], None, (60_000,)),
        ([[{"name": "SPRING_KAFKA_CONSUMER_PROPERTIES_SESSION_TIMEOUT_MS", "value": "60000"}]], None, (60_000,)),
        ([[{"name": "T", "value": "60000"}, {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "$(T)"}]], None, (60_000,)),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "60000"}]], "125000", (60_000,)),
        ([[INJECTED, {"name": "ZOOKEEPER_SESSION_TIMEOUT_MS", "value": "6000"}]], "125000", (125_000,)),
        ([[{"name": "ZOOKEEPER_SESSION_TIMEOUT_MS", "value": "6000"}]], None, ()),
        ([[{"name": "APP_ZK_SESSION_TIMEOUT_MS", "value": "6000"}]], "125000", (125_000,)),
        ([[INJECTED], [{"name": "A_SESSION_TIMEOUT_MS", "value": "60000"}]], "125000", (60_000, 125_000)),
        ([[INJECTED], [INJECTED], []], "125000", (125_000,)),
        (
            [[
                {"name": "CONNECT_SESSION_TIMEOUT_MS", "value": "10000"},
                {"name": "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS", "value": "90000"},
                {"name": "CONNECT_CONSUMER_SESSION_TIMEOUT_MS", "value": "45000"},
            ]],
            None,
            (90_000,),
        ),
        ([[INJECTED]], None, ()),
        ([[INJECTED]], "soon", ()),
        ([[]], "125000", (125_000,)),
        ([[]], None, ()),
        ([[]], "", ()),
        ([[]], 125_000, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "1m"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "-1"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "0"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "86400001"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "9" * 5_000}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "٣٠٠٠٠"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS"}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]], None, ()),
        ([[{"name": "KAFKA_SESSION_TIMEOUT_MS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]], "1000", ()),
    ],
)
def test_session_timeouts_are_those_that_the_containers_show(
    containers: list[Any], annotation: Any, expected: tuple[int, ...]
) -> None:
    raw = pod()
    if annotation is not None:
        raw["metadata"]["annotations"][ANNOTATED] = annotation
    raw["spec"]["containers"] = [{"name": f"c{n}", "env": env} for n, env in enumerate(containers)]
    assert version(raw).session_timeouts_ms == expected


def test_sidecars_show_a_session_timeout_and_init_containers_that_end_do_not() -> None:
    raw = pod()
    raw["spec"]["initContainers"] = [
        {"name": "migrate", "env": [{"name": "A_SESSION_TIMEOUT_MS", "value": "1000"}]},
        {"name": "side", "restartPolicy": "Always", "env": [{"name": "A_SESSION_TIMEOUT_MS", "value": "2000"}]},
    ]
    assert version(raw).session_timeouts_ms == (2_000,)


NAME = {"name": "POD", **read("metadata.name")}
COMPOSED = {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "$(POD).1a2b3c4d"}


def with_env(*entries: dict[str, Any], instance_id: str | None = "web-0.1a2b3c4d", **container: Any) -> dict[str, Any]:
    raw = pod(instance_id=instance_id)
    raw["spec"]["containers"][0] |= {"env": list(entries), **container}
    return raw


@pytest.mark.parametrize(
    "env",
    [
        [NAME, COMPOSED],
        [{"name": "INSTANCE_ID", "value": "web-0.1a2b3c4d"}],
        [{"name": "INSTANCE_ID", **read("metadata.name")}],
        [{"name": "INSTANCE_ID", **read("metadata.uid")}, {"name": "INSTANCE_ID_2", **read("metadata.namespace")}],
        [NAME, {"name": "ID", "value": "$(POD)"}, {"name": "INSTANCE_ID", "value": "$(ID)-x$$(Y)"}, COMPOSED],
        [NAME, COMPOSED, {"name": "TIMEOUT", **read("metadata.annotations['staticgroup.io/session-timeout-ms']")}],
        [NAME, COMPOSED, {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        [NAME, COMPOSED, {"name": "NODE", **read("spec.nodeName")}],
        [NAME, {"name": "AUDIT", "value": "$(POD).1a2b3c4d"}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "value": ""}],
    ],
    ids=[
        "composed", "literal", "name", "uid and namespace", "expansion of an expansion", "timeout of an annotation",
        "secret that is no id", "node that is no id", "variable of another name with the id", "empty literal",
    ],
)
def test_ids_of_names_and_literals_alone_are_fixed(env: list[dict[str, Any]]) -> None:
    """metadata and the env of an existing pod's containers cannot be changed; annotations and labels can."""
    found = version(with_env(*env))
    assert "web-0.1a2b3c4d" in found.instance_ids
    assert found.ids_are_fixed


@pytest.mark.parametrize(
    "env",
    [
        [],
        [{"name": "INSTANCE_ID", "value": ""}],
        [NAME, {"name": "INSTANCE_ID", "value": "$(POD) is no id"}],
        [{"name": "INSTANCE_ID", **read("metadata.annotations['staticgroup.io/instance-id']")}],
        [{"name": "INSTANCE_ID", **read("metadata.labels['apps.kubernetes.io/pod-index']")}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID_2", **read("metadata.annotations['a/b']")}],
        [NAME, {"name": "INSTANCE_ID_2", **read("metadata.annotations['a/b']")}, COMPOSED],
        [{"name": "POD", **read("metadata.labels['apps.kubernetes.io/pod-index']")}, COMPOSED],
        [{"name": "A", **read("metadata.labels['x']")}, {"name": "POD", "value": "w$(A)"}, COMPOSED],
        [NAME, {"name": "POD", **read("metadata.annotations['a/b']")}, COMPOSED],
        [NAME, {"name": "POD", **read("metadata.annotations['long']")}, COMPOSED],
        [NAME, COMPOSED, {"name": "POD", **read("metadata.annotations['a/b']")}, {"name": "INSTANCE_ID", "value": "$(POD)"}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", **read("status.podIP")}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", **read("spec.nodeName")}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "value": "$(WEB_SERVICE_HOST)"}],
        [NAME, COMPOSED, {"name": "INSTANCE_ID", "value": "$(LATER)"}, {"name": "LATER", "value": "x"}],
        [NAME, COMPOSED, {"name": "AUDIT", **read("metadata.annotations['staticgroup.io/instance-id']")}],
        [NAME, COMPOSED, {"name": "MEMBER", **read("metadata.annotations['a/b']")}],
    ],
    ids=[
        "no variable", "only an empty one", "no legal id", "annotation", "label", "annotation without a value beside",
        "annotation without a value before", "expansion of a label", "expansion of an expansion of a label", "redefined by an annotation",
        "redefined by a long annotation", "redefined for a later id", "ConfigMap", "Secret", "resource", "address", "node",
        "variable of a Service", "defined later", "variable of another name that reads the id's annotation",
        "variable that was asked for",
    ],
)
def test_ids_that_may_say_something_else_at_the_next_start_of_a_container_are_not_fixed(env: list[dict[str, Any]]) -> None:
    """A container that starts reads annotations, labels, ConfigMaps and the variables of Services again."""
    raw = with_env(*env)
    raw["metadata"]["annotations"] |= {"long": "x" * 1000}
    assert not version(raw, env_names=frozenset({"MEMBER"})).ids_are_fixed


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    "container",
    [
        {"envFrom": [{"configMapRef": {"name": "c"}}]},
        {"envFrom": [{"prefix": "APP_", "secretRef": {"name": "c"}}]},
        {"env": [{"name": "INSTANCE_ID", **read("metadata.annotations['a/b']")}]},
    ],
    ids=["envFrom", "envFrom with a prefix", "annotation"],
)
def test_one_container_of_any_kind_whose_ids_are_not_fixed_is_enough(kind: str, container: dict[str, Any]) -> None:
    raw = with_env(NAME, COMPOSED)
    raw["spec"].setdefault(kind, []).append({"name": "other"})
    assert version(raw).ids_are_fixed
    raw["spec"][kind][-1] |= container
    assert not version(raw).ids_are_fixed


TOKEN = {"name": "kube-api-access", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "n", **read("metadata.namespace")["valueFrom"]}]}}]}}
LABELS = {"name": "labels", "downwardAPI": {"items": [{"path": "l", **read("metadata.labels")["valueFrom"]}]}}


@pytest.mark.parametrize(
    "env",
    [
        [],
        [NAME],
        [{"name": "INSTANCE_ID", "value": ""}],
        [NAME, {"name": "INSTANCE_ID", "value": "$(POD) is no id"}],
        [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        [{"name": "TIMEOUT", **read("metadata.annotations['staticgroup.io/session-timeout-ms']")}],
    ],
    ids=["no variable", "name", "empty", "no legal id", "secret that is no id", "timeout of an annotation"],
)
def test_pod_that_carries_no_id_and_reads_none_has_fixed_ones(env: list[dict[str, Any]]) -> None:
    """A fresh API server injects nothing for its first seconds: a pod that began then never has an id, whatever is edited."""
    raw = with_env(*env, instance_id=None)
    raw["spec"]["volumes"] = [TOKEN, LABELS, {"name": "conf", "configMap": {"name": "c"}}]
    found = version(raw)
    assert (found.instance_ids, found.ids_are_fixed) == (frozenset(), True)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        *itertools.product(
            ["file", "projected file", "variable", "variable of an ephemeral container"],
            ["metadata.annotations['staticgroup.io/instance-id']", "metadata.annotations['staticgroup.io/instance-id.b']"],
        ),
        ("file", "metadata.annotations"),
        ("projected file", "metadata.annotations"),
    ],
)
def test_pod_that_carries_no_id_but_can_read_an_annotation_of_one_has_none_that_are_fixed(path: str, place: str) -> None:
    raw = with_env(NAME, instance_id=None)
    items = {"items": [{"path": "id", **read(path)["valueFrom"]}]}
    raw["spec"] |= {
        "file": {"volumes": [TOKEN, {"name": "meta", "downwardAPI": items}]},
        "projected file": {"volumes": [{"name": "meta", "projected": {"sources": [{"downwardAPI": items}]}}]},
        "variable": {"containers": [{"name": "app", "env": [{"name": "ME", **read(path)}]}]},
        "variable of an ephemeral container": {"ephemeralContainers": [{"name": "dbg", "env": [{"name": "ME", **read(path)}]}]},
    }[place]
    assert not version(raw).ids_are_fixed


READS_ANOTHER = {"name": "B", **read("metadata.annotations['staticgroup.io/instance-id.b']")}
ALL_ANNOTATIONS = {"name": "podinfo", "downwardAPI": {"items": [{"path": "a", **read("metadata.annotations")["valueFrom"]}]}}
ONE_ID = {"name": "id", "downwardAPI": {"items": [{"path": "i", **read("metadata.annotations['staticgroup.io/instance-id']")["valueFrom"]}]}}


@pytest.mark.parametrize(
    ("env", "volume", "mounts", "is_fixed"),
    [
        ([READS_ANOTHER], TOKEN, {}, False),
        ([], ONE_ID, {}, False),
        ([], ALL_ANNOTATIONS, {"app": ["podinfo"]}, False),
        ([], ALL_ANNOTATIONS, {"istio-proxy": ["podinfo"]}, True),
        ([], LABELS, {"app": ["labels"]}, True),
    ],
    ids=["variable whose annotation is not there now", "file of an id", "every annotation", "a sidecar's", "labels"],
)
def test_pod_with_a_fixed_id_that_can_read_another_from_an_annotation_has_none_that_are_fixed(
    env: list[dict[str, Any]], volume: dict[str, Any], mounts: dict[str, list[str]], is_fixed: bool
) -> None:
    """A second consumer may take its id from there; a service mesh's proxy reads every annotation and is no consumer."""
    raw = with_env(NAME, COMPOSED, *env, instance_id=None)
    raw["spec"]["volumes"] = [volume]
    raw["spec"]["containers"].append({"name": "istio-proxy"})
    for container in raw["spec"]["containers"]:
        container["volumeMounts"] = [{"name": n, "mountPath": f"/{n}"} for n in mounts.get(container["name"], [])]
    assert version(raw).ids_are_fixed is is_fixed


@pytest.mark.parametrize("key", ["staticgroup.io/instance-id", "staticgroup.io/instance-id.b"])
@pytest.mark.parametrize("value", ["web-9.1a2b3c4d", "no id at all"])
def test_pod_whose_only_id_is_said_by_an_annotation_has_none_that_are_fixed(key: str, value: str) -> None:
    """Nothing reads it here, but who wrote it expects that something does."""
    raw = with_env(NAME, instance_id=None)
    raw["metadata"]["annotations"][key] = value
    assert not version(raw).ids_are_fixed


def test_annotation_that_says_another_id_is_carried_and_leaves_the_others_fixed() -> None:
    """No variable reads it; ids only accumulate."""
    found = version(with_env(NAME, COMPOSED, instance_id="web-9.1a2b3c4d"))
    assert found.instance_ids == {"web-0.1a2b3c4d", "web-9.1a2b3c4d"}
    assert found.ids_are_fixed


def test_ids_of_a_pod_that_has_more_than_are_looked_at_are_not_fixed() -> None:
    literals = ({"name": f"INSTANCE_ID_{n}", "value": f"id-{n}"} for n in range(CARRIED_IDS_MAX + 1))
    assert not version(with_env(*literals, instance_id=None)).ids_are_fixed


def test_pod_that_the_policy_gave_its_id_has_fixed_ids_exactly_when_they_are_composed() -> None:
    """What `simulator.kubernetes.admission` restates of the policy, read back from the pod as it is stored."""
    for template, is_fixed in (("{podName}.1a2b3c4d", True), ("web_{ordinal}.1a2b3c4d", False)):
        env = [{"container": "app", "instanceIdName": name, "suffix": suffix} for name, suffix in (("A", ""), ("B", "-b"))]
        status = resolve_injected(
            Identity.model_validate({"env": env}), method=InjectedMethod.POLICY, scope="1a2b3c4d", watch_epoch="e",
            id_template=template, session_timeout_ms=45_000,
        ).to_wire()
        raw = pod(instance_id=None)
        raw["metadata"]["ownerReferences"][0]["apiVersion"] = "apps/v1"
        group = {"spec": {"workloadRef": {"name": "web"}}, "status": {"injected": status}}
        found = version(inject(raw, [group], InjectedMethod.POLICY))
        first = template.replace("{podName}", "web-0").replace("{ordinal}", "0")
        assert (found.instance_ids, found.ids_are_fixed) == ({first, f"{first}-b"}, is_fixed)


def test_later_variable_may_refer_only_to_earlier_ones() -> None:
    raw = pod(instance_id=None)
    raw["spec"]["containers"][0]["env"] = [
        {"name": "INSTANCE_ID", "value": "$(LATER)"}, {"name": "LATER", "value": "x"}]
    assert version(raw).instance_ids == frozenset()


def doubling(variables: int, first: str) -> list[dict[str, Any]]:
    """Variables of which each says the one before it twice: the last is 2**(variables - 1) times the first."""
    return [{"name": "INSTANCE_ID_0", "value": first}, *(
        {"name": f"INSTANCE_ID_{n}", "value": f"$(INSTANCE_ID_{n - 1})$(INSTANCE_ID_{n - 1})"} for n in range(1, variables))]


def test_value_too_long_for_an_id_is_not_kept_and_stays_unknown_to_later_references() -> None:
    raw = pod(instance_id=None)
    raw["spec"]["containers"][0]["env"] = [
        *doubling(60, "x"),
        {"name": "INSTANCE_ID_AFTER", "value": "$(INSTANCE_ID_59)"},
        {"name": "INSTANCE_ID_OTHER", "value": "web-0"},
    ]
    found = version(raw).instance_ids
    assert sorted(map(len, found)) == [1, 2, 4, 5, 8, 16, 32, 64, 128]


def test_value_as_long_as_an_id_may_be_is_an_id_and_one_character_more_is_none() -> None:
    raw = pod(instance_id=None)
    raw["spec"]["containers"][0]["env"] = [
        {"name": "PART", "value": "x" * 248}, {"name": "INSTANCE_ID", "value": "$(PART)y"},
        {"name": "INSTANCE_ID_2", "value": "$(PART)yz"}]
    assert version(raw).instance_ids == {"x" * 248 + "y"}


def test_text_that_only_its_references_make_long_may_become_short() -> None:
    """The bound is on what a variable says, not on how it is written."""
    raw = pod(instance_id=None)
    name = "LONG_" * 100
    raw["spec"]["containers"][0]["env"] = [{"name": name, "value": "x"}, {"name": "INSTANCE_ID", "value": f"$({name})y"}]
    assert version(raw).instance_ids == {"xy"}


@given(st.lists(st.sampled_from(["$", "$$", "$(", ")", "(", "A", "B", "$(A)", "$(B)", "x"]), max_size=30).map("".join))
def test_expansion_is_that_of_the_kubelet_for_every_text(text: str) -> None:
    """Source: k8s.io/kubernetes/third_party/forked/golang/expansion, written out here character by character."""
    values, expected, at = {"A": "a", "B": ""}, "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            expected, at = expected + text[at], at + 1
        elif text[at + 1] == "$":
            expected, at = expected + "$", at + 2
        elif text[at + 1] == "(" and ")" in text[at + 2 :]:
            end = text.index(")", at + 2)
            expected, at = expected + values.get(text[at + 2 : end], text[at : end + 1]), end + 1
        else:
            expected, at = expected + text[at : at + 2], at + 2
    assert _expanded(text, values) == expected


def test_references_that_are_never_closed_are_looked_through_once() -> None:
    """Looking for the end of each would take hours for a pod of this size, which is one that etcd takes."""
    assert _expanded("$(" * 500_000, {}) is None
    assert _expanded("$(" * 100, {}) == "$(" * 100


def test_pod_that_claims_more_ids_than_any_could_need_is_remembered_with_some_of_them() -> None:
    raw = pod()
    raw["spec"]["containers"][0]["env"] = [{"name": f"INSTANCE_ID_{n}", "value": f"id-{n}"} for n in range(5_000)]
    found = version(raw).instance_ids
    assert len(found) == CARRIED_IDS_MAX
    assert "web-0.1a2b3c4d" in found


def test_every_instance_id_annotation_counts() -> None:
    raw = pod()
    raw["metadata"]["annotations"]["staticgroup.io/instance-id.second"] = "web-0.1a2b3c4d.second"
    assert version(raw).instance_ids == {"web-0.1a2b3c4d", "web-0.1a2b3c4d.second"}


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
    found = pod_version(raw)
    assert isinstance(found, MalformedObject)
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
                {"name": "STATICGROUP_CONNECT_REBALANCE_DELAY_MS", "value": "0"},
                {"name": "CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS", "value": "60000"},
            ],
            "startupProbe": {"failureThreshold": 30, "periodSeconds": 2, "initialDelaySeconds": 5},
        }]}}},
        "status": {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b"},
    }
    found = workload_view(raw)
    assert isinstance(found, WorkloadView)
    assert (found.replicas, found.start, found.termination_grace_s, found.update_strategy) == (1, 0, 30, "RollingUpdate")
    assert found.is_rolling
    assert found.containers[0].startup_budget_s == 65
    assert found.containers[0].env_names[:2] == ("KAFKA_SESSION_TIMEOUT_MS", "PASSWORD")
    assert found.containers[0].env_values == (
        ("KAFKA_SESSION_TIMEOUT_MS", "45000"),
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
def test_node_tells_whether_it_is_out_of_service(taints: Any, expected: bool) -> None:
    """PodGCController.gcTerminating asks for the taint's key alone."""
    found = node_view({"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": taints}})
    assert isinstance(found, NodeView)
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
def test_node_tells_its_kubelet_and_whether_it_is_virtual(
    version_text: str, labels: Any, taints: Any, expected: tuple[int | None, bool]
) -> None:
    found = node_view({
        "metadata": {"name": "n", "uid": "u", "labels": labels}, "spec": {"taints": taints},
        "status": {"nodeInfo": {"kubeletVersion": version_text}},
    })
    assert isinstance(found, NodeView)
    assert (found.kubelet_minor, found.is_virtual) == expected
