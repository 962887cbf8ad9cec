"""Carry the pod watch from one operator process to the next.

A watch that resumes from its own earlier position has missed nothing, even when another process resumes it, so it keeps
its name. Anything else begins a new watch with a new name: pods may have come and gone unseen before it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ...core.members.memory import WATCH_NAME


class ScopePosition(NamedTuple):
    """Up to which resourceVersion the pods of a namespace ("" for all) are known, and the name of their watch."""

    resource_version: int
    watch: str


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """What a later process goes on from, by namespace, or "" for all of them."""

    scopes: Mapping[str, ScopePosition]

    def of(self, scope: str) -> ScopePosition | None:
        """Return the position of a scope; a namespace may go on from that of a watch over all of them."""
        return self.scopes.get(scope) or self.scopes.get("")

    def to_json(self) -> str:
        """Write the form that the Lease's annotation carries."""
        return json.dumps({scope: list(position) for scope, position in self.scopes.items()}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "WatchPosition | None":
        """Read what `to_json` wrote; None for anything else, which means to begin again."""
        try:
            scopes = {str(k): ScopePosition(int(v), str(watch)) for k, (v, watch) in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None
        is_whole = all(p.resource_version > 0 and WATCH_NAME.fullmatch(p.watch) for p in scopes.values())
        return cls(scopes) if scopes and is_whole else None


def new_watch(now_s: float, rng: Random) -> str:
    """Draw the name of a watch that is whole from now on, seconds since the Unix epoch."""
    return f"{max(0, int(now_s)) + 1}-{rng.getrandbits(32):08x}"
