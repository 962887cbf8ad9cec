"""What is remembered of the members of one group, and what one description adds to it.

A *description* is one successful describe of the group and, where it shows a member for the first time, its barrier:
the pod watch has passed a consistent read that began after the describe. A failed describe is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from .carriers import UNATTRIBUTED, Attribution, Suspect, after_description, attribute, digest_of

WATCH_NAME: Final = re.compile(r"(\d{1,12})-[0-9a-f]{8}")
"""Since when a pod watch is whole, seconds since the Unix epoch, and random digits."""
PAUSE_MAX_S: Final = 120.0
"""Descriptions further apart prove nothing of the time between: more than twice the longest usual poll interval."""
_SHORT: Final = 8
"""Digits that tell apart the few brokers and rules of one StaticGroup; a status has room for nine rules."""
SETTLE_MIN_S: Final = 600.0
"""Default of the shortest silence after which a suspect is dropped for members to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What is remembered of the members of one group.

    Parameters
    ----------
    attributions: durable; by the id that the member holds.
    suspects: durable.
    watch: durable; name of the pod watch whose beginning no member to come can be older than; "" for none.
    watch_described: name of the pod watch under which this process last described the group; "" before the first time.
    young_since_s: when this process first described the group under a watch that earlier pods may outlive, monotonic
        seconds; None once no member to come can be of one.
    whole_at_s: when that will be, at the earliest, seconds since the Unix epoch, for people.
    taken_in: cases of the suspects of the pod store that were taken in once, whatever became of them.
    former: by id, the member before the present one, which a description that is older than the last change, or comes
        from a coordinator that has not loaded its last writes, may show again.
    described_at_s: when the last description was requested, monotonic seconds; None: none yet, or nothing waits.
    ends_seen: how many certificates the pod store had at the last description.
    """

    attributions: Mapping[str, Attribution] = field(default_factory=dict)
    suspects: tuple[Suspect, ...] = ()
    watch: str = ""
    watch_described: str = ""
    young_since_s: float | None = None
    whole_at_s: float = field(default=0.0, compare=False)
    taken_in: frozenset[str] = frozenset()
    former: Mapping[str, Attribution] = field(default_factory=dict)
    described_at_s: float | None = None
    ends_seen: int = field(default=0, compare=False)

    def attribution(self, instance_id: str, member_id: str) -> Attribution | None:
        """Return what is known of the member that holds an id; None when this very member was not described yet."""
        known = (self.attributions.get(instance_id), self.former.get(instance_id))
        return next((a for a in known if a is not None and a.is_of(member_id)), None)

    def first_seen_s(self, instance_id: str, member_id: str) -> float | None:
        """Return when the member that holds an id was first described, seconds since the Unix epoch."""
        known = self.attribution(instance_id, member_id)
        return known.first_seen_s if known is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the pod store shows in one round of the pods that may hold members.

    Parameters
    ----------
    watch: name of the pod watch; another one whenever pods may have come and gone unseen; "" while it is not whole.
    described_at_s: when the group was asked for, monotonic seconds.
    took_s: how long the answer took, seconds; what it shows may be as late as the end of this time.
    dated_at_s: when it was answered, in seconds since the Unix epoch, by the clock of operator or API server that is
        ahead; ends of containers are compared with it.
    ends: how many certificates the watch has brought in this process.
    ended: uids of carriers and suspects that have a certificate, or whose node is gone.
    back: uids of suspects whose objects are there after all, with no run lost.
    suspects: those of the pod store that may hold an id of the StaticGroup.
    present: uids of suspects whose objects exist: a run of each was lost.
    has_passed: the watch has passed a consistent read that began after the describe.
    carrying: by id, uids of the pods that carry it and are live or suspect, of each id that a new member holds.
    addressed: by id, the one pod that a new member speaks from.
    last_end: by id, which certificate of this process a pod that carries it got last; 0 for none.
    """

    watch: str
    described_at_s: float
    took_s: float = 0.0
    dated_at_s: float = 0.0
    ends: int = 0
    ended: frozenset[str] = frozenset()
    back: frozenset[str] = frozenset()
    suspects: tuple[Suspect, ...] = ()
    present: frozenset[str] = frozenset()
    has_passed: bool = False
    carrying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    addressed: Mapping[str, str] = field(default_factory=dict)
    last_end: Mapping[str, int] = field(default_factory=dict)


def began_s(watch: str) -> float:
    """Return since when the pod watch of a name is whole, seconds since the Unix epoch; 0.0 for what is no name."""
    found = WATCH_NAME.fullmatch(watch)
    return float(found[1]) if found else 0.0


def watch_under(name: str, brokers: str, ids: Iterable[str] = ()) -> str:
    """Return the pod watch's name in the memory of members, which starts anew at other brokers and with more ids.

    Parameters
    ----------
    name: of the pod watch; "" while it is not whole.
    brokers: differs where the group is at other brokers; "" while no connection is known, so nothing is described.
    ids: a text for each rule by which ids without a scope are ours.
    """
    if not name or not brokers:
        return name
    rules = "+".join(sorted(digest_of(text)[:_SHORT] for text in ids))
    return f"{name}.{digest_of(brokers)[:_SHORT]}{'.' if rules else ''}{rules}"


def is_covered(watch: str, now: str) -> bool:
    """Return True when no member to come is older than what is remembered under a watch, under the name it has now.

    Ids with a scope that were issued before any brokers were known are older at none. Those without one may be held by
    a process that is older than the rule by which they are ours.
    """
    (name, brokers, ids), (name_now, brokers_now, ids_now) = _parts(watch), _parts(now)
    return bool(watch) and name == name_now and brokers in ("", brokers_now) and ids_now <= ids


