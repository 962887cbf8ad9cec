"""One plan per round: removals, holds, and the guard of each hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.guards import Guard
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.members.memory import Members
from staticgroup.core.plan import Plan
from staticgroup.core.snapshot import History
from unit.core.plans import present

from .builders import (
    NOW_S,
    WATCH,
    attributed,
    departure,
    fresh,
    going,
    group,
    history,
    id_of,
    injected,
    known_pod,
    member,
    members,
    sight,
    suspect,
    workload,
)
from .plans import DEAD, SUSPECT, only_guard, planned, removed


def test_departed_member_whose_carriers_have_all_ended_is_removed_by_the_pair_that_was_described() -> None:
    decided = planned()
    assert removed(decided) == {("m2", id_of(2))}
    assert decided.held == ()


def test_the_reason_given_to_the_broker_names_the_staticgroup_and_the_ordinal() -> None:
    (action,) = planned().actions
    assert action.removals[0].entry.reason.startswith("staticgroup shop/orders: scaled to 0..1")
    assert "ordinal 2" in action.removals[0].entry.reason


def test_status_of_the_workload_may_be_a_moment_behind_an_end_that_was_seen() -> None:
    """In a parallel scale-down one pod's end is known while the StatefulSet still counts another that is gone."""
    gone = known_pod(state=DEAD)
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
        ({"fresh": {}}, Guard.NOT_READ_AFRESH),
        ({"fresh": {id_of(2): fresh(is_expected=True)}}, Guard.EXPECTED),
        ({"fresh": {id_of(2): fresh(objects=(("web-2", "u9"),))}}, Guard.POD_ENDING),
        ({"fresh": {id_of(2): fresh(objects=(("web-2", "u2"), ("web-21", "u9")))}}, Guard.POD_ENDING),
        ({"fresh": {id_of(2): fresh(barrier_passed=False)}}, Guard.NO_BARRIER),
        ({"overlaps": ("shop/twin",)}, Guard.CONFLICT),
        ({"group": group(member(0), member(2), member(2, "m2b"))}, Guard.DUPLICATE),
        ({"pods": (), "workload": workload(2, status_replicas=2)}, Guard.PODS_UNSEEN),
        ({"workload": workload(2, status_replicas=3)}, Guard.PODS_UNSEEN),
    ],
    ids=[
        "not read", "wanted again", "pod there", "pod of another of its names there", "no barrier", "overlap",
        "duplicate", "no pod seen", "one pod unseen",
    ],
)
def test_each_doubt_of_this_round_holds_the_removal_under_its_own_name(
    changes: dict[str, object], guard: Guard
) -> None:
    decided = planned(departure(**changes))
    assert not decided.actions
    assert {h.reason for h in decided.held} == {guard}


LIVING = {"sight": sight(ended=frozenset()), "chains": {id_of(2): (known_pod(),)}}
"""Nobody has ended; web-2 is still there, and its seat is not wanted any more."""


@pytest.mark.parametrize(
    ("remembered", "changes", "guard"),
    [
        (members({2: ["u2", "z"]}), {}, Guard.SUSPECT),
        (members({2: ["u2", "z"]}, suspects=(suspect("z"),)), {}, Guard.SUSPECT),
        (members(), LIVING, Guard.POD_ENDING),
        (members(), LIVING | {"chains": {id_of(2): (known_pod(has_lost_run=True),)}}, Guard.SUSPECT),
        (members(), LIVING | {"chains": {id_of(2): (known_pod(state=SUSPECT),)}}, Guard.SUSPECT),
        (members({2: [UNSEEN]}), {}, Guard.JOINED_BEFORE_WATCH),
        (members({2: [UNSEEN, "z"]}), {}, Guard.SUSPECT),
        (members({2: [UNATTRIBUTED]}), {}, Guard.UNATTRIBUTED),
        (members(attributions={}), {"sight": sight(has_passed=False)}, Guard.NO_BARRIER),
        (members(attributions={}), {"sight": sight(watch="")}, Guard.NO_BARRIER),
        (
            members(attributions={id_of(2): attributed("m2-before")}), {"sight": sight(has_passed=False)},
            Guard.NO_BARRIER,
        ),
        (members(attributions={}), {"sight": None}, Guard.NO_BARRIER),
        (members(attributions={}, watch="before"), {}, Guard.JOINED_BEFORE_WATCH),
        (members(attributions={}), {}, Guard.UNATTRIBUTED),
    ],
    ids=[
        "a pod of which nothing is known", "suspect", "alive", "a run was lost", "vanished", "unseen",
        "unseen and suspect", "unattributed", "described without a barrier behind it", "watch not whole",
        "another member was described", "pods were not looked at", "watch young", "nobody ended",
    ],
)
def test_member_stays_while_a_pod_that_was_there_when_it_joined_may_live(
    remembered: Members, changes: dict[str, object], guard: Guard
) -> None:
    decided = planned(departure(**changes), history(members=remembered))
    assert not decided.actions
    held = {h.reason for h in decided.held}
    assert held == {guard}


