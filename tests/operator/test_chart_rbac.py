"""Hold the operator's rights against one readable table: nothing is missing from it and nothing else is granted.

The one idea: a right is a line of text. To widen a role one has to change a line here, which a review sees.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from test_chart_variants import VARIANTS, Manifest, of_kind, render, the

# where | api group | resource | only these names | verbs
IN_SERVED_NAMESPACES = """
    {where} | staticgroup.io   | staticgroups            |          | get list watch
    {where} | staticgroup.io   | staticgroups/status     |          | get patch
    {where} | staticgroup.io   | kafkaconnections        |          | get list watch
    {where} | staticgroup.io   | kafkaconnections/status |          | get patch
    {where} | apps             | statefulsets            |          | get list watch
    {where} | core             | pods                    |          | get list watch
    {where} | core             | secrets                 | {secrets} | get
    {where} | core             | events                  |          | create patch
    {where} | events.k8s.io    | events                  |          | create patch
"""
ALL_NAMESPACES = """
    * | staticgroup.io | clusterkafkaconnections        | | get list watch
    * | staticgroup.io | clusterkafkaconnections/status | | get patch
    * | core           | namespaces                     | | list watch
"""
NODES = """
    * | core | nodes | | get list watch
"""
ONCE_PER_CLUSTER = """
    * | core                         | namespaces                | kube-system{served} | get
    * | admissionregistration.k8s.io | mutatingadmissionpolicies | {policy}    | get
    * | admissionregistration.k8s.io | mutatingwebhookconfigurations | {policy} | get
"""
LEASE = """
    staticgroup-system | coordination.k8s.io | leases |                      | create
    staticgroup-system | coordination.k8s.io | leases | staticgroup-operator | get patch update
