"""A pod store that follows the fake API server over real HTTP, with what it reported."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.kube.outage import Backoff
from staticgroup.kube.pages import PageLimit
from staticgroup.kube.pods.book import GONE_MAX
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.pods.store import PodStore, PodStoreHooks
from staticgroup.kube.problem import KubeProblem
from staticgroup.kube.transport import connect
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
from unit.kube.raw_objects import NODE, eventually

UID = "uid-0"


class WatchedStore:
    """One store following the fake server, with what it reported."""

    def __init__(self, store: PodStore, nodes: dict[str, NodeView]) -> None:
        self.store = store
        self.nodes = nodes
        self.changes: list[tuple[str, str, str]] = []
        self.ends: list[tuple[str, str, str]] = []
        self.gaps: list[str] = []
        self.uncertified: list[str] = []

    def state(self, uid: str = UID) -> PodState | None:
        found = self.store.get(uid)
        return found.state if found else None

    def watch(self, namespace: str = "shop") -> str:
        """Return the name of the watch; "" while it is not whole."""
        return self.store.watch(namespace)

    @property
    def problems(self) -> tuple[KubeProblem, ...]:
        """Why streams cannot follow now; empty when all is well."""
        return tuple(s.problem for s in self.store._streams.values() if s.problem is not None)

    def stored(self, scope: str = "", *, unstored_since_s: float | None = None) -> ScopePosition:
        """Return what the Lease would say now."""
        found = some(self.store.lease_position(unstored_since_s))
        return found.scopes[scope]


@asynccontextmanager
async def following(
    server: FakeApiServer, *, resume: WatchPosition | None = None, seed: int = 1,
    anchored: bool = True, is_watched: bool = True, scopes: tuple[str, ...] = ("",),
    is_managed: Callable[[], bool] = lambda: True,
    sleep: Callable[[float], Any] = asyncio.sleep, now_s: Callable[[], float] = lambda: 50.0,
    clock_s: Callable[[], float] | None = None, barrier_patience_s: float = 0.02, reconnect_delay_s: float = 0.001,
    chunk_size: int = 2, gone_max: int = GONE_MAX,
) -> AsyncIterator[WatchedStore]:
    transport = connect(server.configuration())
    nodes = {"node-a": NODE}
    world: WatchedStore
    hooks = PodStoreHooks(
        node_of=nodes.get, is_managed=lambda namespace, name: is_managed(),
        on_change=lambda pod: world.changes.append((pod.namespace, pod.owner_name, pod.pod_name)), on_gap=lambda reason: world.gaps.append(reason),  # noqa: PLW0108 - world is made below
        on_uncertified=lambda reason: world.uncertified.append(reason),  # noqa: PLW0108
        on_end=lambda pod: world.ends.append((pod.namespace, pod.owner_name, pod.pod_name)),
    )
    store = PodStore(
        transport, hooks, rng=Random(seed), now_s=now_s, clock_s=clock_s or asyncio.get_running_loop().time, scopes=scopes,
        barrier_patience_s=barrier_patience_s, sleep=sleep,
    )
    store._book._gone_max = gone_max
    for stream in store._streams.values():
        stream._page_limit = PageLimit(chunk_size)
        stream._backoff = Backoff(stream._rng, first_s=reconnect_delay_s)
    world = WatchedStore(store, nodes)
    task = asyncio.create_task(store.run(resume))
    try:
        if anchored:
            async with asyncio.timeout(60):
                await store.wait_anchored()
            if is_watched:
                await eventually(lambda: server.watches)
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()
