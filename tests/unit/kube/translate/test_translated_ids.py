"""Which ids and session timeouts a pod shows, and whether its ids can change, against how a kubelet resolves an environment."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kubernetes.admission import inject
from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.client import Client
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.kube.translate.carried_ids import CARRIED_IDS_MAX, _expanded
from unit.kube.raw_objects import pod
from unit.kube.translate.test_pods import version


def with_env(*entries: dict[str, Any], instance_id: str | None = "web-0.1a2b3c4d", **container: Any) -> dict[str, Any]:
    raw = pod(instance_id=instance_id)
    raw["spec"]["containers"][0] |= {"env": list(entries), **container}
    return raw


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "KAFKA_GROUP_INSTANCE_ID", "value": "literal-1"}, {"literal-1"}),
        ({"name": "kafka_group_instance_id", "value": "lower-1"}, {"lower-1"}),
        ({"name": "OTHER", "value": "not-asked-for"}, set()),
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
    assert version(raw).instance_ids == expected


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
    ],
    ids=[
        "no variable", "only an empty one", "no legal id", "annotation", "label", "annotation without a value beside",
        "annotation without a value before", "expansion of a label", "expansion of an expansion of a label", "redefined by an annotation",
        "redefined by a long annotation", "redefined for a later id", "ConfigMap", "Secret", "resource", "address", "node",
        "variable of a Service", "defined later", "variable of another name that reads the id's annotation",
    ],
)
def test_ids_that_may_say_something_else_at_the_next_start_of_a_container_are_not_fixed(env: list[dict[str, Any]]) -> None:
    """A container that starts reads annotations, labels, ConfigMaps and the variables of Services again."""
    raw = with_env(*env)
    raw["metadata"]["annotations"] |= {"long": "x" * 1000}
    assert not version(raw).ids_are_fixed


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


def test_ids_of_a_pod_that_has_more_than_are_read_are_not_fixed() -> None:
    literals = ({"name": f"INSTANCE_ID_{n}", "value": f"id-{n}"} for n in range(CARRIED_IDS_MAX + 1))
    assert not version(with_env(*literals, instance_id=None)).ids_are_fixed


def test_pod_that_the_policy_gave_its_id_has_fixed_ids_exactly_when_they_are_composed() -> None:
    """What `simulator.kubernetes.admission` restates of the policy, read back from the pod as it is stored."""
    for template, is_fixed in (("{podName}.1a2b3c4d", True), ("web_{ordinal}.1a2b3c4d", False)):
        env = [{"container": "app", "instanceIdName": name, "suffix": suffix} for name, suffix in (("A", ""), ("B", "-b"))]
        status = resolve_injected(
            Client.model_validate({"type": "Custom", "env": env}), method=InjectedMethod.POLICY, scope="1a2b3c4d",
            id_template=template, session_timeout_ms=45_000,
        ).to_wire()
        raw = pod(instance_id=None)
        raw["metadata"]["ownerReferences"][0]["apiVersion"] = "apps/v1"
        group = {"spec": {"workloadRef": {"name": "web"}}, "status": {"injected": status}}
        found = version(inject(raw, [group], InjectedMethod.POLICY))
        first = template.replace("{podName}", "web-0").replace("{ordinal}", "0")
        assert (found.instance_ids, found.ids_are_fixed) == ({first, f"{first}-b"}, is_fixed)


def test_later_variable_may_refer_only_to_earlier_ones() -> None:
    later = {"name": "LATER", "value": "x"}
    assert version(with_env({"name": "INSTANCE_ID", "value": "$(LATER)"}, later, instance_id=None)).instance_ids == frozenset()


def doubling(variables: int, first: str) -> list[dict[str, Any]]:
    """Variables of which each says the one before it twice: the last is 2**(variables - 1) times the first."""
    return [{"name": "INSTANCE_ID_0", "value": first}, *(
        {"name": f"INSTANCE_ID_{n}", "value": f"$(INSTANCE_ID_{n - 1})$(INSTANCE_ID_{n - 1})"} for n in range(1, variables))]


def test_value_too_long_for_an_id_is_not_kept_and_stays_unknown_to_later_references() -> None:
    after, other = {"name": "INSTANCE_ID_AFTER", "value": "$(INSTANCE_ID_59)"}, {"name": "INSTANCE_ID_OTHER", "value": "web-0"}
    found = version(with_env(*doubling(60, "x"), after, other, instance_id=None)).instance_ids
    assert sorted(map(len, found)) == [1, 2, 4, 5, 8, 16, 32, 64, 128]


def test_value_as_long_as_an_id_may_be_is_an_id_and_one_character_more_is_none() -> None:
    part, as_long = {"name": "PART", "value": "x" * 248}, {"name": "INSTANCE_ID", "value": "$(PART)y"}
    longer = {"name": "INSTANCE_ID_2", "value": "$(PART)yz"}
    assert version(with_env(part, as_long, longer, instance_id=None)).instance_ids == {"x" * 248 + "y"}


def test_text_that_only_its_references_make_long_may_become_short() -> None:
    """The bound is on what a variable says, not on how it is written."""
    name = "LONG_" * 100
    env = {"name": name, "value": "x"}, {"name": "INSTANCE_ID", "value": f"$({name})y"}
    assert version(with_env(*env, instance_id=None)).instance_ids == {"xy"}


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


def test_references_that_are_never_closed_are_searched_once() -> None:
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
