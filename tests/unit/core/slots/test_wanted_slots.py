"""Which slots a Deployment wants: in rolls of every strategy, when it is scaled, and when pods are lost or wait."""

from __future__ import annotations

import pytest

from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.core.slots.deployment import slot_pods, with_slots
from staticgroup.core.workload import WorkloadView
from unit.core.builders import NOW_S, SCOPE, known_pod
from unit.core.slots.deployments import WATCH_NO, deployment, ending, lost, over, slotted, waiting


def wanted(view: WorkloadView, *known: KnownPod, now_s: float = NOW_S) -> list[str]:
    found = with_slots(view, slot_pods(known, SCOPE, WATCH_NO, now_s))
    assert found.listed is not None
    assert found.start == (found.listed[0] if found.listed else 0)
    assert list(found.listed) == sorted(set(found.listed))
    return [f"web-{n}" for n in found.listed]


def five(*others: KnownPod) -> tuple[KnownPod, ...]:
    return (*(slotted(f"old-{n}", given=f"web-{n}") for n in range(1, 6)), *others)


def without(known: tuple[KnownPod, ...], *uids: str) -> tuple[KnownPod, ...]:
    return tuple(pod for pod in known if pod.uid not in uids)


ALL = [f"web-{n}" for n in range(1, 6)]


def test_nothing_is_wanted_of_a_deployment_without_pods() -> None:
    assert wanted(deployment(5)) == []
    assert wanted(deployment(0)) == []


def test_the_slots_of_pods_that_stay_are_wanted() -> None:
    assert wanted(deployment(5), *five()) == ALL


def test_a_pod_that_is_ending_keeps_its_slot_for_the_pod_that_replaces_it() -> None:
    known = without(five(ending("old-1", "web-1"), waiting("new-1")), "old-1")
    known = (*known, ending("old-1", "web-1"))
    assert wanted(deployment(5), *known) == ALL


def test_a_slot_is_kept_while_its_pod_has_ended_and_the_next_is_to_come() -> None:
    known = (*without(five(), "old-1"), over("old-1", "web-1"))
    assert wanted(deployment(5, 5), *known) == ALL


def test_a_slot_is_kept_for_a_pod_that_is_made_and_has_none_yet() -> None:
    """A small Deployment whose last pod of before still runs: that one's successor counts as updated, and only waits."""
    new = [slotted("new-1", given="web-7"), slotted("new-2", given="web-1")]
    before = [over("old-2", "web-2"), slotted("old-3", given="web-3")]
    assert wanted(deployment(3, 3), *new, *before, waiting("new-3")) == ["web-1", "web-2", "web-3", "web-7"]
    last = [slotted("new-3", given="web-2"), over("old-3", "web-3")]
    assert wanted(deployment(3, 3), *new, over("old-2", "web-2"), *last) == ["web-1", "web-2", "web-7"]


def test_scaled_down_the_slots_of_the_pods_that_end_are_not_wanted_any_more() -> None:
    known = (*without(five(), "old-1", "old-2"), ending("old-1", "web-1"), over("old-2", "web-2"))
    assert wanted(deployment(3), *known) == ["web-3", "web-4", "web-5"]


def test_scaled_down_all_slots_are_wanted_until_the_controller_has_seen_it() -> None:
    """A status that is behind counts pods of an earlier spec, so all pods may be replaced."""
    known = (*without(five(), "old-1"), ending("old-1", "web-1"))
    behind = deployment(4, 5, metadata_generation=4, observed_generation=3)
    assert wanted(behind, *known) == ALL
    assert wanted(deployment(4), *known) == ALL[1:]


def test_scaled_to_zero_nothing_is_wanted() -> None:
    assert wanted(deployment(0), *(over(f"old-{n}", f"web-{n}") for n in range(1, 6))) == []


def test_scaled_up_slots_of_pods_that_have_ended_are_kept_for_as_many_pods_as_are_to_come() -> None:
    gone = [over(f"gone-{n}", f"web-{n}") for n in (7, 8, 9)]
    assert len(wanted(deployment(6, 5), *gone, *five())) == 6
    assert len(wanted(deployment(7, 5), *gone, *five())) == 7
    assert len(wanted(deployment(5, 5), *gone, *five())) == 5


