"""Each oracle fires on a bad history made by hand, and stays silent on the good one beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from coordinator_model.base.errors import ErrorCode
from simulator.oracles.assumptions import Assumption, Assumptions
from simulator.oracles.promises import (
    LEASE_SLACK_S,
    Breach,
    Effect,
    Leave,
    Rest,
    Safety,
    SentRelease,
    StatusHistory,
    Violation,
    judge_rest,
    secrets_shown,
)


@dataclass
class Truth:
    """A truth that a test sets."""

    alive: set[str] = field(default_factory=set)
    unproven: tuple[str, ...] = ()
    owner: str | None = "orders"
    undesired_s: float | None = 5.0
    stopped: bool = False
    renewed_s: float = 90.0
    broken: Assumption | None = None

    def is_alive(self, member_id: str) -> bool:
        return member_id in self.alive

    def is_running(self, member_id: str) -> bool:
        return member_id in self.alive

    def must_report(self, operator: str, group_id: str) -> bool:
        return self.stopped

    def whereabouts(self, member_id: str) -> str:
        return "pod shop/web-2 (uid-7) on n1"

    def uncertified(self, instance_id: str, member_id: str) -> Sequence[str]:
        return self.unproven

    def broken_by(self, member_id: str) -> Assumption | None:
        return self.broken

    def owner_of(self, group_id: str, instance_id: str) -> str | None:
        return self.owner

    def undesired_since_s(self, instance_id: str) -> float | None:
        return self.undesired_s

    def must_stop(self, operator: str, group_id: str) -> bool:
        return self.stopped

    def lease_renewed_s(self, operator: str) -> float:
        return self.renewed_s


LEAVE = Leave(at_s=100.0, operator="operator-a", group_id="orders", members=(("m-1", "web-2"),))
EFFECT = Effect(
    at_s=100.0, operator="operator-a", group_id="orders", member_id="m-1", instance_id="web-2",
    error_code=ErrorCode.NONE,
)


def unbroken(breach: Breach) -> None:
    raise AssertionError(str(breach))


def judged(truth: Truth, *, leave: Leave | None = None, effects: Sequence[Effect] = ()) -> list[str]:
    found: list[Violation] = []
    safety = Safety(truth, lease_duration_s=15.0, on_violation=found.append, on_breach=unbroken)
    if leave is not None:
        safety.leave_sent(leave)
    for effect in effects:
        safety.leave_applied(effect)
    return [violation.oracle for violation in found]


def test_a_proper_removal_breaks_nothing() -> None:
    assert judged(Truth(), leave=LEAVE, effects=[EFFECT]) == []


@pytest.mark.parametrize(
    ("oracle", "truth", "leave"),
    [
        ("S3", Truth(owner=None), LEAVE),
        ("S4", Truth(undesired_s=None), LEAVE),
        ("S5", Truth(), replace(LEAVE, members=(("", "web-2"),))),
        ("S5", Truth(), replace(LEAVE, members=(("m-1", None),))),
        ("S9", Truth(), replace(LEAVE, members=())),
        ("S14", Truth(stopped=True), LEAVE),
        ("S14", Truth(renewed_s=100.0 - 15.0 - LEASE_SLACK_S - 1), LEAVE),
    ],
)
def test_leave_that_must_not_be_sent(oracle: str, truth: Truth, leave: Leave) -> None:
    assert judged(truth, leave=leave) == [oracle]


def test_removal_of_a_live_member_breaks_s1() -> None:
    assert judged(Truth(alive={"m-1"}), effects=[EFFECT]) == ["S1"]
    assert judged(Truth(alive={"m-1"}), effects=[replace(EFFECT, error_code=ErrorCode.FENCED_INSTANCE_ID)]) == []


def test_removal_of_a_live_member_says_whose_process_it_was() -> None:
    found: list[Violation] = []
    Safety(Truth(alive={"m-1"}), lease_duration_s=15.0, on_violation=found.append, on_breach=unbroken).leave_applied(
        EFFECT
    )
    assert [v.message for v in found] == ["operator-a removed live member m-1 (web-2) of pod shop/web-2 (uid-7) on n1"]


@pytest.mark.parametrize("assumption", Assumption)
def test_removal_of_a_live_member_inside_an_assumption_is_a_breach_not_a_violation(assumption: Assumption) -> None:
    """No proof is asked of it either; one that is sent a second time is a broken promise all the same."""
    found: list[Violation] = []
    breaches: list[Breach] = []
    truth = Truth(alive={"m-1"}, unproven=("uid-7",), broken=assumption)
    safety = Safety(truth, lease_duration_s=15.0, on_violation=found.append, on_breach=breaches.append)
    safety.leave_applied(EFFECT)
    assert (found, [b.assumption for b in breaches]) == ([], [assumption])
    safety.leave_applied(EFFECT)
    assert [v.oracle for v in found] == ["S10"]


GONE_S = 100.0


@pytest.mark.parametrize(
    ("held", "watched_s", "joined_s", "broken"),
    [
        ([(0, 130), (180, 200)], (10,), 180, None),
        ([(0, 130), (191, 200)], (10,), 191, Assumption.A2),
        ([(161, 200)], (10,), 161, Assumption.A2),
        ([(150, 200)], (10,), 150, None),
        ([(0, 200)], (10, 110), 180, Assumption.A1),
        ([(0, 200)], (10, 110), 165, None),
        ([(0, 200)], (10, 90), 180, None),
    ],
)
def test_an_assumption_is_broken_by_a_pod_that_joins_after_it_was_silent_or_unseen(
    held: list[tuple[int, int]], watched_s: tuple[float, ...], joined_s: float, broken: Assumption | None
) -> None:
    """`settle` is 60 s here; its object has been gone for as long as it was unseen."""
    known = Assumptions(settle_s=60.0)
    for at_s in watched_s:
        known.watch_began(at_s)
    for from_s, to_s in held:
        for at_s in range(from_s, to_s):
            known.looked(float(at_s), ["uid-7"])
    assert known.broken_by("uid-7", GONE_S, joined_s) is broken
    assert known.broken_by("uid-7", math.inf, joined_s) is None
    known.unseen_s.append(GONE_S + 1)
    assert known.broken_by("uid-7", GONE_S, joined_s) is Assumption.A4


def test_a_coordinator_that_is_away_makes_no_silence() -> None:
    known = Assumptions(settle_s=60.0)
    for at_s in range(300):
        if 110 <= at_s < 200:
            known.paused(float(at_s))
        else:
            known.looked(float(at_s), ["uid-7"])
    assert known.broken_by("uid-7", GONE_S, 250.0) is None
    assert known.joined_s("uid-7", 20.0, 299.0) == 20.0
    assert known.joined_s("uid-7", 0.0, 299.0) == 0.0


def test_a_member_that_a_fail_over_brings_back_after_its_process_has_ended_joined_before_it() -> None:
    """The coordinator had answered its leave and lost the write; no process joins by that."""
    known = Assumptions(settle_s=60.0)
    for at_s in (*range(20, 50), *range(80, 90)):
        known.looked(float(at_s), ["uid-7"])
    assert known.joined_s("uid-7", 0.0, 89.0) == 80.0, "its process lives, and took the seat back"
    assert known.joined_s("uid-7", 0.0, 49.0) == 20.0, "its process ended at 49 s"


def test_removal_without_a_written_proof_breaks_s2() -> None:
    assert judged(Truth(unproven=("uid-7",)), effects=[EFFECT]) == ["S2"]


def test_second_effect_on_one_member_breaks_s10_unless_a_fail_over_brought_it_back() -> None:
    assert judged(Truth(), effects=[EFFECT, EFFECT]) == ["S10"]
    assert judged(Truth(), effects=[EFFECT, replace(EFFECT, coordinator_epoch=1)]) == []


RELEASE = SentRelease(
    at_s=100.0, operator="operator-a", group_id="orders", member_id="m-1", instance_id="web-2", member_epoch=-2
)


def judged_release(truth: Truth, *sent: SentRelease, applied: Effect | None = None) -> list[str]:
    found: list[Violation] = []
    safety = Safety(truth, lease_duration_s=15.0, on_violation=found.append, on_breach=unbroken)
    for release in sent:
        safety.release_sent(release)
        safety.release_applied(applied or EFFECT)
    return [violation.oracle for violation in found]


def test_a_proper_release_breaks_nothing_and_is_counted() -> None:
    found: list[Violation] = []
    safety = Safety(Truth(), lease_duration_s=15.0, on_violation=found.append, on_breach=unbroken)
    safety.release_sent(RELEASE)
    safety.release_applied(EFFECT)
    assert (found, safety.releases) == ([], 1)


@pytest.mark.parametrize(
    ("oracle", "truth", "release"),
    [
        ("S3", Truth(owner=None), RELEASE),
        ("S5", Truth(), replace(RELEASE, member_id="")),
        ("S5", Truth(), replace(RELEASE, instance_id=None)),
        ("S5", Truth(), replace(RELEASE, member_epoch=-1)),
        ("S14", Truth(stopped=True), RELEASE),
        ("S14", Truth(renewed_s=100.0 - 15.0 - LEASE_SLACK_S - 1), RELEASE),
    ],
)
def test_release_that_must_not_be_sent(oracle: str, truth: Truth, release: SentRelease) -> None:
    assert judged_release(truth, release) == [oracle]


def test_release_for_a_live_process_breaks_s1_whatever_the_coordinator_answers() -> None:
    refused = replace(EFFECT, error_code=ErrorCode.FENCED_INSTANCE_ID)
    assert judged_release(Truth(alive={"m-1"}), RELEASE, applied=refused) == ["S1"]
    assert judged_release(Truth(alive={"m-1"}), RELEASE) == ["S1", "S1"]


def test_member_that_is_released_twice_breaks_s10() -> None:
    assert judged_release(Truth(), RELEASE, RELEASE) == ["S10"]


def versions(*statuses: dict[str, object], generation: int = 2) -> list[str]:
    found: list[Violation] = []
    history = StatusHistory(found.append)
    for status in statuses:
        history.written(1.0, {"metadata": {"uid": "sg-1", "generation": generation}, "status": status})
    return [violation.oracle for violation in found]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"observedGeneration": 2}, {"observedGeneration": 1}),
        ({"observedGeneration": 2}, {"observedGeneration": 3}),
        ({"injected": {"scope": "aaaaaaaa"}}, {"injected": {"scope": "bbbbbbbb"}}),
    ],
)
def test_status_that_takes_something_back_breaks_s11(before: dict[str, object], after: dict[str, object]) -> None:
    assert versions(before, after) == ["S11"]
    assert versions(before, before) == []


def test_status_that_somebody_else_writes_may_take_back_anything() -> None:
    found: list[Violation] = []
    history = StatusHistory(found.append)

    def body(observed: int) -> dict[str, object]:
        return {"metadata": {"uid": "sg-1", "generation": 9}, "status": {"observedGeneration": observed}}

    history.written(1.0, body(5))
    history.edited(body(2))
    history.written(2.0, body(2))
    assert found == []
    history.written(3.0, body(1))
    assert [violation.oracle for violation in found] == ["S11"]


def test_status_after_a_restore_is_compared_with_what_was_restored() -> None:
    found: list[Violation] = []
    history = StatusHistory(found.append)
    old = {"metadata": {"uid": "sg-1", "generation": 2}, "status": {"observedGeneration": 2}}
    history.written(1.0, old)
    history.written(2.0, {"metadata": {"uid": "sg-1", "generation": 5}, "status": {"observedGeneration": 5}})
    history.restored([old])
    history.written(3.0, {"metadata": {"uid": "sg-1", "generation": 3}, "status": {"observedGeneration": 2}})
    assert found == []


def test_round_that_saw_an_edit_which_etcd_forgot_may_say_so_and_must_come_back() -> None:
    found: list[Violation] = []
    history = StatusHistory(found.append)

    def written(observed: int, generation: int) -> None:
        metadata = {"uid": "sg-1", "generation": generation}
        history.written(1.0, {"metadata": metadata, "status": {"observedGeneration": observed}})

    written(3, 3)
    history.restored()  # the object is at generation 2 again
    written(3, 2)
    written(2, 2)
    assert found == []
    written(4, 2)
    written(1, 2)
    assert [violation.message for violation in found] == [
        "observedGeneration 4 is ahead of the object",
        "observedGeneration went from 4 back to 1",
    ]


def test_secret_is_found_wherever_it_is_shown() -> None:
    assert secrets_shown("s3cret", {"events": "all is well", "metrics": "password=s3cret"}) == ["metrics"]


REST = Rest(
    at_s=900.0, members={"web-0": "m-0", "web-9": "m-9"}, desired=frozenset({"web-0"}), running=frozenset({"web-0"}),
    zombies=frozenset({"web-9"}), leaves_at_rest=0,
)


@pytest.mark.parametrize(
    ("oracle", "rest"),
    [
        ("L1", replace(REST, zombies=frozenset())),
        ("L2", replace(REST, members={"web-9": "m-9"})),
        ("L3", replace(REST, undeleted=("staticgroups/orders",))),
        ("L4", replace(REST, leaves_at_rest=1)),
        ("L5", replace(REST, blocked=1)),
    ],
)
def test_a_group_that_is_not_at_rest_breaks_the_liveness_promises(oracle: str, rest: Rest) -> None:
    assert [v.oracle for v in judge_rest(rest, lambda i: True)] == [oracle]
    assert judge_rest(REST, lambda i: True) == []


def test_a_member_that_never_expires_by_a_fault_of_kafka_is_not_the_operators() -> None:
    assert judge_rest(replace(REST, zombies=frozenset(), endless=frozenset({"web-9"})), lambda i: True) == []


def test_members_of_others_are_not_judged() -> None:
    assert judge_rest(replace(REST, zombies=frozenset()), lambda i: i != "web-9") == []
