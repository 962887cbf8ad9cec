"""Owner references and namespaces: what goes when something else goes.

Sources: pkg/controller/garbagecollector (background, foreground, orphan), pkg/controller/namespace.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..objects import (
    DEPLOYMENTS,
    KAFKA_CONNECTIONS,
    NAMESPACES,
    PODS,
    REPLICASETS,
    REVISIONS,
    SECRETS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
)
from ..storage import ApiError
from ..watch_log import Event

REACTION_S: Final = (0.05, 0.5)
RETRY_S: Final = 1.0
_OWNERS: Final = (STATEFULSETS, DEPLOYMENTS, REPLICASETS)
_DEPENDENTS: Final = (PODS, REVISIONS, REPLICASETS)
_CONTENTS: Final = (STATEFULSETS, DEPLOYMENTS, REPLICASETS, STATIC_GROUPS, KAFKA_CONNECTIONS, SECRETS, REVISIONS, PODS)


class GarbageCollector:
    """Follow deletions of workloads and namespaces to their end."""

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, rng: Random, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._rng = rng
        self._trace = trace
        server.observers.append(self._observe)

    def _observe(self, resource: str, event: Event) -> None:
        if resource in _OWNERS:
            if event.current is None:
                assert event.previous is not None
                self._later(self._delete_dependents, event.previous)
            elif is_terminating(event.current):
                self._later(self._go_on, resource, namespace_of(event.current), name_of(event.current))
        elif resource == NAMESPACES and event.current is not None and is_terminating(event.current):
            self._later(self._empty, name_of(event.current))

    def _later(self, action: object, *arguments: object, delay_s: float | None = None) -> None:
        low, high = REACTION_S
        wait_s = low + (high - low) * self._rng.random() if delay_s is None else delay_s
        self._loop.world_call_later(wait_s, action, *arguments)  # type: ignore[arg-type]

    def _dependents(self, owner: Json) -> list[tuple[str, Json]]:
        return [
            (resource, obj)
            for resource in _DEPENDENTS
            for obj in self._server.list(resource, namespace_of(owner))
            if any(o["uid"] == uid_of(owner) for o in obj["metadata"].get("ownerReferences") or ())
        ]

    def _delete_dependents(self, owner: Json) -> None:
        for resource, obj in self._dependents(owner):
            if not is_terminating(obj):
                self._trace.add(self._loop.time(), "garbage collector", "deletion requested", object=name_of(obj))
                self._delete(resource, obj)

    def _delete(self, resource: str, obj: Json) -> None:
        try:
            self._server.delete(resource, namespace_of(obj), name_of(obj), uid=uid_of(obj))
        except ApiError:
            pass  # another writer was faster

    def _go_on(self, kind: str, namespace: str, name: str) -> None:
        """Carry out what a finalizer of ours asks for, and take the finalizer away when it is done."""
        owner = self._server.get(kind, namespace, name)
        if owner is None or not is_terminating(owner):
            return
        finalizers = owner["metadata"].get("finalizers") or []
        if "orphan" in finalizers:
            for resource, obj in self._dependents(owner):
                kept = [o for o in obj["metadata"]["ownerReferences"] if o["uid"] != uid_of(owner)]
                patch = {"metadata": {"ownerReferences": kept or None}}
                self._server.patch(resource, namespace, name_of(obj), patch, uid=uid_of(obj))
                self._trace.add(self._loop.time(), "garbage collector", "orphaned", object=name_of(obj))
            self._finish(kind, owner, "orphan")
        elif "foregroundDeletion" in finalizers:
            self._delete_dependents(owner)
            if self._dependents(owner):
                self._later(self._go_on, kind, namespace, name, delay_s=RETRY_S)
            else:
                self._finish(kind, owner, "foregroundDeletion")

    def _finish(self, kind: str, owner: Json, finalizer: str) -> None:
        left = [f for f in owner["metadata"]["finalizers"] if f != finalizer]
        self._server.patch(kind, namespace_of(owner), name_of(owner), {"metadata": {"finalizers": left or None}})

    def _empty(self, name: str) -> None:
        """Delete everything in a namespace, and then the namespace."""
        namespace = self._server.get(NAMESPACES, "", name)
        if namespace is None:
            return
        contents = [(resource, obj) for resource in _CONTENTS for obj in self._server.list(resource, name)]
        for resource, obj in contents:
            if not is_terminating(obj):
                self._delete(resource, obj)
        if contents:
            self._later(self._empty, name, delay_s=RETRY_S)
        else:
            self._server.patch(NAMESPACES, "", name, {"metadata": {"finalizers": None}})
            self._trace.add(self._loop.time(), "namespace controller", "namespace gone", namespace=name)
