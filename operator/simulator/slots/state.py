"""Everything that is so at one moment about the pods of one Deployment, and the names that do not matter taken out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, groupby, permutations, product
from typing import Final, NamedTuple

UNBORN, WAITS, RUNS, ENDED, GONE = "-WRTD"
"""What the API server has of a pod. ENDED: with all that its kubelet says of an end."""
UNKNOWN, FOLLOWED, MISSED, LISTED_UNPROVEN, LISTED_END, WATCHED_END = ".fxuew"
"""What one operator knows of a pod. MISSED: it went in a gap of the watch, or before one, without a certificate.
LISTED_UNPROVEN: a LIST has shown its end, and something stands against a certificate for now, as a Node that cannot be
read."""


class Pod(NamedTuple):
    """One pod; the slot of its own that it may get has its number, counted from 1.

    Parameters
    ----------
    note: its annotation: a slot that it was given; negative: one that it claims; 0: none.
    slot: with which its process was started; 0: without. is_alive: the process runs, whatever the API server has.
    """

    phase: str = UNBORN
    note: int = 0
    slot: int = 0
    is_alive: bool = False

    @property
    def exists(self) -> bool:
        """Whether there is an object."""
        return self.phase in (WAITS, RUNS, ENDED)


class Known(NamedTuple):
    """What one operator knows of a pod; note: as it was seen last, of a MISSED one and of all in a gap."""

    how: str = UNKNOWN
    note: int = 0


class Patch(NamedTuple):
    """A request that is under way: a note for a pod as it is now; any change of the pod makes it refused."""

    pod: int
    note: int


class Left(NamedTuple):
    """How often each fault may still happen."""

    force: int = 0
    gap: int = 0
    crash: int = 0
    silence: int = 0
    late: int = 0


class State(NamedTuple):
    """The pods, what each operator knows of them, and the requests that are under way.

    Parameters
    ----------
    is_blind: of each operator, whether its watch has a gap, which a LIST ends.
    """

    pods: tuple[Pod, ...]
    known: tuple[tuple[Known, ...], ...]
    is_blind: tuple[bool, ...]
    patches: tuple[Patch, ...]
    left: Left


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One variant.

    Parameters
    ----------
    says: what it is about, for the page.
    pods, operators: how many; each operator takes itself for the leader. patches: most of them under way at once, also
        those of operators that have died since.
    left: how often each fault may happen.
    is_deep: only searched in the long form. states_max: gives up after so many.
    is_versioned, are_late_ends_told_apart: False in mutants: a request counts for later versions of its pod, too; a
        certificate that comes after a LIST showed the end counts as watched.
    """

    name: str
    says: str = ""
    pods: int = 3
    operators: int = 1
    patches: int = 2
    left: Left = field(default_factory=Left)
    is_deep: bool = False
    states_max: int = 1_000_000
    is_versioned: bool = True
    are_late_ends_told_apart: bool = True


_FORGOTTEN: Final = Pod(GONE)


def canonical(s: State) -> State:
    """Return the state that stands for all that differ only in the names of pods, slots and operators."""
    # Step 1: a pod that is gone, does not run and has no note, here or in anybody's memory, matters to nobody.
    pods = list(s.pods)
    known = [list(row) for row in s.known]
    for i, pod in enumerate(pods):
        if pod.phase == GONE and not pod.is_alive:
            pods[i] = pod._replace(slot=0)
            if not pod.note and not any(row[i].note for row in known):
                pods[i] = _FORGOTTEN
                for row in known:
                    row[i] = Known()

    # Step 2: pods in the order of what they look like, and of those that look alike in the order that is least.
    looks = [_look(s, pods, known, i) for i in range(len(pods))]
    alike = [tuple(group) for _, group in groupby(sorted(range(len(pods)), key=looks.__getitem__), looks.__getitem__)]
    orders = product(*(permutations(each) if _may_matter(pods[each[0]]) else (each,) for each in alike))
    return min(_in_order(s, pods, known, tuple(chain.from_iterable(order))) for order in orders)


def _look(s: State, pods: list[Pod], known: list[list[Known]], i: int) -> tuple[object, ...]:
    """Return what one pod looks like, whatever the others are called."""
    pod, own = pods[i], i + 1
    under_way = sorted((p.note > 0, abs(p.note) == own) for p in s.patches if p.pod == i)
    hows = tuple(sorted(row[i].how for row in known))
    others = sorted((each.phase, _sign(each.note)) for each in pods if abs(each.note) == own)
    return (pod.phase, pod.is_alive, _sign(pod.note), _sign(pod.slot), hows, others, under_way)


def _may_matter(pod: Pod) -> bool:
    return pod.phase != UNBORN and pod != _FORGOTTEN


def _in_order(s: State, pods: list[Pod], known: list[list[Known]], order: tuple[int, ...]) -> State:
    """Return the state with its pods in an order, and with them the slots, which have their numbers."""
    place = {old: new for new, old in enumerate(order)}

    def named(note: int) -> int:
        return note and (place[abs(note) - 1] + 1) * _sign(note)

    rows = sorted(
        (tuple(row[i]._replace(note=named(row[i].note)) for i in order), blind)
        for row, blind in zip(known, s.is_blind, strict=True)
    )
    return State(
        pods=tuple(pods[i]._replace(note=named(pods[i].note), slot=named(pods[i].slot)) for i in order),
        known=tuple(row for row, _ in rows),
        is_blind=tuple(blind for _, blind in rows),
        patches=tuple(sorted(Patch(place[p.pod], named(p.note)) for p in s.patches)),
        left=s.left,
    )


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
