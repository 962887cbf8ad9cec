"""What a stream tells the store: versions, complete LISTs, and gaps, each before the position moves."""

from dataclasses import dataclass, field
from typing import Protocol

from ....core.evidence.pod import PodVersion
from ...translate import MalformedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Why the watch is not continuous any more.

    Parameters
    ----------
    is_restore: resourceVersions went backwards, or further ahead than any cluster writes.
    is_expired: the API server no longer has the events; another one may.
    """

    reason: str
    is_restore: bool = False
    is_expired: bool = False

    @classmethod
    def expired(cls, position: int) -> "Gap":
        """Make the gap of a watch whose history after a position is gone."""
        reason = f"the API server no longer has the pod events after resourceVersion {position} (410)"
        return cls(reason=reason, is_expired=True)

    @classmethod
    def restored(cls, current: int, seen: int) -> "Gap":
        """Make the gap of a consistent read that is below what was seen before."""
        return cls(
            reason=f"a consistent read of pods answered resourceVersion {current}, below {seen} seen before "
            "(etcd restored?)",
            is_restore=True,
        )

    @classmethod
    def raised(cls, current: int, latest: int) -> "Gap":
        """Make the gap of a consistent read that is further ahead than any cluster writes."""
        return cls(
            reason=f"a consistent read of pods answered resourceVersion {current}, {current - latest} ahead of the one before, more than is "
            "written in that time (etcd restored with a raised revision?)",
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


class FollowedScope(Protocol):
    """What a sink may read of the stream that feeds it."""

    @property
    def scope(self) -> str:
        """The namespace; "" for all."""

    @property
    def position(self) -> int:
        """The resourceVersion up to which every event has been folded."""

    @property
    def last_heard_s(self) -> float:
        """When the API server said anything last, monotonic seconds."""


class PodSink(Protocol):
    """What a stream feeds; all methods are synchronous, so a version is folded before the position moves."""

    def translate(self, raw: object) -> PodVersion | MalformedObject:
        """Translate a raw pod."""

    def knows(self, uid: str) -> bool:
        """True for a pod that is in the book, whatever it looks like now."""

    def is_unseen(self, uid: str) -> bool:
        """True for a pod of the book that only a ledger names."""

    def take_event(self, stream: FollowedScope, version: PodVersion, *, is_deleted: bool) -> None:
        """Fold a version that a watch delivered."""

    def take_listed(self, version: PodVersion, *, is_restore: bool) -> None:
        """Fold a version that a LIST showed."""

    def take_absent(self, scope: str, listing: Listing) -> None:
        """Record as vanished what a complete LIST does not show."""

    def contradiction(self, scope: str, listing: Listing) -> str:
        """Compare a LIST with what was folded; "" when they agree."""

    def stored_maximum(self) -> int:
        """Return the highest resourceVersion in the durable ledger, 0 when it is empty or void."""

    def gap_opened(self, stream: FollowedScope, gap: Gap, *, was_anchored: bool) -> None:
        """Hear that continuity is lost; the stream anchors itself again."""

    def gap_closed(self, scope: str, listing: Listing) -> None:
        """Hear what a complete LIST shows after a gap, once its versions are folded."""

    def gap_healed(self, scope: str) -> None:
        """Hear that every event of the latest gap was folded after all."""

    def skipped(self, stream: FollowedScope) -> None:
        """Hear that only what lies after the stored position was delivered, because what lies before it is gone."""

    def timeline_ended(self, stream: FollowedScope, reason: str) -> None:
        """Hear that the API server went back in time, so resourceVersions compare with none of before."""

    def anchored(self, stream: FollowedScope) -> None:
        """Hear that the stream is complete and continuous from now on."""
