"""What this process remembers of each StaticGroup between rounds; only through it are statuses read and written.

A write is bound to the version of the object that this process knows; after another write the object is read first. A
status of a later holding of the Lease ends the work; any other (a user's edit, a restored backup, the last write of a
paused replica) is overwritten. A write that was sent and not yet seen is an *expectation*, as in the controllers of
Kubernetes: an answer, the watch or a read fulfils it, and a refusal ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...api import names
from ...api.resources.memory import Writer
from ...api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...core.group import BrokerBounds
from ...core.ids.naming import Naming, naming_or_none
from ...core.snapshot import History
from ...core.status.memory import history_from, is_of, remembers_the_same, with_memory
from ...kube.gateway import KubeGateway
from ...kube.lease import is_older
from ...kube.pods.store import PodStore
from ...kube.problem import KubeProblem, KubeProblemKind
from ..process.metrics import Metrics
from ..stores import Stores
from ..work_queue import Key
from .pace import EDITS_PACE_S, CachedPlan, Pace, StatusRefusal, can_wait, refused, shows_only_edits

log = logging.getLogger(__name__)

RACE_PAUSES_S = (0.1, 0.25, 0.0)
"""Waits of one round after its first, second and last write that met an edit of the spec, which are usual; more of them
come with the next round. Without waits, objects that are edited all the time would keep an API server busy with
conflicts until it answers more slowly than the edits come, and then nothing but conflicts is left."""
RACE_REQUEUE_S = 1.0
"""Until the next round after a lost race: neither clients that fight for an id nor edits that come faster than a status
can be written set a faster pace."""


@dataclass(frozen=True, slots=True)
class Revision:
    """How much was known when a round began.

    Parameters
    ----------
    at_s: when it began, monotonic seconds.
    suspect_count: `PodStore.suspect_count` at that time.
    change_count: `Memory.change_count` at that time.
    """

    at_s: float = float("-inf")
    suspect_count: int = -1
    change_count: int = -1


@dataclass(slots=True)
class Memory:
    """What this process remembers of one StaticGroup between rounds.

    Attributes
    ----------
    status: as this process wrote it last, or first read it. resource_version: of the object when that was last seen.
    expected: a status that was sent and not yet seen; None when there is none.
    is_overwritten: somebody else wrote over our status, so it is written again though nothing changed.
    watch: name of the pod watch under which the object was last read: another one may begin after a restore of etcd.
    kafka_cluster_id: of the brokers that described the group last; "" before, and where they report none.
    spec: as of the last round; None before the first.
    refusal: why the status cannot be written; None once it was.
    sent_at_s: when a status was last sent. due_s: when the waiting status is written; past if none. Monotonic seconds.
    stored: of the last round after which the API server has everything that was remembered.
    is_unfinished: a round is under way, or the last one was cut.
    change_count: how often it or its inputs were marked as changed. cached: of a complete last round without changes.
    noted: by uid, the version of a pod over which a note was written that the watch has not shown yet.
    """

    uid: str
    history: History
    status: StaticGroupStatus | None
    resource_version: str
    expected: StaticGroupStatus | None = None
    is_overwritten: bool = False
    watch: str = ""
    spec: StaticGroupSpec | None = None
    bounds: BrokerBounds = field(default_factory=BrokerBounds)
    bounds_read_at_s: float = float("-inf")
    kafka_cluster_id: str = ""
    refusal: StatusRefusal | None = None
    sent_at_s: float = float("-inf")
    due_s: float = float("-inf")
    stored: Revision = Revision()
    is_unfinished: bool = False
    change_count: int = 0
    cached: CachedPlan | None = None
    noted: dict[str, int] = field(default_factory=dict)
    _naming: tuple[StaticGroupSpec, object, Naming | None] | None = None

    @property
    def must_write(self) -> bool:
        """True while the API server has, or may have, another status than ours."""
        return self.is_overwritten or self.expected is not None

    def is_own(self, status: StaticGroupStatus | None) -> bool:
        """Return True for the status that was written last, and for the one that is expected."""
        return status == self.status or (self.expected is not None and status == self.expected)

    def has_seen(self, status: StaticGroupStatus | None, resource_version: str) -> None:
        """Note that the API server has a status of ours."""
        self.status, self.resource_version = status, resource_version
        self.expected, self.is_overwritten = None, False

    def distrust_watch(self) -> None:
        """Stop trusting the watch for new members: while ids have no rule, nobody notes which pods become suspects."""
        if self.history.members.watch:
            self.history = replace(self.history, members=replace(self.history.members, watch=""))

    def naming_of(self, spec: StaticGroupSpec) -> Naming | None:
        """Return the naming of the ids by a spec, made anew when it or the templates change; None without a rule."""
        made_of = (self.history.injected, self.history.templates)
        if self._naming is None or self._naming[0] is not spec or self._naming[1] != made_of:
            self._naming = (spec, made_of, naming_or_none(spec, self.history))
        return self._naming[2]

    def cached_until(self, now_s: float) -> CachedPlan | None:
        """Return the cached plan if it is valid at a time; monotonic seconds."""
        return self.cached if self.cached is not None and now_s < self.cached.until_s and not self.must_write else None

    @property
    def has_expiring_records(self) -> bool:
        """True while something is remembered that is forgotten, or acted on, when it is old enough."""
        h = self.history
        is_due = h.unread is not None and not set(h.unread.topics) <= set(h.unread.rebalanced_for)
        passes = is_due or h.rebalancing_since_s is not None
        return passes or bool(h.templates) or h.members.described_at_s is not None

    def waits_until_s(self, now_s: float) -> float | None:
        """Return when the status that waits is to be written; None when none waits. Monotonic seconds."""
        return self.due_s if self.due_s > now_s else None


@dataclass(slots=True)
class Memories:
    """The memory of every StaticGroup.

    Parameters
    ----------
    may_write: True while this replica holds the Lease (or leader election is off); asked right before each write.
    holding: under which holding of the Lease this replica writes; None without leader election.
    still_holds: asks the API server whether that holding is the present one, where a status names a later one.
    """

    kube: KubeGateway
    pods: PodStore
    stores: Stores
    metrics: Metrics
    may_write: Callable[[], bool]
    holding: Callable[[], Writer | None]
    still_holds: Callable[[], Awaitable[bool]]
    monotonic_s: Callable[[], float]
    pace: Pace = field(default_factory=Pace)
    _by_key: dict[Key, Memory] = field(default_factory=dict)

    async def of(self, key: Key, group: StaticGroup) -> Memory | None:
        """Return the memory of a StaticGroup, read consistently at first and when the status may be another one.

        Returns
        -------
        None when it cannot be read now, is gone, or belongs to a later holder of the Lease.
        """
        memory = self._by_key.get(key)
        is_known = memory is not None and memory.uid == group.metadata.uid
        watch = self.pods.watch(key[0])
        is_settled = memory is not None and memory.expected is None and memory.watch == (watch or memory.watch)
        if memory is not None and is_known and is_settled and not self.is_overwritten(key):
            return memory
        body = await self.kube.read_object(names.STATIC_GROUP_PLURAL, *key)
        if body is None:
            self.stores.drop_group(key, group.metadata.uid)
            return None
        if isinstance(body, KubeProblem) or body["metadata"]["uid"] != group.metadata.uid:
            return None
        if memory is None or not is_known:
            self.forget(key)
            memory = await self._first_read(key, group, body)
        else:
            await self._catch_up(key, memory, body)
            memory = self._by_key.get(key)
        if memory is not None:
            memory.watch = watch
        return memory

    async def _first_read(self, key: Key, group: StaticGroup, body: dict[str, Any]) -> Memory | None:
        read = StaticGroup.from_wire(body)
        status = group.status if group.status == read.status else read.status  # one object, to save several KiB
        if status is None and body.get("status"):
            log.warning("the status cannot be read and is taken for an empty one", extra={"key": "/".join(key)})
        if await self._is_outranked(key, status):
            return None
        own = status if status is not None and is_of(status, read.metadata.uid) else None
        memory = self._by_key[key] = Memory(
            uid=read.metadata.uid,
            history=history_from(own, key[0]),
            status=own,
            resource_version=read.metadata.resource_version,
        )
        return memory

    def known(self, key: Key, group: StaticGroup) -> Memory | None:
        """Return the memory of a StaticGroup; None before its first round has read it."""
        memory = self._by_key.get(key)
        return memory if memory is not None and memory.uid == group.metadata.uid else None

    def mark_changed(self, key: Key) -> None:
        """Mark a StaticGroup, or something it needs, as changed, so that its next round plans again."""
        memory = self._by_key.get(key)
        if memory is not None:
            memory.change_count += 1

    def is_overwritten(self, key: Key) -> bool:
        """Return True when the watch shows a newer version of the object with a status that is not ours."""
        memory, group = self._by_key.get(key), self.stores.groups.get(key)
        if memory is None or group is None or memory.uid != group.metadata.uid:
            return False
        shown, version = group.status, group.metadata.resource_version
        if _is_newer(version, memory.resource_version):
            if not memory.is_own(shown):
                return True
            memory.has_seen(shown, version)  # spec or metadata changed, or our own write is shown before it is answered
        elif shown is not memory.status and shown == memory.status:
            memory.status = shown  # one object, because each costs several KiB
        return False

    def with_suspects_on(self, node_name: str) -> frozenset[Key]:
        """Return the StaticGroups that remember a suspect on a node."""
        suspects = ((k, m.history.members.suspects) for k, m in self._by_key.items())
        return frozenset(k for k, found in suspects if any(s.node_name == node_name for s in found))

    def unstored_since_s(self, term_began_s: float) -> float | None:
        """Return the start of the oldest round with changes that are not stored yet, monotonic seconds; None: all are.

        Parameters
        ----------
        term_began_s: used for StaticGroups that had no round yet, or that cannot be read.
        """
        suspects = self.pods.suspect_count
        known = ((m.stored, m.change_count) for m in self._by_key.values())
        waiting = [i.at_s for i, count in known if (i.suspect_count, i.change_count) != (suspects, count)]
        if self.stores.group_uids.keys() - self._by_key.keys():
            waiting.append(term_began_s)
        return min(waiting, default=None)

    async def _catch_up(self, key: Key, memory: Memory, body: dict[str, Any]) -> bool:
        """Take in the object as it is now; returns False when its status is not ours."""
        read = StaticGroup.from_wire(body)
        version = read.metadata.resource_version
        if is_older(version, memory.resource_version):
            name = "/".join(key)
            self.pods.begin_anew(f"StaticGroup {name} was read in an older version than before (etcd restored?)")
        if memory.is_own(read.status):
            memory.has_seen(read.status, version)
            return True
        if await self._is_outranked(key, read.status):
            self.forget(key)
            return False
        # Both at once, without an await between them: nothing shows this version again.
        memory.resource_version, memory.expected, memory.is_overwritten = version, None, True
        log.warning("the status was overwritten and is repaired", extra={"key": "/".join(key)})
        return False

    async def _is_outranked(self, key: Key, status: StaticGroupStatus | None) -> bool:
        """True for a status that a later holder of the same Lease wrote: this replica was paused and is outdated.

        Anybody with the right to write a status can put any number there, and an older Lease can be restored, so the
        Lease itself is read.
        """
        writer, ours = status.memory.writer if status is not None else None, self.holding()
        if writer is None or ours is None or writer.lease_uid != ours.lease_uid:
            return False
        if writer.lease_transitions <= ours.lease_transitions:
            return False
        if await self.still_holds():
            log.warning("the status names a later holding of the Lease than there is", extra={"key": "/".join(key)})
            return False
        log.error("a later holder of the Lease wrote the status", extra={"key": "/".join(key)})
        return True

    async def store(self, key: Key, memory: Memory, status: StaticGroupStatus, revision: Revision) -> bool:
        """Write the status of a round over the known one, unless the API server has it; False if it is not there then.

        Parameters
        ----------
        revision: of the round; noted if the API server has everything that was remembered after it.
        """
        is_there = (status == memory.status and not memory.must_write) or await self._write(key, memory, status)
        before = memory.status
        if before is not None and not memory.must_write and remembers_the_same(before.memory, status.memory):
            memory.stored = revision
        return is_there

    async def _write(self, key: Key, memory: Memory, status: StaticGroupStatus) -> bool:
        if self._is_held_up(key, memory, status):
            return False
        for pause_s in RACE_PAUSES_S:
            if not self.may_write():
                return False
            sent = with_memory(status, {"writer": self.holding()})
            memory.sent_at_s, memory.expected = self.monotonic_s(), sent
            answer = await self.kube.apply_status(
                names.STATIC_GROUP_PLURAL, *key, memory.uid, sent.to_wire(), resource_version=memory.resource_version
            )
            if not isinstance(answer, KubeProblem):
                self._written(key, memory, sent, answer)
                return True
            if answer.kind is not KubeProblemKind.CONFLICT:
                self._not_written(key, memory, answer)
                return False
            await asyncio.sleep(pause_s)
            body = await self.kube.read_object(names.STATIC_GROUP_PLURAL, *key)
            if body is None or isinstance(body, KubeProblem) or body["metadata"]["uid"] != memory.uid:
                return False
            if not await self._catch_up(key, memory, body):
                return False
        memory.due_s = self.monotonic_s() + RACE_REQUEUE_S
        return False

    def _is_held_up(self, key: Key, memory: Memory, status: StaticGroupStatus) -> bool:
        """Return True when it is not time yet to write a status; see `pace`."""
        now_s = memory.due_s = self.monotonic_s()
        next_s = memory.sent_at_s + EDITS_PACE_S
        if memory.refusal is not None:
            memory.due_s = memory.refusal.retry_at_s
        elif not memory.must_write and now_s < next_s and shows_only_edits(memory.status, status):
            memory.due_s = next_s
        elif memory.must_write or not can_wait(memory.status, status):
            self.pace.take(key, now_s)
        else:
            memory.due_s = self.pace.turn(key, now_s)
        return memory.due_s > now_s

    def _written(self, key: Key, memory: Memory, sent: StaticGroupStatus, answer: dict[str, Any]) -> None:
        """Note a status that was taken."""
        memory.has_seen(sent, str(answer["metadata"]["resourceVersion"]))
        self.metrics.status_writes.inc()
        if memory.refusal is not None:
            log.info("the status is taken again", extra={"key": "/".join(key)})
            memory.refusal = None

    def _not_written(self, key: Key, memory: Memory, answer: KubeProblem) -> None:
        """Note why a status was not taken; a refusal, unlike no answer, means that nothing changed there."""
        refusal = refused(answer, memory.refusal, self.monotonic_s())
        if refusal is None:
            log.warning("status not written", extra={"key": "/".join(key), "problem": answer.message})
            return
        if memory.refusal is None or memory.refusal.problem.kind is not answer.kind:
            log.error("the status is refused", extra={"key": "/".join(key), "problem": refusal.text})
        memory.refusal, memory.expected, memory.due_s = refusal, None, refusal.retry_at_s
        self.metrics.refused(answer.kind.value)

    def forget(self, key: Key) -> None:
        """Drop the memory of a StaticGroup."""
        self._by_key.pop(key, None)
        self.pace.forget(key)

    def forget_all(self) -> None:
        """Drop all memories: another replica has written meanwhile, so every status is read again."""
        self._by_key.clear()


def _is_newer(seen: str, known: str) -> bool:
    """Compare resourceVersions of one resource type (KEP-5504); what cannot be compared counts as newer."""
    return int(seen) > int(known) if seen.isdigit() and known.isdigit() else seen != known
