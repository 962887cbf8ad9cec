"""Sets of integers as sorted, disjoint, closed ranges: how a log line names a thousand offsets in a few bytes.

The one idea: loss is what was acknowledged and never consumed, so the proof needs union and difference and no more.
"""

from collections.abc import Iterable, Sequence

Ranges = list[tuple[int, int]]


def merged(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return the union of closed ranges, sorted and disjoint.

    Parameters
    ----------
    ranges: pairs first, last with first ≤ last, in any order, overlapping or not.
    """
    found: Ranges = []
    for first, last in sorted((first, last) for first, last in ranges):
        if last < first:
            raise ValueError(f"range {first}-{last} is upside down")
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def appended(ranges: Ranges, number: int) -> None:
    """Add a number to the end of a list of ranges, in the order of arrival: a number seen twice stays visible."""
    if ranges and ranges[-1][1] + 1 == number:
        ranges[-1] = (ranges[-1][0], number)
    else:
        ranges.append((number, number))


def prolonged(ranges: Ranges, number: int, reach: int) -> None:
    """Let the last of a list of ranges grow to a number that is at most `reach` beyond it; else begin a new one."""
    if ranges and number - ranges[-1][1] <= reach:
        ranges[-1] = (ranges[-1][0], max(number, ranges[-1][1]))
    else:
        ranges.append((number, number))


def size(ranges: Iterable[Sequence[int]]) -> int:
    """Count the numbers of ranges, those of overlaps again."""
    return sum(last - first + 1 for first, last in ranges)


def missing(expected: Iterable[Sequence[int]], found: Iterable[Sequence[int]]) -> Ranges:
    """Return what is in the first set and not in the second, sorted and disjoint."""
    left: Ranges = []
    there = merged(found)
    for first, last in merged(expected):
        start = first
        for have_first, have_last in there:
            if have_last < start or have_first > last:
                continue
            if have_first > start:
                left.append((start, have_first - 1))
            start = have_last + 1
        if start <= last:
            left.append((start, last))
    return left