def test_a_suspect_is_named_with_the_node_that_it_was_lost_on() -> None:
    decided = planned(memory=history(members=members({2: ["z"]}, suspects=(suspect("z", node_name="n7"),))))
    (found,) = decided.held
    assert found.sentence == "pod web-2 (uid z) on node n7 was there when it joined, and its end was not seen"
    assert found.remedy == "the member leaves when its session expires"


def test_a_live_carrier_is_named_before_a_suspect_and_says_why_it_has_not_ended() -> None:
    pod = known_pod(refusal="phase is Running, not Succeeded or Failed")
    decided = planned(
        departure(**(LIVING | {"chains": {id_of(2): (pod,)}})),
        history(members=members({2: ["a", "u2"]}, suspects=(suspect("a"),))),
    )
    (found,) = decided.held
    assert found.reason == Guard.POD_ENDING
    assert (
        found.sentence
        == "pod shop/web-2 was there when it joined, and has not ended: phase is Running, not Succeeded or Failed"
    )


def test_member_that_joined_after_its_pod_had_ended_is_dead() -> None:
    """Its first description comes late: by then its pod has its certificate, and no other one carries the id."""
    late = sight(ends=1, last_end={id_of(2): 1})
    assert removed(planned(departure(sight=late), history(members=members(attributions={})))) == {("m2", id_of(2))}


def test_what_is_learnt_of_pods_is_remembered_while_the_group_cannot_be_read() -> None:
    problem = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answers")
    lost = sight(suspects=(suspect("z"),))
    after = planned(departure(group=problem, sight=lost)).history.members
    assert [s.uid for s in after.suspects] == ["z"]
    assert after.attributions[id_of(2)].carriers == frozenset()


def test_what_is_learnt_of_pods_is_remembered_while_the_workload_cannot_be_read() -> None:
    lost = sight(suspects=(suspect("z"),))
    after = planned(departure(workload=None, workload_problem="forbidden", sight=lost)).history.members
    assert [s.uid for s in after.suspects] == ["z"]
    assert after.attributions[id_of(2)].carriers == frozenset()


def test_certified_pod_object_that_still_exists_does_not_hold() -> None:
    """The removal happens at the terminal phase; the object goes half a second later."""
    assert removed(planned(departure(fresh={id_of(2): fresh(objects=(("web-2", "u2"),))}))) == {("m2", id_of(2))}


RENAMED = {
    "workload": workload(3),
    "pods": (known_pod(0, "u0"), known_pod(1, "u1"), known_pod(uid="n2", instance_ids=frozenset({"web-2.x.3fa9c1d2"}))),
    "group": group(*(member(n, f"n{n}", instance_id=f"web-{n}.x.3fa9c1d2") for n in range(3)), member(2)),
}
"""Ordinal 2 is wanted, its pod was rolled after a change of template and carries the new id."""


