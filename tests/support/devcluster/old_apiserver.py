"""An API server and an etcd on loopback, without nodes or controllers: today's, or the one of Kubernetes 1.29.

The older one is built from its own module, beside today's etcd; pods that are created there are read and never
run.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.fault_proxy.free_port import free_port

from . import versions
from .apiserver_client import ApiServerClient, write_private_json
from .cache import built, digest
from .process import Process, run
from .programs import programs_directory, run_go
from .progress import await_condition

MODULE = versions.HERE / "kubernetes-1.29"
_READY_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OldApiServer:
    """One that runs."""

    client: ApiServerClient
    kubeconfig: Path
    log: Path


def version() -> str:
    """Return which one is built, for instance `v1.29.15`."""
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"k8s.io/kubernetes is not required by {MODULE / 'go.mod'}")
    return found.group(1)


def program() -> Path:
    """Return the program; build it first when it is missing."""

    def build(directory: Path) -> None:
        major, minor = version().removeprefix("v").split(".")[:2]
        stamps = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
        flags = " ".join(
            ["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())]
        )
        run_go(["build", "-trimpath", f"-ldflags={flags}", "-o", str(directory / "kube-apiserver"), "."],
               f"build the API server of Kubernetes {version()} (3 to 6 minutes when the Go cache is empty)", MODULE,
               {})  # fmt: skip

    return built(f"kube-apiserver-{version()}-{digest(MODULE)}", build) / "kube-apiserver"


@contextmanager
def old_api_server(directory: Path) -> Iterator[OldApiServer]:
    """Have one of 1.29 run meanwhile, with its data in an empty directory."""
    with api_server(directory, program()) as server:
        yield server


@contextmanager
def api_server(directory: Path, program: Path, *arguments: str) -> Iterator[OldApiServer]:
    """Have an API server run meanwhile, with its data in an empty directory.

    Parameters
    ----------
    program, arguments: the program, and its arguments beside the addresses and keys of this one.
    """
    ports = [free_port() for _ in range(3)]
    etcd, server = (Process(name=name, directory=directory) for name in ("etcd", "kube-apiserver"))
    pki, token = directory / "pki", secrets.token_hex(16)
    pki.mkdir(parents=True)
    run(["openssl", "genrsa", "-out", pki / "sa.key", "2048"])
    run(["openssl", "rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.pub"])
    (directory / "tokens.csv").touch(0o600)
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    urls = [f"http://127.0.0.1:{port}" for port in ports[:2]]
    try:
        etcd.start([
            programs_directory() / "etcd", f"--data-dir={directory}/etcd", f"--listen-client-urls={urls[0]}",
            f"--advertise-client-urls={urls[0]}", f"--listen-peer-urls={urls[1]}",
            f"--initial-advertise-peer-urls={urls[1]}",
            f"--initial-cluster=default={urls[1]}", "--unsafe-no-fsync", "--log-level=warn",
        ])  # fmt: skip
        server.start([
            program, f"--etcd-servers={urls[0]}", "--bind-address=127.0.0.1", f"--secure-port={ports[2]}",
            f"--cert-dir={pki}",
            "--service-cluster-ip-range=10.255.0.0/24", "--authorization-mode=RBAC",
            f"--token-auth-file={directory}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key", "--endpoint-reconciler-type=none", "--profiling=false",
            *arguments,
        ])  # fmt: skip
        client = ApiServerClient(url=f"https://127.0.0.1:{ports[2]}", token=token, ca_file=pki / "apiserver.crt")

        def is_settled() -> bool:
            return server.pid() is None or (client.ca_file.exists() and client.is_ready())

        await_condition("the API server to be ready", is_settled, _READY_DEADLINE_S)
        if server.pid() is None:
            raise RuntimeError(f"kube-apiserver ended:\n{server.last_lines()}")
        kubeconfig = directory / "kubeconfig"
        write_private_json(kubeconfig, client.kubeconfig("old"))
        yield OldApiServer(client=client, kubeconfig=kubeconfig, log=server.log)
    finally:
        for process in (server, etcd):
            process.stop(grace_s=0)
