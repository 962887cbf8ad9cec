"""The oracles notice: a product with one rule broken is found out in the schedule in which it matters."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from simulation.sharpness import BROKEN, Broken, is_broken_anyway, judged

AT_ONCE = 2


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Future[tuple[int, str] | None]]:
    """Begin to judge every broken product, in processes of their own."""
    workers = ThreadPoolExecutor(AT_ONCE)
    begun = {b.mutant.name: workers.submit(judged, b, b.seeds) for b in BROKEN}
    workers.shutdown(wait=False)
    return begun


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.mutant.name)
def test_a_broken_rule_is_noticed(broken: Broken, verdicts: dict[str, Future[tuple[int, str] | None]]) -> None:
    """By the oracle that stands for the promise, in a schedule of the given seeds."""
    found = verdicts[broken.mutant.name].result()
    assert found is not None, f"{broken.oracle} did not notice; look for a new seed as `sharpness` says"
    assert found[1].startswith(f"{broken.oracle} at ")


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.mutant.name)
def test_the_whole_product_breaks_nothing_of_it_there(broken: Broken) -> None:
    """A promise that is broken anyway would say nothing about the rule."""
    assert not any(is_broken_anyway(broken.oracle, seed) for seed in broken.seeds[:1])


def test_the_oracles_of_each_promise_are_among_them() -> None:
    """Living members, proofs, intent, both ids, and the right to write."""
    assert {b.oracle for b in BROKEN} >= {"S1", "S2", "S5", "S14"}
    assert len({b.mutant.name for b in BROKEN}) == len(BROKEN) >= 8
