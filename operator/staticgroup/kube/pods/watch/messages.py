"""What a stream passes to the pod store beside versions of pods: complete LISTs and gaps."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Why the watch is not whole any more; `is_restore`: resourceVersions went backwards."""

    reason: str
    is_restore: bool = False


def restored(current: int, seen: int) -> str:
    """Describe a consistent read that is older than what was seen before."""
    return f"a consistent read of pods answered resourceVersion {current}, below {seen} seen before (etcd restored?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodListing:
    """One complete, consistent LIST; `versions` maps each uid to its resourceVersion.

    Parameters
    ----------
    passed_over: the same for pods that were not followed when their page was read, but are newer than the position at
        the start of the LIST: an event up to the LIST may yet make them followed.
    """

    resource_version: int
    versions: dict[str, int]
    passed_over: dict[str, int] = field(default_factory=dict)
