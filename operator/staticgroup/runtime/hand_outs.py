"""Write the notes for the waiting pods of Deployments.

They are decided on what the pod watch shows and on the members of the last round. So a pod waits for its slot neither
until brokers answer nor until a round has brought the watch up to a consistent read, which may take seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ..api.resources.injected import InjectedMethod
from ..api.resources.staticgroup import Mode, StaticGroup
from ..core.slots.deployment import SlotNote, plan_slots
from ..kube.problem import KubeProblem, KubeProblemKind
from .executor import Executor
from .gather import Gatherer
from .memory.memory import RACE_REQUEUE_S, Memories, Memory
from .work_queue import Key, Result

NOTES_AT_ONCE = 20
"""Requests of one StaticGroup that are under way at a time."""
_PASSING = (KubeProblemKind.CONFLICT, KubeProblemKind.UNAVAILABLE)
"""Worth a try soon: the pod is another version by now, or the API server was away."""


@dataclass(slots=True, kw_only=True)
class HandOuts:
    """Hand out the slots of each StaticGroup, in a queue beside that of its rounds.

    Parameters
    ----------
    force_observe: write nothing, whatever the spec says.
    """

    gatherer: Gatherer
    memories: Memories
    executor: Executor
    force_observe: bool = False

    async def hand_out(self, key: Key) -> Result:
        """Write the notes that are due for one StaticGroup.

        Returns
        -------
        When the next one is due; no time while no pod waits, and before the first round has read the status.
        """
        group = self.gatherer.stores.groups.get(key)
        memory = self.memories.known(key, group) if group is not None else None
        if group is None or memory is None or not self.executor.may_write():
            return Result()
        spec, namespace, injected = group.spec, key[0], memory.history.injected
        naming = memory.naming_of(spec)
        is_off = spec.mode is not Mode.MANAGE or self.force_observe
        if is_off or naming is None or injected is None or injected.method == InjectedMethod.NONE.value:
            return Result()
        if not any(slot.is_waiting for pod in self.gatherer.known(spec, namespace) for slot in pod.slots):
            return Result()
        view = await self.gatherer.kube.read_workload(namespace, spec.workload_ref)
        if isinstance(view, KubeProblem):
            return Result(failed=True)
        pods = self.gatherer.pods
        plan = plan_slots(
            view, self.gatherer.known(spec, namespace), memory.history.members, naming, self.gatherer.now_s(),
            scope=injected.scope, watch=pods.watch(namespace), watch_no=pods.watch_no,
        )  # fmt: skip
        noted = memory.noted
        memory.noted = {n.pod.uid: v for n in plan.notes if (v := n.pod.resource_version) == noted.get(n.pod.uid)}
        retry = await self._write(group, [n for n in plan.notes if n.pod.uid not in memory.noted], memory)
        return Result(requeue_after_s=RACE_REQUEUE_S if retry else plan.requeue_after_s)

    async def _write(self, group: StaticGroup, notes: Sequence[SlotNote], memory: Memory) -> bool:
        """Write some notes; returns True when one is worth a try soon that was not written."""
        written: list[SlotNote] = []
        problems: list[KubeProblem] = []
        for first in range(0, len(notes), NOTES_AT_ONCE):
            if not self.executor.may_write() or not self.executor.is_current(group):
                break
            some = notes[first : first + NOTES_AT_ONCE]
            asked = (self.executor.kube.write_note(n.pod, n.annotation, n.text) for n in some)
            answers = await asyncio.gather(*asked)
            written += [note for note, problem in zip(some, answers, strict=True) if problem is None]
            problems += [problem for problem in answers if problem is not None]
        memory.noted |= {note.pod.uid: note.pod.resource_version for note in written}
        await self.executor.narrator.notes(group, written, problems, self.gatherer.now_s())
        return any(problem.kind in _PASSING for problem in problems)
