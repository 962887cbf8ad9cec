"""In every order of events no limit is exceeded and no waiting key is forgotten."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from staticgroup.runtime.turns import Key, Limits, Turns

STEPS = 600


class Book:
    """What must hold, counted apart from the turns themselves."""

    def __init__(self, places: int, rng: Random) -> None:
        self.limits = Limits(places=places)
        self.turns = Turns(self.limits)
        self.rng = rng
        self.lane_of: dict[Key, Key] = {}
        self.waiting: set[Key] = set()
        self.in_place: set[Key] = set()
        self.late: set[Key] = set()

    def ask(self) -> None:
        tenant = f"t{self.rng.randrange(4)}"
        key = (tenant, f"g{self.rng.randrange(40)}")
        if key not in self.in_place | self.late | self.waiting:
            self.lane_of[key] = (tenant, f"k{self.rng.randrange(8)}")
            self.turns.wait(key, self.lane_of[key])
            self.waiting.add(key)

    def begin(self) -> bool:
        key = self.turns.next()
        if key is None:
            return False
        self.waiting.remove(key)
        self.in_place.add(key)
        return True

    def grow_late(self) -> None:
        for key in sorted(self.in_place)[:1]:
            if self.turns.grow_late(key):
                self.in_place.remove(key)
                self.late.add(key)

    def end(self) -> None:
        running = sorted(self.in_place | self.late)
        if running:
            key = self.rng.choice(running)
            self.turns.end(key, failed=self.rng.random() < 0.5)
            self.in_place.discard(key)
            self.late.discard(key)

    def withdraw(self) -> None:
        for key in sorted(self.waiting)[:1]:
            self.turns.withdraw(key)
            self.waiting.remove(key)

    def check(self) -> None:
        limits, running = self.limits, self.in_place | self.late
        assert len(self.turns) == len(self.waiting) + len(running)
        assert self.turns.late == len(self.late) <= limits.late
        assert len(self.in_place) <= limits.places
        assert max(Counter(k[0] for k in self.in_place).values(), default=0) <= limits.places_of_tenant
        assert max(Counter(k[0] for k in self.late).values(), default=0) <= limits.late_of_tenant
        assert max(Counter(self.lane_of[k] for k in running).values(), default=0) <= limits.of_lane


@pytest.mark.parametrize("places", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("seed", range(8))
def test_limits_hold_and_every_waiting_key_gets_a_turn(places: int, seed: int) -> None:
    rng = Random(f"{places}/{seed}")
    book = Book(places, rng)
    steps = [book.ask, book.ask, book.ask, book.begin, book.begin, book.grow_late, book.end, book.withdraw]
    for _ in range(STEPS):
        rng.choice(steps)()
        book.check()
    while book.waiting or book.in_place or book.late:
        if not book.begin():
            assert book.in_place | book.late, "somebody waits, nobody runs, and nobody may begin"
            book.end()
        book.check()
    assert not book.turns._tenants, "an idle tenant is not kept"


def test_lanes_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticgroup.runtime.turns.LANES_REMEMBERED_MAX", 5)
    turns = Turns(Limits(places=4))
    for n in range(20):
        turns.wait(("shop", f"g{n}"), ("shop", f"k{n}"))
        assert turns.next() == ("shop", f"g{n}")
        turns.end(("shop", f"g{n}"), failed=False)
    assert len(turns._answers) == 5
