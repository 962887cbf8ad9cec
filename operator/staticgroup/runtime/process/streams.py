"""The streams of one process that keep the stores: our resources, StatefulSets, and the labels of namespaces.

One idea: what belongs to no namespace is followed only by an operator of all namespaces, and none is lost without it: a
StaticGroup that needs it is told why it cannot be read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...api import names
from ...kube.object_stream import ObjectStream
from ...kube.transport import NAMESPACES, STATEFULSETS, Resource, Transport
from ..listener import Listener
from ..stores import Stores
from .settings import Settings

ONLY_SOME_NAMESPACES = (
    "this operator serves only some namespaces (chart value watchNamespaces) and reads nothing that belongs to none; "
    "use a KafkaConnection"
)


def ours(plural: str) -> Resource:
    """Return one of our resources."""
    return Resource(group=names.GROUP, version=names.VERSION, plural=plural)


async def tell_once(streams: Sequence[ObjectStream]) -> None:
    """Have everything told that there is, or why it cannot be, and follow no further."""
    following = [asyncio.create_task(s.run(), name=s.name) for s in streams]
    try:
        await asyncio.gather(*(s.wait_complete() for s in streams))
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Every stream but those of pods and nodes.

    Parameters
    ----------
    cluster: of what belongs to no namespace; the operator works without it, too.
    """

    connections: tuple[ObjectStream, ...]
    cluster: tuple[ObjectStream, ...]
    groups: tuple[ObjectStream, ...]
    workloads: tuple[ObjectStream, ...]

    @property
    def of_our_kinds(self) -> tuple[ObjectStream, ...]:
        """Those that must be complete before a status is read."""
        return (*self.connections, *self.cluster, *self.groups)

    @property
    def all(self) -> tuple[ObjectStream, ...]:
        """All of them."""
        return (*self.of_our_kinds, *self.workloads)

    @classmethod
    def of(
        cls, transport: Transport, listener: Listener, stores: Stores, settings: Settings, *, rng: random.Random,
        clock_s: Callable[[], float],
    ) -> Streams:
        """Make the streams of an operator.

        Parameters
        ----------
        clock_s: monotonic seconds.
        """
        scopes = settings.watch_namespaces or ("",)
        stream = partial(
            ObjectStream, transport, outage=transport.outage, rng=rng, clock_s=clock_s, relist_s=settings.relist_s
        )
        if settings.watch_namespaces:
            stores.cluster_connections_problem = ONLY_SOME_NAMESPACES
        connections = ours(names.CLUSTER_KAFKA_CONNECTION_PLURAL)
        cluster = () if settings.watch_namespaces else (
            stream(connections, listener.connection_changed, scope="", on_refused=listener.cluster_connections_readable),
            stream(NAMESPACES, listener.namespace_changed, scope="", on_refused=listener.namespaces_readable),
        )  # fmt: skip
        return cls(
            connections=tuple(
                stream(ours(names.KAFKA_CONNECTION_PLURAL), listener.connection_changed, scope=s) for s in scopes
            ),
            cluster=cluster,
            groups=tuple(stream(ours(names.STATIC_GROUP_PLURAL), listener.static_group_changed, scope=s) for s in scopes),
            workloads=tuple(stream(STATEFULSETS, listener.stateful_set_changed, scope=s) for s in scopes),
        )
