"""A roll costs the API server few writes, and the stored position of the watch stays young; the benchmark plays a large one."""

from __future__ import annotations

from support.roll import Scene, play


def test_roll_writes_little_and_the_position_stays_young_beside_a_refused_status() -> None:
    figures = play(Scene(groups=12, pods=600, lasts_s=150.0))
    assert figures.writes_per_s <= 2
    assert figures.oldest_s <= 5
    assert 1 <= figures.behind_max <= 12


def test_roll_of_few_is_written_as_it_goes() -> None:
    figures = play(Scene(groups=1, pods=30, lasts_s=120.0, refused=0))
    assert figures.status_writes >= 20
    assert figures.writes_per_s <= 1
