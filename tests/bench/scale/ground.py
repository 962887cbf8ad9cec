"""Processes of a run: an API server with etcd, the coordinator, and one operator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support import children
from support.devcluster.apiserver_client import ApiServerClient
from support.devcluster.old_apiserver import api_server
from support.devcluster.process import run
from support.devcluster.programs import programs_directory
from support.fault_proxy.free_port import free_port

from .installed import FOLDER_VARIABLE

REPOSITORY = Path(__file__).parents[3]
SYSTEM = "staticgroup-system"
STOP_PATIENCE_S = 30.0
_ESTABLISHED_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One API server, empty but for what an installation brings."""

    client: ApiServerClient
    kubeconfig: Path
    folder: Path


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Have one meanwhile; there are no nodes, so no controller gives pods service accounts."""
    programs = programs_directory()
    with api_server(
        folder / "api", programs / "kube-apiserver", "--disable-admission-plugins=ServiceAccount"
    ) as server:
        kubectl = [programs / "kubectl", f"--kubeconfig={server.kubeconfig}"]
        run([*kubectl, "apply", "--server-side", "-f", REPOSITORY / "crds"])
        run([*kubectl, "create", "namespace", SYSTEM])
        run([*kubectl, "apply", "--server-side", "-f", "-"], stdin=json.dumps(_policy()).encode())
        run([*kubectl, "wait", "--for=condition=Established", "crd", "--all", f"--timeout={_ESTABLISHED_S:.0f}s"])
        yield Ground(client=server.client, kubeconfig=server.kubeconfig, folder=folder)


def _policy() -> Any:
    """Return the admission policy, unbound: pods are made as it would, at less cost for the API server."""
    documents = yaml.safe_load_all((REPOSITORY / "deploy" / "policy.yaml").read_text())
    return next(each for each in documents if each["kind"] == "MutatingAdmissionPolicy")


def machine_cpu_s() -> float:
    """Return the processor time that all processes of this machine have used since it began (proc(5): /proc/stat)."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _, _, irq, softirq, *_ = (int(ticks) for ticks in line.split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Coordinator:
    """The process of the coordinator model."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.scale.coordinator"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout is not None
        self.port: int = json.loads(self._child.stdout.readline())["port"]

    def figures(self) -> dict[str, Any]:
        """Return what it counted."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        found: dict[str, Any] = json.loads(self._child.stdout.readline())
        return found

    def stop(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(STOP_PATIENCE_S)
        self._child.kill()
        self._child.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An operator that is measured: how it is started, and whether it tells pods their ids."""

    name: str
    command: tuple[str, ...]
    injects: bool


STATICGROUP = Subject(name="staticgroup", command=("staticgroup", "run"), injects=True)
PLAIN = Subject(name="plain", command=("bench.scale.plain",), injects=False)


@dataclass(slots=True, kw_only=True)
class OperatorProcess:
    """One life after another of an operator that serves all namespaces.

    Parameters
    ----------
    environment: more of it, such as what a profiler wants.
    """

    subject: Subject
    ground: Ground
    environment: dict[str, str]
    _child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it has said, of all its lives."""
        return self.ground.folder / f"{self.subject.name}.log"

    @property
    def is_profiled(self) -> bool:
        """True where a profile of our own operator is asked for."""
        return self.subject.injects and FOLDER_VARIABLE in self.environment

    def end_part(self) -> None:
        """Have the profile of a part written, where there is one."""
        if self.is_profiled and self._child is not None:
            self._child.send_signal(signal.SIGUSR2)

    def start(self) -> None:
        own = {
            "STATICGROUP_NAMESPACE": SYSTEM, "STATICGROUP_IDENTITY": "bench",
            "STATICGROUP_HEALTH_PORT": str(free_port()),
            "STATICGROUP_ALLOW_LOOPBACK": "true",
        } if self.subject.injects else {}  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.ground.folder),
            "PYTHONPATH": f"{REPOSITORY}/operator:{REPOSITORY}/tests",
            "KUBECONFIG": str(self.ground.kubeconfig), **own, **self.environment,
        }  # fmt: skip
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "bench.scale.installed", *self.subject.command],
                env=environment,
                cwd=self.ground.folder,
                stdout=output,
                stderr=output,
            )

    def stop(self) -> None:
        """End it as Kubernetes does."""
        if self._child is None:
            return
        children.end(self._child, STOP_PATIENCE_S)
        self._child = None

    def must_live(self) -> None:
        """Raise RuntimeError when it has ended by itself."""
        if self._child is None or self._child.poll() is not None:
            raise RuntimeError(f"{self.subject.name} has ended: {self.log.read_text(errors='replace')[-2000:]}")

    def memory(self) -> dict[str, int]:
        """Return RSS, its peak and PSS in MiB (proc(5): VmRSS, VmHWM; smaps_rollup)."""
        self.must_live()
        assert self._child is not None
        process = Path(f"/proc/{self._child.pid}")
        lines = (process / "status").read_text() + (process / "smaps_rollup").read_text()
        wanted = {"VmRSS:": "rss_mib", "VmHWM:": "rss_max_mib", "Pss:": "pss_mib"}
        fields = (line.split() for line in lines.splitlines())
        return {wanted[f[0]]: int(f[1]) // 1024 for f in fields if f and f[0] in wanted}

    def cpu_s(self) -> float:
        """Return the processor time that this life has used (proc(5): utime and stime)."""
        self.must_live()
        assert self._child is not None
        stat = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
