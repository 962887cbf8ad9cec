"""A broken product is noticed by the oracles, and the whole one breaks nothing in the same scenes."""

from __future__ import annotations

import pytest

from simulation.scenes import SCENES, Scene
from simulation.sharpness import BROKEN, Broken, judged


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.mutant.name)
def test_a_broken_rule_is_noticed(broken: Broken) -> None:
    """By the oracle that stands for the promise."""
    assert judged(broken).startswith(f"{broken.oracle} at ")


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda s: s.name)
def test_the_whole_product_breaks_nothing(scene: Scene) -> None:
    """No live member is removed inside an assumption either: no scene breaks one."""
    world = scene.run()
    assert [str(found) for found in (*world.violations, *world.breaches)] == []


def test_every_scene_is_one_that_a_broken_product_needs() -> None:
    assert {b.scene for b in BROKEN} == set(SCENES)
    assert {b.oracle for b in BROKEN} >= {"S1", "S5", "S14"}
    assert len({b.mutant.name for b in BROKEN}) == len(BROKEN)
