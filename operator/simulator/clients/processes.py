"""The processes that really run: the ground truth which only clients and oracles may look at.

A container start makes a process; what it does is its program. Processes die, freeze and thaw as an operating system
does it (`engine.loop.Process`): SIGKILL ends a frozen process at once, SIGTERM waits until it runs again, and what a
process has sent stays on the wire when it dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..engine.loop import Process, SimulationLoop
from ..engine.trace import Trace
from ..kafka.network import KafkaLink

SIGKILL_EXIT_CODE = 137
"""128 + 9: what a container runtime reports for a process that SIGKILL ended."""


class Program(Protocol):
    """What a container runs."""

    async def run(self, process: ContainerProcess) -> int:
        """Run until the program ends by itself and return its exit code."""


class Idle:
    """A program that does nothing and ends on SIGTERM, such as a sidecar."""

    async def run(self, process: ContainerProcess) -> int:
        """Wait for SIGTERM."""
        process.become_ready()
        await process.terminating.wait()
        return 0


@dataclass(eq=False, slots=True, kw_only=True)
class ContainerProcess:
    """One run of one container.

    Parameters
    ----------
    started_s, ended_s: virtual seconds; ended_s None while it runs.
    terminating: set when SIGTERM has reached the process.
    address: as brokers see it; "" of one that has none of its own.
    is_cut_off: its node has no way to the brokers.
    links: its ways to the brokers, one for each client.
    watchers: called when it froze, thawed, ended, or lost or regained the network.
    """

    node: str
    namespace: str
    pod_name: str
    pod_uid: str
    container: str
    environment: Mapping[str, str]
    address: str
    started_s: float
    system: Process
    loop: SimulationLoop
    terminating: asyncio.Event = field(default_factory=asyncio.Event)
    ended_s: float | None = None
    exit_code: int | None = None
    is_cut_off: bool = False
    links: list[KafkaLink] = field(default_factory=list)
    watchers: list[Callable[[], None]] = field(default_factory=list)
    on_ready: Callable[[], None] = field(default=lambda: None)

    @property
    def name(self) -> str:
        """The pod's name, and the container's unless it says the same."""
        return f"{self.pod_name}/{self.container}"

    @property
    def is_alive(self) -> bool:
        """True until it ended, frozen or not."""
        return self.ended_s is None

    @property
    def is_working(self) -> bool:
        """True while it runs and is not frozen."""
        return self.ended_s is None and not self.system.is_frozen

    def was_alive(self, at_s: float) -> bool:
        """Whether it ran at a moment."""
        return self.started_s <= at_s and (self.ended_s is None or at_s < self.ended_s)

    def spawn(self, main: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this process; a bug in it fails the simulation."""
        task = self.system.start(main, name=name)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.fail(error)

    def become_ready(self) -> None:
        """Mark the program as started up."""
        self.on_ready()

    def notify(self) -> None:
        """Notify the watchers that something about the process has changed."""
        for watcher in self.watchers:
            watcher()


