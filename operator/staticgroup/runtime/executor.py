"""Carry out what a round has planned, one call after the other, while nobody has said otherwise meanwhile.

The coordinator's answers are remembered before the next await, where the round may be cut; a missing answer counts as
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..api.resources.staticgroup import Mode, StaticGroup, StaticGroupSpec
from ..core.consuming import Rebalance, with_rebalance
from ..core.group import KafkaProblem, KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from ..core.outcomes import Executed, with_outcomes, with_release
from ..core.plan import Plan, RemoveMembers
from ..core.releases import Release
from ..kafka.gateway import KioGateway
from ..kafka.login.credentials import ConnectionSettings
from ..kube.gateway import KubeGateway
from .connections.connections import Connections, may_use
from .memory.memory import Memory
from .narrator import Narrator
from .stores import Stores


@dataclass(slots=True, kw_only=True)
class Executor:
    """Whatever is asked to act on Kafka.

    Parameters
    ----------
    may_write: True while this replica holds the Lease (or leader election is off); asked right before each write.
    now_s: seconds since the Unix epoch.
    """

    kube: KubeGateway
    kafka: KioGateway
    stores: Stores
    connections: Connections
    narrator: Narrator
    may_write: Callable[[], bool]
    note_problem: Callable[[StaticGroup, KafkaProblem], None]
    now_s: Callable[[], float]

    async def execute(
        self, group: StaticGroup, spec: StaticGroupSpec, decided: Plan, memory: Memory
    ) -> tuple[Executed, Plan]:
        """Carry out the plan's actions, or none of them in mode Observe; returns what became of them."""
        idle = Executed(group_config_problem=decided.history.group_config.problem)
        is_idle = not decided.actions and not decided.releases and decided.topics.action is None
        if is_idle and decided.group_config is None:
            return idle, decided
        if spec.mode is Mode.OBSERVE:
            return Executed(observe_only=True), decided
        settings = await self.connections.settings_for(group)
        if isinstance(settings, KafkaProblem):
            return Executed(problem=settings), decided
        executed, decided = await self._set_group_config(group, settings, idle, decided, memory)
        for release in decided.releases:  # a restart waits for them
            executed, decided = await self._release(group, settings, release, executed, decided, memory)
        for action in decided.actions:
            left, decided = await self._leave(group, settings, action, decided, memory)
            executed = replace(executed, removals=left.removals, outcomes=left.outcomes, problem=left.problem)
        if decided.topics.action is not None:
            executed, decided = await self._rebalance(group, settings, decided.topics.action, executed, decided, memory)
        return executed, decided

    async def _rebalance(
        self, group: StaticGroup, settings: ConnectionSettings, action: Rebalance, executed: Executed, decided: Plan,
        memory: Memory,
    ) -> tuple[Executed, Plan]:  # fmt: skip
        """Make the group rebalance once, and remember that it may have begun before anybody can cut the round."""
        if not self.may_write() or not self.is_current(group):
            return executed, decided
        before = decided.history
        memory.history = replace(before, unread=with_rebalance(before.unread, self.now_s()))
        found = await self.kafka.rebalance(settings, action.group_id, action.assignor)
        if isinstance(found, KafkaProblem):
            memory.history = before  # nobody has joined
            self.note_problem(group, found)
            return replace(executed, rebalance_problem=found), decided
        await self.narrator.rebalanced(group, action, found)
        return replace(executed, rebalance=found), replace(decided, history=memory.history)

    async def _set_group_config(
        self, group: StaticGroup, settings: ConnectionSettings, executed: Executed, decided: Plan, memory: Memory
    ) -> tuple[Executed, Plan]:
        """Set the group's own session timeout, and remember that it is to be read back."""
        write = decided.group_config
        if write is None or not self.may_write() or not self.is_current(group):
            return executed, decided
        problem = await self.kafka.set_group_config(settings, group.spec.group_id, write.values)
        if problem is not None:
            self.note_problem(group, problem)
        record = decided.history.group_config.sent(write, problem, self.now_s())
        memory.history = replace(decided.history, group_config=record)
        memory.bounds_read_at_s = float("-inf")  # what holds now is to be seen
        await self.narrator.group_config(group, write, problem)
        return replace(executed, group_config_problem=problem), replace(decided, history=memory.history)

    async def _release(
        self, group: StaticGroup, settings: ConnectionSettings, release: Release, executed: Executed, decided: Plan,
        memory: Memory,
    ) -> tuple[Executed, Plan]:  # fmt: skip
        """Send one temporary leave and remember that it may have been carried out."""
        if not self.may_write() or not self.is_current(group):
            return executed, decided

        def remember(outcome: ReleaseOutcome) -> Executed:
            memory.history = with_release(decided.history, release, outcome)
            self.narrator.released(group, release, outcome, self.now_s())
            outcomes = (*executed.release_outcomes, outcome)
            return replace(executed, releases=(*executed.releases, release), release_outcomes=outcomes)

        try:
            answer = await self.kafka.release(settings, group.spec.group_id, release.entry, release.by)
        except asyncio.CancelledError:
            remember(ReleaseOutcome.RETRY)
            raise
        if not isinstance(answer, ReleaseOutcome):
            self.note_problem(group, answer)
            return replace(executed, release_problem=answer), decided
        executed = remember(answer)
        decided = replace(decided, history=memory.history)
        await self.narrator.release(group, release, answer)
        return executed, decided

    async def _leave(
        self,
        group: StaticGroup,
        settings: ConnectionSettings,
        action: RemoveMembers,
        decided: Plan,
        memory: Memory,
    ) -> tuple[Executed, Plan]:
        """Remove one batch of members and remember what was acknowledged."""
        if not self.may_write():
            return Executed(
                problem=KafkaProblem(
                    kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE,
                    message="this replica lost its Lease; the next holder goes on",
                )
            ), decided
        if not self.is_current(group):
            return Executed(), decided
        try:
            answer = await self.kafka.leave(settings, action.group_id, [r.entry for r in action.removals], action.by)
        except asyncio.CancelledError:
            # the coordinator may have acted; the next round describes the group again, as after every lost answer
            lost = Executed(removals=action.removals, outcomes=(LeaveOutcome.RETRY,) * len(action.removals))
            self.narrator.outcomes(group, lost, self.now_s())
            raise
        now_s = self.now_s()
        if isinstance(answer, KafkaProblem):
            self.note_problem(group, answer)
            return Executed(removals=(), problem=answer), decided
        executed = Executed(removals=action.removals, outcomes=tuple(answer.outcomes))
        # remembered and reported before the next await, where the round may be cut
        memory.history = with_outcomes(decided.history, action.removals, answer.outcomes, answer.coordinator, now_s)
        self.narrator.outcomes(group, executed, now_s)
        await self.narrator.removals(group, executed)
        return executed, replace(decided, history=memory.history)

    def is_current(self, group: StaticGroup) -> bool:
        """True unless the StaticGroup was deleted, re-created or edited in this round, or lost its connection."""
        asked = group.metadata
        known = self.stores.groups.get((asked.namespace, asked.name))
        is_same = known is not None and (known.metadata.uid, known.metadata.generation) == (asked.uid, asked.generation)
        return is_same and may_use(self.stores, group)
