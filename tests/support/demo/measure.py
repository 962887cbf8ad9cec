"""How long consumers stood still, and why: pure functions over the lines that consumers printed.

The one idea: a consumer tells from when to when it received records of a partition (REPORT_TIMES of consumer.py). The
load is steady, so whatever lies between two such times is time in which nobody consumed the partition. A partition
*stands still* when no consumer of the group receives a record of it for more than one second.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.workload.ranges import Ranges, merged, missing, size

Line = Mapping[str, Any]
Times = dict[int, Ranges]
"""Partition to the times, milliseconds since 1970, from when to when its records were received."""

STILL_MS = 1000
STEADY_MS = 3000
JOIN_MS = 500
"""Between two lines of a consumer lie its commit and its next poll."""
DELAY_STEP_MS = 100
"""Of the delays that consumers tell."""
RECENT_MS = 2500
"""Consumers report once per second; what was received may be known this much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which nobody in the group received a record of a partition, milliseconds since 1970."""

    partition: int
    from_ms: int
    until_ms: int

    @property
    def length_s(self) -> float:
        return (self.until_ms - self.from_ms) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The standstills of a group from the beginning of a scene on.

    Parameters
    ----------
    stops: (partition, from, until) of each, seconds since the beginning.
    """

    length_s: float
    stops: tuple[tuple[int, float, float], ...]


