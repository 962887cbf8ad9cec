"""Fold every pod version that arrives, by whatever way and in whatever order, into incarnations.

Versions come from a LIST, from the main watch and from replays, so the same version may come twice and an old one
after a newer one. The one idea: a record's resourceVersion only grows. A newer version is folded; an older one may
still add what no version can take back (an id it carried, a container it showed, a certificate it proves) but never
changes what the newest version said. So the result does not depend on how the history was cut into pieces.

Pure bookkeeping: no I/O; the clock and the node facts are parameters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...core.evidence.certificate import Certificate
from ...core.evidence.chain import Incarnation, IncarnationState, died, fold, named_node_uid, vanish
from ...core.evidence.pod import NodeView, PodVersion
from ...core.evidence.reaping import ReapDoubt, longest_grace_s, stronger_doubt
from ...core.evidence.words import Word, confirmed, still_holds, taken_back
from .behind import IsManaged
from .contradictions import absent, belies
from .gone import GONE_MAX, Gone, superseded
from .names import Name, Sighting
from .records import PodRecord, PodRecords
from .unwritten import CountedOn, UnwrittenEnds

AWAITING_NODE_MAX: Final = 10_000

NodeOf = Callable[[str], NodeView | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one version changed.

    Parameters
    ----------
    is_visible: something a decision reads is different now.
    is_end: a pod that lived is dead now, or a suspect, or a container of it has ended.
    refusal_reason: what stood against a certificate, when this made a suspect of a pod that a StaticGroup manages; else "".
    """

    record: PodRecord
    is_visible: bool
    is_end: bool = False
    refusal_reason: str = ""


def _visible(incarnation: Incarnation) -> tuple[object, ...]:
    """Select the facts whose change is worth a look; a new resourceVersion alone is not.

    Notes
    -----
    All that is decided or remembered of a pod that lives: whoever is at rest looks at no pod of its own accord.
    """
    i = incarnation
    of_ids = (i.instance_ids, i.ids_are_fixed, i.restarts, i.session_timeouts_ms)
    return (i.state, i.object_present, i.runs, i.ready_since_s, i.is_deleting, i.node_name, _ends(i), of_ids)


def _ends(incarnation: Incarnation | None) -> tuple[object, ...]:
    """Return the ends of containers that were seen: a member that crashed is released before its process is back, or not at all."""
    runs = incarnation.runs_seen if incarnation is not None else ()
    return tuple(run.end for run in runs if run.end is not None)


def _sighting(record: PodRecord) -> Sighting:
    return Sighting(uid=record.uid, restarts=record.restarts, ids_are_fixed=record.ids_are_fixed)


