"""A round's facts about departures and removals, scaling, rollouts and session timeouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.chain import PodState, RunEnd
from staticgroup.core.group import LeaveCall, LeaveEntry, LeaveOutcome, ReleaseOutcome
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Removal
from staticgroup.core.releases import Release
from staticgroup.core.snapshot import RemovalRecord, Snapshot
from unit.core.builders import NOW_S, departure, group, history, id_of, known_pod, member, spec, workload
from unit.journal.observer import NOW_MS, STEP_MS, UNREACHABLE, Observer, bounds, kinds, running

# states ----------------------------------------------------------------------------------------------------------

DEAD = known_pod(2, state=PodState.DEAD)
DEAD_BEFORE = known_pod(2, "u2-old", PodState.DEAD, resource_version=50)


def leaving(outcome: LeaveOutcome, attempt: int = 1) -> dict[str, Any]:
    """A round's outcome, and the history after it."""
    entry = LeaveEntry(member_id="m2", instance_id=id_of(2), reason="scaled to 0..1")
    removal = Removal(entry=entry, ordinal=2, ended=(DEAD_BEFORE, DEAD), attempt=attempt)
    executed = Executed(removals=(removal,), outcomes=(outcome,))
    records = (record(attempt),) if outcome is LeaveOutcome.REMOVED else ()
    return {"executed": executed, "plan": {"history": history(removals=records), "held": ()}}


def record(attempt: int = 1) -> RemovalRecord:
    return RemovalRecord(
        instance_id=id_of(2), member_id="m2", coordinator="1@b:1", acknowledged_at_s=NOW_S + 19.5, attempts=attempt
    )


def releasing(outcome: ReleaseOutcome) -> dict[str, Any]:
    """What a round executed for a crashed member."""
    release = Release(
        entry=LeaveEntry(member_id="m0", instance_id=id_of(0)), by=LeaveCall.CONSUMER_HEARTBEAT, ordinal=0,
        pod=known_pod(0, "u0"),
        ends=(RunEnd(container_id="containerd://a", finished_at_s=NOW_S - 2, received_at_s=NOW_S - 1),),
        evidence="its run ended",
    )  # fmt: skip
    return {"executed": Executed(releases=(release,), release_outcomes=(outcome,))}


@pytest.mark.parametrize("outcome", [ReleaseOutcome.RELEASED, ReleaseOutcome.RETRY])
def test_release_that_was_carried_out_or_may_have_been_is_recorded_once(outcome: ReleaseOutcome) -> None:
    observer = Observer()
    (fact,) = (f for f in observer.look(departure(), **releasing(outcome)) if f.data.noun == "member.released")
    data = fact.data.model_dump()
    assert (data["instance_id"], data["member_id"], data["pod_uid"]) == (id_of(0), "m0", "u0")
    assert data["outcome"] == outcome.value
    assert fact.id.endswith("/m0/released")
    assert "member.released" not in kinds(observer.look(departure()))


@pytest.mark.parametrize("outcome", [ReleaseOutcome.FENCED, ReleaseOutcome.UNKNOWN, ReleaseOutcome.NOT_AUTHORIZED])
def test_release_that_did_nothing_is_not_recorded(outcome: ReleaseOutcome) -> None:
    assert "member.released" not in kinds(Observer().look(departure(), **releasing(outcome)))


def test_departed_names_the_newest_end_once_every_end_is_proven() -> None:
    observer = Observer()
    suspect = known_pod(2, "u2-old", PodState.SUSPECT, resource_version=50)
    for chain, expected in (
        ((suspect, DEAD), []),
        ((DEAD_BEFORE, DEAD), [f"u2/{id_of(2)}/departed"]),
        ((DEAD_BEFORE, DEAD), []),
    ):
        facts = observer.look(departure(chains={id_of(2): chain}))
        assert [f.id for f in facts if f.data.noun == "member.departed"] == expected
    (fact,) = (f for f in observer.facts if f.data.noun == "member.departed")
    assert fact.data.model_dump()["certificate"] == "E1"
    assert bounds(fact) == (None, int((NOW_S - 5) * 1000))


