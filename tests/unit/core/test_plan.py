"""One plan per round: who is removed, who is held, and by which guard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.spans import SpanReason
from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.guards import Guard
from staticgroup.core.plan import Plan
from staticgroup.core.snapshot import EPOCH_UNKNOWN, History, RemovalRecord

from .builders import (
    EPOCH,
    NOW_S,
    checkpoint,
    departure,
    fresh,
    group,
    history,
    id_of,
    incarnation,
    injected,
    member,
    workload,
)
from .plans import DEAD, SUSPECT, acknowledged, only_guard, planned, removed


def test_departed_member_with_a_proven_chain_is_removed_by_the_pair_that_was_described() -> None:
    decided = planned()
    assert removed(decided) == {("m2", id_of(2))}
    assert decided.held == ()


def test_the_reason_given_to_the_broker_names_the_staticgroup_and_the_ordinal() -> None:
    (action,) = planned().actions
    assert action.removals[0].entry.reason.startswith("staticgroup shop/orders: scaled to 0..1")
    assert "ordinal 2" in action.removals[0].entry.reason


def test_status_of_the_workload_may_be_a_moment_behind_an_end_that_was_seen() -> None:
    """In a parallel scale-down one pod's end is known while the StatefulSet still counts another that is gone."""
    gone = incarnation(state=DEAD)
    behind = workload(2, status_replicas=3)
    assert planned(departure(workload=behind, known=(gone,))).actions
    long_ago = replace(gone, since_s=NOW_S - 60)
    assert [h.reason for h in planned(departure(workload=behind, known=(long_ago,))).held] == [Guard.PODS_UNSEEN]


def test_nothing_departed_means_an_empty_plan() -> None:
    decided = planned(departure(workload=workload(3), group=group(member(0), member(1), member(2))))
    assert decided.actions == ()
    assert decided.held == ()


@pytest.mark.parametrize(
    ("changes", "guard"),
    [
        ({"chains": {}}, Guard.CHAIN),
        ({"chains": {id_of(2): (incarnation(),)}}, Guard.POD_ENDING),
        ({"chains": {id_of(2): (incarnation(instance_ids=frozenset({"web-2.x"})),)}}, Guard.NAMESAKE),
        ({"chains": {id_of(2): (incarnation(state=DEAD), incarnation(uid="z", state=SUSPECT))}}, Guard.CHAIN),
        ({"watch_epoch": "another"}, Guard.GAP),
        ({"watch_epoch": ""}, Guard.GAP),
        ({"continuity": None}, Guard.GAP),
        ({"continuity": checkpoint().blinded(SpanReason.WATCH_GAP, since_s=0, until_s=1)}, Guard.GAP),
        ({"fresh": {}}, Guard.NOT_READ_AFRESH),
        ({"fresh": {id_of(2): fresh(is_expected=True)}}, Guard.EXPECTED),
        ({"fresh": {id_of(2): fresh(objects=(("web-2", "u9"),))}}, Guard.POD_PRESENT),
        ({"fresh": {id_of(2): fresh(objects=(("web-2", "u2"), ("web-21", "u9")))}}, Guard.POD_PRESENT),
        ({"fresh": {id_of(2): fresh(barrier_passed=False)}}, Guard.NO_BARRIER),
        ({"fresh": {id_of(2): fresh(unfollowed="team-a")}}, Guard.NO_BARRIER),
        ({"overlaps": ("shop/twin",)}, Guard.CONFLICT),
        ({"group": group(member(0), member(2), member(2, "m2b"))}, None),
        ({"pods": (), "workload": workload(2, status_replicas=2)}, Guard.PODS_UNSEEN),
        ({"workload": workload(2, status_replicas=3)}, Guard.PODS_UNSEEN),
    ],
    ids=[
        "never seen",
        "alive",
        "alive with another id",
        "suspect",
        "gap",
        "not anchored",
        "histories unknown",
        "blind",
        "not read",
        "wanted again",
        "pod there",
        "pod of another of its names there",
        "no barrier",
        "a namespace that is to be followed is there again",
        "overlap",
        "duplicate",
        "no pod seen",
        "one pod unseen",
    ],
)
def test_each_doubt_holds_the_removal_under_its_own_name(changes: dict[str, object], guard: Guard | None) -> None:
    decided = planned(departure(**changes))
    assert not decided.actions
    assert {h.reason for h in decided.held} == {guard or Guard.DUPLICATE}


def test_certified_pod_object_that_still_exists_does_not_hold() -> None:
    """The removal happens at the terminal phase; the object goes half a second later."""
    assert removed(planned(departure(fresh={id_of(2): fresh(objects=(("web-2", "u2"),))}))) == {("m2", id_of(2))}


