"""`explain` names every member's state, the evidence, and the guard that holds a removal."""

from __future__ import annotations

from dataclasses import replace

from staticgroup.core.evidence.machines import Fleet
from staticgroup.core.evidence.nodes import NodeRules
from staticgroup.core.evidence.spans import EVERY_ORDINAL, BlindSpan, SpanReason

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, RemovalRecord, SeatMemory, Snapshot
from staticgroup.runtime.commands.explanation import explained, sweeps
from support.bounds import broker_bounds
from support.recommendations import advice
from unit.core.builders import (
    COORDINATOR,
    NOW_S,
    checkpoint,
    departure,
    group,
    history,
    id_of,
    incarnation,
    member,
    spec,
)
from unit.core.test_machines import record

DEAD, SUSPECT = IncarnationState.DEAD, IncarnationState.SUSPECT


def words(snapshot: Snapshot, memory: History | None = None, wish: StaticGroupSpec | None = None) -> str:
    wish = wish or spec()
    return explained(wish, snapshot, plan(wish, snapshot, memory or history(), NOW_S), NOW_S)


def test_removal_is_told_with_its_evidence() -> None:
    text = words(departure())
    assert f"{id_of(2)}: Departed, held by member m2." in text
    assert "pod web-2 uid u2: Dead for 5 s; E1: phase Succeeded" in text
    assert f"Plan: {id_of(2)} is removed: 1 of 1 incarnations proven dead." in text


def test_held_removal_is_told_with_its_guard_and_the_suspect() -> None:
    world = departure(
        chains={
            id_of(2): (incarnation(state=DEAD), incarnation(uid="u9", state=SUSPECT, refusal="its object vanished"))
        }
    )
    text = words(world)
    assert "pod web-2 uid u9: Suspect for 5 s; its object vanished" in text
    assert f"Held: {id_of(2)} (DeathNotProven): pod shop/web-2 (uid u9) on node n1 is a suspect" in text
    assert "is removed" not in text


def test_pod_that_still_runs_is_told_apart_from_a_death_that_is_not_proven() -> None:
    text = words(departure(chains={id_of(2): (incarnation(refusal="phase is Running, not Succeeded or Failed"),)}))
    assert f"Held: {id_of(2)} (PodStillRunning)" in text


def test_observe_says_would() -> None:
    assert "would be removed (mode Observe)" in words(departure(), wish=spec(mode="Observe"))


def test_gap_and_conflict_are_told_before_the_members() -> None:
    known = checkpoint().blinded(SpanReason.WATCH_GAP, since_s=NOW_S - 60, until_s=NOW_S)
    text = words(departure(continuity=known, overlaps=("shop/twin",)))
    assert "it is not known which pods had the ids of ordinals 0 and above from 20" in text
    assert "(WatchGap); what to do: staticgroup confirm-gap --list" in text
    assert "Ready: False (ConflictingStaticGroups). StaticGroup shop/twin may issue the same ids" in text


def test_missing_away_foreign_and_dynamic_members_are_each_told() -> None:
    others = (MemberView(member_id="x", instance_id="other-0"), MemberView(member_id="y", instance_id=None))
    world = departure(pods=(incarnation(0, "u0"), incarnation(1, "u1", ready_since_s=None)), group=group(*others))
    text = words(world, history(seats={id_of(1): SeatMemory(absent_since_s=NOW_S - 300)}))
    assert f"{id_of(0)}: Missing." in text
    assert f"{id_of(1)}: Overdue." in text
    assert f"Missing: {id_of(0)} (ReadyButNotJoined): the pod is Ready but its member is not in the group; members without group.instance.id are" in text
    assert "Foreign: other-0 (NotIssuedHere): a static member whose id this StaticGroup never issued" in text
    assert "Dynamic: the group (NoInstanceId): member y has no group.instance.id" in text


def test_unreadable_group_is_told_with_its_cause() -> None:
    text = words(departure(group=KafkaProblem(kind=KafkaProblemKind.TLS_FAILED, message="check spec.tls")))
    assert "Group orders: not readable (TlsHandshakeFailed)." in text
    assert "Connected: False (TlsFailed). check spec.tls" in text


def test_missing_workload_and_first_round_are_told() -> None:
    text = words(replace(departure(), workload=None, watch_epoch="", group=group(member(0))), History())
    assert "StatefulSet web does not exist" in text
    assert "no id has been issued yet" in text


def test_verification_is_told_with_its_attempt() -> None:
    record = RemovalRecord(
        instance_id=id_of(2), member_id="m2", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - 1, attempts=2
    )
    text = words(departure(group=group(member(0), member(1), state="PreparingRebalance")), history(removals=(record,)))
    assert f"Verifying: {id_of(2)} was removed, attempt 2; not yet seen to last." in text


def test_recommendation_is_told_with_what_became_of_it() -> None:
    text = words(replace(departure(), advice=advice()))
    assert "Session timeout: 110 s; the next pods get 60 s (Fleet, Fleet): the fleet learner's: 312 restarts are behind it" in text
    assert "RecommendationCurrent: True (RecommendationUsed)." in text
    assert "60000 ms from 312 stops" in text
    assert "Recommendation" not in words(departure())


def test_what_is_to_be_set_on_a_group_is_told_with_why() -> None:
    bounds = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000)
    group_of = group(member(0), member(1), group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5)
    snapshot = departure(group=group_of, bounds=bounds)
    text = words(snapshot, wish=spec(protocol="Consumer", sessionTimeout={"writeGroupConfig": True}))
    assert "To be set on the group: consumer.session.timeout.ms=115000." in text
    assert "(Structural, Structural): 75000 ms is the estimate from the pod template; no absence was measured yet." in text


def test_what_the_node_of_a_suspect_owes_is_told() -> None:
    owing = incarnation(uid="u9", state=SUSPECT, refusal="its object vanished", owed="node n1 has to become Ready (since today)")
    text = words(departure(chains={id_of(2): (incarnation(state=DEAD), owing)}))
    assert "its object vanished; node n1 has to become Ready (since today)" in text


def test_each_blind_span_is_told_with_the_nodes_to_sweep_or_why_none_can() -> None:
    span = BlindSpan(ordinals=EVERY_ORDINAL, since_s=NOW_S - 100, until_s=NOW_S - 50, reason=SpanReason.WATCH_GAP.value)
    many = {f"n{n}": replace(record(), name=f"n{n}", created_at_s=NOW_S - 9000) for n in range(12)}
    fleet = Fleet(records=many, unbroken_since_s=0.0, is_listed=True)
    asking = NodeRules(asks_runtime=True)

    def told(of: BlindSpan, rules: NodeRules, among: Fleet = fleet) -> str:
        return "\n".join(sweeps((of,), among, rules))

    assert "every one of these 12 nodes has to show that it runs no such pod: n0, n1, n10, n11, " in told(span, asking)
    assert told(span, asking).endswith(" and 2 more.")
    assert "because no container runtime may be asked" in told(span, NodeRules())
    assert "because nodes may have come and gone unseen" in told(span, asking, replace(fleet, unbroken_since_s=NOW_S))
    assert "no node can show" in told(replace(span, reason=SpanReason.RESTORED.value), asking)
