"""A whole cluster: API server, controllers, nodes and users, made once and wired here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol, runtime_checkable

from staticgroup.api.names import SLOTS_NAME

from ..engine.loop import SimulationLoop
from ..engine.trace import Trace
from .admission import webhook_configuration
from .api_server import ApiServer
from .controllers.deployment import DeploymentController
from .controllers.garbage_collector import GarbageCollector
from .controllers.node_controller import NodeController, PodGarbageCollector
from .controllers.scheduler import Scheduler
from .controllers.statefulset import StatefulSetController
from .node.kubelet import Kubelet
from .node.machine import LEASE_NAMESPACE
from .node.processes import Processes
from .node.timings import NodeTimings
from .objects import MUTATING_POLICIES, MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_POLICIES, Json
from .storage import Backup
from .users import Users

SLIPS_THROUGH = 0.02
"""Share of pods that come while the webhook does not answer in time."""


@runtime_checkable
class TellsReadiness(Protocol):
    """Processes that say when they have started up; kubelets then probe instead of guessing."""

    on_ready: Callable[[str, str, str], None]


class Kubernetes:
    """A cluster.

    Parameters
    ----------
    seed: of everything that is drawn here.
    node_names: machines that are up from the beginning.
    namespaces: to be there besides kube-system.
    provider: scheme of the providerID of every node; "": none has one.
    has_policy: the injection policy is installed; has_slots: with it that of the pods of Deployments, and the fence of
        their notes. has_webhook: the webhook is; one pod of fifty comes while it does not
        answer.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        processes: Processes,
        *,
        seed: object,
        trace: Trace,
        node_names: Sequence[str] = ("n1", "n2", "n3"),
        namespaces: Sequence[str] = ("shop", "ops"),
        has_policy: bool = True,
        has_webhook: bool = False,
        has_slots: bool = False,
        timings: NodeTimings | None = None,
        provider: str = "",
    ) -> None:
        self.loop = loop
        self.trace = trace
        self.processes = processes
        self.server = ApiServer(now_s=loop.time)
        self.users = Users(self.server, loop, trace=trace)
        self.timings = timings or NodeTimings()
        if isinstance(processes, TellsReadiness):
            self.timings = replace(self.timings, ready_s=None)
        self._seed = seed
        self._provider = provider
        for name in ("kube-system", LEASE_NAMESPACE, *namespaces):
            self.server.create(NAMESPACES, {"metadata": {"name": name}, "status": {"phase": "Active"}})
        if has_policy:
            self.server.create(MUTATING_POLICIES, {"metadata": {"name": self.server.policy_name}})
        if has_slots:
            for resource in (MUTATING_POLICIES, VALIDATING_POLICIES)[0 if has_policy else 1 :]:
                self.server.create(resource, {"metadata": {"name": SLOTS_NAME}})
        if has_webhook:
            self.server.create(MUTATING_WEBHOOKS, webhook_configuration(self.server.policy_name))
            answers = self.rng("webhook")
            self.server.webhook_answers = lambda: answers.random() >= SLIPS_THROUGH
        self.stateful_sets = StatefulSetController(self.server, loop, rng=self.rng("statefulset"), trace=trace)
        self.deployments = DeploymentController(self.server, loop, rng=self.rng("deployment"), trace=trace)
        self.scheduler = Scheduler(self.server, loop, rng=self.rng("scheduler"), trace=trace)
        self.node_controller = NodeController(self.server, loop, trace=trace)
        self.pod_gc = PodGarbageCollector(self.server, loop, trace=trace)
        self.garbage_collector = GarbageCollector(self.server, loop, rng=self.rng("gc"), trace=trace)
        self.nodes: dict[str, Kubelet] = {}
        self.machines: list[Kubelet] = []
        processes.on_exit = self._container_exited
        if isinstance(processes, TellsReadiness):
            processes.on_ready = self._container_ready
        for name in node_names:
            self.add_node(name)

    def rng(self, name: str) -> Random:
        """Make a source of randomness that depends on the seed and a name only."""
        return Random(f"{self._seed}/kubernetes/{name}")

    def add_node(self, name: str, *, version: str = "v1.36.3", host: str = "") -> Kubelet:
        """Boot a machine; `host` distinguishes it from others that had the name before."""
        self.nodes[name] = Kubelet(
            self.server,
            self.loop,
            self.processes,
            name=name,
            rng=self.rng(f"node/{host or name}"),
            trace=self.trace,
            timings=self.timings,
            version=version,
            host=host,
            provider=self._provider,
        )
        self.machines.append(self.nodes[name])
        return self.nodes[name]

    def replace_machine(self, name: str) -> Kubelet:
        """Boot another machine under a node's name; the former one runs on, cut off."""
        self.nodes[name].replaced()
        return self.add_node(name, host=f"{name}-spare{len(self.machines)}")

    def give_back(self, former: Kubelet) -> None:
        """Switch off the machine that has a node's name, and give that back to a former one."""
        present = self.nodes[former.name]
        present.power_off()
        present.replaced()
        self.nodes[former.name] = former
        former.takes_back()

    def pod(self, namespace: str, name: str) -> Json | None:
        """Return a pod's object; None when there is none of that name."""
        return self.server.get(PODS, namespace, name)

    def node_of(self, namespace: str, pod_name: str) -> Kubelet | None:
        """Return the node a pod is bound to; None when it is not bound or its machine never was."""
        pod = self.pod(namespace, pod_name)
        return self.nodes.get(pod["spec"].get("nodeName") or "") if pod is not None else None

    def restore_etcd(self, backup: Backup, *, bump: int = 0) -> None:
        """Restore etcd; every controller and kubelet lists again, as it does after its watch broke."""
        self.server.restore(backup, bump=bump)
        self.trace.add(self.loop.time(), "etcd", "restored", revision=self.server.resource_version)
        self._list_again()

    def restart_api_server(self) -> None:
        """Restart the API server, which loses the history of every watch."""
        self.trace.add(self.loop.time(), "API server", "restarted")
        self.server.restart()
        self._list_again()

    def _list_again(self) -> None:
        self.stateful_sets.poke_all()
        self.deployments.poke_all()
        self.scheduler.poke_all()
        for node in self.nodes.values():
            node.resync_soon()

    def _container_exited(self, host: str, pod_uid: str, container: str, exit_code: int) -> None:
        for machine in self.machines:
            if machine.host == host and machine.owns(pod_uid):
                machine.container_exited(pod_uid, container, exit_code)

    def _container_ready(self, host: str, pod_uid: str, container: str) -> None:
        for machine in self.machines:
            if machine.host == host:
                machine.container_ready(pod_uid, container)
