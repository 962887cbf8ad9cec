"""What this process remembers of a StaticGroup that was deleted, for one that is created again with the same scope.

With a written scope (`spec.identity.scope`) ids outlive their StaticGroup, and what proves the end of their carriers was in the
status that went with it. The pod watch goes on without any StaticGroup, and sees every pod that can carry an id. So the history
goes on exactly while this process has watched without a gap from the last round of the one to the first of the other, and nothing
was forgotten meanwhile; else the heir knows nothing, and each of its seats is blind (`plan._continuity`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ...core.snapshot import History, SeatMemory
from ...kube.pods.store import PodStore
from .memory import Memory

log = logging.getLogger(__name__)

ESTATES_MAX: Final = 1000
"""Most deleted StaticGroups that are remembered; the heirs of older ones know nothing."""
Whose = tuple[str, str, str, str, str]
"""(namespace, StatefulSet, connection, group id, scope)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """What one StaticGroup left.

    Parameters
    ----------
    memory: of its rounds; one that was under way may still add to it.
    forgotten: how many suspects the pod store had forgotten by then.
    """

    memory: Memory
    forgotten: int


@dataclass(slots=True)
class Estates:
    """What all of them left, the oldest first."""

    pods: PodStore
    _left: dict[Whose, Estate] = field(default_factory=dict)

    def leave(self, namespace: str, memory: Memory) -> None:
        """Keep what was remembered of a StaticGroup that is gone, if ids were issued and it is known what happened since."""
        history = memory.history
        if memory.spec is None or history.injected is None or history.continuity is None:
            return
        whose = _whose(namespace, memory.spec, history.injected.scope)
        self._left.pop(whose, None)
        self._left[whose] = Estate(memory=memory, forgotten=self.pods.forgotten_suspects)
        while len(self._left) > ESTATES_MAX:
            del self._left[next(iter(self._left))]

    def inherit(self, group: StaticGroup) -> tuple[History, frozenset[str]] | None:
        """Return what a StaticGroup without a history goes on from, and the pods of other names that it has to remember.

        Returns
        -------
        None where its scope is not written, or nothing was left to it, or something can have happened unseen since. It is asked once:
        what was left is nobody's afterwards.
        """
        scope = group.spec.identity.scope
        if scope is None:
            return None
        left = self._left.pop(_whose(group.metadata.namespace, group.spec, scope), None)
        if left is None or not self._is_whole(left):
            return None
        history, known = left.memory.history, left.memory.history.continuity
        assert known is not None
        log.info("the history of the StaticGroup before goes on", extra={"key": f"{group.metadata.namespace}/{group.metadata.name}"})
        inherited = replace(
            history,
            # What nobody looked at meanwhile is taken to have been so: ids under other names than their own.
            continuity=replace(known, group_uid=group.metadata.uid, ids_by_hand=True),
            # What a process knows of the members themselves it knows by looking at them.
            seats={key: SeatMemory(removal=m.removal) for key, m in history.seats.items() if m.removal is not None},
            templates_idle_since_s={},
            connect_work=None,
        )
        return inherited, left.memory.others

    def _is_whole(self, left: Estate) -> bool:
        """True when no pod can have come and gone unseen since, and no suspect was forgotten."""
        known = left.memory.history.continuity
        is_seen = known is not None and bool(self.pods.epoch) and (known.epoch, known.timeline) == (self.pods.epoch, self.pods.timeline)
        return is_seen and left.forgotten == self.pods.forgotten_suspects

    def forget_all(self) -> None:
        """Drop everything: another replica may have had one of them meanwhile."""
        self._left.clear()


def _whose(namespace: str, spec: StaticGroupSpec, scope: str) -> Whose:
    return namespace, spec.workload_ref.name, "/".join(spec.connection_ref.key(namespace)), spec.group_id, scope
