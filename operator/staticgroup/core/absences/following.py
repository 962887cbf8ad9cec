"""From what rounds see of members to absences that ended, each with its cause, by the definition in `api.absences`.

What is remembered between rounds is only what an absence that is under way needs; it is lost at a restart or a
hand-over. Then those that were under way are lost, and none is invented: an absence that began before the first round
has no length. In a group whose members must leave before a successor is let in (KIP-848, KIP-1071), a process that
ended without leaving keeps its successor out until the session expires. Such an absence is as long as the session,
and a session as long as the absence would never stop growing, so it counts as not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...api.absences import SKEW_MS, Absence, EndKind, EventKind, MemberEvent, absences
from ..group import GroupView
from .causes import Cause, cause_of
from .reservoir import Reservoir, Sample, lot_of

EVENTS_MAX = 100
"""Most events of one member that are kept: a container that crashes on and on makes two with each start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What is remembered of absences between rounds.

    Parameters
    ----------
    since_ms: when the first round began, Unix milliseconds.
    events: by instance id, what an absence under way, or the next one, is made of.
    away: ids whose process ended and that are not back, with when it ended, Unix milliseconds.
    unreleased: those of them whose member was seen not to have left although its process was over.
    """

    since_ms: int
    events: Mapping[str, tuple[MemberEvent, ...]] = field(default_factory=dict)
    away: Mapping[str, int] = field(default_factory=dict)
    unreleased: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An absence that ended with the return of its member."""

    absence: Absence
    cause: Cause
    is_measured: bool


def follow(
    before: Following,
    events: Iterable[MemberEvent],
    group: GroupView | None,
    *,
    wanted: frozenset[str],
    began_ms: int,
    now_ms: int,
) -> tuple[Following, tuple[Ended, ...]]:
    """Add what one round saw.

    Parameters
    ----------
    events: of this round, each once. group: as it was described; None when it was not.
    wanted: ids that the workload calls for; whoever is away and not wanted is not away for a restart.
    began_ms, now_ms: before the group was described and now, Unix milliseconds.
    """
    known: dict[str, list[MemberEvent]] = {i: list(rows) for i, rows in before.events.items() if i in wanted}
    for event in events:
        if event.instance_id in wanted and not (event.kind is EventKind.ENDED and event.at_ms < before.since_ms):
            known.setdefault(event.instance_id, []).append(event)
    unreleased = (before.unreleased & wanted) | _not_left(before, group, began_ms)
    kept: dict[str, tuple[MemberEvent, ...]] = {}
    away: dict[str, int] = {}
    ended: list[Ended] = []
    for instance_id, rows in known.items():
        found = absences(rows, as_of_ms=now_ms)
        is_away = bool(found) and not _is_back(found[-1], rows)
        over = found[:-1] if is_away else found
        ended += (_ended(a, rows, is_released=instance_id not in unreleased) for a in over)
        if is_away:
            away[instance_id] = found[-1].down_ms
        needed = _needed(rows, found[-1].down_ms if is_away else None)
        if is_away or any(event.at_ms > now_ms - SKEW_MS for event in needed):  # nothing is seen later than that
            kept[instance_id] = needed
    after = replace(before, events=kept, away=away, unreleased=unreleased & away.keys())
    return after, tuple(ended)


def _not_left(before: Following, group: GroupView | None, began_ms: int) -> frozenset[str]:
    """Return the ids whose process had ended before the group was asked for, and whose member has not left."""
    if group is None or group.group_epoch is None:
        return frozenset()
    held = {m.instance_id: m for m in group.members if m.instance_id in before.away}
    return frozenset(
        i
        for i, member in held.items()
        if i is not None and not member.is_away and not _has_begun_again(before.events.get(i, ()))
        if _down_seen_ms(before.events.get(i, ())) <= began_ms
    )


def _has_begun_again(rows: Iterable[MemberEvent]) -> bool:
    """True when a process is known to have started since, which may be the one that holds the seat."""
    last_down_ms = max((event.at_ms for event in rows if event.kind is EventKind.ENDED), default=0)
    return any(event.kind is EventKind.STARTED and event.at_ms >= last_down_ms for event in rows)


def _down_seen_ms(rows: Iterable[MemberEvent]) -> int:
    return max((event.observed_at_ms for event in rows if event.kind is EventKind.ENDED), default=0)


def _is_back(absence: Absence, rows: Iterable[MemberEvent]) -> bool:
    """True when an absence ended with a return, whether or not its length is known."""
    return absence.end is EndKind.RETURNED or any(
        event.kind is EventKind.RETURNED and event.at_ms >= absence.down_ms for event in rows
    )


def _ended(absence: Absence, rows: Iterable[MemberEvent], *, is_released: bool) -> Ended:
    ups = (event for event in rows if event.kind is EventKind.STARTED)
    up = next((event for event in ups if event.at_ms == absence.started_ms), None)
    is_measured = absence.end is EndKind.RETURNED and is_released
    return Ended(absence=absence, cause=cause_of(absence.down, up), is_measured=is_measured)


def _needed(rows: Iterable[MemberEvent], down_ms: int | None) -> tuple[MemberEvent, ...]:
    """Keep what the next events need: the last two starts, the last return, and all of an absence under way."""
    order = sorted(rows, key=lambda event: event.at_ms)
    ups = [event for event in order if event.kind is EventKind.STARTED][-2:]
    back = [event for event in order if event.kind is EventKind.RETURNED][-1:]
    under_way = [event for event in order if down_ms is not None and event.at_ms >= down_ms]
    kept = [event for event in order if event in under_way or event in ups or event in back]
    return tuple(kept[:2] + kept[2:][-EVENTS_MAX:])


def with_ended(
    reservoirs: Mapping[Cause, Reservoir], ended: Iterable[Ended], *, longest_ms: int, seed: str
) -> Mapping[Cause, Reservoir]:
    """Return what is kept of absences after some more have ended.

    Parameters
    ----------
    longest_ms: one that is longer is none of a restart, such as that of a pod without a node or an image, and is not
        measured.
    seed: for the lots.
    """
    after = dict(reservoirs)
    for each in ended:
        absence, known = each.absence, after.get(each.cause, Reservoir())
        if not each.is_measured or absence.gap_ms > longest_ms or absence.back_ms is None:
            after[each.cause] = known.with_unmeasured()
            continue
        back_lo_ms = absence.back_ms if absence.back_lo_ms is None else absence.back_lo_ms
        shortest_ms = min(max(0, back_lo_ms - absence.down.observed_at_ms), absence.gap_ms)
        after[each.cause] = known.with_sample(
            Sample(
                at_s=absence.back_ms // 1000,
                lot=lot_of(seed, absence.down.pod_uid, absence.down.restart_count),
                shortest_ms=shortest_ms,
                longest_ms=absence.gap_ms,
            )
        )
    return after
