"""A fake of the pod watch: the real book of pods, fed by the test, which may lag behind the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.kube.pods.book import PodBook
from support.fake_gateways import Hooks


@dataclass
class FakePods(Hooks):
    """The pod watch: the real book of pods, fed by the test, which may lag behind the API server.

    Attributes
    ----------
    watch_name: as PodStore.watch tells it; "" while the watch is not whole.
    is_lagging: what happens is kept back until a barrier or `deliver` brings the watch up to it.
    barrier_works: False: the watch cannot be brought up.
    after_chain: runs once, when chains were taken after a barrier, that is at the end of *observe*.
    history: everything that ever happened, for a successor that resumes.
    is_managed: (namespace, workload name) belongs to a StaticGroup.
    """

    now_s: Callable[[], float] = lambda: 0.0
    nodes: dict[str, NodeView] = field(default_factory=dict)
    watch_name: str = "1-00000001"
    is_lagging: bool = False
    barrier_works: bool = True
    after_chain: Callable[[], None] | None = None
    at: int = 100
    is_managed: Callable[[str, str], bool] = lambda namespace, name: True
    history: list[tuple[PodVersion, bool]] = field(default_factory=list)
    waiting: list[tuple[PodVersion, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._passed_barrier = False
        self.book = PodBook(
            node_of=self.nodes.get, now_s=self.now_s,
            is_managed=lambda namespace, name: self.is_managed(namespace, name),  # noqa: PLW0108 - tests replace it
        )  # fmt: skip

    def push(self, version: PodVersion, *, is_deleted: bool = False) -> None:
        """Let one event happen to a pod; the watch delivers it at once unless it lags."""
        self.history.append((version, is_deleted))
        self.waiting.append((version, is_deleted))
        if not self.is_lagging:
            self.deliver()

    def deliver(self, until: int | None = None) -> None:
        """Fold what happened, up to a resource version or all of it."""
        while self.waiting and (until is None or self.waiting[0][0].resource_version <= until):
            version, is_deleted = self.waiting.pop(0)
            self.book.take(version, is_deleted=is_deleted, in_order=True)
            self.at = max(self.at, version.resource_version)

    def begin_afresh(self, present: Iterable[PodVersion], resource_version: int) -> None:
        """Begin with a complete LIST at a resource version, like a fresh process; pods not in it have vanished."""
        versions = tuple(present)
        for version in versions:
            self.book.take(version, is_deleted=False, in_order=False)
        self.book.take_absent("", {v.uid: v.resource_version for v in versions}, resource_version)
        self.at = max(self.at, resource_version)

    def resume_after(
        self, before: FakePods, present: Iterable[PodVersion], resource_version: int, *, position: int = 0
    ) -> None:
        """Begin at the position that another process stored: a LIST of now, and everything that happened since."""
        self.book.is_resumed = True
        self.history = list(before.history)
        for version, is_deleted in before.history:
            if version.resource_version > position:
                self.book.take(version, is_deleted=is_deleted, in_order=True)
        self.begin_afresh(present, resource_version)

    def lose(self, present: Iterable[PodVersion], resource_version: int, watch_name: str) -> None:
        """Have a gap: what was not delivered is lost, a LIST shows what is there now, and a new watch begins."""
        self.waiting.clear()
        self.book.watch_no += 1
        self.begin_afresh(present, resource_version)
        self.watch_name = watch_name

    def begin_anew(self, reason: str, *, is_restore: bool = True) -> None:
        """End the watch, as PodStore.begin_anew does."""
        self.watch_name = ""
        self.book.watch_no += 1

    def position(self, namespace: str) -> int:
        """Return how far the watch is."""
        return self.at

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch up to a consistent read, as PodStore.barrier does."""
        await self.reached("barrier", str(resource_version))
        name = self.watch_name
        if not name or not self.barrier_works:
            return False
        if resource_version < not_below:
            self.watch_name = ""
            return False
        self.deliver(resource_version)
        self._passed_barrier = True
        return self.watch_name == name

    async def reach_present(self, namespace: str) -> bool:
        """Bring the watch up to all that has happened, as PodStore.reach_present does."""
        await self.reached("reach present", namespace)
        if not self.watch_name or not self.barrier_works:
            return False
        self.deliver()
        return True

    def watch(self, namespace: str) -> str:
        """Return the name of the watch; "" while it is not whole."""
        return self.watch_name

    @property
    def ends(self) -> int:
        """Count the certificates that the watch has brought."""
        return self.book.ends

    @property
    def watch_no(self) -> int:
        """Count how often the watch began."""
        return self.book.watch_no

    @property
    def suspect_count(self) -> int:
        """Count how often a pod became a suspect, or a run of one was lost."""
        return self.book.suspect_count

    def doubtful(self) -> Iterator[KnownPod]:
        """Return the suspects, and the pods of which a run is lost."""
        return self.book.doubtful()

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[KnownPod, ...]:
        """Return the carriers of ids that have other names, as PodStore.strays does."""
        return self.book.index.strays(namespace, workload_name, carried)

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[KnownPod, ...]:
        """Return the carriers of ids of any namespace that are no seats, as PodStore.strays_anywhere does."""
        return self.book.index.strays_anywhere(namespace, workload_name, instance_ids)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Return every id that any pod ever carried, each with its namespace."""
        return self.book.index.ids()

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[KnownPod, ...]:
        """Return the pods of a seat, noting that they were asked for."""
        ids = tuple(instance_ids)
        self.journal.append(("chain", *ids))
        found = self.book.index.chain(namespace, pod_names, ids)
        if self.after_chain is not None and self._passed_barrier:
            after_chain, self.after_chain = self.after_chain, None
            after_chain()
        return found

    def get(self, uid: str) -> KnownPod | None:
        """Return what is known of a pod uid; None when it is unknown."""
        return self.book.index.get(uid)

    def of_workload(self, namespace: str, workload_name: str) -> tuple[KnownPod, ...]:
        """Return every pod named after a StatefulSet."""
        return self.book.index.of_workload(namespace, workload_name)

    def carriers(self, instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that carried an id."""
        return self.book.index.carriers(instance_ids)

    def state(self, uid: str) -> str:
        """Return the state of a pod, "" when it is unknown."""
        found = self.book.index.get(uid)
        return found.state.value if found else ""


@dataclass(frozen=True)
class FakeNodes:
    """The Nodes that exist, all of them known, and what is known of those that are gone."""

    nodes: Mapping[str, NodeView]
    vanished: Mapping[str, NodeView] = field(default_factory=dict)

    def node_of(self, name: str) -> NodeView | None:
        """Return what is known of a Node."""
        return self.nodes.get(name) or self.vanished.get(name)

    def is_present(self, name: str) -> bool:
        """True for a Node that exists."""
        return name in self.nodes

    def oldest(self) -> NodeView | None:
        """Return a virtual Node, else the one with the oldest kubelet, as NodeStore.oldest does."""
        return min(self.nodes.values(), key=lambda node: (not node.is_virtual, node.kubelet_minor or 0), default=None)