def course(stops: Iterable[Standstill], *, since_ms: int, until_ms: int) -> Course:
    """Return standstills in seconds since the beginning of a scene."""

    def since(at_ms: int) -> float:
        return round((at_ms - since_ms) / 1000, 2)

    return Course(
        length_s=since(until_ms), stops=tuple((s.partition, since(s.from_ms), since(s.until_ms)) for s in stops)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """All standstills of a group in a window.

    Parameters
    ----------
    longest_s: of any one partition.
    any_s: time in which at least one partition stood still.
    sum_s: over all partitions, partition-seconds.
    """

    longest_s: float
    any_s: float
    sum_s: float


def received(lines: Iterable[Line], since_ms: int = 0) -> Times:
    """Return when records were received; pauses up to 500 ms do not count as such.

    Parameters
    ----------
    since_ms: leave out what ended earlier.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        if line["kind"] == "consumed" and line["at_ms"] >= since_ms:
            for partition, content in line["partitions"].items():
                times = ((first, last) for first, last in content["received"] if last >= since_ms)
                found.setdefault(int(partition), []).extend(times)
    return {partition: _joined(times) for partition, times in found.items()}


def _joined(times: Iterable[tuple[int, int]]) -> Ranges:
    joined: Ranges = []
    for first, last in sorted(times):
        if joined and first - joined[-1][1] <= JOIN_MS:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def steady_until(times: Times, partitions: Collection[int], *, since_ms: int) -> int | None:
    """Return until when all partitions are known to be consumed without a pause, and have been for 3 s.

    Parameters
    ----------
    since_ms: the steady time begins after this.

    Returns
    -------
    Milliseconds since 1970; None while some partition has not been consumed for so long.
    """
    lasts = [times[partition][-1] for partition in partitions if times.get(partition)]
    if len(lasts) < len(partitions):
        return None
    until_ms = min(last for _, last in lasts)
    return until_ms if until_ms - max(since_ms, *(first for first, _ in lasts)) >= STEADY_MS else None


def standstills(times: Times, partitions: Iterable[int], *, since_ms: int, until_ms: int) -> list[Standstill]:
    """Return every standstill within a window, clipped to it, by partition and time."""
    found = []
    for partition in sorted(partitions):
        consumed = [(max(first, since_ms), min(last, until_ms)) for first, last in times.get(partition, [])]
        inside = [(first, last) for first, last in consumed if first <= last]
        for from_ms, to_ms in missing([(since_ms, until_ms)], inside):
            # `missing` counts in whole milliseconds between the records, so the records themselves are one outside.
            stop = Standstill(
                partition=partition, from_ms=max(since_ms, from_ms - 1), until_ms=min(until_ms, to_ms + 1)
            )
            if stop.until_ms - stop.from_ms > STILL_MS:
                found.append(stop)
    return found


def stillness(stops: Sequence[Standstill]) -> Stillness:
    """Sum standstills up."""
    lengths = [stop.length_s for stop in stops]
    # Closed at both ends, a range of n milliseconds counts n + 1 of them.
    together = merged((stop.from_ms, stop.until_ms - 1) for stop in stops)
    return Stillness(longest_s=max(lengths, default=0.0), any_s=size(together) / 1000, sum_s=round(sum(lengths), 3))


def departed_partitions(departed: Iterable[Line], since_ms: int) -> dict[int, int]:
    """Return the partitions that a pod consumed until it ended, and when it received the last record of each.

    Parameters
    ----------
    departed: the lines of the pod that was scaled away.
    since_ms: some time before the scale-down.
    """
    lasts = {partition: times[-1][1] for partition, times in received(departed, since_ms).items() if times}
    end_ms = max(lasts.values(), default=0)
    return {partition: last_ms for partition, last_ms in lasts.items() if last_ms > end_ms - RECENT_MS}


def takeovers(departed: Iterable[Line], others: Iterable[Line], since_ms: int) -> dict[int, float | None]:
    """Return by partition of a departed pod the seconds from its last record there to its first elsewhere."""
    times = received(others, since_ms)
    found: dict[int, float | None] = {}
    for partition, last_ms in sorted(departed_partitions(departed, since_ms).items()):
        firsts = [first for first, _ in times.get(partition, []) if first > last_ms]
        found[partition] = (min(firsts) - last_ms) / 1000 if firsts else None
    return found


def moves(by_ordinal: Mapping[int, Times], *, since_ms: int, until_ms: int) -> int:
    """Count how often a partition went to another pod within a window, by the receivers of its records.

    Parameters
    ----------
    by_ordinal: ordinal to what that pod received; a pod that comes back under its name is the same one.
    """
    turns: dict[int, list[tuple[int, int]]] = {}
    for ordinal, times in by_ordinal.items():
        for partition, ranges in times.items():
            inside = ((first, ordinal) for first, last in ranges if last >= since_ms and first <= until_ms)
            turns.setdefault(partition, []).extend(inside)
    return sum(before[1] != after[1] for each in turns.values() for before, after in itertools.pairwise(sorted(each)))


def interruptions(lines: Iterable[Line], since_ms: int) -> list[float]:
    """Return how long a running consumer was without partitions, in seconds, each time it had to give them up.

    Parameters
    ----------
    lines: the lines of one process, in order. A revocation after which nothing is assigned any more is its end,
        and no interruption.
    """
    found: list[float] = []
    revoked_at_ms: int | None = None
    for line in lines:
        if line["at_ms"] < since_ms:
            continue
        if line["kind"] in ("revoked", "lost") and revoked_at_ms is None:
            revoked_at_ms = line["at_ms"]
        elif line["kind"] == "assigned" and revoked_at_ms is not None:
            found.append((line["at_ms"] - revoked_at_ms) / 1000)
            revoked_at_ms = None
    return found


def given_up(lines: Iterable[Line], *, since_ms: int, until_ms: int | None) -> int:
    """Count the partitions, or tasks, that a process had to give up while it ran on.

    Parameters
    ----------
    lines: the lines of one process.
    until_ms: when it was asked to end, which it does by giving up everything; None when it was not.
    """
    return sum(
        len(line["partitions"])
        for line in lines
        if line["kind"] in ("revoked", "lost")
        and since_ms <= line["at_ms"]
        and (until_ms is None or line["at_ms"] < until_ms)
    )


def read_twice(lines: Iterable[Line]) -> int:
    """Count the records that a group worked on more than once, as often as it did so again."""
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        if line["kind"] == "consumed":
            for partition, content in line["partitions"].items():
                by_partition.setdefault(int(partition), []).extend((first, last) for first, last in content["offsets"])
    return sum(size(ranges) - size(merged(ranges)) for ranges in by_partition.values())


def delay_below_s(lines: Iterable[Line], *, since_ms: int, until_ms: int, share: float) -> float | None:
    """Return within which time after it was sent a share of the records was done with, in s; None when there were none.

    Parameters
    ----------
    since_ms, until_ms: of the lines, which tell it in steps of 100 ms. share: from 0 to 1, such as 0.99.
    """
    counts: dict[int, int] = {}
    for line in lines:
        if line["kind"] == "consumed" and since_ms <= line["at_ms"] <= until_ms:
            for step, count in line["delays"].items():
                counts[int(step)] = counts.get(int(step), 0) + count
    wanted, seen = share * sum(counts.values()), 0
    for step in sorted(counts):
        seen += counts[step]
        if seen >= wanted:
            return (step + 1) * DELAY_STEP_MS / 1000
    return None


def held_partitions(lines: Iterable[Line]) -> tuple[int, ...]:
    """Return the partitions that a process holds by its own lines."""
    held: set[int] = set()
    for line in lines:
        match line["kind"]:
            case "assigned":
                held |= set(line["partitions"])
            case "revoked" | "lost":
                held -= set(line["partitions"])
            case "closed":
                held = set()
    return tuple(sorted(held))


def unconsumed(acked: Mapping[int, Ranges], consumed: Mapping[int, Ranges]) -> int:
    """Count the records that the brokers acknowledged and no consumer of the group received."""
    return sum(size(missing(ranges, consumed.get(partition, []))) for partition, ranges in acked.items())
