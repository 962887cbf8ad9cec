"""The ways in which the chart is installed, and what Helm itself says of each.

The one idea: every file in charts/staticgroup/ci is one way, and the other tests of the chart hold what it promises
against the objects that `render` gives for each of them. HELM names the program; without it the one on the PATH or the
development cluster's own is used, which is built first when it is missing.
"""

import copy
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.devcluster import programs

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "deploy"))

import manifest_generator  # noqa: E402

CHART = REPOSITORY / "charts" / "staticgroup"
VARIANTS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))

Manifest = dict[str, Any]


def values_of(variant: str) -> str:
    return str(CHART / "ci" / f"{variant}-values.yaml")


@functools.cache
def helm() -> str:
    return os.environ.get("HELM") or shutil.which("helm") or str(programs.helm_program())


@functools.cache
def _rendered(variant: str, *options: str) -> list[Manifest]:
    return manifest_generator.rendered(helm(), "--values", values_of(variant), *options)


def render(variant: str, *options: str) -> list[Manifest]:
    """Render a variant, with more options of `helm template`."""
    return copy.deepcopy(_rendered(variant, *options))


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def the(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = of_kind(manifests, kind)
    return found


def part(manifests: list[Manifest], component: str) -> list[Manifest]:
    """The objects of `operator` or of `webhook`."""
    label = "app.kubernetes.io/component"
    return [
        each for each in manifests if (each["metadata"]["labels"].get(label) == "webhook") is (component == "webhook")
    ]


def container(manifests: list[Manifest]) -> Manifest:
    (found,) = the(part(manifests, "operator"), "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_there_are_many_variants() -> None:
    assert len(VARIANTS) >= 8


@pytest.mark.parametrize("variant", VARIANTS)
def test_lint_finds_nothing(variant: str) -> None:
    done = subprocess.run(
        [helm(), "lint", "--strict", str(CHART), "--values", values_of(variant)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "[INFO]" in done.stdout) == (0, False), done.stdout + done.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_has_a_name_and_says_whose_it_is(variant: str) -> None:
    manifests = render(variant)
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in manifests]
    assert len(set(names)) == len(names)
    for each in manifests:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "staticgroup", each["metadata"]["name"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("operator.concurrency=0", "'/operator/concurrency': minimum: got 0, want 1"),
        ("operator.concurency=8", "'/operator': additional properties 'concurency' not allowed"),
        ("operator.relistSeconds=10", "'/operator/relistSeconds': minimum: got 10, want 60"),
        ("operator.logLevel=TRACE", "'/operator/logLevel': value must be one of 'DEBUG', 'INFO', 'WARNING', 'ERROR'"),
        ("operator.secretLabel=a b", "'/operator/secretLabel': 'a b' does not match pattern"),
        ("operator.forceObserve=maybe", "'/operator/forceObserve': got string, want boolean"),
        ("injection.policy.failurePolicy=Maybe",
         "'/injection/policy/failurePolicy': value must be one of 'Ignore', 'Fail'"),
        ("image.digest=latest", "'/image/digest': 'latest' does not match pattern"),
        ("image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of"),
        ("watchNamespaces={Team_A}", "'/watchNamespaces/0': 'Team_A' does not match pattern"),
        ("watchNamespaces={a,a}", "'/watchNamespaces': items at 0 and 1 are equal"),
        ("podSecurityContext.runAsUser=root", "'/podSecurityContext/runAsUser': got string, want"),
        ("podSecurityContext.runAsUid=1", "'/podSecurityContext': additional properties 'runAsUid' not allowed"),
        ("securityContext.readOnlyRootFileSystem=true", "additional properties 'readOnlyRootFileSystem' not allowed"),
        ("replicaCount=9", "'/replicaCount': maximum: got 9, want 5"),
        ("podDisruptionBudget.maxUnavailable=0", "'/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1"),
        ("journal.kafka.connection=kafka", "'/journal/kafka/connection': 'kafka' does not match pattern"),
        ("docsUrl=docs", "'/docsUrl': 'docs' does not match pattern"),
        ("docsUrl=https://docs.example/", "'/docsUrl': 'https://docs.example/' does not match pattern"),
        ("prometheusRule.overrides.StaticGroupNotReady.for=soon",
         "'/prometheusRule/overrides/StaticGroupNotReady/for': 'soon' does not"),
        ("evidence.nodeLifecycle=Maybe",
         "'/evidence/nodeLifecycle': value must be one of 'Auto', 'Cloud', 'Fixed', 'Untrusted'"),
        ("evidence.settleSeconds=0", "'/evidence/settleSeconds': minimum: got 0, want 1"),
        ("prometheusRule.overrides.StaticGroupAsleep.for=5m",
         "prometheusRule.overrides: there is no alert StaticGroupAsleep"),
        ("grafanaDashboard.namespace=Team A", "'/grafanaDashboard/namespace': 'Team A' does not match pattern"),
        ("journal.files.count=1", "'/journal/files/count': minimum: got 1, want 2"),
        ("replicas=2", "additional properties 'replicas' not allowed"),
        ("image.pullSecrets[0].name=a", "'/image': additional properties 'pullSecrets' not allowed"),
        ("imagePullSecrets[0]=a", "'/imagePullSecrets/0': got string, want object"),
        ("global.imageRegistry=https://mirror.example", "'/global/imageRegistry': 'https://mirror.example' does not"),
        ("namespaceOverride=Team_A", "'/namespaceOverride': 'Team_A' does not match pattern"),
        ("injection.webhook.port=443", "'/injection/webhook/port': minimum: got 443, want 1,024"),
        ("injection.webhook.healthPort=9443", "injection.webhook: port and healthPort must differ"),
        ("podDisruptionBudget.minAvailable=0", "'/podDisruptionBudget/minAvailable': minimum: got 0, want 1"),
        ("podDisruptionBudget.minAvailable=2",
         "podDisruptionBudget.minAvailable: 2 of 2 pods would let no drain take any"),
        ("podDisruptionBudget.minAvailable=100%",
         "podDisruptionBudget.minAvailable: 100% of 2 pods would let no drain take any"),
        ("podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=1",
         "podDisruptionBudget: set minAvailable or maxUnavailable, not both"),
        ("operator.leaderElection=false", "operator.leaderElection: false needs replicaCount: 1"),
        ("operator.leaseRetrySeconds=10",
         "leaseDurationSeconds > leaseRenewDeadlineSeconds > leaseRetrySeconds must hold"),
        ("recommendations.source=fleet", "'/recommendations/source': 'fleet' does not match pattern"),
        ("recommendations.volume.emptyDir.medium=Memory",
         "recommendations.source: with recommendations.volume it must be /recommendations or a folder in it"),
        ("extraEnv[0].name=STATICGROUP_CONCURRENCY", "STATICGROUP_CONCURRENCY is a setting of the operator"),
        ("serviceAccount.create=false", "serviceAccount.name: required when serviceAccount.create is false"),
    ],
)  # fmt: skip
def test_impossible_value_is_refused_by_name(option: str, says: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(says)):
        render("default", "--set", option)


def test_service_monitor_without_service_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"needs metrics\.service\.enabled: true"):
        render("prometheus-operator", "--set", "metrics.service.enabled=false")


