"""Which assignor a group uses, and which worker runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ..records import Assignor

Supported = Mapping[str, tuple[Assignor, ...]]
"""Member id → the assignors it supports, most preferred first."""


def select_assignor(members: Supported) -> str | None:
    """Choose the assignor: of those that all workers support the one most of them prefer; None when there is none.

    The draft says "the precedence order is honoured" without saying whose; every worker votes for its own first common
    one, as in a classic group, and ties go to the name that sorts first (item 68).
    """
    common = _common(members)
    if not common:
        return None
    votes = Counter(next(a.name for a in offered if a.name in common) for offered in members.values())
    return min(votes, key=lambda name: (-votes[name], name))


def _common(members: Supported) -> set[str]:
    """Names that all workers support in overlapping versions."""
    names = [{a.name for a in offered} for offered in members.values()]
    return {name for name in set.intersection(*names) if _overlap(name, members)} if names else set()


def _overlap(name: str, members: Supported) -> bool:
    ranges = [a for offered in members.values() for a in offered if a.name == name]
    return max(a.minimum_version for a in ranges) <= min(a.maximum_version for a in ranges)


def able_workers(assignor: str, members: Supported, candidates: Collection[str]) -> list[str]:
    """Return the candidates that handle every version any worker supports, in the order of their ids.

    The draft's example: of A [1-5], B [3-4], C [2-4] only A (item 69).
    """
    ranges = {m: next(a for a in offered if a.name == assignor) for m, offered in members.items()}
    lowest = min(a.minimum_version for a in ranges.values())
    highest = max(a.maximum_version for a in ranges.values())
    return [
        m for m in sorted(candidates) if ranges[m].minimum_version <= lowest and ranges[m].maximum_version >= highest
    ]


def fits_together(members: Supported, candidates: Collection[str]) -> bool:
    """Whether a group of these workers has an assignor and a worker to run it.

    The draft calls the opposite a FATAL error and leaves it undefined (item 69): here the worker that would bring it
    about is refused with UNSUPPORTED_ASSIGNOR, and a group in which the only able worker dies keeps its assignment.
    """
    assignor = select_assignor(members)
    return assignor is not None and bool(able_workers(assignor, members, candidates))
