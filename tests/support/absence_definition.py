"""The definition of an absence (`staticgroup.api.absences`) as plain code, for everything that claims to agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from staticgroup.api.absences import SKEW_MS, UNSEEN_MS, EndKind


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
    pod_uid, restart_count: of the run of the container; a return has none.
    absorbed: of a return: the group did not rebalance for it.
    operator_id: which operator saw it, where several did.
    """

    kind: EventKind
    instance_id: str
    observed_at_ms: int
    source_time_ms: int | None = None
    time_lo_ms: int | None = None
    time_hi_ms: int | None = None
    pod_uid: str = ""
    restart_count: int = -1
    absorbed: bool = False
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