def test_older_kubernetes_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"requires kubeVersion: >=1\.29\.0-0"):
        render("default", "--kube-version", "1.28.15")


def test_vendor_suffix_of_the_version_is_accepted() -> None:
    assert render("default", "--kube-version", "1.29.4-eks-1234567")


# What users of other charts look for


WEBHOOK = ("--kube-version", manifest_generator.WEBHOOK_KUBERNETES_VERSION)


def values(*settings: str) -> tuple[str, ...]:
    """Options that set these values."""
    return tuple(word for setting in settings for word in ("--set", setting))


def everything(*settings: str) -> list[Manifest]:
    """Every object that the chart can render, with these values: the policy's and the webhook's, of every option."""
    options = values(
        "injection.webhook.enabled=true", "injection.webhook.certManager.enabled=true", "networkPolicy.enabled=true",
        "metrics.serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafanaDashboard.enabled=true",
        "watchNamespaces={team-a}",
    )  # fmt: skip
    by_itself = values("injection.webhook.enabled=true", "metrics.podMonitor.enabled=true")
    return render("default", *options, *values(*settings)) + render("default", *by_itself, *values(*settings))


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """The pods, as templates or by themselves, of the operator, of the webhook and of the tests."""
    found = [each["spec"]["template"] for each in of_kind(manifests, "Deployment")] + of_kind(manifests, "Pod")
    assert {each["spec"]["containers"][0]["name"] for each in found} == {"operator", "webhook", "doctor"}
    return found


def images(manifests: list[Manifest]) -> set[str]:
    """Every image that is named in a pod, and to the policy or the webhook for the pods that they change."""
    containers = [each["spec"]["containers"][0] for each in pods(manifests)]
    agent = {e["value"] for c in containers for e in c["env"] if e["name"] == "STATICGROUP_AGENT_IMAGE"}
    variables = [v for each in of_kind(manifests, "MutatingAdmissionPolicy") for v in each["spec"]["variables"]]
    policy = {v["expression"].strip("'") for v in variables if v["name"] == "agentImage"}
    assert agent
    assert policy
    return {each["image"] for each in containers} | agent | policy


def test_the_condition_of_a_parent_chart_changes_nothing_by_itself() -> None:
    assert render("default", *values("enabled=false")) == render("default")


@pytest.mark.parametrize(
    ("registry", "repository", "image"),
    [
        ("", "registry.example/team/staticgroup", "registry.example/team/staticgroup"),
        ("mirror.example", "registry.example/team/staticgroup", "mirror.example/team/staticgroup"),
        ("mirror.example:5000/proxy/", "registry.example:5000/staticgroup", "mirror.example:5000/proxy/staticgroup"),
        ("mirror.example", "localhost/staticgroup", "mirror.example/staticgroup"),
        ("mirror.example", "team/staticgroup", "mirror.example/team/staticgroup"),
        ("mirror.example", "staticgroup", "mirror.example/staticgroup"),
    ],
)
def test_the_registry_of_a_parent_chart_wins(registry: str, repository: str, image: str) -> None:
    found = everything(f"global.imageRegistry={registry}", f"image.repository={repository}", "image.tag=v1")
    assert images(found) == {f"{image}:v1"}


