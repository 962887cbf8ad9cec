"""What one cluster is on disk: its directory, its state file, and the records of its nodes.

The one idea: `state.json` is the whole contract with other programs. A program that uses the cluster (tests, brokers,
a demonstration) reads it and needs nothing else.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .network import MAX_NODES, SERVICE_SUBNET, ClusterNetwork

CONTROL_PLANE = "control-plane"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
# unix(7): sun_path has 108 bytes. The longest socket is the kubelet's, below the node's directory.
_SOCKET_PATH_LIMIT = 107
_LONGEST_SOCKET = f"{CONTROL_PLANE}/kubelet/pod-resources/kubelet.sock"


def state_root() -> Path:
    """Return the directory of all clusters of this machine's user."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/var/tmp") / "staticgroup-devcluster"


def cluster_directory(name: str) -> Path:
    """Return the directory of a cluster, which need not exist."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"cluster name {name!r}: lower-case letters, digits and '-', at most 32")
    path = state_root() / name
    if len(str(path / _LONGEST_SOCKET)) > _SOCKET_PATH_LIMIT:
        raise ValueError(f"cluster name {name!r} is too long: a socket below {path} would exceed 107 characters")
    return path


def cluster_id(name: str) -> str:
    """Return 8 hexadecimal digits that name this cluster in the kernel (bridge, namespaces, cgroup)."""
    return hashlib.sha256(str(cluster_directory(name)).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node as written in state.json."""

    name: str
    role: str
    index: int
    address: str
    pod_subnet: str
    network_namespace: str
    cgroup: str
    directory: str
    containerd_socket: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The content of state.json."""

    name: str
    id: str
    directory: str
    kubeconfig: str
    bin_directory: str
    second_octet: int
    bridge: str
    host_address: str
    subnet: str
    service_subnet: str
    cgroup: str
    nodes: tuple[NodeRecord, ...]
    apiserver_arguments: tuple[str, ...] = ()

    @property
    def network(self) -> ClusterNetwork:
        return ClusterNetwork(cluster_id=self.id, second_octet=self.second_octet)

    def save(self) -> None:
        """Write state.json in one step."""
        path = Path(self.directory) / "state.json"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")
        temporary.replace(path)


def new_state(
    name: str, *, bin_directory: Path, second_octet: int, apiserver_arguments: tuple[str, ...] = ()
) -> ClusterState:
    """Describe a cluster without nodes."""
    directory = cluster_directory(name)
    network = ClusterNetwork(cluster_id=cluster_id(name), second_octet=second_octet)
    return ClusterState(
        name=name, id=network.cluster_id, directory=str(directory), kubeconfig=str(directory / "kubeconfig"),
        bin_directory=str(bin_directory), second_octet=second_octet, bridge=network.bridge,
        host_address=network.host_address, subnet=network.subnet, service_subnet=SERVICE_SUBNET,
        cgroup=f"staticgroup-{network.cluster_id}", nodes=(), apiserver_arguments=apiserver_arguments,
    )  # fmt: skip


def new_node(state: ClusterState, role: str, labels: Mapping[str, str]) -> NodeRecord:
    """Describe one more node of a cluster: on the lowest free index."""
    if any(node.role == role for node in state.nodes):
        raise ValueError(f"node {state.name}-{role} exists already")
    if not _NAME.fullmatch(role):
        raise ValueError(f"node name {role!r}: lower-case letters, digits and '-', at most 32")
    taken = {node.index for node in state.nodes}
    free = [index for index in range(1, MAX_NODES + 1) if index not in taken]
    if not free:
        raise ValueError(f"a cluster has at most {MAX_NODES} nodes")
    network, index = state.network, free[0]
    directory = Path(state.directory) / role
    return NodeRecord(
        name=f"{state.name}-{role}", role=role, index=index, address=network.node_address(index),
        pod_subnet=network.pod_subnet(index), network_namespace=network.namespace(index),
        cgroup=f"{state.cgroup}/{role}", directory=str(directory),
        containerd_socket=str(directory / "containerd.sock"), labels=dict(labels),
    )  # fmt: skip


def load_state(name: str) -> ClusterState | None:
    """Read a cluster's state.json; None when there is no such cluster (or it was never complete)."""
    try:
        written = json.loads((cluster_directory(name) / "state.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    nodes = tuple(NodeRecord(**node) for node in written.pop("nodes"))
    arguments = tuple(written.pop("apiserver_arguments"))
    return ClusterState(**written, nodes=nodes, apiserver_arguments=arguments)


def known_states() -> list[ClusterState]:
    """Return the states of all clusters of this machine, by name."""
    files = sorted(state_root().glob("*/state.json"))
    # Brokers keep their own directories in the same place, with files of their own shape.
    names = [path.parent.name for path in files if '"second_octet"' in path.read_text()]
    return [state for name in names if (state := load_state(name)) is not None]
