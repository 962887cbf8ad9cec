"""What the next notes say: their texts and counts, when they are said again, to whom nothing is said, and what passes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.api.workloads import ARGO_ROLLOUT, DEPLOYMENT
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.members.memory import Members
from staticgroup.core.slots.deployment import FILES_MINOR, SlotPlan, slot_obstacle
from staticgroup.core.slots.hand_out import Step
from staticgroup.core.workload import ContainerBudget
from unit.core.builders import NODE, NOW_S, SCOPE, WATCH, workload
from unit.core.slots.deployments import (
    WATCH_NO,
    deployment,
    ending,
    holders,
    lost,
    note,
    over,
    planned,
    slotted,
    texts,
    waiting,
)

NOTHING = SlotPlan(longest_wait_s=0.0)
OTHERS = (slotted("b", given="web-2"), slotted("c", given="web-3"))


def own(plan: SlotPlan) -> str:
    """Return the slot of its own that the only note gives."""
    found = note(plan)
    assert found.step is Step.OWN
    assert found.text == f"{found.pod.uid} has {found.slot} 1"
    assert found.slot not in {"web-1", "web-2", "web-3"}
    return found.slot


# texts


def test_a_claim_says_which_slot_the_pod_waits_for() -> None:
    found = note(planned(waiting("new"), ending("old", "web-1"), *OTHERS))
    assert (found.text, found.step, found.slot) == ("new waits 1 web-1", Step.CLAIM, "web-1")
    assert (found.annotation, found.pod.uid) == (f"staticgroup.io/slot-{SCOPE}", "new")


def test_the_slot_is_given_once_the_claim_was_seen_and_the_pod_has_ended() -> None:
    old = over("old", "web-1")
    found = note(planned(waiting("new", claimed="web-1", count=4), old, *OTHERS))
    assert (found.text, found.step) == ("new has web-1 5", Step.GIVE)


def test_a_free_slot_is_claimed_before_it_is_given() -> None:
    assert texts(planned(waiting("new"), over("old", "web-1"), *OTHERS)) == ["new waits 1 web-1"]


def test_a_pod_for_which_there_is_no_slot_gets_one_of_its_own() -> None:
    slot = own(planned(waiting("new"), *OTHERS))
    assert slot.startswith("web-")
    assert 0 <= int(slot.removeprefix("web-")) <= 2**31 - 1
    assert own(planned(waiting("new"), *OTHERS, now_s=NOW_S + 1)) == slot  # whoever asks, and when
    assert own(planned(waiting("other"), *OTHERS)) != slot


@pytest.mark.parametrize("how", ["given", "claimed", "given to a pod that has ended", "given to a lost pod"])
def test_an_own_slot_is_none_that_is_known(how: str) -> None:
    drawn = own(planned(waiting("new"), *OTHERS))
    knows = {
        "given": slotted("x", given=drawn),
        "claimed": waiting("x", claimed=drawn, state=PodState.SUSPECT),
        "given to a pod that has ended": over("x", drawn, ended_under=0),
        "given to a lost pod": lost("x", drawn),
    }[how]
    assert own(planned(waiting("new"), *OTHERS, knows, view=deployment(9))) not in ("", drawn)


def test_in_a_full_deployment_a_pod_waits_until_another_begins_to_end() -> None:
    plan = planned(waiting("new"), slotted("a", given="web-1"), *OTHERS)
    assert (texts(plan), plan.requeue_after_s) == (["new waits 1 -"], 10.0)
    assert [(pod.uid, step, slot) for pod, step, slot in plan.waiting] == [("new", Step.WAIT, "")]


def test_with_a_surge_and_none_lacking_a_pod_does_not_wait() -> None:
    full = (slotted("a", given="web-1"), *OTHERS)
    assert own(planned(waiting("new"), *full, view=deployment(max_unavailable=0)))
    assert own(planned(waiting("new"), *full, view=deployment(is_paused=True)))


# beats


@pytest.mark.parametrize(
    ("since_s", "said"), [(0.0, []), (9.9, []), (10.0, ["new waits 3 web-1"]), (40.0, ["new waits 3 web-1"])]
)
def test_a_pod_that_waits_hears_anew_every_10_s(since_s: float, said: list[str]) -> None:
    pod = waiting("new", claimed="web-1", count=2, noted_s=NOW_S - since_s)
    plan = planned(pod, ending("old", "web-1"), *OTHERS)
    assert texts(plan) == said
    assert plan.requeue_after_s == pytest.approx(10.0 if said else 10.0 - since_s)
    assert [(p.uid, step, slot) for p, step, slot in plan.waiting] == [("new", Step.WAIT, "web-1")]


def test_what_is_new_is_said_at_once() -> None:
    pod = waiting("new", claimed="web-1", count=2, noted_s=NOW_S)
    assert texts(planned(pod, over("old", "web-1"), *OTHERS)) == ["new has web-1 3"]


@pytest.mark.parametrize(
    ("since_s", "said"), [(0.0, []), (1.9, []), (2.0, ["new has web-1 8"]), (59.0, ["new has web-1 8"])]
)
def test_a_pod_that_does_not_begin_hears_of_its_slot_again(since_s: float, said: list[str]) -> None:
    at_s = NOW_S - since_s
    plan = planned(waiting("new", given="web-1", count=7, noted_s=at_s, since_s=at_s), *OTHERS)
    assert texts(plan) == said
    assert plan.requeue_after_s == pytest.approx(0.1 if said else max(0.1, 2.0 - since_s))
    assert plan.waiting == ()


@pytest.mark.parametrize(
    ("said_s", "since_s", "said"), [(2, 1.9, []), (8, 3.9, []), (8, 4.0, ["new has web-1 8"]), (40, 19.0, [])]
)
def test_a_pod_that_does_not_begin_hears_of_its_slot_ever_more_rarely(
    said_s: float, since_s: float, said: list[str]
) -> None:
    """After half of the time that has passed: hundreds of pods that begin slowly must not be hundreds of writes every 2 s."""
    at_s = NOW_S - since_s
    plan = planned(waiting("new", given="web-1", count=7, noted_s=at_s, since_s=at_s - said_s), *OTHERS)
    assert texts(plan) == said
    assert plan.requeue_after_s == pytest.approx(0.1 if said else max(2, said_s / 2) - since_s)


def test_a_pod_that_never_begins_hears_of_its_slot_for_a_minute() -> None:
    pod = waiting("new", given="web-1", count=37, noted_s=NOW_S - 2, since_s=NOW_S - 60)
    assert planned(pod, *OTHERS) == NOTHING


@pytest.mark.parametrize("state", [PodState.SUSPECT, PodState.DEAD])
def test_a_pod_that_is_gone_hears_nothing(state: PodState) -> None:
    assert planned(waiting("new", given="web-1", state=state), waiting("x", state=state), *OTHERS) == NOTHING


def test_a_pod_that_has_begun_hears_nothing() -> None:
    assert planned(slotted("a", given="web-1"), slotted("started without"), *OTHERS) == NOTHING


def test_a_pod_that_is_being_deleted_gets_no_slot() -> None:
    assert planned(waiting("new", is_deleting=True), over("old", "web-1"), *OTHERS) == NOTHING


def test_how_long_the_pod_has_waited_is_told_that_waits_longest() -> None:
    pods = (waiting("new", since_s=NOW_S - 40), waiting("newer", since_s=NOW_S - 7), waiting("has", given="web-9"))
    assert planned(*pods, *OTHERS).longest_wait_s == 40


# to whom nothing is said


def test_a_copy_that_no_replica_set_of_the_deployment_owns_gets_nothing() -> None:
    for owner in ("", "web", "api-6d4b75cb6d", "web-2-6d4b75cb6d", "web-a-b"):
        assert planned(waiting("copy", owner=owner), over("old", "web-1"), *OTHERS).notes == (), owner


def test_a_copy_takes_no_slot_away_from_a_pod_that_waits() -> None:
    copy = waiting("a copy", owner="", since_s=NOW_S - 900)
    assert texts(planned(copy, waiting("new"), ending("old", "web-1"), *OTHERS)) == ["new waits 1 web-1"]


def test_a_copy_that_has_started_without_an_id_makes_nobody_wait() -> None:
    assert own(planned(waiting("new"), slotted("copy", owner=""), *OTHERS))


def test_pods_of_another_static_group_get_nothing() -> None:
    assert planned(waiting("new", scope="77bb00aa"), *OTHERS) == NOTHING


def test_what_is_no_deployment_hands_out_nothing() -> None:
    assert planned(waiting("new"), view=workload(3)) == SlotPlan()
    assert planned(waiting("new"), view=None) == SlotPlan()


# what passes on


@pytest.mark.parametrize("changes", [{"watch": ""}, {"watch_no": WATCH_NO + 1}])
def test_while_the_watch_is_not_whole_or_is_another_one_no_slot_passes_on(changes: dict[str, object]) -> None:
    assert own(planned(waiting("new"), over("old", "web-1"), *OTHERS, **changes))
    after_claim = planned(waiting("new", claimed="web-1", count=0), over("old", "web-1"), *OTHERS, **changes)
    assert own(after_claim)


@pytest.mark.parametrize("old", [lost("old", "web-1"), ending("old", "web-1", ends_by_s=NOW_S - 31)])
def test_the_slot_of_a_lost_pod_passes_on_to_nobody(old: object) -> None:
    assert own(planned(waiting("new"), old, *OTHERS))  # type: ignore[arg-type]
    assert own(planned(waiting("new", claimed="web-1", count=0), old, *OTHERS))  # type: ignore[arg-type]


def test_a_slot_of_which_one_pod_is_lost_passes_on_to_nobody_though_another_has_ended() -> None:
    pods = (waiting("new", claimed="web-1", count=0), over("old", "web-1"), lost("older", "web-1"), *OTHERS)
    assert own(planned(*pods))


def test_of_two_pods_that_claim_one_slot_the_older_waits_for_it_and_the_other_gets_its_own() -> None:
    """As two operators may have written that both believed to lead; then the one that is left is given it."""
    older = waiting("z", claimed="web-1", count=1, since_s=NOW_S - 60, noted_s=NOW_S)
    younger = waiting("a", claimed="web-1", since_s=NOW_S - 10, noted_s=NOW_S)
    plan = planned(older, younger, over("old", "web-1"), *OTHERS)
    assert [n.pod.uid for n in plan.notes] == ["a"]
    assert own(plan)
    assert texts(planned(older, slotted("a", given="web-77"), over("old", "web-1"), *OTHERS)) == ["z has web-1 2"]


def test_slots_are_claimed_once_each_by_the_pods_that_wait_longest() -> None:
    pods = [waiting(uid, since_s=NOW_S - age) for uid, age in (("x", 10.0), ("y", 30.0), ("z", 20.0))]
    plan = planned(*pods, over("o1", "web-1"), ending("o2", "web-2"), view=deployment(5))
    assert texts(plan)[:2] == ["y waits 1 web-1", "z waits 1 web-2"]
    assert [n.step for n in plan.notes] == [Step.CLAIM, Step.CLAIM, Step.OWN]


# patience


def test_a_pod_is_patient_for_as_long_as_pods_of_the_deployment_may_take_to_start_and_to_end() -> None:
    budget = (ContainerBudget(name="app", startup_budget_s=20), ContainerBudget(name="side"))
    view = deployment(min_ready_s=7, containers=budget, termination_grace_s=60)
    full = (slotted("a", given="web-1", since_s=NOW_S - 5_000), slotted("b", given="web-2", since_s=NOW_S - 5_000))
    full = (*full, slotted("c", given="web-3", since_s=NOW_S - 5_000))
    patient, impatient = (waiting("new", since_s=NOW_S - s) for s in (386.9, 387.0))
    assert texts(planned(patient, *full, view=view)) == ["new waits 1 -"]
    assert own(planned(impatient, *full, view=view))


def test_it_waits_on_while_slots_of_the_deployment_change_hands() -> None:
    full = (slotted("a", given="web-1", since_s=NOW_S - 100), *OTHERS)
    assert texts(planned(waiting("new", since_s=NOW_S - 2_000), *full)) == ["new waits 1 -"]


def test_a_claim_that_is_fulfilled_after_all_is_given_however_long_it_took() -> None:
    pod = waiting("new", claimed="web-1", since_s=NOW_S - 9_000)
    assert texts(planned(pod, over("old", "web-1"), lost("x", "web-9"), view=deployment(1))) == ["new has web-1 1"]


# worth


@pytest.mark.parametrize("carriers", [(), ("old",), ("old", "older")])
def test_a_slot_passes_on_whose_member_is_in_the_group_and_whose_pods_are_going(carriers: tuple[str, ...]) -> None:
    members = holders(a1=carriers)
    pods = (waiting("new"), ending("old", "web-1"), over("older", "web-1"), *OTHERS)
    assert texts(planned(*pods, members=members)) == ["new waits 1 web-1"]


@pytest.mark.parametrize("carrier", [UNSEEN, UNATTRIBUTED, "b", "nobody knows", "lost"])
def test_a_slot_whose_member_may_be_of_another_pod_saves_no_rebalance(carrier: str) -> None:
    members = holders(a1=("old", carrier))
    pods = (waiting("new"), over("old", "web-1"), lost("lost", "web-4"), *OTHERS)
    assert own(planned(*pods, members=members))


def test_a_slot_whose_member_has_left_the_group_saves_no_rebalance() -> None:
    members = holders(a2=("b",))
    assert own(planned(waiting("new"), over("old", "web-1"), *OTHERS, members=members))


def test_a_member_that_was_not_described_yet_is_not_known_to_be_of_the_pod() -> None:
    assert own(planned(waiting("new"), over("old", "web-1"), *OTHERS, members=Members(watch=WATCH)))


def test_what_was_claimed_is_given_whatever_became_of_its_member() -> None:
    members = holders(a2=("b",))
    pods = (waiting("new", claimed="web-1"), over("old", "web-1"), *OTHERS)
    assert texts(planned(*pods, members=members)) == ["new has web-1 1"]


def test_members_count_under_the_watch_that_saw_their_pods_or_by_which_they_were_described_last() -> None:
    """After a restore of etcd a pod that ends may have had a successor that is not to be seen any more."""
    members = holders(a1=("old",))
    pods = (waiting("new"), over("old", "web-1"), *OTHERS)
    assert texts(planned(*pods, members=members)) == ["new waits 1 web-1"]
    described = replace(members, watch="another", watch_described=WATCH)
    assert texts(planned(*pods, members=described)) == ["new waits 1 web-1"]
    assert own(planned(*pods, members=replace(members, watch="another")))
    assert own(planned(*pods, members=replace(members, watch=""), watch=""))


# obstacles


def test_where_notes_are_fenced_and_kubelets_read_files_nothing_stands_in_the_way() -> None:
    assert slot_obstacle(DEPLOYMENT, NODE, is_fence_served=True) == ""
    assert slot_obstacle(DEPLOYMENT, replace(NODE, kubelet_minor=FILES_MINOR), is_fence_served=True) == ""


def test_what_is_not_served_is_said_before_all_else() -> None:
    assert slot_obstacle(DEPLOYMENT, None, is_fence_served=False) == (
        "Deployments are not served here; set chart value workloads.deployments to true"
    )
    assert slot_obstacle(ARGO_ROLLOUT, None, is_fence_served=False) == (
        "Rollouts are not served here; set chart value workloads.argoRollouts to true"
    )


@pytest.mark.parametrize(
    ("node", "parts"),
    [
        (None, ["no Node can be read"]),
        (replace(NODE, kubelet_version="v1.34.2", kubelet_minor=34), ["node n1 runs kubelet v1.34.2", "needs 1.35"]),
        (replace(NODE, kubelet_version="odd", kubelet_minor=None), ["node n1 runs kubelet odd", "needs 1.35"]),
        (replace(NODE, is_virtual=True), ["node n1 is virtual"]),
    ],
)
def test_an_old_kubelet_is_named(node: NodeView | None, parts: list[str]) -> None:
    found = slot_obstacle(DEPLOYMENT, node, is_fence_served=True)
    assert [part for part in parts if part not in found] == []
    assert not found.endswith(".")
