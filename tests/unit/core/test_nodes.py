"""Each clause of E2, E3, E4 and the sweep; what any of them lacks leaves the suspect or the span as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.ordinals import Ordinals
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import Incarnation, IncarnationState, fold, vanish
from staticgroup.core.evidence.machines import Fleet, NodeRecord, seen
from staticgroup.core.evidence.nodes import (
    Look,
    NodeLifecycle,
    NodeRules,
    Owed,
    Vigil,
    judged,
    may_be_swept,
    nodes_to_sweep,
    swept,
    watched_over,
)
from staticgroup.core.evidence.reaping import ReapDoubt
from staticgroup.core.evidence.spans import BlindSpan, SpanReason
from unit.core.builders import NOW_S, incarnation, pod_version
from unit.core.test_machines import record, view

GRACE_S = 30
UNTIL_S = GRACE_S + 60
ASKING = NodeRules(asks_runtime=True)
TRUSTING = NodeRules(trusts_kubelet=True)
NODE = view(created_at_s=NOW_S - 9000)


def suspect(**changes: Any) -> Incarnation:
    values = {"since_s": NOW_S, "created_at_s": NOW_S - 600, "grace_s": GRACE_S, "node_uid": "node-1"}
    return incarnation(state=IncarnationState.SUSPECT, **(values | changes))


def fleet(**changes: Any) -> Fleet:
    known: dict[str, Any] = {"created_at_s": NOW_S - 9000, "known_since_s": NOW_S - 9000, "boot_since_s": NOW_S - 9000}
    return Fleet(
        records={"n1": record(**(known | changes))}, unbroken_since_s=0.0, is_listed=True, timeline_since_s=0.0, trusted_since_s=0.0
    )


def look(at_s: float, *running: str, **changes: Any) -> Look:
    values: dict[str, Any] = {
        "at_s": at_s, "view": NODE, "lease": f"renewed {at_s}", "bound": frozenset({"old", *running}),
        "running": frozenset({"old", *running}),
    }  # fmt: skip
    return Look(**(values | changes))


def shown(*looks: Look) -> Vigil | None:
    vigil = None
    for each in looks:
        vigil = watched_over(vigil, each)
    return vigil


def steady(until_s: float = UNTIL_S + 20.0, **changes: Any) -> list[Look]:
    """Look every ten seconds; a later pod runs from the second look on."""
    times = [10.0 * n for n in range(1, int(until_s) // 10 + 1)]
    return [look(0.0, **changes), *(look(t, "new", **changes) for t in times)]


def verdict(looks: list[Look], of: Incarnation | None = None, among: Fleet | None = None, rules: NodeRules | None = None) -> str:
    """Return the kind of the certificate, or what is owed."""
    found = judged(of or suspect(), among or fleet(), looks[-1] if looks else None, shown(*looks), rules or TRUSTING)
    return found.kind.value if isinstance(found, Certificate) else found.sentence


def test_a_kubelet_that_caught_up_and_worked_on_has_reaped_what_vanished() -> None:
    assert verdict(steady()) == "E3"


def test_grace_and_margin_run_from_when_the_kubelet_had_caught_up() -> None:
    """Until then it may not have heard of the vanish, however long its Lease moves."""
    late = [look(10.0 * n, *(("new",) if n >= 30 else ())) for n in range(40)]
    assert verdict(late[:40]) == "node n1 has to stay Ready and renew its Lease for more than 90 s"
    assert verdict([*late, look(400.0, "new")]) == "E3"
    assert verdict(steady(UNTIL_S + 10.0)).startswith("node n1 has to stay Ready")


def test_a_longer_grace_is_waited_for() -> None:
    assert verdict(steady(), suspect(grace_s=3600)).startswith("node n1 has to stay Ready")


@pytest.mark.parametrize(
    ("looks", "owed"),
    [
        ([], "cannot be looked at"),
        ([look(10.0 * n) for n in range(40)], "has to start a container of a pod that is bound to it from now on"),
        ([look(10.0 * n, lease="still") if n else look(0.0, lease="still") for n in range(40)], "has to start"),
        ([look(0.0), *(look(10.0 * n, "new", lease="still") for n in range(1, 40))], "renew its Lease for more than 90 s"),
        ([look(0.0), *(look(10.0 * n, "new", lease="") for n in range(1, 40))], "renew its Lease for more than 90 s"),
        ([look(0.0), look(10.0, "new"), look(400.0, "new")], "renew its Lease for more than 90 s"),
        (steady(view=replace(NODE, is_ready=False)), "has to become Ready"),
        (steady(view=replace(NODE, is_virtual=True)), "no kubelet whose work says anything"),
        (steady(view=replace(NODE, is_out_of_service=True)), "no kubelet whose work says anything"),
        (steady(view=replace(NODE, kubelet_minor=26)), "no kubelet whose work says anything"),
        (steady(view=replace(NODE, machine_id="m2")), "not the machine any more"),
        (steady(view=replace(NODE, system_uuid="s2")), "not the machine any more"),
        (steady(view=replace(NODE, boot_id="b2")), "not the machine any more"),
        (steady(view=replace(NODE, uid="node-2")), "not the machine any more"),
        (steady(view=None), "no kubelet whose work says anything"),
        ([*steady(), look(130.0, bound=frozenset({"u2", "new"}))], "its object exists"),
    ],
)  # fmt: skip
def test_what_a_node_has_not_shown_is_owed(looks: list[Look], owed: str) -> None:
    assert owed in verdict(looks)


def test_another_boot_begins_the_vigil_again() -> None:
    """What the kubelet did before says nothing of one that lists its pods anew, perhaps from an API server that is behind."""
    booted = [look(130.0 + 10 * n, "new", view=replace(NODE, boot_id="b2")) for n in range(30)]
    among = fleet(machine=replace(fleet().records["n1"].machine, boot_id="b2"), boot_since_s=NOW_S + 100)
    assert "has to start a container" in verdict([*steady(), *booted], among=among)
    later = [replace(each, running=each.running | {"newest"}) for each in booted[1:]]
    assert verdict([*steady(), booted[0], *later], among=among) == "E4"
    assert verdict([*steady(40.0), booted[0], *later], among=among) == "E3"


def test_a_node_that_was_not_ready_for_a_moment_begins_its_window_again() -> None:
    unready = look(65.0, "new", view=replace(NODE, is_ready=False))
    looks = sorted([*steady(), unready], key=lambda each: each.at_s)
    assert verdict(looks).startswith("node n1 has to stay Ready")


@pytest.mark.parametrize(
    ("change", "owed"),
    [
        ({"known_since_s": NOW_S - 599}, "may have been another machine when the pod came to it"),
        ({"gone_since_s": NOW_S + 1}, "Node n1 is deleted, which says nothing of its machine"),
    ],
)
def test_what_is_remembered_of_the_node_must_reach_back_to_the_pod(change: dict[str, Any], owed: str) -> None:
    assert owed in verdict(steady(), among=fleet(**change))


def test_a_node_that_nobody_remembers_proves_nothing() -> None:
    assert verdict(steady(), among=Fleet()) == "node n1 was never seen"
    assert verdict(steady(), suspect(node_name="")) == "node unknown was never seen"


def test_a_machine_that_two_nodes_tell_is_none() -> None:
    """Two kubelets on one host share machine id, system UUID and boot id."""
    among = fleet()
    twin = replace(among.records["n1"], name="n2", uid="node-2")
    shared = replace(among, records={**among.records, "n2": twin})
    assert verdict(steady(), among=shared).endswith("another node told one of them at the same time")
    assert verdict(steady(), among=fleet(machine=replace(twin.machine, boot_id=""))).endswith("is empty")


def test_a_suspect_of_an_older_ledger_has_no_grace_and_no_age() -> None:
    assert "grace period is not remembered" in verdict(steady(), suspect(grace_s=None))
    assert "another machine when the pod came to it" in verdict(steady(), suspect(created_at_s=0.0))


def test_only_a_reboot_ends_what_hung_before_its_object_went() -> None:
    """The kubelet has tried to kill it already, and gave up or was not there."""
    hung = suspect(reap_doubt=ReapDoubt.STUCK.value)
    assert "only a reboot of node n1 tells" in verdict(steady(), hung)
    assert "only a reboot" in verdict(steady(), hung, fleet(old_boot_until_s=NOW_S + 60))
    assert verdict(steady(), hung, fleet(old_boot_until_s=NOW_S + 61)) == "E4"
    assert "nobody saw how its object went" in verdict(steady(), suspect(reap_doubt=ReapDoubt.END_UNSEEN.value))


def test_a_process_that_may_outlive_its_containers_is_not_reaped() -> None:
    outliving = suspect(reap_doubt=ReapDoubt.HOST_PID.value)
    assert "hostPID" in verdict(steady(), outliving, fleet(old_boot_until_s=NOW_S + 100))


def test_where_the_runtime_may_be_asked_it_must_not_list_the_pod() -> None:
    """Kills hang on healthy nodes (containerd#13416)."""
    assert "was not asked" in verdict(steady(), rules=ASKING)
    assert "still lists the pod" in verdict(steady(listed=frozenset({("shop", "web-2", "u2")})), rules=ASKING)
    assert verdict(steady(listed=frozenset({("shop", "web-2", "u3")})), rules=ASKING) == "E3"


def test_the_living_and_the_dead_are_not_judged() -> None:
    assert verdict(steady(), incarnation(grace_s=30)) == "it is no suspect"
    assert verdict(steady(), suspect(object_present=True)) == "it is no suspect"


# E2 -------------------------------------------------------------------------------------------------------------

CLOUD, FIXED = (NodeRules(lifecycle=lifecycle) for lifecycle in (NodeLifecycle.CLOUD, NodeLifecycle.FIXED))
GONE = look(0.0, view=None)


def without_node(**changes: Any) -> Fleet:
    return fleet(**({"gone_since_s": NOW_S} | changes))



def test_a_deleted_node_says_what_its_lifecycle_says() -> None:
    """`kubectl delete node` on a partitioned machine is a common recipe, so by default it says nothing."""
    assert verdict([GONE], among=without_node(), rules=CLOUD) == verdict([GONE], among=without_node(), rules=FIXED) == "E2Node"
    assert verdict([GONE], among=without_node(), rules=NodeRules()) == "Node n1 is deleted, which says nothing of its machine"
    assert verdict([GONE], rules=CLOUD) != "E2Node", "the watch has not shown that it went"
    assert verdict([], among=without_node(), rules=CLOUD) == "node n1 has to be looked at"


def made_again(created_at_s: float, of: Incarnation | None = None) -> str:
    """Return the verdict where a Node of the same name was made at a time."""
    among = fleet(uid="node-2", created_at_s=created_at_s)
    return verdict([look(0.0, view=replace(NODE, uid="node-2", created_at_s=created_at_s))], of, among, CLOUD)


def test_a_node_that_was_made_again_after_the_vanish_says_the_same() -> None:
    assert made_again(NOW_S + 61) == "E2Node"
    assert made_again(NOW_S + 60) != "E2Node"


def test_the_object_of_a_virtual_node_is_no_machine() -> None:
    assert verdict([GONE], among=without_node(is_virtual=True), rules=CLOUD) != "E2Node"


def test_the_taint_is_a_word_only_where_it_is_trusted() -> None:
    off = look(0.0, view=replace(NODE, is_out_of_service=True, is_ready=False))
    trusting, tainted = NodeRules(trusts_taint=True), fleet(tainted_since_s=NOW_S)
    assert verdict([off], among=tainted, rules=trusting) == "E2Node"
    assert verdict([off], among=tainted) != "E2Node"
    assert verdict([replace(off, view=replace(NODE, is_out_of_service=True))], among=tainted, rules=trusting) != "E2Node"
    assert verdict([off], among=fleet(tainted_since_s=NOW_S - 600), rules=trusting) != "E2Node"
    assert verdict([off], rules=trusting) != "E2Node"
    assert verdict([look(0.0)], among=tainted, rules=trusting) != "E2Node"


# sweeps ---------------------------------------------------------------------------------------------------------

SPAN = BlindSpan(ordinals=Ordinals.of(range(2, 5)), since_s=NOW_S - 100, until_s=NOW_S - 50, reason=SpanReason.WATCH_GAP.value)
CLEAN = frozenset({("shop", "web-0", "u0"), ("shop", "other-2", "x")})


def owed(looks: list[Look], span: BlindSpan = SPAN, among: Fleet | None = None) -> str:
    among = among or fleet()
    return swept(
        span, among.records["n1"], among, looks[-1], shown(*looks), ASKING, namespace="shop", workload_name="web", known={"u2"}
    )


def test_a_node_that_caught_up_and_whose_runtime_lists_no_stranger_is_swept() -> None:
    assert owed(steady(listed=CLEAN)) == ""
    assert owed(steady(listed=CLEAN | {("shop", "web-2", "u2")})) == ""


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        (None, "was not asked"),
        (CLEAN | {("shop", "web-2", "u7")}, "runs pod web-2, which nobody knows"),
        (CLEAN | {("shop", "web-4", "u7")}, "runs pod web-4"),
        (CLEAN | {("shop", "web-5", "u7"), ("bill", "web-2", "u7"), ("shop", "web-02", "u7")}, ""),
    ],
)
def test_what_a_runtime_lists_of_the_blind_names_is_what_was_not_seen(listed: Any, says: str) -> None:
    found = owed(steady(listed=listed))
    assert says in found
    assert bool(says) == bool(found)


