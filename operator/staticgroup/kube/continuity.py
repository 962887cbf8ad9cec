"""Carry the pod watch's position from one operator process to the next.

A watch that resumes from its own last position has missed nothing, even when another process resumes it. So the
position and the epoch it belongs to are stored with the Lease; whatever cannot be read back means a new epoch.
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
    """

    epoch: str
    resource_versions: Mapping[str, int]

    def to_json(self) -> str:
        """Write the form that the Lease's annotation carries."""
        return json.dumps({"epoch": self.epoch, "resourceVersions": dict(self.resource_versions)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Continuity | None":
        """Read what `to_json` wrote; None for anything else, which means to begin anew."""
        try:
            raw = json.loads(text)
            versions = {str(scope): int(position) for scope, position in raw["resourceVersions"].items()}
            epoch = raw["epoch"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not isinstance(epoch, str) or not epoch or any(position <= 0 for position in versions.values()):
            return None
        return cls(epoch=epoch, resource_versions=versions)
