"""The commands of `kind` and the image build where no cluster runs yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.ground_probe import (
    IMAGE,
    kind,
)
from support.devcluster import kind_commands
from support.devcluster.base_image import base_image
from support.devcluster.cluster import Cluster, NodeWish
from support.devcluster.images import build_image
from support.devcluster.layout import state_root

pytestmark = [
    pytest.mark.e2e, pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="the development cluster needs root"),
]  # fmt: skip


def test_image_that_is_built_before_the_first_cluster_names_what_the_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that never had a cluster debootstrap is not there, and here nothing can install it."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    for build in (base_image, lambda: build_image(IMAGE, tmp_path)):
        with pytest.raises(RuntimeError, match=r"install these packages.* debootstrap"):
            build()


@pytest.fixture
def executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a shell script on the PATH under a name, before everything else."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


def test_real_kind_is_chosen_where_a_container_engine_answers(executable: Callable[[str, str], None]) -> None:
    executable("docker", "exit 0")
    executable("kind", 'echo real kind: "$@"')
    assert kind("get", "clusters", CLUSTER="").stdout == "real kind: get clusters\n"
    assert "real kind" not in kind("get", "clusters", CLUSTER="local").stdout
    executable("docker", "exit 1")
    executable("podman", "exit 1")
    assert "real kind" not in kind("get", "clusters", CLUSTER="").stdout
    assert kind("get", "clusters", CLUSTER="kind").stdout == "real kind: get clusters\n"
    assert "must be" in kind("get", "clusters", CLUSTER="other").stderr


def test_kinds_configuration_gives_nodes_labels_and_feature_gates(tmp_path: Path) -> None:
    path = tmp_path / "kind.yaml"
    path.write_text(
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
        "featureGates: {A: true}\nruntimeConfig: {api/alpha: false}\n"
        "nodes:\n- role: worker\n- role: control-plane\n- role: worker\n  labels: {zone: b}\n"
    )
    nodes, arguments = kind_commands.read_configuration(path)
    assert nodes == (
        NodeWish(role="control-plane", labels={}), NodeWish(role="worker", labels={}),
        NodeWish(role="worker2", labels={"zone": "b"}),
    )  # fmt: skip
    assert arguments == ("--feature-gates=A=true", "--runtime-config=api/alpha=false")


@pytest.mark.parametrize("name", ["UPPER", "", "a/b", "x" * 60])
def test_impossible_cluster_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cluster name"):
        Cluster(name)
    assert not (state_root() / "UPPER").exists()
