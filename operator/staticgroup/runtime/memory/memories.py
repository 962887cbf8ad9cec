"""What this process knows of each StaticGroup's status, and the only way in which it writes one.

A write is bound to the version of the object that this process knows; whoever wrote meanwhile is read first. A status of a
later holding of the Lease ends the matter; whatever else it is (a user's edit, a restored backup, the last words of a
replica that was paused) is written over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ...api import names
from ...api.resources.staticgroup import StaticGroup
from ...api.resources.status import StaticGroupStatus, Writer
from ...core.status.durable import history_from, is_of, remembers_the_same
from ...kube.gateway import KubeGateway
from ...kube.lease import is_older
from ...kube.pods.store import PodStore
from ...kube.problem import KubeProblem, KubeProblemKind
from ..metrics import Metrics
from ..stores import Stores
from ..work_queue import Key
from .memory import Memory, Revision
from .pace import EDITS_PACE_S, Pace, can_wait, tells_of_edits
from .refusals import refused

log = logging.getLogger(__name__)

RACE_PAUSES_S = (0.1, 0.25, 0.0)
"""Waits of one round after its first, second and last write that met an edit of the spec, which are usual; more of them come
back with the next round. Written again at once, objects that are edited all the time would keep an API server busy with
conflicts until it answers more slowly than the edits come, and then nothing but conflicts is left."""


@dataclass(slots=True)
class Memories:
    """The memory of every StaticGroup.

    Parameters
    ----------
    may_write: True while this replica holds the Lease (or leader election is off); asked right before each write.
    holding: under which holding of the Lease this replica writes; None without leader election.
    still_holds: asks the API server whether that holding is the present one, where a status names a later one.
    monotonic_s: a clock that never goes back.
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
        """Return the memory of a StaticGroup; at first, and when the status may be another one, after a consistent read.

        Returns
        -------
        None when it cannot be read now, is gone, or belongs to a later holder of the Lease.
        """
        memory = self._by_key.get(key)
        is_known = memory is not None and memory.uid == group.metadata.uid
        if memory is not None and is_known and not memory.is_unsure and not self.is_overwritten(key):
            return memory
        body = await self.kube.read_object(names.STATIC_GROUP_PLURAL, *key)
        if body is None:
            self.stores.drop_group(key, group.metadata.uid)
            return None
        if isinstance(body, KubeProblem) or body["metadata"]["uid"] != group.metadata.uid:
            return None
        if memory is None or not is_known:
            self.forget(key)
            return await self._first_read(key, group, body)
        await self._catch_up(key, memory, body)
        return self._by_key.get(key)

    async def _first_read(self, key: Key, group: StaticGroup, body: dict[str, Any]) -> Memory | None:
        read = StaticGroup.from_wire(body)
        status = _one_of(group.status, read.status)
        if status is None and body.get("status"):
            log.warning("the status cannot be read and is taken for an empty one", extra={"key": "/".join(key)})
        if await self._is_outranked(key, status):
            return None
        own = status if status is not None and is_of(status, read.metadata.uid) else None
        memory = self._by_key[key] = Memory(
            uid=read.metadata.uid,
            history=history_from(own, key[0]),
            status=own,
            shown=status,
            resource_version=read.metadata.resource_version,
        )
        return memory

    def known(self, key: Key) -> Memory | None:
        """Return the memory of a StaticGroup as it is; None before its first round in this process."""
        return self._by_key.get(key)

    def is_overwritten(self, key: Key) -> bool:
        """Tell whether the watch shows a status that is newer than the one this process knows, and another one."""
        memory, group = self._by_key.get(key), self.stores.groups.get(key)
        if memory is None or group is None or memory.uid != group.metadata.uid:
            return False
        if not _is_newer(group.metadata.resource_version, memory.resource_version):
            if group.metadata.resource_version == memory.resource_version and group.status is not memory.shown:
                _share(memory, group.status)
            return False
        if memory.sent is not None and group.status == memory.sent:
            return False  # the watch tells of our own write before it is answered
        if group.status != memory.shown:
            return True
        memory.resource_version = group.metadata.resource_version  # only spec or metadata changed
        _share(memory, group.status)
        return False

    def with_suspects_on(self, node_name: str) -> frozenset[Key]:
        """Return the StaticGroups that remember a suspect on a node."""
        return frozenset(k for k, m in self._by_key.items() if any(s.node_name == node_name for s in m.history.members.suspects))

    def is_written(self, memory: Memory, status: StaticGroupStatus) -> bool:
        """Tell whether the API server has a status already."""
        return status == memory.status and not memory.is_unsure

    def note_stored(self, memory: Memory, revision: Revision, status: StaticGroupStatus) -> None:
        """Note the revision of a round if the API server has everything that was remembered after it.

        Parameters
        ----------
        status: the one to be written after that round, whether it was or not.
        """
        if memory.status is not None and not memory.is_unsure and remembers_the_same(memory.status, status):
            memory.stored = revision

    def unstored_since_s(self, term_began_s: float) -> float | None:
        """Return the start of the oldest round after which changes are not in the API server yet, monotonic seconds; None when all are.

        Parameters
        ----------
        term_began_s: used for StaticGroups that had no round yet, or that cannot be read.
        """
        suspects = self.pods.suspect_count
        waiting = [m.stored.at_s for m in self._by_key.values() if (m.stored.suspect_count, m.stored.change_count) != (suspects, m.change_count)]
        if self.stores.group_uids.keys() - self._by_key.keys():
            waiting.append(term_began_s)
        return min(waiting, default=None)

    async def _catch_up(self, key: Key, memory: Memory, body: dict[str, Any]) -> bool:
        """Take in the object as it is now; returns False when its status is another one than this process knew."""
        read = StaticGroup.from_wire(body)
        if is_older(read.metadata.resource_version, memory.resource_version):
            self.pods.begin_anew(f"StaticGroup {'/'.join(key)} was read in an older version than before (etcd restored?)")
        if read.status != memory.shown and await self._is_outranked(key, read.status):
            del self._by_key[key]
            self.pace.forget(key)
            return False
        # No round may be cut from here on: what this version shows is not heard of again.
        memory.resource_version = read.metadata.resource_version
        if read.status == memory.shown:
            memory.is_unsure = False
            return True
        if not memory.is_unsure:  # else it may well be our own, whose acknowledgement got lost
            log.warning("the status was overwritten and is repaired", extra={"key": "/".join(key)})
        memory.shown, memory.is_unsure = read.status, True  # so that ours is written, whatever it says
        return False

    async def _is_outranked(self, key: Key, status: StaticGroupStatus | None) -> bool:
        """True for a status that a later holder of the same Lease wrote: this replica was paused and is outdated.

        Notes
        -----
        Whoever may write a status can put any number there, and an older Lease can be put back, so the Lease itself is asked.
        """
        writer, ours = status.writer if status is not None else None, self.holding()
        if writer is None or ours is None or writer.lease_uid != ours.lease_uid:
            return False
        if writer.lease_transitions <= ours.lease_transitions:
            return False
        if await self.still_holds():
            log.warning("the status names a later holding of the Lease than there is", extra={"key": "/".join(key)})
            return False
        log.error("a later holder of the Lease wrote the status", extra={"key": "/".join(key)})
        return True

    async def write(self, key: Key, memory: Memory, status: StaticGroupStatus) -> bool:
        """Write a status over the one this process knows; returns False when it is not, and another round is due.

        Notes
        -----
        One that was refused is not sent again before its time (`Memory.refusal`), however many rounds there are; one that
        tells only how far things are, or of one edit after another, waits for its turn (`Memory.turn_s`).
        """
        memory.lost_races = False
        if self._is_held_up(key, memory, status):
            return False
        for pause_s in RACE_PAUSES_S:
            if not self.may_write():
                return False
            was_unsure = memory.is_unsure
            stamped = status.model_copy(update={"writer": self.holding()})
            answer = await self._send(key, memory, stamped)
            if not isinstance(answer, KubeProblem):
                return self._take_answer(key, memory, stamped, answer)
            if answer.kind is not KubeProblemKind.CONFLICT:
                self._not_written(key, memory, answer, was_unsure=was_unsure)
                return False
            await asyncio.sleep(pause_s)
            body = await self.kube.read_object(names.STATIC_GROUP_PLURAL, *key)
            if body is None or isinstance(body, KubeProblem) or body["metadata"]["uid"] != memory.uid:
                return False
            if not await self._catch_up(key, memory, body):
                return False
        memory.lost_races = True
        return False

    async def _send(self, key: Key, memory: Memory, status: StaticGroupStatus) -> dict[str, Any] | KubeProblem:
        """Send a status for the object as this process knows it; one whose answer is not waited for may have been taken."""
        memory.tried_at_s = self.monotonic_s()
        memory.is_unsure, memory.sent = True, status
        try:
            return await self.kube.apply_status(
                names.STATIC_GROUP_PLURAL, *key, memory.uid, status.to_wire(), resource_version=memory.resource_version
            )
        finally:
            memory.sent = None

    def _take_answer(self, key: Key, memory: Memory, sent: StaticGroupStatus, answer: dict[str, Any]) -> bool:
        """Remember a status that was taken, as the API server had it then."""
        written = StaticGroup.from_wire(answer)
        memory.status, memory.shown, memory.is_unsure = sent, _one_of(sent, written.status), False
        memory.resource_version = written.metadata.resource_version
        self.metrics.status_writes.inc()
        if memory.refusal is not None:
            log.info("the status is taken again", extra={"key": "/".join(key)})
            memory.refusal = None
        return True

    def _is_held_up(self, key: Key, memory: Memory, status: StaticGroupStatus) -> bool:
        """Tell whether it is not time yet to write a status: its refusal or the turns of all statuses say when."""
        now_s = self.monotonic_s()
        if memory.refusal is not None:
            return memory.refusal.is_waiting(now_s)
        if not memory.is_unsure and now_s < (next_s := memory.tried_at_s + EDITS_PACE_S) and tells_of_edits(memory.status, status):
            memory.turn_s = next_s
        elif memory.is_unsure or not can_wait(memory.status, status):
            self.pace.take(key, now_s)
            memory.turn_s = now_s
        else:
            memory.turn_s = self.pace.turn(key, now_s)
        return memory.turn_s > now_s

    def _not_written(self, key: Key, memory: Memory, answer: KubeProblem, *, was_unsure: bool) -> None:
        """Remember why a status was not taken; a refusal, unlike no answer, means that nothing changed there."""
        refusal = refused(answer, memory.refusal, self.monotonic_s())
        if refusal is None:
            log.warning("status not written", extra={"key": "/".join(key), "problem": answer.message})
            return
        if memory.refusal is None or memory.refusal.problem.kind is not answer.kind:
            log.error("the status is refused", extra={"key": "/".join(key), "problem": refusal.text})
        memory.refusal, memory.is_unsure = refusal, was_unsure
        self.metrics.status_refused.labels(answer.kind.value).inc()

    def forget(self, key: Key) -> None:
        """Drop the memory of a StaticGroup."""
        self._by_key.pop(key, None)
        self.pace.forget(key)

    def forget_all(self) -> None:
        """Drop all memories: another replica has written meanwhile, so every status is read again."""
        self._by_key.clear()


def _share(memory: Memory, status: StaticGroupStatus | None) -> None:
    """Keep one object of a status that is known three times: as it was written, as it was answered, and as the watch shows it."""
    memory.shown = _one_of(status, memory.shown)
    memory.status = _one_of(status, memory.status)


def _one_of(known: StaticGroupStatus | None, other: StaticGroupStatus | None) -> StaticGroupStatus | None:
    """Return the one that is kept already where both are equal, because each costs several KiB, and the other one where they are not."""
    return known if known == other else other


def _is_newer(seen: str, known: str) -> bool:
    """Compare resourceVersions of one resource type (KEP-5504); what cannot be compared counts as newer."""
    return int(seen) > int(known) if seen.isdigit() and known.isdigit() else seen != known
