"""A third-party controller: it fails pods which terminate on an unreachable node, so that others may go on.

It does not know whether a process still runs.

Source: Kueue, failure recovery policy (a pod that is still terminating a minute after its grace, on a node with the
taint unreachable, gets phase Failed; its managedFields entry owns that field alone).
"""

from __future__ import annotations

from typing import Final

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import NODES, PODS, Json, at_s_of, is_over, is_terminating, name_of, uid_of
from .node_controller import UNREACHABLE

LOOKS_EVERY_S: Final = 5.0
FORCED_AFTER_S: Final = 60.0
MANAGER: Final = "kueue"


class FailureRecovery:
    """Write phase Failed where a kubelet is silent.

    Attributes
    ----------
    is_on: it is installed.
    """

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._trace = trace
        self.is_on = False
        self._is_looking = False

    def switch(self, is_on: bool) -> None:
        """Install it, or take it away."""
        self.is_on = is_on
        if is_on and not self._is_looking:
            self._is_looking = True
            self._loop.world_call_later(LOOKS_EVERY_S, self._look)

    def _look(self) -> None:
        self._is_looking = self.is_on
        if not self.is_on:
            return
        self._loop.world_call_later(LOOKS_EVERY_S, self._look)
        lost = {name_of(node) for node in self._server.list(NODES) if _is_unreachable(node)}
        for pod in self._server.list(PODS) if lost else ():
            if is_over(pod) or not is_terminating(pod) or pod["spec"].get("nodeName") not in lost:
                continue
            if self._loop.time() >= at_s_of(pod["metadata"]["deletionTimestamp"]) + FORCED_AFTER_S:
                self._fail(pod)

    def _fail(self, pod: Json) -> None:
        self._trace.add(self._loop.time(), MANAGER, "phase written", pod=name_of(pod), uid=uid_of(pod)[:8])
        self._server.patch_status(PODS, pod, {"phase": "Failed"}, manager=MANAGER)


def _is_unreachable(node: Json) -> bool:
    return any(taint["key"] == UNREACHABLE for taint in node["spec"].get("taints") or ())
