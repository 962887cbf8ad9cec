"""What is remembered of one StaticGroup between rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...api.resources.staticgroup import StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...core.group import BrokerBounds
from ...core.ids.naming import Naming, naming_or_none
from ...core.snapshot import History
from .histories import Premise, Settled
from .refusals import Refusal
from .rest import Seen
from .scopes import Carried

CLOCK_SET_S = 1.0
"""A clock that goes on by itself does not differ so much from the monotonic one between two rounds; one that is slewed does not either."""

UNANSWERED_MAX = 16
"""An API server gives each request up after a minute, and a StaticGroup is written ever more seldom while none is answered."""


@dataclass(slots=True)
class Memory:
    """What this process remembers of one StaticGroup between rounds.

    Attributes
    ----------
    spec: as of the last round; None before the first.
    sent: the status whose write is under way; None while none is.
    unanswered: digest of the history in the last status that may have been taken, though no answer came; "" for none.
    unanswered_before: those of the ones before it that were sent over the same version: an API server may take one late.
    status: as this process wrote it last, or first read it.
    shown: the status that the API server has, as it was last read from there; it may lack what an older CRD prunes.
    resource_version: of the object with that status.
    is_unsure: the API server may hold another status than ours (a write was sent whose success is not known, or somebody
        wrote over it), so one is written though nothing changed.
    is_theirs: `shown` is what somebody else has put over ours, or may have; as long as it is, ours is to be written.
    is_owner: the API server noted at the last read or write that the history in the status is the operator's own.
    others: uids of the suspects and of the living of other names that a status has named, ours or one that was put over it, or
        is to name.
    counted_ids: what pods carry whose processes hold an id that was wanted or held when the group was last read; None when it
        was not yet.
    carried: which ids that any pod ever carried are or may become ours, as of the latest look at all of them.
    predating: uids of suspects whose objects were gone before an id of this StaticGroup could be known to anybody.
    needless: uids of dead incarnations that this StaticGroup needs no more, as of its last round; `needless_since_s`: since
        when no reading has needed them, monotonic seconds.
    settled: what its StatefulSet wanted when the pod watch was last brought up to a read of it.
    premise: what each round has found of the names that ids can be under.
    refusal: why the status cannot be written; None once it was.
    tried_at_s: when a status was last sent, monotonic seconds.
    turn_s: when the status that waits is written, monotonic seconds; in the past when none waits.
    lost_races: True when each try of the latest write met an edit that was newer, and nothing else stood against it.
    clock_ahead_s: of the monotonic one, the clock when the last round began; None before the first.
    told: how often something was told of it, or of what it needs. seen: of the last round, if that was whole and changed nothing.
    """

    uid: str
    history: History
    status: StaticGroupStatus | None
    shown: StaticGroupStatus | None
    resource_version: str
    spec: StaticGroupSpec | None = None
    sent: StaticGroupStatus | None = None
    unanswered: str = ""
    unanswered_before: tuple[str, ...] = ()
    is_unsure: bool = False
    is_theirs: bool = False
    is_owner: bool = False
    bounds: BrokerBounds | None = None
    bounds_read_at_s: float = float("-inf")
    others: frozenset[str] = frozenset()
    counted_ids: frozenset[str] | None = None
    carried: Carried | None = None
    predating: frozenset[str] = frozenset()
    needless: frozenset[str] = frozenset()
    needless_since_s: dict[str, float] = field(default_factory=dict)
    settled: Settled | None = None
    premise: Premise = field(default_factory=Premise)
    refusal: Refusal | None = None
    tried_at_s: float = float("-inf")
    turn_s: float = float("-inf")
    lost_races: bool = False
    clock_ahead_s: float | None = None
    told: int = 0
    seen: Seen | None = None
    _naming: tuple[StaticGroupSpec, object, Naming | None] | None = None

    def naming_of(self, spec: StaticGroupSpec) -> Naming | None:
        """Return the naming of the ids by a spec, made anew only when it or the templates are others; None where they have no rule."""
        made_of = (self.history.injected, self.history.templates)
        if self._naming is None or self._naming[0] is not spec or self._naming[1] != made_of:
            self._naming = (spec, made_of, naming_or_none(spec, self.history))
        return self._naming[2]

    def compare_clocks(self, ahead_s: float) -> None:
        """Forget what was dated by a clock that has been set since, where it is compared with the clocks of nodes."""
        if self.clock_ahead_s is not None and abs(ahead_s - self.clock_ahead_s) > CLOCK_SET_S:
            self.history = self.history.without_ages()
        self.clock_ahead_s = ahead_s

    def seen_until(self, now_s: float) -> Seen | None:
        """Return what was seen last, as long as it may be enough; monotonic seconds."""
        return self.seen if self.seen is not None and now_s < self.seen.until_s and not self.is_unsure else None

    @property
    def written_digest(self) -> str:
        """Digest of the history in the status that this process knows to be its own; "" where somebody has put another one over it."""
        return "" if self.is_theirs else digest_in(self.shown)

    @property
    def sent_digests(self) -> frozenset[str]:
        """Digests of all histories that were sent, and may have been taken without an answer until now."""
        return frozenset({digest_in(self.sent), self.unanswered, *self.unanswered_before} - {""})

    def has_sent(self, status: StaticGroupStatus) -> None:
        """Note a status that may have been taken, though no answer came."""
        digest = digest_in(status)
        if self.unanswered not in ("", digest):
            self.unanswered_before = (*self.unanswered_before, self.unanswered)[-UNANSWERED_MAX:]
        self.unanswered = digest

    @property
    def grows_old(self) -> bool:
        """True while something is remembered that is forgotten when it is old enough, or a doubt that is taken back then."""
        return bool(self.needless_since_s or self.history.templates) or self.premise.is_coming

    def waits_until_s(self, now_s: float) -> float | None:
        """Return when the status is to be written that is held up for now; None when none is. Monotonic seconds."""
        if self.refusal is not None and self.refusal.is_waiting(now_s):
            return self.refusal.retry_at_s
        return self.turn_s if self.turn_s > now_s else None


def digest_in(status: StaticGroupStatus | None) -> str:
    """Return the digest of the history in a status; "" where it tells none."""
    return status.continuity.digest or "" if status is not None and status.continuity is not None else ""
