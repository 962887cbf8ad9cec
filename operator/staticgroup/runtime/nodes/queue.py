"""Whose turn it is to be looked at, among nodes that owe a proof.

Two kinds of looks. A node that has not caught up is *scouted*, as long as it takes, and seldom, but for a minute after news of it:
nothing is lost between two looks. One that has caught up must be looked at without a gap until it has worked on for long enough, so
only as many are *in hand* at once as that can be promised for; the others wait, first come, first served. A turn ends when the node
owes nothing more, has stood still, or has had its time while others wait: a node that never gets ready, or a runtime that never
answers, holds nobody up.

What it costs at the most: `LOOKS_A_TICK` looks each `TICK_S`, with three reads each (node, Lease, pods of the node), and for a node in
hand one question to its runtime where that may be asked: 18 reads and 5 questions a second, at any size of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...core.evidence.nodes import LOOKS_APART_MAX_S

TICK_S: Final = 5.0
LOOKS_A_TICK: Final = 30
LOOKS_AT_ONCE: Final = 15
"""So a tick takes 2 × `LOOK_LIMIT_S` at the worst, when nothing answers."""
IN_HAND_MAX: Final = 50
IN_HAND_A_TICK: Final = 25
"""What is left over is for scouting. All in hand are looked at within two ticks of the worst length, which is less than 30 s."""
WAIT_S: Final = 20.0
"""Least time between two looks at a node that is scouted."""
HURRY_S: Final = 60.0
"""For so long a node that has changed, as one that is Ready again, is scouted at every tick: its kubelet may start a pod any moment."""
UNHURRIED_S: Final = 15.0
"""Between two looks at a node in hand while there are more of them than `UNHURRIED_FROM`; each shows a renewed Lease all the same."""
UNHURRIED_FROM: Final = 20
TURN_SPARE_S: Final = 120.0
"""A turn lasts for twice the time that is owed, and this."""
_EARLY_S: Final = 0.5
_NEVER_S: Final = float("-inf")


@dataclass(slots=True)
class _Turn:
    ends_s: float
    steady_s: float
    """When it was last seen to be steady, or its turn began."""


@dataclass(slots=True)
class LookQueue:
    """Decide whom to look at; all times are monotonic seconds."""

    _looked: dict[str, float] = field(default_factory=dict)
    _in_hand: dict[str, _Turn] = field(default_factory=dict)
    _waiting: dict[str, None] = field(default_factory=dict)
    _hurried: dict[str, float] = field(default_factory=dict)
    """Name of each node that has changed → until when it is looked at often."""

    def clear(self) -> None:
        """Begin everything again."""
        for known in (self._looked, self._in_hand, self._waiting, self._hurried):
            known.clear()

    def hurry(self, name: str, now_s: float) -> None:
        """Take the news that a node has changed, whether it owes anything or not."""
        self._hurried[name] = now_s + HURRY_S

    def next(self, asked: Mapping[str, float | None], now_s: float) -> list[str]:
        """Return the nodes to look at now, those in hand first.

        Parameters
        ----------
        asked: name of each node that owes something → for how long it has to work on once it has caught up; None: it has not.
        """
        self._looked = {name: at_s for name, at_s in self._looked.items() if name in asked}
        self._in_hand = {name: turn for name, turn in self._in_hand.items() if asked.get(name) is not None}
        self._waiting = {name: None for name in self._waiting if asked.get(name) is not None}
        self._hurried = {name: until_s for name, until_s in self._hurried.items() if name in asked and until_s > now_s}
        for name, needed_s in asked.items():
            if needed_s is not None and name not in self._in_hand:
                self._waiting.setdefault(name)
        self._end_turns(now_s)
        for name in list(self._waiting)[: IN_HAND_MAX - len(self._in_hand)]:
            del self._waiting[name]
            self._in_hand[name] = _Turn(ends_s=now_s + 2 * (asked[name] or 0.0) + TURN_SPARE_S, steady_s=now_s)
        pace_s = TICK_S if len(self._in_hand) <= UNHURRIED_FROM else UNHURRIED_S
        chosen = self._due(dict.fromkeys(self._in_hand, pace_s), now_s)[:IN_HAND_A_TICK]
        scouted = {
            name: TICK_S if name in self._hurried else WAIT_S
            for name in asked
            if name not in self._in_hand and name not in self._waiting
        }
        return chosen + self._due(scouted, now_s)[: LOOKS_A_TICK - len(chosen)]

    def looked(self, name: str, now_s: float, *, is_steady: bool) -> None:
        """Take note of a look, or of the attempt."""
        self._looked[name] = now_s
        if is_steady and name in self._in_hand:
            self._in_hand[name].steady_s = now_s

    def before(self, asked: Mapping[str, float | None]) -> Iterator[tuple[str, int]]:
        """Yield each node that waits for its turn, or for its first look, with how many come before it."""
        for place, name in enumerate(self._waiting):
            yield name, len(self._in_hand) + place
        for place, name in enumerate(sorted(name for name in asked if name not in self._looked)):
            yield name, place

    def _due(self, paces_s: Mapping[str, float], now_s: float) -> list[str]:
        """Return those whose last look is longer ago than their pace, the longest ago first."""
        looks = ((self._looked.get(name, _NEVER_S), name) for name in paces_s)
        return [name for at_s, name in sorted(looks) if at_s <= now_s - paces_s[name] + _EARLY_S]

    def _end_turns(self, now_s: float) -> None:
        """Let those that get nowhere go to the end of the line, where there is one."""
        over = [n for n, t in self._in_hand.items() if now_s >= t.ends_s or now_s - t.steady_s > LOOKS_APART_MAX_S]
        for name in over[: max(0, len(self._waiting) - (IN_HAND_MAX - len(self._in_hand)))]:
            del self._in_hand[name]
            self._waiting[name] = None
