"""The mutants of the exhaustive model: every reachable state is searched for the promise that the fault breaks.

Each is searched in a process of its own pool, since a mutant patches the product where it is imported. A variant that is
not safe without any mutant would make a kill worthless, so those that the mutants name are searched first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from simulator.evidence.check import search
from simulator.evidence.continuity.catalogue import SCENARIOS
from simulator.evidence.nodes.scenario import NODE_SCENARIOS
from simulator.evidence.variant import VARIANTS

from .evidence import continuity, mutants, nodes
from .evidence.continuity import ContinuityMutant
from .evidence.mutants import Mutant as ProductMutant
from .evidence.nodes import NodeMutant
from .verdict import Fate, Verdict

__all__ = ["MUTANTS", "Mutant", "unsafe_variants", "verdicts"]

Mutant = ProductMutant | ContinuityMutant | NodeMutant
MUTANTS: tuple[Mutant, ...] = (*mutants.MUTANTS, *continuity.MUTANTS, *nodes.MUTANTS)


def unsafe_variants(mutants: Iterable[Mutant], at_once: int) -> list[str]:
    """Return the variants of these mutants that break a promise, or cannot be searched, with the product as it is."""
    names = sorted({mutant.variant for mutant in mutants})
    with _pool(at_once) as pool:
        return [name for name, is_safe in zip(names, pool.map(_is_safe, names), strict=True) if not is_safe]


def verdicts(mutants: Iterable[Mutant], at_once: int) -> Iterator[Verdict]:
    """Search each mutant and yield what was found, in their order."""
    with _pool(at_once) as pool:
        yield from pool.map(_judged, [mutant.name for mutant in mutants])


def _pool(at_once: int) -> ProcessPoolExecutor:
    # Spawned, because this process has threads.
    return ProcessPoolExecutor(at_once, mp_context=get_context("spawn"))


def _is_safe(variant: str) -> bool:
    outcome = search(next(v for v in (*VARIANTS, *SCENARIOS, *NODE_SCENARIOS) if v.name == variant))
    return outcome.is_complete and not outcome.violation


def _judged(name: str) -> Verdict:
    began_s = time.monotonic()
    mutant = next(m for m in MUTANTS if m.name == name)
    with mutant.applied() as variant:
        outcome = search(variant)
    took_s = time.monotonic() - began_s
    if outcome.violation and not outcome.breaks_promise:
        return Verdict(name=name, fate=Fate.BROKEN, by=outcome.violation, took_s=took_s)
    if outcome.breaks_promise:
        by = f"{mutant.variant}: {outcome.violation} after {len(outcome.trace)} steps"
        return Verdict(name=name, fate=Fate.KILLED, by=by, took_s=took_s, trace=outcome.trace)
    return Verdict(name=name, fate=Fate.SURVIVED, by=f"all {outcome.states:,} states keep every promise", took_s=took_s)
