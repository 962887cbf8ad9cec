"""What a round tells the journal: each fact once, with bounds that hold, under an id that the fact makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticgroup.api.journal import fact_of, group_record
from staticgroup.core.chain import ChainVerdict, IncarnationState, judge
from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveEntry, LeaveOutcome
from staticgroup.core.journal import Fact, Look, Picture, facts_of_round
from staticgroup.core.journal.group import EPOCHS_MAX, UNSETTLED_MAX_MS
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Removal, plan
from staticgroup.core.runs import RETOLD_MS, ContainerRuns, PodRuns, Run, RunChange
from staticgroup.core.snapshot import History, RemovalRecord, Snapshot
from support.bounds import broker_bounds

from .builders import NOW_S, departure, group, history, id_of, incarnation, member, spec, workload

NOW_MS = int(NOW_S * 1000)
STEP_MS = 10_000
UNREACHABLE = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
LOOK_DEPENDENT = {
    "state_before", "members", "partitions_total", "partitions_moved", "absorbed", "previous_member_id",
    "group_epoch", "replicas_before", "session_timeout_ms_before", "rebalances", "certificates", "reason", "replicas",
    "message",
}  # fmt: skip
"""What says how it looked before, or beside: it depends on when somebody looked, and is no part of the fact."""


class Observer:
    """One operator process: looks at snapshots, ten seconds apart, and collects what it tells."""

    def __init__(self, operator_id: str = "op") -> None:
        self.operator_id = operator_id
        self.picture: Picture | None = None
        self.facts: list[Fact] = []
        self.now_ms = NOW_MS

    def look(self, snapshot: Snapshot, **changes: Any) -> list[Fact]:
        """Plan, as a round does, and tell; returns what is new."""
        self.now_ms += STEP_MS
        the_spec = changes.pop("spec", spec())
        decided = plan(the_spec, snapshot, changes.pop("history", history()), self.now_ms / 1000)
        look = Look(
            operator_id=self.operator_id,
            kafka_cluster_id=changes.pop("kafka_cluster_id", "kc"),
            spec=the_spec,
            snapshot=snapshot,
            plan=replace(decided, **changes.pop("plan", {})),
            **(
                {
                    "executed": Executed(),
                    "began_ms": self.now_ms,
                    "ended_ms": self.now_ms + 100,
                    "timeout_before_ms": (decided.timeout.inject_ms or decided.timeout.group_ms) if decided.timeout else None,
                }
                | changes
            ),
        )
        self.picture, facts = facts_of_round(self.picture, look)
        self.facts += facts
        return list(facts)


def running(**changes: Any) -> Snapshot:
    """Three pods, three members, nobody departed."""
    values = {"workload": workload(3), "chains": {}, "fresh": {}, "group": group(*(member(n) for n in range(3)))}
    return departure(**(values | changes))


def kinds(facts: list[Fact]) -> list[str]:
    return [f.data.noun for f in facts]


def bounds(fact: Fact) -> tuple[int | None, int | None]:
    return fact.data.time_lo_ms, fact.data.time_hi_ms


# members and rebalances ------------------------------------------------------------------------------------------


def test_first_look_tells_no_change() -> None:
    """Nothing is known of before: a restarted operator must not claim that all members joined just now."""
    assert Observer().look(running()) == []


def test_absorbed_restart_of_a_classic_member() -> None:
    """KIP-345: a known instance id that rejoins a stable group gets a new member.id and nothing rebalances."""
    observer = Observer()
    observer.look(running())
    (fact,) = observer.look(running(group=group(member(0), member(1, "m1b"), member(2))))
    assert fact.id == f"kc/orders/{id_of(1)}/m1b/rejoined"
    assert fact_of(group_record("k", fact.id, fact.data)) | {"workload": ""} == {
        "kafka_cluster_id": "kc", "group_id": "orders", "namespace": "shop", "static_group": "orders", "workload": "",
        "protocol": "Classic", "instance_id": id_of(1), "member_id": "m1b", "previous_member_id": "m1",
        "group_epoch": None, "absorbed": True,
    }  # fmt: skip
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)
    assert fact.data.observed_at_ms == NOW_MS + 2 * STEP_MS + 100


def test_rejoin_is_not_absorbed_when_a_rebalance_is_in_flight_or_went_by() -> None:
    for after in (
        group(member(0), member(1, "m1b"), member(2), state="PreparingRebalance"),
        group(member(0), member(1, "m1b")),
    ):
        observer = Observer()
        observer.look(running())
        rejoined = [f for f in observer.look(running(group=after)) if f.data.noun == "member.rejoined"]
        assert [f.data.model_dump()["absorbed"] for f in rejoined] == [False]


def test_member_that_was_not_in_the_group_before_joins_without_a_predecessor() -> None:
    observer = Observer()
    observer.look(running(group=group(member(0), member(1))))
    facts = observer.look(running())
    assert kinds(facts) == ["group.rebalanced", "member.rejoined"]
    assert facts[1].data.model_dump()["previous_member_id"] is None


def test_members_of_others_are_not_told() -> None:
    """Foreign and dynamic members are never ours, and an id with two holders is a wrong reading."""
    observer = Observer()
    observer.look(running())
    others = (
        replace(member(0), instance_id="somebody-else"),
        replace(member(0, "d"), instance_id=None),
        member(0, "x"),
        member(0, "y"),
    )
    assert "member.rejoined" not in kinds(observer.look(running(group=group(*others, member(1), member(2)))))


def test_classic_rebalance_is_told_when_it_has_settled() -> None:
    """DescribeGroups shows no generation: in flight at a look, then Stable, is one rebalance."""
    observer = Observer()
    observer.look(running())
    assert observer.look(running(group=group(*(member(n) for n in range(3)), state="PreparingRebalance"))) == []
    (fact,) = observer.look(running())
    assert fact.data.noun == "group.rebalanced"
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 3 * STEP_MS + 100)
    assert observer.look(running()) == []


def test_classic_rebalance_that_nobody_saw_in_flight_is_known_by_the_members() -> None:
    def share(*counts: int) -> Snapshot:
        return running(group=group(*(member(n, assigned_partitions=c) for n, c in enumerate(counts))))

    observer = Observer()
    observer.look(share(4, 4, 4))
    assert observer.look(share(4, 4, 4)) == []
    (fact,) = observer.look(share(6, 3, 3))
    told = fact.data.model_dump()
    assert (told["partitions_total"], told["partitions_moved"], told["group_epoch"]) == (12, 2, None)
    assert kinds(observer.look(share(6, 6))) == ["group.rebalanced"]


def test_rebalances_between_the_same_members_have_different_ids() -> None:
    """Otherwise the second would be dropped as a copy of the first."""
    observer = Observer()
    for _ in range(3):
        observer.look(running())
        observer.look(running(group=group(*(member(n) for n in range(3)), state="CompletingRebalance")))
    observer.look(running())
    ids = [f.id for f in observer.facts if f.data.noun == "group.rebalanced"]
    assert len(ids) == len(set(ids)) == 3


def kip848(epoch: int, *members: Any, **changes: Any) -> GroupView:
    values = {"group_type": GroupType.CONSUMER, "group_epoch": epoch, "assignment_epoch": epoch, "protocol_type": ""}
    members = members or tuple(member(n, member_epoch=epoch, assigned_partitions=4) for n in range(3))
    return group(*members, **(values | changes))


def test_every_epoch_of_a_kip848_group_is_one_rebalance() -> None:
    observer = Observer()
    observer.look(running(group=kip848(7)), spec=spec(protocol="Consumer"))
    facts = observer.look(running(group=kip848(9)), spec=spec(protocol="Consumer"))
    assert [f.id for f in facts] == ["kc/orders/8/rebalanced", "kc/orders/9/rebalanced"]
    assert [f.data.model_dump()["members"] for f in facts] == [None, 3]
    assert {f.data.protocol for f in facts} == {"Consumer"}


def test_rebalance_of_a_kip848_group_is_told_with_what_moved_once_it_has_settled() -> None:
    """While members reconcile, the counts are not those of the new assignment; the bounds stay those of the epoch."""
    observer = Observer()
    observer.look(running(group=kip848(7)))
    behind = (member(0, member_epoch=7, assigned_partitions=4), member(1, member_epoch=8, assigned_partitions=0))
    assert kinds(observer.look(running(group=kip848(8, *behind, state="Reconciling")))) == []
    after = (member(0, member_epoch=8, assigned_partitions=6), member(1, member_epoch=8, assigned_partitions=6))
    (fact,) = observer.look(running(group=kip848(8, *after)))
    told = fact.data.model_dump()
    assert (told["partitions_moved"], told["partitions_total"], told["state_before"]) == (4, 12, "Stable")
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)


def test_rebalance_that_never_settles_is_told_after_a_minute() -> None:
    observer = Observer()
    observer.look(running(group=kip848(7)))
    stuck = running(group=kip848(8, member(0, member_epoch=7), state="Reconciling"))
    looks = UNSETTLED_MAX_MS // STEP_MS
    assert [len(observer.look(stuck)) for _ in range(looks + 2)] == [0] * looks + [1, 0]
    assert observer.facts[-1].data.model_dump()["partitions_moved"] is None


def test_restart_in_a_kip848_group_is_absorbed_exactly_when_the_epoch_stays() -> None:
    """KIP-848: a static member that comes back takes over the assignment; the group epoch does not move."""
    for epoch, absorbed in ((7, True), (8, False)):
        observer = Observer()
        observer.look(running(group=kip848(7)))
        back = (member(0, "new", member_epoch=0), *(member(n, member_epoch=epoch) for n in (1, 2)))
        facts = observer.look(running(group=kip848(epoch, *back, state="Reconciling")))
        assert [f.data.model_dump()["absorbed"] for f in facts if f.data.noun == "member.rejoined"] == [absorbed]


def test_first_members_of_a_new_group_are_its_first_rebalances() -> None:
    """KAFKA-20268: the first epoch of a group is 2 since Kafka 4.3, so that 1 cannot be told as a rebalance."""
    absent = GroupView(group_id="orders", group_type=GroupType.ABSENT, state="Dead", coordinator="1@b:1")
    for first, count in ((kip848(1), 0), (kip848(2), 1), (kip848(4), 3), (group(*(member(n) for n in range(3))), 1)):
        observer = Observer()
        observer.look(running(group=absent))
        assert kinds(observer.look(running(group=first))).count("group.rebalanced") == count


def test_group_that_moved_on_very_far_is_told_the_newest_epochs() -> None:
    observer = Observer()
    observer.look(running(group=kip848(1)))
    facts = observer.look(running(group=kip848(10_000)))
    assert [f.data.model_dump()["group_epoch"] for f in facts] == list(range(10_001 - EPOCHS_MAX, 10_001))


def test_group_that_went_back_is_another_one() -> None:
    observer = Observer()
    observer.look(running(group=kip848(9)))
    assert observer.look(running(group=kip848(1))) == []
    assert kinds(observer.look(running(group=kip848(2)))) == ["group.rebalanced"]


def test_bounds_reach_back_to_the_last_look_that_read_the_group() -> None:
    observer = Observer()
    observer.look(running())
    assert observer.look(running(group=UNREACHABLE)) == []
    (fact,) = observer.look(running(group=group(member(0), member(1, "m1b"), member(2))))
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 3 * STEP_MS + 100)


def test_group_that_was_never_read_has_no_changes_at_its_first_reading() -> None:
    observer = Observer()
    observer.look(running(group=UNREACHABLE))
    assert observer.look(running()) == []


def test_other_staticgroup_and_other_cluster_have_no_past() -> None:
    """What was known of the former says nothing of the new: its members have not rejoined."""
    others = group(member(0, "x0"), member(1, "x1"), member(2, "x2"))
    for changes in ({"uid": "sg-2"}, {"kafka_cluster_id": "kc-2"}):
        observer = Observer()
        observer.look(running())
        uid = {"uid": changes.pop("uid")} if "uid" in changes else {}
        assert observer.look(running(group=others, **uid), **changes) == []


# states ----------------------------------------------------------------------------------------------------------

DEAD = incarnation(2, state=IncarnationState.DEAD)
DEAD_BEFORE = incarnation(2, "u2-old", IncarnationState.DEAD, resource_version=50)


def leaving(outcome: LeaveOutcome, attempt: int = 1) -> dict[str, Any]:
    """What a round executed, and the history after it."""
    verdict: ChainVerdict = judge(id_of(2), (DEAD_BEFORE, DEAD), continuous=True)
    entry = LeaveEntry(member_id="m2", instance_id=id_of(2), reason="scaled to 0..1")
    removal = Removal(entry=entry, ordinal=2, chain=verdict, attempt=attempt)
    executed = Executed(removals=(removal,), outcomes=(outcome,))
    records = (record(attempt),) if outcome is LeaveOutcome.REMOVED else ()
    return {"executed": executed, "plan": {"history": history(removals=records), "held": ()}}


def record(attempt: int = 1) -> RemovalRecord:
    return RemovalRecord(
        instance_id=id_of(2), member_id="m2", coordinator="1@b:1", acknowledged_at_s=NOW_S + 19.5, attempts=attempt
    )


def test_departed_names_the_newest_end_once_every_end_is_proven() -> None:
    observer = Observer()
    suspect = incarnation(2, "u2-old", IncarnationState.SUSPECT, resource_version=50)
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


def test_acknowledged_removal_is_told_with_its_proofs() -> None:
    observer = Observer()
    (fact,) = (
        f for f in observer.look(departure(), **leaving(LeaveOutcome.REMOVED)) if f.data.noun == "member.removed"
    )
    told = fact.data.model_dump()
    assert fact.id == "kc/orders/m2/1/removed"
    assert (told["outcome"], told["reason"]) == ("Removed", "scaled to 0..1")
    assert told["certificates"] == ["u2-old E1", "u2 E1"]
    assert bounds(fact) == (NOW_MS + 19_500, NOW_MS + 19_500)


def test_removal_that_the_status_remembers_is_told_again_by_a_restarted_operator_under_the_same_id() -> None:
    """It may have died between the leave and the record; whoever has both drops the copy."""
    first, second = Observer("one"), Observer("two")
    first.look(departure(), **leaving(LeaveOutcome.REMOVED))
    facts = second.look(
        running(workload=workload(2), group=group(member(0), member(1))), history=history(removals=(record(),))
    )
    assert [f.id for f in facts] == ["kc/orders/m2/1/removed"]
    assert facts[0].id in {f.id for f in first.facts}
    assert (
        second.look(
            running(workload=workload(2), group=group(member(0), member(1))), history=history(removals=(record(),))
        )
        == []
    )


def test_member_that_comes_back_after_its_removal_is_told_as_resurrected() -> None:
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


def test_held_removal_is_told_once_for_each_guard() -> None:
    observer = Observer()
    never = spec(removal={"policy": "Never"})
    assert [f.id for f in observer.look(departure(), spec=never)][-1:] == ["kc/orders/m2/RemovalPolicyNever/held"]
    assert observer.look(departure(), spec=never) == []
    assert kinds(observer.look(departure(), spec=spec(suspend=True))) == ["removal.held"]


# workload and timeout --------------------------------------------------------------------------------------------


def test_scaling_is_told_with_the_generation_in_its_id() -> None:
    observer = Observer()
    observer.look(running())
    (fact,) = observer.look(running(workload=workload(5, metadata_generation=4)))
    assert fact.id == "sg-1/w1/4/scaled"
    told = fact.data.model_dump()
    assert (told["replicas_before"], told["replicas_after"]) == (3, 5)
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)


def test_statefulset_that_is_not_there_or_another_one_is_no_scaling() -> None:
    """A failed read looks the same as a deletion; what the pods do is told by their own records."""
    observer = Observer()
    observer.look(running())
    assert observer.look(running(workload=None, group=UNREACHABLE)) == []
    assert observer.look(running(workload=workload(2, uid="w2"), group=UNREACHABLE)) == []
    assert kinds(observer.look(running(workload=workload(3, uid="w2")))) == ["workload.scaled"]


@pytest.mark.parametrize(
    "older", [{"metadata_generation": 3, "replicas": 3}, {"metadata_generation": 4, "update_revision": ""}]
)
def test_reading_that_is_older_than_the_last_one_is_no_news(older: dict[str, Any]) -> None:
    """A read may be served from a cache that lags: the StatefulSet of before, or one without its status yet."""
    observer = Observer()
    observer.look(running())
    now = running(workload=workload(5, metadata_generation=4))
    assert kinds(observer.look(now)) == ["workload.scaled"]
    assert observer.look(running(workload=workload(**({"replicas": 5} | older)))) == []
    assert observer.look(now) == []


def rolling(updated: int, ready: int = 3, **changes: Any) -> Snapshot:
    values = {"update_revision": "r2", "metadata_generation": 4, "updated_replicas": updated, "ready_replicas": ready}
    return running(workload=workload(3, **(values | changes)))


def test_rollout_is_told_from_its_first_to_its_last_pod() -> None:
    """The status of a StatefulSet: currentRevision follows when all pods are updated and Ready."""
    observer = Observer()
    observer.look(running())
    (started,) = observer.look(rolling(0))
    assert started.id == "sg-1/w1/4/r2/rollout-started"
    assert observer.look(rolling(1, 2)) == []
    observer.look(replace(rolling(2, 2), group=group(member(0), member(1))))
    assert observer.look(replace(rolling(3, 2), group=group(member(0), member(1)))) == []
    (finished,) = observer.look(replace(rolling(3, current_revision="r2"), group=group(member(0), member(1))))
    assert finished.id == "sg-1/w1/4/r2/rollout-finished"
    assert finished.data.model_dump()["rebalances"] == 1


def test_rollout_that_went_by_between_two_looks_is_told_whole() -> None:
    observer = Observer()
    observer.look(running())
    done = rolling(3, current_revision="r2")
    assert kinds(observer.look(done)) == ["rollout.started", "rollout.finished"]
    assert observer.look(done) == []


def test_restarted_operator_tells_a_rollout_in_progress_under_the_same_id() -> None:
    first, second = Observer(), Observer()
    first.look(running())
    first.look(rolling(1, 2))
    assert [f.id for f in second.look(rolling(2, 2))] == [f.id for f in first.facts]


def test_rollout_back_and_forth_is_three_rollouts() -> None:
    """The revision of an earlier template has its earlier name again, so only the generation tells them apart."""
    observer = Observer()
    observer.look(running())
    for generation, (current, update) in enumerate((("r1", "r2"), ("r2", "r1"), ("r1", "r2")), 4):
        changes = {"current_revision": current, "update_revision": update, "metadata_generation": generation}
        observer.look(rolling(1, 2, **changes))
        observer.look(rolling(3, **(changes | {"current_revision": update})))
    ids = [f.id for f in observer.facts]
    assert len(ids) == len(set(ids)) == 6


def test_rollout_with_a_partition_ends_with_the_pods_above_it() -> None:
    observer = Observer()
    observer.look(running())
    assert kinds(observer.look(rolling(0, partition=2))) == ["rollout.started"]
    assert kinds(observer.look(rolling(1, partition=2))) == ["rollout.finished"]


def test_rollout_that_another_one_replaces_never_finishes() -> None:
    observer = Observer()
    observer.look(running())
    observer.look(rolling(1, 2))
    facts = observer.look(rolling(1, 2, update_revision="r3", metadata_generation=5))
    assert [f.id for f in facts] == ["sg-1/w1/5/r3/rollout-started"]


def test_timeout_is_told_against_what_the_status_said() -> None:
    """The status outlives the process: what it said is the former value for whoever comes next."""
    observer = Observer()
    fixed = spec(sessionTimeout={"mode": "Fixed", "seconds": 60})
    (fact,) = observer.look(running(), spec=fixed, timeout_before_ms=None)
    assert fact.id == "sg-1/1/timeout-changed/60000"
    assert observer.look(running(), spec=fixed, timeout_before_ms=60_000) == []
    ids = set()
    for _ in range(2):  # there and back: the same two values, two facts
        (fact,) = observer.look(running(), spec=fixed, timeout_before_ms=45_000)
        told = fact.data.model_dump()
        assert (told["session_timeout_ms_before"], told["session_timeout_ms_after"]) == (45_000, 60_000)
        assert told["timeout_source"] == "Fixed"
        ids.add(fact.id)
    assert len(ids) == 2


# pods ------------------------------------------------------------------------------------------------------------


def change(*instance_ids: str, container: str = "app", is_first: bool = True, **changes: Any) -> RunChange:
    runs = ContainerRuns(name=container, is_first=is_first, image_digest="sha256:a", runs=(Run(restart_count=0),))
    pod = PodRuns(
        namespace="shop", pod_name="web-1", uid="u1", node_name="n1", rollout_id="r1",
        instance_ids=instance_ids or (id_of(1),), session_timeout_ms=45_000, deletion_asked_ms=None, is_evicted=False,
        containers=(runs,),
    )  # fmt: skip
    values: dict[str, Any] = {
        "is_up": False, "restart_count": 3, "reason": "OOMKilled", "source_time_ms": NOW_MS, "lo_ms": None,
        "hi_ms": None, "observed_at_ms": NOW_MS + 500,
    }  # fmt: skip
    return RunChange(pod=pod, container=runs, **(values | changes))


def test_end_of_a_process_with_everything_the_pipeline_needs() -> None:
    (fact,) = Observer().look(running(), runs=[change()])
    assert fact.id == f"u1/3/{id_of(1)}/down"
    told = fact.data.model_dump()
    assert told | {"operator_id": "", "kafka_cluster_id": "", "group_id": "", "namespace": "", "static_group": ""} == {
        "operator_id": "", "kafka_cluster_id": "", "group_id": "", "namespace": "", "static_group": "", "seq": 0,
        "observed_at_ms": NOW_MS + 500, "source_time_ms": NOW_MS, "time_lo_ms": None, "time_hi_ms": None,
        "workload": "web", "protocol": "Classic", "instance_id": id_of(1), "pod_name": "web-1", "pod_uid": "u1",
        "restart_count": 3, "node_name": "n1", "image_digest": "sha256:a", "rollout_id": "r1", "reason": "OOMKilled",
        "session_timeout_ms": 45_000,
    }  # fmt: skip


def test_runs_are_told_while_the_group_cannot_be_read() -> None:
    assert kinds(Observer().look(running(group=UNREACHABLE), runs=[change()])) == ["member.down"]


def test_every_member_of_a_pod_goes_down_with_its_process() -> None:
    """Kafka Streams and Spring make several consumers of one id."""
    threads = spec(identity={"suffix": "Streams", "membersPerPod": 3})
    facts = Observer().look(running(), runs=[change()], spec=threads)
    assert [f.data.model_dump()["instance_id"] for f in facts] == [f"{id_of(1)}-{n}" for n in (1, 2, 3)]
    assert len({f.id for f in facts}) == 3


def test_ids_of_a_container_are_those_of_the_entries_that_name_it() -> None:
    two = spec(identity={"env": [{"suffix": "-a"}, {"suffix": "-b", "container": "side"}]})
    both = (f"{id_of(1)}-a", f"{id_of(1)}-b")
    for container, is_first, expected in (("app", True, both[:1]), ("side", False, both[1:]), ("proxy", False, ())):
        facts = Observer().look(running(), runs=[change(*both, container=container, is_first=is_first)], spec=two)
        assert tuple(f.data.model_dump()["instance_id"] for f in facts) == expected


def test_pod_without_our_id_is_not_ours() -> None:
    assert Observer().look(running(), runs=[change("other-id")]) == []


def test_timeout_of_a_kip848_member_is_the_groups() -> None:
    """KIP-848: the group has one value; whatever a pod carries is not in force."""
    consumer = spec(protocol="Consumer")
    bounds = broker_bounds(consumer_session_ms=50_000)
    (fact,) = Observer().look(running(group=kip848(3), bounds=bounds), runs=[change()], spec=consumer)
    assert fact.data.model_dump()["session_timeout_ms"] == 50_000


def test_timeout_of_a_classic_member_that_shows_none_is_not_known() -> None:
    """What the next pods get is not what this process was started with."""
    silent = replace(change(), pod=replace(change().pod, session_timeout_ms=None))
    (fact,) = Observer().look(running(), runs=[silent])
    assert fact.data.model_dump()["session_timeout_ms"] is None


def test_runs_that_waited_too_long_are_not_told() -> None:
    """A group that could not be planned for an hour has a hole, which the beats show."""
    old = change(observed_at_ms=NOW_MS + STEP_MS + 100 - RETOLD_MS - 1)
    assert Observer().look(running(), runs=[old]) == []


# ids -------------------------------------------------------------------------------------------------------------


def test_long_names_stay_apart_within_the_bounds() -> None:
    observer = Observer()
    observer.look(running())
    long = [member(n, f"{'x' * 3_000}{n}") for n in range(3)]
    ids = [f.id for f in observer.look(running(group=group(*long)))]
    assert len(set(ids)) == 3
    assert max(map(len, ids)) <= 2_000


class Life:
    """A random life of a group and its workload, one step after the other."""

    def __init__(self, steps: list[str], *, is_classic: bool) -> None:
        self.snapshots: list[Snapshot] = []
        self.members = {n: 0 for n in range(3)}
        self.epoch, self.generation, self.replicas, self.revision, self.joined = 5, 3, 3, 1, 0
        self.removals: dict[int, int] = {}
        self.is_classic = is_classic
        self.histories: list[History] = []
        for step in steps:
            getattr(self, step)()
            self.snapshots.append(self.snapshot())
            records = tuple(
                RemovalRecord(
                    instance_id=id_of(2), member_id=f"m2-{n}", coordinator="b", acknowledged_at_s=NOW_S, attempts=a
                )
                for n, a in self.removals.items()
            )
            self.histories.append(history(removals=records))

    def nothing(self) -> None:
        pass

    def restart(self) -> None:
        self.joined += 1
        self.members[1] = self.joined

    def join(self) -> None:
        self.joined += 1
        self.members[2] = self.joined
        self.epoch += 1

    def leave(self) -> None:
        gone = self.members.pop(2, None)
        if gone is not None:
            self.removals[gone] = self.removals.get(gone, 0) + 1
            self.epoch += 1

    def rebalance(self) -> None:
        self.epoch += 1

    def scale(self) -> None:
        self.generation += 1
        self.replicas = 3 if self.replicas == 4 else 4

    def roll(self) -> None:
        self.generation += 1
        self.revision += 1

    def snapshot(self) -> Snapshot:
        members = [
            member(
                n, f"m{n}-{m}", member_epoch=None if self.is_classic else self.epoch, assigned_partitions=self.epoch + n
            )
            for n, m in sorted(self.members.items())
        ]
        revision = f"r{self.revision}"
        view = workload(
            self.replicas, metadata_generation=self.generation, update_revision=revision, current_revision=revision
        )
        return running(group=group(*members) if self.is_classic else kip848(self.epoch, *members), workload=view)


STEPS = ["nothing", "restart", "join", "leave", "rebalance", "scale", "roll"]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=14), st.booleans(), st.data())
def test_ids_are_made_by_facts(steps: list[str], is_classic: bool, draw: st.DataObject) -> None:
    """Two observers who look at different moments, one of them restarted in between: an id means one fact.

    No observer tells an id twice in one life, and no id stands for two facts, whoever tells it.
    """
    life = Life(steps, is_classic=is_classic)
    told: dict[str, dict[str, Any]] = {}
    for name in ("one", "two"):
        observer = Observer(name)
        seen: set[str] = set()
        for n, snapshot in enumerate(life.snapshots):
            observer.now_ms = NOW_MS + n * 1_000_000
            if draw.draw(st.booleans(), label=f"{name} looks at {n}"):
                if draw.draw(st.integers(0, 5), label="restarts") == 0:
                    observer.picture, seen = None, set()
                for fact in observer.look(snapshot, history=life.histories[n]):
                    said = fact_of(group_record("k8s", fact.id, fact.data))
                    said = {k: v for k, v in said.items() if k not in LOOK_DEPENDENT} | {"noun": fact.data.noun}
                    assert fact.id not in seen
                    seen.add(fact.id)
                    assert told.setdefault(fact.id, said) == said
