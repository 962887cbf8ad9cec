"""Carry the pod watch's position from one operator process to the next.

A watch that resumes from its own last position has missed nothing, even when another process resumes it. So the
position and the epoch it belongs to are stored with the Lease; whatever cannot be read back means a new epoch, and a new
timeline: nobody knows then whether the API server went back in time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """What a later process needs to resume the watch without a gap.

    Parameters
    ----------
    epoch: of the watch that wrote it.
    resource_versions: position of each scope; everything up to it that matters is in a status.
    timeline: drawn anew whenever the API server was seen to go back in time; uids compare only within one.
    at_s: when it was so, seconds since the Unix epoch; 0.0 when that is not known.
    restored: the word about a restored etcd (`ActiveLease`) that was known then; "" when there was none.
    """

    epoch: str
    resource_versions: Mapping[str, int]
    timeline: str = ""
    at_s: float = 0.0
    restored: str = ""

    def to_json(self) -> str:
        """Write the form that the Lease's annotation carries."""
        form: dict[str, object] = {"epoch": self.epoch, "resourceVersions": dict(self.resource_versions)}
        form |= {"timeline": self.timeline, "at": self.at_s}
        return json.dumps(form | ({"restored": self.restored} if self.restored else {}), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Continuity | None":
        """Read what `to_json` wrote; None for anything else, which means to begin anew."""
        try:
            raw = json.loads(text)
            versions = {str(scope): int(position) for scope, position in raw["resourceVersions"].items()}
            epoch, timeline, restored = raw["epoch"], raw.get("timeline", ""), raw.get("restored", "")
            at_s = float(raw.get("at", 0.0))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not isinstance(epoch, str) or not epoch or any(position <= 0 for position in versions.values()):
            return None
        if not isinstance(timeline, str) or not isinstance(restored, str):
            return None
        return cls(epoch=epoch, resource_versions=versions, timeline=timeline, at_s=at_s, restored=restored)
