"""`kubectl staticgroup`: what it tells of statuses, what it refuses, and that it is one file without libraries."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from staticgroup.api import crd
from staticgroup.plugin import checkup, command
from staticgroup.plugin.account import account_of
from staticgroup.plugin.kubectl import GROUP_PATH, Kubectl
from staticgroup.plugin.summary import age, lines_of, summary_of
from support.full_status import full_status

from .fake_kubectl import REFUSED, FakeKubectl, Json

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import facts, plugin  # noqa: E402

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UID = "5a7e0000-0000-0000-0000-000000000002"
GROUPS = f"{GROUP_PATH}/namespaces/shop/staticgroups"


def group(**status: Any) -> Json:
    metadata = {"name": "orders", "namespace": "shop", "generation": 3, "creationTimestamp": "2026-11-21T11:15:00Z"}
    spec = {"groupId": "orders", "mode": "Manage", "workloadRef": {"name": "web"}}
    return {"metadata": metadata, "spec": spec, "status": status}


def condition(status: str, reason: str = "Healthy", message: str = "all is well") -> Json:
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-21T11:50:00Z"}


READY = group(
    conditions=[condition("True")], members={"expected": 3, "joined": 3, "departed": 0}, columns={"timeout": "45s"}, observedGeneration=3
)
WAITING = group(
    conditions=[condition("False", "RemovalHeld", "2 removals wait")],
    members={"expected": 3, "joined": 5, "departed": 2},
    observedGeneration=2,
    exceptions=[{"instanceId": "web-4.3fa9", "podName": "web-4", "kind": "Held", "reason": "JoinedBeforeWatch", "message": "a pod that nobody saw may hold it"}],
)  # fmt: skip
SUSPECT = {"pod": "web-2", "uid": UID, "since": "2026-11-21T11:00:00Z", "node": "node-3"}
DOCTOR_SCHEMAS = {kind: crd.status_schema(kind) for kind in ("StaticGroup", "KafkaConnection", "ClusterKafkaConnection")}


def call(monkeypatch: pytest.MonkeyPatch, fake: FakeKubectl, *arguments: str) -> int:
    monkeypatch.setattr(command, "Kubectl", lambda flags, kubectl: Kubectl(flags, run=fake))
    return command.main(arguments)


# status and explain


def test_a_group_that_is_ready_is_one_line() -> None:
    header, row = lines_of([READY], NOW)
    assert header.split() == ["NAMESPACE", "NAME", "GROUP", "MODE", "EXPECTED", "JOINED", "DEPARTED", "TIMEOUT", "READY", "REASON", "AGE"]
    assert row.split() == ["shop", "orders", "orders", "Manage", "3", "3", "0", "45s", "True", "Healthy", "45m"]


def test_below_the_table_stands_what_is_wrong_in_the_words_of_the_status() -> None:
    text = "\n".join(lines_of([WAITING], NOW))
    assert "shop/orders: RemovalHeld: 2 removals wait" in text
    assert "Held: web-4.3fa9 (JoinedBeforeWatch): a pod that nobody saw may hold it" in text
    assert "the spec was edited since" in text


def test_a_condition_that_ready_does_not_wait_for_is_told_too() -> None:
    short = {"type": "TimeoutSufficient", "status": "False", "reason": "TimeoutBelowNeed", "message": "raise it to 383"}
    body = group(conditions=[condition("True"), short], members={"expected": 3}, observedGeneration=3)
    assert list(lines_of([body], NOW))[2:] == ["", "shop/orders: Healthy: all is well", "  TimeoutSufficient: False (TimeoutBelowNeed). raise it to 383"]
    assert summary_of(body)["notSo"] == [{"type": "TimeoutSufficient", "reason": "TimeoutBelowNeed", "message": "raise it to 383"}]


def test_a_group_that_nobody_looked_at_is_not_shown_as_well() -> None:
    told = summary_of(group())
    assert (told["ready"], told["reason"]) == ("Unknown", "NoStatus")
    assert "kubectl staticgroup doctor" in "\n".join(lines_of([group()], NOW))


def test_every_list_of_a_full_status_is_told() -> None:
    text = "\n".join(account_of(group(**full_status().to_wire()), NOW))
    for part in ("Ready: Unknown (NotObservedYet)", "Members, 2, ", "Suspects, 2 pods", "Last removal:", "Session timeout: 45s"):
        assert part in text, part
    assert "Verifying: " not in text  # what settled is not being verified


def seat(number: int, *carriers: str) -> Json:
    return {"id": f"web-{number}.3fa9", "member": "0123456789abcdef", "firstSeen": "2026-11-21T11:15:00Z", "carriers": list(carriers)}


@pytest.mark.parametrize(
    ("carriers", "told"),
    [
        ((), "nobody; every one of them has ended"),
        (("u-9",), "pod uid u-9"),
        ((UID,), f"suspect web-2 (uid {UID})"),
        (("u-9", "unseen"), "pod uid u-9, a pod that nobody saw, because it joined before the pod watch was whole"),
        (("unattributed",), "no pod that explains it"),
    ],
)
def test_each_member_is_told_with_those_that_may_hold_it(carriers: tuple[str, ...], told: str) -> None:
    lines = list(account_of(group(seats=[seat(4, *carriers)], suspects=[SUSPECT]), NOW))
    assert f"  web-4.3fa9: first seen 45m ago; {told}" in lines


@pytest.mark.parametrize(
    ("more", "told"), [({}, "its object is gone"), ({"lostBoot": "b"}, "a run of it was lost by its kubelet or runtime")]
)
def test_each_suspect_is_told_with_what_makes_it_one(more: Json, told: str) -> None:
    assert f"  pod web-2 uid {UID} on node node-3: for 60m; {told}" in account_of(group(suspects=[SUSPECT | more]), NOW)


def test_of_many_members_those_are_told_first_that_would_be_held() -> None:
    seats = [seat(n, f"u-{n}") for n in range(60)] + [seat(60, "unseen"), seat(61, UID)]
    lines = list(account_of(group(seats=seats, suspects=[SUSPECT]), NOW))
    shown = [line.split(":")[0].strip() for line in lines if line.startswith("  web-")]
    assert shown == [f"web-{n}.3fa9" for n in (60, 61, *range(48))]
    assert "  ... and 12 more" in lines


@pytest.mark.parametrize(("since", "told"), [
    ("2026-11-21T11:59:15Z", "45s"), ("2026-11-21T11:15:00Z", "45m"), ("2026-11-21T07:00:00Z", "5h"), ("2026-11-10T12:00:00Z", "11d"), ("None", "-"),
])  # fmt: skip
def test_an_age_has_one_unit(since: str, told: str) -> None:
    assert age(since, NOW) == told


def test_the_namespace_is_that_of_the_context_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl({GROUPS: {"items": [READY]}, f"{GROUP_PATH}/staticgroups": {"items": [READY, WAITING]}})
    assert call(monkeypatch, fake, "status", "-o", "json", "--context", "prod") == 0
    assert [item["ready"] for item in json.loads(capsys.readouterr().out)["items"]] == ["True"]
    assert all("--context=prod" in c for c in fake.commands)
    assert call(monkeypatch, fake, "status", "-A", "-o", "json") == 0
    assert [item["ready"] for item in json.loads(capsys.readouterr().out)["items"]] == ["True", "False"]
    assert call(monkeypatch, FakeKubectl({GROUPS.replace("shop", "bill"): {"items": []}}), "-n", "bill", "status") == 0
    assert "no StaticGroup in namespace bill" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (REFUSED.format("staticgroups"), "you may not list staticgroups.staticgroup.io in namespace shop"),
        ("The connection to the server localhost:8080 was refused", "The connection to the server localhost:8080 was refused"),
        ("error: You must be logged in to the server (Unauthorized)", "you may not list staticgroups.staticgroup.io"),
        ("Error from server (NotFound): the server could not find the requested resource", "serves no StaticGroups"),
    ],
)
def test_why_nothing_is_shown_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, told: str
) -> None:
    assert call(monkeypatch, FakeKubectl({GROUPS: answer}), "status") == 1
    assert told in capsys.readouterr().err


def test_a_name_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer = 'Error from server (NotFound): staticgroups.staticgroup.io "gone" not found'
    assert call(monkeypatch, FakeKubectl({f"{GROUPS}/gone": answer}), "explain", "gone") == 1
    assert "there is no StaticGroup shop/gone" in capsys.readouterr().err


def test_lists_are_read_to_their_end() -> None:
    pages = [{"items": [1], "metadata": {"continue": "a b"}}, {"items": [2], "metadata": {}}]
    asked: list[str] = []

    def run(words: Any, _: str) -> tuple[int, str, str]:
        asked.append(words[-1])
        return 0, json.dumps(pages[len(asked) - 1]), ""

    assert Kubectl(run=run).items("/api/v1", "pods") == [1, 2]
    assert asked == ["/api/v1/pods?limit=500", "/api/v1/pods?limit=500&continue=a%20b"]


# doctor


IDS = "new pods get their ids by the admission policy or the webhook"
WEBHOOKS = f"{checkup.ADMISSION}/mutatingwebhookconfigurations"


def cluster() -> dict[str, Json | str]:
    """A cluster in which all is well."""
    definitions = {
        "StaticGroup": crd.static_group_crd(), "KafkaConnection": crd.kafka_connection_crd(),
        "ClusterKafkaConnection": crd.cluster_kafka_connection_crd(),
    }  # fmt: skip
    schemas = {
        kind: body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        | {"x-kubernetes-group-version-kind": [{"group": "staticgroup.io", "version": "v1alpha1", "kind": kind}]}
        for kind, body in definitions.items()
    }
    objects: dict[str, Json | str] = {
        "/version": {"major": "1", "minor": "36"},
        f"/openapi/v3{GROUP_PATH}": {"components": {"schemas": schemas}},
        GROUPS: {"items": [READY]},
        f"{GROUP_PATH}/namespaces/shop/kafkaconnections": {"items": []},
        WEBHOOKS: {"items": []},
    }
    for path in ("deploy/policy.yaml", "deploy/operator/deployment.yaml"):
        for body in yaml.safe_load_all((REPOSITORY / path).read_text(encoding="utf-8")):
            where = {
                "MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
            }.get(body["kind"])  # fmt: skip
            if where:
                objects[f"{checkup.ADMISSION}/{where}"] = {"items": [body]}
            elif body["kind"] == "Deployment":
                objects["/apis/apps/v1/deployments"] = {"items": [body | {"status": {"readyReplicas": 2}}]}
    lease = {"holderIdentity": "pod-1", "renewTime": "2026-11-21T11:59:58.000000Z", "leaseDurationSeconds": 15}
    objects["/apis/coordination.k8s.io/v1/namespaces/staticgroup-system/leases/staticgroup-operator"] = {"spec": lease}
    return objects


def examined(objects: dict[str, Json | str], **may: Any) -> dict[str, str]:
    """Return the mark of each check."""
    kube = Kubectl(run=FakeKubectl(objects, **may))
    return {f.check: f"{f.mark} {'' if f.is_good else f.remedy}".strip() for f in checkup.examine(kube, "shop", DOCTOR_SCHEMAS, facts.version(), NOW)}


def test_nothing_is_wrong_with_a_cluster_in_which_all_is_well() -> None:
    found = examined(cluster())
    assert len(found) == 13
    assert set(found.values()) == {"ok"}


@pytest.mark.parametrize(
    ("path", "answer", "check", "told"),
    [
        (f"/openapi/v3{GROUP_PATH}", None, "StaticGroup is served", "FAIL kubectl apply -f crds/"),
        ("/apis/apps/v1/deployments", {"items": []}, "an operator is installed", "FAIL no Deployment"),
        ("/apis/apps/v1/deployments", REFUSED.format("deployments"), "an operator is installed", "warn not checked: you may not list deployments.apps in all namespaces"),
        (f"{checkup.ADMISSION}/mutatingadmissionpolicies", {"items": []}, IDS, "warn no such policy"),
        (f"{checkup.ADMISSION}/mutatingadmissionpolicybindings", {"items": []}, IDS, "warn staticgroup-inject has no binding"),
        ("/version", {"minor": "35+"}, IDS, "warn this API server is older than 1.36"),
        (GROUPS, {"items": [WAITING]}, "StaticGroup shop/orders", "warn Ready: 2 removals wait"),
        (GROUPS, {"items": [group()]}, "StaticGroup shop/orders", "warn no operator has written a status"),
    ],
)  # fmt: skip
def test_what_is_missing_is_told(path: str, answer: Any, check: str, told: str) -> None:
    objects = cluster()
    if answer is None:
        del objects[path]
    else:
        objects[path] = answer
    assert examined(objects)[check].startswith(told)


@pytest.mark.parametrize(
    ("bundles", "told"), [(("Y2E=", "Y2E="), "ok"), (("Y2E=", None), "warn the webhook has no certificate yet"), ((), "warn this API server is older")]
)
def test_before_1_36_the_webhook_gives_the_ids(bundles: tuple[str | None, ...], told: str) -> None:
    entries = [{"name": f"inject-{n}.staticgroup.io", "clientConfig": {"caBundle": b} if b else {}} for n, b in enumerate(bundles)]
    others = {"webhooks": [{"name": "webhook.cert-manager.io", "clientConfig": {"caBundle": "Y2E="}}]}
    objects = cluster() | {"/version": {"major": "1", "minor": "35"}, WEBHOOKS: {"items": [others, {"webhooks": entries}]}}
    assert examined(objects)[IDS].startswith(told)


def test_a_connection_of_the_whole_cluster_is_looked_at_where_a_group_names_one() -> None:
    connections = f"{GROUP_PATH}/clusterkafkaconnections"
    shared = {"metadata": {"name": "shared"}, "status": {"conditions": [condition("False", "BrokersUnreachable", "nobody answers")]}}
    named = READY | {"spec": READY["spec"] | {"connectionRef": {"kind": "ClusterKafkaConnection", "name": "shared"}}}
    objects = cluster() | {connections: {"items": [shared]}}
    assert "ClusterKafkaConnection shared" not in examined(objects)
    found = examined(objects | {GROUPS: {"items": [named]}})
    assert found["ClusterKafkaConnection shared"] == "warn Ready: nobody answers"
    refused = examined(objects | {GROUPS: {"items": [named]}, connections: REFUSED.format("x")})
    assert refused["what the statuses of ClusterKafkaConnections say"].startswith("warn not checked")


LEASE = "/apis/coordination.k8s.io/v1/namespaces/staticgroup-system/leases/staticgroup-operator"


@pytest.mark.parametrize(
    ("spec", "told"),
    [({"holderIdentity": ""}, "nobody holds Lease"), ({"holderIdentity": "pod-1", "renewTime": "2026-11-21T11:59:00Z", "leaseDurationSeconds": 15}, "60 s ago")],
)
def test_an_operator_that_does_not_lead_is_told(spec: Json, told: str) -> None:
    found = examined(cluster() | {LEASE: {"spec": spec}})
    assert any(check.startswith("a replica of operator") and mark.startswith("FAIL") and told in mark for check, mark in found.items())


def test_a_schema_older_than_the_plugin_is_told_by_field() -> None:
    objects = cluster()
    document: Any = objects[f"/openapi/v3{GROUP_PATH}"]
    document = json.loads(json.dumps(document))
    del document["components"]["schemas"]["StaticGroup"]["properties"]["status"]["properties"]["connect"]
    found = examined(objects | {f"/openapi/v3{GROUP_PATH}": document})
    assert "no status.connect" in found["StaticGroup is served"]


def test_rights_of_the_operator_and_of_the_caller_are_told_apart() -> None:
    found = examined(cluster(), may={("patch", "staticgroups"): False})
    account = "rights of system:serviceaccount:staticgroup-system:staticgroup-operator in all namespaces"
    assert found[account].startswith("FAIL it may not patch staticgroups/status.staticgroup.io")
    assert found["you may change StaticGroups in namespace shop"] == "warn you may not patch staticgroups.staticgroup.io"


def test_the_doctor_says_what_only_the_operator_can_tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, FakeKubectl(cluster() | {LEASE: {"spec": {}}}), "doctor", "-o", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == 1
    assert "Ask it: kubectl -n staticgroup-system exec deploy/staticgroup-operator -- python -m staticgroup doctor" in told["notChecked"]


# the page


def test_the_page_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    commands = set(re.findall(r"^    ([a-z-]+) {2,}\w", capsys.readouterr().out, re.MULTILINE))
    page = (REPOSITORY / "docs" / "guide" / "kubectl-plugin.md").read_text(encoding="utf-8")
    assert commands == {"status", "explain", "doctor"}
    assert {row.split()[0] for row in re.findall(r"^\| `([^`]+)` \| [^`|]*(?:`[^`]*`[^`|]*)*", page, re.MULTILINE)} >= commands


# the file


FACTS = facts.Facts(version="1.2.3", at_s=1_800_000_000, image="registry.example/sg", base_url="https://example.invalid/sg")


def test_the_plugin_is_one_file_that_python_alone_runs(tmp_path: Path) -> None:
    content = plugin.plugin(FACTS)
    assert content == plugin.plugin(FACTS)
    assert len(content) < 100_000
    file = tmp_path / plugin.NAME
    file.write_bytes(content)
    # -I: neither the environment nor the current folder; -S: no site-packages, so no library can be found.
    done = subprocess.run([sys.executable, "-I", "-S", str(file), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "kubectl-staticgroup 1.2.3\n"


def test_a_library_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "ROOT", "staticgroup.api.schema")
    with pytest.raises(RuntimeError, match="pydantic"):
        plugin.carried()


def test_the_schemas_that_it_carries_are_those_that_the_operator_writes() -> None:
    assert plugin.status_schemas().keys() == DOCTOR_SCHEMAS.keys()
    for kind, schema in plugin.status_schemas().items():
        assert list(checkup.lacking(DOCTOR_SCHEMAS[kind], {"properties": {"status": schema}})) == []
