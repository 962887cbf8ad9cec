"""Install the operator as a user does, on a real cluster: Helm, plain manifests, several releases, and out again.

The one idea: what is promised about an installation (ready, restricted, these rights and no other, CRDs survive) is
asked from the cluster after the fact. The cluster is of these tests alone: they remove all releases and the CRDs, and
with them all of our objects.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.devcluster.cluster import Cluster
from support.devcluster.programs import helm_program
from support.scene.stage import OPERATOR_IMAGE, Stage
from support.waiting import until

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "operator"))

from test_chart_rbac import ALL_NAMESPACES, POLICY_OF_NAMESPACED, in_namespaces, once_per_cluster, table  # noqa: E402

pytestmark = pytest.mark.cluster

CHART = REPOSITORY / "charts" / "staticgroup"
LABEL = "app.kubernetes.io/name=staticgroup"
SYSTEM, TEAMS = "staticgroup-system", ("team-a", "team-b")
PLURALS = ("staticgroups", "kafkaconnections", "clusterkafkaconnections")
CRDS = tuple(f"{plural}.staticgroup.io" for plural in PLURALS)
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
NODES_RIGHT = "* | core | nodes | | get list watch"
OWN_RIGHTS = """
    * | coordination.k8s.io | leases |                      | create
    * | coordination.k8s.io | leases | staticgroup-operator | get patch update
