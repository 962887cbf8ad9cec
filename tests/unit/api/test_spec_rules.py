"""Which specs of a StaticGroup the API server refuses: each generated rule at its edge, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from staticgroup.api.crd import definition
from staticgroup.api.identifiers import IdScheme, Ordinal
from staticgroup.api.injection import client_suffixes, env_entries, env_suffixes
from staticgroup.api.protocols import ProtocolChoice, RoleChoice
from staticgroup.api.resources.client import NUMBERS_ITS_MEMBERS, TAKES_ENV, WORKER_TYPES, ClientType
from staticgroup.api.resources.staticgroup import RemovalPolicy, StaticGroupSpec
from unit.api.cel import holds

Json = dict[str, Any]
Rule = dict[str, str]
BASE: Json = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
IMMUTABLE = ["spec.groupId", "spec.workloadRef.kind", "spec.workloadRef.name"]
FIELDS_MAX, STATUS_FIELDS_MAX = 30, 60
STREAMS_ENV = [{"instanceIdName": "ORDERS_INSTANCE_ID", "sessionTimeoutName": ""}]


@cache
def schema(part: str = "spec") -> Json:
    """Return the generated schema of the spec, or of the status."""
    (version,) = definition("StaticGroup")["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]["properties"][part]
    return found


def fields(node: Json, path: str = "spec") -> Iterator[tuple[str, Json]]:
    """List the fields below a node, those of the entries of lists too."""
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    yield from fields(node["items"], f"{path}[]") if "items" in node else ()


def rules() -> dict[str, Rule]:
    """Return every rule by the field that it is about and its text."""
    nodes = [("spec", schema()), *fields(schema())]
    entries = [(path, rule) for path, node in nodes for rule in node.get("x-kubernetes-validations", ())]
    return {f"{path}{rule.get('fieldPath', '')}: {rule['rule']}": rule for path, rule in entries}


def broken(node: Json, value: Any, path: str = "spec") -> Iterator[tuple[str, str]]:
    """Yield the key of each rule that a value breaks, as `rules` has it, and its message."""
    for rule in node.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not holds(rule["rule"], value):
            yield f"{path}{rule.get('fieldPath', '')}: {rule['rule']}", rule["message"]
    for name, child in node.get("properties", {}).items():
        if name in value:
            yield from broken(child, value[name], f"{path}.{name}")
    for each in value if "items" in node else ():
        yield from broken(node["items"], each, f"{path}[]")


def refusals(**spec: Any) -> list[tuple[str, str]]:
    return list(broken(schema(), StaticGroupSpec.model_validate(BASE | spec).to_wire()))


def client(**wish: Any) -> Json:
    return {"client": wish}


def entry(name: str = "X_INSTANCE_ID", **wish: Any) -> Json:
    return {"instanceIdName": name, "sessionTimeoutName": ""} | wish


DEPLOYMENT = {"name": "web", "kind": "Deployment"}
ROLLOUT = {"name": "web", "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
EDGES: dict[str, tuple[Json, str, str, Json]] = {
    "custom without variables": (
        client(type="Custom"), "spec.client.env", "add an entry", client(type="Custom", env=[entry("MY_NAME")]),
    ),
    "variables of a type that knows its own": (
        client(type="SpringBoot", env=[entry()]), "spec.client.env", "set spec.client.type to Custom, or remove env",
        client(type="Custom", env=[entry()]),
    ),
    "variables of the default type": (
        client(env=[entry()]), "spec.client.env", "set spec.client.type to Custom, or remove env", client(env=[]),
    ),
    "variables of Debezium": (
        client(type="Debezium", env=[entry()]), "spec.client.env", "set spec.client.type to Custom, or remove env",
        client(type="Connect", env=[entry()]),
    ),
    "two members that append nothing": (
        client(concurrency=2), "spec.client.concurrency", "list what your client appends in spec.client.suffixes",
        client(suffixes=["-0", "-1"]),
    ),
    "two members of Custom": (
        client(type="Custom", concurrency=2, env=[entry()]), "spec.client.concurrency",
        "or its consumers in spec.client.env",
        client(type="Custom", env=[entry(), entry("Y_INSTANCE_ID", suffix="-y")]),
    ),
    "two workers of a pod": (
        client(type="Connect", concurrency=2), "spec.client.concurrency", "must be 1 unless type is SpringBoot or",
        client(type="Connect", concurrency=1),
    ),
    "suffixes that are counted too": (
        client(type="SpringBoot", concurrency=2, suffixes=["-a", "-b"]), "spec.client.suffixes",
        "remove spec.client.concurrency, or spec.client.suffixes", client(type="SpringBoot", suffixes=["-a", "-b"]),
    ),
    "suffixes of Kafka Streams": (
        client(type="KafkaStreams", suffixes=["-1", "-2"]), "spec.client.suffixes",
        "remove spec.client.suffixes, and say how many stream threads a pod has in spec.client.concurrency",
        client(type="KafkaStreams", concurrency=2),
    ),
    "suffix of a worker": (
        client(type="Connect", suffixes=[""]), "spec.client.suffixes", "remove spec.client.suffixes",
        client(type="Connect", suffixes=[]),
    ),
    "suffix of a worker of Debezium": (
        client(type="Debezium", suffixes=["-0"]), "spec.client.suffixes", "remove spec.client.suffixes",
        client(type="Debezium"),
    ),
    "own ids in a variable that is not found": (
        client(type="Own", env=[entry("MY_NAME")]), "spec.client.env", "must contain INSTANCE_ID when type is Own",
        client(type="Own", env=[entry("my.instance_id")]),
    ),
    "container beside variables": (
        client(type="Custom", container="app", env=[entry()]), "spec.client.container",
        "name the container in each entry of spec.client.env and remove this field",
        client(type="Custom", env=[entry(container="app")]),
    ),
    "one id for two consumers": (
        client(type="Custom", env=[entry(container="a"), entry(container="b")]), "spec.client.env",
        "give each entry its own suffix", client(type="Custom", env=[entry(container="a"), entry(suffix="-b")]),
    ),
    "suffixes that differ in their separator": (
        client(type="Custom", env=[entry(suffix="-b"), entry("Y_INSTANCE_ID", suffix=".b")]), "spec.client.env",
        "give each entry its own suffix",
        client(type="Custom", env=[entry(suffix="-b"), entry("Y_INSTANCE_ID", suffix="-b.b")]),
    ),
    "one variable for two ids": (
        client(type="Custom", env=[entry(suffix="-a"), entry(suffix="-b")]), "spec.client.env",
        "give each consumer its own variable",
        client(type="Custom", env=[entry(suffix="-a"), entry(suffix="-b", container="side")]),
    ),
    "one variable for two ids of a named container": (
        client(type="Custom", env=[entry(suffix="-a", container="app"), entry(suffix="-b", container="app")]),
        "spec.client.env", "give each consumer its own variable",
        client(type="Custom", env=[entry(suffix="-a", container="app"), entry("Y", suffix="-b", container="app")]),
    ),
    "one variable for id and timeout": (
        client(type="Custom", env=[entry("X", sessionTimeoutName="X")]), "spec.client.env", "rename one",
        client(type="Custom", env=[entry("X", sessionTimeoutName="x")]),
    ),
    "timeout in the variable of another consumer's id": (
        client(type="Custom", env=[entry("X"), entry("Y", sessionTimeoutName="X", suffix="-y")]), "spec.client.env",
        "rename one",
        client(type="Custom", env=[entry("X"), entry("Y", sessionTimeoutName="X", suffix="-y", container="side")]),
    ),
    "agent of no worker": (
        client(injectAgent=True), "spec.client.injectAgent", "set spec.client.type to Connect, or remove injectAgent",
        client(type="Connect", injectAgent=True),
    ),
    "agent of a worker that brings its ids": (
        client(type="Own", injectAgent=True), "spec.client.injectAgent", "set spec.client.type to Connect",
        client(type="Debezium", injectAgent=True),
    ),
    "agent beside variables that it does not read": (
        client(type="Connect", injectAgent=True, env=[entry()]), "spec.client.injectAgent",
        "remove spec.client.env, or injectAgent", client(type="Connect", env=[entry()]),
    ),
    "fixed timeout with a lower bound": (
        {"sessionTimeout": {"seconds": 60, "minSeconds": 60}}, "spec.sessionTimeout.seconds",
        "remove them, or seconds to have it chosen between them", {"sessionTimeout": {"seconds": 60}},
    ),
    "fixed timeout with an upper bound": (
        {"sessionTimeout": {"seconds": 60, "maxSeconds": 60}}, "spec.sessionTimeout.seconds",
        "remove them, or seconds to have it chosen between them", {"sessionTimeout": {"maxSeconds": 60}},
    ),
    "bounds that cross": (
        {"sessionTimeout": {"minSeconds": 61, "maxSeconds": 60}}, "spec.sessionTimeout.minSeconds",
        "lower it or raise spec.sessionTimeout.maxSeconds", {"sessionTimeout": {"minSeconds": 60, "maxSeconds": 60}},
    ),
    "crashed members of a classic group": (
        {"removal": "DepartedAndCrashed", "groupProtocol": "Classic"}, "spec.removal", "set spec.removal to Departed",
        {"removal": "Departed", "groupProtocol": "Classic"},
    ),
    "crashed workers": (
        client(type="Connect") | {"removal": "DepartedAndCrashed"}, "spec.removal", "set spec.removal to Departed",
        client(type="Connect") | {"removal": "Departed"},
    ),
    "crashed workers of Debezium": (
        client(type="Debezium") | {"removal": "DepartedAndCrashed"}, "spec.removal", "set spec.removal to Departed",
        client(type="Debezium") | {"removal": "Never"},
    ),
    "KIP-1071 of consumers": (
        {"groupProtocol": "Streams"}, "spec.groupProtocol",
        "set spec.client.type to KafkaStreams, or spec.groupProtocol to Auto",
        client(type="KafkaStreams") | {"groupProtocol": "Streams"},
    ),
    "KIP-1071 by other variables": (
        client(type="Custom", env=STREAMS_ENV) | {"groupProtocol": "Streams"}, "spec.groupProtocol",
        "set spec.client.type to KafkaStreams",
        client(type="KafkaStreams", env=STREAMS_ENV) | {"groupProtocol": "Streams"},
    ),
    "KIP-1071 of workers": (
        client(type="Connect") | {"groupProtocol": "Streams"}, "spec.groupProtocol", "or spec.groupProtocol to Auto",
        client(type="Own") | {"groupProtocol": "Streams"},
    ),
    "KIP-848 of Kafka Streams": (
        client(type="KafkaStreams") | {"groupProtocol": "Consumer"}, "spec.groupProtocol",
        "set spec.groupProtocol to Auto, Classic or Streams",
        client(type="KafkaStreams") | {"groupProtocol": "Classic"},
    ),
    "KIP-848 of workers": (
        client(type="Connect") | {"groupProtocol": "Consumer"}, "spec.groupProtocol",
        "set spec.groupProtocol to Auto or Classic", client(type="Connect") | {"groupProtocol": "Auto"},
    ),
    "ReplicaSet": (
        {"workloadRef": {"name": "web", "kind": "ReplicaSet"}}, "spec.workloadRef.kind", "name the Deployment",
        {"workloadRef": {"name": "web", "kind": "Deployment"}},
    ),
    "DaemonSet": (
        {"workloadRef": {"name": "web", "kind": "DaemonSet"}}, "spec.workloadRef.kind",
        "must be StatefulSet, Deployment, Rollout or StrimziPodSet",
        {"workloadRef": {"name": "web", "kind": "StrimziPodSet", "apiVersion": "core.strimzi.io/v1"}},
    ),
    "Deployment of another API": (
        {"workloadRef": DEPLOYMENT | {"apiVersion": "extensions/v1beta1"}}, "spec.workloadRef.apiVersion",
        "must be apps/v1", {"workloadRef": DEPLOYMENT | {"apiVersion": "apps/v1"}},
    ),
    "Rollout of another API": (
        {"workloadRef": ROLLOUT | {"apiVersion": "apps/v1"}}, "spec.workloadRef.apiVersion",
        "must be argoproj.io/v1alpha1", {"workloadRef": ROLLOUT},
    ),
    "workers of a Rollout": (
        client(type="Connect") | {"workloadRef": ROLLOUT}, "spec.client.type", "use a StatefulSet",
        client(type="KafkaStreams") | {"workloadRef": ROLLOUT},
    ),
    "ordinals of a Rollout": (
        {"workloadRef": ROLLOUT, "idTemplate": "{podName}-{ordinal}"}, "spec.idTemplate", "have no ordinal",
        {"workloadRef": ROLLOUT, "idTemplate": "{groupName}-{podName}.{scope}"},
    ),
    "workers of a Deployment": (
        client(type="Connect") | {"workloadRef": DEPLOYMENT}, "spec.client.type", "use a StatefulSet",
        client(type="KafkaStreams") | {"workloadRef": DEPLOYMENT},
    ),
    "Debezium of a Deployment": (
        client(type="Debezium") | {"workloadRef": DEPLOYMENT}, "spec.client.type", "workers need names that last",
        client(type="Debezium"),
    ),
    "own ids in a Deployment": (
        client(type="Own") | {"workloadRef": DEPLOYMENT}, "spec.client.type", "ids of its pods are injected",
        client(type="SpringBoot", concurrency=3) | {"workloadRef": DEPLOYMENT},
    ),
    "ordinals of a Deployment": (
        {"workloadRef": DEPLOYMENT, "idTemplate": "{podName}-{ordinal}"}, "spec.idTemplate", "have no ordinal",
        {"workloadRef": DEPLOYMENT, "idTemplate": "{groupName}-{podName}.{scope}"},
    ),
    "a Deployment's template without the pod": (
        {"workloadRef": DEPLOYMENT, "idTemplate": "{workloadName}-{ordinal}"}, "spec.idTemplate",
        "must contain {podName} and not {ordinal}", {"idTemplate": "{workloadName}-{ordinal}"},
    ),
    "StatefulSet of another API": (
        {"workloadRef": {"name": "web", "apiVersion": "apps.kruise.io/v1beta1"}}, "spec.workloadRef.apiVersion",
        "must be apps/v1", {"workloadRef": {"name": "web", "apiVersion": "apps/v1"}},
    ),
    "StrimziPodSet of another API": (
        {"workloadRef": {"name": "web", "kind": "StrimziPodSet"}}, "spec.workloadRef.apiVersion",
        "must be core.strimzi.io/v1 or core.strimzi.io/v1beta2",
        {"workloadRef": {"name": "web", "kind": "StrimziPodSet", "apiVersion": "core.strimzi.io/v1beta2"}},
    ),
    "template without the pod": (
        {"idTemplate": "{workloadName}.{scope}"}, "spec.idTemplate", "must contain {podName} or {ordinal}",
        {"idTemplate": "{workloadName}-{ordinal}"},
    ),
    "template with an unknown placeholder": (
        {"idTemplate": "{podName}.{cluster}"}, "spec.idTemplate", "remove everything else",
        {"idTemplate": "{podName}_{ordinal}.{namespace}-{workloadName}.{groupName}.{scope}"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "field", "remedy", "right"), EDGES.values(), ids=EDGES)
def test_a_spec_is_refused_with_the_field_and_what_to_write_instead(
    wrong: Json, field: str, remedy: str, right: Json
) -> None:
    ((_, message),) = refusals(**wrong)
    assert message.startswith(field)
    assert remedy in message
    assert refusals(**right) == []


def test_every_rule_that_does_not_compare_with_the_object_before_is_broken_above() -> None:
    known = rules()
    found = {key for wrong, *_ in EDGES.values() for key, _ in refusals(**wrong)}
    immutable = known.keys() - found
    assert sorted(key.partition(":")[0] for key in immutable) == IMMUTABLE
    assert all("oldSelf" in known[key]["rule"] for key in immutable)


@pytest.mark.parametrize("kind", ClientType)
def test_each_rule_is_for_the_types_that_it_is_meant_for(kind: ClientType) -> None:
    def is_taken(**wish: Any) -> bool:
        own = {"env": STREAMS_ENV} if kind is ClientType.CUSTOM else {}
        return not refusals(**client(type=kind.value, **own | wish))

    assert is_taken()
    assert is_taken(env=STREAMS_ENV) is (kind in TAKES_ENV)
    assert is_taken(concurrency=2) is (kind in NUMBERS_ITS_MEMBERS)
    assert is_taken(suffixes=["-a"]) is (kind not in WORKER_TYPES | {ClientType.KAFKA_STREAMS})
    assert is_taken(injectAgent=True) is (kind in WORKER_TYPES)


def test_what_is_taken_has_ids_and_one_kind_of_members() -> None:
    """All combinations of the choices that rules connect: none that is taken raises later, or contradicts itself."""
    wishes = product(
        ClientType, ProtocolChoice, RemovalPolicy, (1, 3), ([], ["-a", "-b"]), ([], STREAMS_ENV), (False, True)
    )
    taken = 0
    for kind, protocol, removal, concurrency, suffixes, env, agent in wishes:
        wish = client(type=kind, concurrency=concurrency, suffixes=suffixes, env=env, injectAgent=agent)
        wish |= {"groupProtocol": protocol, "removal": removal}
        if refusals(**wish):
            continue
        taken += 1
        spec = StaticGroupSpec.model_validate(BASE | wish)
        assert env_entries(spec.client)
        scheme = IdScheme(
            template="{podName}", workload_name="web", env_suffixes=env_suffixes(spec.client),
            suffixes=client_suffixes(spec.client),
        )
        assert len(scheme.ids_of(Ordinal(0))) == (len(suffixes) or concurrency)
        able = {
            RoleChoice.CONSUMER: {ProtocolChoice.AUTO, ProtocolChoice.CLASSIC, ProtocolChoice.CONSUMER},
            RoleChoice.STREAMS: {ProtocolChoice.AUTO, ProtocolChoice.CLASSIC, ProtocolChoice.STREAMS},
            RoleChoice.CONNECT: {ProtocolChoice.AUTO, ProtocolChoice.CLASSIC},
        }
        assert protocol in able[spec.role]
        assert not (removal is RemovalPolicy.DEPARTED_AND_CRASHED and able[spec.role] == able[RoleChoice.CONNECT])
        assert not agent or (spec.role is RoleChoice.CONNECT and not env)
    assert taken > 100


def test_the_spec_stays_small() -> None:
    """A field more is one that every user reads about: it must be worth one that goes."""
    found = [path for path, _ in fields(schema())]
    assert len(found) <= FIELDS_MAX, found


def test_what_people_read_of_the_status_stays_small() -> None:
    """What only the operator and the admission policy read is below `memory` and `injected`."""
    found = [path for path, _ in fields(schema("status"), "status")]
    assert len([p for p in found if not p.startswith(("status.memory.", "status.injected."))]) <= STATUS_FIELDS_MAX
