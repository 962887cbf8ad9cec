"""When a controller reconciles which object: soon after each change, and once for several changes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from ...engine.loop import SimulationLoop

REACTION_S: Final = (0.005, 0.05)
Key = tuple[str, str]


class Appointments:
    """At most one appointment for each object; an earlier one stays.

    Parameters
    ----------
    sync: what to do at an appointment, with the namespace and name of the object.

    Attributes
    ----------
    is_paused: the controller is away; an appointment that comes meanwhile is missed.
    """

    def __init__(self, loop: SimulationLoop, *, rng: Random, sync: Callable[[Key], None]) -> None:
        self._loop, self._rng, self._sync = loop, rng, sync
        self._due: dict[Key, float] = {}
        self.is_paused = False

    def make(self, key: Key, delay_s: float | None = None) -> None:
        """Make one soon, or after a delay."""
        low, high = REACTION_S
        wait_s = low + (high - low) * self._rng.random() if delay_s is None else delay_s
        due_s = self._loop.time() + wait_s
        if self._due.get(key, float("inf")) <= due_s:
            return
        self._due[key] = due_s
        self._loop.world_call_later(wait_s, self._keep, key, due_s)

    def _keep(self, key: Key, due_s: float) -> None:
        if self._due.get(key) != due_s:
            return
        del self._due[key]
        if not self.is_paused:
            self._sync(key)
