"""Which ids carry the scope of which StaticGroup: found for all of them in one look at all ids that pods ever carried.

Each StaticGroup asks which of these ids are its own. When each looked for itself, the first rounds of a process cost as many looks as
there are StaticGroups: minutes for 10,000 of them with 100,000 pods. Whatever contains a scope is an id of its StaticGroup, and
where all of its templates hold the scope nothing else is (`core.ids.naming`), so one look can sort them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ...core.ids.naming import Naming
from ...kube.pods.store import PodStore
from ..stores import Stores

SCOPE: Final = re.compile("(?=([0-9a-f]{8}))")
"""Whatever may be a scope in an id, also where two overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The ids, each with its namespace, that carry a scope, as of a look.

    Parameters
    ----------
    of_new_ids: what `PodStore.new_ids` was at the look. at_s: when it was, monotonic seconds.
    """

    ids: frozenset[tuple[str, str]]
    of_new_ids: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Which of all ids that pods carry are of one StaticGroup, by its naming, under an epoch of the watch; when that was looked for, monotonic seconds."""

    ids: frozenset[tuple[str, str]]
    naming: Naming
    epoch: str | None
    of_new_ids: int
    at_s: float


@dataclass(slots=True)
class Scopes:
    """The latest look at all ids.

    Parameters
    ----------
    monotonic_s: a clock that never goes back.
    """

    pods: PodStore
    stores: Stores
    monotonic_s: Callable[[], float]
    _ids: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    _epoch: str | None = None
    _of_new_ids: int = -1
    _at_s: float = float("-inf")

    def sight(self, scope: str, *, not_before_s: float) -> Sight | None:
        """Return the ids that carry a scope.

        Parameters
        ----------
        not_before_s: how old the look may be where ids came since; one since which none came is of now.

        Returns
        -------
        None for a scope of which no status told when all ids were looked at: whoever has it looks for itself.
        """
        is_current = (self._epoch, self._of_new_ids) == (self.pods.epoch, self.pods.new_ids)
        if not is_current and (self._epoch != self.pods.epoch or self._at_s < not_before_s):
            self._look()
            is_current = True
        found = self._ids.get(scope)
        if found is None:
            return None
        return Sight(ids=found, of_new_ids=self._of_new_ids, at_s=self.monotonic_s() if is_current else self._at_s)

    def _look(self) -> None:
        """Sort all ids by the scopes of which the statuses tell; what else looks like one may be any text, and is not kept."""
        statuses = (group.status for group in self.stores.groups.values())
        found: dict[str, set[tuple[str, str]]] = {s.injected.scope: set() for s in statuses if s is not None and s.injected is not None}
        for place, instance_id in self.pods.ids():
            for match in SCOPE.finditer(instance_id):
                ids = found.get(match[1])
                if ids is not None:
                    ids.add((place, instance_id))
        self._ids = {scope: frozenset(ids) for scope, ids in found.items()}
        self._epoch, self._of_new_ids, self._at_s = self.pods.epoch, self.pods.new_ids, self.monotonic_s()
