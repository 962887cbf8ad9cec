"""The version stands in pyproject.toml; whatever repeats it says the same."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import staticgroup

REPOSITORY = Path(__file__).parents[2]
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
FOLDERS = ("charts", "deploy", "docs", "tests/support")
IMAGES = re.compile(
    r"\b(?:(?:staticgroup|fleet-learner|connect-worker|workload):|kubectl-staticgroup-)(\d+\.\d+\.\d+)\b"
)
"""References of our images with a version as their tag, and files of a release."""


def named_versions() -> dict[str, set[str]]:
    """Return the versions that files name as tags of our images, by file."""
    paths = [
        p
        for folder in FOLDERS
        for p in (REPOSITORY / folder).rglob("*")
        if p.suffix in (".yaml", ".md", ".py", ".tpl", "")
    ]
    paths += [REPOSITORY / name for name in ("README.md", "Makefile", "Dockerfile", "deploy/fleet-learner/Dockerfile")]
    found = {
        str(p.relative_to(REPOSITORY)): set(IMAGES.findall(p.read_text(encoding="utf-8")))
        for p in set(paths)
        if p.is_file()
    }
    return {path: versions for path, versions in found.items() if versions}


def test_every_tag_of_an_image_is_the_version() -> None:
    found = named_versions()
    assert {
        "README.md", "docs/guide/install.md", "docs/guide/kubectl-plugin.md", "deploy/operator/deployment.yaml",
        "deploy/policy.yaml", "tests/support/scene/stage.py",
    } <= found.keys()
    assert {path: versions for path, versions in found.items() if versions != {VERSION}} == {}


def test_the_package_has_the_version() -> None:
    assert staticgroup.__version__ == VERSION


def test_the_chart_and_its_application_have_the_version() -> None:
    card = yaml.safe_load((REPOSITORY / "charts/staticgroup/Chart.yaml").read_text(encoding="utf-8"))
    assert (card["version"], card["appVersion"]) == (VERSION, VERSION)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "deploy").glob("**/*.yaml")), ids=lambda path: path.name)
def test_every_label_of_a_manifest_is_the_version(path: Path) -> None:
    assert set(re.findall(r"app\.kubernetes\.io/version: \"?([\w.]+)", path.read_text(encoding="utf-8"))) <= {VERSION}


def test_the_agent_has_the_version() -> None:
    pom = (REPOSITORY / "operator/connect_agent/pom.xml").read_text(encoding="utf-8")
    assert re.findall(r"<version>(.+?)</version>", pom)[0] == VERSION
    assert f"staticgroup-connect-agent {VERSION}:" in (REPOSITORY / "tests/connect/test_agent_jar.py").read_text(
        encoding="utf-8"
    )


def test_make_reads_the_version_from_the_project() -> None:
    done = subprocess.run(["make", "-n", "image"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert f"--tag localhost/staticgroup:{VERSION} ." in done.stdout
