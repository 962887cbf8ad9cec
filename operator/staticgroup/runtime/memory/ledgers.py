"""Which pods a StaticGroup has to remember, what of them its status holds already, and what nobody needs any more.

A suspect leaves the memory by a proof or a word and by nothing else. What a live pod has carried is remembered where its name
does not tell it. The end of a pod may be forgotten, and the stored
position of the watch may pass it, only when every StaticGroup of its workload has written it or can do without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...core.evidence.chain import Incarnation, IncarnationState, predates
from ...core.evidence.continuity import forgetting
from ...core.evidence.spans import GapWord
from ...core.group import GroupView
from ...core.ids.naming import Naming, issued_since_s, ordinal_of_pod
from ...core.plan import Plan
from ...core.snapshot import History, Snapshot
from ...core.status.memory import to_remember, unwritten, without_room
from ...kube.pods.continuity import Workload
from ...kube.pods.store import PodStore
from ..rivals import Rivals
from ..stores import Stores
from ..work_queue import Key
from .memories import Memories
from .memory import Memory
from .scopes import SCOPE, Carried, Scopes, Sight

FORGET_AFTER_S: Final = 60.0
"""A coordinator that has only just taken a group over may show it without its members, or not at all; what a removal needs is
forgotten only when nobody has needed it in any reading for so long."""
OF_NOBODY_S: Final = 30.0
"""How long it is believed that no StaticGroup counts on a suspect of another name: as long as a group is not read again."""
OF_NOBODY_MAX: Final = 20_000
LOOK_S: Final = 5.0
"""How often a StaticGroup looks through all ids that pods carry while new ones come: 100,000 cost some milliseconds."""
LIVING_S: Final = 3600.0
"""A pod that lives and finds no room in the ledger makes the seats blind up to the next full hour: a status written in each round
would tell nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgers:
    """The ledgers of all StaticGroups, as far as one process knows them.

    Parameters
    ----------
    cluster_uid: returns that of the kube-system namespace; "" while it was not read. now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    pods: PodStore
    stores: Stores
    memories: Memories
    cluster_uid: Callable[[], str]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    _of_nobody_since_s: dict[str, float] = field(default_factory=dict)
    _by_scope: dict[str, list[Key]] = field(default_factory=dict)
    _read_at_s: list[float] = field(default_factory=list)
    _scopes: Scopes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scopes", Scopes(pods=self.pods, stores=self.stores, monotonic_s=self.monotonic_s))

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
        Those named after the workload, whoever else carried an id that is or may become its own, and whoever a status names,
        whoever wants their ids now. Where the ledger has no room for all of them, the seats are blind from now on instead.
        """
        namespace, workload_name = group.metadata.namespace, spec.workload_ref.name
        named = self.pods.of_workload(namespace, workload_name)
        naming = memory.naming_of(spec)
        counted = memory.counted_ids or frozenset()
        # The death of a stranger proves something of an id that is wanted or held here, and nothing else.
        others = {
            i.uid: i
            for i in self._strays(group, spec, naming, memory)
            if i.state is not IncarnationState.DEAD or (i.namespace == namespace and not counted.isdisjoint(i.instance_ids))
        }
        others |= {i.uid: i for i in self._others(memory)}
        for pod in named:
            others.pop(pod.uid, None)
        memory.others = frozenset(uid for uid, i in others.items() if i.state is not IncarnationState.DEAD)
        known = (*named, *(others[uid] for uid in sorted(others)))
        if naming is not None:
            since_s = issued_since_s(naming, group, cluster_uid=self.cluster_uid())
            memory.predating = frozenset(
                i.uid for i in known if not naming.own_ids(i) and predates(i, "", issued_since_s=since_s)
            )
        left_out = without_room(remembered(known, memory, naming, namespace))
        ended_s = [i.since_s for i in left_out]
        if any(i.state is IncarnationState.LIVE for i in left_out):
            # As long as one of them lives, no word that was said already is about what it does.
            ended_s.append(math.ceil(self.now_s() / LIVING_S) * LIVING_S)
        memory.history = replace(memory.history, continuity=forgetting(memory.history.continuity, ended_s, words, now_s=self.now_s()))
        return known

    def carriers_of(self, scope: str) -> tuple[Incarnation, ...]:
        """Return every incarnation, of whatever name and namespace, that lives or may and has carried an id with a scope."""
        carried = {i for _, i in self.pods.ids() if scope in i}
        return tuple(i for i in self.pods.carriers(carried) if i.state is not IncarnationState.DEAD)

    def others(self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory) -> tuple[Incarnation, ...]:
        """Return every incarnation that is no seat of the workload, lives or may, and has carried an id of a StaticGroup."""
        return tuple(i for i in self.strangers(group, spec, memory) if i.state is not IncarnationState.DEAD)

    def strangers(self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory) -> tuple[Incarnation, ...]:
        """Return every incarnation that is no seat of the workload and that `known` may have to remember, by uid."""
        strays = self._strays(group, spec, memory.naming_of(spec), memory)
        found = {i.uid: i for i in (*strays, *self._others(memory))}
        return tuple(found[uid] for uid in sorted(found))

    def _strays(
        self, group: StaticGroup, spec: StaticGroupSpec, naming: Naming | None, memory: Memory
    ) -> Iterator[Incarnation]:
        """Iterate over whoever is no seat of the workload and has carried an id that is or may become one of a StaticGroup, or counts."""
        namespace, counted = group.metadata.namespace, memory.counted_ids or frozenset()
        carried = self._ids_of(naming, memory) | {(namespace, i) for i in counted}
        return (i for i in self.pods.strays(namespace, spec.workload_ref.name, carried) if self.may_be_of(group, i, counted))

    def _ids_of(self, naming: Naming | None, memory: Memory) -> frozenset[tuple[str, str]]:
        """Return which of all ids that pods ever carried, each with its namespace, are or may become those of a StaticGroup.

        Notes
        -----
        All of them are looked at again when one came that nobody carried before, and for one StaticGroup not more often than
        every LOOK_S; the position of the watch does not pass a pod meanwhile that `counting_on` tells of.
        """
        last, now_s = memory.carried, self.monotonic_s()
        if naming is None:
            return frozenset()
        is_same = last is not None and (last.naming, last.epoch) == (naming, self.pods.epoch)
        if last is not None and is_same and (last.of_new_ids == self.pods.new_ids or now_s - last.at_s < LOOK_S):
            return last.ids
        oldest_s = now_s - LOOK_S if is_same else math.inf
        seen = self._scopes.sight(naming.scope, not_before_s=oldest_s) if naming.is_told_by_scope else None
        if seen is None:
            own = frozenset((place, i) for place, i in self.pods.ids() if naming.is_own(i))
            seen = Sight(ids=own, of_new_ids=self.pods.new_ids, at_s=now_s)
        memory.carried = Carried(
            ids=seen.ids, naming=naming, epoch=self.pods.epoch, of_new_ids=seen.of_new_ids, at_s=seen.at_s
        )
        return memory.carried.ids

    def may_be_of(self, group: StaticGroup, pod: Incarnation, counted: Collection[str] = ()) -> bool:
        """Tell whether a pod that is no seat of a StaticGroup may be a member of its Kafka group.

        Parameters
        ----------
        counted: ids, as pods carry them, that are wanted or held; whoever carries one in the namespace of the StaticGroup may.

        Notes
        -----
        A pod whose every id is told by its own name belongs to the StaticGroups of its workload. In another namespace it is then
        theirs where all of them are about another group or Kafka cluster.
        """
        is_near = pod.namespace == group.metadata.namespace
        if is_near and not pod.instance_ids.isdisjoint(counted):
            return True
        if not self._is_told(pod):
            return True
        return not is_near and Rivals(self.stores).may_be_of(pod.namespace, pod.pod_name.rpartition("-")[0], group)

    def _is_told(self, pod: Incarnation) -> bool:
        """True when StaticGroups of the workload that a pod is named after give its name every id that it has carried."""
        workload = self.stores.groups_of_workload(pod.namespace, pod.pod_name.rpartition("-")[0])
        told = frozenset(i for key in workload for i in self.stores.naming_of(key).told_by_name(pod))
        return pod.instance_ids <= told

    def _others(self, memory: Memory) -> Iterator[Incarnation]:
        """Yield the suspects and the living that a status names or has named."""
        ledgers = (s.ledger for s in (memory.status, memory.shown) if s is not None and s.ledger is not None)
        for uid in memory.others.union(e.uid for ledger in ledgers for e in ledger.incarnations):
            found = self.pods.get(uid)
            if found is not None and found.state is not IncarnationState.DEAD:
                yield found

    def is_carried_elsewhere(self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory) -> bool | None:
        """Tell whether a pod exists that carries an id of a StaticGroup which its own name does not tell; None when that is not known.

        Notes
        -----
        It shows that ids are written by hand. A seat with the id of another one shows it, and a pod of any other name.
        """
        naming, counted = memory.naming_of(spec), memory.counted_ids or frozenset()
        strays = (pod for pod in self._strays(group, spec, naming, memory) if pod.object_present)
        if naming is not None:
            strays = (p for p in strays if any(i in counted or naming.is_own(i) for i in p.instance_ids - naming.told_by_name(p)))
        if any(strays):
            return True
        namespace = group.metadata.namespace
        seats = self.pods.of_workload(namespace, spec.workload_ref.name)
        if naming is not None and any(pod.object_present and naming.strange_ids(pod, namespace) for pod in seats):
            return True
        return None if memory.counted_ids is None else False

    def living_elsewhere(self, memory: Memory) -> tuple[Incarnation, ...]:
        """Return the living pods of other names that are known to have carried an id of a StaticGroup."""
        return tuple(i for i in self._others(memory) if i.state is IncarnationState.LIVE and i.object_present)

    def mark_durable(self, key: Key, known: Sequence[Incarnation], status: StaticGroupStatus) -> None:
        """Let the stored position pass what the ledger of every StaticGroup of the workload holds, or need not hold."""
        memory = self.memories.known(key)
        waiting = self._unwritten(key, memory, known, status) | self._unwritten_by_others(key, known)
        for incarnation in known:
            if self.pods.is_durable(incarnation.uid):
                continue
            if incarnation.uid not in waiting and not any(self.counting_on(incarnation).values()):
                self.pods.mark_durable(incarnation)

    def counting_on(self, pod: Incarnation) -> dict[Workload, bool]:
        """Name the StatefulSets whose StaticGroups count on ids of a pod that its name does not tell them, present or a suspect.

        Returns
        -------
        For each whether one of its StaticGroups has yet to write it.

        Notes
        -----
        One that has read nothing yet in this process, because its brokers are away or it is suspended, counts on every id that
        it issues; one that cannot be read, on every id. It is asked at each renewal of the Lease, of suspects that may be
        many and mostly are nobody's, so that answer is not looked for again for a while.
        """
        if pod.state is IncarnationState.DEAD or not pod.instance_ids:
            return {}
        if pod.state is IncarnationState.LIVE and (told := self._told_by_name(pod)) is not None:
            return told
        now_s = self.monotonic_s()
        if now_s - self._of_nobody_since_s.get(pod.uid, -math.inf) < OF_NOBODY_S:
            return {}
        found: dict[Workload, bool] = {}
        is_asked = False
        for key, name in (*self.stores.workloads_in(pod.namespace), *self._elsewhere(pod)):
            is_asked = True
            if (is_unwritten := self._counts_on(key, name, pod)) is not None:
                workload = (key[0], name)
                found[workload] = found.get(workload, False) or is_unwritten
        if is_asked and not found and pod.state is IncarnationState.SUSPECT:
            if len(self._of_nobody_since_s) >= OF_NOBODY_MAX:
                self._of_nobody_since_s.clear()
            self._of_nobody_since_s[pod.uid] = now_s
        return found

    def _told_by_name(self, pod: Incarnation) -> dict[Workload, bool] | None:
        """Answer at once for a seat that has nothing but the ids of its name, as almost every pod; None for any other."""
        workload = (pod.namespace, pod.pod_name.rpartition("-")[0])
        for key in self.stores.groups_of_workload(*workload):
            group, memory = self.stores.groups.get(key), self.memories.known(key)
            if group is None or memory is None:
                return {workload: True}
            naming = memory.naming_of(group.spec)
            if naming is not None and naming.gives_all(pod):
                return {}
        return None

    def _elsewhere(self, pod: Incarnation) -> Iterator[tuple[Key, str]]:
        """Yield the StaticGroups of other namespaces of which a pod may carry an id: those whose scope it shows, and those without."""
        now_s = self.monotonic_s()
        if not self._read_at_s or now_s - self._read_at_s[-1] >= 1.0:
            self._read_at_s[:] = [now_s]
            self._by_scope.clear()
            for key in self.stores.groups:
                memory = self.memories.known(key)
                if memory is not None and memory.history.injected is not None:
                    self._by_scope.setdefault(_scope_of(memory.history), []).append(key)
        shown = {found[1] for i in pod.instance_ids for found in SCOPE.finditer(i)} & self._by_scope.keys()
        for scope in ("", *shown):
            for key in self._by_scope.get(scope, ()):
                if key[0] != pod.namespace and (group := self.stores.groups.get(key)) is not None:
                    yield key, group.spec.workload_ref.name

    def _counts_on(self, key: Key, workload_name: str, pod: Incarnation) -> bool | None:
        """Tell whether a StaticGroup has yet to write a pod for an id that its name does not tell; None when it has not to."""
        group, memory = self.stores.groups.get(key), self.memories.known(key)
        is_near = key[0] == pod.namespace
        is_seat = is_near and ordinal_of_pod(workload_name, pod.pod_name) is not None
        if is_seat and pod.state is not IncarnationState.LIVE:
            return None  # its end is told by its name
        if group is None or memory is None or memory.uid != group.metadata.uid:
            return True if is_near else None
        if pod.uid not in memory.others:
            if not is_seat and not self.may_be_of(group, pod, memory.counted_ids or ()):
                return None
            naming = memory.naming_of(group.spec)
            is_issued = memory.history.injected is not None
            is_counted = is_issued and (naming is None or bool(naming.strange_ids(pod, key[0])))
            is_counted = is_counted or (not is_seat and not (memory.counted_ids or frozenset()).isdisjoint(pod.instance_ids))
            if not is_counted:
                return None
        return bool(self._unwritten(key, memory, (pod,), memory.shown))

    def _unwritten_by_others(self, key: Key, known: Sequence[Incarnation]) -> frozenset[str]:
        """Return what the status of another StaticGroup of the same workload does not hold yet."""
        group = self.stores.groups.get(key)
        if group is None:
            return frozenset()
        waiting: frozenset[str] = frozenset()
        for other in self.stores.groups_of_workload(key[0], group.spec.workload_ref.name) - {key}:
            memory = self.memories.known(other)
            waiting |= self._unwritten(other, memory, known, memory.shown if memory is not None else None)
        return waiting

    def _unwritten(
        self, key: Key, memory: Memory | None, known: Iterable[Incarnation], status: StaticGroupStatus | None
    ) -> frozenset[str]:
        """Return the uids that a StaticGroup has to remember and that a status of it does not hold."""
        group = self.stores.groups.get(key)
        naming = memory.naming_of(group.spec) if group is not None and memory is not None else None
        left = (i for i in known if memory is None or i.uid not in memory.predating)
        return unwritten(left, status.ledger if status is not None else None, self.now_s(), naming, key[0])

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


def _scope_of(history: History) -> str:
    """Return the scope that is in every id of a history; "" when there are ids without it."""
    injected = history.injected
    templates = (injected.id_template, *history.templates) if injected is not None else ()
    return injected.scope if injected is not None and all(injected.scope in t for t in templates) else ""


def remembered(
    known: Iterable[Incarnation], memory: Memory, naming: Naming | None, namespace: str
) -> tuple[Incarnation, ...]:
    """Choose what a StaticGroup of a namespace writes to its ledger."""
    return to_remember((i for i in known if i.uid not in memory.predating), naming, namespace)
