"""The texts by which a kubelet tells which machine it runs on: a node's own, although all nodes share one machine.

A kubelet takes two of them from files named by flags. The third, the system UUID, it reads where the firmware
or the distribution has it, so it sees a node's own there: in a mount namespace, from which nothing but its pods'
volumes is seen outside. Source: cAdvisor's GetSystemUUID (utils/sysfs), which takes the first of these files that it
can read.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path

from .machine import mounts_below
from .process import run

_SYSTEM_UUID_FILES = (Path("/sys/class/dmi/id/product_uuid"), Path("/etc/machine-id"))
# A mount that is shared with the machine would be seen by everybody; one that is a slave still sees what others mount.
_ENTER = (
    'for point in / /sys; do mount --make-slave "$point" || true; done; mount --bind "$1" "$2" && shift 2 && exec "$@"'
)


def write_identity(directory: Path, name: str) -> None:
    """Write a new `boot-id`, `machine-id` or `system-uuid` of a node into its directory."""
    identity = str(uuid.uuid4())
    (directory / name).write_text((identity.replace("-", "") if name == "machine-id" else identity) + "\n")


def as_machine_of(directory: Path, kubelet_root: Path, command: Sequence[str | Path]) -> list[str | Path]:
    """Return a kubelet's command such that it finds the system UUID of a node's directory."""
    kubelet_root.mkdir(parents=True, exist_ok=True)
    if str(kubelet_root) not in map(str, mounts_below(directory)):
        # Volumes that the kubelet mounts there have to be seen by the container runtime, outside.
        run(["mount", "--bind", kubelet_root, kubelet_root])
        run(["mount", "--make-rshared", kubelet_root])
    shown = next((path for path in _SYSTEM_UUID_FILES if path.exists()), _SYSTEM_UUID_FILES[-1])
    place = ["unshare", "--mount", "--propagation", "unchanged", "--", "sh", "-c", _ENTER, "sh"]
    return [*place, directory / "system-uuid", shown, *command]