def test_a_node_is_swept_only_when_it_was_this_machine_before_the_span_and_works_now() -> None:
    assert "another machine when the watch was interrupted" in owed(
        steady(listed=CLEAN), among=fleet(known_since_s=NOW_S - 99)
    )
    assert "has to start" in owed([look(10.0 * n, listed=CLEAN) for n in range(40)])
    assert "stay Ready" in owed(steady(50.0, listed=CLEAN))
    assert "become Ready" in owed(steady(listed=CLEAN, view=replace(NODE, is_ready=False)))


def names(among: Fleet, rules: NodeRules = ASKING) -> list[str] | str:
    found = nodes_to_sweep(SPAN, among, rules)
    return found.sentence if isinstance(found, Owed) else [r.name for r in found]


def with_node(**changes: Any) -> Fleet:
    other: NodeRecord = replace(
        seen(None, view(name="n2", uid="node-9", machine_id="m9", system_uuid="s9"), now_s=NOW_S),
        **({"created_at_s": NOW_S - 9000, "known_since_s": NOW_S - 9000} | changes),
    )
    return replace(fleet(), records={**fleet().records, "n2": other})


def test_every_node_is_asked_that_can_have_run_a_pod_in_the_span() -> None:
    """Whether it is Ready or gone by now; only what came later, or went before, is not."""
    assert names(with_node()) == ["n1", "n2"]
    assert names(with_node(gone_since_s=NOW_S)) == ["n1", "n2"]
    assert names(with_node(created_at_s=NOW_S + 11)) == ["n1"]
    assert names(with_node(created_at_s=NOW_S + 10)) == ["n1", "n2"]
    assert names(with_node(gone_since_s=NOW_S - 161)) == ["n1"]
    assert names(with_node(gone_since_s=NOW_S - 160)) == ["n1", "n2"]


