"""etcd, API server, controller manager and scheduler of one cluster, in the namespace of its first node.

The one idea: stock components with stock ports, because the namespace is theirs alone; only what makes failures visible
sooner is set faster than by default (a silent node is NotReady after 8 s instead of 50 s).
"""

import json
import secrets
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import cgroups
from .apiserver_client import ApiServerClient, write_private_json
from .layout import ClusterState, NodeRecord
from .network import MAX_NODES
from .process import Process, run
from .progress import await_condition

GROUP = "control-plane-services"
_READY_DEADLINE_S = 120.0
_COMPACT = """
import base64, json, urllib.request
def ask(path, **body):
    request = urllib.request.Request("http://127.0.0.1:2379/v3/kv/" + path, json.dumps(body).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request, timeout=30))
name = base64.b64encode(b"/history-lost").decode()
revision = ask("put", key=name, value=name)["header"]["revision"]
ask("compaction", revision=revision, physical=True)
print(json.dumps(int(revision)))
"""
"""Uses etcd's gRPC gateway, without a further program; a watch that saw its write has missed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The control plane of one cluster."""

    state: ClusterState

    @property
    def directory(self) -> Path:
        """Where etcd's data, keys, tokens and logs are."""
        return Path(self.state.directory)

    @property
    def first_node(self) -> NodeRecord:
        """The node in whose network namespace the control plane runs."""
        return self.state.nodes[0]

    def process(self, name: str) -> Process:
        """Return one of the four processes."""
        return Process(name=name, directory=self.directory)

    @property
    def processes(self) -> tuple[Process, ...]:
        """All four, in the order in which they start."""
        names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
        return tuple(self.process(name) for name in names)

    def client(self, user: str = "admin") -> ApiServerClient:
        """Return a client with the token of a user: `admin` or a node's name."""
        token = next(line.split(",")[0] for line in self._tokens() if line.split(",")[1] == user)
        return ApiServerClient(
            url=f"https://{self.first_node.address}:6443", token=token, ca_file=self.directory / "pki/apiserver.crt"
        )

    def start_server(self) -> None:
        """Start etcd and the API server without waiting."""
        cgroups.create(f"{self.state.cgroup}/{GROUP}")
        self._write_secrets()
        self._start("etcd", [
            f"--data-dir={self.directory}/etcd",
            "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=default=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level=warn",
        ])  # fmt: skip
        pki = self.directory / "pki"
        self._start("kube-apiserver", [
            "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
            f"--advertise-address={self.first_node.address}", "--secure-port=6443", f"--cert-dir={pki}",
            f"--service-cluster-ip-range={self.state.service_subnet}", "--allow-privileged=true",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            f"--token-auth-file={self.directory}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
            "--default-not-ready-toleration-seconds=5", "--default-unreachable-toleration-seconds=5",
            # `kubectl logs` would resolve the node's name, and there is no DNS.
            "--kubelet-preferred-address-types=InternalIP", "--profiling=false",
            *self.state.apiserver_arguments,
        ])  # fmt: skip

    def await_server(self) -> None:
        """Wait until the API server is ready."""
        server = self.process("kube-apiserver")
        client = self.client()

        def is_settled() -> bool:
            return server.pid() is None or (client.ca_file.exists() and client.is_ready())

        try:
            await_condition("the API server to be ready", is_settled, _READY_DEADLINE_S)
        except TimeoutError as late:
            raise RuntimeError(f"{late}:\n{server.last_lines()}") from late
        if server.pid() is None:
            raise RuntimeError(f"kube-apiserver ended:\n{server.last_lines()}")

    def compact(self) -> int:
        """Compact etcd to its present revision, so that no watch can begin in the past; returns that revision."""
        place = ["nsenter", f"--net=/run/netns/{self.first_node.network_namespace}"]
        revision: int = json.loads(run([*place, "--", sys.executable, "-c", _COMPACT]))
        return revision

    def start_controllers(self) -> None:
        """Write the admin kubeconfig and start controller manager and scheduler."""
        write_private_json(Path(self.state.kubeconfig), self.client().kubeconfig(f"kind-{self.state.name}"))
        pki = self.directory / "pki"
        self._start("kube-controller-manager", [
            f"--kubeconfig={self.state.kubeconfig}", f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/apiserver.crt", "--leader-elect=false",
            "--node-monitor-period=1s", "--node-monitor-grace-period=8s",
        ])  # fmt: skip
        self._start("kube-scheduler", [f"--kubeconfig={self.state.kubeconfig}", "--leader-elect=false"])

    def await_defaults(self) -> None:
        """Wait until pods can be created: the default service account and the CA's ConfigMap exist."""
        client = self.client()
        namespace = "/api/v1/namespaces/default"
        for path in (f"{namespace}/serviceaccounts/default", f"{namespace}/configmaps/kube-root-ca.crt"):
            await_condition(path, partial(client.has, path), 60.0)

    def _start(self, name: str, arguments: list[str]) -> None:
        self.process(name).start(
            [Path(self.state.bin_directory) / name, *arguments],
            cgroup_files=[cgroups.hierarchies()[0] / self.state.cgroup / GROUP / "cgroup.procs"],
            network_namespace=self.first_node.network_namespace,
        )

    def _tokens(self) -> list[str]:
        return (self.directory / "tokens.csv").read_text().splitlines()

    def _write_secrets(self) -> None:
        """Make tokens and the service account key once; the API server makes its certificate itself.

        Every index has a token from the start, because the token file is read only when the API server starts.
        """
        pki = self.directory / "pki"
        pki.mkdir(parents=True, exist_ok=True)
        if not (pki / "sa.pub").exists():
            run(["openssl", "genrsa", "-out", pki / "sa.key", "2048"])
            run(["openssl", "rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.pub"])
        tokens = self.directory / "tokens.csv"
        known = {line.split(",")[1] for line in self._tokens()} if tokens.exists() else set()
        roles = [node.role for node in self.state.nodes]
        roles += ["worker", *(f"worker{number}" for number in range(2, MAX_NODES + 1))]
        lines = [] if "admin" in known else [f'{secrets.token_hex(16)},admin,admin,"system:masters"']
        for role in dict.fromkeys(roles):
            user = f"system:node:{self.state.name}-{role}"
            if user not in known:
                lines.append(f'{secrets.token_hex(16)},{user},{user},"system:nodes"')
        if lines:
            kept = self._tokens() if known else []
            tokens.touch(0o600)
            tokens.write_text("\n".join([*kept, *lines]) + "\n")
