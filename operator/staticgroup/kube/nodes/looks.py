"""Look at one node: its Node, its Lease, the pods that are bound to it, and on request what its container runtime runs.

Asked only of nodes that owe something, by name, so an operator to whom nothing is owed asks nothing. Every read is consistent. What
cannot be read makes no look: that is never taken for a sign. A look costs three reads, one list of pods per served namespace, and
takes no longer than `LOOK_LIMIT_S`, whatever does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ...api.names import MIRROR_ANNOTATION
from ...core.evidence.nodes import Look, RunningPod
from ...core.evidence.pod import NodeView
from ..problem import KubeProblem, KubeProblemKind
from ..translate import node_view
from ..translate.shape import WrongShapeError, object_of, objects_of, text_of
from ..transport import LEASES, NODES, PODS, Json, Transport

_log = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LOOK_LIMIT_S: Final = 6.0
RUNTIME_LIMIT_S: Final = 4.0
"""The API server waits long for a kubelet that is dead; what else the look has read counts all the same."""
_STATUS_LISTS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class NodeLooks:
    """Look at nodes.

    Parameters
    ----------
    scopes: namespaces whose pods are read; `("",)` for all.
    clock_s: monotonic seconds.
    """

    def __init__(self, transport: Transport, *, scopes: Sequence[str], clock_s: Callable[[], float]) -> None:
        self._transport = transport
        self._scopes = scopes
        self._clock_s = clock_s
        self._told: set[str] = set()

    async def look(self, name: str, *, asks_runtime: bool = False) -> Look | None:
        """Look at a node once; None where something of it cannot be read now."""
        try:
            async with asyncio.timeout(LOOK_LIMIT_S):
                return await self._look(name, asks_runtime=asks_runtime)
        except TimeoutError:
            return None

    async def _look(self, name: str, *, asks_runtime: bool) -> Look | None:
        at_s = self._clock_s()
        view = await self._node(name)
        if view is None:
            return Look(at_s=at_s, view=None)
        lease, pods, listed = await asyncio.gather(
            self._lease(name), self._pods_of(name), self._listed(name) if asks_runtime else _nothing()
        )
        if isinstance(view, KubeProblem) or isinstance(lease, KubeProblem) or isinstance(pods, KubeProblem):
            self._tell(next(found for found in (view, lease, pods) if isinstance(found, KubeProblem)))
            return None
        bound, running = pods
        if listed is not None and not _is_of_this_node(listed, running):
            listed = None
        return Look(at_s=at_s, view=view, lease=lease, bound=frozenset(bound), running=frozenset(running), listed=listed)

    async def _pods_of(self, name: str) -> tuple[set[str], set[str]] | KubeProblem:
        """Return uids of the pods that are bound to a node, and of those that run, in all scopes."""
        bound: set[str] = set()
        running: set[str] = set()
        for found in await asyncio.gather(*(self._pods(name, scope) for scope in self._scopes)):
            if isinstance(found, KubeProblem):
                return found
            bound |= found[0]
            running |= found[1]
        return bound, running

    async def _node(self, name: str) -> NodeView | KubeProblem | None:
        raw = await self._transport.call("get", NODES, name=name)
        if isinstance(raw, KubeProblem):
            return None if raw.kind is KubeProblemKind.NOT_FOUND else raw
        view = node_view(raw)
        return view if isinstance(view, NodeView) else _unreadable("nodes")

    async def _lease(self, name: str) -> str | KubeProblem:
        raw = await self._transport.call("get", LEASES, namespace=LEASE_NAMESPACE, name=name)
        if isinstance(raw, KubeProblem):
            return "" if raw.kind is KubeProblemKind.NOT_FOUND else raw
        return str((raw.get("spec") or {}).get("renewTime") or "")

    async def _pods(self, node_name: str, scope: str) -> tuple[set[str], set[str]] | KubeProblem:
        query = {"fieldSelector": f"spec.nodeName={node_name}"}
        page = await self._transport.call("list", PODS, namespace=scope, query=query)
        if isinstance(page, KubeProblem):
            return page
        try:
            return _bound_and_running(objects_of(page, "items", ""))
        except WrongShapeError:
            return _unreadable("pods")

    async def _listed(self, name: str) -> frozenset[RunningPod] | None:
        """Return what the runtime of a node runs, as its kubelet passes it on; None where that cannot be asked."""
        try:
            async with asyncio.timeout(RUNTIME_LIMIT_S):
                page = await self._transport.call_path("get", f"/api/v1/nodes/{name}/proxy/runningpods/", "nodes/proxy")
        except TimeoutError:
            return None
        if isinstance(page, KubeProblem):
            self._tell(page)
            return None
        try:
            if page.get("kind") not in ("PodList", "List"):
                raise WrongShapeError("kind", page.get("kind"))
            return frozenset(_running_pod(raw) for raw in objects_of(page, "items", ""))
        except WrongShapeError:
            self._tell(_unreadable("nodes/proxy"))
            return None

    def _tell(self, problem: KubeProblem) -> None:
        """Log a problem once that lasts, such as a missing right."""
        if problem.kind is not KubeProblemKind.UNAVAILABLE and problem.message not in self._told:
            self._told.add(problem.message)
            _log.warning("a node cannot be looked at, so suspects on it stay", extra={"problem": problem.message})


async def _nothing() -> None:
    """Ask nothing."""


def _is_of_this_node(listed: Iterable[RunningPod], running: Collection[str]) -> bool:
    """True for a list that shows one of the pods which run on this node: the address of a Node may lead to another's kubelet.

    Notes
    -----
    The answer itself names no node. Where nothing is known to run there, nothing tells whose it is.
    """
    return any(uid in running for _, _, uid in listed)


def _bound_and_running(pods: Iterable[Json]) -> tuple[set[str], set[str]]:
    bound: set[str] = set()
    running: set[str] = set()
    for raw in pods:
        metadata, status = object_of(raw, "metadata", ""), object_of(raw, "status", "")
        uid = text_of(metadata, "uid", "metadata")
        bound.add(uid)
        if MIRROR_ANNOTATION in object_of(metadata, "annotations", "metadata"):
            continue  # its kubelet made the object itself, so such a pod runs without that anything was heard of
        entries = [entry for kind in _STATUS_LISTS for entry in objects_of(status, kind, "status")]
        if any(_runs(entry) for entry in entries):
            running.add(uid)
    return bound, running


def _runs(entry: Json) -> bool:
    """True for a container that its kubelet has started, and that runs."""
    state = object_of(entry, "state", "status")
    return state.get("running") is not None and bool(text_of(entry, "containerID", "status"))


def _running_pod(raw: Json) -> RunningPod:
    metadata = object_of(raw, "metadata", "")
    namespace, name, uid = (text_of(metadata, key, "metadata") for key in ("namespace", "name", "uid"))
    if not (namespace and name and uid):
        raise WrongShapeError("metadata", metadata)
    return namespace, name, uid


def _unreadable(resource: str) -> KubeProblem:
    return KubeProblem(
        kind=KubeProblemKind.INVALID, verb="get", resource=resource, message=f"an object of {resource} cannot be read"
    )
