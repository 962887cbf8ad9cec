"""What a stream tells the store: versions, complete LISTs, and gaps, each before the position moves."""

from dataclasses import dataclass, field
from typing import Protocol

from ....core.evidence.pod import PodVersion
from ...translate import MalformedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Why the watch is not whole any more; `is_restore`: resourceVersions went backwards."""

    reason: str
    is_restore: bool = False

    @classmethod
    def expired(cls, position: int) -> "Gap":
        """Make the gap of a watch whose history after a position is gone."""
        return cls(reason=f"the API server no longer has the pod events after resourceVersion {position} (410)")

    @classmethod
    def restored(cls, current: int, seen: int) -> "Gap":
        """Make the gap of a consistent read that is below what was seen before."""
        return cls(
            reason=f"a consistent read of pods answered resourceVersion {current}, below {seen} seen before "
            "(etcd restored?)",
            is_restore=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One complete, consistent LIST; `versions` maps each uid to its resourceVersion.

    Parameters
    ----------
    passed_over: the same of what was nobody's concern when its page was read, but newer than the watch was when the LIST began:
        an event of before may yet make it one.
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

    def take_absent(self, scope: str, listing: Listing) -> None:
        """Record as vanished what a complete LIST does not show."""

    def contradiction(self, scope: str, listing: Listing) -> str:
        """Compare a LIST with what was folded; "" when they agree."""

    def begin_anew(self, reason: str) -> None:
        """Hear that the API server went back in time, which it did for every scope."""

    def gap_opened(self, scope: str, gap: Gap) -> None:
        """Hear that the watch of a scope is not whole any more; the stream anchors itself again."""

    def anchored(self, scope: str) -> None:
        """Hear that the watch of a scope is whole from now on."""

    def troubled(self, scope: str) -> None:
        """Hear that a scope cannot be followed now."""
