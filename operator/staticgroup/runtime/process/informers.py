"""The informers of one process: of our resources, StatefulSets, Nodes, and the labels of namespaces.

Only an operator of all namespaces follows what belongs to no namespace (and Nodes, which each pod needs). Others work
without: a StaticGroup that needs such an object reports why it cannot be read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial

from ...api import names
from ...kube.informer import Informer
from ...kube.nodes.store import NodeStore
from ...kube.transport import NAMESPACES, NODES, STATEFULSETS, Json, Resource, Transport
from ..listener import Listener
from ..stores import Stores
from .settings import Settings

ONLY_SOME_NAMESPACES = (
    "this operator serves only some namespaces (chart value watchNamespaces) and reads nothing that belongs to none; "
    "use a KafkaConnection"
)


STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS = (
    Resource(group=names.GROUP, version=names.VERSION, plural=plural)
    for plural in (names.STATIC_GROUP_PLURAL, names.KAFKA_CONNECTION_PLURAL, names.CLUSTER_KAFKA_CONNECTION_PLURAL)
)


async def list_once(informers: Sequence[Informer]) -> None:
    """Run each informer until it has passed on what exists, or why it cannot be read."""
    listing = [asyncio.create_task(i.list(), name=i.name) for i in informers]
    try:
        await asyncio.gather(*(i.wait_complete() for i in informers))
    finally:
        for task in listing:
            task.cancel()
        await asyncio.gather(*listing, return_exceptions=True)


class Informers:
    """Every informer of an operator.

    Parameters
    ----------
    clock_s: monotonic seconds.

    Attributes
    ----------
    of_our_kinds: those that must be complete before a status is read.
    cluster: those of what belongs to no namespace, without which the operator works too.
    """

    def __init__(
        self, transport: Transport, listener: Listener, stores: Stores, nodes: NodeStore, settings: Settings, *,
        rng: random.Random, clock_s: Callable[[], float],
    ) -> None:
        scopes = settings.watch_namespaces or ("",)
        informer = partial(
            Informer, transport, outage=transport.outage, rng=rng, clock_s=clock_s, relist_s=settings.relist_s
        )
        self.cluster: tuple[Informer, ...] = ()
        if settings.watch_namespaces:
            stores.cluster_connections_problem = ONLY_SOME_NAMESPACES
        else:
            self.cluster = (
                informer(
                    CLUSTER_KAFKA_CONNECTIONS, listener.connection_changed, scope="",
                    on_refused=listener.cluster_connections_readable,
                ),
                informer(NAMESPACES, listener.namespace_changed, scope="", on_refused=listener.namespaces_readable),
            )  # fmt: skip
        self.nodes = informer(NODES, nodes.changed, scope="", on_refused=nodes.readable)
        self.of_our_kinds = (
            *(informer(KAFKA_CONNECTIONS, listener.connection_changed, scope=s) for s in scopes),
            *self.cluster,
            *(informer(STATIC_GROUPS, listener.static_group_changed, scope=s) for s in scopes),
        )
        self.all = (
            *self.of_our_kinds,
            *(informer(STATEFULSETS, listener.stateful_set_changed, scope=s) for s in scopes),
            self.nodes,
        )  # fmt: skip
        self._by_scope = {(i.resource, i.scope): i for i in self.all}

    def take(self, resource: Resource, event: Json) -> None:
        """Hand an event to the informer that follows its object."""
        namespace = event["object"]["metadata"].get("namespace") or ""
        (self._by_scope.get((resource, namespace)) or self._by_scope[resource, ""]).take(event)
