"""Hold the chart as a part of another one: under an alias, with values from above, switched off by its condition.

Helm 4 is the program of the other tests; a `helm3` on the PATH is tried as well, because many still install with it.
"""

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_chart_variants import CHART, Manifest, helm, images, manifest_generator, of_kind, pods, the

ALIAS = "kafka-seats"
PARENT = {
    "apiVersion": "v2", "name": "platform", "version": "1.0.0",
    "dependencies": [{"name": "staticgroup", "version": "*", "alias": ALIAS, "condition": f"{ALIAS}.enabled"}],
}  # fmt: skip
VALUES = {
    "global": {
        "imageRegistry": "mirror.example/cache", "imagePullSecrets": ["mirror"],
        "storageClass": "fast", "postgresql": {"auth": {"username": "shop"}},
    },
    ALIAS: {
        "enabled": True, "image": {"repository": "registry.example/staticgroup", "tag": "v1"}, "replicaCount": 3,
        "namespaceOverride": "kafka-tools", "injection": {"webhook": {"enabled": True}},
        "commonAnnotations": {"example.com/owner": "platform"},
    },
}  # fmt: skip

Umbrella = Callable[..., list[Manifest]]


def rendered(program: str, folder: Path, *options: str, values: dict[str, Any] = VALUES) -> list[Manifest]:
    """Render a parent chart that has this one as a dependency."""
    parent = folder / "platform"
    shutil.copytree(CHART, parent / "charts" / "staticgroup", dirs_exist_ok=True)
    (parent / "Chart.yaml").write_text(yaml.safe_dump(PARENT))
    (parent / "values.yaml").write_text(yaml.safe_dump(values))
    command = [
        program, "template", "shop", str(parent), "--namespace", "shop", "--api-versions", manifest_generator.POLICY_API,
        "--kube-version", manifest_generator.KUBERNETES_VERSION, *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(params=["helm", "helm3"])
def umbrella(request: pytest.FixtureRequest, tmp_path: Path) -> Umbrella:
    program = helm() if request.param == "helm" else shutil.which("helm3")
    if program is None:
        pytest.skip("no helm3 on the PATH")
    return functools.partial(rendered, program, tmp_path)


def test_values_of_the_parent_reach_every_object_under_the_alias(umbrella: Umbrella) -> None:
    manifests = umbrella()
    assert images(manifests) == {"mirror.example/cache/staticgroup:v1"}
    assert {tuple(each["spec"]["imagePullSecrets"][0].items()) for each in pods(manifests)} == {(("name", "mirror"),)}
    assert {each["metadata"].get("namespace") for each in manifests} == {None, "kafka-tools"}
    assert {each["metadata"]["annotations"]["example.com/owner"] for each in manifests} == {"platform"}
    operator = next(d for d in of_kind(manifests, "Deployment") if d["metadata"]["name"].endswith("-operator"))
    assert (operator["metadata"]["name"], operator["spec"]["replicas"]) == (f"shop-{ALIAS}-operator", 3)
    assert operator["metadata"]["labels"]["app.kubernetes.io/name"] == ALIAS
    (budget,) = [b for b in of_kind(manifests, "PodDisruptionBudget") if b["metadata"]["name"].endswith("-operator")]
    labels = operator["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert the(manifests, "MutatingAdmissionPolicy")["metadata"]["name"] == "staticgroup-inject"


def test_the_condition_of_the_parent_leaves_all_of_it_out(umbrella: Umbrella) -> None:
    assert umbrella("--set", f"{ALIAS}.enabled=false") == []


def test_a_parent_without_values_gets_the_defaults(umbrella: Umbrella) -> None:
    manifests = umbrella(values={})
    (operator,) = of_kind(manifests, "Deployment")
    assert operator["spec"]["template"]["spec"]["containers"][0]["image"].startswith("localhost/staticgroup:")
    assert {each["metadata"].get("namespace") for each in manifests} == {None, "shop"}


def test_a_parent_that_empties_the_global_values_is_understood(umbrella: Umbrella) -> None:
    emptied = {"global": {"imageRegistry": None, "imagePullSecrets": None}}
    assert umbrella(values=emptied) == umbrella(values={})
