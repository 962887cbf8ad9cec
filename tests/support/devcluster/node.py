"""One node: containerd, kubelet and kube-proxy in a network namespace, and the ways in which a node can fail.

The one idea: a node fails as real ones do. Frozen, its pods live on while the API server gets no reports; rebooted, its
pods are killed without a report and it comes back with another boot id; removed, it is gone with its Node object.
"""

import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .control_plane import ControlPlane
from .images import image_archive_is_loaded, load_archive, pause_archive
from .layout import CONTROL_PLANE, ClusterState, NodeRecord
from .leftovers import shim_sockets
from .machine import unmount_below
from .node_configuration import CONTAINERD_STATE, write_configuration
from .node_identity import as_machine_of, write_identity
from .process import Process, run, signal_each
from .progress import await_condition, say

_READY_DEADLINE_S = 90.0
_PATIENCE_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a cluster, running or not."""

    state: ClusterState
    record: NodeRecord

    @property
    def name(self) -> str:
        """Name of the Node object."""
        return self.record.name

    @property
    def directory(self) -> Path:
        """Everything this node writes is below it."""
        return Path(self.record.directory)

    def process(self, name: str) -> Process:
        """Return `containerd`, `kubelet` or `kube-proxy`."""
        return Process(name=name, directory=self.directory)

    @property
    def processes(self) -> tuple[Process, ...]:
        """All three, in the order in which they start."""
        return tuple(self.process(name) for name in ("containerd", "kubelet", "kube-proxy"))

    @property
    def boot_id(self) -> str:
        """The boot id that the kubelet reports; a reboot of the node makes a new one."""
        return (self.directory / "boot-id").read_text().strip()

    def start_runtime(self) -> None:
        """Start containerd and give it the pause image."""
        for part in (cgroups.SERVICES, cgroups.PODS):
            cgroups.create(f"{self.record.cgroup}/{part}")
        self.directory.mkdir(parents=True, exist_ok=True)
        if not cgroups.processes(self.record.cgroup):
            # Nothing of it lives: a new node, or one that went down with its machine. containerd would take what is
            # left in its state directory for running containers.
            self.power_off()
            write_identity(self.directory, "boot-id")
        for name in ("machine-id", "system-uuid"):
            if not (self.directory / name).exists():
                write_identity(self.directory, name)
        reference, archive = pause_archive()
        write_configuration(self.state, self.record, reference, None)
        self._start("containerd", [shutil.which("containerd") or "containerd", "--config", "containerd.toml"])
        self.await_runtime()
        if not image_archive_is_loaded(self.record, reference, archive):
            load_archive(self.record, reference, archive)

    def await_runtime(self) -> None:
        """Wait until containerd answers."""

        def answers() -> bool:
            if not Path(self.record.containerd_socket).exists():
                return False
            return "Server:" in run(["ctr", "-a", self.record.containerd_socket, "version"], check=False)

        try:
            await_condition(f"containerd of {self.name}", answers, 30.0)
        except TimeoutError as late:
            raise RuntimeError(f"{late}:\n{self.process('containerd').last_lines()}") from late

    def start_agents(self) -> None:
        """Start kubelet and kube-proxy; the API server must be ready."""
        client = ControlPlane(state=self.state).client(f"system:node:{self.name}")
        write_configuration(self.state, self.record, pause_archive()[0], client)
        programs = Path(self.state.bin_directory)
        labels = ",".join(f"{key}={value}" for key, value in sorted(self.record.labels.items()))
        root = self.directory / "kubelet"
        self._start("kubelet", as_machine_of(self.directory, root, [
            programs / "kubelet", "--config=kubelet.json", "--kubeconfig=kubeconfig",
            f"--hostname-override={self.name}", f"--node-ip={self.record.address}",
            f"--root-dir={root}", f"--cert-dir={root}/pki",
            # cAdvisor's flags: without them all nodes would share the machine's identity.
            f"--boot-id-file={self.directory}/boot-id", f"--machine-id-file={self.directory}/machine-id",
            *([f"--node-labels={labels}"] if labels else []),
        ]))  # fmt: skip
        self._start("kube-proxy", [programs / "kube-proxy", "--config=kube-proxy.json"])

    def await_ready(self, since: str = "") -> None:
        """Wait until the Node object is Ready, by a heartbeat after `since` (RFC 3339).

        A kubelet that ended, or whose node is not Ready after 40 s, is started once more with its runtime, as a
        machine's systemd does; what both had written until then is said, so that it is not lost with the cluster.
        """
        client = ControlPlane(state=self.state).client()

        def is_ready() -> bool:
            return client.node_is_ready(self.name, since=since)

        try:
            await_condition(
                f"node {self.name}", lambda: is_ready() or self.process("kubelet").pid() is None, _PATIENCE_S
            )
        except TimeoutError:
            say(f" ! {self.name} is not Ready: {client.node_conditions(self.name)}")
        if is_ready():
            return
        for process in (self.process("kubelet"), self.process("containerd")):
            say(
                f" ! {process.name} of {self.name}, pid {process.pid()}, starts once more; it "
                f"said:\n{process.last_lines(8)}"
            )
            process.stop()
        self.start_runtime()
        self.start_agents()
        try:
            await_condition(f"node {self.name} to be Ready", is_ready, _READY_DEADLINE_S)
        except TimeoutError as late:
            raise RuntimeError(f"{late}:\n{self.process('kubelet').last_lines()}") from late

    def freeze(self) -> None:
        """Stop the kubelet (SIGSTOP): the API server gets no more reports, the pods' processes live on."""
        if not self.process("kubelet").signal(signal.SIGSTOP):
            raise RuntimeError(f"no kubelet runs on {self.name}")

    def thaw(self) -> None:
        """Let a frozen kubelet continue (SIGCONT)."""
        if not self.process("kubelet").signal(signal.SIGCONT):
            raise RuntimeError(f"no kubelet runs on {self.name}")

    def power_off(self) -> None:
        """Kill everything that runs on the node, without a report to the API server.

        On the control plane's node the control plane itself goes on.
        """
        for process in reversed(self.processes):
            process.stop(grace_s=0)
        cgroups.kill(self.record.cgroup)
        for socket in shim_sockets(self.directory):
            socket.unlink(missing_ok=True)
        unmount_below(self.directory)
        shutil.rmtree(self.directory / CONTAINERD_STATE, ignore_errors=True)

    def power_on(self) -> None:
        """Start a node that was powered off, with a new boot id, and wait until it is Ready again."""
        since = now_rfc3339()
        self.start_runtime()
        self.start_agents()
        self.await_ready(since)

    def unplug(self) -> None:
        """Cut the node off the network: kubelet and pods live on, and reach neither API server nor brokers."""
        if self.record.role == CONTROL_PLANE:
            raise ValueError("the control plane's node cannot be unplugged")
        run(["ip", "link", "set", self.state.network.host_interface(self.record.index), "down"])

    def plug(self) -> None:
        """Connect an unplugged node again."""
        run(["ip", "link", "set", self.state.network.host_interface(self.record.index), "up"])

    def reboot(self) -> None:
        """Power off and on: pods die without a report, the boot id changes, machine id and system UUID stay.

        The boot id is the content of a file per node (`--boot-id-file`), because the kernel's is that of the machine.
        """
        self.power_off()
        self.power_on()

    def erase(self) -> None:
        """Stop the node and remove all traces of it from this machine (not the Node object)."""
        self.power_off()
        cgroups.remove(self.record.cgroup)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.state.network.disconnect_node(self.record.index)

    def pod_processes(self, pod_uid: str) -> list[int]:
        """Return the pids of a pod's containers, without the pause process; empty when nothing of it lives.

        Source: the pod's cgroup, which the kubelet names after its UID.
        """
        # cgroupfs driver: pod<uid>; the root of all pods is <cgroupRoot>/kubepods[/<qos class>].
        top = cgroups.hierarchies()[0] / self.record.cgroup / cgroups.PODS
        groups = [path.relative_to(cgroups.hierarchies()[0]) for path in top.rglob(f"pod{pod_uid}")]
        pids = [pid for group in groups for pid in cgroups.processes(str(group))]
        return sorted(pid for pid in pids if not _is_pause(pid))

    def kill_pod(self, pod_uid: str) -> None:
        """Kill the processes of a pod's containers (SIGKILL), as a crash would."""
        signal_each(self.pod_processes(pod_uid))

    def _start(self, name: str, command: list[str | Path]) -> None:
        self.process(name).start(
            command, cgroup_files=cgroups.service_files(self.record.cgroup),
            network_namespace=self.record.network_namespace,
        )  # fmt: skip


def now_rfc3339() -> str:
    """Return the time of day as the API server writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _is_pause(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"/pause\0"
    except (FileNotFoundError, ProcessLookupError):
        return True  # ended meanwhile
