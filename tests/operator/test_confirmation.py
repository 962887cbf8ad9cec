"""Who may say what about a lost pod or a gap, against a real API server: rights, signature, and that no word can change."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import Any

import pytest
from live_cluster import Kubectl

from staticgroup.api import names, policy
from support.waiting import until

pytestmark = pytest.mark.cluster

UID = "0f7f7d8e-7d3b-4d0a-9a52-6f1f5c1f0c11"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A namespace where the policy is in force, where alice and bob may give their word, and carol may not."""

    kubectl: Kubectl
    namespace: str

    def say(self, user: str, name: str, *, by: str) -> "CompletedProcess[str]":
        body: dict[str, Any] = {
            "apiVersion": names.API_VERSION,
            "kind": names.CONFIRMATION_KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"podName": "orders-2", "podUid": UID, "statement": "node-3 was scrapped", "by": by},
        }
        return self.kubectl.run("create", "--as", user, "-f", "-", stdin=json.dumps(body))

    def say_of_gap(self, user: str, name: str, *, by: str) -> "CompletedProcess[str]":
        """Say something about a gap; these objects belong to no namespace, so their names begin with that of the lab."""
        times = {"since": "2026-11-21T10:00:00Z", "until": "2026-11-21T10:05:00Z"}
        body: dict[str, Any] = {
            "apiVersion": names.API_VERSION,
            "kind": names.GAP_CONFIRMATION_KIND,
            "metadata": {"name": f"{self.namespace}-{name}", "labels": {"lab": self.namespace}},
            "spec": times | {"statement": "all were terminated", "by": by},
        }
        return self.kubectl.run("create", "--as", user, "-f", "-", stdin=json.dumps(body))


@pytest.fixture(scope="module")
def lab(kubectl: Kubectl, crds: str) -> Iterator[Lab]:
    namespace = f"staticgroup-word-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", namespace)
    resource = f"{names.CONFIRMATION_PLURAL}.{names.GROUP}"
    verbs = "--verb=create,get,list,delete,patch,update"
    kubectl.must("create", "role", "confirm", verbs, f"--resource={resource}", "-n", namespace)
    people = ("--user=alice", "--user=bob")
    kubectl.must("create", "rolebinding", "confirm", "--role=confirm", *people, "-n", namespace)
    of_gap = f"{names.GAP_CONFIRMATION_PLURAL}.{names.GROUP}"
    kubectl.must("create", "clusterrole", namespace, verbs, f"--resource={of_gap}")
    kubectl.must("create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", *people)
    binding = policy.confirmation_binding(name=namespace)
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding["spec"]["matchResources"] = selector
    kubectl.apply(policy.confirmation_policy(name=namespace))
    kubectl.apply(binding)
    found = Lab(kubectl=kubectl, namespace=namespace)

    def is_in_force() -> bool:
        # Only the policy's own words count: until the role is in force too, alice is refused for want of a right.
        is_refused_by_policy = "spec.by must be" in found.say("alice", "probe", by="bob").stderr
        kubectl.run("delete", "pec", "probe", "-n", namespace, "--ignore-not-found")
        return is_refused_by_policy

    until(is_in_force, deadline_s=30, what="the policy is in force")
    yield found
    kubectl.run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", namespace)
    kubectl.run("delete", "pec", "--all", "-n", namespace)
    kubectl.run("delete", "wgc", "-l", f"lab={namespace}")
    kubectl.run("delete", "clusterrolebinding,clusterrole", namespace)
    kubectl.run("delete", "namespace", namespace, "--wait=false")


def test_a_policy_that_is_stored_was_compiled_without_a_warning(lab: Lab) -> None:
    def checked() -> dict[str, Any]:
        raw = lab.kubectl.must("get", "validatingadmissionpolicy", lab.namespace, "-o", "json")
        status: dict[str, Any] = json.loads(raw).get("status", {})
        return status if "typeChecking" in status else {}

    status = until(checked, deadline_s=30, what="the policy is type-checked")
    assert status["typeChecking"].get("expressionWarnings", []) == []


def test_a_word_with_the_creators_own_name_is_taken_and_shown(lab: Lab) -> None:
    assert lab.say("alice", "own", by="alice").returncode == 0
    header, row = lab.kubectl.must("get", "pec", "own", "-n", lab.namespace).splitlines()
    assert header.split() == ["NAME", "POD", "UID", "BY", "AGE"]
    assert row.split()[:4] == ["own", "orders-2", UID, "alice"]


def test_a_word_with_the_name_of_somebody_else_is_refused_with_the_name_to_use(lab: Lab) -> None:
    answer = lab.say("bob", "forged", by="alice")
    assert answer.returncode != 0
    assert "spec.by must be the user who creates the object: bob" in answer.stderr


def test_who_has_no_right_to_create_it_cannot_say_it(lab: Lab) -> None:
    answer = lab.say("carol", "without-right", by="carol")
    assert answer.returncode != 0
    assert "cannot create resource" in answer.stderr


def test_what_was_said_cannot_be_changed_by_anybody(lab: Lab) -> None:
    assert lab.say("alice", "kept", by="alice").returncode == 0
    for change in ({"by": "bob"}, {"podUid": UID.replace("0f7f", "1f7f")}, {"statement": "something else"}):
        patch = json.dumps({"spec": change})
        answer = lab.kubectl.run("patch", "pec", "kept", "-n", lab.namespace, "--type=merge", "-p", patch)
        assert answer.returncode != 0
        assert "spec is immutable" in answer.stderr


def test_a_word_about_a_gap_with_the_creators_own_name_is_taken_and_shown(lab: Lab) -> None:
    assert lab.say_of_gap("alice", "own", by="alice").returncode == 0
    header, row = lab.kubectl.must("get", "wgc", f"{lab.namespace}-own").splitlines()
    assert header.split() == ["NAME", "SINCE", "UNTIL", "BY", "AGE"]
    assert row.split()[1:4] == ["2026-11-21T10:00:00Z", "2026-11-21T10:05:00Z", "alice"]


def test_a_word_about_a_gap_with_the_name_of_somebody_else_is_refused_although_the_binding_selects_namespaces(
    lab: Lab,
) -> None:
    answer = lab.say_of_gap("bob", "forged", by="alice")
    assert answer.returncode != 0
    assert "spec.by must be the user who creates the object: bob" in answer.stderr


def test_who_has_no_right_to_create_it_cannot_say_anything_about_a_gap(lab: Lab) -> None:
    answer = lab.say_of_gap("carol", "without-right", by="carol")
    assert answer.returncode != 0
    assert "cannot create resource" in answer.stderr


def test_what_was_said_about_a_gap_cannot_be_changed_by_anybody(lab: Lab) -> None:
    assert lab.say_of_gap("alice", "kept", by="alice").returncode == 0
    for change in ({"by": "bob"}, {"until": "2026-11-22T10:00:00Z"}, {"statement": "something else"}):
        patch = json.dumps({"spec": change})
        answer = lab.kubectl.run("patch", "wgc", f"{lab.namespace}-kept", "--type=merge", "-p", patch)
        assert answer.returncode != 0
        assert "spec is immutable" in answer.stderr
