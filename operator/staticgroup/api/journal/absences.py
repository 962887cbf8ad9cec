"""Say for how long a member was away: from the end of its process until the group had it back.

The one idea: what a group waits for is the member, not the container. An absence begins with a `member.down` and ends with the
`member.rejoined` that follows, however often the process was started in between: a crash loop that never joins is one
absence, and a container that runs and does not join is still away. Whether the group let it pass is what the coordinator's
own members told (`absorbed`), not what a timeout lets expect. A member that nobody wants any more while it is away, as
`member.departed` says, is not away for a restart: when it comes back, if ever, depends on who scales up.

Two clocks: the end of a process has the kubelet's time, the return has two looks of the operator. An end was never later
than when the operator saw it, and nothing lies further back than `SKEW_MS`; where one of the two ends is known only to more
than `UNSEEN_MS`, nobody knows for how long the member was away, and the absence is *blind*.
Sources: KIP-345 (a static member is away until another member.id holds its id); Kafka's session timer, which runs from the
last heartbeat; Turnbull 1976 for durations that are known between bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from .records import (
    Data,
    GroupData,
    MemberDeparted,
    MemberDown,
    MemberRejoined,
    MemberRemoved,
    MemberUp,
    RemovalOutcome,
)

SKEW_MS: Final = 900_000
"""No fact happened longer than this before it was seen: an older time is a clock that is wrong."""
UNSEEN_MS: Final = 60_000
"""An end or a return that is known only to more than this does not make a duration: twelve looks at the group."""
_RETURN, _END, _REMOVAL, _START, _DEPARTURE = range(5)
_MARKS: Final = frozenset({_RETURN, _END, _REMOVAL})


class EndKind(StrEnum):
    """Say how an absence ended, as far as anybody knows.

    RETURNED: the group had the member back; `gap_ms` is known. The other four are censored, `gap_ms` is a lower bound:
    REMOVED (the operator removed the member), DEPARTED (nobody wanted it any more, and it was not removed until it came back or the
    window ended), OPEN (still away at the end of the window), BLIND (nobody looked for part of it, or its begin or its end is
    not known well enough).
    """

    RETURNED = "returned"
    REMOVED = "removed"
    DEPARTED = "departed"
    OPEN = "open"
    BLIND = "blind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Hold one absence of a member; all times are Unix milliseconds of the operator's clock, but for the kubelet's word.

    Parameters
    ----------
    down: the end of its process with which the absence began.
    down_ms: when that was, at the earliest.
    gap_ms: from then until the member was back, at the latest; a lower bound unless it returned.
    end: how it ended.
    started_ms: when the container started that came back, or the last one so far; None: none was seen to.
    starts: how many times a container was seen to start meanwhile.
    back_lo_ms, back_ms: between which looks the group had the member back; None unless it returned.
    absorbed: the group did not rebalance for it; None unless it returned.
    """

    down: MemberDown
    down_ms: int
    gap_ms: int
    end: EndKind
    started_ms: int | None = None
    starts: int = 0
    back_lo_ms: int | None = None
    back_ms: int | None = None
    absorbed: bool | None = None


def event_ms(data: Data) -> int:
    """Return the best single time of a fact, Unix milliseconds.

    The source's time; of a fact known only from two looks the bound that makes an absence longer (the early one of a
    `member.down`, the late one of everything else), or else when it was seen. Never later than that, and never more
    than `SKEW_MS` before.
    """
    bound = data.time_lo_ms if isinstance(data, MemberDown) else data.time_hi_ms
    known = next((each for each in (data.source_time_ms, bound) if each is not None), data.observed_at_ms)
    return max(data.observed_at_ms - SKEW_MS, min(known, data.observed_at_ms))