def is_under(watch: str, now: str) -> bool:
    """Return True for two names of one pod watch, whatever the brokers; False while it is not whole."""
    return bool(now) and _parts(watch)[0] == _parts(now)[0]


def _parts(watch: str) -> tuple[str, str, frozenset[str]]:
    name, _, place = watch.partition(".")
    brokers, _, ids = place.partition(".")
    return name, brokers, frozenset(ids.split("+")) if ids else frozenset()


def settle_s(least_s: float, session_timeouts_ms: Iterable[int], graces_s: Iterable[float]) -> float:
    """Return how long a silence lasts: at least the given minimum, twice any session timeout and any grace period."""
    return max((least_s, *(2 * ms / 1000 for ms in session_timeouts_ms), *graces_s))


def without_ended(members: Members, sight: Sight) -> Members:
    """Take the pods that have ended out of all carriers and suspects, and take in the suspects that are new."""
    both = (members.attributions, members.former)
    attributions, former = ({i: a.without(sight.ended) for i, a in each.items()} for each in both)
    new = {s.uid: s for s in sight.suspects if s.case not in members.taken_in}
    known = [s for s in members.suspects if s.uid not in new and s.uid not in sight.ended and s.uid not in sight.back]
    suspects = (*known, *(s for s in new.values() if s.uid not in sight.ended))
    taken_in = frozenset(s.case for s in sight.suspects)
    found = replace(members, attributions=attributions, former=former, suspects=suspects, taken_in=taken_in)
    return members if found == members else found


def described(
    members: Members, held: Mapping[str, str | None], sight: Sight, may_hold: Callable[[Suspect, str], bool], *,
    settle_s: float,
) -> Members:
    """Return what is remembered after one describe of the group.

    Parameters
    ----------
    held: by id of the StaticGroup that a member holds, its member id; None where the description shows several.
    may_hold: whether a suspect carries an id.
    settle_s: how long a silence lasts, seconds; see `suspects`.
    """
    members = without_ended(members, sight)
    known = {i: a for i, m in held.items() if m is not None and (a := members.attribution(i, m)) is not None}
    is_new = {i for i, m in held.items() if m is not None and i not in known}
    if not sight.watch or (is_new and not sight.has_passed):
        return members  # no description: whom it shows for the first time is seen for the first time by the next one
    is_young, is_other = not is_covered(members.watch, sight.watch), sight.watch != members.watch_described
    # An id that is described empty for once may be held by the same member again.
    kept = {i: a for i, a in members.attributions.items() if i not in is_new and (i in held or a.is_guessed)}
    added = {i: _attributed(str(held[i]), i, members, sight, is_watch_young=is_young) for i in sorted(is_new)}
    attributions = kept | known | added
    replaced = {i: a for i, a in members.attributions.items() if attributions.get(i) is not a}
    before_s, answered_at_s = members.described_at_s, sight.described_at_s + sight.took_s
    suspects = after_description(
        members.suspects, {i: attributions.get(i) for i in held}, may_hold,
        present=sight.present, asked_at_s=sight.described_at_s, answered_at_s=answered_at_s, settle_s=settle_s,
        is_first=is_other or before_s is None or not 0 <= answered_at_s - before_s <= PAUSE_MAX_S,
    )
    # This process counts, whatever the age of the watch: the memory of the carriers may have been lost since it began.
    young_since_s = answered_at_s if is_other or members.young_since_s is None else members.young_since_s
    whole_at_s = members.whole_at_s
    if young_since_s != members.young_since_s:
        whole_at_s = sight.dated_at_s + settle_s
    is_over = is_young and sight.described_at_s - young_since_s >= settle_s
    is_still_young = is_young and not is_over
    is_waiting = bool(suspects) or is_still_young
    return replace(
        members, attributions=attributions, suspects=suspects, former={**members.former, **replaced},
        # Suspects that were silent under other ids, or at other brokers, are taken in again.
        taken_in=frozenset() if is_other else members.taken_in,
        watch=members.watch if is_still_young else sight.watch, watch_described=sight.watch,
        young_since_s=young_since_s if is_still_young else None, whole_at_s=whole_at_s,
        described_at_s=sight.described_at_s if is_waiting else None, ends_seen=sight.ends,
    )


def with_living(members: Members, held: Mapping[str, str | None], left: Mapping[str, str], now_s: float) -> Members:
    """Return the memory once members return whose leave was acknowledged for good: they live, in unknown pods.

    Parameters
    ----------
    held: as for `described`. left: by id, the member id that has left it before the group was described.
    now_s: seconds since the Unix epoch.
    """
    back = {i: m for i, m in left.items() if held.get(i) == m}
    unknown = frozenset((UNATTRIBUTED,))
    living = {
        i: Attribution(member=digest_of(m), first_seen_s=members.first_seen_s(i, m) or now_s, carriers=unknown)
        for i, m in back.items()
    }
    return replace(members, attributions={**members.attributions, **living}) if living else members


def _attributed(
    member_id: str, instance_id: str, members: Members, sight: Sight, *, is_watch_young: bool
) -> Attribution:
    """Attribute a member that is described for the first time."""
    spoken_from = sight.addressed.get(instance_id)
    return attribute(
        member_id,
        carrying=sight.carrying.get(instance_id, frozenset()) if spoken_from is None else (spoken_from,),
        is_watch_young=is_watch_young,  # a pod that nobody saw may have had the same address
        has_one_ended=bool(members.watch_described) and sight.last_end.get(instance_id, 0) > members.ends_seen,
        now_s=sight.dated_at_s,
    )
