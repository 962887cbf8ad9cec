"""`explain` names every member's state, who was there when it joined, and the guard that holds a removal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.consuming import SETTLED_S
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, RemovalRecord, SeatMemory, Snapshot, UnreadTopics
from support.bounds import broker_bounds
from support.recommendations import advice
from unit.core.builders import (
    COORDINATOR,
    NOW_S,
    SCOPE,
    WATCH,
    departure,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
)
from unit.core.crashed_members import crash, remembered

DEAD, SUSPECT = PodState.DEAD, PodState.SUSPECT


def words(snapshot: Snapshot, memory: History | None = None, wish: StaticGroupSpec | None = None) -> str:
    wish = wish or spec()
    return explained(wish, snapshot, plan(wish, snapshot, memory or history(), NOW_S), NOW_S)


def test_removal_is_shown_with_its_evidence() -> None:
    text = words(departure())
    assert f"{id_of(2)}: Departed, held by member m2." in text
    assert "pod web-2 uid u2: Ended for 5 s; phase Succeeded" in text
    assert f"Plan: the operator removes {id_of(2)}: pod web-2 uid u2 has ended: phase Succeeded" in text


def test_held_removal_is_shown_with_its_guard_and_the_carrier_that_is_left() -> None:
    world = departure(
        chains={id_of(2): (known_pod(state=DEAD), known_pod(uid="u9", state=SUSPECT, refusal="its object vanished"))}
    )
    text = words(world, history(members=members({2: ("u2", "u9")})))
    assert "pod web-2 uid u9: Suspect for 5 s; its object vanished" in text
    assert "left of those that were there when it joined: u9" in text
    assert f"Held: {id_of(2)} (Suspect): pod web-2 (uid u9) on node n1 was there when it joined, and its end was not seen" in text
    assert "Plan: " not in text


def test_pod_that_still_runs_is_shown_apart_from_a_death_that_is_not_proven() -> None:
    living = (known_pod(refusal="phase is Running, not Succeeded or Failed"),)
    text = words(departure(chains={id_of(2): living}, sight=sight(ended=frozenset())))
    assert f"Held: {id_of(2)} (PodStillRunning)" in text


def test_rebalance_is_no_plan_without_anything_to_do() -> None:
    world = departure(group=group(member(0), member(1), assignor="range", topics=(("payments", 0),)), partitions={"payments": 6})
    unread = UnreadTopics(topics=("payments",), since_s=NOW_S - 90, rest_since_s=NOW_S - SETTLED_S)
    text = words(world, history(unread=unread))
    assert "Plan: group orders is rebalanced once for payments." in text
    assert "nothing to remove" not in text
    assert "nothing to remove" in words(world)


def test_release_is_no_plan_without_anything_to_do() -> None:
    wish = spec(groupProtocol="Auto", removal="DepartedAndCrashed")
    text = words(crash(), remembered(), wish)
    assert f"Plan: the crashed member of {id_of(0)} leaves until it restarts: " in text
    assert "nothing to remove" not in text


def test_ids_that_nobody_injects_are_not_injected_by_none() -> None:
    assert f"Identity: {{podName}}.{SCOPE}, not injected; " in words(departure(), wish=spec(mode="Observe"))
    assert f"Identity: {{podName}}.{SCOPE}, injected by Policy; " in words(departure())


def test_observe_says_would() -> None:
    assert f"Plan: in mode Manage the operator would remove {id_of(2)}: " in words(departure(), wish=spec(mode="Observe"))


def test_conflict_is_shown_before_the_members() -> None:
    text = words(departure(overlaps=("shop/twin",)))
    assert "Ready: False (ConflictingStaticGroups). StaticGroup shop/twin may issue the same ids" in text


@pytest.mark.parametrize(
    ("watch", "remembered", "sentence"),
    [
        ("", WATCH, "the pod watch is not complete now, so nobody is removed"),
        (WATCH, WATCH, "the pod watch has seen every pod that can join"),
        (WATCH, "", "members that joined before the pod watch was complete stay until their session expires or their pod restarts"),
    ],
)
def test_watch_is_described_by_what_may_have_come_and_gone_unseen(watch: str, remembered: str, sentence: str) -> None:
    young = sight(watch=watch)
    text = words(departure(watch=watch, sight=young), history(members=members(watch=remembered)))
    assert f"; {sentence}." in text


def test_missing_away_foreign_and_dynamic_members_are_each_shown() -> None:
    others = (MemberView(member_id="x", instance_id="other-0"), MemberView(member_id="y", instance_id=None))
    world = departure(pods=(known_pod(0, "u0"), known_pod(1, "u1", ready_since_s=None)), group=group(*others))
    text = words(world, history(seats={id_of(1): SeatMemory(absent_since_s=NOW_S - 300)}))
    assert f"{id_of(0)}: Missing." in text
    assert f"{id_of(1)}: Overdue." in text
    assert f"Missing: {id_of(0)} (ReadyButNotJoined): the pod is Ready but its member is not in the group; members without group.instance.id are" in text
    assert "Foreign: other-0 (NotIssuedHere): a static member whose id this StaticGroup never issued" in text
    assert "Dynamic: the group (NoInstanceId): member y has no group.instance.id" in text


def test_unreadable_group_is_shown_with_its_cause() -> None:
    text = words(departure(group=KafkaProblem(kind=KafkaProblemKind.TLS_FAILED, message="check spec.tls")))
    assert "Group orders: not readable (TlsFailed)." in text
    assert "Connected: False (TlsFailed). check spec.tls" in text


def test_missing_workload_and_first_round_are_shown() -> None:
    text = words(replace(departure(), workload=None, watch="", group=group(member(0))), History())
    assert "StatefulSet web does not exist" in text
    assert "no id has been issued yet" in text


def test_verification_is_shown_with_its_attempt() -> None:
    record = RemovalRecord(
        instance_id=id_of(2), member_id="m2", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - 1, attempts=2
    )
    text = words(departure(group=group(member(0), member(1), state="PreparingRebalance")), history(removals=(record,)))
    assert f"Verifying: {id_of(2)} was removed, attempt 2; not yet seen to last." in text


def test_recommendation_is_shown_with_what_became_of_it() -> None:
    text = words(replace(departure(), advice=advice()))
    assert "Session timeout: 110 s; the next pods get 60 s (Fleet, Fleet): the fleet learner's: 312 restarts are behind it" in text
    assert "RecommendationCurrent: True (RecommendationUsed)." in text
    assert "60000 ms from 312 stops" in text
    assert "Recommendation" not in words(departure())


def test_what_is_to_be_set_on_a_group_is_shown_with_why() -> None:
    bounds = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000)
    group_of = group(member(0), member(1), group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5)
    snapshot = departure(group=group_of, bounds=bounds)
    text = words(snapshot, wish=spec(groupProtocol="Consumer", sessionTimeout={"writeGroupConfig": True}))
    assert "To be set on the group: consumer.session.timeout.ms=115000." in text
    assert "(Structural, Structural): 75000 ms is the estimate from the pod template; no absence was measured yet." in text
