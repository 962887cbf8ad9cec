"""Say for how long a member was away: from the end of its process until the group had it back.

The one idea: what a group waits for is the member, not the container. An absence begins when its process ends and
ends with the first return to the group after that, however often the process was started in between: a crash loop
that never joins is one absence, and a container that runs and does not join is still away. Whether the group let it
pass is what the coordinator's own members showed (`absorbed`), not what a timeout lets expect. A member that nobody
wants any more while it is away is not away for a restart: when it comes back, if ever, depends on who scales up.

Two clocks: the end of a process has the kubelet's time, the return lies between two readings of the group. An end was
never later than when the operator saw it, and nothing lies further back than `SKEW_MS`; where one of the two ends is
known only to more than `UNSEEN_MS`, nobody knows for how long the member was away, and the absence is *blind*.
Sources: KIP-345 (a static member is away until another member.id holds its id); Kafka's session timer, which runs
from the last heartbeat; Turnbull 1976 for durations that are known between bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Final

SKEW_MS: Final = 900_000
"""Nothing happened longer than this before it was seen: an older time is a clock that is wrong."""
UNSEEN_MS: Final = 60_000
"""An end or a return that is known only to more than this does not make a duration: twelve readings of the group."""


def event_ms(observed_at_ms: int, source_time_ms: int | None, bound_ms: int | None) -> int:
    """Return the best single time of what was observed, Unix milliseconds.

    The source's time; of what is known only between two readings the bound that makes an absence longer (the early one
    of an end, the late one of everything else), or else when it was seen. Never later than that, and never more than
    `SKEW_MS` before.
    """
    known = next((each for each in (source_time_ms, bound_ms) if each is not None), observed_at_ms)
    return max(observed_at_ms - SKEW_MS, min(known, observed_at_ms))


class EventKind(IntEnum):
    """Say what happened to a member; of two events at one time the one that comes first here happened first.

    A return comes first, since it was seen late, and a start last.
    """

    RETURNED = 0
    ENDED = 1
    REMOVED = 2
    STARTED = 3
    DEPARTED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """Something that happened to a member: its process ended or started, or the group has it back or without it.

    Parameters
    ----------
    observed_at_ms: when the operator saw it, Unix milliseconds.
    source_time_ms: when it happened by the kubelet's clock; None when only readings of the group bound it.
    time_lo_ms, time_hi_ms: by the operator's clock; None when `source_time_ms` says it, or nothing does.
    pod_uid, restart_count, rollout_id, reason: of the run of the container; a return has none.
    absorbed: of a return: the group did not rebalance for it.
    member_id, previous_member_id: of a return: who holds the id now, and who did before, "" for nobody known.
    operator_id: who saw it, where several operators did.
    """

    kind: EventKind
    instance_id: str
    observed_at_ms: int
    source_time_ms: int | None = None
    time_lo_ms: int | None = None
    time_hi_ms: int | None = None
    pod_uid: str = ""
    restart_count: int = -1
    rollout_id: str = ""
    reason: str = ""
    absorbed: bool = False
    member_id: str = ""
    previous_member_id: str = ""
    operator_id: str = ""

    @property
    def at_ms(self) -> int:
        """Return the best single time; of a departure when it was seen, because the proof of the end may be older."""
        if self.kind is EventKind.DEPARTED:
            return self.observed_at_ms
        bound_ms = self.time_lo_ms if self.kind is EventKind.ENDED else self.time_hi_ms
        return event_ms(self.observed_at_ms, self.source_time_ms, bound_ms)

    @property
    def run(self) -> tuple[str, int]:
        """Name the run of the container that it is about."""
        return self.pod_uid, self.restart_count


class EndKind(StrEnum):
    """Say how an absence ended, as far as anybody knows.

    RETURNED: the group had the member back; `gap_ms` is known. The other four are censored, `gap_ms` is a lower bound:
    REMOVED (the operator removed the member), DEPARTED (nobody wanted it any more, and it was not removed until it came
    back or the window ended), OPEN (still away at the end of the window), BLIND (nobody watched for part of it, or its
    begin or its end is not known well enough).
    """

    RETURNED = "returned"
    REMOVED = "removed"
    DEPARTED = "departed"
    OPEN = "open"
    BLIND = "blind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Hold one absence of a member; all times are Unix milliseconds of the operator's clock, but for the kubelet's.

    Parameters
    ----------
    down: the end of its process with which the absence began.
    down_ms: when that was, at the earliest.
    gap_ms: from then until the member was back, at the latest; a lower bound unless it returned.
    end: how it ended.
    started_ms: when the container started that came back, or the last one so far; None: none was seen to.
    starts: how many times a container was seen to start meanwhile.
    back_lo_ms, back_ms: between which readings the group had the member back; None unless it returned.
    absorbed: the group did not rebalance for it; None unless it returned.
    """

    down: MemberEvent
    down_ms: int
    gap_ms: int
    end: EndKind
    started_ms: int | None = None
    starts: int = 0
    back_lo_ms: int | None = None
    back_ms: int | None = None
    absorbed: bool | None = None


