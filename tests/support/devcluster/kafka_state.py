"""The state folder of one test cluster: what was asked for, which ports it got, where its files lie.

Why: brokers outlive the program that started them, so all that is needed to use, repair or remove them is on disk.
One idea: the folder is also the lock (flock on it), so removing it leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from support.devcluster.kafka_config import CONTROLLER, BrokerSettings
from support.devcluster.layout import state_root

_FORMAT = 1
_LOWEST_PORT = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is fixed for the life of a cluster."""

    folder: Path
    settings: BrokerSettings
    cluster_id: str
    ports: Mapping[int, Mapping[str, int]]

    def node_dir(self, node_id: int) -> Path:
        """Return the folder of one node."""
        return self.folder / f"node-{node_id}"

    def log_path(self, node_id: int) -> Path:
        """Return the broker log of one node."""
        return self.node_dir(node_id) / "broker.log"

    @property
    def tls_dir(self) -> Path:
        """The folder of keys and certificates."""
        return self.folder / "tls"

    def bootstrap(self, listener: str) -> str:
        """Return `host:port,…` of one listener on every node."""
        return ",".join(f"{self.settings.bind}:{self.ports[node][listener]}" for node in sorted(self.ports))


def folder_of(name: str) -> Path:
    """Return the state folder of a cluster."""
    return state_root() / f"kafka-{name}"


def cluster_names() -> list[str]:
    """Return the names of all clusters that have a state folder."""
    return sorted(path.name.removeprefix("kafka-") for path in state_root().glob("kafka-*") if path.is_dir())


def new_state(settings: BrokerSettings) -> ClusterState:
    """Choose ports and a cluster id and write them down."""
    folder = folder_of(settings.name)
    with lock_folder(state_root()):  # two clusters that start at once must not choose the same ports
        ports = _choose_ports(settings, taken=_ports_of_others())
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster_id.startswith("-"):  # StorageTool would read it as an option
            cluster_id = "A" + cluster_id[1:]
        state = ClusterState(folder=folder, settings=settings, cluster_id=cluster_id, ports=ports)
        _write(state)
    return state


def load_state(name: str) -> ClusterState | None:
    """Return a cluster's state; None when there is none or a crash left it unfinished."""
    path = folder_of(name) / "state.json"
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if content["format"] != _FORMAT:
        return None
    ports = {int(node): listeners for node, listeners in content["ports"].items()}
    settings = BrokerSettings(**content["settings"])
    return ClusterState(folder=path.parent, settings=settings, cluster_id=content["cluster_id"], ports=ports)


@contextmanager
def lock_folder(folder: Path, timeout_s: float = 300.0) -> Iterator[None]:
    """Hold a folder exclusively, creating it when needed; a holder may remove it."""
    deadline_s = time.monotonic() + timeout_s
    with ExitStack() as stack:
        while True:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if _try_lock(handle) and _is_same(handle, folder):
                stack.callback(os.close, handle)
                break
            os.close(handle)
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{folder.name} was held by another process for {timeout_s:.0f} s")
            time.sleep(0.05)
        yield


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(handle: int, folder: Path) -> bool:
    """Say whether the locked folder is still the one that has this name."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


def _write(state: ClusterState) -> None:
    state.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = {**asdict(state.settings), "users": dict(state.settings.users)}
    content = {"format": _FORMAT, "cluster_id": state.cluster_id, "ports": state.ports, "settings": settings}
    scratch = state.folder / "state.tmp"
    scratch.touch(mode=0o600)
    scratch.write_text(json.dumps(content, indent=1))
    scratch.rename(state.folder / "state.json")


def _ports_of_others() -> set[int]:
    states = (load_state(name) for name in cluster_names())
    return {port for state in states if state for node in state.ports.values() for port in node.values()}


def _choose_ports(settings: BrokerSettings, taken: set[int]) -> dict[int, dict[str, int]]:
    """Choose free ports below the ephemeral range, where no outgoing connection takes one while a broker is down."""
    highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = [port for port in range(_LOWEST_PORT, highest) if port not in taken]
    random.shuffle(candidates)
    free = (port for port in candidates if _is_free(settings.bind, port))
    names = (*settings.listeners, CONTROLLER)
    return {node: {name: next(free) for name in names} for node in range(1, settings.nodes + 1)}


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == 99:  # EADDRNOTAVAIL: no port will do
                raise
            return False
    return True