def absences(facts: Iterable[GroupData], *, as_of_ms: int, blind: Sequence[tuple[int, int]] = ()) -> list[Absence]:
    """Return the absences of one member.

    Parameters
    ----------
    facts: of one instance id, each once, in any order; facts of other kinds are passed over.
    as_of_ms: end of the window, Unix milliseconds; later facts are left out.
    blind: half-open times in which nobody looked, Unix milliseconds.

    Returns
    -------
    list[Absence]
        In the order in which they began.
    """
    order = sorted((row for fact in facts if (row := _row(fact)) and row[0] <= as_of_ms), key=_position)
    found: list[Absence] = []
    away: Absence | None = None
    has_departed = False
    runs: list[tuple[str, int]] = []
    was_back = True
    for moment, rank, fact in order:
        if rank == _START:
            assert isinstance(fact, MemberUp)
            runs = [*runs[-1:], _run(fact)]
            away = away and replace(away, started_ms=moment, starts=away.starts + 1)
        elif rank == _END:
            assert isinstance(fact, MemberDown)
            # Told late, when its successor is back already: another node's clock, or a watch that lagged behind.
            is_late = was_back and len(runs) == 2 and _run(fact) == runs[0] != runs[1]
            if away is None and not is_late:
                away, has_departed = Absence(down=fact, down_ms=moment, gap_ms=0, end=EndKind.OPEN), False
        elif rank == _DEPARTURE:
            has_departed = True
        elif away is not None:
            found.append(_ended(away, moment, fact, has_departed))
            away = None
        was_back = rank == _RETURN or (was_back and rank not in _MARKS)
    if away is not None:
        found.append(_ended(away, as_of_ms, None, has_departed))
    return [_seen_through(each, sorted(blind)) for each in found]


def _row(fact: GroupData) -> tuple[int, int, GroupData] | None:
    match fact:
        case MemberDown():
            rank = _END
        case MemberUp():
            rank = _START
        case MemberRejoined():
            rank = _RETURN
        case MemberRemoved(outcome=RemovalOutcome.REMOVED):
            rank = _REMOVAL
        case MemberDeparted():
            # What it says holds when it is said; the proof it names may be older than what a slow clock says of the end.
            return fact.observed_at_ms, _DEPARTURE, fact
        case _:
            return None
    return event_ms(fact), rank, fact


def _position(row: tuple[int, int, GroupData]) -> tuple[int, int, int, str]:
    """Order facts: at one time a return comes first, since it was seen late, and a start last; a run after the one before."""
    moment, rank, fact = row
    run = fact.restart_count if isinstance(fact, MemberDown | MemberUp) else -1
    return moment, rank, run, fact.operator_id


def _run(fact: MemberDown | MemberUp) -> tuple[str, int]:
    return fact.pod_uid, fact.restart_count


def _ended(away: Absence, moment: int, fact: GroupData | None, has_departed: bool) -> Absence:
    """End an absence by a return, a removal, or (None) the end of the window."""
    back = fact if isinstance(fact, MemberRejoined) and not has_departed else None
    lo_ms = moment
    if back is not None:
        lo_ms = max(away.down_ms if back.time_lo_ms is None else min(back.time_lo_ms, moment), away.down_ms)
    down_hi_ms = away.down.observed_at_ms
    if down_hi_ms - away.down_ms > UNSEEN_MS or moment - lo_ms > UNSEEN_MS:
        return replace(away, end=EndKind.BLIND, gap_ms=max(0, lo_ms - down_hi_ms))
    gap_ms = moment - away.down_ms
    if back is not None:
        return replace(
            away, end=EndKind.RETURNED, gap_ms=gap_ms, back_lo_ms=lo_ms, back_ms=moment, absorbed=back.absorbed
        )
    if isinstance(fact, MemberRemoved):
        return replace(away, end=EndKind.REMOVED, gap_ms=gap_ms)
    return replace(away, end=EndKind.DEPARTED if has_departed else EndKind.OPEN, gap_ms=gap_ms)


def _seen_through(absence: Absence, blind: Sequence[tuple[int, int]]) -> Absence:
    """Cut an absence where the first blind time begins that it meets."""
    end_ms = absence.down_ms + absence.gap_ms
    met = next((begin for begin, until in blind if begin < end_ms and until > absence.down_ms), None)
    if met is None:
        return absence
    gap_ms = max(0, met - absence.down_ms)
    return replace(absence, end=EndKind.BLIND, gap_ms=gap_ms, back_lo_ms=None, back_ms=None, absorbed=None)
