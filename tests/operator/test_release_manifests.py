"""The manifests of a release, as one file that `kubectl apply` takes, held against the chart and a real API server."""

import functools
import sys
from collections.abc import Iterator

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl
from test_chart_variants import helm, manifest_generator, render

sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import facts, manifests

FACTS = facts.Facts(
    version=facts.version(), at_s=facts.EARLIEST_S, image="registry.example/sg", base_url="https://example.invalid"
)


@functools.cache
def files() -> dict[str, bytes]:
    return manifests.files(FACTS, helm())


def objects(name: str) -> list[dict[str, object]]:
    return [each for each in yaml.safe_load_all(files()[name]) if each]


def keys(bodies: list[dict[str, object]]) -> set[tuple[object, object]]:
    return {(each["kind"], each["metadata"]["name"]) for each in bodies}  # type: ignore[index]


def test_the_file_installs_what_the_chart_installs_with_the_image_of_the_release() -> None:
    chart = list(manifest_generator.plain(render("default")))
    assert keys(objects("install.yaml")) == keys(chart) | {("Namespace", "staticgroup-system")}
    text = files()["install.yaml"].decode()
    assert text.count(f"registry.example/sg:{facts.version()}") == 2  # the Deployment's, and the agent's in the policy
    assert "localhost/" not in text


def test_the_file_for_older_clusters_has_no_policy_that_they_do_not_serve() -> None:
    kinds = {each["kind"] for each in objects("install-kubernetes-1.29.yaml")}
    assert {"Deployment", "MutatingWebhookConfiguration"} <= kinds
    assert not any("AdmissionPolicy" in str(kind) for kind in kinds)


@pytest.fixture
def system(kubectl: Kubectl, crds: str) -> Iterator[str]:
    """The namespace that the file names; a dry run creates none."""
    kubectl.must("create", "namespace", "staticgroup-system")
    yield "staticgroup-system"
    kubectl.run("delete", "namespace", "staticgroup-system", "--wait=false")


@pytest.mark.cluster
def test_a_real_api_server_takes_every_object_of_the_file(kubectl: Kubectl, system: str) -> None:
    text = files()["install.yaml"].decode()
    applied = kubectl.must("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=text)
    assert len(applied.splitlines()) == len(objects("install.yaml"))