def renamed(**changes: object) -> Plan:
    """The plan for the old id of ordinal 2."""
    memory = history(injected=injected(id_template="{podName}.x.3fa9c1d2"), templates=("{podName}.3fa9c1d2",))
    return planned(departure(**(RENAMED | changes)), memory, idTemplate="{podName}.x.{scope}")


def test_old_id_leaves_beside_a_live_pod_that_was_born_after_its_member_had_joined() -> None:
    decided = renamed()
    assert removed(decided) == {("m2", id_of(2))}
    (action,) = decided.actions
    assert "ordinal 2 has another id" in action.removals[0].entry.reason


def test_pod_read_afresh_that_may_hold_the_old_id_holds_it() -> None:
    """A successor that the watch has not shown yet may carry anything."""
    assert only_guard(renamed(fresh={id_of(2): fresh(objects=(("web-2", "n3"),))})) is Guard.POD_ENDING


def test_unscoped_id_is_removed_only_if_the_user_declares_it_exclusive() -> None:
    unscoped = injected(id_template="{podName}")
    ids = {"web-2"}
    snapshot = departure(
        group=group(MemberView(member_id="m2", instance_id="web-2")),
        chains={"web-2": (known_pod(state=DEAD, instance_ids=frozenset(ids)),)},
        fresh={"web-2": fresh()},
    )
    memory = history(injected=unscoped, members=members(attributions={"web-2": attributed("m2", "u2")}))
    assert only_guard(planned(snapshot, memory, idTemplate="{podName}")) is Guard.UNSCOPED
    assert removed(planned(snapshot, memory, idTemplate="{podName}", assumeExclusive=True)) == {("m2", "web-2")}


