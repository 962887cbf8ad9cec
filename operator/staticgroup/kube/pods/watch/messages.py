"""What a stream passes to the pod store beside versions of pods: complete LISTs and gaps."""

from dataclasses import dataclass, field
from typing import Protocol

from ....core.evidence.pod import PodVersion
from ...translate import MalformedObject


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


class PodSink(Protocol):
    """What a stream feeds; all methods are synchronous, so a version is folded before the position moves."""

    def translate(self, raw: object) -> PodVersion | MalformedObject:
        """Translate a raw pod."""

    def knows(self, uid: str) -> bool:
        """True for a pod that is in the book, whatever it looks like now."""

    def take_event(self, version: PodVersion, *, is_deleted: bool) -> None:
        """Fold a version that a watch delivered."""

    def take_listed(self, version: PodVersion, *, listed_at: int) -> None:
        """Fold a version that a consistent LIST of a resourceVersion showed."""

    def take_absent(self, scope: str, listing: PodListing) -> None:
        """Record as vanished what a complete LIST does not show."""

    def contradiction(self, scope: str, listing: PodListing) -> str:
        """Compare a LIST with what was folded; "" when they agree."""

    def begin_anew(self, reason: str) -> None:
        """Begin new watches: the API server went back in time, for every scope."""

    def gap_opened(self, scope: str, gap: Gap) -> None:
        """Note that the watch of a scope is not whole any more; the stream anchors itself again."""

    def anchored(self, scope: str) -> None:
        """Note that the watch of a scope is whole from now on."""

    def troubled(self, scope: str) -> None:
        """Note that a scope cannot be followed now."""