class ProcessTable:
    """All processes of all nodes, past ones included.

    Parameters
    ----------
    program_of: chooses what a started container runs.
    creator_of: returns the Kafka client whose request created a member id; raises KeyError for an unknown one.
    translate: what brokers see of a process on a node, and of the address of its pod.

    Attributes
    ----------
    history: every process ever started, in order.
    on_start: called with each process when it has been started.
    on_exit: see `kubernetes.node.processes.Processes`. on_ready: called with (node, pod_uid, container) when a program
        has started up.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        *,
        program_of: Callable[[ContainerProcess], Program],
        creator_of: Callable[[str], KafkaLink],
        trace: Trace | None = None,
        translate: Callable[[str, str], str] = lambda node, address: address,
    ) -> None:
        self.history: list[ContainerProcess] = []
        self.on_start: list[Callable[[ContainerProcess], None]] = []
        self.on_exit: Callable[[str, str, str, int], None] = lambda node, pod_uid, container, exit_code: None
        self.on_ready: Callable[[str, str, str], None] = lambda node, pod_uid, container: None
        self._loop = loop
        self._program_of = program_of
        self._creator_of = creator_of
        self._translate = translate
        self._trace = trace
        self._running: dict[tuple[str, str, str], ContainerProcess] = {}
        self._frozen_nodes: set[str] = set()
        self._cut_off_nodes: set[str] = set()

    # what a kubelet does ----------------------------------------------------------------------------------------

    def start(
        self,
        *,
        node: str,
        namespace: str,
        pod_name: str,
        pod_uid: str,
        container: str,
        environment: Mapping[str, str],
        address: str = "",
    ) -> None:
        """Start a container's process; `environment` has field references resolved, `address` is its pod's."""
        key = (node, pod_uid, container)
        if key in self._running:
            raise ValueError(f"container {container!r} of pod {pod_name} ({pod_uid}) runs already on {node}")
        process = ContainerProcess(
            node=node,
            namespace=namespace,
            pod_name=pod_name,
            pod_uid=pod_uid,
            container=container,
            environment=dict(environment),
            address=self._translate(node, address),
            started_s=self._loop.time(),
            system=self._loop.process(f"{pod_name}/{container}"),
            loop=self._loop,
        )
        process.is_cut_off = node in self._cut_off_nodes
        process.on_ready = lambda: self.on_ready(node, pod_uid, container)
        self._running[key] = process
        self.history.append(process)
        self._tell(process, "process started")
        for hook in self.on_start:
            hook(process)
        process.spawn(self._main(process), name=process.name)
        if node in self._frozen_nodes:
            process.system.freeze()

    def signal(self, pod_uid: str, container: str, name: str, *, node: str = "") -> None:
        """Send TERM or KILL; nothing happens when the process does not run. node: on which; "": on all."""
        if name not in ("TERM", "KILL"):
            raise ValueError(f"no signal {name!r} here")
        for process in self._of(pod_uid, container, node):
            if name == "KILL":
                self._end(process, SIGKILL_EXIT_CODE)
            else:
                process.terminating.set()

    def freeze(self, node: str) -> None:
        """Stop every process of a node where it is: alive, but silent; also those started there until `thaw`."""
        self._frozen_nodes.add(node)
        for process in self._on(node):
            process.system.freeze()
            process.notify()

    def thaw(self, node: str) -> None:
        """Let the processes of a node go on."""
        self._frozen_nodes.discard(node)
        for process in self._on(node):
            process.system.thaw()
            process.notify()

    def cut_off(self, node: str) -> None:
        """Take a node's way to the brokers away: its clients go on, unheard; also those started there later."""
        self._cut_off_nodes.add(node)
        self._set_cut_off(node, True)

    def reconnect(self, node: str) -> None:
        """Give a node its way to the brokers back."""
        self._cut_off_nodes.discard(node)
        self._set_cut_off(node, False)

    def kill_node(self, node: str) -> None:
        """End every process of a node at once, as a power cut does; `on_exit` is not called."""
        self._frozen_nodes.discard(node)
        for process in self._on(node):
            self._end(process, SIGKILL_EXIT_CODE, reaches_node=False)

    def is_running(self, pod_uid: str, container: str, *, node: str = "") -> bool:
        """Whether a process of this container runs; a frozen one does. node: on which; "": on any."""
        return bool(self._of(pod_uid, container, node))

    # what oracles ask ---------------------------------------------------------------------------------------------

    def running(self) -> tuple[ContainerProcess, ...]:
        """Return the processes that run now, in the order of their start."""
        return tuple(self._running.values())

    def creator(self, member_id: str) -> ContainerProcess | None:
        """Return the process whose client created a member id; None: a client outside the table did.

        Raises
        ------
        KeyError: no client ever created this member id.
        """
        owner = self._creator_of(member_id).owner
        return owner if isinstance(owner, ContainerProcess) else None

    def alive(self, member_id: str, at_s: float | None = None) -> bool:
        """Whether the process that created a member id ran at a moment; by default now.

        Returns
        -------
        True also for a member that no process of the table created: nothing here can prove it dead.
        """
        process = self.creator(member_id)
        return process is None or process.was_alive(self._loop.time() if at_s is None else at_s)

    def pod_alive(self, member_id: str, at_s: float | None = None) -> bool:
        """Whether any process of the pod that created a member id ran at a moment; by default now."""
        process = self.creator(member_id)
        if process is None:
            return True
        at_s = self._loop.time() if at_s is None else at_s
        return any(p.pod_uid == process.pod_uid and p.was_alive(at_s) for p in self.history)

    # the inside ---------------------------------------------------------------------------------------------------

    def _set_cut_off(self, node: str, is_cut_off: bool) -> None:
        for process in self._on(node):
            process.is_cut_off = is_cut_off
            process.notify()

    def _of(self, pod_uid: str, container: str, node: str) -> list[ContainerProcess]:
        if node:
            process = self._running.get((node, pod_uid, container))
            return [] if process is None else [process]
        return [p for p in self._running.values() if (p.pod_uid, p.container) == (pod_uid, container)]

    def _on(self, node: str) -> list[ContainerProcess]:
        return [process for process in self._running.values() if process.node == node]

    async def _main(self, process: ContainerProcess) -> None:
        exit_code = await self._program_of(process).run(process)
        self._end(process, exit_code)

    def _end(self, process: ContainerProcess, exit_code: int, *, reaches_node: bool = True) -> None:
        del self._running[process.node, process.pod_uid, process.container]
        process.ended_s, process.exit_code = self._loop.time(), exit_code
        process.system.kill()
        self._tell(process, "process ended", exit_code=exit_code)
        process.notify()
        if reaches_node:
            self._loop.world_call_later(0.0, self.on_exit, process.node, process.pod_uid, process.container, exit_code)

    def _tell(self, process: ContainerProcess, what: str, **facts: object) -> None:
        if self._trace is not None:
            self._trace.add(
                self._loop.time(),
                f"process/{process.node}",
                what,
                pod=process.pod_name,
                container=process.container,
                uid=process.pod_uid,
                **facts,
            )