def test_pull_secrets_of_the_parent_and_of_the_chart_are_used_once_each() -> None:
    """Other charts take plain names in `global` too, so a parent may write either."""
    given = ("imagePullSecrets[0].name=own", "global.imagePullSecrets[0].name=shared")
    more = ("imagePullSecrets[1].name=plain", "global.imagePullSecrets[1]=plain")
    for each in pods(everything(*given, *more)):
        assert each["spec"]["imagePullSecrets"] == [{"name": "shared"}, {"name": "plain"}, {"name": "own"}]
    assert all("imagePullSecrets" not in each["spec"] for each in pods(everything()))


def test_global_may_hold_anything_of_others() -> None:
    assert render("default", *values("global.storageClass=fast", "global.rbac.create=true")) == render("default")


def test_replica_count_is_called_as_in_other_charts() -> None:
    assert the(render("default", *values("replicaCount=4")), "Deployment")["spec"]["replicas"] == 4


def test_the_whole_release_moves_to_another_namespace() -> None:
    """By replacing the name everywhere: whatever names the former one is a place that was forgotten."""
    before, moved = everything(), everything("namespaceOverride=kafka-tools")
    text = repr(before)
    assert "staticgroup-system" in text
    assert repr(moved) == text.replace("staticgroup-system", "kafka-tools")
    names = {each["metadata"].get("namespace") for each in moved}
    assert names == {None, "kafka-tools", "team-a"}


def test_common_annotations_are_on_every_object_and_on_its_pods() -> None:
    manifests = everything("commonAnnotations.example\\.com/owner=streams")
    assert len({each["kind"] for each in manifests}) >= 20
    for each in manifests + pods(manifests):
        assert each["metadata"]["annotations"]["example.com/owner"] == "streams", each["kind"]
    own = everything(
        "commonAnnotations.a=common", "deploymentAnnotations.a=own", "podAnnotations.a=own",
        "serviceAccount.annotations.a=own", "metrics.service.annotations.a=own", "grafanaDashboard.annotations.a=own",
    )  # fmt: skip
    nearer = of_kind(own, "Deployment") + [each for each in own if each["metadata"]["name"].endswith("-metrics")]
    assert {each["metadata"]["annotations"]["a"] for each in nearer} == {"own"}
    assert {each["metadata"]["annotations"]["a"] for each in own} == {"own", "common"}


def test_the_webhook_listens_on_the_host_where_api_servers_reach_no_pod() -> None:
    """Its ports are the node's then, so two pods of it never share one, and both ports can be moved."""
    chosen = values(
        "injection.webhook.hostNetwork=true", "injection.webhook.port=10443", "injection.webhook.healthPort=10080",
        "networkPolicy.enabled=true",
    )  # fmt: skip
    found = part(render("default", *WEBHOOK, *chosen), "webhook")
    for each in of_kind(found, "Deployment"):
        spec = each["spec"]["template"]["spec"]
        assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items()
        assert "staticgroup.io/webhook" not in term["labelSelector"]["matchLabels"], "the other one's pods too"
        (only,) = spec["containers"]
        assert [port["containerPort"] for port in only["ports"]] == [10443, 10080]
        variables = {each["name"]: each.get("value") for each in only["env"]}
        assert (variables["STATICGROUP_PORT"], variables["STATICGROUP_HEALTH_PORT"]) == ("10443", "10080")
    assert [rule["ports"][0]["port"] for rule in the(found, "NetworkPolicy")["spec"]["ingress"]] == [10443, 10080]
    for each in of_kind(part(render("default", *WEBHOOK), "webhook"), "Deployment"):
        assert {"hostNetwork", "dnsPolicy", "affinity"}.isdisjoint(each["spec"]["template"]["spec"])
    operator = the(part(render("default", *WEBHOOK, *chosen), "operator"), "Deployment")["spec"]["template"]["spec"]
    assert {"hostNetwork", "dnsPolicy"}.isdisjoint(operator), "it is called by nobody"


def test_pods_may_have_a_runtime_of_their_own() -> None:
    assert {each["spec"]["runtimeClassName"] for each in pods(everything("runtimeClassName=gvisor"))} == {"gvisor"}
    assert all("runtimeClassName" not in each["spec"] for each in pods(everything()))


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ((), {"maxUnavailable": 1}),
        (("podDisruptionBudget.maxUnavailable=50%",), {"maxUnavailable": "50%"}),
        (("podDisruptionBudget.minAvailable=1",), {"minAvailable": 1}),
        (("podDisruptionBudget.minAvailable=50%",), {"minAvailable": "50%"}),
    ],
)
def test_disruption_budget_says_how_many_go_or_how_many_stay(given: tuple[str, ...], budget: Manifest) -> None:
    spec = the(render("default", *values(*given)), "PodDisruptionBudget")["spec"]
    assert {key: spec[key] for key in ("maxUnavailable", "minAvailable") if key in spec} == budget