def test_acknowledged_removal_is_recorded_with_its_proofs() -> None:
    observer = Observer()
    facts = observer.look(departure(), **leaving(LeaveOutcome.REMOVED))
    (fact,) = (f for f in facts if f.data.noun == "member.removed")
    data = fact.data.model_dump()
    assert fact.id == "kc/orders/m2/1/removed"
    assert (data["outcome"], data["reason"]) == ("Removed", "scaled to 0..1")
    assert data["certificates"] == ["u2-old E1", "u2 E1"]
    assert bounds(fact) == (NOW_MS + 19_500, NOW_MS + 19_500)


def test_a_restarted_operator_records_a_removal_that_the_status_remembers_under_the_same_id() -> None:
    """It may have died between the leave and the record; readers drop the copy."""
    first, second = Observer("one"), Observer("two")
    first.look(departure(), **leaving(LeaveOutcome.REMOVED))
    two, known = running(workload=workload(2), group=group(member(0), member(1))), history(removals=(record(),))
    facts = second.look(two, history=known)
    assert [f.id for f in facts] == ["kc/orders/m2/1/removed"]
    assert facts[0].id in {f.id for f in first.facts}
    assert second.look(two, history=known) == []


def test_member_that_comes_back_after_its_removal_is_recorded_as_resurrected() -> None:
    """A classic removal is acknowledged before it is durable; a fail-over may bring the member back."""
    observer = Observer()
    observer.look(departure(), **leaving(LeaveOutcome.REMOVED))
    facts = observer.look(departure(), **leaving(LeaveOutcome.REMOVED, attempt=2))
    removed = [(f.id, f.data.model_dump()["outcome"]) for f in facts if f.data.noun == "member.removed"]
    assert removed == [("kc/orders/m2/1/resurrected", "Resurrected"), ("kc/orders/m2/2/removed", "Removed")]
    facts = observer.look(departure(), plan={"history": history(removals=(record(2),)), "held": ()})
    assert [f.id for f in facts] == ["kc/orders/m2/2/resurrected"]


@pytest.mark.parametrize(
    ("outcome", "noun"),
    [(o, "member.fenced" if o is LeaveOutcome.FENCED else "") for o in LeaveOutcome if o is not LeaveOutcome.REMOVED],
)
def test_removal_that_was_not_acknowledged_is_none(outcome: LeaveOutcome, noun: str) -> None:
    facts = kinds(Observer().look(departure(), **leaving(outcome)))
    assert "member.removed" not in facts
    assert [n for n in facts if n == "member.fenced"] == ([noun] if noun else [])


def test_held_removal_is_recorded_once_for_each_guard() -> None:
    observer = Observer()
    never = spec(removal="Never")
    assert [f.id for f in observer.look(departure(), spec=never)][-1:] == ["kc/orders/m2/RemovalPolicyNever/held"]
    assert observer.look(departure(), spec=never) == []
    assert kinds(observer.look(departure(), spec=spec(mode="Suspended"))) == ["removal.held"]


# workload and timeout --------------------------------------------------------------------------------------------


def test_scaling_is_recorded_with_the_generation_in_its_id(observer: Observer) -> None:
    (fact,) = observer.look(running(workload=workload(5, metadata_generation=4)))
    assert fact.id == "sg-1/w1/4/scaled"
    data = fact.data.model_dump()
    assert (data["replicas_before"], data["replicas_after"]) == (3, 5)
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)


def test_statefulset_that_is_not_there_or_another_one_is_no_scaling(observer: Observer) -> None:
    """A failed read looks the same as a deletion; the pods' changes have their own records."""
    assert observer.look(running(workload=None, group=UNREACHABLE)) == []
    assert observer.look(running(workload=workload(2, uid="w2"), group=UNREACHABLE)) == []
    assert kinds(observer.look(running(workload=workload(3, uid="w2")))) == ["workload.scaled"]