def test_with_recreate_the_slots_of_all_pods_that_ended_are_kept_for_the_new_ones() -> None:
    known = tuple(over(f"old-{n}", f"web-{n}") for n in range(1, 6))
    assert wanted(deployment(5, 0, is_recreate=True), *known) == ALL
    taken = (*known, slotted("new-1", given="web-3"), waiting("new-2", claimed="web-1"))
    assert wanted(deployment(5, 2, is_recreate=True), *taken) == ALL


def test_slots_that_were_left_long_ago_do_not_stand_for_those_that_pass_on_now() -> None:
    """Once ten pods were wanted, and ended: a recreation takes over the slots of the five that ended now."""
    long_ago = [over(f"gone-{n}", f"web-{n}", resource_version=50 + n) for n in range(10, 15)]
    now = [over(f"old-{n}", f"web-{n}", resource_version=200 + n) for n in (71, 72, 73, 74, 75)]
    expected = [f"web-{n}" for n in range(71, 76)]
    assert wanted(deployment(5, 0, is_recreate=True), *long_ago, *now) == expected
    rolling = [*(slotted(f"old-{n}", given=f"web-{n}", resource_version=200 + n) for n in range(72, 76)), ending("old-71", "web-71")]
    assert "web-71" in wanted(deployment(5, 4), *long_ago, *rolling)


def test_pods_that_the_status_counts_already_are_to_come_until_they_have_a_slot() -> None:
    """Without a surge all new pods may be made, and wait, before the last of the old ones has ended."""
    known = (slotted("new-1", given="web-1"), ending("old-2", "web-2"), over("old-3", "web-3"))
    waits = (waiting("new-2"), waiting("new-3", claimed="web-3"))
    assert wanted(deployment(3), *known, *waits) == ["web-1", "web-2", "web-3"]
    surplus = (*known, slotted("new-4", given="web-4"), slotted("new-5", given="web-5"), *waits)
    assert wanted(deployment(3), *surplus) == [f"web-{n}" for n in range(1, 6)]


def test_what_a_waiting_pod_claims_is_kept_first() -> None:
    gone = [over(f"gone-{n}", f"web-{n}", resource_version=200 + n) for n in (7, 8, 9)]
    known = (*gone, *five(), waiting("new-1", claimed="web-7"))
    assert wanted(deployment(6, 6), *known) == [*ALL, "web-7"]


def test_a_slot_that_passed_on_is_the_new_pods_and_counts_once() -> None:
    known = (*without(five(), "old-1"), over("old-1", "web-1"), slotted("new-1", given="web-1", waits=True))
    assert wanted(deployment(5, 1), *known) == ALL


@pytest.mark.parametrize("how", ["suspect", "late", "lost run"])
def test_the_slot_of_a_lost_pod_is_not_wanted(how: str) -> None:
    """Nothing proves its end, so it passes on to nobody, and its member stays until its session ends."""
    pod = {
        "suspect": lost("old-1", "web-1"),
        "late": ending("old-1", "web-1", ends_by_s=NOW_S - 31),
        "lost run": ending("old-1", "web-1", has_lost_run=True),
    }[how]
    assert wanted(deployment(5, 0), *without(five(), "old-1"), pod) == ALL[1:]


def test_a_pod_has_30_s_beyond_its_grace_period_until_it_counts_as_lost() -> None:
    known = (*without(five(), "old-1"), ending("old-1", "web-1", ends_by_s=NOW_S))
    assert wanted(deployment(5, 0), *known, now_s=NOW_S + 30) == ALL
    assert wanted(deployment(5, 0), *known, now_s=NOW_S + 30.1) == ALL[1:]


def test_a_slot_of_which_one_pod_is_lost_is_not_wanted_though_another_has_ended() -> None:
    known = (over("old-1", "web-1"), lost("newer-1", "web-1"))
    assert wanted(deployment(1, 0), *known) == []


