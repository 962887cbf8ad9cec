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
    assert done.returncode == 0, done.stdout + done.stderr


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
        ("replicas=9", "'/replicas': maximum: got 9, want 5"),
        ("podDisruptionBudget.maxUnavailable=0", "'/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1"),
        ("journal.kafka.connection=kafka", "'/journal/kafka/connection': 'kafka' does not match pattern"),
        ("prometheusRule.runbookUrl=docs", "'/prometheusRule/runbookUrl': 'docs' does not match pattern"),
        ("prometheusRule.overrides.StaticGroupNotReady.for=soon",
         "'/prometheusRule/overrides/StaticGroupNotReady/for': 'soon' does not"),
        ("evidence.nodeLifecycle=Maybe",
         "'/evidence/nodeLifecycle': value must be one of 'Auto', 'Cloud', 'Fixed', 'Untrusted'"),
        ("evidence.settleSeconds=0", "'/evidence/settleSeconds': minimum: got 0, want 1"),
        ("prometheusRule.overrides.StaticGroupAsleep.for=5m",
         "prometheusRule.overrides: there is no alert StaticGroupAsleep"),
        ("grafanaDashboard.namespace=Team A", "'/grafanaDashboard/namespace': 'Team A' does not match pattern"),
        ("journal.files.count=1", "'/journal/files/count': minimum: got 1, want 2"),
        ("replicaCount=2", "additional properties 'replicaCount' not allowed"),
        ("operator.leaderElection=false", "operator.leaderElection: false needs replicas: 1"),
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