@pytest.mark.parametrize(
    "older", [{"metadata_generation": 3, "replicas": 3}, {"metadata_generation": 4, "update_revision": ""}]
)
def test_reading_that_is_older_than_the_last_one_is_no_news(observer: Observer, older: dict[str, Any]) -> None:
    """A read may be served from a cache that lags: the StatefulSet of before, or one without its status yet."""
    now = running(workload=workload(5, metadata_generation=4))
    assert kinds(observer.look(now)) == ["workload.scaled"]
    assert observer.look(running(workload=workload(**({"replicas": 5} | older)))) == []
    assert observer.look(now) == []


def rolling(updated: int, ready: int = 3, **changes: Any) -> Snapshot:
    values = {"update_revision": "r2", "metadata_generation": 4, "updated_replicas": updated, "ready_replicas": ready}
    return running(workload=workload(3, **(values | changes)))


def test_rollout_is_recorded_from_its_first_to_its_last_pod(observer: Observer) -> None:
    """The status of a StatefulSet: currentRevision follows when all pods are updated and Ready."""
    (started,) = observer.look(rolling(0))
    assert started.id == "sg-1/w1/4/r2/rollout-started"
    assert observer.look(rolling(1, 2)) == []
    observer.look(replace(rolling(2, 2), group=group(member(0), member(1))))
    assert observer.look(replace(rolling(3, 2), group=group(member(0), member(1)))) == []
    (finished,) = observer.look(replace(rolling(3, current_revision="r2"), group=group(member(0), member(1))))
    assert finished.id == "sg-1/w1/4/r2/rollout-finished"
    assert finished.data.model_dump()["rebalances"] == 1


def test_a_rollout_between_two_rounds_is_recorded_whole(observer: Observer) -> None:
    done = rolling(3, current_revision="r2")
    assert kinds(observer.look(done)) == ["rollout.started", "rollout.finished"]
    assert observer.look(done) == []


def test_restarted_operator_tells_a_rollout_in_progress_under_the_same_id() -> None:
    first, second = Observer(), Observer()
    first.look(running())
    first.look(rolling(1, 2))
    assert [f.id for f in second.look(rolling(2, 2))] == [f.id for f in first.facts]


def test_rollout_back_and_forth_is_three_rollouts(observer: Observer) -> None:
    """The revision of an earlier template has its earlier name again, so only the generation distinguishes them."""
    for generation, (current, update) in enumerate((("r1", "r2"), ("r2", "r1"), ("r1", "r2")), 4):
        changes = {"current_revision": current, "update_revision": update, "metadata_generation": generation}
        observer.look(rolling(1, 2, **changes))
        observer.look(rolling(3, **(changes | {"current_revision": update})))
    ids = [f.id for f in observer.facts]
    assert len(ids) == len(set(ids)) == 6


def test_rollout_with_a_partition_ends_with_the_pods_above_it(observer: Observer) -> None:
    assert kinds(observer.look(rolling(0, partition=2))) == ["rollout.started"]
    assert kinds(observer.look(rolling(1, partition=2))) == ["rollout.finished"]


def test_rollout_that_another_one_replaces_never_finishes(observer: Observer) -> None:
    observer.look(rolling(1, 2))
    facts = observer.look(rolling(1, 2, update_revision="r3", metadata_generation=5))
    assert [f.id for f in facts] == ["sg-1/w1/5/r3/rollout-started"]


def test_a_timeout_is_recorded_with_the_former_value_of_the_status() -> None:
    """The status outlives the process: its value is the former value for the next process."""
    observer = Observer()
    fixed = spec(sessionTimeout={"seconds": 60})
    (fact,) = observer.look(running(), spec=fixed, timeout_before_ms=None)
    assert fact.id == "sg-1/1/timeout-changed/60000"
    assert observer.look(running(), spec=fixed, timeout_before_ms=60_000) == []
    ids = set()
    for _ in range(2):  # there and back: the same two values, two facts
        (fact,) = observer.look(running(), spec=fixed, timeout_before_ms=45_000)
        data = fact.data.model_dump()
        assert (data["session_timeout_ms_before"], data["session_timeout_ms_after"]) == (45_000, 60_000)
        assert data["timeout_source"] == "Fixed"
        ids.add(fact.id)
    assert len(ids) == 2
