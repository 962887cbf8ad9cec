"""One round of one StaticGroup: gather, decide, execute, report.

The plan is made on the frozen snapshot that was gathered in the order that makes a removal safe (`gather`), and the
removal carries the member.id of step 1, so whatever happens in between is answered FENCED_INSTANCE_ID.
Every round starts at *gather*: crash anywhere, start again, reach the same end. It may also be cut at any await, when
its deadline has passed (`executor`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ..api.resources.staticgroup import Mode, StaticGroup, StaticGroupSpec
from ..api.resources.status import StaticGroupStatus
from ..core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome
from ..core.members.memory import without_ended
from ..core.outcomes import Executed
from ..core.plan import Plan, Survey, decide
from ..core.snapshot import Snapshot
from ..core.status.memory import history_from, wire_members, with_memory
from ..core.status.projection import project, suspended_conditions
from .connections.connections import may_be_exclusive
from .executor import Executor
from .gather import Described, Gatherer
from .memory.memory import RACE_REQUEUE_S, Memories, Memory, Revision
from .memory.pace import CachedPlan, PlanInputs, cached_plan
from .memory.returns import Returns
from .narrator import Narrator
from .process.fleet import JournalPort
from .process.metrics import Metrics
from .stores import Stores
from .work_queue import Key, Result

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reconciler:
    """Carry out rounds.

    Parameters
    ----------
    may_write: True while this replica holds the Lease (or leader election is off); asked right before each write.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    force_observe: plan and report only, whatever the spec says.
    ask_hand_out: called with the key of each round, once its memory is read and when it has ended.
    docs_url: where the site of docs/ is read; "" for nowhere.
    """

    gatherer: Gatherer
    executor: Executor
    stores: Stores
    memories: Memories
    narrator: Narrator
    metrics: Metrics
    may_write: Callable[[], bool]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    force_observe: bool = False
    ask_hand_out: Callable[[Key], None] = lambda key: None
    docs_url: str = ""
    group_poll_s: float = 30.0
    journal: JournalPort | None = None
    returns: Returns = field(init=False)

    def __post_init__(self) -> None:
        self.returns = Returns(stores=self.stores, metrics=self.metrics, now_s=self.now_s)

    async def reconcile(self, key: Key) -> Result:
        """Run one round of one StaticGroup.

        Returns
        -------
        When to look again; no time when the StaticGroup is gone.

        Notes
        -----
        It runs even when nothing may be written now: a late renewal of the Lease begins no new term, which would look
        at everything.
        """
        if not self.may_write():
            return Result(failed=True)
        started_s = self.monotonic_s()
        group = self.stores.groups.get(key)
        if group is None:
            return await self._unusable(key)
        memory = await self.memories.of(key, group)
        if memory is None:
            return Result(failed=True)
        memory.spec = group.spec
        self.ask_hand_out(key)
        if memory.is_unfinished:
            # Slow brokers may cut each round, and the watch's position waits until the status shows all suspects.
            revision, remembered = self._revision(memory), await self._looked(group, memory)
            if memory.status is not None:  # without one nothing is remembered
                await self._write(group, with_memory(memory.status, remembered), memory, revision)
        memory.is_unfinished = True
        if group.spec.mode is Mode.SUSPENDED:
            result = await self._report_suspended(group, memory)
        else:
            result = await self._round(key, group, memory, started_s)
        memory.is_unfinished = False
        self.ask_hand_out(key)
        return result

    async def _round(self, key: Key, group: StaticGroup, memory: Memory, started_s: float) -> Result:
        spec, before, began_s = self._effective(group), memory.status, self.now_s()
        revision, last = self._revision(memory), memory.cached_until(started_s)
        described = await self.gatherer.describe(group, spec)
        if last is not None and self.gatherer.shows_the_same(group, spec, memory, described, last.inputs):
            return self._skip_plan(key, memory, revision, last, began_s, started_s)
        snapshot, found = await self.gatherer.gather(group, spec, memory, described)
        inputs = PlanInputs.of(spec, snapshot, memory.history, change_count=revision.change_count)
        if last is not None and last.inputs == inputs:
            memory.history = last.inputs.history  # the same, by which the next look knows it
            return self._skip_plan(key, memory, revision, last, began_s, started_s)
        decided = self._decided(key, spec, snapshot, found, memory, began_s)
        executed, decided = await self.executor.execute(group, spec, decided, memory)
        memory.history = decided.history
        if self.journal is not None:
            self.journal.round(
                key, spec=spec, snapshot=snapshot, plan=decided, executed=executed, before=before, began_s=began_s
            )
        written = await self._report(group, spec, snapshot, decided, executed, memory, revision)
        if key not in self.stores.groups:
            return await self._unusable(key)  # deleted meanwhile: the gauges that this round set go with it
        is_unread = isinstance(snapshot.group, KafkaProblem) or bool(snapshot.workload_problem)
        has_changed = not written or is_unread or memory.status is not before or bool(decided.slots.waiting)
        self._cache_plan(key, memory, inputs, snapshot, decided, started_s, has_changed=has_changed)
        self.metrics.round_seconds.observe(self.monotonic_s() - started_s)
        is_late = not written and memory.refusal is None and memory.waits_until_s(self.monotonic_s()) is not None
        self.metrics.rounds.labels("done" if (written or is_late) and not is_unread else "failed").inc()
        retry = LeaveOutcome.FENCED in executed.outcomes or LeaveOutcome.RETRY in executed.outcomes
        waits = (decided.requeue_after_s, self.group_poll_s, self.returns.requeue_after_s(key) or self.group_poll_s)
        requeue_after_s = RACE_REQUEUE_S if retry else min(waits)
        if written:
            return Result(requeue_after_s=requeue_after_s, failed=is_unread)
        return self._unwritten(memory, math.inf if is_unread else requeue_after_s)

    def _cache_plan(
        self, key: Key, memory: Memory, inputs: PlanInputs, snapshot: Snapshot, decided: Plan, started_s: float, *,
        has_changed: bool,
    ) -> None:
        """Keep what a round without changes saw, unless the journal waits for a round, or something to be forgotten."""
        is_unrecorded = self.journal is not None and not self.journal.knows(key)
        if has_changed or is_unrecorded or memory.has_expiring_records:
            memory.cached = None
            return
        memory.cached = cached_plan(inputs, snapshot, decided, began_s=started_s, before=memory.cached)
        if memory.history == inputs.history:
            memory.history = inputs.history  # not twice of each StaticGroup

    def _skip_plan(
        self, key: Key, memory: Memory, revision: Revision, last: CachedPlan, began_s: float, started_s: float
    ) -> Result:
        """End a round that saw what the last one saw, so that its status is written already; the journal notes it."""
        memory.stored = revision
        began_ms = int(began_s * 1000)
        self.returns.seen_again(key, began_ms)
        if self.journal is not None:
            self.journal.seen_again(key, began_ms)
        self.metrics.round_seconds.observe(self.monotonic_s() - started_s)
        self.metrics.rounds.labels("nothing_new").inc()
        waits = (last.requeue_after_s, self.group_poll_s, self.returns.requeue_after_s(key) or self.group_poll_s)
        return Result(requeue_after_s=min(waits))

    def _decided(
        self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, memory: Memory, began_s: float
    ) -> Plan:
        """Decide; an absence that has ended counts at once, for the next pod may be made right away."""
        absences = self.returns.round(key, spec, snapshot, found, began_s)
        found = replace(found, history=replace(found.history, absences=absences))
        decided = decide(spec, snapshot, found, self.now_s())
        if decided.history.group_config is not None and decided.history.group_config.is_open:
            memory.bounds_read_at_s = float("-inf")  # until it is read back
        return decided

    def _unwritten(self, memory: Memory, requeue_after_s: float) -> Result:
        """Return when to look again after a status was not written; being held up or always edited is no failure."""
        now_s = self.monotonic_s()
        until_s = memory.waits_until_s(now_s)
        return Result(failed=True) if until_s is None else Result(requeue_after_s=min(requeue_after_s, until_s - now_s))

    def forget(self, key: Key) -> None:
        """Drop the memory of a StaticGroup that is gone; its pods stay in the pod store."""
        self.memories.forget(key)
        self.narrator.forget(key)
        self.metrics.forget(*key)
        self.returns.forget(key)
        if self.journal is not None:
            self.journal.forget(key)

    def forget_all(self) -> None:
        """Drop all memories: another replica has written meanwhile, so the status is read again."""
        self.memories.forget_all()
        self.returns.forget_all()
        if self.journal is not None:
            self.journal.forget_all()

    async def snapshot_of(self, group: StaticGroup) -> tuple[StaticGroupSpec, Snapshot]:
        """Observe once without remembering or writing anything, for `explain`."""
        status = group.status
        memory = Memory(
            uid=group.metadata.uid,
            history=history_from(status, group.metadata.namespace),
            status=status,
            resource_version="",
        )
        spec = self._effective(group)
        snapshot, _ = await self.gatherer.gather(group, spec, memory, await self.gatherer.describe(group, spec))
        return spec, snapshot

    async def _report(
        self, group: StaticGroup, spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, executed: Executed,
        memory: Memory, revision: Revision,
    ) -> bool:  # fmt: skip
        """Write the status if it changed, tell Events and metrics; returns False when the write failed."""
        if not self.may_write():
            return False
        now = datetime.fromtimestamp(self.now_s(), tz=UTC)
        status = project(spec, snapshot, decided, executed, memory.status, now, docs_url=self.docs_url)
        await self.narrator.round(group, decided, memory.status, status)
        return await self._write(group, status, memory, revision)

    async def _write(self, group: StaticGroup, status: StaticGroupStatus, memory: Memory, revision: Revision) -> bool:
        """Write the status unless the API server has it already; returns False when that failed."""
        key = (group.metadata.namespace, group.metadata.name)
        is_written = await self.memories.store(key, memory, status, revision)
        await self.narrator.status(group, memory.refusal)
        return is_written

    async def _report_suspended(self, group: StaticGroup, memory: Memory) -> Result:
        """Report that nothing is done, but remember who may hold the members, or a later removal would have to wait."""
        now = datetime.fromtimestamp(self.now_s(), tz=UTC)
        revision, before = self._revision(memory), memory.status or StaticGroupStatus()
        remembered = await self._looked(group, memory)
        generation, uid = group.metadata.generation, group.metadata.uid
        conditions = suspended_conditions(before.conditions, generation, now, docs_url=self.docs_url)
        changes = {"observed_generation": generation, "conditions": conditions}
        status = with_memory(before.model_copy(update=changes), {"static_group_uid": uid} | remembered)
        if self.may_write():
            self.narrator.suspended(group, status)
        is_written = await self._write(group, status, memory, revision)
        return Result(requeue_after_s=self.group_poll_s) if is_written else self._unwritten(memory, self.group_poll_s)

    def _revision(self, memory: Memory) -> Revision:
        """Return how much is known now; taken before a round reads anything."""
        suspects = self.gatherer.pods.suspect_count
        return Revision(at_s=self.monotonic_s(), suspect_count=suspects, change_count=memory.change_count)

    async def _looked(self, group: StaticGroup, memory: Memory) -> dict[str, Any]:
        """Take in what the pods show, without asking the brokers, and return it as fields of `StatusMemory`."""
        naming = memory.naming_of(group.spec)
        if naming is not None:
            found = KafkaProblem(kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE, message="")
            sight = await self.gatherer.sight(group, group.spec, memory, Described(
                settings=found, group=found, at_s=self.now_s(), monotonic_s=self.monotonic_s()
            ), naming)
            memory.history = replace(memory.history, members=without_ended(memory.history.members, sight))
        else:
            memory.distrust_watch()
        return wire_members(group.metadata.namespace, memory.history.members)

    async def _unusable(self, key: Key) -> Result:
        """Handle a key whose StaticGroup is gone or was stored under a schema that allowed what we cannot read."""
        message = self.stores.invalid_groups.get(key)
        self.forget(key)
        if message is not None:
            log.error("StaticGroup is invalid", extra={"key": "/".join(key), "violations": message})
        return Result()

    def _effective(self, group: StaticGroup) -> StaticGroupSpec:
        """Return the spec, in mode Observe if the operator is, without `assumeExclusive` if that does not count."""
        spec = group.spec
        if spec.assume_exclusive and not may_be_exclusive(self.stores, group):
            spec = spec.model_copy(update={"assume_exclusive": False})
        return spec.model_copy(update={"mode": Mode.OBSERVE}) if self.force_observe else spec
