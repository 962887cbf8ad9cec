"""Write the notes for the waiting pods of Deployments.

They are decided on what the pod watch shows and on the members of the last round. So a pod waits for its slot neither
until brokers answer nor until a round has brought the watch up to a consistent read, which may take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..api.resources.injected import InjectedMethod
from ..api.resources.staticgroup import Mode, StaticGroup
from ..core.evidence.chain import KnownPod
from ..core.slots.deployment import SlotNote, plan_slots
from ..kube.problem import KubeProblem
from .executor import Executor
from .gather import Gatherer
from .memory.memory import RACE_REQUEUE_S, Memories
from .stores import Stores
from .work_queue import Key, Result


@dataclass(slots=True, kw_only=True)
class HandOuts:
    """Hand out the slots of each StaticGroup, in a queue beside that of its rounds.

    Parameters
    ----------
    may_write: True while this replica holds the Lease (or leader election is off).
    force_observe: write nothing, whatever the spec says.
    """

    gatherer: Gatherer
    stores: Stores
    memories: Memories
    executor: Executor
    may_write: Callable[[], bool]
    force_observe: bool = False

    async def hand_out(self, key: Key) -> Result:
        """Write the notes that are due for one StaticGroup.

        Returns
        -------
        When the next one is due; no time while no pod waits, and before the first round has read the status.
        """
        group = self.stores.groups.get(key)
        memory = self.memories.known(key, group) if group is not None else None
        if group is None or memory is None or not self.may_write():
            return Result()
        spec, namespace, injected = group.spec, key[0], memory.history.injected
        naming = memory.naming_of(spec)
        is_off = spec.mode is not Mode.MANAGE or self.force_observe
        if is_off or naming is None or injected is None or injected.method == InjectedMethod.NONE.value:
            return Result()
        known = self._known(group)
        if not any(slot.is_waiting for pod in known for slot in pod.slots):
            return Result()
        view = await self.gatherer.kube.read_workload(namespace, spec.workload_ref)
        if isinstance(view, KubeProblem):
            return Result(failed=True)
        # From here on all of it is one moment of the watch.
        plan = plan_slots(
            view, self._known(group), memory.history.members, naming, self.gatherer.now_s(), scope=injected.scope,
            watch=self.gatherer.pods.watch(namespace), watch_no=self.gatherer.pods.watch_no,
        )  # fmt: skip
        due: list[SlotNote] = []
        noted: list[SlotNote] = []
        for note in plan.notes:
            (noted if memory.noted.get(note.pod.uid) == note.pod.resource_version else due).append(note)
        written, retry = await self.executor.hand_out(group, due)
        memory.noted = {note.pod.uid: note.pod.resource_version for note in (*noted, *written)}
        return Result(requeue_after_s=RACE_REQUEUE_S if retry else plan.requeue_after_s)

    def _known(self, group: StaticGroup) -> list[KnownPod]:
        """Return the pods of a Deployment that were seen."""
        found = self.gatherer.pods.of_workload(group.metadata.namespace, group.spec.workload_ref.name)
        return [pod for pod in found if pod.slots]