def test_a_machine_whose_node_is_gone_is_excluded_by_its_lifecycle_alone() -> None:
    trusting = replace(ASKING, lifecycle=NodeLifecycle.CLOUD)
    assert names(with_node(gone_since_s=NOW_S), trusting) == ["n1"]
    assert names(with_node(gone_since_s=NOW_S, is_virtual=True), trusting) == ["n1", "n2"]


def test_nodes_that_may_have_come_and_gone_unseen_keep_a_span_open() -> None:
    unseen = replace(fleet(), unbroken_since_s=NOW_S - 160 + 1)
    dropped = replace(fleet(), complete_since_s=NOW_S - 160 + 1)
    for among in (unseen, dropped):
        assert "come and gone unseen" in names(among)
        assert names(among, replace(ASKING, lifecycle=NodeLifecycle.FIXED)) == ["n1"]
    assert "an earlier machine of node n1" in names(fleet(earlier_until_s=NOW_S - 160))
    assert names(fleet(earlier_until_s=NOW_S - 161)) == ["n1"]
    assert names(replace(fleet(), is_listed=False)) == "nodes cannot be listed"
    assert "may be asked" in names(fleet(), NodeRules(lifecycle=NodeLifecycle.CLOUD))


def test_only_a_gap_of_the_watch_can_be_swept() -> None:
    """A written scope, a restored etcd, a lost memory or a full ledger hide more than pods of these names on these nodes."""
    assert [reason.value for reason in SpanReason if may_be_swept(replace(SPAN, reason=reason.value))] == ["WatchGap"]


