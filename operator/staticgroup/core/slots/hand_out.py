"""Which waiting pod is given which slot, decided from what the pods' annotations and the pod watch show.

A slot stands for a pod's name: an id is made of it. It is made of the uid of the pod that has it first, so nobody ever
had it before. A pod waits in an init container for the operator's *note*, an annotation:

1. *Claim.* The note says which slot the pod waits for, perhaps long before that is free. What follows is the slot, or
   one of the pod's own: a claim that moved could move for ever, between operators that see different slots free.
2. *Give.* Once the watch has shown the claim, the note gives the slot: if the watch has shown a pod that had it while
   that lived, and then its end, and has been whole since; if every pod that had it has ended; and if nobody else claims
   it. What was given is never changed either.

Each note is written over the version of the pod that it was decided on (`metadata.resourceVersion`), so a request that
comes late is refused. That is all: no ledger, no lock, and no need that only one operator leads. Of two claims for one
slot one is later, and a watch that has shown the later one has shown the earlier one too.

Where any of this is not known, the pod gets a slot of its own. That is always safe, and costs one rebalance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPod:
    """What the watch has shown of one pod that has a note of this Deployment or waits for one, whatever owns it by now.

    Parameters
    ----------
    given: the slot that its note gives it; "" for none. claimed: the slot that its note says it waits for; "" likewise.
    is_waiting: its waiter runs, it has no slot, and it is not being deleted. waits_since_s: since when, seconds since
        the Unix epoch.
    has_started: its waiter has ended, so its process may run, with a slot or without.
    is_ending: it is being deleted, and has time left to end. is_lost: it is gone without a certificate, or ought to
        have ended by now.
    has_ended: by a certificate.
    is_released: no ReplicaSet owns it any more, so another one takes its place; its slot it keeps.
    is_end_watched: the watch has shown it alive, and then its end, and has been whole since. What a LIST shows as ended
        does not count, also where its certificate comes later.
    """

    uid: str
    given: str = ""
    claimed: str = ""
    is_waiting: bool = False
    waits_since_s: float = 0.0
    has_started: bool = False
    is_ending: bool = False
    is_lost: bool = False
    has_ended: bool = False
    is_end_watched: bool = False
    is_released: bool = False

    @property
    def comes(self) -> bool:
        """Whether it is to get a place: it has none yet, and nothing ends it."""
        is_placed = bool(self.given) or self.has_started
        return not (is_placed or self.has_ended or self.is_lost or self.is_ending)

    @property
    def stays(self) -> bool:
        """Whether it has a place for good: a member runs in it, or will."""
        return (bool(self.given) or self.has_started) and not (self.has_ended or self.is_lost or self.is_ending)

    @property
    def fills(self) -> bool:
        """Whether it is one of the pods that the Deployment asks for."""
        return self.stays and not self.is_released


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the Deployment asks for.

    Parameters
    ----------
    replicas: spec.replicas.
    gives_up: it ends a pod before the next one is Ready: Recreate, or maxUnavailable of 1 and more; not while paused.
    passed_on_s: when a slot changed hands last, seconds since the Unix epoch; 0.0: not known.
    max_wait_s: after so long without that, a pod gets a slot of its own, seconds.
    """

    replicas: int
    gives_up: bool = True
    passed_on_s: float = 0.0
    max_wait_s: float = 300.0


class Step(StrEnum):
    """What the next note of a waiting pod does."""

    CLAIM = "claim"
    GIVE = "give"
    OWN = "own"
    WAIT = "wait"


def is_free(slot: str, pods: Iterable[SlotPod]) -> bool:
    """Return True when the end of the last pod that had a slot was watched, so that it may pass on."""
    had = [pod for pod in pods if pod.given == slot]
    return any(pod.is_end_watched for pod in had) and all(pod.has_ended for pod in had)


def passes_on(slot: str, uid: str, pods: Sequence[SlotPod]) -> bool:
    """Return True when a pod may be given the slot that it claims: it is free, and nobody else claims it."""
    claiming = {pod.uid for pod in pods if pod.claimed == slot and not pod.has_ended}
    return claiming == {uid} and is_free(slot, pods)


def hand_out(
    pods: Sequence[SlotPod], worth: Collection[str], demand: Demand, now_s: float
) -> Iterator[tuple[str, Step, str]]:
    """Yield of each waiting pod, the oldest first, uid, step and slot ("": its own, or none yet) of its next note.

    Parameters
    ----------
    pods: in the order in which they changed last: of several free slots the one that was left last is worth most.
    worth: slots whose members are still in the group though their pods, by all that is known, have ended or are ending;
        to pass on another one saves no rebalance.
    """
    waiting = sorted((p for p in pods if p.is_waiting), key=lambda p: (p.waits_since_s, p.uid))

    # Step 1: the slots that are free or will be, but those that somebody claims; each for one pod that claims none.
    claimed = {p.claimed for p in pods if not p.has_ended}
    had: dict[str, list[SlotPod]] = {}
    for pod in reversed(pods):
        had.setdefault(pod.given, []).append(pod)
    free = [slot for slot in had if slot in worth and is_free(slot, had[slot])]
    will_end = (p for p in pods if p.given and p.is_ending and not (p.has_ended or p.is_lost))
    ending = sorted(p.given for p in will_end if p.given in worth)
    to_claim = iter([slot for slot in dict.fromkeys((*free, *ending)) if slot not in claimed])
    claims = {p.uid: next(to_claim, "") for p in waiting if not p.claimed}

    # Step 2: which claims will be fulfilled, and how many places those and the pods that stay have. What only pods
    # claim that were deleted while they waited is free for others once these have ended.
    will_be = {*free, *ending}
    soon = {p.claimed for p in pods if p.is_ending and not p.is_lost} & will_be
    soon -= {p.claimed for p in pods if not (p.has_ended or p.is_ending)}
    hopeful = {p.uid for p in waiting if _first(p.claimed, waiting) == p.uid and p.claimed in will_be}
    filled = sum(p.fills for p in pods) + len(hopeful) + len(soon) + sum(map(bool, claims.values()))

    # Step 3: the note of each.
    for pod in waiting:
        is_patient = now_s - max(pod.waits_since_s, demand.passed_on_s) < demand.max_wait_s
        if pod.claimed and passes_on(pod.claimed, pod.uid, pods):
            yield pod.uid, Step.GIVE, pod.claimed
        elif is_patient and pod.uid in hopeful:
            yield pod.uid, Step.WAIT, pod.claimed
        elif is_patient and claims.get(pod.uid):
            yield pod.uid, Step.CLAIM, claims[pod.uid]
        elif is_patient and filled >= demand.replicas and demand.gives_up and not pod.claimed:
            yield pod.uid, Step.WAIT, ""
        else:
            filled += 1
            yield pod.uid, Step.OWN, ""


def _first(slot: str, waiting: Iterable[SlotPod]) -> str:
    """Return the oldest pod that claims a slot: of two that do, it keeps its claim, and the other gets an own slot."""
    return next((pod.uid for pod in waiting if slot and pod.claimed == slot), "")