def test_a_living_pod_of_which_a_run_was_lost_keeps_its_slot() -> None:
    """As after a restart of its node: its containers run anew, and its member is in the group."""
    known = (*without(five(), "old-1"), slotted("old-1", given="web-1", has_lost_run=True))
    assert wanted(deployment(5), *known) == ALL


def test_a_pod_that_ended_after_a_run_was_lost_has_no_place() -> None:
    """A late version may show the lost run of a pod whose end was certified before."""
    known = (*without(five(), "old-1", "old-2"), over("old-1", "web-1", has_lost_run=True), over("old-2", "web-2"))
    assert wanted(deployment(4, 3), *known) == ALL[1:]


def test_a_pod_that_runs_without_a_slot_has_a_place_all_the_same() -> None:
    known = (*without(five(), "old-1"), over("old-1", "web-1"), slotted("new-1"))
    assert wanted(deployment(5, 5), *known) == ALL[1:]


def test_copies_and_other_pods_that_nobody_of_the_deployment_owns_have_no_place() -> None:
    copies = [slotted(f"copy-{n}", owner="", pod_name=f"debug-{n}") for n in range(5)]
    known = (*without(five(), "old-1"), over("old-1", "web-1"), *copies)
    assert wanted(deployment(5, 5), *known) == ALL


def test_a_pod_with_a_slot_that_was_released_from_its_replica_set_keeps_it() -> None:
    known = (*without(five(), "old-1"), slotted("old-1", given="web-1", owner=""))
    assert wanted(deployment(5, 5), *known) == ALL


def test_slots_of_another_static_group_and_pods_without_any_are_none_of_this_one() -> None:
    known = (slotted("a", given="web-1", scope="77bb00aa"), known_pod(4, "b"), slotted("c", given="web-3"))
    assert wanted(deployment(3), *known) == ["web-3"]


def test_a_slot_that_is_none_of_the_workload_is_not_wanted() -> None:
    assert wanted(deployment(3), slotted("a", given="api-1"), slotted("b", given="web-x"), slotted("c", given="web-02")) == []


def test_what_is_shown_of_each_pod() -> None:
    shown = {
        pod.uid: pod for pod in slot_pods(
            [waiting("w"), waiting("d", is_deleting=True), waiting("g", given="web-1"), waiting("s", state=PodState.SUSPECT),
             over("o", "web-2"), over("l", "web-3", ended_under=WATCH_NO - 1), over("n", "web-4", ended_under=0)],
            SCOPE, WATCH_NO, NOW_S,
        )
    }  # fmt: skip
    assert {uid for uid, pod in shown.items() if pod.is_waiting} == {"w"}
    assert {uid for uid, pod in shown.items() if pod.is_end_watched} == {"o"}
    assert {uid for uid, pod in shown.items() if pod.has_ended} == {"o", "l", "n"}
    assert {uid for uid, pod in shown.items() if pod.is_lost} == {"s"}
    assert {uid for uid, pod in shown.items() if pod.is_ending} == {"d"}
    assert {uid for uid, pod in shown.items() if pod.stays} == {"g"}


@pytest.mark.parametrize("generation", [1, 2], ids=["known", "just edited"])
def test_during_a_pause_no_slot_is_kept_for_pods_that_come_only_after_it(generation: int) -> None:
    """Scaled down half-way, or with a canary beside all old pods: else those partitions stand still for the whole pause."""
    view = deployment(4, 2, is_paused=True, metadata_generation=generation, observed_generation=1)
    known = (*without(five(), "old-1"), over("old-1", "web-1"))
    assert wanted(view, *known) == ALL[1:]
    assert wanted(view, *known, waiting("new-1")) == ALL, "this one comes already"
    assert wanted(deployment(4, 2), *known) == ALL, "not paused"


def test_a_pod_that_is_replaced_during_a_pause_keeps_its_slot() -> None:
    known = (*without(five(), "old-1"), over("old-1", "web-1"))
    assert wanted(deployment(5, 2, is_paused=True), *known) == ALL
