"""Histories: sequences of symbolic steps, drawn from a seed, that mean the same on every target."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

CLASSIC, CONSUMER, MIXED = "classic", "consumer", "mixed"
FAMILIES = (CLASSIC, CONSUMER, MIXED)
SLOTS = 5
"""Members that a history moves; one more than a group may have."""


@dataclass(frozen=True, slots=True)
class Op:
    """One step.

    Parameters
    ----------
    slot: the member that acts or is acted upon.
    arg: chooses among the variants of a step.
    """

    kind: str
    slot: int = 0
    arg: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.slot}{f', {self.arg}' if self.arg else ''})"


@dataclass(frozen=True, slots=True)
class History:
    """A seed's steps.

    Parameters
    ----------
    static: per slot, whether it has an instance id.
    """

    seed: int
    family: str
    static: tuple[bool, ...]
    ops: tuple[Op, ...]


_ANY = {"leave": 2, "leave_instance": 2, "leave_stale": 2, "leave_batch": 2, "delete": 1, "fail_over": 2}
_CLASSIC = {
    **{"join": 8, "rejoin": 4, "rejoin_changed": 2, "sync": 6, "beat": 4, "beat_wrong": 1, "beat_stale": 2},
    **{"beat_alone": 1, "join_stale": 2, "join_foreign": 1, "commit": 2, "commit_wrong": 1, "wrong_type": 1},
    **{"bad_session": 1, "kill": 2, "lapse": 1, "settle": 5, "other_protocol": 2},
}
_CONSUMER = {
    **{"cjoin": 8, "cbounce": 4, "away": 4, "cleave": 2, "cbeat": 8, "cbeat_slim": 2, "cbeat_ahead": 1},
    **{"cbeat_behind": 2, "cbeat_stale": 2, "crejoin": 2, "subscribe": 2, "config": 1, "config_bad": 1},
    **{"commit": 2, "commit_wrong": 1, "clapse": 1, "csettle": 6, "cinvalid": 1, "assignor": 1},
}
_SLOW = frozenset({"lapse", "clapse"})
MAX_WAITS = 2
"""Steps of one history that wait for seconds of real time."""
_WEIGHTS: Mapping[str, Mapping[str, int]] = {
    CLASSIC: {**_CLASSIC, **_ANY}, CONSUMER: {**_CONSUMER, **_ANY}, MIXED: {**_CLASSIC, **_CONSUMER, **_ANY},
}
KINDS = frozenset(_WEIGHTS[MIXED])


def draw(seed: int) -> History:
    """Draw the history of a seed: 20 to 60 steps."""
    rng = random.Random(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    weights = _WEIGHTS[family]
    count = rng.randint(20, 60)
    kinds = rng.choices(list(weights), list(weights.values()), k=count)
    waits = [number for number, kind in enumerate(kinds) if kind in _SLOW]
    for number in waits[MAX_WAITS:]:
        kinds[number] = "leave"
    ops = [Op(kind, rng.randrange(SLOTS), rng.randrange(1000)) for kind in kinds]
    # a dynamic classic member's id is made by the broker and would decide the order of a server-side assignor
    static = tuple(family == MIXED or rng.random() < 0.7 for _ in range(SLOTS))
    return History(seed, family, static, tuple(ops))
