"""What the machine itself must offer, and what the cluster changes on it.

The one idea: say what is missing in one line before anything is started, and give back what was changed. The kubelet
sets a few kernel settings of the whole machine; they are noted before the first cluster and restored after the last.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from .progress import step

# Program that must be there → Debian package that has it.
PACKAGES = {
    "containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "conntrack": "conntrack",
    "ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl", "cc": "gcc", "buildah": "buildah",
    "debootstrap": "debootstrap", "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/usr/include/stdio.h": "libc6-dev",
}  # fmt: skip
CNI_PROGRAMS = Path("/usr/lib/cni")

# Source: kubelet, pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables.
_KERNEL_SETTINGS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)  # fmt: skip
# Paths that are constants in kubelet, containerd and CNI, so that all clusters of a machine share them.
_SHARED_DIRECTORIES = ("/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd")
_NOTE = ".machine.json"


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are not on this machine."""
    lacking = {
        package
        for program, package in PACKAGES.items()
        if not (Path(program).exists() if program.startswith("/") else shutil.which(program))
    }
    return sorted(lacking)


def ensure_requirements() -> None:
    """Install the missing distribution packages, or name them."""
    packages = missing_packages()
    if os.geteuid() != 0:
        also = f"; these packages are missing too: {' '.join(packages)}" if packages else ""
        raise RuntimeError(f"the development cluster needs root (network namespaces, mounts, cgroups){also}")
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"install these packages (Debian names): {' '.join(packages)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"apt-get install {' '.join(packages)}"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        for command in (["apt-get", "update", "-qq"], install):
            done = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0 and command is install:
                raise RuntimeError(f"apt-get install failed: {done.stdout.decode(errors='replace')[-1500:]}")


def note_changes(root: Path) -> None:
    """Write down what the first cluster will change on the machine, unless a running cluster already did."""
    note = root / _NOTE
    if note.exists():
        return
    settings = {name: (Path("/proc/sys") / name).read_text().strip() for name in _KERNEL_SETTINGS}
    absent = [directory for directory in _SHARED_DIRECTORIES if not Path(directory).exists()]
    root.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"settings": settings, "absent": absent}))


def restore_changes(root: Path) -> None:
    """Give the machine back as it was before the first cluster: kernel settings and directories that were not there."""
    note = root / _NOTE
    if not note.exists():
        return
    before = json.loads(note.read_text())
    for name, value in before["settings"].items():
        path = Path("/proc/sys") / name
        if path.read_text().strip() != value:
            path.write_text(value)
    for directory in before["absent"]:
        _remove_if_unused(Path(directory))
    note.unlink()


def _remove_if_unused(directory: Path) -> None:
    """Remove a directory tree that has nothing in it but directories and the kubelet's own empty marks."""
    for name in ("kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"):
        (directory / "device-plugins" / name).unlink(missing_ok=True)
    below = [path for path in directory.rglob("*") if path.is_dir() and not path.is_symlink()]
    for path in [*sorted(below, key=lambda path: -len(path.parts)), directory]:
        try:
            path.rmdir()
        except OSError:
            continue  # another program uses it


def mounts_below(directory: Path) -> list[str]:
    """Return the mount points below a directory, the innermost first. Source: proc(5), mountinfo field 5."""
    prefix = f"{directory}/"
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    decoded = [point.encode().decode("unicode_escape") for point in points]
    return [point for point in reversed(decoded) if point.startswith(prefix)]


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory."""
    for point in mounts_below(directory):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