def absences(events: Iterable[MemberEvent], *, as_of_ms: int, blind: Sequence[tuple[int, int]] = ()) -> list[Absence]:
    """Return the absences of one member.

    Parameters
    ----------
    events: of one instance id, each once, in any order.
    as_of_ms: end of the window, Unix milliseconds; later events are left out.
    blind: half-open times in which nobody watched, Unix milliseconds.

    Returns
    -------
    list[Absence]
        In the order in which they began.
    """
    found: list[Absence] = []
    away: Absence | None = None
    has_departed = False
    runs: list[tuple[str, int]] = []
    was_back = True
    for event in sorted((each for each in events if each.at_ms <= as_of_ms), key=_position):
        match event.kind:
            case EventKind.STARTED:
                runs = [*runs[-1:], event.run]
                away = away and replace(away, started_ms=event.at_ms, starts=away.starts + 1)
                continue
            case EventKind.DEPARTED:
                has_departed = True
                continue
            case EventKind.ENDED:
                # Seen late, when its successor is back already: another node's clock, or a watch that lagged behind.
                is_late = was_back and len(runs) == 2 and event.run == runs[0] != runs[1]
                if away is None and not is_late:
                    away, has_departed = Absence(down=event, down_ms=event.at_ms, gap_ms=0, end=EndKind.OPEN), False
            case EventKind.RETURNED | EventKind.REMOVED:
                if away is not None:
                    found.append(_ended(away, event.at_ms, event, has_departed))
                away = None
        was_back = event.kind is EventKind.RETURNED
    if away is not None:
        found.append(_ended(away, as_of_ms, None, has_departed))
    return [_seen_through(each, sorted(blind)) for each in found]


def _position(event: MemberEvent) -> tuple[int, int, int, str]:
    """Order events: at one time by their kind, and a run after the one before."""
    return event.at_ms, event.kind, event.restart_count, event.operator_id


def _ended(away: Absence, moment: int, event: MemberEvent | None, has_departed: bool) -> Absence:
    """End an absence by a return, a removal, or (None) the end of the window."""
    back = event if event is not None and event.kind is EventKind.RETURNED and not has_departed else None
    lo_ms = moment
    if back is not None:
        lo_ms = max(away.down_ms if back.time_lo_ms is None else min(back.time_lo_ms, moment), away.down_ms)
    down_hi_ms = away.down.observed_at_ms
    if down_hi_ms - away.down_ms > UNSEEN_MS or moment - lo_ms > UNSEEN_MS:
        return replace(away, end=EndKind.BLIND, gap_ms=max(0, lo_ms - down_hi_ms))
    gap_ms = moment - away.down_ms
    if back is not None:
        away = replace(away, back_lo_ms=lo_ms, back_ms=moment, absorbed=back.absorbed)
        return replace(away, end=EndKind.RETURNED, gap_ms=gap_ms)
    if event is not None and event.kind is EventKind.REMOVED:
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
