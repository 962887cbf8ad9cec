"""The processes of a node, as far as its kubelet and its machine can do anything to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Processes(Protocol):
    """What a kubelet can do to processes.

    Attributes
    ----------
    on_exit: called with (node, pod_uid, container, exit_code) after a process ended, in a callback of its own; not
        called for the processes of a node that was killed, because its kubelet is gone.

    Notes
    -----
    A restored etcd may have forgotten where a pod is bound: then another node runs it too. So a process is that of a
    container of a pod on a node; where none is named, any node is meant.
    """

    on_exit: Callable[[str, str, str, int], None]

    def start(
        self,
        *,
        node: str,
        namespace: str,
        pod_name: str,
        pod_uid: str,
        container: str,
        environment: Mapping[str, str],
        address: str,
    ) -> None:
        """Start a container's process; `environment` has field references resolved, `address` is its pod's."""

    def signal(self, pod_uid: str, container: str, name: str, *, node: str = "") -> None:
        """Send TERM or KILL; nothing happens when the process does not run."""

    def freeze(self, node: str) -> None:
        """Stop every process of a node where it is: alive, but silent."""

    def thaw(self, node: str) -> None:
        """Let the processes of a node go on."""

    def kill_node(self, node: str) -> None:
        """End every process of a node at once, as a power cut does."""

    def is_running(self, pod_uid: str, container: str, *, node: str = "") -> bool:
        """Whether a process of this container runs; a frozen one does."""
