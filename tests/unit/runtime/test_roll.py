"""A roll costs the API server few writes, and the stored position of the watch stays young; the benchmark plays a large
one."""

from __future__ import annotations

from staticgroup.kube.pods.store import REPLAYED_S
from staticgroup.runtime.memory.pace import WAIT_MAX_S
from support.roll import Scene, play

WRITTEN_S = 5.0
"""From the turn of a status to the renewal of the Lease that stores the position behind it."""


def test_roll_writes_little_and_the_stored_position_is_that_of_a_while_ago() -> None:
    figures = play(Scene(groups=8, pods=80, lasts_s=100.0))
    assert figures.writes_per_s <= 2
    assert figures.oldest_s <= REPLAYED_S + WAIT_MAX_S + WRITTEN_S
    assert figures.remembered >= 70


def test_status_that_is_refused_keeps_no_other_one_from_being_written() -> None:
    figures = play(Scene(groups=4, pods=40, lasts_s=100.0, refused=1))
    assert figures.writes_per_s <= 2
    assert figures.remembered >= 25


def test_roll_of_few_is_written_as_it_goes() -> None:
    figures = play(Scene(groups=1, pods=30, lasts_s=120.0))
    assert figures.status_writes >= 20
    assert figures.writes_per_s <= 1