def test_foreign_and_dynamic_members_are_counted_and_never_candidates() -> None:
    others = (
        MemberView(member_id="x", instance_id="web-2.deadbeef"), MemberView(member_id="y", instance_id="db-0"),
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


def test_mode_suspended_and_removal_never_hold() -> None:
    assert only_guard(planned(mode="Suspended")) is Guard.SUSPENDED
    assert only_guard(planned(removal="Never")) is Guard.POLICY_NEVER


def test_hold_window_of_a_workload_that_goes_counts_from_the_first_round_that_saw_the_departure() -> None:
    first = planned(going())
    assert only_guard(first) is Guard.HOLD_WINDOW
    assert first.requeue_after_s <= 60
    assert only_guard(planned(going(), first.history, NOW_S + 59)) is Guard.HOLD_WINDOW
    assert removed(planned(going(), first.history, NOW_S + 61)) == {("m2", id_of(2))}


def test_missing_workload_waits_for_its_recreation_before_anything_is_removed() -> None:
    gone = departure(workload=None, known=(known_pod(0, "u0"), known_pod(1, "u1")))
    first = planned(gone)
    assert only_guard_all(first) == {Guard.HOLD_WINDOW, Guard.POD_ENDING}
    later = planned(gone, first.history, NOW_S + 61)
    assert ("m2", id_of(2)) in removed(later)


def only_guard_all(decided: Plan) -> set[Guard]:
    assert not decided.actions
    return {h.reason for h in decided.held}


def test_batch_removes_all_departed_members_in_one_action() -> None:
    snapshot = departure(
        workload=workload(0, status_replicas=0),
        pods=(),
        group=group(member(0), member(1)),
        chains={id_of(n): (known_pod(n, f"u{n}", DEAD),) for n in (0, 1)},
        fresh={id_of(n): fresh() for n in (0, 1)},
    )
    (action,) = planned(snapshot, history(members=members({0: [], 1: []}))).actions
    assert len(action.removals) == 2


# ids and injection ----------------------------------------------------------------------------------------------


def test_no_id_is_issued_before_the_pod_watch_is_whole() -> None:
    decided = planned(departure(watch="", group=group()), History())
    assert decided.injection is not None
    assert decided.injection.injected is None


def test_first_acknowledgement_fixes_the_scope_and_the_watch_before_which_no_member_can_have_joined() -> None:
    first = planned(departure(group=group()), History()).history
    assert first.injected is not None
    assert len(first.injected.scope) == 8
    assert first.members.watch == WATCH
    later = planned(departure(watch="after-a-gap", sight=sight(watch="after-a-gap"), group=group()), first).history
    assert later.injected is not None
    assert (later.injected.scope, later.members.watch) == (first.injected.scope, WATCH)


def test_scope_differs_for_a_recreated_staticgroup_of_the_same_name() -> None:
    scopes = {planned(departure(uid=uid, group=group()), History()).history.injected.scope for uid in ("sg-1", "sg-2")}
    assert len(scopes) == 2


def test_observe_issues_nothing_and_the_watch_of_the_acknowledgement_counts_all_the_same() -> None:
    """The scope can be read in the status from then on, so ids may be set by hand."""
    first = planned(departure(group=group()), History(), mode="Observe")
    assert not first.history.issued_ordinals
    assert first.history.members.watch == WATCH


@pytest.mark.parametrize("age_s", [0.0, 600.0], ids=["new", "older than a silence"])
def test_ids_of_a_staticgroup_that_is_older_than_a_silence_have_no_known_beginning(age_s: float) -> None:
    """Its memory may have been lost, and a process that holds such an id may live unseen."""
    found = planned(departure(group=group(), age_s=age_s), History()).history
    assert found.injected is not None
    assert found.members.watch == ("" if age_s else WATCH)


def test_ids_without_a_scope_have_no_known_beginning() -> None:
    """A process that nobody saw may hold one, such as that of a pod that was deleted by force before."""
    found = planned(departure(group=group()), History(), idTemplate="{podName}", assumeExclusive=True).history
    assert found.injected is not None
    assert found.members.watch == ""


def test_ids_that_are_carried_before_their_acknowledgement_have_no_known_beginning() -> None:
    """The memory was lost: a member or a pod with the scope proves that it was issued before."""
    innocent = present(planned(departure(group=group()), History()).history.injected)
    carried = f"web-9.{innocent.scope}"
    for lost in (
        departure(group=group(MemberView(member_id="m", instance_id=carried))),
        departure(group=group(), known=(known_pod(9, state=DEAD, instance_ids=frozenset({carried})),)),
        departure(group=group(), known=(known_pod(9, instance_ids=frozenset({f"{carried}-1"})),)),
    ):
        found = planned(lost, History()).history
        assert found.injected is not None
        assert found.members.watch == ""


def test_edited_template_keeps_the_earlier_ids_as_ours() -> None:
    decided = planned(departure(fresh={id_of(2): fresh()}), idTemplate="{workloadName}.{ordinal}.{scope}")
    assert decided.naming is not None
    assert decided.naming.ordinal_of(id_of(2)) == 2
    assert decided.naming.schemes[0].ordinal_of(id_of(2)) is None


def test_streams_threads_of_a_departed_pod_are_removed_together() -> None:
    client = {"type": "KafkaStreams", "concurrency": 2}
    threads = [f"{id_of(2)}-{n}" for n in (1, 2)]
    dead = known_pod(state=DEAD, instance_ids=frozenset({id_of(2), *threads}))
    snapshot = departure(
        group=group(*(MemberView(member_id=f"m-{t}", instance_id=t) for t in threads)),
        chains=dict.fromkeys(threads, (dead,)),
        fresh={t: fresh() for t in threads},
    )
    memory = history(members=members(attributions={t: attributed(f"m-{t}", "u2") for t in threads}))
    assert {i for _, i in removed(planned(snapshot, memory, client=client))} == set(threads)


def test_kip_848_groups_get_no_session_timeout_injected() -> None:
    """Clients with group.protocol=consumer refuse to start with session.timeout.ms (ConsumerConfig)."""
    consumer = group(member(0, member_epoch=3), group_type=GroupType.CONSUMER, group_epoch=3, assignment_epoch=3)
    decided = planned(departure(group=consumer), groupProtocol="Consumer")
    assert decided.history.injected is not None
    assert decided.history.injected.session_timeout_ms is None
