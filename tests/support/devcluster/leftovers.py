"""What a cluster leaves on the machine, found by looking at the machine and not at what we believe we removed.

The one idea: every kernel object of a cluster carries its short id or lies below its directory, so all of it can be
listed and removed without a state file. Tests demand that the list is empty after `down`.
"""

from pathlib import Path

from . import cgroups, network
from .layout import cluster_directory, cluster_id
from .machine import mounts_below, unmount_below
from .node_configuration import CONTAINERD_STATE

_CNI_RESULTS = Path("/var/lib/cni/results")
_CONTAINER_LOGS = Path("/var/log/containers")


def leftovers(name: str) -> list[str]:
    """List everything of a cluster that is on this machine, in words; empty when there is nothing.

    Looks for processes (by cgroup, and by command line), cgroups, mounts, bridge, interfaces, network namespaces,
    routes, sockets of container shims, CNI results, container log links and the cluster's directory.
    """
    identity, directory = cluster_id(name), cluster_directory(name)
    group = f"staticgroup-{identity}"
    found = [f"process {pid} in the cluster's cgroup" for pid in cgroups.processes(group)]
    found += [f"process {pid}: {command}" for pid, command in _processes_that_name(directory)]
    found += [f"cgroup {path}" for path in cgroups.existing(group)]
    found += [f"mount {point}" for point in mounts_below(directory)]
    found += network.leftovers(identity)
    found += [f"file {path}" for path in _machine_files(name)]
    return found + ([f"directory {directory}"] if directory.exists() else [])


def remove_leftovers(name: str) -> None:
    """Remove all that `leftovers` lists, but the directory: processes first, cgroups last."""
    group = f"staticgroup-{cluster_id(name)}"
    cgroups.kill(group)
    for path in _machine_files(name):
        path.unlink(missing_ok=True)
    unmount_below(cluster_directory(name))
    network.remove(cluster_id(name))
    cgroups.remove(group)


def shim_sockets(node_directory: Path) -> list[Path]:
    """Return the sockets of a node's container shims: containerd keeps them outside its directories."""
    addresses = (node_directory / CONTAINERD_STATE / "io.containerd.runtime.v2.task").glob("*/*/address")
    sockets = [Path(address.read_text().strip().removeprefix("unix://")) for address in addresses]
    return [path for path in sockets if path.exists()]


def _machine_files(name: str) -> list[Path]:
    """Return a cluster's files in directories that belong to the machine."""
    directory = cluster_directory(name)
    found = [path for node in directory.iterdir() for path in shim_sockets(node)] if directory.exists() else []
    prefix = f"sg-{cluster_id(name)}-"
    for result in _CNI_RESULTS.glob(f"{prefix}*-eth0"):
        sandbox = result.name.removeprefix(prefix).removesuffix("-eth0")
        loopback = result.with_name(f"cni-loopback-{sandbox}-lo")
        found += [loopback, result] if loopback.exists() else [result]
    if _CONTAINER_LOGS.exists():
        links = [path for path in _CONTAINER_LOGS.iterdir() if path.is_symlink()]
        found += [path for path in links if path.readlink().is_relative_to(directory)]
    return sorted(set(found))


def _processes_that_name(directory: Path) -> list[tuple[int, str]]:
    """Return the processes whose program or first arguments lie below a directory, with their command lines."""
    found = []
    prefix = f"{directory}/"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        is_ours = words[0].rpartition("/")[2].startswith(("containerd", "kube", "etcd", "runc", "nsenter"))
        if is_ours and any(prefix in word for word in words):
            found.append((int(path.parent.name), " ".join(words)[:120]))
    return found