RULED_OUT = incarnation(
    uid="n2", instance_ids=frozenset({"web-2.x.3fa9c1d2"}), resource_version=500, from_birth=True, ids_are_fixed=True
)
RENAMED = {
    "chains": {id_of(2): (incarnation(state=DEAD), RULED_OUT)},
    "fresh": {id_of(2): fresh(objects=(("web-2", "n2"),))},
    "workload": workload(3),
    "pods": (incarnation(0, "u0"), incarnation(1, "u1"), RULED_OUT),
    "group": group(*(member(n, f"n{n}", instance_id=f"web-{n}.x.3fa9c1d2") for n in range(3)), member(2)),
}
"""Ordinal 2 is wanted, its pod was rolled after a change of template and carries only the new id, for good."""


def renamed(removals: tuple[RemovalRecord, ...] = (), **changes: object) -> Plan:
    """The plan for the old id of ordinal 2."""
    memory = history(
        injected=injected(id_template="{podName}.x.3fa9c1d2"), templates=("{podName}.3fa9c1d2",), removals=removals
    )
    return planned(departure(**(RENAMED | changes)), memory, identity={"template": "{podName}.x.{scope}"})


def test_old_id_leaves_beside_a_live_pod_that_can_never_hold_it() -> None:
    decided = renamed()
    assert removed(decided) == {("m2", id_of(2))}
    (action,) = decided.actions
    assert "ordinal 2 has another id" in action.removals[0].entry.reason


@pytest.mark.parametrize("lacking", [{"from_birth": False}, {"ids_are_fixed": False}], ids=["birth", "fixed ids"])
def test_old_id_stays_beside_a_live_pod_that_may_hold_it_yet(lacking: dict[str, bool]) -> None:
    chain = (incarnation(state=DEAD), replace(RULED_OUT, **lacking))
    assert only_guard(renamed(chains={id_of(2): chain})) is Guard.NAMESAKE


def test_pod_read_afresh_that_the_chain_does_not_rule_out_holds_the_old_id() -> None:
    """A successor that the watch has not shown yet may carry anything."""
    assert only_guard(renamed(fresh={id_of(2): fresh(objects=(("web-2", "n3"),))})) is Guard.POD_PRESENT


def test_who_joins_again_under_a_removed_id_is_a_zombie_also_beside_a_new_pod_that_is_ruled_out() -> None:
    """The new pod cannot be who joined, so it is no reason to remove again."""
    assert only_guard(renamed(removals=(acknowledged(member_id="m0"),))) is Guard.ZOMBIE


def test_unscoped_id_is_removed_only_on_the_users_word() -> None:
    unscoped = injected(id_template="{podName}")
    ids = {"web-2"}
    snapshot = departure(
        group=group(MemberView(member_id="m2", instance_id="web-2")),
        chains={"web-2": (incarnation(state=DEAD, instance_ids=frozenset(ids)),)},
        fresh={"web-2": fresh()},
    )
    template = {"template": "{podName}"}
    assert only_guard(planned(snapshot, history(injected=unscoped), identity=template)) is Guard.UNSCOPED
    assert removed(planned(snapshot, history(injected=unscoped), identity=template | {"exclusive": True})) == {
        ("m2", "web-2")
    }


def test_foreign_and_dynamic_members_are_counted_and_never_candidates() -> None:
    others = (
        MemberView(member_id="x", instance_id="web-2.deadbeef"),
        MemberView(member_id="y", instance_id="db-0"),
        MemberView(member_id="z", instance_id=None),
    )
    decided = planned(departure(group=group(member(0), member(1), *others)))
    assert decided.actions == ()
    assert decided.held == ()
    assert decided.table is not None
    assert (len(decided.table.foreign), len(decided.table.dynamic)) == (2, 1)


def test_group_that_could_not_be_read_plans_nothing() -> None:
    problem = KafkaProblem(kind=KafkaProblemKind.NOT_AUTHORIZED, message="DESCRIBE on Group 'orders' is missing")
    decided = planned(departure(group=problem))
    assert decided.actions == ()
    assert decided.table is None


@pytest.mark.parametrize("kind", [GroupType.STREAMS, GroupType.SHARE])
def test_group_types_that_leavegroup_does_not_serve_are_held(kind: GroupType) -> None:
    assert only_guard(planned(departure(group=group(member(2), group_type=kind)))) is Guard.UNSUPPORTED_GROUP


def test_suspend_and_policy_never_hold() -> None:
    assert only_guard(planned(suspend=True)) is Guard.SUSPENDED
    assert only_guard(planned(removal={"policy": "Never"})) is Guard.POLICY_NEVER


def test_hold_window_counts_from_the_first_round_that_saw_the_departure() -> None:
    first = planned(removal={"holdSeconds": 30})
    assert only_guard(first) is Guard.HOLD_WINDOW
    assert first.requeue_after_s <= 30
    assert removed(planned(memory=first.history, now_s=NOW_S + 31, removal={"holdSeconds": 30})) == {("m2", id_of(2))}


def test_missing_workload_waits_for_its_recreation_before_anything_is_removed() -> None:
    gone = departure(workload=None)
    first = planned(gone)
    assert only_guard_all(first) == {Guard.HOLD_WINDOW, Guard.CHAIN}
    later = planned(gone, first.history, NOW_S + 61)
    assert ("m2", id_of(2)) in removed(later)


