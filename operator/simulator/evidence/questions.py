"""What the model asks the product, and the answers, as small values."""

from __future__ import annotations

from typing import NamedTuple

from staticgroup.core.evidence.chain import Incarnation

from .objects import Pod

NOW_S = 1_800_000_000.0
SCOPE = "3fa9c1d2"
EPOCH, EPOCH_AFTER_GAP = "epoch-1", "epoch-2"
COORDINATOR = "1@127.0.0.1:9092"
VERSIONS_PER_POD = 32


class Event(NamedTuple):
    """One pod event of the watch; `is_deleted`: it came as DELETED."""

    pod: Pod
    is_deleted: bool


class Book(NamedTuple):
    """What an IncarnationBook holds: incarnations by uid, the ends that no status holds yet, whether its watch goes on unbroken."""

    incarnations: tuple[Incarnation, ...] = ()
    undurable: tuple[tuple[str, int], ...] = ()
    is_resumed: bool = False


class Reading(NamedTuple):
    """What one round has read when it plans.

    Parameters
    ----------
    described: per member of the pod, whether the describe showed a holder. away: whether it showed epoch -2.
    wanted: the workload as read wants the ordinal. object_uid: 0 when the read by name found no pod.
    held_long: the hold window, if there is one, has passed.
    """

    described: tuple[bool, ...]
    away: tuple[bool, ...]
    wanted: bool
    object_uid: int
    barrier_passed: bool
    held_long: bool


class Decision(NamedTuple):
    """Slots whose members are to be removed together, and the guards that hold the others."""

    removals: tuple[int, ...]
    guards: tuple[str, ...]
