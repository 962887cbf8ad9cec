"""Carry the pod watch's position from one operator process to the next.

A watch that resumes from its own last position has missed nothing, even when another process resumes it. So the
position and the epoch it belongs to are stored with the Lease; whatever cannot be read back means a new epoch, and a new
timeline: nobody knows then whether the API server went back in time.

A workload whose ends cannot be written stays behind the position, with one of its own, so that it holds nobody else back.
An earlier release knows of no such list. What it reads as the position is therefore the lowest of all: it resumes from
there, as it would have stored it itself, or finds the history gone and begins again. Both are safe.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Workload = tuple[str, str]
"""(namespace, name of a StatefulSet)"""
SINCE_MAX: Final = 4
"""Most earlier epochs that an epoch goes on from. StaticGroups follow in their statuses within seconds, so one is the usual
number; it is the newest that are kept."""
VOID_MAX: Final = 64
"""Most workloads for which an earlier epoch ends; one that ends for more is not kept, or the Lease, which holds them, would grow too large."""


class ConsistentRead(NamedTuple):
    """What a consistent read of pods answered, and when, seconds since the Unix epoch; resource_version 0: not known."""

    resource_version: int = 0
    at_s: float = 0.0


NO_READ: Final = ConsistentRead()


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """What a later process needs to resume the watch without a gap.

    Parameters
    ----------
    epoch: of the watch that wrote it.
    resource_versions: position of each scope; everything up to it that matters is in a status, but for `behind`.
    behind: workloads of which that is true up to an earlier position only; 0: up to none.
    since: earlier epochs, the oldest first, that `epoch` continues for every pod name but those of these workloads.
    timeline: drawn again whenever the API server was seen to go back in time; uids compare only within one.
    at_s: when it was so, seconds since the Unix epoch; 0.0 when that is not known.
    restored: the word about a restored etcd (`ActiveLease`) that was known then; "" when there was none.
    groups: position of the StaticGroups of each scope, which the etcd of pods may not have: whose history was put back until
        then is in `doubted`, or was written over. Empty where an earlier release wrote it.
    doubted: StaticGroups, by namespace and name, whose status may tell the history of another time.
    unsettled: of StaticGroups whose status may have been written over unseen, a position that all of it comes after.
    read: the latest consistent read of pods that every scope has made.
    """

    epoch: str
    resource_versions: Mapping[str, int]
    behind: Mapping[Workload, int] = field(default_factory=dict)
    since: Mapping[str, frozenset[Workload]] = field(default_factory=dict)
    timeline: str = ""
    at_s: float = 0.0
    restored: str = ""
    groups: Mapping[str, int] = field(default_factory=dict)
    doubted: frozenset[tuple[str, str]] = frozenset()
    unsettled: Mapping[tuple[str, str], int] = field(default_factory=dict)
    read: ConsistentRead = NO_READ

    def floor(self, scope: str, position: int) -> int:
        """Return the lowest of a position of a scope and of those behind it there; 0 when there is none."""
        return min((position, *(p for (namespace, _), p in self.behind.items() if scope in ("", namespace))))

    def to_json(self) -> str:
        """Write the form that the Lease's annotation carries."""
        positions = self.resource_versions
        raw: dict[str, Any] = {"epoch": self.epoch, "timeline": self.timeline, "at": self.at_s}
        raw["resourceVersions"] = {scope: self.floor(scope, position) for scope, position in positions.items()}
        if self.read.resource_version:
            raw["read"] = list(self.read)
        if self.restored:
            raw["restored"] = self.restored
        if self.groups:
            raw["staticGroups"] = dict(self.groups)
        if self.doubted:
            raw["doubted"] = sorted(map(list, self.doubted))
        if self.unsettled:
            raw["unsettled"] = [[*key, position] for key, position in sorted(self.unsettled.items())]
        if self.behind:
            raw["reached"] = dict(positions)
            raw["behind"] = [[*workload, position] for workload, position in sorted(self.behind.items())]
        if self.since:
            raw["since"] = [[epoch, sorted(map(list, void))] for epoch, void in self.since.items()]
        return json.dumps(raw, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Continuity | None":
        """Read what `to_json` of this or an earlier release wrote; None for anything else, which means to begin again."""
        try:
            raw = json.loads(text)
            floors = _positions(raw["resourceVersions"])
            epoch, timeline, restored = raw["epoch"], raw.get("timeline", ""), raw.get("restored", "")
            groups = _positions(raw.get("staticGroups", {}))
            doubted = frozenset((str(namespace), str(name)) for namespace, name in raw.get("doubted", ()))
            unsettled = {(str(namespace), str(name)): int(position) for namespace, name, position in raw.get("unsettled", ())}
            at_s = float(raw.get("at", 0.0))
            at_s = at_s if math.isfinite(at_s) else 0.0
            read_version, read_at_s = raw.get("read", NO_READ)
            read = ConsistentRead(int(read_version), float(read_at_s))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        if not isinstance(epoch, str) or not epoch:
            return None
        if not isinstance(timeline, str) or not isinstance(restored, str):
            return None
        positions, behind = _reached(raw, floors)
        if any(position <= 0 for position in (*positions.values(), *groups.values(), *unsettled.values())):
            return None
        if read.resource_version <= 0 or not math.isfinite(read.at_s):
            read = NO_READ
        return cls(
            epoch=epoch, resource_versions=positions, behind=behind, since=_since(raw.get("since")), timeline=timeline,
            at_s=at_s, restored=restored, groups=groups, doubted=doubted, unsettled=unsettled, read=read,
        )


def _positions(raw: Any) -> dict[str, int]:
    return {str(scope): int(position) for scope, position in raw.items()}


def _reached(raw: Any, floors: dict[str, int]) -> tuple[dict[str, int], dict[Workload, int]]:
    """Read how far the position is and who is behind; the lowest position and nobody when that makes no sense."""
    try:
        reached = _positions(raw["reached"])
        behind = {(str(namespace), str(name)): int(position) for namespace, name, position in raw["behind"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return floors, {}
    is_sound = reached.keys() == floors.keys() and all(reached[scope] >= floors[scope] for scope in floors)
    if not behind or not is_sound or any(p <= 0 for p in reached.values()) or any(p < 0 for p in behind.values()):
        return floors, {}
    return reached, behind


def _since(raw: Any) -> dict[str, frozenset[Workload]]:
    try:
        return {str(epoch): frozenset((str(ns), str(name)) for ns, name in void) for epoch, void in raw}
    except (ValueError, TypeError):
        return {}


def continued(
    since: Mapping[str, frozenset[Workload]], epoch: str, blind: frozenset[Workload]
) -> dict[str, frozenset[Workload]]:
    """Return what a new epoch goes on from when it continues another one for all workloads but some.

    Parameters
    ----------
    since: what `epoch` went on from itself. blind: for whom it ends; earlier epochs end for them too.
    """
    kept = {earlier: void | blind for earlier, void in since.items() if len(void | blind) <= VOID_MAX} | {epoch: blind}
    return dict(list(kept.items())[-SINCE_MAX:])
