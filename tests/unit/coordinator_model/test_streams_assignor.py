"""The task assignor. Tests named are StickyTaskAssignorTest's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.base.image import TopicImage
from coordinator_model.streams import assignor as streams_assignor
from coordinator_model.streams.member import Member, MemberMetadata, Tasks
from coordinator_model.streams.messages import Subtopology, Topology

Previous = tuple[str, set[int], set[int]]
"""Process, and the active and standby partitions of subtopology s that the member had."""


def assign(
    partitions: int, members: dict[str, Previous], *, standbys: int = 0, stateful: bool = False
) -> dict[str, Tasks]:
    return streams_assignor.assign(
        {m: Member(m, MemberMetadata(process_id=process)) for m, (process, _, _) in members.items()},
        {
            m: Tasks(frozenset(("s", p) for p in active), frozenset(("s", p) for p in standby))
            for m, (_, active, standby) in members.items()
        },
        Topology(0, (Subtopology("s", ("t",), is_stateful=stateful),)),
        TopicImage({"t": partitions}),
        standbys,
    )


def active(assigned: dict[str, Tasks]) -> dict[str, set[int]]:
    return {m: {p for _, p in tasks.active} for m, tasks in assigned.items()}


def standby(assigned: dict[str, Tasks]) -> dict[str, set[int]]:
    return {m: {p for _, p in tasks.standby} for m, tasks in assigned.items()}


def test_active_tasks_stay_where_they_are() -> None:
    """shouldNotMigrateActiveTaskToOtherProcess, shouldNotMoveAnyTasksWhenNewTasksAdded."""
    kept = active(assign(6, {"m1": ("p1", {0, 1}, set()), "m2": ("p2", {2, 3}, set())}))
    assert kept["m1"] >= {0, 1}
    assert kept["m2"] >= {2, 3}
    assert [len(tasks) for tasks in kept.values()] == [3, 3]


def test_a_newcomer_takes_one_task_and_the_others_stay() -> None:
    """shouldMoveMinimalNumberOfTasksWhenPreviouslyAboveCapacityAndNewClientAdded."""
    after = active(assign(4, {"m1": ("p1", {0, 2}, set()), "m2": ("p2", {1, 3}, set()), "m3": ("p3", set(), set())}))
    assert len(after["m3"]) == 1
    assert after["m1"] == {0, 2} or after["m2"] == {1, 3}


def test_tasks_follow_capacity_not_processes() -> None:
    """shouldAssignBasedOnCapacity: two threads in one process get two tasks, one in another gets one."""
    members: dict[str, Previous] = {
        "m1": ("p1", set(), set()), "m21": ("p2", set(), set()), "m22": ("p2", set(), set()),
    }
    assert sorted(len(tasks) for tasks in active(assign(3, members)).values()) == [1, 1, 1]


def test_a_standby_without_room_does_not_get_the_task() -> None:
    """shouldAssignBasedOnCapacityWhenMultipleClientHaveStandbyTasks."""
    members: dict[str, Previous] = {"m1": ("p1", {0}, {1}), "m21": ("p2", {2}, {1}), "m22": ("p2", set(), set())}
    assert active(assign(3, members)) == {"m1": {0}, "m21": {2}, "m22": {1}}


def test_replicas_go_to_every_other_process() -> None:
    """shouldAssignMultipleReplicasOfStandbyTask."""
    members: dict[str, Previous] = {f"m{n}": (f"p{n}", {n}, set()) for n in range(3)}
    assigned = assign(3, members, standbys=2, stateful=True)
    assert standby(assigned) == {"m0": {1, 2}, "m1": {0, 2}, "m2": {0, 1}}


def test_no_process_has_a_task_twice() -> None:
    """shouldNotAssignStandbyTaskReplicasWhenNoClientAvailable…, shouldHandleEdgeCaseWithMoreStandbyReplicasThan…."""
    alone = assign(3, {"m1": ("p1", set(), set()), "m2": ("p1", set(), set())}, standbys=1, stateful=True)
    assert standby(alone) == {"m1": set(), "m2": set()}
    two = assign(4, {"m1": ("p1", set(), set()), "m2": ("p2", set(), set())}, standbys=5, stateful=True)
    assert (standby(two)["m1"], standby(two)["m2"]) == (active(two)["m2"], active(two)["m1"])


def test_active_and_standby_tasks_are_balanced_together() -> None:
    """shouldBalanceActiveAndStandbyTasksAcrossAvailableClients: six processes, three tasks, one replica each."""
    members: dict[str, Previous] = {f"m{n}": (f"p{n}", set(), set()) for n in range(6)}
    assigned = assign(3, members, standbys=1, stateful=True)
    assert [len(tasks.active) + len(tasks.standby) for tasks in assigned.values()] == [1] * 6


def test_stateless_subtopologies_have_no_standbys() -> None:
    """StickyTaskAssignor.taskIds: only stateful subtopologies."""
    members: dict[str, Previous] = {"m1": ("p1", set(), set()), "m2": ("p2", set(), set())}
    assert standby(assign(2, members, standbys=1)) == {"m1": set(), "m2": set()}


def test_each_subtopology_is_spread() -> None:
    """shouldRangeAssignTasksWhenStartingEmpty, shouldRangeAssignTasksWhenScalingUp."""
    both = Topology(0, (Subtopology("s1", ("t",), is_stateful=True), Subtopology("s2", ("t",), is_stateful=True)))
    members = {m: Member(m, MemberMetadata(process_id=m)) for m in ("m1", "m2")}
    everything = Tasks(frozenset((s, p) for s in ("s1", "s2") for p in range(2)))
    for targets in ({}, {"m1": everything}):
        assigned = streams_assignor.assign(members, targets, both, TopicImage({"t": 2}), 1)
        for tasks in assigned.values():
            assert sorted(s for s, _ in tasks.active) == ["s1", "s2"]
            assert sorted(s for s, _ in tasks.standby) == ["s1", "s2"]


def test_new_member_ids_of_the_same_instances_get_the_same_tasks_from_nothing() -> None:
    """KIP-345's wish, for a topology without memory: equals are decided by instance id."""
    topology, image = Topology(0, (Subtopology("s", ("t",)),)), TopicImage({"t": 5})

    def by_instance(ids: dict[str, str]) -> dict[str, frozenset[tuple[str, int]]]:
        members = {m: Member(m, MemberMetadata(instance_id=i, process_id=i)) for m, i in ids.items()}
        assigned = streams_assignor.assign(members, {}, topology, image, 0)
        return {ids[m]: tasks.active for m, tasks in assigned.items()}

    assert by_instance({"1": "A", "2": "B", "3": "C"}) == by_instance({"9": "A", "2": "B", "1": "C"})


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    partitions=st.integers(1, 9),
    processes=st.lists(st.sampled_from(["p1", "p2", "p3"]), min_size=1, max_size=5),
    owners=st.lists(st.integers(0, 4), min_size=9, max_size=9),
    standbys=st.integers(0, 2),
)
def test_every_task_runs_once_and_its_replicas_elsewhere(
    partitions: int, processes: list[str], owners: list[int], standbys: int
) -> None:
    """KIP-1071: one active owner, and as many replicas as other processes can hold, never two copies in a process."""
    members: dict[str, Previous] = {
        f"m{n}": (process, {p for p in range(partitions) if owners[p] == n}, set())
        for n, process in enumerate(processes)
    }
    assigned = assign(partitions, members, standbys=standbys, stateful=True)
    runs = [task for tasks in assigned.values() for task in tasks.active]
    assert sorted(runs) == [("s", p) for p in range(partitions)]
    for process in set(processes):
        copies = [
            t for m, tasks in assigned.items() if members[m][0] == process for t in (*tasks.active, *tasks.standby)
        ]
        assert len(copies) == len(set(copies))
    wanted = min(standbys, len(set(processes)) - 1)
    assert sum(len(tasks.standby) for tasks in assigned.values()) == partitions * wanted
