"""What this process knows of each StaticGroup's status, and the only way in which it writes one.

The status is the durable memory of the evidence chain, so what one replica wrote must never be lost to another that was
paused for a while. A write is bound to the version of the object that this process knows; whoever wrote meanwhile is read
first. A status of a later holding of the Lease ends the matter; whatever else it is (a user's edit, a restored backup, the
last words of a replica that was paused) is taken in (suspects leave the memory only by a proof) and written over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...api import names
from ...api.resources.staticgroup import StaticGroup
from ...api.resources.status import StaticGroupStatus, Writer
from ...core.evidence.continuity import with_spans_of
from ...core.status.memory import history_from, is_of, ledger_from
from ...kube.gateway import KubeGateway
from ...kube.lease import is_older
from ...kube.pods.store import PodStore
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.translate.owners import has_history, is_put_back
from ..metrics import Metrics
from ..stores import Stores
from ..work_queue import Key
from .estates import Estates
from .memory import Memory, digest_in
from .pace import EDITS_PACE_S, Pace, can_wait, tells_of_edits
from .refusals import refused

log = logging.getLogger(__name__)

OWNED_AGAIN_S = 300.0
"""A status whose owners were cleared is written again, and no sooner after the last write: whoever clears them again and again does not stop."""
RACE_PAUSES_S = (0.1, 0.25, 0.0)
"""Waits of one round after its first, second and last write that met an edit of the spec, which are usual; more of them come
back with the next round. Written again at once, objects that are edited all the time would keep an API server busy with
conflicts until it answers more slowly than the edits come, and then nothing but conflicts is left."""
ATTEMPTS_MAX = len(RACE_PAUSES_S)


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
    estates: Estates = field(init=False)
    _by_key: dict[Key, Memory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.estates = Estates(pods=self.pods)

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
        if await self._is_outranked(key, status):
            return None
        self.pods.merge(ledger_from(key[0], status, read.metadata.uid, timeline=self.pods.timeline))
        history, others = history_from(status, read.metadata.uid), frozenset[str]()
        is_doubted = self.stores.is_doubted(key, body)
        if is_doubted:
            log.warning("the history in the status is not known to be the operator's own", extra={"key": "/".join(key)})
            history = replace(history, continuity=None)
            self.stores.doubted.add(key)  # for whoever comes before ours is written
        if history.injected is None and (inherited := self.estates.inherit(read)) is not None:
            history, others = inherited
        memory = self._by_key[key] = Memory(
            uid=read.metadata.uid,
            history=history,
            status=status if status is not None and is_of(status, read.metadata.uid) else None,
            shown=status,
            resource_version=read.metadata.resource_version,
            others=others,
            is_theirs=is_doubted,
            is_owner=has_history(body) and not is_doubted,
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

    def hear(self, key: Key, before: str) -> None:
        """Doubt the history that the watch shows now unless this process wrote it last.

        Parameters
        ----------
        before: digest of the history that the watch showed before.

        Notes
        -----
        The watch tells of writes in their order: what was written before the one that is under way, and is shown after it, was put
        back. Where the watch has begun anew in between nobody can tell before the answer (`_take_answer`); until it or the news
        comes the Lease does not pass over it (`Stores.unsettled`).
        """
        memory, told = self._by_key.get(key), self.stores.histories.get(key, (0, ""))[1]
        if memory is None:
            if told != before:
                self.stores.doubted.add(key)
            return
        if not _is_newer(str(self.stores.told_version), memory.resource_version):
            return
        last = digest_in(memory.sent) or memory.unanswered
        sent = memory.sent_digests
        if told in sent:
            if told == last:
                self.stores.unsettled.pop(key, None)  # whatever comes now comes after it
            return
        if told != memory.written_digest or before in sent:
            self.stores.doubted.add(key)

    def are_seen(self) -> bool:
        """Tell whether the watch has shown whatever this process has written, and what it has sent without an answer."""
        return all(self._is_seen(key, memory) for key, memory in self._by_key.items() if key in self.stores.groups)

    def _is_seen(self, key: Key, memory: Memory) -> bool:
        shown = self.stores.groups[key].metadata.resource_version
        if memory.unanswered:
            return _is_newer(shown, memory.resource_version) and self.stores.histories.get(key, (0, ""))[1] == memory.unanswered
        return not _is_newer(memory.resource_version, shown)

    def is_disowned(self, key: Key) -> bool:
        """Tell whether somebody has cleared who wrote the status that this process knows, so that the next process would not believe it."""
        memory, group = self._by_key.get(key), self.stores.groups.get(key)
        if memory is None or group is None or memory.uid != group.metadata.uid or not memory.is_owner or key not in self.stores.disowned:
            return False
        is_older = _is_newer(memory.resource_version, group.metadata.resource_version)  # than what was written since
        return not is_older and self.monotonic_s() >= memory.tried_at_s + OWNED_AGAIN_S

    def is_written(self, key: Key, memory: Memory, status: StaticGroupStatus) -> bool:
        """Tell whether the API server has a status already, and as the operator's own; only a write ends a doubt."""
        return status == memory.status and not memory.is_unsure and key not in self.stores.doubted and not self.is_disowned(key)

    async def _catch_up(self, key: Key, memory: Memory, body: dict[str, Any]) -> bool:
        """Take in the object as it is now; returns False when its status is another one than this process knew."""
        read = StaticGroup.from_wire(body)
        if is_older(read.metadata.resource_version, memory.resource_version):
            self.pods.went_back(f"StaticGroup {'/'.join(key)} was read in an older version than before (etcd restored?)")
        if read.status != memory.shown and await self._is_outranked(key, read.status):
            del self._by_key[key]  # nobody inherits what somebody else has gone on from
            self.pace.forget(key)
            self.stores.unsettled.pop(key, None)
            # The Lease may just not have answered; who has lost it begins with the doubts of the next one.
            self.stores.doubted.add(key)
            return False
        # No round may be cut from here on: what this version shows is not heard of again.
        sent = memory.sent_digests
        if read.metadata.resource_version != memory.resource_version:
            memory.unanswered_before = ()  # none that was sent over another version will be taken any more
        memory.resource_version = read.metadata.resource_version
        if read.status == memory.shown:
            memory.is_unsure = memory.is_theirs or bool(memory.unanswered)
            return True
        if not memory.is_unsure:  # else it may well be our own, whose acknowledgement got lost
            log.warning("the status was overwritten and is repaired", extra={"key": "/".join(key)})
        self.pods.merge(ledger_from(key[0], read.status, memory.uid, timeline=self.pods.timeline))
        theirs = history_from(read.status, memory.uid).continuity
        memory.history = replace(memory.history, continuity=with_spans_of(memory.history.continuity, theirs))
        if digest_in(read.status) not in (*sent, memory.written_digest) or not digest_in(read.status):
            self.stores.doubted.add(key)  # for whoever comes before ours is written
        memory.shown, memory.is_unsure, memory.is_theirs = read.status, True, True  # so that ours is written, whatever it says
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
                self._not_written(key, memory, stamped, answer, was_unsure=was_unsure)
                return False
            self._settle(key, memory)
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
        self.stores.unsettled.setdefault(key, (self.stores.told_version, memory.tried_at_s))
        try:
            return await self.kube.apply_status(
                names.STATIC_GROUP_PLURAL, *key, memory.uid, status.to_wire(), resource_version=memory.resource_version
            )
        except asyncio.CancelledError:
            memory.has_sent(status)
            raise
        finally:
            memory.sent = None

    def _take_answer(self, key: Key, memory: Memory, sent: StaticGroupStatus, answer: dict[str, Any]) -> bool:
        """Remember a status that was taken, as the API server had it then; False where the watch shows already what was put over it."""
        written = StaticGroup.from_wire(answer)
        memory.status, memory.shown, memory.is_unsure = sent, _one_of(sent, written.status), False
        memory.is_theirs, memory.unanswered, memory.unanswered_before = False, "", ()
        memory.is_owner = has_history(answer) and not is_put_back(answer)
        memory.resource_version = written.metadata.resource_version
        told_version, told = self.stores.histories.get(key, (0, ""))
        # The answer may come later than the news of what was put over it.
        is_put_over = _is_newer(str(told_version), memory.resource_version) and told != digest_in(sent)
        # One that tells neither ids nor what was unseen would be believed: nobody but the Lease knows of the doubt then.
        is_told = sent.injected is not None or sent.continuity is not None
        if is_put_over:
            self.stores.doubted.add(key)
        elif is_told:
            self.stores.doubted.discard(key)
        self._settle(key, memory)
        self.metrics.status_writes.inc()
        if memory.refusal is not None:
            log.info("the status is taken again", extra={"key": "/".join(key)})
            memory.refusal = None
        return not is_put_over

    def _settle(self, key: Key, memory: Memory) -> None:
        """Let the Lease go on where nothing that was sent can have been taken without an answer."""
        if not memory.unanswered:
            self.stores.unsettled.pop(key, None)

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

    def _not_written(self, key: Key, memory: Memory, sent: StaticGroupStatus, answer: KubeProblem, *, was_unsure: bool) -> None:
        """Remember why a status was not taken; a refusal, unlike no answer, means that nothing changed there."""
        refusal = refused(answer, memory.refusal, self.monotonic_s())
        if refusal is None:
            memory.has_sent(sent)
            log.warning("status not written", extra={"key": "/".join(key), "problem": answer.message})
            return
        if memory.refusal is None or memory.refusal.problem.kind is not answer.kind:
            log.error("the status is refused", extra={"key": "/".join(key), "problem": refusal.text})
        memory.refusal, memory.is_unsure = refusal, was_unsure
        self._settle(key, memory)
        self.metrics.status_refused.labels(answer.kind.value).inc()

    def forget(self, key: Key) -> None:
        """Drop the memory of a StaticGroup, but for what one that is created again may go on from."""
        memory = self._by_key.pop(key, None)
        if memory is not None:
            self.estates.leave(key[0], memory)
        if self.stores.unsettled.pop(key, None) is not None and key in self.stores.group_uids:
            self.stores.doubted.add(key)
        self.pace.forget(key)

    def forget_all(self) -> None:
        """Drop all memories: another replica has written meanwhile, so every status is read again."""
        self._by_key.clear()
        self.stores.unsettled.clear()
        self.estates.forget_all()


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
