"""Where everything begins: what kopf calls when the process starts and ends, and whenever an object has changed.

Each handler of an object hands the event to the informer of its kind, which has it put into a store and has the
StaticGroups that it concerns marked (listener.py); a queue runs their rounds (work_queue.py, reconciler.py). Pods
have a watch of their own (kube/pods), because a removal needs to know how far it is. `on.event` is the only decorator
of objects here, because it writes nothing on them: no finalizer and no annotation of ours can outlive the operator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp
import kopf

from ..api import names
from ..kube.transport import NAMESPACES, NODES, STATEFULSETS, Resource
from .operator import Operator
from .process.informers import CLUSTER_KAFKA_CONNECTIONS, KAFKA_CONNECTIONS, STATIC_GROUPS
from .process.session import SERVER, Session

IDLE_S = 0.1
"""kopf keeps a task for each object that has changed until it has been quiet for so long."""


class _NothingKept(kopf.DiffBaseStorage):
    """Makes no copy of each object that an event brings, which kopf compares for handlers of updates: there are none.

    An object with its status is a thousand values, and each edit brings it twice.
    """

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        return {}

    def fetch(self, *, body: Any) -> None:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        raise NotImplementedError("there are no handlers of updates")


def register(registry: kopf.OperatorRegistry, operator: Operator, *, end: Callable[[], Awaitable[None]]) -> None:
    """Register every handler on a registry of its own; `end` ends what `operator` does, in good order."""
    informers = operator.informers

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.posting.enabled = False
        settings.queueing.idle_timeout = IDLE_S
        settings.watching.inactivity_timeout = float("inf")  # the informer ends a watch that is silent
        # Never used: guards against somebody adding a handler that needs them.
        settings.persistence.finalizer = f"{names.GROUP}/finalizer"
        settings.persistence.diffbase_storage = _NothingKept()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        await operator.reached.wait()
        return kopf.AiohttpSession(server=SERVER, aiohttp_session=cast(aiohttp.ClientSession, Session(informers.all)))

    @kopf.on.cleanup(registry=registry)
    async def cleanup(**_: Any) -> None:
        await end()

    @kopf.on.event(*_selector(STATIC_GROUPS), registry=registry)
    async def static_group(event: Any, **_: Any) -> None:
        informers.take(STATIC_GROUPS, event)

    @kopf.on.event(*_selector(KAFKA_CONNECTIONS), registry=registry)
    async def kafka_connection(event: Any, **_: Any) -> None:
        informers.take(KAFKA_CONNECTIONS, event)

    @kopf.on.event(*_selector(STATEFULSETS), registry=registry)
    async def stateful_set(event: Any, **_: Any) -> None:
        informers.take(STATEFULSETS, event)

    @kopf.on.event(*_selector(NODES), registry=registry)
    async def node(event: Any, **_: Any) -> None:
        informers.take(NODES, event)

    if not operator.settings.watch_namespaces:

        @kopf.on.event(*_selector(CLUSTER_KAFKA_CONNECTIONS), registry=registry)
        async def cluster_kafka_connection(event: Any, **_: Any) -> None:
            informers.take(CLUSTER_KAFKA_CONNECTIONS, event)

        @kopf.on.event(*_selector(NAMESPACES), registry=registry)
        async def namespace(event: Any, **_: Any) -> None:
            informers.take(NAMESPACES, event)


def _selector(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