class IncarnationBook:
    """All incarnations of all streams.

    Attributes
    ----------
    records: what is known of each incarnation.
    unwritten: the ends that no status holds yet. gone: what has vanished, and how much of it is kept.
    eras: the gaps of each scope of the watch, counted, so that each record can tell between which its object was seen.
    is_resumed: the watch goes on from where that of another process ended.
    ends: how many certificates the watch has brought in this process.

    Parameters
    ----------
    node_of: facts of a node by name; None when they cannot be read (yet).
    now_s: operator's clock, seconds since the Unix epoch.
    is_managed: (namespace, pod name) belongs to a StaticGroup, so its end must be written to a status.
    counted_on: see `CountedOn`.
    gone_max: bound of vanished incarnations that are not managed.
    """

    def __init__(
        self, *, node_of: NodeOf, now_s: Callable[[], float], is_managed: IsManaged,
        counted_on: CountedOn = lambda suspect: {}, gone_max: int = GONE_MAX,
    ) -> None:
        self.records = PodRecords()
        self.gone = Gone(gone_max)
        self.unwritten = UnwrittenEnds(self.records, now_s=now_s, is_managed=is_managed, counted_on=counted_on)
        self.eras: dict[str, int] = {}
        self.is_resumed = False
        self.ends = 0
        self._lost: set[str] = set()
        self._node_of = node_of
        self._now_s = now_s
        self._is_managed = is_managed
        self._awaiting_node: dict[str, PodVersion] = {}
        self._words: dict[str, tuple[Word, ...]] = {}

    def take(self, version: PodVersion, *, is_deleted: bool, in_order: bool) -> Change:
        """Fold one version that the API server shows now.

        Parameters
        ----------
        is_deleted: it came in a DELETED event.
        in_order: it came from a watch, so no version of this uid was skipped before it; False from a LIST.

        Notes
        -----
        What is older than the end of an incarnation of the same name that was dropped changes nothing.
        A version without nodeName shows that nothing ran before it (a binding is never taken back), so the uid is
        known from birth, however that version arrived. What was skipped (a LIST ahead of the watch) ends that knowledge.
        """
        change = self._take(version, is_deleted=is_deleted, in_order=in_order)
        if in_order and change.is_end and change.record.state is IncarnationState.DEAD:
            self.ends += 1
            change.record.ended_as(self.ends)
        if change.record.uid == version.uid:  # else it is older than a dropped one of the same name
            change.record.seen_in = self.era_of(version.namespace)
        return change

    def era_of(self, namespace: str) -> int:
        """Return how many gaps the watch of a namespace has had; a watch of all namespaces counts as "" does."""
        return self.eras.get(namespace, self.eras.get("", 0))

    def next_era(self, scope: str) -> None:
        """Count a gap of a scope; "" is all namespaces."""
        self.eras[scope] = self.eras.get(scope, 0) + 1

    def _take(self, version: PodVersion, *, is_deleted: bool, in_order: bool) -> Change:
        record = self.records.get(version.uid)
        if record is None:
            for newer in self.records.named(version.namespace, version.name):
                if version.resource_version <= newer.dropped_until:
                    return Change(record=newer, is_visible=False)
        if record is not None and belies(record, version) and not is_deleted:
            self.records.put(replace(record.incarnation(), certificate=None, state=IncarnationState.LIVE))
        before = record.incarnation() if record else None
        if before is not None and version.resource_version <= before.resource_version:
            # A LIST that shows a pod which may run makes a word about its end void.
            known = before if in_order or version.is_terminal else taken_back(before, now_s=self._now_s())
            after = self._absorb(known, version)
            # Real servers give a deletion its own, higher version; one that does not must still be believed.
            if is_deleted and version.resource_version == before.resource_version and after.object_present:
                after = vanish(after, last=version, now_s=self._now_s())
        else:
            after = self._advance(before, version, is_deleted=is_deleted, in_order=in_order)
        return self._store(before, after, owner_name=version.owner_name, resource_version=version.resource_version)

    def _advance(
        self, before: Incarnation | None, version: PodVersion, *, is_deleted: bool, in_order: bool
    ) -> Incarnation:
        is_asked_unseen = version.is_deleting and not in_order and not (before is not None and before.is_deleting)
        if before is not None and not in_order:
            before = replace(before, from_birth=False, runs_known=False)
        if before is not None and not before.created_at_s:  # a status told of it as the pod of a seat, and not since when
            before = replace(before, created_at_s=version.created_at_s)
        is_unbound = not version.node_name and not version.started_containers
        after = fold(
            before, version, self._node_of(version.node_name), from_birth=is_unbound, runs_known=self._tells_every_run(version),
            now_s=self._now_s(),
        )
        if is_asked_unseen:  # its kubelet may have heard a request of a longer grace before this one
            after = replace(after, reap_doubt=stronger_doubt(after.reap_doubt, ReapDoubt.END_UNSEEN.value))
        self._await_node(after, version)
        return vanish(after, last=version, now_s=self._now_s()) if is_deleted else after

    def _absorb(self, known: Incarnation, version: PodVersion) -> Incarnation:
        """Take from an older version what stays true: ids and whether they were fixed, a binding, a container, a certificate."""
        node = self._node_of(version.node_name)
        folded = fold(
            known, version, node, from_birth=known.from_birth, runs_known=self._tells_every_run(version), now_s=self._now_s()
        )
        self._await_node(folded, version)
        kept = replace(
            known, instance_ids=folded.instance_ids, node_name=known.node_name or folded.node_name,
            started_containers=folded.started_containers, ids_are_fixed=folded.ids_are_fixed,
            has_lost=folded.has_lost,
            runs_known=folded.runs_known, grace_s=folded.grace_s, reap_doubt=folded.reap_doubt, ends_by_s=folded.ends_by_s,
        )
        if folded.certificate is None or known.state is IncarnationState.DEAD:
            return kept
        return died(replace(kept, since_s=folded.since_s), folded.certificate)

    def _tells_every_run(self, version: PodVersion) -> bool:
        """True for a version from which it is known what ran before; after a gap of our own no version is believed that much.

        Notes
        -----
        A pod whose image was never pulled is no suspect for ever because the operator restarted meanwhile.
        """
        return self.is_resumed and not self.era_of(version.namespace) and version.tells_every_run

    def _await_node(self, incarnation: Incarnation, version: PodVersion) -> None:
        """Keep a terminal version that only lacks the facts of its node."""
        if incarnation.state is IncarnationState.DEAD:
            self._awaiting_node.pop(version.uid, None)
        elif version.is_terminal and version.node_name and self._node_of(version.node_name) is None:
            self._awaiting_node[version.uid] = version
            if len(self._awaiting_node) > AWAITING_NODE_MAX:
                del self._awaiting_node[next(iter(self._awaiting_node))]

    def _store(
        self, before: Incarnation | None, after: Incarnation, *, owner_name: str, resource_version: int
    ) -> Change:
        if after.state is IncarnationState.SUSPECT and not after.node_uid:
            after = replace(after, node_uid=named_node_uid(self._node_of(after.node_name)))
        record = self.records.put(after, owner_name)
        if after.has_lost:
            self._lost.add(after.uid)
        self.gone.note(after.uid, is_gone=not after.object_present)
        has_new_state = before is None or before.state is not after.state
        if has_new_state and after.state is not IncarnationState.LIVE:
            self.unwritten.note_end(before, after.uid, resource_version)
        elif after.state is IncarnationState.LIVE:
            if before is not None and has_new_state:
                self.unwritten.drop(after.uid)
            if before is None or not before.instance_ids.issuperset(after.instance_ids):
                self.unwritten.note_ids(before, after.uid, resource_version)
        if after.state is IncarnationState.DEAD:
            self._drop_superseded(record)
        is_new_suspect = has_new_state and after.state is IncarnationState.SUSPECT
        return Change(
            record=record, is_visible=before is None or _visible(before) != _visible(after),
            is_end=(has_new_state and after.state is not IncarnationState.LIVE) or _ends(before) != _ends(after),
            refusal_reason=after.refusal_reason if is_new_suspect and self._is_managed(after.namespace, after.pod_name) else "",
        )

    def hear(self, words: Iterable[Word]) -> list[Change]:
        """Take the words that people have given, all of them, and close the suspicions that they are about.

        Notes
        -----
        They are asked again after a merge, whose suspects may be older than they; a suspicion that begins now is younger
        than every word that was heard before. A word that is no longer among them takes nothing back. What they change
        holds nothing back from the durable position: they are listed again after a restart.
        """
        self._words = {}
        for word in words:
            self._words[word.pod_uid] = (*self._words.get(word.pod_uid, ()), word)
        records = [r for uid in self._words if (r := self.records.get(uid)) is not None]
        return [Change(record=r, is_visible=True) for r in records if self._apply_words(r)]

    def doubtful(self) -> Iterator[Incarnation]:
        """Iterate over the suspects, and over the pods of which a run is lost."""
        for uid in (*self.gone.uids(), *self._lost):
            record = self.records.get(uid)
            if record is not None and (record.state is IncarnationState.SUSPECT or uid in self._lost):
                yield record.incarnation()

    def suspects(self) -> Iterator[Incarnation]:
        """Iterate over the suspects that were bound to a node."""
        for uid in self.gone.uids():
            record = self.records.get(uid)
            if record is not None and record.state is IncarnationState.SUSPECT and record.node_name:
                yield record.incarnation()

    def close(self, uid: str, proof: Certificate) -> Change | None:
        """Close a suspicion by what became of a node; None when the uid is no suspect any more.

        Notes
        -----
        As for words it holds nothing back from the durable position: until it is written, the ledger has the suspect.
        """
        record = self.records.get(uid)
        if record is None or record.state is not IncarnationState.SUSPECT or record.object_present:
            return None
        self.records.put(died(replace(record.incarnation(), since_s=self._now_s()), proof))
        self._drop_superseded(record)
        return Change(record=record, is_visible=True)

    def owe(self, uid: str, owed: str) -> Change | None:
        """Note what the node of a suspect has not shown yet; None when the uid is no suspect, or it is known already."""
        record = self.records.get(uid)
        if record is None or record.state is not IncarnationState.SUSPECT or record.owed == owed:
            return None
        self.records.put(replace(record.incarnation(), owed=owed))
        return Change(record=record, is_visible=True)

    def _apply_words(self, record: PodRecord) -> bool:
        """Close a suspicion by a word that applies to it; returns True when one does."""
        words = self._words.get(record.uid)
        if not words or record.state is not IncarnationState.SUSPECT:
            return False
        before = record.incarnation()
        after = confirmed(before, words)
        if after is before:
            return False
        self.records.put(after)
        self._drop_superseded(record)
        return True

    def _drop_superseded(self, dead: PodRecord) -> None:
        """Drop the vanished dead incarnations of a name that a newer dead one makes needless."""
        for record in superseded(self.records.named(dead.namespace, dead.pod_name)):
            self._drop(record)

    def take_after_restore(self, version: PodVersion) -> Change:
        """Fold a listed version after the API server's state went back in time.

        Notes
        -----
        A kubelet runs a pod object that comes back with a restored etcd, so a certificate of an object that exists
        again is void. Versions of the abandoned time line say nothing about the order of new ones.
        """
        record = self.records.get(version.uid)
        if record is not None:
            self.records.put(replace(
                record.incarnation(), certificate=None, state=IncarnationState.LIVE, resource_version=-1, runs_seen=(),
            ))
        return self.take(version, is_deleted=False, in_order=False)

    def forget_versions(self, resource_version: int, scope: str = "") -> None:
        """Start comparing versions of a scope again, because the API server went back in time; unwritten ends count as new as `resource_version`."""
        for record in self.records.in_scope(scope):
            record.forget_version()
        self.unwritten.forget_versions(resource_version)

    def take_absent(self, scope: str, listed: Mapping[str, int], resource_version: int) -> list[Change]:
        """Record as vanished what a complete LIST does not show.

        Parameters
        ----------
        scope: namespace of the LIST; "" for all.
        listed: uid to resourceVersion, everything the LIST showed.
        resource_version: of the LIST; what was seen in a newer version is left alone.
        """
        changes = []
        for record in absent(self.records, scope, listed, resource_version):
            before = record.incarnation()
            after = vanish(before, now_s=self._now_s())
            changes.append(self._store(before, after, owner_name="", resource_version=resource_version))
        return changes

    def sightings(self, scope: str) -> dict[Name, Sighting]:
        """Return the object that has each name of a scope now; "" for all namespaces."""
        return {(r.namespace, r.pod_name): _sighting(r) for r in self.records.in_scope(scope) if r.object_present}

    def sightings_of(self, uids: Iterable[str]) -> dict[Name, Sighting]:
        """Return the name of each of these objects, as they are known now."""
        found = (self.records.get(uid) for uid in uids)
        return {(r.namespace, r.pod_name): _sighting(r) for r in found if r is not None}

    def take_node(self, node_name: str) -> list[Change]:
        """Judge again the terminal versions that waited for the facts of this node."""
        waiting = [v for v in self._awaiting_node.values() if v.node_name == node_name]
        changes = [self._take(version, is_deleted=False, in_order=False) for version in waiting]
        return [change for change in changes if change.is_visible]

    def merge(self, entries: Iterable[Incarnation], *, complete_until: Callable[[str], int]) -> None:
        """Add what another operator process wrote durably.

        Parameters
        ----------
        complete_until: resourceVersion up to which the book knows every object of a namespace, 0 before the first
            LIST is complete; an entry no newer than that which the book does not know is gone.
        """
        for entry in entries:
            record = self.records.get(entry.uid)
            if record is None:
                unseen = replace(entry, from_birth=False, runs_known=False)
                is_gone = entry.resource_version <= complete_until(entry.namespace)
                if unseen.state is IncarnationState.SUSPECT or is_gone:
                    unseen = vanish(replace(unseen, object_present=False), now_s=self._now_s())
                self._store_merged(unseen)
                continue
            is_known = entry.instance_ids.issubset(record.instance_ids)
            if entry.state is IncarnationState.LIVE and record.seen_in >= 0 and is_known:
                continue  # our own sight says more
            known = record.incarnation()
            has_left = (known.state, entry.state) == (IncarnationState.LIVE, IncarnationState.SUSPECT)
            if has_left and entry.resource_version >= known.resource_version:
                known = vanish(known, now_s=self._now_s())  # the other one has seen more than our watch has shown yet
            merged = replace(
                known, instance_ids=known.instance_ids | entry.instance_ids, from_birth=False, runs_known=False,
                node_name=known.node_name or entry.node_name, created_at_s=known.created_at_s or entry.created_at_s,
                grace_s=longest_grace_s(known.grace_s, entry.grace_s), bound_at_s=known.bound_at_s or entry.bound_at_s,
                reap_doubt=stronger_doubt(known.reap_doubt, entry.reap_doubt), owed=known.owed or entry.owed,
                node_uid=known.node_uid or entry.node_uid,
            )
            is_of_now = entry.certificate is None or entry.certificate.resource_version or not known.object_present
            if entry.certificate is not None and known.certificate is None and is_of_now and still_holds(entry, known):
                merged = died(merged, entry.certificate)
            self._store_merged(merged)

    def _store_merged(self, incarnation: Incarnation) -> None:
        record = self.records.put(incarnation)
        if not incarnation.object_present:
            self.gone.note(incarnation.uid, is_gone=True)
        if incarnation.state is IncarnationState.DEAD:
            self._drop_superseded(record)
        self._apply_words(record)

    def forget(self, uid: str) -> bool:
        """Drop one vanished incarnation; False when it is unknown or its object is present, which is never forgotten."""
        record = self.records.get(uid)
        if record is None or record.object_present:
            return False
        self._drop(record)
        return True

    def _drop(self, record: PodRecord) -> None:
        self.records.remove(record)
        self._lost.discard(record.uid)
        self.gone.note(record.uid, is_gone=False)
        self.unwritten.drop(record.uid)
        self._awaiting_node.pop(record.uid, None)

    def purge(self) -> None:
        """Bound the vanished incarnations that belong to no StaticGroup; see `Gone.purge`."""
        self.gone.purge(self.records, is_needed=self.unwritten.is_counted_on, drop=self._drop)