def only_guard_all(decided: Plan) -> set[Guard]:
    assert not decided.actions
    return {h.reason for h in decided.held}


def test_budget_lets_at_least_one_go_and_the_rest_wait_their_turn() -> None:
    ids = range(2, 6)
    snapshot = departure(
        group=group(member(0), member(1), *(member(n) for n in ids)),
        chains={id_of(n): (incarnation(n, f"u{n}", DEAD),) for n in ids},
        fresh={id_of(n): fresh() for n in ids},
    )
    decided = planned(snapshot, removal={"maxPercentOfGroup": 1})
    assert len(removed(decided)) == 1
    assert {h.reason for h in decided.held} == {Guard.BUDGET}
    assert len(removed(planned(snapshot))) == 4


def test_batch_removes_all_departed_members_in_one_action() -> None:
    snapshot = departure(
        workload=workload(0, status_replicas=0),
        pods=(),
        group=group(member(0), member(1)),
        chains={id_of(n): (incarnation(n, f"u{n}", DEAD),) for n in (0, 1)},
        fresh={id_of(n): fresh() for n in (0, 1)},
    )
    (action,) = planned(snapshot).actions
    assert len(action.removals) == 2


# identity and injection -----------------------------------------------------------------------------------------


def test_no_id_is_issued_before_the_pod_watch_is_anchored() -> None:
    decided = planned(departure(watch_epoch="", group=group()), History())
    assert decided.injection is not None
    assert decided.injection.injected is None


def test_first_acknowledgement_fixes_scope_and_watch_epoch() -> None:
    first = planned(departure(group=group()), History()).history
    assert first.injected is not None
    assert first.injected.watch_epoch == EPOCH
    assert len(first.injected.scope) == 8
    later = planned(departure(watch_epoch="after-a-gap", group=group()), first).history
    assert later.injected is not None
    assert (later.injected.scope, later.injected.watch_epoch) == (first.injected.scope, EPOCH)


def test_scope_differs_for_a_recreated_staticgroup_of_the_same_name() -> None:
    scopes = {planned(departure(uid=uid, group=group()), History()).history.injected.scope for uid in ("sg-1", "sg-2")}
    assert len(scopes) == 2


def test_observe_issues_nothing_and_keeps_the_epoch_of_the_acknowledgement_all_the_same() -> None:
    """The scope can be read in the status from then on, so ids may be set by hand."""
    first = planned(departure(group=group()), History(), mode="Observe")
    assert not first.history.issued_ordinals
    managed = planned(departure(watch_epoch="new", group=group()), first.history)
    assert managed.history.injected is not None
    assert managed.history.injected.watch_epoch == EPOCH


def test_ids_that_are_carried_before_their_acknowledgement_have_no_known_beginning() -> None:
    """The memory was lost: a member or a pod with the scope proves that it was issued before."""
    innocent = planned(departure(group=group()), History()).history.injected
    assert innocent is not None
    carried = f"web-9.{innocent.scope}"
    for lost in (
        departure(group=group(MemberView(member_id="m", instance_id=carried))),
        departure(group=group(), known=(incarnation(9, state=DEAD, instance_ids=frozenset({carried})),)),
        departure(group=group(), known=(incarnation(9, instance_ids=frozenset({f"{carried}-1"})),)),
    ):
        found = planned(lost, History()).history.injected
        assert found is not None
        assert found.watch_epoch == EPOCH_UNKNOWN


def test_edited_template_keeps_the_earlier_ids_as_ours() -> None:
    edited = {"template": "{workloadName}.{ordinal}.{scope}"}
    decided = planned(departure(fresh={id_of(2): fresh()}), identity=edited)
    assert decided.naming is not None
    assert decided.naming.ordinal_of(id_of(2)) == 2
    assert decided.naming.schemes[0].ordinal_of(id_of(2)) is None


def test_streams_threads_of_a_departed_pod_are_removed_together() -> None:
    identity = {"suffix": "Streams", "membersPerPod": 2}
    threads = [f"{id_of(2)}-{n}" for n in (1, 2)]
    dead = incarnation(state=DEAD, instance_ids=frozenset({id_of(2), *threads}))
    snapshot = departure(
        group=group(*(MemberView(member_id=f"m-{t}", instance_id=t) for t in threads)),
        chains=dict.fromkeys(threads, (dead,)),
        fresh={t: fresh() for t in threads},
    )
    assert {i for _, i in removed(planned(snapshot, identity=identity))} == set(threads)


def test_kip_848_groups_get_no_session_timeout_injected() -> None:
    """Clients with group.protocol=consumer refuse to start with session.timeout.ms (ConsumerConfig)."""
    consumer = group(member(0, member_epoch=3), group_type=GroupType.CONSUMER, group_epoch=3, assignment_epoch=3)
    decided = planned(departure(group=consumer), protocol="Consumer")
    assert decided.history.injected is not None
    assert decided.history.injected.session_timeout_ms is None
