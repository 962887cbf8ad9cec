"""Which waiting pod of a Deployment is given which slot, and what a roll costs by that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

import pytest

from staticgroup.core.slots.hand_out import Demand, SlotPod, Step, hand_out, is_free, passes_on

FIVE = Demand(replicas=5)


class Note(NamedTuple):
    uid: str
    step: Step
    slot: str = ""


def holder(slot: str, **more: object) -> SlotPod:
    return replace(SlotPod(uid=f"of-{slot}", given=slot), **more)  # type: ignore[arg-type]


def ended(slot: str, uid: str = "") -> SlotPod:
    return SlotPod(uid=uid or f"of-{slot}", given=slot, has_ended=True, is_end_watched=True)


def waiting(uid: str, claimed: str = "", since_s: float = 0.0) -> SlotPod:
    return SlotPod(uid=uid, claimed=claimed, is_waiting=True, waits_since_s=since_s)


def notes(
    pods: Sequence[SlotPod], demand: Demand = FIVE, worth: Iterable[str] = "abcde", now_s: float = 10.0
) -> dict[str, Note]:
    return {note[0]: Note(*note) for note in hand_out(pods, set(worth), demand, now_s)}


# when a slot passes on


def test_slot_passes_on_to_the_pod_that_claims_it_once_its_pod_was_seen_to_end() -> None:
    assert passes_on("a", "new", [ended("a"), waiting("new", "a")])


@pytest.mark.parametrize(
    "others",
    [
        [holder("a")],
        [holder("a", is_lost=True)],
        [ended("a"), holder("a", uid="second")],
        [ended("a"), holder("a", uid="second", is_lost=True)],
        [replace(ended("a"), is_end_watched=False)],
        [ended("a"), waiting("other", "a")],
        [ended("a"), replace(waiting("other", "a"), is_waiting=False, is_lost=True)],
        [],
    ],
    ids=["it runs", "it is lost", "another one has it", "another one that is lost had it", "only a LIST showed the end",
         "another one claims it", "one that is lost claimed it", "nobody is known to have had it"],
)  # fmt: skip
def test_slot_does_not_pass_on_while_its_process_may_live(others: list[SlotPod]) -> None:
    assert not passes_on("a", "new", [*others, waiting("new", "a")])


def test_slot_does_not_pass_on_to_a_pod_whose_claim_was_not_seen() -> None:
    assert not passes_on("a", "new", [ended("a"), waiting("new")])
    assert not passes_on("a", "new", [ended("a"), waiting("new", "b")])


def test_slot_passes_on_again_and_again() -> None:
    assert is_free("a", [ended("a", "first"), ended("a", "second")])
    assert passes_on("a", "third", [ended("a", "first"), ended("a", "second"), waiting("third", "a")])


# the notes of the waiting pods


def note(uid: str, step: Step, slot: str = "") -> Note:
    return Note(uid=uid, step=step, slot=slot)


def test_pod_claims_the_slot_of_a_pod_that_is_ending_before_that_has_ended() -> None:
    pods = [holder("a", is_ending=True), *map(holder, "bcde"), waiting("new")]
    assert notes(pods)["new"] == note("new", Step.CLAIM, "a")


def test_oldest_pod_is_served_first_and_nobody_loses_a_claim() -> None:
    held = [ended("a"), holder("b", is_ending=True), *map(holder, "cde")]
    assert notes([*held, waiting("late", "a", 2.0), waiting("old", "", 1.0)]) == {
        "late": note("late", Step.GIVE, "a"), "old": note("old", Step.CLAIM, "b"),
    }  # fmt: skip


def test_of_two_that_claim_one_slot_the_older_one_keeps_it_and_the_other_gets_one_of_its_own() -> None:
    pods = [ended("a"), *map(holder, "bcde"), waiting("late", "a", 2.0), waiting("old", "a", 1.0)]
    assert notes(pods) == {"old": note("old", Step.WAIT, "a"), "late": note("late", Step.OWN)}


def test_pod_gets_a_slot_of_its_own_while_places_are_free() -> None:
    assert notes([*map(holder, "abcd"), waiting("new")])["new"].step is Step.OWN
    assert notes([*map(holder, "abcd"), holder("e", is_lost=True), waiting("new")])["new"].step is Step.OWN
    dynamic = SlotPod(uid="dynamic", has_started=True)
    assert notes([*map(holder, "abcd"), dynamic, waiting("new")])["new"].step is Step.WAIT
    assert notes([*map(holder, "abcd"), replace(dynamic, is_ending=True), waiting("new")])["new"].step is Step.OWN
    assert notes([*map(holder, "abcd"), SlotPod(uid="pulls its image"), waiting("new")])["new"].step is Step.OWN


def test_claim_that_cannot_be_fulfilled_any_more_gives_way_to_a_slot_of_its_own() -> None:
    """A claim is never moved: two operators that see different slots free would move it for ever."""
    pods = [holder("a", is_lost=True), ended("b"), *map(holder, "cde"), waiting("new", "a")]
    assert notes(pods)["new"] == note("new", Step.OWN)


@pytest.mark.parametrize(
    "other",
    [SlotPod(uid="other", claimed="a", is_lost=True), SlotPod(uid="other", claimed="a", has_started=True)],
    ids=["lost", "started without it"],
)
def test_slot_that_a_pod_claims_which_no_longer_waits_is_left_alone(other: SlotPod) -> None:
    assert notes([ended("a"), *map(holder, "bcd"), other, waiting("new")])["new"].step is not Step.CLAIM


def test_slot_that_a_pod_claims_which_is_deleted_while_it_waits_is_waited_for() -> None:
    """The claim stands until that pod has ended, and the next pod has the slot then, not one of its own."""
    pods = [*map(holder, "bcde"), replace(holder("a"), is_ending=True), waiting("second")]
    deleted = replace(waiting("first", "a"), is_waiting=False, is_ending=True)
    assert notes([*pods, deleted]) == {"second": note("second", Step.WAIT)}
    assert notes([*pods, replace(deleted, has_ended=True)]) == {"second": note("second", Step.CLAIM, "a")}
    assert notes([*pods, replace(deleted, is_lost=True)])["second"].step is Step.OWN
    went_on = SlotPod(uid="third", claimed="a", has_started=True)
    assert notes([*pods, deleted, went_on], Demand(replicas=6))["second"].step is Step.OWN, "who does not wait any more"


def test_slot_that_is_in_no_group_is_not_waited_for() -> None:
    assert notes([ended("a"), *map(holder, "bcde"), waiting("new")], worth=())["new"].step is Step.OWN
    assert notes([ended("a"), *map(holder, "bcde"), waiting("new")], worth="a")["new"].step is Step.CLAIM


def test_pod_beyond_the_replicas_waits_only_where_another_one_gives_up_its_place() -> None:
    pods = [*map(holder, "abcde"), waiting("new")]
    assert notes(pods)["new"] == note("new", Step.WAIT)
    assert notes(pods, replace(FIVE, gives_up=False))["new"].step is Step.OWN


def test_no_pod_waits_for_longer_than_the_limit_after_the_last_slot_that_passed_on() -> None:
    pods = [*map(holder, "abcde"), waiting("new")]
    claiming = [holder("a", is_ending=True), *map(holder, "bcde"), waiting("new", "a")]
    for each in (pods, claiming):
        assert notes(each, now_s=299.0)["new"].step is Step.WAIT
        assert notes(each, now_s=300.0)["new"].step is Step.OWN
        assert notes(each, replace(FIVE, passed_on_s=200.0), now_s=499.0)["new"].step is Step.WAIT
        assert notes(each, replace(FIVE, passed_on_s=200.0), now_s=500.0)["new"].step is Step.OWN


def drawn(rng: Random, uid: str) -> SlotPod:
    if rng.random() < 0.4:
        return waiting(uid, rng.choice(["", "a", "b", "c"]), float(rng.randrange(3)))
    given, has_ended = rng.choice(["", "a", "b", "c"]), rng.random() < 0.5
    return SlotPod(
        uid=uid, given=given, claimed="" if given else rng.choice(["", "a", "b"]), has_started=rng.random() < 0.7,
        is_ending=rng.random() < 0.4, is_lost=not has_ended and rng.random() < 0.3, has_ended=has_ended,
        is_end_watched=has_ended and rng.random() < 0.7,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(400))
def test_whatever_there_is_each_waiting_pod_gets_one_note_and_no_slot_is_promised_twice(seed: int) -> None:
    """Also pods without a slot, two holders of one, claims of pods that are gone, no replicas, slots that are worth nothing."""
    rng = Random(seed)
    pods = [drawn(rng, f"p{n}") for n in range(rng.randrange(9))]
    demand = Demand(replicas=rng.randrange(5), gives_up=rng.random() < 0.5)
    worth = rng.choice([set(), {"a"}, {"a", "b", "c"}])
    found = [Note(*note) for note in hand_out(pods, worth, demand, rng.choice([5.0, 400.0]))]
    waiting_pods = {pod.uid: pod for pod in pods if pod.is_waiting}
    assert sorted(one.uid for one in found) == sorted(waiting_pods)
    assert all(passes_on(one.slot, one.uid, pods) for one in found if one.step is Step.GIVE)
    promised = [one.slot for one in found if one.slot]
    assert len(promised) == len(set(promised))
    assert not any(waiting_pods[one.uid].claimed for one in found if one.step is Step.CLAIM), "a claim is never moved"


# what a roll costs


@dataclass
class Deployment:
    """A Deployment of Kubernetes, as its controller rolls it (apps/v1 RollingUpdate: scaleUp, scaleDown).

    Each step lets everything happen that can: pods that end, notes, pods that become Ready.
    """

    replicas: int
    max_surge: int
    max_unavailable: int
    pods: list[SlotPod] = field(default_factory=list)
    old: set[str] = field(default_factory=set)
    members: set[str] = field(default_factory=set)
    own: int = 0
    removed: int = 0
    least_running: int = 99

    def step(self) -> None:
        living = [p for p in self.pods if not p.has_ended]
        counted = [p for p in living if not p.is_ending]  # a ReplicaSet does not count pods that are being deleted
        new = [p for p in counted if p.uid not in self.old]
        for _ in range(min(self.replicas - len(new), self.replicas + self.max_surge - len(counted))):
            self.pods.append(waiting(f"p{len(self.pods)}", since_s=float(len(self.pods))))
        ready = [p for p in counted if p.given]
        spare = len(ready) - (self.replicas - self.max_unavailable)
        for pod in [p for p in ready if p.uid in self.old][: max(0, spare)]:
            self._replace(pod, is_ending=True)
        self.least_running = min(self.least_running, sum(bool(p.given) for p in self.pods if not p.has_ended))
        self._hand_out()
        for pod in [p for p in self.pods if p.is_ending and not p.has_ended]:
            self._replace(pod, has_ended=True, is_end_watched=True)
        self._hand_out()
        self._hand_out()
        self._remove()

    def _hand_out(self) -> None:
        demand = Demand(replicas=self.replicas, gives_up=self.max_unavailable > 0)
        for note in [Note(*note) for note in hand_out(self.pods, self.members, demand, 0.0)]:
            (pod,) = (p for p in self.pods if p.uid == note.uid)
            if note.step in (Step.GIVE, Step.OWN):
                self.own += note.step is Step.OWN
                slot = note.slot or f"of-{note.uid}"
                self._replace(pod, given=slot, claimed="", is_waiting=False, has_started=True)
                self.members.add(slot)
            elif note.step is Step.CLAIM:
                self._replace(pod, claimed=note.slot)

    def _remove(self) -> None:
        """Remove the members for which no pod is to come, as the operator does."""
        living = [p for p in self.pods if p.given and not p.is_ending and not p.has_ended]
        new = [p for p in living if p.uid not in self.old]
        free = sorted(slot for slot in self.members if is_free(slot, self.pods))
        for slot in free[self.replicas - min(len(living), len(new)):]:
            self.members.remove(slot)
            self.removed += 1

    def _replace(self, pod: SlotPod, **changes: object) -> None:
        self.pods[self.pods.index(pod)] = replace(pod, **changes)  # type: ignore[arg-type]

    def roll(self) -> None:
        self.old = {p.uid for p in self.pods if not p.has_ended}
        self.own = self.removed = 0
        self.least_running = 99
        for _ in range(40):
            self.step()
        assert not self.old & {p.uid for p in self.pods if not p.has_ended}, "the roll has ended"
        assert len(self.members) == self.replicas


def started(replicas: int, max_surge: int, max_unavailable: int) -> Deployment:
    made = Deployment(replicas, max_surge, max_unavailable)
    made.step()
    assert (made.own, len(made.members)) == (replicas, replicas)
    return made


@pytest.mark.parametrize("replicas", [4, 5, 12])
def test_roll_of_a_deployment_with_the_default_strategy_passes_every_slot_on(replicas: int) -> None:
    quarter = replicas / 4
    made = started(replicas, math.ceil(quarter), math.floor(quarter))
    for _ in range(3):
        made.roll()
        assert (made.own, made.removed) == (0, 0)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_roll_of_a_small_deployment_costs_one_new_slot_and_one_departure(replicas: int) -> None:
    """Which is one rebalance each: a quarter of three, rounded down, is no pod that may be unavailable."""
    made = started(replicas, 1, 0)
    for _ in range(3):
        made.roll()
        assert (made.own, made.removed) == (1, 1)
        assert made.least_running >= replicas


def test_recreate_passes_every_slot_on() -> None:
    made = started(3, 0, 3)
    made.roll()
    assert (made.own, made.removed) == (0, 0)
