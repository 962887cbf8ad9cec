"""The scheduler: binds pods to ready nodes in turn.

Source: kube-scheduler, reduced to taints and order; pods/binding writes spec.nodeName and PodScheduled together.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import NODES, PODS, Json, is_terminating, is_true, name_of, namespace_of, uid_of, with_condition
from ..storage import ApiError
from ..watch_log import Event

REACTION_S: Final = (0.01, 0.1)


class Scheduler:
    """Bind every pod that has no node."""

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, rng: Random, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._next = 0
        server.observers.append(self._observe)

    def poke_all(self) -> None:
        """Schedule every pod that waits."""
        for pod in self._server.list(PODS):
            if not pod["spec"].get("nodeName"):
                self._poke(pod)

    def _observe(self, resource: str, event: Event) -> None:
        obj = event.current
        if obj is None:
            return
        if resource == PODS and event.previous is None:
            self._poke(obj)
        elif resource == NODES and (
            event.previous is None
            or obj["spec"] != event.previous["spec"]
            or is_true(obj, "Ready") != is_true(event.previous, "Ready")
        ):
            self.poke_all()

    def _poke(self, pod: Json) -> None:
        low, high = REACTION_S
        delay_s = low + (high - low) * self._rng.random()
        self._loop.world_call_later(delay_s, self._bind, namespace_of(pod), name_of(pod), uid_of(pod))

    def _bind(self, namespace: str, name: str, uid: str) -> None:
        pod = self._server.get(PODS, namespace, name)
        if pod is None or uid_of(pod) != uid or pod["spec"].get("nodeName") or is_terminating(pod):
            return
        nodes = [node for node in self._server.list(NODES) if _takes_pods(node)]
        conditions = (pod.get("status") or {}).get("conditions") or []
        if not nodes:
            status = {
                "conditions": with_condition(
                    conditions, "PodScheduled", "False", self._loop.time(), reason="Unschedulable"
                )
            }
            self._server.patch_status(PODS, pod, status)
            return
        node = name_of(nodes[self._next % len(nodes)])
        self._next += 1
        try:
            self._server.bind(
                namespace, name, node, with_condition(conditions, "PodScheduled", "True", self._loop.time())
            )
        except ApiError:
            return
        self._trace.add(self._loop.time(), "scheduler", "pod bound", pod=name, uid=uid[:8], node=node)


def _takes_pods(node: Json) -> bool:
    spec = node.get("spec") or {}
    return is_true(node, "Ready") and not spec.get("unschedulable") and not spec.get("taints")
