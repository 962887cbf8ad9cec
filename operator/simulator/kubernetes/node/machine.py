"""A node's machine and its kubelet process: each can stop without the other, and the network without both.

Sources: kubelet_node_status.go (a Node is registered when a kubelet starts, and only then), nodelease (every 10 s),
nodeInfo.bootID (new at each boot; machineID and systemUUID stay).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, Final

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import LEASES, NODES, is_true, micro_time_text, with_condition
from .processes import Processes
from .timings import NodeTimings

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_EVERY_S: Final = 10.0


class Machine(ABC):
    """One node without its pods.

    Attributes
    ----------
    is_on: the machine has power and has booted.
    is_frozen: the kubelet process is stopped (SIGSTOP); processes of pods are not.
    is_cut: no connection to the API server.
    is_replaced: another machine has its name, and the API server listens to that one.
    host: what its processes run on; the name of its Node, unless another machine had that before.
    clock_off_s: its clock is ahead by so much; it dates the beginnings and ends of containers.
    provider: scheme of the providerID of its Node; "": it has none.
    """

    def __init__(
        self,
        server: ApiServer,
        loop: SimulationLoop,
        processes: Processes,
        *,
        name: str,
        rng: Random,
        trace: Trace,
        timings: NodeTimings,
        version: str = "v1.36.3",
        host: str = "",
        provider: str = "",
    ) -> None:
        self.name = name
        self.provider = provider
        self.host = host or name
        self.version = version
        self.boot_count = 1
        self.is_on = True
        self.is_frozen = False
        self.is_cut = False
        self.is_replaced = False
        self.clock_off_s = 0.0
        self.timings = timings
        self._server = server
        self._loop = loop
        self._processes = processes
        self._rng = rng
        self._trace = trace
        self._generation = 0
        self._is_started = False
        self._held: list[Callable[[], None]] = []

    @abstractmethod
    def _resync(self) -> None:
        """Compare everything with the API server, as after a new LIST."""

    @abstractmethod
    def _lose_processes(self) -> None:
        """Take note, in the runtime's records, that the power was cut."""

    @abstractmethod
    def _forget_all(self) -> None:
        """Lose what only the kubelet process knew."""

    def _clock_s(self) -> float:
        """Return the time by the node's clock."""
        return self._loop.time() + self.clock_off_s

    # -- the machine and the kubelet process

    @property
    def is_working(self) -> bool:
        """True while the kubelet process runs."""
        return self.is_on and not self.is_frozen and self._is_started

    @property
    def is_connected(self) -> bool:
        """True while the kubelet runs and reaches the API server."""
        return self.is_working and not self.is_cut and not self.is_replaced

    def freeze_kubelet(self) -> None:
        """Stop the kubelet process where it is; the pods' processes run on."""
        self._note("kubelet frozen")
        self.is_frozen = True

    def thaw_kubelet(self) -> None:
        """Let the kubelet process go on; what it should have done meanwhile it does now."""
        self._note("kubelet thawed")
        self.is_frozen = False
        held, self._held = self._held, []
        for action in held:
            self._loop.world_call_later(self._draw(self.timings.reaction_s), action)
        self._later(self._draw(self.timings.reaction_s), self._resync)

    def freeze(self) -> None:
        """Stop the whole machine: kubelet and processes are silent, but alive."""
        self._processes.freeze(self.host)
        self.freeze_kubelet()

    def thaw(self) -> None:
        """Let the machine go on."""
        self._processes.thaw(self.host)
        self.thaw_kubelet()

    def cut(self) -> None:
        """Separate the node from the API server."""
        self._note("cut off from the API server")
        self.is_cut = True

    def heal(self) -> None:
        """Connect the node to the API server again."""
        self._note("connected to the API server")
        self.is_cut = False
        self._later(self._draw(self.timings.reaction_s), self._resync)

    def replaced(self) -> None:
        """Lose the node's name to another machine; pods that run here run on, and nothing reports it."""
        self._note("name taken over")
        self.is_replaced = True

    def takes_back(self) -> None:
        """Get the node's name back, as the same machine in the same boot."""
        self._note("name taken back")
        self.is_replaced = False
        self.heal()
        self._later(self._draw(self.timings.reaction_s), self._register)

    def restart_kubelet(self, down_s: float = 1.0) -> None:
        """End the kubelet process and start another; processes of pods are not touched."""
        self._note("kubelet restarts")
        self._stop_kubelet()
        self.is_frozen = False
        self._loop.world_call_later(down_s, self._launch, self._generation)

    def power_off(self) -> None:
        """Cut the power: every process ends, and no status says so."""
        self._note("power off")
        self._processes.kill_node(self.host)
        self._lose_processes()
        self._stop_kubelet()
        self.is_on = self.is_frozen = False

    def power_on(self) -> None:
        """Boot the machine, with a new boot id."""
        self._note("booted")
        self.boot_count += 1
        self.is_on = True
        self._launch(self._generation)

    def reboot(self, down_s: float = 30.0) -> None:
        """Power off, and on again after a while."""
        self.power_off()
        self._loop.world_call_later(down_s, self.power_on)

    def _stop_kubelet(self) -> None:
        self._generation += 1
        self._is_started = False
        self._held.clear()
        self._forget_all()

    def _launch(self, generation: int | None = None) -> None:
        if not self.is_on or (generation is not None and generation != self._generation):
            return
        self._is_started = True
        self._register()
        self._heartbeat()
        self._resync()

    def _later(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        """Do something later, unless this kubelet process has ended by then; a frozen one does it when it goes on."""
        generation = self._generation

        def due() -> None:
            if generation != self._generation:
                return
            if self.is_frozen:
                self._held.append(due)
            else:
                action(*arguments)

        return self._loop.world_call_later(delay_s, due)

    def _draw(self, bounds_s: tuple[float, float]) -> float:
        low, high = bounds_s
        return low + (high - low) * self._rng.random()

    def _note(self, what: str, **facts: object) -> None:
        self._trace.add(self._loop.time(), f"kubelet/{self.host}", what, **facts)

    # -- Node and Lease

    def _register(self) -> None:
        if not self.is_connected:
            return
        if self._server.get(NODES, "", self.name) is None:
            labels = {"kubernetes.io/hostname": self.name}
            spec = {"providerID": f"{self.provider}://zone/{self.host}"} if self.provider else {}
            self._server.create(NODES, {"metadata": {"name": self.name, "labels": labels}, "spec": spec})
            self._note("node registered")
        self._post_node()

    def _post_node(self) -> None:
        node = self._server.get(NODES, "", self.name)
        if node is None:
            return
        status = node.get("status") or {}
        conditions = with_condition(
            status.get("conditions") or [],
            "Ready",
            "True",
            self._loop.time(),
            reason="KubeletReady",
            message="kubelet is posting ready status",
        )
        info = {
            "machineID": f"machine-{self.host}",
            "systemUUID": f"system-{self.host}",
            "bootID": f"boot-{self.host}-{self.boot_count}",
            "kubeletVersion": self.version,
        }
        self._server.patch_status(NODES, node, {"conditions": conditions, "nodeInfo": info})

    def _heartbeat(self) -> None:
        self._later(LEASE_EVERY_S * (1 + 0.04 * self._rng.random()), self._heartbeat)
        if not self.is_connected:
            return
        node = self._server.get(NODES, "", self.name)
        if node is None:
            return  # a kubelet registers its Node only when it starts
        spec = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": 40,
            "renewTime": micro_time_text(self._loop.time()),
        }
        metadata = {"namespace": LEASE_NAMESPACE, "name": self.name}
        if self._server.get(LEASES, LEASE_NAMESPACE, self.name) is None:
            self._server.create(LEASES, {"metadata": metadata, "spec": spec})
        else:
            self._server.update(LEASES, {"metadata": metadata, "spec": spec})
        if not is_true(node, "Ready"):
            self._post_node()