"""
"""What the operator may do in its own namespace beside what it may do in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """Helm against one cluster, with the image under test."""

    program: str
    kubeconfig: str
    image: str

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [self.program, "--kubeconfig", self.kubeconfig, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    def must(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def image_values(self) -> list[str]:
        repository, _, tag = self.image.rpartition(":")
        return [f"--set=image.repository={repository}", f"--set=image.tag={tag}", "--set=image.pullPolicy=Never"]

    def install(self, release: str, namespace: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """Install or upgrade, and wait until it is ready."""
        wait = ("--wait", "--timeout", "120s", "--namespace", namespace)
        return self.run("upgrade", "--install", release, str(CHART), *wait, *self.image_values(), *options)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with the operator's image, and nothing installed."""
    made = Cluster("sg-e2e-install")
    try:
        Stage.ground(made)
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def helm(cluster: Cluster) -> Helm:
    return Helm(program=str(helm_program()), kubeconfig=cluster.state.kubeconfig, image=OPERATOR_IMAGE)


def clean(cluster: Cluster, helm: Helm) -> None:
    """Remove every release, the CRDs and our namespaces."""
    for release in json.loads(helm.must("list", "--all-namespaces", "--output", "json")):
        helm.must("uninstall", release["name"], "--namespace", release["namespace"], "--wait", "--timeout", "120s")
    cluster.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--timeout=240s")
    cluster.kubectl("delete", "namespace", SYSTEM, *TEAMS, "--ignore-not-found", "--timeout=120s")


@pytest.fixture
def namespaces(cluster: Cluster, helm: Helm) -> Iterator[None]:
    """Empty namespaces that refuse careless pods, in a cluster without CRDs of ours, before and after."""
    clean(cluster, helm)
    for name in (SYSTEM, *TEAMS):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    yield
    clean(cluster, helm)


def objects(cluster: Cluster, kind: str, *options: str) -> list[dict[str, Any]]:
    return list(json.loads(cluster.kubectl("get", kind, *options, "--output", "json"))["items"])


def assert_is_ready(cluster: Cluster, namespace: str = SYSTEM) -> None:
    """Every replica becomes Ready soon (a late kubelet makes its pods unready), and none restarted."""

    def deployed() -> bool:
        (deployment,) = objects(cluster, "deployments", "-n", namespace)
        status, counts = deployment["status"], ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        is_seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return is_seen and [status.get(count) for count in counts] == [2] * len(counts)

    def staying() -> list[dict[str, Any]] | None:
        """An old pod is deleted a moment after it is no longer counted."""
        pods = objects(cluster, "pods", "-n", namespace, "-l", "app.kubernetes.io/component=operator")
        found = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return found if len(found) == 2 else None

    until(lambda: deployed() or None, deadline_s=60, what="2 replicas are Ready")
    for pod in until(staying, deadline_s=10, what="2 pods"):
        for status in pod["status"]["containerStatuses"]:
            assert status["restartCount"] == 0, status["lastState"]


def rights(cluster: Cluster, account: str, where: str) -> set[str]:
    """Read `kubectl auth can-i --list` of an account in a namespace as lines of the table of rights."""
    answer = cluster.kubectl(
        "auth", "can-i", "--list", "--no-headers", f"--as=system:serviceaccount:{account}", "-n", where
    )
    found = set()
    for line in answer.splitlines():
        cells = [cell.strip("[]").strip() for cell in re.findall(r"\[[^\]]*\]|^\S+(?=\s)", line)]
        if len(cells) != 4:  # a non-resource URL has no resource
            continue
        resource, _, names, verbs = cells
        name, _, group = resource.partition(".")
        name, slash, subresource = name.partition("/")
        if "/" in group:  # staticgroups.staticgroup.io/status
            group, slash, subresource = group.partition("/")
        found.add(
            " | ".join(["*", group or "core", f"{name}{slash}{subresource}", names, " ".join(sorted(verbs.split()))])
        )
    return found


def rights_of_operator(cluster: Cluster, where: str) -> set[str]:
    """List what the operator may do in a namespace beyond what every account may."""
    found = rights(cluster, f"{SYSTEM}:staticgroup-operator", where) - rights(cluster, f"{SYSTEM}:default", where)
    return without_spaces(found)


def without_spaces(lines: set[str]) -> set[str]:
    return {re.sub(r"\s+", " ", line) for line in lines}


@pytest.mark.usefixtures("namespaces")
def test_install_upgrade_test_uninstall_and_install_again(cluster: Cluster, helm: Helm) -> None:
    installed = helm.install("staticgroup", SYSTEM)
    assert installed.returncode == 0, installed.stderr
    assert "would violate PodSecurity" not in installed.stderr
    assert_is_ready(cluster)
    assert_rights_are_those_of_the_table(cluster)
    assert_operator_can_neither_list_secrets_nor_write_pods(cluster)

    put_group(cluster)

    upgraded = helm.install("staticgroup", SYSTEM, "--set=operator.logLevel=DEBUG")
    assert upgraded.returncode == 0, upgraded.stderr
    assert_is_ready(cluster)
    (deployment,) = objects(cluster, "deployments", "-n", SYSTEM)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "STATICGROUP_LOG_LEVEL", "value": "DEBUG"} in container["env"]

    assert "Succeeded" in helm.must("test", "staticgroup", "--namespace", SYSTEM, "--logs")

    helm.must("uninstall", "staticgroup", "--namespace", SYSTEM, "--wait", "--timeout", "120s")
    assert objects(cluster, "deployments,serviceaccounts,roles,poddisruptionbudgets", "-n", SYSTEM, "-l", LABEL) == []
    assert objects(cluster, "clusterroles,clusterrolebindings,mutatingadmissionpolicies", "-l", LABEL) == []
    assert len(objects(cluster, "crds", "-l", LABEL)) == len(CRDS)
    cluster.kubectl("get", "staticgroup", "orders", "-n", "team-a")

    again = helm.install("staticgroup", SYSTEM)
    assert again.returncode == 0, again.stderr
    assert_is_ready(cluster)
    cluster.kubectl("get", "staticgroup", "orders", "-n", "team-a")


def assert_rights_are_those_of_the_table(cluster: Cluster) -> None:
    """In all namespaces."""
    everywhere = table(in_namespaces("*"), ALL_NAMESPACES, NODES_RIGHT, once_per_cluster())
    assert rights_of_operator(cluster, "team-a") == without_spaces(everywhere)
    assert rights_of_operator(cluster, "kube-system") == without_spaces(everywhere)
    assert rights_of_operator(cluster, SYSTEM) == without_spaces(everywhere | table(OWN_RIGHTS))


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_rights_in_some_namespaces_are_exactly_the_table(cluster: Cluster, helm: Helm) -> None:
    installed = helm.install("staticgroup", SYSTEM, "--set=watchNamespaces={team-a}")
    assert installed.returncode == 0, installed.stderr
    once = table(NODES_RIGHT, once_per_cluster(POLICY_OF_NAMESPACED), "* | core | namespaces | team-a | get")
    assert rights_of_operator(cluster, "team-a") == without_spaces(once | table(in_namespaces("*")))
    assert rights_of_operator(cluster, "team-b") == without_spaces(once)
    assert rights_of_operator(cluster, SYSTEM) == without_spaces(once | table(OWN_RIGHTS))


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_a_served_namespace_that_is_deleted_holds_no_other_one_back(cluster: Cluster, helm: Helm) -> None:
    """Its Role goes with it, so what was watched there is refused from then on; a process that begins leaves it out."""
    assert helm.install("staticgroup", SYSTEM, "--set=watchNamespaces={team-a,team-b}").returncode == 0
    put_group(cluster)
    await_reconciled(cluster)
    cluster.kubectl("delete", "namespace", "team-b", "--timeout=120s")

    def are_restarted() -> bool:
        pods = objects(cluster, "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator")
        containers = [c for pod in pods for c in pod["status"]["containerStatuses"]]
        return all(
            c["restartCount"] == 1 and c["ready"] and c["lastState"]["terminated"]["exitCode"] == 0 for c in containers
        )

    until(are_restarted, deadline_s=180, what="both replicas to serve what there is", poll_s=1.0)
    cluster.kubectl(
        "patch", "ksg", "orders", "-n", "team-a", "--type=merge", '-p={"spec":{"assumeExclusive":true}}'
    )
    await_reconciled(cluster)
    cluster.kubectl("rollout", "restart", "deployment/staticgroup-operator", "-n", SYSTEM)
    assert_is_ready(cluster)
    cluster.kubectl(
        "patch", "ksg", "orders", "-n", "team-a", "--type=merge", '-p={"spec":{"assumeExclusive":false}}'
    )
    await_reconciled(cluster)
    inquiry = ("exec", "deployment/staticgroup-operator", "-n", SYSTEM, "--", "staticgroup")
    assert "team-a/orders" in cluster.kubectl(*inquiry, "plan", "orders", "-n", "team-a")
    assert "warn  namespace team-b exists" in cluster.kubectl(*inquiry, "doctor")


def put_group(cluster: Cluster) -> None:
    """Create a StaticGroup in team-a, whose workload and connection there are not."""
    spec = {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    metadata = {"name": "orders", "namespace": "team-a"}
    group = {"apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": metadata, "spec": spec}
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(group))


def await_reconciled(cluster: Cluster) -> None:
    """Wait until the status tells of the StaticGroup as it is."""

    def is_reported() -> bool:
        (group,) = objects(cluster, "ksg", "-n", "team-a")
        conditions = group.get("status", {}).get("conditions", [])
        return any(
            c["type"] == "Ready" and c["observedGeneration"] == group["metadata"]["generation"] for c in conditions
        )

    until(is_reported, deadline_s=90, what="the status to tell of the newest generation", poll_s=0.5)


def assert_operator_can_neither_list_secrets_nor_write_pods(cluster: Cluster) -> None:
    """Asked in its name."""
    account = f"--as=system:serviceaccount:{SYSTEM}:staticgroup-operator"
    listed = subprocess.run(
        [f"{cluster.state.bin_directory}/kubectl", f"--kubeconfig={cluster.state.kubeconfig}", account, "get",
        "secrets", "-A"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "cannot list resource" in listed.stderr
    (pod, *_) = objects(cluster, "pods", "-n", SYSTEM)
    with pytest.raises(RuntimeError, match="cannot delete resource"):
        cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM, account)
    with pytest.raises(RuntimeError, match="cannot patch resource"):
        cluster.kubectl("annotate", "pod", pod["metadata"]["name"], "-n", SYSTEM, "a=b", account)


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_second_release_for_all_namespaces_is_refused(cluster: Cluster, helm: Helm) -> None:
    assert helm.install("staticgroup", SYSTEM).returncode == 0
    for name in ("staticgroup", "other"):
        second = helm.install(name, "team-b", "--set=crds.install=false,rbac.aggregateRoles=false")
        assert second.returncode != 0
        assert "invalid ownership metadata" in second.stderr
    assert_is_ready(cluster)


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_releases_for_different_namespaces_live_side_by_side(cluster: Cluster, helm: Helm) -> None:
    first = helm.install("staticgroup", "team-a", "--set=watchNamespaces={team-a}")
    assert first.returncode == 0, first.stderr
    own = "--set=watchNamespaces={team-b},crds.install=false,rbac.aggregateRoles=false"
    second = helm.install("staticgroup", "team-b", own)
    assert second.returncode == 0, second.stderr
    for team in TEAMS:
        assert_is_ready(cluster, team)
    bindings = objects(cluster, "mutatingadmissionpolicybindings", "-l", LABEL)
    served = [each["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"] for each in bindings]
    assert sorted(served) == [["team-a"], ["team-b"]]


def test_plain_manifests_install_in_one_command(cluster: Cluster, helm: Helm) -> None:
    clean(cluster, helm)
    answer = cluster.kubectl("apply", "-k", str(REPOSITORY / "deploy"))
    try:
        assert f"namespace/{SYSTEM} created" in answer
        cluster.kubectl("set", "image", "deployment/staticgroup-operator", f"operator={OPERATOR_IMAGE}", "-n", SYSTEM)
        cluster.kubectl("rollout", "status", "deployment/staticgroup-operator", "-n", SYSTEM, "--timeout=120s")
        assert_is_ready(cluster)
        namespace = json.loads(cluster.kubectl("get", "namespace", SYSTEM, "--output", "json"))
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
        everywhere = table(in_namespaces("*"), ALL_NAMESPACES, NODES_RIGHT, once_per_cluster())
        assert rights_of_operator(cluster, "default") == without_spaces(everywhere)
    finally:
        cluster.kubectl("delete", "-k", str(REPOSITORY / "deploy"), "--ignore-not-found", "--timeout=120s")
