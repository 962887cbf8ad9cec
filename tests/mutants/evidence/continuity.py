"""Each continuity rule broken once, and the scenario whose search must find the way to a living member removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.evidence.continuity.catalogue import SCENARIOS
from simulator.evidence.continuity.rules import Rules, certifies
from simulator.evidence.continuity.scenario import Scenario
from simulator.evidence.continuity.state import CLAIMED, Facts, Pod, Span, State, StatefulSet


def scenario_named(name: str) -> Scenario:
    """Return a scenario that must be safe by its name."""
    return next(s for s in SCENARIOS if s.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuityMutant:
    """One broken rule, or several where one alone is made up for.

    Parameters
    ----------
    says: what is broken. variant: where it must be found. changes: fields of `Rules`.
    """

    name: str
    says: str
    variant: str
    changes: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def applied(self) -> Iterator[Scenario]:
        """Give the scenario with the broken rules; nothing else has to be put back."""
        yield replace(scenario_named(self.variant), rules=replace(Rules(), **self.changes))


def _an_object(before: int, after: int) -> bool:
    return after != 0


def _generation_unread(facts: Facts, read: StatefulSet) -> bool:
    return (facts.uid, facts.wanted) == (read.uid, read.wanted) and read.observed == read.generation


def _uid_unread(facts: Facts, read: StatefulSet) -> bool:
    return (facts.generation, facts.wanted) == (read.generation, read.wanted) and read.observed == read.generation


def _range_unread(facts: Facts, read: StatefulSet) -> bool:
    return (facts.uid, facts.generation) == (read.uid, read.generation) and read.observed == read.generation


def _observed_unread(facts: Facts, read: StatefulSet) -> bool:
    return (facts.uid, facts.generation, facts.wanted) == (read.uid, read.generation, read.wanted)


def _anybodys_word(pod: Pod, is_born: bool) -> bool:
    return pod.phase == CLAIMED or certifies(pod, is_born)


def _word_for_a_pod(span: Span, state: State) -> bool:
    return bool(state.confirmed)


def _any_word(span: Span, state: State) -> bool:
    return bool(state.said)


def _labelled(pod: Pod) -> bool:
    return pod.labelled


def _always(*_: Any) -> bool:
    return True


_TABLE: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("old epochs", "a round moves the epoch without comparing names", "gap, replaced", {"compares": False}),
    ("uids not compared", "a name stays clear because it has an object", "gap, replaced", {"is_same_object": _an_object}),
    ("range ignored", "a name inside the range counts as outside", "gap, replaced", {"was_outside": _always}),
    (
        "observedGeneration ignored",
        "facts are recorded that the controller does not act on yet",
        "gap, late controller",
        {"may_record": _always},
    ),
    (
        "observedGeneration nowhere",
        "nor is it asked at the end",
        "gap, late controller",
        {"may_record": _always, "is_unchanged": _observed_unread},
    ),
    ("generation not compared", "the range alone is compared", "gap", {"is_unchanged": _generation_unread}),
    (
        "set not compared",
        "the generations of two StatefulSets of one name are compared",
        "gap, set made again",
        {"is_unchanged": _uid_unread},
    ),
    ("read before the LIST", "the StatefulSet that ends a gap is read before the LIST", "gap", {"reads_after_list": False}),
    (
        "facts before the barrier",
        "facts are recorded before the watch has reached their read",
        "gap, late watch",
        {"records_behind_barrier": False},
    ),
    ("selector", "absence is asked by a selector", "by hand", {"is_seen": _labelled}),
    ("birth over a gap", "a gap keeps what is known from birth", "gap, rejection", {"ends_births": False}),
    ("claimed phase", "a phase that a third party wrote is a certificate", "gap, claim", {"certifies": _anybodys_word}),
    ("absent and forgotten", "an object of the checkpoint that is gone is no suspect", "gap", {"suspects_absent": False}),
    ("word for a pod", "a word for one pod closes the spans", "words", {"is_closed": _word_for_a_pod}),
    ("word for all", "a word for one span closes a later one", "words, two gaps", {"is_closed": _any_word}),
    ("spans forgotten", "open spans are not written to the status", "death", {"keeps_spans": False}),
    ("innocence", "lost memory counts as nothing to remember", "emptied", {"remembers": _always}),
    ("newcomer", "a StaticGroup that begins has nothing to remember", "second group", {"remembers": _always}),
    (
        "resumed unread",
        "a resumed watch counts as unbroken, whatever the checkpoint's epoch",
        "position, gap",
        {"compares_resumed": False},
    ),
    ("status unread", "a stored position counts with any status", "older status", {"checks_position": False}),
    (
        "write unbound",
        "a late status write overwrites a newer one, and a position counts with any status",
        "late write",
        {"binds_writes": False, "checks_position": False},
    ),
    ("take-over", "a standby's watch counts as unbroken before it began", "standby", {"compares_taken": False}),
    ("restore unread", "a read below what was seen is not noticed", "restore", {"notices_old_reads": False}),
    (
        "restored unheard",
        "a person's word that etcd was restored is not heard where a position is resumed",
        "restore, resumed",
        {"doubts_position": False},
    ),
    ("raised restore unread", "our own Lease is not compared after a gap", "restore, raised", {"compares_own_writes": False}),
    ("Lease before the LIST", "our own Lease is read before the LIST", "restore, raised", {"reads_lease_after_list": False}),
    ("certificate over a restore", "the certificate of a pod that is back counts", "restore", {"ends_certificates": False}),
    ("facts over a restore", "generations of two timelines are compared", "restore, gap", {"ends_facts": False}),
)
MUTANTS = tuple(ContinuityMutant(name=n, says=s, variant=v, changes=c) for n, s, v, c in _TABLE)

_COVERED_TABLE: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    (
        "observedGeneration not asked at the end of a gap",
        "gap, late controller",
        {"is_unchanged": _observed_unread},
        "an equal generation was reported when the facts were recorded, and a controller reports no older one",
    ),
    (
        "start and replicas not compared",
        "gap, set made again",
        {"is_unchanged": _range_unread},
        "they are part of the spec, so the generation of the same StatefulSet changes with them",
    ),
    (
        "status writes not bound to a version",
        "late write",
        {"binds_writes": False},
        "an older status is true of its time, and the stored position names the status that it relies on",
    ),
)
COVERED = tuple((ContinuityMutant(name=n, says=n, variant=v, changes=c), by) for n, v, c, by in _COVERED_TABLE)
"""Broken rules that break no promise alone, each with what makes up for it; not counted as killed."""