# what an object leaves behind -------------------------------------------------------------------------------------


def vanished(*versions: Any, at_s: float, is_seen: bool = True) -> Incarnation:
    known = None
    for n, change in enumerate(versions):
        version = pod_version(**({"resource_version": 100 + n, "grace_s": GRACE_S} | change))
        known = fold(known, version, None, from_birth=False, now_s=NOW_S)
    assert known is not None
    return vanish(known, last=version if is_seen else None, now_s=at_s)


DELETED: dict[str, Any] = {"is_deleting": True, "deletion_grace_s": 30, "deletion_at_s": NOW_S + 30}


def test_an_object_that_went_before_its_deletion_was_due_leaves_no_doubt() -> None:
    gone = vanished({}, DELETED, at_s=NOW_S + 29)
    assert (gone.reap_doubt, gone.grace_s, gone.state) == ("", 30, IncarnationState.SUSPECT)


def test_an_object_that_stayed_longer_than_its_grace_was_stuck() -> None:
    assert vanished({}, DELETED, at_s=NOW_S + 30).reap_doubt == "StuckTerminating"
    assert vanished({}, DELETED | {"deletion_at_s": NOW_S - 100}, at_s=NOW_S + 1).reap_doubt == "StuckTerminating"


def test_a_forced_deletion_is_due_when_the_first_one_was() -> None:
    """It writes a grace of 0, and moves the timestamp back to when the deletion was asked for."""
    forced = {"is_deleting": True, "deletion_grace_s": 0, "deletion_at_s": NOW_S}
    assert vanished({}, forced, at_s=NOW_S + 1).reap_doubt == ""
    assert vanished({}, DELETED, forced, at_s=NOW_S + 5).reap_doubt == ""
    assert vanished({}, forced | {"deletion_at_s": NOW_S - 3600}, at_s=NOW_S + 1).reap_doubt == "StuckTerminating"


def test_nobody_knows_how_an_object_went_that_a_list_does_not_show() -> None:
    assert vanished({}, at_s=NOW_S, is_seen=False).reap_doubt == "EndUnseen"


def test_host_pid_is_remembered() -> None:
    assert vanished({"host_pid": True}, at_s=NOW_S).reap_doubt == "HostPID"


def test_evidence_of_a_node_holds_while_the_object_stays_gone() -> None:
    found = judged(suspect(), fleet(), steady()[-1], shown(*steady()), TRUSTING)
    assert isinstance(found, Certificate)
    assert (found.kind, found.is_of_gone, found.is_word) == (CertificateKind.REAPED, True, False)
    assert "machine m1" in found.statement