"""


def table(*texts: str) -> set[str]:
    """Return the lines of a table, each with its cells trimmed."""
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return {" | ".join(cell.strip() for cell in line.split("|")) for line in lines}


def rows(where: str, role: Manifest) -> Iterator[str]:
    """Write the rules of a role as lines of the table."""
    for rule in role["rules"]:
        assert "nonResourceURLs" not in rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                names = " ".join(rule.get("resourceNames", []))
                verbs = " ".join(sorted(rule["verbs"]))
                yield " | ".join([where, group or "core", resource, names, verbs])


def granted(manifests: list[Manifest], account: str = "") -> set[str]:
    """List what an account is granted through bindings to it; without a name the operator's, and no other has any."""
    name = account or the(manifests, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": "staticgroup-system"}]
    found: set[str] = set()
    for binding in of_kind(manifests, "ClusterRoleBinding") + of_kind(manifests, "RoleBinding"):
        if account and binding["subjects"] != subject:
            continue
        assert binding["subjects"] == subject
        where = binding["metadata"].get("namespace")
        (role,) = [
            each
            for each in of_kind(manifests, binding["roleRef"]["kind"])
            if (each["metadata"]["name"], each["metadata"].get("namespace")) == (binding["roleRef"]["name"], where)
        ]
        found |= set(rows(where or "*", role))
    return found


def in_namespaces(*names: str, secrets: str = "") -> str:
    return "".join(IN_SERVED_NAMESPACES.format(where=name, secrets=secrets) for name in names)


def once_per_cluster(policy: str = "staticgroup-inject", *served: str) -> str:
    return ONCE_PER_CLUSTER.format(policy=policy, served="".join(f" {name}" for name in served))


POLICY_OF_NAMESPACED = "staticgroup-inject-staticgroup-system-staticgroup"


def test_release_for_all_namespaces_has_exactly_these_rights() -> None:
    assert granted(render("default")) == table(in_namespaces("*"), ALL_NAMESPACES, NODES, once_per_cluster(), LEASE)


def test_release_for_some_namespaces_has_exactly_these_rights() -> None:
    once = once_per_cluster(POLICY_OF_NAMESPACED, "team-a", "team-b")
    expected = table(in_namespaces("team-a", "team-b"), NODES, once, LEASE)
    assert granted(render("namespaced")) == expected


def test_strimzi_adds_one_right_and_its_pods_to_the_policy() -> None:
    asked = ("--set", "workloads.strimzi=true")
    more, less = granted(render("default", *asked)), granted(render("default"))
    assert more - less == table("* | core.strimzi.io | strimzipodsets | | get")
    assert less <= more
    constraints = [
        the(render("default", *each), "MutatingAdmissionPolicy")["spec"]["matchConstraints"] for each in ((), asked)
    ]
    assert ["objectSelector" in each for each in constraints] == [True, False]
    assert constraints[0]["resourceRules"] == constraints[1]["resourceRules"]


def test_least_rights_are_without_nodes_and_for_named_secrets_only() -> None:
    tenant = in_namespaces("team-a", secrets="kafka-credentials kafka-ca")
    assert granted(render("namespaced-least-rights")) == table(
        tenant, once_per_cluster(POLICY_OF_NAMESPACED, "team-a"), LEASE
    )


def test_nothing_is_granted_when_somebody_else_does() -> None:
    manifests = render("minimal")
    assert granted(manifests) == set()
    assert not [each for each in manifests if "rbac.authorization.k8s.io" in each["apiVersion"]]


def operator_rules(manifests: list[Manifest]) -> list[dict[str, Any]]:
    roles = of_kind(manifests, "Role") + of_kind(manifests, "ClusterRole")
    bound = {
        each["roleRef"]["name"] for kind in ("RoleBinding", "ClusterRoleBinding") for each in of_kind(manifests, kind)
    }
    mine = [each for each in roles if each["metadata"]["name"] in bound]
    return [rule for role in mine for rule in role["rules"]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_role_of_any_variant_has_a_dangerous_right(variant: str) -> None:
    manifests = render(variant)
    rules = operator_rules(manifests)
    assert rules if variant != "minimal" else not rules, "minimal leaves all rights to somebody else"
    for rule in rules:
        cells = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert "*" not in cells, rule
        assert not {"escalate", "bind", "impersonate", "delete", "deletecollection"} & cells, rule
        if "secrets" in rule["resources"]:
            assert rule["verbs"] == ["get"]
        if rule["resources"] == ["pods"] and rule["verbs"] == ["patch"]:
            assert of_kind(manifests, "ValidatingAdmissionPolicy"), "the fence keeps it to notes"
        elif {"pods", "nodes", "statefulsets", "staticgroups", "kafkaconnections", "clusterkafkaconnections"} & set(
            rule["resources"]
        ):
            assert set(rule["verbs"]) <= {"get", "list", "watch"}
        assert not {"pods/exec", "pods/eviction", "nodes/proxy", "serviceaccounts/token"} & set(rule["resources"]), rule


def test_cluster_roles_for_people_are_extended_but_never_to_the_status() -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    found: dict[str, set[str]] = {"view": set(), "edit": set(), "admin": set()}
    for role in of_kind(render("default"), "ClusterRole"):
        for label in role["metadata"]["labels"]:
            if label.startswith(prefix):
                found[label.removeprefix(prefix)] |= set(rows("*", role))
    view = table("""
        * | staticgroup.io | staticgroups            | | get list watch
        * | staticgroup.io | staticgroups/status     | | get
        * | staticgroup.io | kafkaconnections        | | get list watch
        * | staticgroup.io | kafkaconnections/status | | get
        * | staticgroup.io | clusterkafkaconnections        | | get list watch
        * | staticgroup.io | clusterkafkaconnections/status | | get
    """)
    edit = view | table("""
        * | staticgroup.io | staticgroups     | | create delete deletecollection patch update
        * | staticgroup.io | kafkaconnections | | create delete deletecollection patch update
    """)
    assert found == {"view": view, "edit": edit, "admin": edit}
