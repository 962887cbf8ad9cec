"""The programs of the cluster, built from their sources by the Go tool and the C compiler.

The one idea: no binary is committed or downloaded as such. Five Kubernetes components are one program under five names,
because linking it once instead of five times is most of the time that a first build takes.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import versions
from .cache import built, digest
from .process import run
from .progress import say, step

SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
COMPONENTS = (*SERVERS, "kubectl")
PAUSE_SOURCE = versions.HERE / "pause" / "pause.c"
WAITER_MODULE = Path(__file__).resolve().parents[3] / "operator" / "slot_waiter"
WAITER_FLAGS = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=")


def programs_directory() -> Path:
    """Return the directory with Kubernetes' components and etcd; build them first when they are missing."""
    inputs = digest(versions.GO_MODULE)
    return built(f"kubernetes-{versions.kubernetes_version()}-{inputs}", _build_programs)


def helm_program() -> Path:
    """Return the helm program; build it, and the cluster's programs with it, when it is missing."""
    return programs_directory() / "helm"


def kind_program() -> Path:
    """Return the real kind; one on the PATH if there is one, else build it from its module."""
    on_path = shutil.which("kind")
    if on_path and Path(on_path).resolve() != versions.HERE / "kind":
        return Path(on_path)
    version = versions.KIND_VERSION

    def build(directory: Path) -> None:
        run_go(["install", "-trimpath", f"sigs.k8s.io/kind@{version}"], f"build kind {version}", Path("/"),
               {"GOBIN": str(directory)})  # fmt: skip

    return built(f"kind-{version}", build) / "kind"


def etcdutl_program() -> Path:
    """Return the program that restores a snapshot of etcd; build it first when it is missing."""
    version, module = versions.etcd_version(), "go.etcd.io/etcd/etcdutl/v3"

    def build(directory: Path) -> None:
        # `go install` of a version refuses this module, because its go.mod has replace directives.
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "go.mod").write_text(f"module etcdutl\n\ngo 1.24\n\nrequire {module} {version}\n")
            run_go(["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o", str(directory / "etcdutl"), module],
                   f"build etcdutl {version}", Path(made), {})  # fmt: skip

    return built(f"etcdutl-{version}", build) / "etcdutl"


def pause_program() -> Path:
    """Return the static pause program; compile it first when it is missing."""

    def build(directory: Path) -> None:
        with step("compile pause"):
            run(["cc", "-Os", "-static", "-s", "-Wall", "-Wextra", "-o", directory / "pause", PAUSE_SOURCE])

    return built(f"pause-{digest(PAUSE_SOURCE)}", build) / "pause"


def slot_waiter_program(architecture: str = "amd64") -> Path:
    """Return the init container's program of Deployments; build it first when it is missing."""

    def build(directory: Path) -> None:
        run_go(["build", *WAITER_FLAGS, "-o", str(directory / "slot-waiter"), "."],
               f"build slot-waiter for {architecture}", WAITER_MODULE, {"GOARCH": architecture})  # fmt: skip

    inputs = digest(WAITER_MODULE / "main.go", WAITER_MODULE / "go.mod", *WAITER_FLAGS)
    return built(f"slot-waiter-{architecture}-{inputs}", build) / "slot-waiter"


def _build_programs(directory: Path) -> None:
    version = versions.kubernetes_version()
    flags = ["-s", "-w", f"-X helm.sh/helm/v4/internal/version.version={versions.helm_version()}"]
    major, minor = version.removeprefix("v").split(".")[:2]
    # Without these the version reads v0.0.0, and Helm's kubeVersion check fails.
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X {package}.{key}={value}" for key, value in stamps.items()]
    # One module and one call: Helm and etcd are mostly made of packages that Kubernetes has compiled too.
    run_go(["build", "-trimpath", f"-ldflags={' '.join(flags)}", "-o", f"{directory}/",
            "./kube", "./kubectl", "./etcd", "helm.sh/helm/v4/cmd/helm"],
           f"build Kubernetes {version}, etcd and Helm (6 to 9 minutes when the Go cache is empty)",
           versions.GO_MODULE, {})  # fmt: skip
    for component in SERVERS:
        (directory / component).symlink_to("kube")


def run_go(arguments: Sequence[str], title: str, directory: Path, environment: Mapping[str, str]) -> None:
    """Run the Go tool; its last words become the error."""
    if shutil.which("go") is None:
        raise RuntimeError("Go is missing: install Go 1.21 or newer (it fetches the toolchain of go.mod itself)")
    with step(title):
        done = subprocess.run(
            ["go", *arguments], cwd=directory, env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        for line in done.stdout.splitlines()[-20:]:
            say(f"   {line}")
        raise RuntimeError(f"go {arguments[0]} failed with {done.returncode}")
