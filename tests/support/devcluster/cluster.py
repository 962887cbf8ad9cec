"""A whole cluster: bring it up, repair it, use it, take it away.

The one idea: `up` is idempotent. It finds what runs and starts what does not, so the same call makes a cluster,
repairs one after a crash of anything, and finds a healthy one in a moment. `down` works from the kernel's names alone,
so it also removes what a crashed `up` left without a state file.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from . import machine
from .apiserver_client import ApiServerClient
from .cache import file_lock
from .control_plane import ControlPlane
from .images import find_archive, image_archive_is_loaded, load_archive
from .layout import (
    CONTROL_PLANE,
    ClusterState,
    cluster_directory,
    cluster_id,
    known_states,
    load_state,
    new_node,
    new_state,
    state_root,
)
from .leftovers import remove_leftovers
from .network import free_second_octet
from .node import Node, now_rfc3339
from .process import Process
from .programs import programs_directory
from .progress import step


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWish:
    """A node as asked for: its role (`control-plane`, `worker`, `worker2` …) and labels."""

    role: str
    labels: Mapping[str, str]


DEFAULT_NODES = (NodeWish(role=CONTROL_PLANE, labels={}),)


class Cluster:
    """A cluster of this machine. Every method reads the state on disk, so several programs may hold one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = cluster_directory(name)

    @classmethod
    def load(cls, name: str) -> "Cluster":
        """Return an existing cluster."""
        if load_state(name) is None:
            raise LookupError(f"no cluster {name}")
        return cls(name)

    @property
    def state(self) -> ClusterState:
        """The content of state.json."""
        state = load_state(self.name)
        if state is None:
            raise LookupError(f"no cluster {self.name}")
        return state

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in the order of their index."""
        state = self.state
        return tuple(Node(state=state, record=record) for record in state.nodes)

    def node(self, name: str) -> Node:
        """Return a node by its full name or by its role."""
        for node in self.nodes:
            if name in (node.name, node.record.role):
                return node
        raise LookupError(f"cluster {self.name} has no node {name}")

    @property
    def client(self) -> ApiServerClient:
        """A client with the rights of system:masters."""
        return ControlPlane(state=self.state).client()

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process that a healthy cluster has."""
        own = ControlPlane(state=self.state).processes
        return (*own, *(process for node in self.nodes for process in node.processes))

    def is_healthy(self) -> bool:
        """Return whether every process lives (a frozen kubelet lives)."""
        state = load_state(self.name)
        return state is not None and bool(state.nodes) and all(process.pid() for process in self.processes)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl against this cluster and return its standard output."""
        state = self.state
        done = subprocess.run(
            [f"{state.bin_directory}/kubectl", f"--kubeconfig={state.kubeconfig}", *arguments],
            input=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def up(self, nodes: Sequence[NodeWish] = DEFAULT_NODES, *, apiserver_arguments: Sequence[str] = ()) -> "Cluster":
        """Bring the cluster up, or repair it. Nodes and arguments count only when the cluster is new."""
        machine.ensure_requirements()
        programs = programs_directory()
        with self._lock():
            state = self._claim(programs, nodes, tuple(apiserver_arguments))
            with step(f"cluster {self.name}: {len(state.nodes)} node(s), host address {state.host_address}"):
                self._start_all(state)
        return self

    def _claim(self, programs: Path, wishes: Sequence[NodeWish], arguments: tuple[str, ...]) -> ClusterState:
        """Return the cluster's state; reserve names and addresses first when it is new."""
        with file_lock(state_root() / ".lock"):
            machine.note_changes(state_root())
            state = load_state(self.name)
            if state is not None:
                state = replace(state, bin_directory=str(programs))
            else:
                others = [other for other in known_states() if other.name != self.name]
                if any(other.id == cluster_id(self.name) for other in others):
                    raise RuntimeError(f"another cluster has the same short hash as {self.name}: choose another name")
                octet = free_second_octet(cluster_id(self.name), {other.second_octet for other in others})
                state = new_state(self.name, bin_directory=programs, second_octet=octet, apiserver_arguments=arguments)
                for wish in wishes:
                    state = replace(state, nodes=(*state.nodes, new_node(state, wish.role, wish.labels)))
            state.save()
        return state

    def _start_all(self, state: ClusterState) -> None:
        state.network.up()
        for record in state.nodes:
            state.network.connect_node(record.index)
        state.network.route_pods([record.index for record in state.nodes])
        control_plane = ControlPlane(state=state)
        nodes = [Node(state=state, record=record) for record in state.nodes]
        with step("control plane and container runtimes"):
            control_plane.start_server()
            for node in nodes:
                node.start_runtime()
            control_plane.await_server()
            control_plane.start_controllers()
        with step("nodes"):
            since = now_rfc3339()
            for node in nodes:
                node.start_agents()
                node.thaw()
            for node in nodes:
                node.await_ready(since)
            control_plane.await_defaults()

    def down(self) -> None:
        """Take the cluster away and leave nothing of it, whatever state it is in."""
        with self._lock(remove=True), step(f"delete cluster {self.name}"):
            for process in self.processes if load_state(self.name) is not None else ():
                process.stop(grace_s=0)
            with file_lock(state_root() / ".lock"):
                remove_leftovers(self.name)
                shutil.rmtree(self.directory, ignore_errors=True)
                if not known_states():
                    machine.restore_changes(state_root())

    def restart_apiserver(self, *, lose_history: bool) -> float:
        """Kill the API server, start it again with the same arguments, and wait until it is ready.

        Parameters
        ----------
        lose_history: compact etcd in between: a client that resumes a watch gets 410: its position is gone. A server
            that was restarted mostly says so anyway, because its watch cache is empty; this makes it certain.

        Returns
        -------
        Seconds until it was ready again.

        Notes
        -----
        The scheduler is restarted with it. It ends itself when it finds a pod on another node than it remembers, as
        after a binding whose answer was lost (1.36.3: "Scheduler cache is corrupted"), and here nobody starts it again.
        So is the controller manager, whose watches ask a server that was away only every 30 to 60 s (client-go's
        Reflector).
        """
        began_s = time.monotonic()
        with self._lock():
            control_plane = ControlPlane(state=self.state)
            for name in ("kube-scheduler", "kube-controller-manager", "kube-apiserver"):
                control_plane.process(name).stop(grace_s=0)
            if lose_history:
                control_plane.compact()
            control_plane.start_server()
            control_plane.await_server()
            control_plane.start_controllers()
        return time.monotonic() - began_s

    def add_node(self, name: str) -> Node:
        """Add a node (full name or role, for instance `worker2`) and wait until it is Ready."""
        with self._lock():
            state = self.state
            record = new_node(state, name.removeprefix(f"{self.name}-"), {})
            state = replace(state, nodes=(*state.nodes, record))
            state.save()
            state.network.connect_node(record.index)
            state.network.route_pods([other.index for other in state.nodes])
            node = Node(state=state, record=record)
            with step(f"node {node.name}"):
                node.start_runtime()
                node.start_agents()
                node.await_ready()
        return node

    def remove_node(self, name: str) -> None:
        """Take a node away: its pods, its agents, and its Node object."""
        node = self.node(name)
        if node.record.role == CONTROL_PLANE:
            raise ValueError("the control plane's node cannot be removed: delete the cluster")
        with self._lock(), step(f"remove node {node.name}"):
            node.erase()
            state = self.state
            replace(state, nodes=tuple(other for other in state.nodes if other.name != node.name)).save()
            self.client.request("DELETE", f"/api/v1/nodes/{node.name}")

    def load_image(self, tag: str) -> None:
        """Import an image into every node that does not have it in just this build."""
        archive = find_archive(tag)
        for node in self.nodes:
            if not image_archive_is_loaded(node.record, tag, archive):
                with step(f"load {tag} into {node.name}"):
                    load_archive(node.record, tag, archive)

    def pod_processes(self, pod_uid: str) -> list[int]:
        """Return the pids of a pod's containers on whatever node they run; empty when none lives."""
        return sorted(pid for node in self.nodes for pid in node.pod_processes(pod_uid))

    def _lock(self, *, remove: bool = False) -> AbstractContextManager[None]:
        return file_lock(state_root() / f".{self.name}.lock", remove=remove)


def pod_processes(name: str, pod_uid: str) -> list[int]:
    """Return the pids of a pod's containers in a cluster: the ground truth of "is the process alive"."""
    return Cluster.load(name).pod_processes(pod_uid)


def healthy_clusters() -> list[str]:
    """Return the names of the clusters all of whose processes live."""
    return [state.name for state in known_states() if Cluster(state.name).is_healthy()]


def user_kubeconfig() -> Path:
    """Return the kubeconfig that kind would write by default: the first of $KUBECONFIG, else ~/.kube/config."""
    return Path(os.environ.get("KUBECONFIG", "").split(":")[0] or Path.home() / ".kube" / "config")
