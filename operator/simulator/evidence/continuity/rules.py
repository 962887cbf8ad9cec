"""The continuity rules, one function each, so that a mutant is another function in one place.

Names are unique in Kubernetes and a uid never comes back on one timeline; a StatefulSet controller creates names inside
[start, start + replicas) of the newest generation it has reported, and no others. Everything below follows from these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .state import ENDED, ERASED, LOST, Facts, Pod, Span, State, StatefulSet


def is_same_object(before: int, after: int) -> bool:
    """Tell whether a name had one object all the time, by its uid at both ends (the uid rule); 0 is none."""
    return before == after


def was_outside(facts: Facts) -> bool:
    """Tell whether nobody was to create the name when the facts were recorded."""
    return not facts.wanted


def may_record(read: StatefulSet) -> bool:
    """Tell whether the controller acts on no older generation any more, so that the facts are what it acts on."""
    return read.observed == read.generation


def is_unchanged(facts: Facts, read: StatefulSet) -> bool:
    """Tell whether nobody was to create the name since the facts were recorded (the generation rule)."""
    same = (facts.uid, facts.generation, facts.wanted) == (read.uid, read.generation, read.wanted)
    return same and read.observed == read.generation


def certifies(pod: Pod, is_born: bool) -> bool:
    """Tell whether an object version proves its pod dead: E1, and E1' for one that never showed a container id."""
    return pod.phase == ENDED or (pod.phase == ERASED and is_born)


def is_seen(pod: Pod) -> bool:
    """Tell whether watch, LIST and read by name show an object: all of them, for none of them selects."""
    return True


def is_closed(span: Span, state: State) -> bool:
    """Tell whether a person has said of just this span that what it hides has ended."""
    return span.number in state.said


def remembers(base: int) -> bool:
    """Tell whether a checkpoint is there to compare with; a lost one opens a span."""
    return base != LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules; a mutant changes one.

    Parameters
    ----------
    compares: a new epoch is recorded only after the names were compared with the checkpoint of the one before.
    compares_resumed: also where the watch was resumed, unless the checkpoint is of the watch's own epoch.
    reads_after_list: the StatefulSet that ends a gap is read after the LIST.
    records_behind_barrier: facts count once the watch has been brought up to their read.
    suspects_absent: an object of the checkpoint that is gone stays in the chain, as a suspect.
    ends_births: a gap ends what is known of a pod from birth.
    binds_writes: a status write is bound to the resourceVersion that the process knew.
    keeps_spans: open spans are part of the status.
    checks_position: a stored position counts only with the status it was stored with, or a later one.
    compares_taken: also at a take-over.
    reads_lease_after_list: the read of our own Lease that ends a gap comes after the LIST.
    doubts_position: `staticgroup restored` opens a span also for a process that resumes a stored position.
    compares_own_writes: a read of our own Lease or status that is older than our write tells a restore.
    notices_old_reads: a read below what was seen tells a restore, and so does a certified pod that runs.
    ends_facts: a restore ends the facts, for the generations of another timeline count again.
    ends_certificates: a restore ends the certificate of a pod whose object is there.
    """

    is_same_object: Callable[[int, int], bool] = is_same_object
    was_outside: Callable[[Facts], bool] = was_outside
    may_record: Callable[[StatefulSet], bool] = may_record
    is_unchanged: Callable[[Facts, StatefulSet], bool] = is_unchanged
    certifies: Callable[[Pod, bool], bool] = certifies
    is_seen: Callable[[Pod], bool] = is_seen
    is_closed: Callable[[Span, State], bool] = is_closed
    remembers: Callable[[int], bool] = remembers
    compares: bool = True
    compares_resumed: bool = True
    reads_after_list: bool = True
    records_behind_barrier: bool = True
    suspects_absent: bool = True
    ends_births: bool = True
    binds_writes: bool = True
    keeps_spans: bool = True
    checks_position: bool = True
    compares_taken: bool = True
    reads_lease_after_list: bool = True
    doubts_position: bool = True
    compares_own_writes: bool = True
    notices_old_reads: bool = True
    ends_facts: bool = True
    ends_certificates: bool = True
