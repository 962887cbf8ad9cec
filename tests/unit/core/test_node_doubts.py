"""What stands against the evidence of nodes: each of these traces ends with a process that lives, so none may end in a certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.continuity import BLIND_SPANS_MAX
from staticgroup.core.evidence.certificate import Refusal, certify
from staticgroup.core.evidence.chain import Incarnation, fold, vanish
from staticgroup.core.evidence.continuity import Checkpoint
from staticgroup.core.evidence.machines import Fleet, NodeRecord, gone, merged, seen
from staticgroup.core.evidence.nodes import NodeLifecycle, NodeRules, can_be_judged, may_be_swept, nodes_to_sweep
from staticgroup.core.evidence.spans import BlindSpan, SpanReason
from unit.core.builders import NOW_S, pod_version
from unit.core.test_certificate import ended
from unit.core.test_machines import record, view
from unit.core.test_nodes import (
    ASKING,
    CLEAN,
    CLOUD,
    GONE,
    NODE,
    SPAN,
    TRUSTING,
    fleet,
    look,
    made_again,
    names,
    owed,
    steady,
    suspect,
    vanished,
    verdict,
    without_node,
)

LATER_S = NOW_S + 500
TAINT_TRUSTED = NodeRules(trusts_taint=True)


def among(known: NodeRecord) -> Fleet:
    return replace(fleet(), records={"n1": known})


# what a kubelet ends, and when ------------------------------------------------------------------------------------


def test_the_longest_grace_that_was_asked_for_counts() -> None:
    """A kubelet that heard of an hour gives an hour, whatever grace the object has when it goes."""
    asked = {"is_deleting": True, "deletion_grace_s": 3600, "deletion_at_s": NOW_S + 3600}
    forced = {"is_deleting": True, "deletion_grace_s": 0, "deletion_at_s": NOW_S}
    drained = vanished({}, asked, forced, at_s=NOW_S + 10)
    assert (drained.grace_s, drained.reap_doubt) == (3600, "")
    assert "for more than 3660 s" in verdict(steady(), replace(drained, created_at_s=NOW_S - 600))
    assert vanished({"probe_grace_s": 900}, forced, at_s=NOW_S + 1).grace_s == 900
    assert vanished({}, {"grace_s": 10}, forced, at_s=NOW_S + 1).grace_s == 30


def test_work_alone_proves_nothing_where_neither_the_runtime_is_asked_nor_the_kubelet_trusted() -> None:
    """A kill may hang, and a kubelet one of whose sources does not answer ends nothing."""
    found = verdict(steady(), rules=NodeRules())
    assert "evidence.askRuntime" in found
    assert "evidence.trustKubelet" in found
    assert "evidence.askRuntime" in verdict(steady(), among=fleet(old_boot_until_s=NOW_S + 61), rules=NodeRules())
    assert not can_be_judged(suspect(), fleet(), NodeRules())
    assert can_be_judged(suspect(), fleet(), ASKING)
    assert verdict(steady(listed=CLEAN), rules=ASKING) == verdict(steady(), rules=TRUSTING) == "E3"


def test_a_static_pod_is_not_ended_with_the_object_that_mirrors_it() -> None:
    mirror = vanished({"is_mirror": True}, at_s=NOW_S)
    assert mirror.reap_doubt == "MirrorPod"
    rebooted = fleet(old_boot_until_s=NOW_S + 61)
    for rules in (TRUSTING, ASKING):
        assert "static pod" in verdict(steady(listed=CLEAN), replace(mirror, created_at_s=NOW_S - 600), rebooted, rules)
    assert vanished({"is_mirror": True}, at_s=NOW_S, is_seen=False).reap_doubt == "MirrorPod"


def test_the_end_of_a_static_pod_is_no_certificate() -> None:
    """Its kubelet starts it again when it is itself started again, and no object tells of that."""
    found = certify(replace(ended(), is_mirror=True), NODE, started=frozenset(), runs_known=True)
    assert isinstance(found, Refusal)
    assert found.reason == "MirrorPod"


# which machine, which boot, which runtime --------------------------------------------------------------------------


def test_a_machine_that_was_away_meanwhile_is_known_since_it_came_back() -> None:
    """One process saw the other machine, the other one saw none but this."""
    long_known = record(known_since_s=NOW_S - 9000, boot_since_s=NOW_S - 9000)
    replaced = seen(long_known, view(machine_id="m2"), now_s=NOW_S + 10)
    back = seen(replaced, view(), now_s=NOW_S + 200)
    both = merged(long_known, back, now_s=LATER_S)
    assert (both.known_since_s, both.earlier_until_s) == (NOW_S + 260, NOW_S + 200)
    assert merged(back, long_known, now_s=LATER_S) == both
    unwritten = merged(long_known, replaced, now_s=LATER_S)
    assert (unwritten.known_since_s, unwritten.earlier_until_s) == (LATER_S + 60, LATER_S)


def test_what_is_remembered_of_an_earlier_machine_outweighs_a_longer_knowledge() -> None:
    torn = record(known_since_s=NOW_S - 9000, earlier_until_s=NOW_S)
    assert merged(torn, torn, now_s=LATER_S).known_since_s == NOW_S + 60


def test_a_boot_that_was_heard_of_late_need_not_have_begun_after_the_object_had_gone() -> None:
    """The pod began in it, its deletion hangs in it, and the watch of nodes was behind."""
    heard = seen(record(boot_since_s=NOW_S - 9000), view(boot_id="b2"), shown_until_s=NOW_S - 70, now_s=NOW_S + 100)
    assert (heard.boot_since_s, heard.old_boot_until_s) == (NOW_S + 100, NOW_S - 70)
    hung = suspect(reap_doubt="StuckTerminating")
    known = among(replace(heard, known_since_s=NOW_S - 9000))
    assert "only a reboot" in verdict(steady(view=replace(NODE, boot_id="b2")), hung, known)


def test_a_boot_that_was_seen_to_follow_another_one_ends_what_hung() -> None:
    hung = suspect(reap_doubt="StuckTerminating")
    booted = replace(NODE, boot_id="b2")
    known = among(replace(fleet().records["n1"], machine=replace(fleet().records["n1"].machine, boot_id="b2")))
    after = [look(80.0, view=booted), *(look(80.0 + 10 * n, "newer", view=booted) for n in range(1, 12))]
    assert verdict([*steady(70.0), *after], hung, known) == "E4"
    assert "only a reboot" in verdict([*steady(30.0), *after], hung, known)
    assert "only a reboot" in verdict(after, hung, known)
    assert "only a reboot" in verdict([*steady(70.0, view=replace(NODE, uid="node-2")), *after], hung, known)
    assert can_be_judged(hung, fleet(), TRUSTING), "or nobody would look"


def test_two_processes_know_together_until_when_the_boot_before_was_told_of() -> None:
    mine = record(old_boot_until_s=NOW_S + 5, boot_since_s=NOW_S + 90)
    both = merged(mine, record(old_boot_until_s=NOW_S + 9, boot_since_s=NOW_S + 80), now_s=LATER_S)
    assert (both.old_boot_until_s, both.boot_since_s) == (NOW_S + 9, NOW_S + 80)
    other = merged(mine, record(machine=replace(mine.machine, boot_id="b0"), old_boot_until_s=NOW_S + 9), now_s=LATER_S)
    assert (other.old_boot_until_s, other.boot_since_s) == (NOW_S + 5, NOW_S + 90)


def test_another_container_runtime_knows_nothing_of_what_the_first_one_runs() -> None:
    first = record(machine=replace(record().machine, runtime="cri-o"), known_since_s=NOW_S - 9000)
    swapped = seen(first, view(runtime="containerd"), now_s=NOW_S - 100)
    assert (swapped.runtime_since_s, swapped.known_since_s) == (NOW_S - 40, NOW_S - 9000)
    now = replace(NODE, runtime="containerd")
    assert "another container runtime" in verdict(steady(view=now, listed=CLEAN), among=among(swapped), rules=ASKING)
    assert "another container runtime" in owed(steady(view=now, listed=CLEAN), among=among(swapped))
    assert "not the machine any more" in verdict(steady(view=now), among=fleet())
    booted = seen(swapped, view(runtime="containerd", boot_id="b2"), now_s=NOW_S + 100)
    assert booted.runtime_since_s == 0.0
    assert merged(seen(None, view(runtime="containerd"), now_s=LATER_S), first, now_s=LATER_S).runtime_since_s == LATER_S + 60
    assert merged(swapped, swapped, now_s=LATER_S) == swapped


# clocks -----------------------------------------------------------------------------------------------------------


def test_what_a_slow_clock_sees_is_dated_by_the_api_server() -> None:
    """A machine that is replaced now is known since now, however early it seems."""
    replaced = seen(record(known_since_s=0.0), view(machine_id="m2", written_at_s=LATER_S), now_s=NOW_S - 100)
    assert (replaced.known_since_s, replaced.earlier_until_s) == (LATER_S + 60, LATER_S)
    assert seen(None, view(written_at_s=LATER_S), now_s=NOW_S - 100).known_since_s == LATER_S + 60


@pytest.mark.parametrize("apart_s", [31.0, -31.0])
def test_nothing_is_concluded_while_the_clocks_differ(apart_s: float) -> None:
    for looks, rules in ((steady(), TRUSTING), ([GONE], CLOUD)):
        known = fleet() if looks != [GONE] else without_node()
        assert "clocks of operator and API server" in verdict(looks, among=replace(known, clock_apart_s=apart_s), rules=rules)
        assert verdict(looks, among=replace(known, clock_apart_s=apart_s - apart_s / 31), rules=rules) in ("E3", "E2Node")
    assert "clocks" in names(replace(fleet(), clock_apart_s=apart_s))


# words about Nodes ------------------------------------------------------------------------------------------------


def test_a_node_that_is_there_was_not_deleted_whatever_the_clock_says() -> None:
    """A clock that is slow has the pod gone before its Node was made."""
    young = replace(NODE, created_at_s=NOW_S + 300, is_ready=False)
    known = fleet(created_at_s=NOW_S + 300)
    assert verdict([look(0.0, view=young)], among=known, rules=CLOUD) != "E2Node"


def test_a_node_that_was_made_before_the_pod_came_to_it_may_run_it() -> None:
    """The uid that was seen with the pod may be that of the Node before, of which the news had not come."""
    assert made_again(NOW_S + 100, suspect(bound_at_s=NOW_S + 39)) == "E2Node"
    assert made_again(NOW_S + 100, suspect(bound_at_s=NOW_S + 40)) != "E2Node"


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"node_uid": ""}, {}),
        ({"created_at_s": NOW_S - 600}, {"timeline_since_s": NOW_S - 660}),
        ({}, {"trusted_since_s": NOW_S + 1}),
    ],
)
def test_a_word_is_about_a_node_that_was_seen_on_this_timeline_and_went_since_it_was_given(
    change: dict[str, Any], known: dict[str, Any]
) -> None:
    """A restored etcd, or that of another cluster, lacks Nodes which nobody deleted."""
    assert verdict([GONE], among=without_node(), rules=CLOUD) == "E2Node"
    found = verdict([GONE], suspect(**change), replace(without_node(), **known), CLOUD)
    assert found.startswith("Node n1 is deleted, but ")


def test_a_deletion_from_before_the_setting_says_nothing_however_often_the_name_was_taken_since() -> None:
    """`kubectl delete node` on a machine that is cut off, the setting, and another machine that has the name and goes."""
    trusted = {"trusted_since_s": NOW_S + 50}
    deleted = seen(gone(fleet().records["n1"], now_s=NOW_S), view(uid="node-2", created_at_s=NOW_S + 200), is_birth=True, now_s=NOW_S + 200)
    made_anew = look(0.0, view=replace(NODE, uid="node-2", created_at_s=NOW_S + 200))
    assert verdict([made_anew], among=replace(among(deleted), **trusted), rules=CLOUD) != "E2Node"
    gone_too = gone(deleted, now_s=NOW_S + 300)
    assert verdict([GONE], among=replace(among(gone_too), **trusted), rules=CLOUD) != "E2Node"
    third = seen(gone_too, view(uid="node-3", created_at_s=NOW_S + 400), is_birth=True, now_s=NOW_S + 400)
    again = look(0.0, view=replace(NODE, uid="node-3", created_at_s=NOW_S + 400))
    assert verdict([again], among=replace(among(third), **trusted), rules=CLOUD) != "E2Node"


def test_of_a_pod_that_is_younger_than_the_setting_every_node_of_its_name_went_since() -> None:
    younger = {"trusted_since_s": NOW_S - 660}
    second = seen(gone(fleet().records["n1"], now_s=NOW_S), view(uid="node-2", created_at_s=NOW_S + 200), is_birth=True, now_s=NOW_S + 200)
    made_anew = look(0.0, view=replace(NODE, uid="node-2", created_at_s=NOW_S + 200))
    assert verdict([made_anew], among=replace(among(second), **younger), rules=CLOUD) == "E2Node"
    assert verdict([GONE], among=replace(among(gone(second, now_s=NOW_S + 300)), **younger), rules=CLOUD) == "E2Node"
    assert verdict([made_anew], among=replace(among(second), trusted_since_s=NOW_S - 659), rules=CLOUD) != "E2Node"


def test_a_node_that_another_machine_took_over_says_nothing_of_the_first_one() -> None:
    """It registers under the object that is there; what goes with that is the later machine."""
    taken_over = seen(fleet().records["n1"], view(machine_id="m2", created_at_s=NOW_S - 9000), now_s=NOW_S - 100)
    assert verdict([GONE], among=among(gone(taken_over, now_s=NOW_S)), rules=CLOUD).endswith("another machine had its name since the pod came to it")
    later = suspect(bound_at_s=NOW_S - 99)
    assert verdict([GONE], later, among(gone(taken_over, now_s=NOW_S)), CLOUD) == "E2Node"


def test_a_taint_is_no_word_either_of_a_pod_from_before_this_timeline() -> None:
    off = look(0.0, view=replace(NODE, is_out_of_service=True, is_ready=False))
    tainted = fleet(tainted_since_s=NOW_S)
    assert verdict([off], among=tainted, rules=TAINT_TRUSTED) == "E2Node"
    assert verdict([off], among=replace(tainted, timeline_since_s=NOW_S - 660), rules=TAINT_TRUSTED) != "E2Node"


def test_a_taint_is_no_word_of_a_pod_that_may_have_come_under_it() -> None:
    """One that tolerates it waited for longer than the taint is there, and who saw it first on the node does not know since when."""
    version = pod_version(resource_version=101, created_at_s=NOW_S - 600, grace_s=30, scheduled_at_s=NOW_S - 100)
    off = replace(NODE, is_out_of_service=True)
    tainted = fleet(tainted_since_s=NOW_S - 400)

    def found(*on: Any) -> str:
        known = None
        for n, node in enumerate(on):
            known = fold(known, replace(version, resource_version=101 + n), node, from_birth=False, now_s=NOW_S - 50)
        assert known is not None
        return verdict([look(0.0, view=replace(off, is_ready=False))], vanish(known, last=version, now_s=NOW_S), tainted, TAINT_TRUSTED)

    assert found(off) != "E2Node"
    assert found(off, off) != "E2Node"
    assert found(NODE, off) == "E2Node", "it was there before the taint"


def test_a_taint_counts_only_where_it_was_seen_to_be_put() -> None:
    """Pods that tolerate it may have been made under it; a ledger that is lost must not prove more."""
    out = view(is_out_of_service=True, written_at_s=NOW_S)
    assert seen(None, out, now_s=NOW_S).tainted_since_s == 0.0
    assert seen(None, out, is_birth=True, is_next=True, now_s=NOW_S).tainted_since_s == 0.0
    assert seen(record(), out, now_s=NOW_S).tainted_since_s == 0.0, "it may have been there before the gap ended"
    assert seen(record(), out, is_next=True, now_s=LATER_S).tainted_since_s == NOW_S, "however late the news comes"
    unseen = seen(None, out, now_s=LATER_S)
    off = look(0.0, view=replace(NODE, is_out_of_service=True, is_ready=False))
    assert verdict([off], among=among(unseen), rules=TAINT_TRUSTED) != "E2Node"
    assert merged(unseen, record(tainted_since_s=NOW_S), now_s=LATER_S).tainted_since_s == NOW_S
    assert merged(unseen, record(), now_s=LATER_S).tainted_since_s == 0.0


def test_a_name_that_was_a_virtual_nodes_stays_one() -> None:
    virtual = gone(record(is_virtual=True), now_s=NOW_S)
    assert seen(virtual, view(uid="node-2"), is_birth=True, now_s=LATER_S).is_virtual
    assert merged(record(uid="node-2"), virtual, now_s=LATER_S).is_virtual


def test_the_deletion_of_a_node_that_tells_no_machine_says_nothing_of_one() -> None:
    """Providers register Nodes for what runs elsewhere."""
    nowhere = replace(without_node().records["n1"].machine, machine_id="")
    assert verdict([GONE], among=without_node(machine=nowhere), rules=CLOUD) == "Node n1 is deleted, but node n1 tells of no machine"
    trusting = replace(ASKING, lifecycle=NodeLifecycle.CLOUD)
    assert names(without_node(machine=nowhere), trusting) == ["n1"]


def test_a_sweep_counts_deletions_only_since_they_say_something() -> None:
    trusting = replace(ASKING, lifecycle=NodeLifecycle.CLOUD)
    assert names(without_node(), trusting) == []
    assert names(replace(without_node(), trusted_since_s=NOW_S + 1), trusting) == ["n1"]
    unseen = replace(fleet(), unbroken_since_s=NOW_S, trusted_since_s=SPAN.since_s + 1)
    assert "come and gone unseen" in names(unseen, trusting)
    assert nodes_to_sweep(SPAN, replace(unseen, trusted_since_s=SPAN.since_s), trusting)


# pods that come to a node later -----------------------------------------------------------------------------------


def bound(**changes: Any) -> Incarnation:
    """Return a pod that waited for its node, and was seen to be bound."""
    waiting = fold(None, pod_version(resource_version=100, node_name="", created_at_s=NOW_S - 600), None, from_birth=True, now_s=NOW_S)
    version = pod_version(**({"resource_version": 101, "created_at_s": NOW_S - 600, "grace_s": 30, "scheduled_at_s": NOW_S - 300} | changes))
    return vanish(fold(waiting, version, NODE, from_birth=False, now_s=NOW_S), last=version, now_s=NOW_S)


def test_a_node_need_not_be_older_than_a_pod_that_was_bound_to_it_later() -> None:
    """An autoscaler makes the node for the pod."""
    young = fleet(known_since_s=NOW_S - 400, created_at_s=NOW_S - 400)
    assert (bound().bound_at_s, bound().node_uid) == (NOW_S - 300, "node-1")
    assert verdict(steady(), bound(), young) == "E3"
    assert "another machine when the pod came to it" in verdict(steady(), bound(scheduled_at_s=None), young)


def test_of_a_pod_that_was_made_with_its_node_the_kubelet_says_when_it_was_bound() -> None:
    made = pod_version(resource_version=100, created_at_s=NOW_S - 600, scheduled_at_s=NOW_S - 300)
    known = fold(None, made, NODE, from_birth=False, now_s=NOW_S)
    assert known.bound_at_s == 0.0
    assert fold(known, replace(made, resource_version=101), NODE, from_birth=False, now_s=NOW_S).bound_at_s == 0.0


def test_a_binding_that_a_gap_may_hide_is_none() -> None:
    """What is seen then may have been written since, by another clock."""
    waiting = fold(None, pod_version(resource_version=100, node_name=""), None, from_birth=True, now_s=NOW_S)
    after = pod_version(resource_version=101, scheduled_at_s=NOW_S - 300)
    assert fold(replace(waiting, from_birth=False), after, NODE, from_birth=False, now_s=NOW_S).bound_at_s == 0.0


# joined spans -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
def test_spans_that_are_told_as_one_are_swept_only_where_each_may_be(at: int) -> None:
    def span(n: int, reason: SpanReason) -> BlindSpan:
        return BlindSpan(ordinals=Ordinals.of(range(9)), since_s=10.0 * n, until_s=10.0 * n + 5, reason=reason.value)

    spans = tuple(span(n, SpanReason.MEMORY_LOST if n == at else SpanReason.WATCH_GAP) for n in range(BLIND_SPANS_MAX))
    known = Checkpoint(epoch="e", timeline="t", at_s=NOW_S, workload_name="web", blind=spans)
    joined = known.blinded(SpanReason.WATCH_GAP, since_s=NOW_S, until_s=NOW_S).blind
    assert len(joined) == BLIND_SPANS_MAX
    assert joined[0].reason == "MemoryLost"
    assert not may_be_swept(joined[0])
