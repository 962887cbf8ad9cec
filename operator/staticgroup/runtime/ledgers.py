"""Which pods a StaticGroup has to remember, what of them its status holds already, and what nobody needs any more.

A suspect leaves the memory by a proof or a word and by nothing else. The end of a pod may be forgotten, and the stored
position of the watch may pass it, only when every StaticGroup of its workload has written it or can do without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ..api.resources.status import StaticGroupStatus
from ..core.evidence.chain import Incarnation, IncarnationState, predates
from ..core.evidence.continuity import GapWord, forgetting
from ..core.group import GroupView
from ..core.ids.naming import issued_since_s, naming_or_none, ordinal_of_pod
from ..core.plan import Plan
from ..core.snapshot import Snapshot
from ..core.status.memory import to_remember, unwritten, without_room
from ..kube.pods.store import PodStore
from .memories import Memories, Memory
from .stores import Stores
from .work_queue import Key

FORGET_AFTER_S: Final = 60.0
"""A coordinator that has only just taken a group over may show it without its members, or not at all; what a removal needs is
forgotten only when nobody has needed it in any reading for so long."""
OF_NOBODY_S: Final = 30.0
"""How long it is believed that no StaticGroup counts on a suspect of another name: as long as a group is not read again."""
OF_NOBODY_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgers:
    """The ledgers of all StaticGroups, as far as one process knows them.

    Parameters
    ----------
    cluster_uid: of the kube-system namespace. now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    pods: PodStore
    stores: Stores
    memories: Memories
    cluster_uid: str
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    _of_nobody_since_s: dict[str, float] = field(default_factory=dict)

    def count_on(self, decided: Plan, memory: Memory) -> None:
        """Remember which ids, as pods carry them, are wanted or held by the reading of a round, if there was one.

        Notes
        -----
        A foreign member that holds an id of ours but for what its client appends is of the next spec.identity.suffix.
        """
        naming, table = decided.naming, decided.table
        if naming is None or table is None:
            return
        keys = (seat.key for seat in table.seats if seat.is_wanted or seat.holders)
        counted = {carried for key in keys for carried in naming.carried_as(key)}
        counted.update(carried for member in table.foreign for carried in naming.nearly_carried_as(member.instance_id or ""))
        memory.counted_ids = frozenset(counted)

    def known(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, words: Iterable[GapWord]
    ) -> tuple[Incarnation, ...]:
        """Return every incarnation that a StaticGroup has to remember, present or gone.

        Parameters
        ----------
        words: what people have said about gaps.

        Returns
        -------
        Those named after the workload, whoever else carried an id that it counts on, and the suspects that a status names,
        whoever wants their ids now. Where the ledger has no room for all suspects, the seats are blind from now on instead.
        """
        namespace, workload_name = group.metadata.namespace, spec.workload_ref.name
        named = self.pods.of_workload(namespace, workload_name)
        others = {i.uid: i for i in self.pods.strays(namespace, workload_name, memory.counted_ids or ())}
        others |= {i.uid: i for i in self._suspects(memory)}
        for pod in named:
            others.pop(pod.uid, None)
        memory.suspects = frozenset(uid for uid, i in others.items() if i.state is IncarnationState.SUSPECT)
        known = (*named, *(others[uid] for uid in sorted(others)))
        naming = naming_or_none(spec, memory.history)
        if naming is not None:
            since_s = issued_since_s(naming, group, cluster_uid=self.cluster_uid)
            memory.predating = frozenset(
                i.uid for i in known if not naming.own_ids(i) and predates(i, "", issued_since_s=since_s)
            )
        ended_s = [i.since_s for i in without_room(remembered(known, memory))]
        memory.history = replace(memory.history, continuity=forgetting(memory.history.continuity, ended_s, words))
        return known

    def _suspects(self, memory: Memory) -> Iterator[Incarnation]:
        """Yield the suspects that a status names or has named."""
        ledgers = (s.ledger for s in (memory.status, memory.shown) if s is not None and s.ledger is not None)
        for uid in memory.suspects.union(e.uid for ledger in ledgers for e in ledger.incarnations):
            found = self.pods.get(uid)
            if found is not None and found.state is IncarnationState.SUSPECT:
                yield found

    def is_carried_elsewhere(self, namespace: str, workload_name: str, memory: Memory) -> bool | None:
        """Tell whether a pod of another name exists that carries an id which is counted on; None when that is not known."""
        if memory.counted_ids is None:
            return None
        return any(i.object_present for i in self.pods.strays(namespace, workload_name, memory.counted_ids))

    def mark_durable(self, key: Key, known: Sequence[Incarnation], status: StaticGroupStatus) -> None:
        """Let the stored position pass what the ledger of every StaticGroup of the workload holds, or need not hold."""
        waiting = self._unwritten(self.memories.known(key), known, status) | self._unwritten_by_others(key, known)
        for incarnation in known:
            if incarnation.uid not in waiting and not any(self.counting_on(incarnation).values()):
                self.pods.mark_durable(incarnation)

    def counting_on(self, suspect: Incarnation) -> dict[str, bool]:
        """Name the StatefulSets whose StaticGroups count on a suspect of another name, and say whether one has yet to write it.

        Notes
        -----
        One that has read nothing yet in this process, because its brokers are away or it is suspended, counts on every id that
        it issues; one that cannot be read, on every id. It is asked at each renewal of the Lease, of suspects that may be
        many and mostly are nobody's, so that answer is not looked for again for a while.
        """
        if suspect.state is not IncarnationState.SUSPECT or not suspect.instance_ids:
            return {}
        now_s = self.monotonic_s()
        if now_s - self._of_nobody_since_s.get(suspect.uid, -math.inf) < OF_NOBODY_S:
            return {}
        found: dict[str, bool] = {}
        is_asked = False
        for key, name in self.stores.workloads_in(suspect.namespace):
            is_asked = True
            if ordinal_of_pod(name, suspect.pod_name) is None and (is_unwritten := self._counts_on(key, suspect)) is not None:
                found[name] = found.get(name, False) or is_unwritten
        if is_asked and not found:
            if len(self._of_nobody_since_s) >= OF_NOBODY_MAX:
                self._of_nobody_since_s.clear()
            self._of_nobody_since_s[suspect.uid] = now_s
        return found

    def _counts_on(self, key: Key, suspect: Incarnation) -> bool | None:
        """Tell whether a StaticGroup has yet to write a suspect of another name; None when it does not count on it."""
        group, memory = self.stores.groups.get(key), self.memories.known(key)
        if group is None or memory is None or memory.uid != group.metadata.uid:
            return True
        if suspect.uid not in memory.suspects:
            if memory.counted_ids is not None:
                is_counted = not memory.counted_ids.isdisjoint(suspect.instance_ids)
            else:
                naming = naming_or_none(group.spec, memory.history)
                is_issued = memory.history.injected is not None
                is_counted = is_issued and (naming is None or bool(naming.own_ids(suspect)))
            if not is_counted:
                return None
        return bool(self._unwritten(memory, (suspect,), memory.shown))

    def _unwritten_by_others(self, key: Key, known: Sequence[Incarnation]) -> frozenset[str]:
        """Return what the status of another StaticGroup of the same workload does not hold yet."""
        group = self.stores.groups.get(key)
        if group is None:
            return frozenset()
        waiting: frozenset[str] = frozenset()
        for other in self.stores.groups_of_workload(key[0], group.spec.workload_ref.name) - {key}:
            memory = self.memories.known(other)
            waiting |= self._unwritten(memory, known, memory.shown if memory is not None else None)
        return waiting

    def _unwritten(
        self, memory: Memory | None, known: Iterable[Incarnation], status: StaticGroupStatus | None
    ) -> frozenset[str]:
        """Return the uids that a StaticGroup has to remember and that a status of it does not hold."""
        left = (i for i in known if memory is None or i.uid not in memory.predating)
        return unwritten(left, status.ledger if status is not None else None, self.now_s())

    def forget_settled(self, key: Key, workload_name: str, snapshot: Snapshot, decided: Plan, memory: Memory) -> None:
        """Drop dead incarnations that no StaticGroup of the workload needs any more; suspects are never dropped."""
        now_s = self.monotonic_s()
        memory.needless_since_s = {
            uid: memory.needless_since_s.get(uid, now_s) for uid in self._needless(workload_name, snapshot, decided)
        }
        memory.needless = frozenset(u for u, since_s in memory.needless_since_s.items() if now_s - since_s >= FORGET_AFTER_S)
        others = self.stores.groups_of_workload(snapshot.namespace, workload_name) - {key}
        for uid in memory.needless.intersection(*(self._needless_to(other) for other in others)):
            self.pods.forget(uid)

    def _needless(self, workload_name: str, snapshot: Snapshot, decided: Plan) -> frozenset[str]:
        """Return the vanished dead incarnations of ids that nobody wants and nobody holds in this group."""
        group, table, naming = snapshot.group, decided.table, decided.naming
        if not isinstance(group, GroupView) or table is None or naming is None or not group.is_settled:
            return frozenset()
        needed = {member.instance_id for member in group.members} | {seat.key for seat in table.wanted}
        needed |= {r.instance_id for r in decided.history.removals if r.settled_at_s is None}
        # A foreign member that holds an id of ours but for what its client appends is of the next spec.identity.suffix.
        needed |= {i for member in table.foreign for i in naming.nearly_carried_as(member.instance_id or "")}
        return frozenset(
            pod.uid
            for pod in self.pods.of_workload(snapshot.namespace, workload_name)
            if not pod.object_present and pod.state is IncarnationState.DEAD
            if not needed & set(naming.expand(pod).instance_ids)
        )

    def _needless_to(self, key: Key) -> frozenset[str]:
        """Return what another StaticGroup needs no more; nothing while it had no round of its own in this process."""
        memory, group = self.memories.known(key), self.stores.groups.get(key)
        if memory is None or group is None or memory.uid != group.metadata.uid:
            return frozenset()
        return memory.needless


def remembered(known: Iterable[Incarnation], memory: Memory) -> tuple[Incarnation, ...]:
    """Choose what a StaticGroup writes to its ledger."""
    return to_remember(i for i in known if i.uid not in memory.predating)
