"""Every sample under deploy/samples is taken by a real API server, by server-side apply, as it is written."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_cluster import REPOSITORY, Kubectl

from staticgroup.api.crd import definition
from staticgroup.api.injection import env_entries
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from support.streams.deployment import STATIC

SAMPLES = REPOSITORY / "deploy" / "samples"
FRAMEWORKS = sorted(SAMPLES.glob("framework-*.yaml"))
FILES = sorted(SAMPLES.glob("*.yaml"))
GROUPS = sorted(path for path in SAMPLES.rglob("*.yaml") if "kind: StaticGroup\n" in path.read_text(encoding="utf-8"))
FOLDERS = sorted(path.parent for path in SAMPLES.rglob("kustomization.yaml"))


def test_every_file_is_a_sample_or_belongs_to_a_folder_that_is_one() -> None:
    assert len(FILES) >= 6
    assert SAMPLES / "quickstart" in FOLDERS
    for file in SAMPLES.rglob("*.yaml"):
        assert file in FILES or any(file.is_relative_to(folder) for folder in FOLDERS), file


def unknown(node: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    """Yield the fields of a value that a schema does not know."""
    if "items" in node:
        for each in value:
            yield from unknown(node["items"], each, f"{path}[]")
    for name, child in value.items() if "properties" in node else ():
        if name in node["properties"]:
            yield from unknown(node["properties"][name], child, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


@pytest.mark.parametrize("file", GROUPS, ids=lambda file: str(file.relative_to(SAMPLES)))
def test_a_sample_says_only_what_a_staticgroup_knows(file: Path) -> None:
    """The models ignore other fields, as of a newer version; an API server warns of them or refuses them."""
    (version,) = definition("StaticGroup")["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        if body["kind"] == "StaticGroup":
            assert list(unknown(spec, body["spec"], "spec")) == []


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_a_sample_of_a_framework_is_one_group_of_one_workload_that_reads_what_is_injected(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    bodies = {body["kind"]: body for body in yaml.safe_load_all(text)}
    spec = StaticGroupSpec.model_validate(bodies["StaticGroup"]["spec"])
    pods = bodies["StatefulSet"]["spec"]["template"]["spec"]
    assert (
        spec.workload_ref.name
        == bodies["StatefulSet"]["metadata"]["name"]
        == bodies["StatefulSet"]["spec"]["serviceName"]
    )
    (entry,) = env_entries(spec.client)
    assert entry.container in (None, pods["containers"][0]["name"])
    read = set(re.findall(r"\$\{(\w+)", text))
    assert read in (set(), {entry.instance_id_name, entry.session_timeout_name})


def test_the_sample_of_kafka_streams_is_what_its_end_to_end_test_runs() -> None:
    (group, _) = yaml.safe_load_all((SAMPLES / "framework-kafka-streams.yaml").read_text(encoding="utf-8"))
    assert {name: group["spec"][name] for name in STATIC} == STATIC


@pytest.mark.cluster
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_is_accepted(file: Path, kubectl: Kubectl, namespace: str) -> None:
    said = kubectl.must("apply", "--server-side", "--dry-run=server", "-n", namespace, "-f", str(file))
    assert said.count("serverside-applied (server dry run)") == len(
        list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    )


@pytest.mark.cluster
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_is_accepted_in_its_own_namespace(folder: Path, kubectl: Kubectl, crds: str) -> None:
    """With a namespace that enforces the restricted Pod Security Standard, against which pods and their templates are
    held."""
    name = re.findall(r"^namespace: (\S+)$", (folder / "kustomization.yaml").read_text(), re.MULTILINE)[0]
    kubectl.must("create", "namespace", name)
    try:
        kubectl.must("label", "namespace", name, "pod-security.kubernetes.io/warn=restricted")
        answer = kubectl.run("apply", "--server-side", "--dry-run=server", "-k", str(folder))
        assert answer.returncode == 0, answer.stderr
        assert "Warning" not in answer.stderr
        objects = [
            each for file in folder.glob("*.yaml") for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        ]
        applied = answer.stdout.count("serverside-applied (server dry run)")
        assert applied == sum(each["kind"] != "Kustomization" for each in objects)
    finally:
        kubectl.run("delete", "namespace", name, "--wait=false")
