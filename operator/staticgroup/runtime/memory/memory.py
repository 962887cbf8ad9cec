"""What is remembered of one StaticGroup between rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...api.resources.staticgroup import StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...core.group import BrokerBounds
from ...core.ids.naming import Naming, naming_or_none
from ...core.snapshot import History
from .refusals import Refusal
from .rest import Seen


@dataclass(frozen=True, slots=True)
class Revision:
    """How much was known when a round began.

    Parameters
    ----------
    at_s: when it began, monotonic seconds.
    suspect_count: `PodStore.suspect_count` at that time.
    change_count: `Memory.change_count` at that time.
    """

    at_s: float = float("-inf")
    suspect_count: int = -1
    change_count: int = -1


@dataclass(slots=True)
class Memory:
    """What this process remembers of one StaticGroup between rounds.

    Attributes
    ----------
    spec: as of the last round; None before the first.
    status: as this process wrote it last, or first read it.
    shown: the status that the API server has, as it was last read from there; it may lack what an older CRD prunes.
    sent: the status whose write is under way; None while none is.
    resource_version: of the object with that status.
    is_unsure: the API server may hold another status than ours (a write was sent whose success is not known, or somebody
        wrote over it), so one is written though nothing changed.
    refusal: why the status cannot be written; None once it was.
    tried_at_s: when a status was last sent, monotonic seconds.
    turn_s: when the status that waits is written, monotonic seconds; in the past when none waits.
    lost_races: True when each try of the latest write met an edit that was newer, and nothing else stood against it.
    stored: of the last round after which the API server has everything that was remembered.
    is_unfinished: a round is under way, or the last one was cut.
    change_count: how often it, or something it needs, was marked as changed. seen: of the last round, if that was whole and changed nothing.
    """

    uid: str
    history: History
    status: StaticGroupStatus | None
    shown: StaticGroupStatus | None
    resource_version: str
    spec: StaticGroupSpec | None = None
    sent: StaticGroupStatus | None = None
    is_unsure: bool = False
    bounds: BrokerBounds | None = None
    bounds_read_at_s: float = float("-inf")
    refusal: Refusal | None = None
    tried_at_s: float = float("-inf")
    turn_s: float = float("-inf")
    lost_races: bool = False
    stored: Revision = Revision()
    is_unfinished: bool = False
    change_count: int = 0
    seen: Seen | None = None
    _naming: tuple[StaticGroupSpec, object, Naming | None] | None = None

    def look_away(self) -> None:
        """Trust the pod watch no more for members to come: while the ids have no rule, nobody remembers who becomes a suspect."""
        if self.history.members.watch:
            self.history = replace(self.history, members=replace(self.history.members, watch=""))

    def naming_of(self, spec: StaticGroupSpec) -> Naming | None:
        """Return the naming of the ids by a spec, made anew only when it or the templates are others; None where they have no rule."""
        made_of = (self.history.injected, self.history.templates)
        if self._naming is None or self._naming[0] is not spec or self._naming[1] != made_of:
            self._naming = (spec, made_of, naming_or_none(spec, self.history))
        return self._naming[2]

    def seen_until(self, now_s: float) -> Seen | None:
        """Return what was seen last, as long as it may be enough; monotonic seconds."""
        return self.seen if self.seen is not None and now_s < self.seen.until_s and not self.is_unsure else None

    @property
    def grows_old(self) -> bool:
        """True while something is remembered that is forgotten when it is old enough."""
        return bool(self.history.templates) or self.history.members.described_at_s is not None

    def waits_until_s(self, now_s: float) -> float | None:
        """Return when the status is to be written that is held up for now; None when none is. Monotonic seconds."""
        if self.refusal is not None and self.refusal.is_waiting(now_s):
            return self.refusal.retry_at_s
        return self.turn_s if self.turn_s > now_s else None
