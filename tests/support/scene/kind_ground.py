"""A pytest-kind cluster for a stage: real kind if a container engine answers, else the development cluster."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pytest_kind import KindCluster

from support.devcluster.cluster import Cluster
from support.devcluster.images import build_image
from support.devcluster.kind_commands import chosen_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """Where a kind cluster is reached, and at which address of this machine its pods reach brokers."""

    kubeconfig: str
    host_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealKind:
    """What a stage asks of its cluster, of a cluster in containers."""

    kind: KindCluster
    engine: str

    @property
    def name(self) -> str:
        """The cluster's name."""
        return str(self.kind.name)

    @property
    def state(self) -> KindState:
        """Kubeconfig and address; the gateway of kind's network is this machine."""
        gateway = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
        command = [self.engine, "network", "inspect", "kind", "-f", gateway]
        addresses = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return KindState(
            kubeconfig=str(self.kind.kubeconfig_path), host_address=next(a for a in addresses if ":" not in a)
        )

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its output; RuntimeError when it fails."""
        command = [str(self.kind.kubectl_path), f"--kubeconfig={self.kind.kubeconfig_path}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def build(self, tag: str, context: Path) -> str:
        """Build an image with the container engine and return its id."""
        subprocess.run([self.engine, "build", "--quiet", "--tag", tag, str(context)], check=True)
        command = [self.engine, "image", "inspect", "-f", "{{.Id}}", tag]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def load_image(self, tag: str) -> None:
        """Load an image into every node."""
        self.kind.load_docker_image(tag)


class LocalKind(Cluster):
    """The development cluster, which answered as kind."""

    def build(self, tag: str, context: Path) -> str:
        """Build an image and return what names its content."""
        return build_image(tag, context).parent.name


def ground_of(kind: KindCluster) -> RealKind | LocalKind:
    """Return the ground that pytest-kind's fixture stands on."""
    if chosen_cluster() == "local":
        return LocalKind(kind.name)
    return RealKind(kind=kind, engine=next(each for each in ("docker", "podman") if shutil.which(each)))
