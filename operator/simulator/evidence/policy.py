"""The product's own decisions over the abstract state: translation, incarnation book, chain, guards and plan.

No rule is written down here. A book state is what an `IncarnationBook` holds, an event is what a watch delivers, and
every answer comes from the product's code; answers are kept, because the same abstract question is asked very often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from staticgroup.core.evidence.continuity import Checkpoint

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources import status as api
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core import plan
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.core.group import GroupType, GroupView, MemberView
from staticgroup.core.ids import naming
from staticgroup.core.snapshot import Evidence, FreshRead, History, Injected, SeatMemory, Snapshot
from staticgroup.core.status import memory
from staticgroup.core.workload import WorkloadView
from staticgroup.kube import translate
from staticgroup.kube.pods import book as incarnation_book

from .objects import NAMESPACE, ORDINAL, POD_NAME, WORKLOAD, Pod, node_name, raw_node, raw_pod, uid_of
from .questions import (
    COORDINATOR,
    EPOCH,
    EPOCH_AFTER_GAP,
    NOW_S,
    SCOPE,
    VERSIONS_PER_POD,
    Book,
    Decision,
    Event,
    Reading,
)
from .variant import Variant

CONTINUITY = Checkpoint(epoch=EPOCH, timeline="t", at_s=0.0, workload_name="web")


class Policy:
    """Answers of the product for one variant, each asked once.

    Parameters
    ----------
    variant: decides the scheme of the ids, the kubelet's version and the spec.
    """

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._keeps_versions = variant.restarts > 0
        self._tainted_nodes: dict[str, bool] = {}
        self._books: list[Book] = [Book()]
        self._index: dict[Book, int] = {Book(): 0}
        self._taken: dict[tuple[int, Event], int] = {}
        self._answers: dict[tuple[object, ...], int] = {}
        self._decisions: dict[tuple[int, int, Reading], Decision] = {}
        self.spec = self._spec()
        scope = "" if variant.stranger else f".{SCOPE}"
        self._base_id = f"{POD_NAME}{scope}"
        self._bystander = f"{WORKLOAD}-0{scope}"
        self._bystander_pod = Incarnation(
            namespace=NAMESPACE,
            pod_name=f"{WORKLOAD}-0",
            uid="uid-bystander",
            instance_ids=frozenset({self._bystander}),
            node_name="node-0",
            state=IncarnationState.LIVE,
            since_s=0.0,
            resource_version=1,
        )
        self._history = History(
            injected=Injected(
                scope=SCOPE,
                watch_epoch=EPOCH,
                method="Policy",
                id_template=f"{{podName}}{scope}",
                session_timeout_ms=45_000,
            ),
            issued_ordinals=Ordinals.of(range(1), range(ORDINAL, ORDINAL + 1)),
        )
        self.naming = naming.naming_of(self.spec, self._history)
        suffixes = ("",) if variant.members == 1 else tuple(f"-{n}" for n in range(variant.members))
        self.instance_ids = tuple(self._base_id + suffix for suffix in suffixes)
        self.events_ineffective_may_go = not self._keeps_versions
        self.perfect_book = self._perfect_book()

    def _spec(self) -> StaticGroupSpec:
        v = self._variant
        template = "{podName}" if v.stranger else "{podName}.{scope}"
        identity: dict[str, object] = {"template": template}
        if v.members > 1:
            identity |= {"membersPerPod": v.members, "suffix": "Spring"}
        return StaticGroupSpec.model_validate(
            {
                "workloadRef": {"name": WORKLOAD},
                "connectionRef": {"name": "kafka"},
                "groupId": "orders",
                "identity": identity,
                "removal": {"holdSeconds": v.hold_seconds, "maxPercentOfGroup": v.max_percent_of_group},
            }
        )

    def _perfect_book(self) -> int:
        """Return a book in which every incarnation of the ordinal is proven dead."""
        proof = Certificate(kind=CertificateKind.ENDED, resource_version=0, statement="")
        self._books.append(
            Book(
                tuple(
                    Incarnation(
                        namespace=NAMESPACE,
                        pod_name=POD_NAME,
                        uid=uid_of(uid),
                        instance_ids=frozenset({self._base_id}),
                        node_name="node",
                        state=IncarnationState.DEAD,
                        since_s=0.0,
                        resource_version=uid,
                        certificate=proof,
                    )
                    for uid in range(1, self._variant.pods + 1)
                )
            )
        )
        return len(self._books) - 1

    # books --------------------------------------------------------------------------------------------------------

    def _store(self, book: incarnation_book.IncarnationBook) -> int:
        known = sorted((r.incarnation() for r in book.records.in_scope("")), key=lambda i: i.uid)
        # What a live pod has shown is nobody's here, where ids come with names alone.
        gone = {i.uid for i in known if i.state is not IncarnationState.LIVE}
        undurable = tuple(sorted((u, v) for u, v in book.unwritten.versions.items() if u in gone)) if self._keeps_versions else ()
        value = Book(tuple(self._plain(i) for i in known), undurable, book.is_resumed and not any(book.eras.values()))
        index = self._index.setdefault(value, len(self._books))
        if index == len(self._books):
            self._books.append(value)
        return index

    def _plain(self, i: Incarnation) -> Incarnation:
        """Leave out what no decision reads, and versions where only their order within a uid matters."""
        version = i.resource_version if self._keeps_versions else int(i.uid.rpartition("-")[2]) * VERSIONS_PER_POD
        proof = i.certificate and Certificate(kind=i.certificate.kind, resource_version=0, statement="")
        return replace(
            i,
            resource_version=version,
            certificate=proof,
            since_s=0.0,
            refusal="",
            refusal_reason="",
            created_at_s=0.0,
            runs=False,
            ready_since_s=None,
            is_deleting=False,
            # What its node shows afterwards is the fourth model's.
            grace_s=None, ends_by_s=None, reap_doubt="", bound_at_s=0.0, node_uid="",
        )

    def _open(self, index: int) -> incarnation_book.IncarnationBook:
        book = incarnation_book.IncarnationBook(
            node_of=self._node_of, now_s=lambda: NOW_S, is_managed=lambda namespace, name: True
        )
        value = self._books[index]
        for i in value.incarnations:
            book.records.put(i)
        # The model only puts back what the book itself made.
        book.unwritten.versions.update(value.undurable)
        book.is_resumed = value.is_resumed
        return book

    def _node_of(self, name: str) -> NodeView | None:
        is_tainted = self._tainted_nodes.get(name, False)
        view = translate.node_view(raw_node(name, self._variant.kubelet, is_tainted=is_tainted)) if name else None
        return view if isinstance(view, NodeView) else None

    def _version(self, pod: Pod, resource_version: int) -> PodVersion:
        """Translate a version about to be judged, with its node as it is seen by then."""
        v = self._variant
        self._tainted_nodes[node_name(pod.uid)] = pod.tainted
        raw = raw_pod(
            pod,
            resource_version,
            self._base_id,
            host_pid=v.host_pid,
            one_manager=v.one_manager,
            first_is_init=v.first_is_init,
        )
        version = translate.pod_version(raw)
        if not isinstance(version, PodVersion):
            raise TypeError(f"the model wrote a pod that cannot be read: {version}")
        return version

    def _newer_version(self, book: incarnation_book.IncarnationBook, pod: Pod) -> PodVersion:
        """Return the version with its own number, or one just above what the book knows of this uid."""
        own = pod.uid * VERSIONS_PER_POD
        if self._keeps_versions:
            return self._version(pod, own + pod.seq)
        record = book.records.get(uid_of(pod.uid))
        return self._version(pod, record.resource_version + 1 if record else own)

    def take(self, index: int, event: Event) -> int:
        """Return the book after one watched event (IncarnationBook.take)."""
        key = (index, event)
        found = self._taken.get(key)
        if found is None:
            book = self._open(index)
            version = self._newer_version(book, event.pod)
            book.take(version, is_deleted=event.is_deleted, in_order=True)
            found = self._taken[key] = self._store(book)
        return found

    def _answer(self, key: tuple[object, ...], ask: Callable[[], int]) -> int:
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = ask()
        return found

    def list_again(self, index: int, pod: Pod | None, *, is_restore: bool) -> int:
        """Return the book after a gap: a complete LIST is folded, what it does not show has vanished."""

        def ask() -> int:
            book = self._open(index)
            book.next_era("")
            listed: dict[str, int] = {}
            if is_restore:
                book.forget_versions(0)
            if pod is not None:
                version = self._newer_version(book, pod)
                listed[version.uid] = version.resource_version
                if is_restore:
                    book.take_after_restore(version)
                else:
                    book.take(version, is_deleted=False, in_order=False)
            book.take_absent("", listed, 10**9)
            return self._store(book)

        return self._answer(("list", index, pod, is_restore), ask)

    # durability ---------------------------------------------------------------------------------------------------

    def status_written(self, index: int) -> tuple[int, tuple[Incarnation, ...]]:
        """Return the book after the ledger was written, and that ledger as a status holds it."""
        known = self._books[index].incarnations
        ledger = memory.wire_ledger(memory.to_remember(known))
        status = api.StaticGroupStatus(ledger=ledger)

        def ask() -> int:
            book = self._open(index)
            for i in known:
                book.unwritten.mark_durable(i)
            return self._store(book)

        entries = tuple(self._plain(i) for i in memory.ledger_from(NAMESPACE, status))
        return self._answer(("durable", index), ask), entries

    def durable_position(self, index: int, position: int) -> int:
        """Return how far the stored position of the watch may go (UnwrittenEnds.durable_position)."""
        return self._answer(("position", index, position), lambda: self._open(index).unwritten.durable_position("", position))

    def resume(
        self, ledger: tuple[Incarnation, ...], replayed: tuple[Event, ...], pod: Pod | None, *, list_first: bool
    ) -> int:
        """Return the book of a new process: ledger, LIST and replay in either order, then what the LIST lacks."""

        def ask() -> int:
            book = self._open(0)
            book.is_resumed = True
            book.merge(ledger, complete_until=lambda namespace: 0)
            listed: dict[str, int] = {}

            def show() -> None:
                if pod is not None:
                    version = self._newer_version(book, pod)
                    listed[version.uid] = version.resource_version
                    book.take(version, is_deleted=False, in_order=False)

            if list_first:
                show()
            for event in replayed:
                book.take(self._newer_version(book, event.pod), is_deleted=event.is_deleted, in_order=True)
            if not list_first:
                show()
            book.take_absent("", listed, 10**9)
            return self._store(book)

        return self._answer(("resume", ledger, replayed, pod, list_first), ask)

    # decisions ----------------------------------------------------------------------------------------------------

    def decide(self, index: int, gap: int, reading: Reading) -> Decision:
        """Return what `plan` decides about the members of the ordinal."""
        key = (index, gap, reading)
        found = self._decisions.get(key)
        if found is None:
            found = self._decisions[key] = self._decide(index, gap, reading)
        return found

    def _decide(self, index: int, gap: int, reading: Reading) -> Decision:
        shown = [n for n in range(len(self.instance_ids)) if reading.described[n]]
        chains = {self.instance_ids[n]: self._chain(index, self.instance_ids[n]) for n in shown}
        snapshot = Snapshot(
            namespace=NAMESPACE,
            name="orders",
            uid="group-1",
            metadata_generation=1,
            workload=_workload(2 if reading.wanted else 1),
            pods=(
                self._bystander_pod,
                *(self.naming.expand(i) for i in self._books[index].incarnations if i.object_present),
            ),
            group=self._group(reading),
            evidence={i: Evidence(chain=chain) for i, chain in chains.items()},
            watch_epoch=EPOCH_AFTER_GAP if gap == 1 else EPOCH,
            continuity=CONTINUITY,
            cluster_uid="cluster-1",
        )
        since_s = NOW_S - 7200 if reading.held_long else NOW_S
        history = replace(
            self._history, seats=dict.fromkeys(self.instance_ids, SeatMemory(departed_since_s=since_s))
        )
        # What the reconciler would not read afresh is not read here either.
        needed = plan.reads_needed(self.spec, snapshot, history, NOW_S)
        read = {seat.key: Evidence(chain=seat.chain, fresh=self._fresh(reading)) for seat in needed}
        snapshot = replace(snapshot, evidence={**snapshot.evidence, **read})
        decided = plan.plan(self.spec, snapshot, history, NOW_S)
        slots = []
        for action in decided.actions:
            for removal in action.removals:
                slot = self.instance_ids.index(removal.entry.instance_id)
                if removal.entry.member_id != f"described-{slot}":
                    raise ValueError(f"the plan removes {removal.entry} which was not described")
                slots.append(slot)
        return Decision(tuple(slots), tuple(h.reason for h in decided.held))

    def _chain(self, index: int, instance_id: str) -> tuple[Incarnation, ...]:
        """Take the chain as the reconciler does: by pod name and by every id the pod may carry for it."""
        carried = sorted(self.naming.carried_as(instance_id))
        chain = self._open(index).records.chain(NAMESPACE, self.naming.pod_names_of(instance_id), carried)
        return tuple(self.naming.expand(i) for i in chain)

    def _group(self, reading: Reading) -> GroupView:
        is_consumer = self._variant.consumer
        epoch = 5 if is_consumer else None
        members = [MemberView(member_id="bystander", instance_id=self._bystander, member_epoch=epoch)]
        for n, instance_id in enumerate(self.instance_ids):
            if reading.described[n]:
                own = -2 if is_consumer and reading.away[n] else epoch
                members.append(MemberView(member_id=f"described-{n}", instance_id=instance_id, member_epoch=own))
        return GroupView(
            group_id="orders",
            group_type=GroupType.CONSUMER if is_consumer else GroupType.CLASSIC,
            state="Stable",
            coordinator=COORDINATOR,
            protocol_type="consumer",
            members=tuple(members),
            group_epoch=epoch,
            assignment_epoch=epoch,
        )

    def _fresh(self, reading: Reading) -> FreshRead:
        return FreshRead(
            is_expected=reading.wanted,
            objects=((POD_NAME, uid_of(reading.object_uid)),) if reading.object_uid else (),
            resource_version=10**6,
            barrier_passed=reading.barrier_passed,
        )

    # what the checker asks ----------------------------------------------------------------------------------------

    def incarnations(self, index: int, log: tuple[Event, ...]) -> tuple[Incarnation, ...]:
        """Return the incarnations of a book state, by uid, once it has taken the rest of the events too."""
        for event in log:
            index = self.take(index, event)
        return self._books[index].incarnations


def _workload(replicas: int) -> WorkloadView:
    return WorkloadView(
        namespace=NAMESPACE,
        name=WORKLOAD,
        uid="set-1",
        metadata_generation=1,
        observed_generation=1,
        replicas=replicas,
        status_replicas=1,
        ready_replicas=1,
        updated_replicas=1,
    )
