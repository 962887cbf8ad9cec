"""A fake of the pod watch: the real incarnation book, fed by the test, which may lag behind the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from staticgroup.core.evidence.certificate import Certificate
from staticgroup.core.evidence.chain import Incarnation
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.kube.pods.behind import Lineage
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.pods.names import NameContinuity
from staticgroup.kube.pods.unwritten import CountedOn
from support.fake_gateways import Hooks


@dataclass
class FakePods(Hooks):
    """The pod watch: the real incarnation book, fed by the test, which may lag behind the API server.

    Attributes
    ----------
    is_lagging: what happens is kept back until a barrier or `deliver` brings the watch up to it.
    barrier_works: False: the watch cannot be brought up.
    after_chain: runs once, when chains were taken after a barrier, that is at the end of *observe*.
    history: everything that ever happened, for a successor that resumes.
    is_managed: (namespace, pod name) belongs to a StaticGroup. counted_on: see `CountedOn`.
    """

    now_s: Callable[[], float] = lambda: 0.0
    nodes: dict[str, NodeView] = field(default_factory=dict)
    epoch: str = "epoch-1"
    is_lagging: bool = False
    barrier_works: bool = True
    after_chain: Callable[[], None] | None = None
    at: int = 100
    timeline: str = "timeline-1"
    saw_restore: bool = False
    ended_at_s: dict[str, float] = field(default_factory=dict)
    is_managed: Callable[[str, str], bool] = lambda namespace, name: True
    counted_on: CountedOn = lambda suspect: {}
    epochs: list[str] = field(default_factory=list)
    whole_since_s: dict[str, float] = field(default_factory=dict)
    history: list[tuple[PodVersion, bool]] = field(default_factory=list)
    waiting: list[tuple[PodVersion, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._passed_barrier = False
        self.names = NameContinuity(("",))
        self.lineage = Lineage(lambda namespace, name: True)
        self.book = IncarnationBook(
            node_of=self.nodes.get,
            now_s=self.now_s,
            is_managed=lambda namespace, name: self.is_managed(namespace, name),  # noqa: PLW0108 - tests replace it
            counted_on=lambda suspect: self.counted_on(suspect),  # noqa: PLW0108
        )

    def push(self, version: PodVersion, *, is_deleted: bool = False) -> None:
        """Let one thing happen to a pod; the watch hears of it at once unless it lags."""
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

    def list_afresh(self, present: Iterable[PodVersion]) -> None:
        """Begin with a LIST, as a process that cannot resume does."""
        for version in present:
            self.book.take(version, is_deleted=False, in_order=False)
            self.at = max(self.at, version.resource_version)

    def begin_afresh(self, present: Iterable[PodVersion], resource_version: int) -> None:
        """Begin with a complete LIST at a resource version; what a ledger names and it does not show has vanished."""
        versions = tuple(present)
        self.list_afresh(versions)
        self.book.take_absent("", {v.uid: v.resource_version for v in versions}, resource_version)
        self.at = max(self.at, resource_version)

    def resume_after(self, before: FakePods) -> None:
        """Begin where another process may have stored its position: below every end that no status holds."""
        stored = before.book.unwritten.durable_position("", before.at)
        present: dict[str, PodVersion] = {}
        for version, is_deleted in before.history:
            if version.resource_version <= stored and not is_deleted:
                present[version.uid] = version
            elif version.resource_version <= stored:
                present.pop(version.uid, None)
        self.list_afresh(present.values())
        self.at, self.history = stored, list(before.history)
        self.waiting = [(v, is_deleted) for v, is_deleted in before.history if v.resource_version > stored]
        self.deliver()

    def lose(self, present: Iterable[PodVersion], resource_version: int, epoch: str) -> None:
        """Have a gap: what was not delivered is lost, a LIST shows what is there now, and a new epoch begins."""
        self.waiting.clear()
        versions = tuple(present)
        self.epochs = [*(self.epochs or [self.epoch]), epoch]
        self.book.next_era("")
        self.names.begin_gap("", self.book.sightings(""))
        self.list_afresh(versions)
        self.names.end_gap("", self.book.sightings_of(v.uid for v in versions))
        self.names.draw(self.epoch)
        self.book.take_absent("", {v.uid: v.resource_version for v in versions}, resource_version)
        self.at, self.epoch = max(self.at, resource_version), epoch

    def unbroken_since(self, namespace: str, pod_name: str = "", *, workload: str = "") -> frozenset[str]:
        """Return the epochs since which a name, or every name, is unbroken."""
        if not self.epoch:
            return frozenset()
        earlier = self.names.epochs(namespace, pod_name) if pod_name else self.names.of_scope(namespace)
        named = workload or pod_name.rpartition("-")[0]
        return earlier | {self.epoch} | (self.lineage.epochs((namespace, named)) if named else frozenset())

    def seen_under(self, uid: str) -> str:
        """Return the epoch in which an object was seen last, as PodStore.seen_under does."""
        record = self.book.records.get(uid)
        if record is None or record.seen_in < 0:
            return ""
        return (self.epochs or [self.epoch])[record.seen_in]

    def age_s(self) -> float:
        """Return how long the watch has said nothing."""
        return 0.0

    def went_back(self, reason: str) -> None:
        """End every history, as PodStore.went_back does."""
        self.saw_restore, self.timeline, self.epoch = True, f"{self.timeline}-back", ""

    def position(self, namespace: str) -> int:
        """Return how far the watch is."""
        return self.at

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch up to a consistent read, as PodStore.barrier does."""
        await self.reached("barrier", str(resource_version))
        epoch = self.epoch
        if not epoch or not self.barrier_works:
            return False
        if resource_version < not_below:
            self.epoch = ""
            return False
        self.deliver(resource_version)
        self._passed_barrier = True
        return self.epoch == epoch

    async def reach_present(self, namespace: str) -> bool:
        """Bring the watch up to all that has happened, as PodStore.reach_present does."""
        if not self.epoch or not self.barrier_works:
            return False
        self.deliver()
        return True

    @property
    def watch(self) -> tuple[str, float]:
        """Return the name of the watch, and since when it is whole."""
        return self.epoch, self.whole_since_s.setdefault(self.epoch, self.now_s())

    @property
    def ends(self) -> int:
        """Count the certificates that the watch has brought."""
        return self.book.ends

    def doubtful(self) -> Iterator[Incarnation]:
        """Return the suspects, and the pods of which a run is lost."""
        return self.book.doubtful()

    async def unfollowed(self) -> str:
        """Return a namespace that is to be followed and is not, as PodStore.unfollowed does."""
        return ""

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[Incarnation, ...]:
        """Return the carriers of ids that have other names, as PodStore.strays does."""
        return self.book.records.strays(namespace, workload_name, carried)

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[Incarnation, ...]:
        """Return the carriers of ids of any namespace that are no seats, as PodStore.strays_anywhere does."""
        return self.book.records.strays_anywhere(namespace, workload_name, instance_ids)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Return every id that any pod ever carried, each with its namespace."""
        return self.book.records.ids()

    @property
    def forgotten_suspects(self) -> int:
        """Count the suspects of nobody that were dropped."""
        return self.book.gone.forgotten_suspects

    @property
    def new_ids(self) -> int:
        """Count the ids that came."""
        return self.book.records.new_ids

    def is_durable(self, uid: str) -> bool:
        """True unless what was seen of it was not written yet."""
        return self.book.unwritten.is_durable(uid)

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[Incarnation, ...]:
        """Return the chain, noting that it was taken."""
        ids = tuple(instance_ids)
        self.journal.append(("chain", *ids))
        found = self.book.records.chain(namespace, pod_names, ids)
        if self.after_chain is not None and self._passed_barrier:
            after_chain, self.after_chain = self.after_chain, None
            after_chain()
        return found

    @property
    def behind_workloads(self) -> dict[tuple[str, str], int]:
        """Return the workloads whose history was lost when the watch was resumed."""
        return self.lineage.blind

    def get(self, uid: str) -> Incarnation | None:
        """Return the chain entry of a pod uid; None when it is unknown."""
        record = self.book.records.get(uid)
        return record.incarnation() if record else None

    def of_workload(self, namespace: str, workload_name: str) -> tuple[Incarnation, ...]:
        """Return every incarnation named after a StatefulSet."""
        found = (r.incarnation() for r in self.book.records.of_workload(namespace, workload_name))
        return tuple(sorted(found, key=lambda i: (i.resource_version, i.uid)))

    def carriers(self, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return every incarnation of any namespace that carried an id."""
        return self.book.records.carriers(instance_ids)

    def merge(self, entries: Iterable[Incarnation]) -> None:
        """Add what a status holds from an earlier process."""
        self.book.merge(tuple(entries), complete_until=lambda namespace: self.at)

    def suspects(self) -> Iterator[Incarnation]:
        """Return the suspects that were bound to a node."""
        return self.book.suspects()

    def close(self, uid: str, proof: Certificate) -> bool:
        """Close a suspicion by what became of a node."""
        return self.book.close(uid, proof) is not None

    def owe(self, uid: str, owed: str) -> None:
        """Note what a node has not shown yet."""
        self.book.owe(uid, owed)

    def forget(self, uid: str) -> bool:
        """Drop a vanished incarnation."""
        return self.book.forget(uid)

    def mark_durable(self, written: Incarnation) -> bool:
        """Note that a status holds this state."""
        return self.book.unwritten.mark_durable(written)

    def state(self, uid: str) -> str:
        """Return the state of an incarnation, "" when it is unknown."""
        record = self.book.records.get(uid)
        return record.state.value if record else ""


@dataclass(frozen=True)
class FakeNodes:
    """The Nodes that exist, all of them known."""

    nodes: Mapping[str, NodeView]
    is_complete: bool = True

    def present_node(self, name: str) -> NodeView | None:
        """Return the Node that has a name now."""
        return self.nodes.get(name)
