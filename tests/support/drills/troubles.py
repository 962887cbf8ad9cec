"""What befalls a node in a drill, how it ends, and what the operator may conclude from nodes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from staticgroup.core.members.node_gone import CLOUDS
from support.devcluster.node import Node, now_rfc3339
from support.drills.api import Api
from support.waiting import until

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}
"""This effect evicts no pod, so that only a drill's own deletions count; operators and PodGC read the key alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the operator may conclude from nodes.

    Parameters
    ----------
    node_lifecycle: chart value `evidence.nodeLifecycle`.
    provider_id: the node's spec.providerID; "" when it has none.
    """

    node_lifecycle: str = "Auto"
    provider_id: str = ""

    @property
    def trusts_deletion(self) -> bool:
        """True when the deletion of a Node proves that its machine is off."""
        return self.node_lifecycle in ("Cloud", "Fixed") or (
            self.node_lifecycle == "Auto" and self.provider_id.partition(":")[0] in CLOUDS
        )

    def values(self, node: Node, replicas: int) -> dict[str, Any]:
        """Return chart values; the operator is kept off the node that fails."""
        return {
            "replicaCount": replicas,
            "nodeSelector": {"kubernetes.io/hostname": f"{node.state.name}-control-plane"},
            "evidence": {"nodeLifecycle": self.node_lifecycle},
        }


class Trouble(StrEnum):
    """How a node fails. Pods' processes live on, but with OFF."""

    FROZEN = "frozen"
    """The kubelet stands still."""
    KUBELET_STOPPED = "kubelet stopped"
    """The kubelet is gone, as while it is upgraded."""
    RUNTIME_STOPPED = "runtime stopped"
    """containerd is gone, and its shims hold the containers: the kubelet learns of everything and can end nothing."""
    UNPLUGGED = "unplugged"
    """The node is cut off, brokers included."""
    OFF = "off"
    """The machine has no power."""

    def begin(self, node: Node) -> None:
        """Let a node fail."""
        match self:
            case Trouble.FROZEN:
                node.freeze()
            case Trouble.KUBELET_STOPPED:
                node.process("kubelet").stop(grace_s=0)
            case Trouble.RUNTIME_STOPPED:
                node.process("containerd").stop(grace_s=0)
            case Trouble.UNPLUGGED:
                node.unplug()
            case Trouble.OFF:
                node.power_off()

    def end(self, node: Node) -> None:
        """Let the node work again, and wait until it is Ready."""
        repair(node)


def repair(node: Node) -> None:
    """Let a node work again, whatever befell it, and wait until it is Ready."""
    since = now_rfc3339()
    with suppress(RuntimeError):  # its kubelet is gone
        node.thaw()
    node.plug()
    node.start_runtime()
    node.start_agents()
    node.await_ready(since)


def reboot(node: Node) -> None:
    """Boot a node again, whatever befell it before."""
    node.plug()
    node.reboot()


@contextmanager
def out_of_service(node: Node, api: Api) -> Iterator[None]:
    """Say by a taint that a node is off meanwhile, as its owner would."""
    set_taint(node, api, is_set=True)
    try:
        yield
    finally:
        set_taint(node, api, is_set=False)


def set_taint(node: Node, api: Api, *, is_set: bool) -> None:
    """Put a node out of service, or into service again."""
    others = [
        t for t in api.get("Node", node.name).get("spec", {}).get("taints", []) if t["key"] != OUT_OF_SERVICE["key"]
    ]
    api.patch("Node", node.name, "", {"spec": {"taints": [*others, *([OUT_OF_SERVICE] if is_set else [])]}})


def await_not_ready(node: Node, api: Api) -> None:
    """Wait until the API server's controllers have given up on a node."""
    client = api.cluster.client
    until(lambda: not client.node_is_ready(node.name), deadline_s=60, what=f"{node.name} not Ready", poll_s=0.3)


def register_again(node: Node) -> None:
    """Have a node whose object was deleted make it again: a kubelet does that only when it starts."""
    with suppress(RuntimeError):
        node.thaw()
    node.process("kubelet").stop(grace_s=0)
    repair(node)
