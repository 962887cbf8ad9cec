"""One cgroup per node: where its pods live and where everything it started can be found.

The one idea: `<hierarchy>/<cluster>/<node>` is the kubelet's cgroup root (pods go below it) and has a sibling for the
node's own services. Whatever a node ever started is in one of the two, so a node is killed completely, by pid, without
guessing from process names. Works on cgroup v1 (one directory per hierarchy) and v2 (one directory).
"""

from functools import partial
from pathlib import Path

from .process import signal_each, start_time_ticks
from .progress import await_condition

_MOUNT = Path("/sys/fs/cgroup")
SERVICES = "services"
PODS = "pods"
_V2_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")


def is_v2() -> bool:
    """Return whether the machine uses cgroup v2 only."""
    return (_MOUNT / "cgroup.controllers").exists()


def hierarchies() -> tuple[Path, ...]:
    """Return the root directory of every cgroup hierarchy; the one that is used to find processes comes first."""
    if is_v2():
        return (_MOUNT,)
    roots = [path for path in sorted(_MOUNT.iterdir()) if path.is_dir() and not path.is_symlink()]
    usable = [path for path in roots if (path / "cgroup.procs").exists()]
    return tuple(sorted(usable, key=lambda path: path.name != "pids"))


def create(group: str) -> None:
    """Create a cgroup (path relative to the hierarchy's root) in every hierarchy."""
    for root in hierarchies():
        directory = root
        for part in Path(group).parts:
            if is_v2():
                _delegate(directory)
            directory = directory / part
            directory.mkdir(exist_ok=True)
            if root.name == "cpuset" and not is_v2():
                _inherit_cpuset(directory)
        if is_v2() and Path(group).name == PODS:
            _delegate(directory)


def _delegate(directory: Path) -> None:
    available = (directory / "cgroup.controllers").read_text().split()
    for controller in _V2_CONTROLLERS:
        if controller in available:
            (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(directory: Path) -> None:
    """Fill a new v1 cpuset from its parent: a process cannot enter an empty one."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (directory / name).read_text().strip():
            (directory / name).write_text((directory.parent / name).read_text())


def service_files(node_group: str) -> list[Path]:
    """Return the files through which a service process enters the node's service cgroup."""
    return [hierarchies()[0] / node_group / SERVICES / "cgroup.procs"]


def processes(group: str) -> list[int]:
    """Return the pids of all live processes in a cgroup and below it."""
    root = hierarchies()[0] / group
    pids: set[int] = set()
    for listing in [root / "cgroup.procs", *root.rglob("cgroup.procs")]:
        try:
            pids.update(int(line) for line in listing.read_text().split())
        except (FileNotFoundError, OSError):
            continue  # the group ended meanwhile
    return sorted(pid for pid in pids if pid > 0 and start_time_ticks(pid) is not None)


def kill(group: str, *, deadline_s: float = 20.0) -> None:
    """Kill everything in a cgroup and below, again and again until nothing is left."""

    def is_empty() -> bool:
        left = processes(group)
        signal_each(left)
        return not left

    await_condition(f"cgroup {group} to be empty", is_empty, deadline_s, poll_s=0.05)


def remove(group: str) -> None:
    """Remove an empty cgroup and all below it from every hierarchy."""
    for root in hierarchies():
        top = root / group
        if not top.exists():
            continue
        below = [path for path in top.rglob("*") if path.is_dir()]
        for directory in [*sorted(below, key=lambda path: -len(path.parts)), top]:
            await_condition(f"cgroup {directory} to go", partial(_removed, directory), 10.0)


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # EBUSY: the kernel still reaps a process that was just killed
    return True


def existing(group: str) -> list[Path]:
    """Return the directories of a cgroup that exist, one per hierarchy at most."""
    return [root / group for root in hierarchies() if (root / group).exists()]
