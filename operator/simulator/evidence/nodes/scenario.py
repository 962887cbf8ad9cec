"""How far one exploration of a node goes, and every exploration that there is.

Every count is a bound of the exploration, not of the product. Within them every interleaving is explored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from staticgroup.core.evidence.nodes import NodeLifecycle, NodeRules


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScenario:
    """One exploration.

    Parameters
    ----------
    says: what it is about, for the table. faults: how often each of FAULTS may happen in all.
    lifecycle, trusts_taint, asks_runtime, trusts_kubelet: as the operator is told. is_kept: whoever deletes Nodes and sets taints keeps that word.
    is_hidden: nobody saw the pod, so that a sweep has to find it. is_elsewhere: it ran on a node that came and went meanwhile.
    is_deleted: the pod may be deleted in order before its object is removed by force.
    heals: a machine that was cut off may come back.
    """

    name: str
    says: str = ""
    faults: Mapping[str, int] = field(default_factory=dict)
    lifecycle: NodeLifecycle = NodeLifecycle.UNTRUSTED
    trusts_taint: bool = False
    asks_runtime: bool = False
    trusts_kubelet: bool = False
    is_kept: bool = False
    is_hidden: bool = False
    is_elsewhere: bool = False
    is_deleted: bool = False
    heals: bool = True

    @property
    def progress(self) -> bool:
        """False: that departures end is shown by the model of the evidence."""
        return False

    @property
    def rules(self) -> NodeRules:
        """Return what the operator may conclude."""
        return NodeRules(
            lifecycle=self.lifecycle, trusts_taint=self.trusts_taint, asks_runtime=self.asks_runtime, trusts_kubelet=self.trusts_kubelet
        )


def _scenario(name: str, says: str, faults: dict[str, int], **bounds: object) -> NodeScenario:
    return NodeScenario(name=name, says=says, faults=faults, **bounds)  # type: ignore[arg-type]


_TRUSTING: dict[str, Any] = {"trusts_kubelet": True}

NODE_SCENARIOS = (
    _scenario("reaped", "a kubelet that is frozen or cut off comes back", {"partition": 1, "freeze": 1}, is_deleted=True, **_TRUSTING),
    _scenario("rebooted", "and the machine is booted again, its kubelet told by an API server that is behind", {"partition": 1, "reboot": 1}, **_TRUSTING),
    _scenario("stuck", "a kill that hung before the object went; only a reboot ends it", {"hang": 1, "reboot": 1}, is_deleted=True, **_TRUSTING),
    _scenario(
        "stuck unseen", "the same where the operator hears of a boot long after it began", {"hang": 1, "reboot": 1, "restart": 1},
        is_deleted=True, **_TRUSTING,
    ),
    _scenario("replaced", "another machine takes the Node over while the first one is cut off", {"partition": 1, "replacement": 1}, **_TRUSTING),
    _scenario(
        "replaced unseen",
        "the same while the operator is away; the first one stays cut off",
        {"partition": 1, "replacement": 1, "restart": 1},
        heals=False,
        **_TRUSTING,
    ),
    _scenario("operator restarts", "what is remembered is merged with what is there", {"reboot": 1, "restart": 1}, **_TRUSTING),
    _scenario("node deleted", "`kubectl delete node` on a machine that is cut off", {"partition": 1, "node deletion": 1}, **_TRUSTING),
    _scenario(
        "node deleted by its cloud",
        "a Node goes only after its machine",
        {"partition": 1, "power-off": 1, "node deletion": 1},
        lifecycle=NodeLifecycle.CLOUD,
        is_kept=True,
    ),
    _scenario("tainted", "an out-of-service taint on a machine that is cut off", {"partition": 1, "taint": 1}, **_TRUSTING),
    _scenario(
        "tainted, trusted",
        "the same taint by people who keep their word",
        {"partition": 1, "power-off": 1, "taint": 1},
        trusts_taint=True,
        is_kept=True,
    ),
    _scenario(
        "hung kill", "a kill hangs on a node that looks well, and its runtime is asked", {"partition": 1, "late hang": 1}, asks_runtime=True
    ),
    _scenario("nobody asked", "the same, where neither its runtime is asked nor its kubelet trusted", {"late hang": 1, "reboot": 1}),
    _scenario(
        "runtime replaced", "a kubelet that goes on with another container runtime, which is asked", {"runtime": 1, "reboot": 1},
        asks_runtime=True,
    ),
    _scenario(
        "sweep, runtime replaced", "the same, of a pod that nobody saw", {"runtime": 1}, asks_runtime=True, is_hidden=True
    ),
    _scenario(
        "sweep", "a pod that nobody saw, on a node that may be cut off", {"partition": 1, "freeze": 1, "late hang": 1}, asks_runtime=True,
        is_hidden=True,
    ),
    _scenario(
        "sweep, rebooted", "the same, and the node is booted again", {"partition": 1, "reboot": 1}, asks_runtime=True, is_hidden=True
    ),
    _scenario(
        "sweep, replaced", "the same, and another machine takes the Node over", {"partition": 1, "replacement": 1}, asks_runtime=True,
        is_hidden=True,
    ),
    _scenario(
        "sweep, came and went", "a pod that nobody saw, on a node that came and went meanwhile", {"partition": 1}, asks_runtime=True,
        is_hidden=True, is_elsewhere=True,
    ),
    _scenario(
        "sweep, came and went by its cloud",
        "the same where a Node goes only after its machine",
        {"power-off": 1},
        lifecycle=NodeLifecycle.CLOUD,
        asks_runtime=True,
        is_kept=True,
        is_hidden=True,
        is_elsewhere=True,
    ),
)  # fmt: skip
"""Everything that must be safe."""

NOTHING_IS_PROVEN = frozenset({"nobody asked", "sweep, came and went"})
"""Where no certificate may come at all."""

NODE_ASSUMPTIONS = (
    _scenario(
        "a name of two machines for a moment",
        "another machine takes the Node's name over, starts the pod and is cut off before it has told its Node who it is",
        {"partition": 2, "replacement": 1},
        **_TRUSTING,
    ),
    _scenario("a kill that hangs unasked", "trustKubelet where a kill hangs on a node that looks well", {"late hang": 1}, **_TRUSTING),
    _scenario(
        "a cloud that deletes a Node first", "nodeLifecycle Cloud where a Node goes before its machine",
        {"partition": 1, "node deletion": 1}, lifecycle=NodeLifecycle.CLOUD,
    ),
    _scenario(
        "a taint that is not true", "trustOutOfServiceTaint where the machine is only cut off", {"partition": 1, "taint": 1},
        trusts_taint=True,
    ),
)  # fmt: skip
"""What the rules rest on: without each of these the model finds a living member removed."""
