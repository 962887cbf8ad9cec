"""What one pod version proves. Each clause of E1 and E1' has its own counter-example here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.certificate import (
    Certificate,
    CertificateKind,
    RefusalReason,
    Unproven,
    certify,
    certify_unbound,
)
from staticgroup.core.evidence.chain import fold
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, NodeView, PodVersion

from .builders import NODE, NOW_S, ended, pod_version, running, terminated

ALL = frozenset({"app", "sidecar", "debug", "init"})


def judged(version, node: NodeView | None = NODE, *, ever: bool = True, birth: bool = False) -> Certificate | Unproven:
    return certify(version, node, started=ALL if ever else frozenset(), runs_known=birth)


def test_terminal_phase_with_every_container_terminated_is_the_certificate_e1() -> None:
    verdict = judged(ended())
    assert isinstance(verdict, Certificate)
    assert verdict.kind is CertificateKind.ENDED
    assert "1 of 1 containers terminated" in verdict.statement


def test_failed_is_as_terminal_as_succeeded() -> None:
    assert isinstance(judged(ended(phase="Failed")), Certificate)


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown", ""])
def test_stale_terminated_of_a_crashed_container_is_no_end_while_the_phase_is_not_terminal(phase: str) -> None:
    """A crash-looping pod shows `terminated` for the run before; only the phase rule tells (seen on a real kubelet)."""
    verdict = judged(ended(phase=phase))
    assert isinstance(verdict, Unproven)
    assert "phase" in verdict.clause


def test_empty_status_list_means_alive() -> None:
    """`all([])` is true; an absent entry is not a terminated one."""
    verdict = judged(ended(required=(ContainerView(name="app", phase=ContainerPhase.ABSENT),)))
    assert isinstance(verdict, Unproven)
    assert "absent" in verdict.clause


def test_pod_without_any_named_container_proves_nothing() -> None:
    assert isinstance(judged(ended(required=())), Unproven)


@pytest.mark.parametrize(
    "last",
    [
        running("sidecar"),
        ContainerView(name="debug", phase=ContainerPhase.WAITING),
        terminated("sidecar", container_id=""),
        terminated("sidecar", finished_at=""),
        terminated("sidecar", reason="ContainerStatusUnknown"),
    ],
    ids=["running", "waiting", "no containerID", "no finishedAt", "ContainerStatusUnknown"],
)
def test_one_container_without_a_kubelet_written_end_withholds_the_certificate(last: ContainerView) -> None:
    assert isinstance(judged(ended(required=(terminated(), last))), Unproven)


def test_phase_written_by_the_pod_garbage_collector_is_no_evidence() -> None:
    """PodGC sets Failed on pods of vanished nodes (KEP-3329); no kubelet has spoken."""
    verdict = judged(ended(phase="Failed", disruption_reason="DeletionByPodGC"))
    assert isinstance(verdict, Unproven)
    assert "garbage collector" in verdict.clause


@pytest.mark.parametrize("manager", ["kube-controller-manager", "PodGC"])
def test_phase_written_by_the_controller_manager_is_no_evidence_even_without_a_reason(manager: str) -> None:
    """PodGCController.gcTerminating fails pods of out-of-service nodes without a condition, over a stale `terminated`;
    up to 1.26 under the name PodGC. Only managedFields tell."""
    refusals = (
        judged(ended(phase="Failed", phase_manager=manager)),
        judged(replace(never_started(), phase_manager=manager), ever=False, birth=True),
    )
    for refusal in refusals:
        assert isinstance(refusal, Unproven)
        assert f"written by {manager}" in refusal.clause


def test_phase_of_a_writer_who_wrote_no_container_statuses_is_no_evidence() -> None:
    """Kueue's failure recovery patches `phase: Failed` on pods of unreachable nodes, over what a kubelet said before."""
    refusals = (
        judged(ended(phase="Failed", phase_manager="kueue", phase_has_statuses=False)),
        judged(replace(never_started(), phase_manager="kueue", phase_has_statuses=False), ever=False, birth=True),
    )
    for refusal in refusals:
        assert isinstance(refusal, Unproven)
        assert "written by kueue" in refusal.clause


@pytest.mark.parametrize("manager", ["kubelet", "k3s", "kubelite"])
def test_phase_of_any_other_writer_leaves_the_kubelets_statuses_valid(manager: str) -> None:
    """k3s and MicroK8s run kubelet and controllers as one program under one name."""
    assert isinstance(judged(ended(phase_manager=manager)), Certificate)


def test_nothing_is_certified_on_a_node_that_is_out_of_service() -> None:
    """The taint is a word that nothing runs there, and PodGC acts on it; the node may run on all the same (KEP-2268)."""
    node = replace(NODE, is_out_of_service=True)
    for refusal in (judged(ended(), node), judged(never_started(), node, ever=False, birth=True)):
        assert isinstance(refusal, Unproven)
        assert "out of service" in refusal.clause


def test_the_kubelet_of_another_machine_than_the_pod_came_to_knows_nothing_of_what_the_first_one_runs() -> None:
    """It starts the pods that are bound to the name that it took over; the first machine may be only cut off."""
    came = {"created_at_s": NOW_S - 600, "scheduled_at_s": NOW_S - 500}
    for later in ({"created_at_s": NOW_S - 499}, {"other_until_s": NOW_S - 499}):
        for refusal in (judged(ended(**came), replace(NODE, **later)), judged(never_started(**came), replace(NODE, **later), ever=False, birth=True)):
            assert isinstance(refusal, Unproven)
            assert "since the pod came to it" in refusal.clause
    for earlier in ({"created_at_s": NOW_S - 500}, {"other_until_s": NOW_S - 499.1}):
        assert isinstance(judged(ended(**came), replace(NODE, **earlier)), Certificate), "a node that was made for the pod"
    made_with_its_node = ended(created_at_s=NOW_S - 600, scheduled_at_s=NOW_S - 9000)
    assert isinstance(judged(made_with_its_node, replace(NODE, created_at_s=NOW_S - 601)), Certificate), "by a slow clock of its kubelet"


def test_a_run_that_the_kubelet_lost_may_live_on_beside_those_that_end() -> None:
    """It starts another one in place of what its runtime does not list, and counts a restart."""
    refusal = certify(ended(), NODE, started=frozenset({"app"}), runs_known=True, has_lost_run=True)
    assert isinstance(refusal, Unproven)
    assert (refusal.reason, "an earlier run" in refusal.clause) == ("ContainerLost", True)
    again = (pod_version(resource_version=101, required=(replace(running(), was_lost=True),)), pod_version(resource_version=102), ended(resource_version=103))
    known = fold(None, pod_version(resource_version=100), NODE, from_birth=True, now_s=NOW_S)
    for version in again:
        known = fold(known, version, NODE, from_birth=False, now_s=NOW_S)
    assert (known.state.value, known.certificate) == ("Live", None)


def test_other_disruptions_keep_the_kubelets_word() -> None:
    assert isinstance(judged(ended(disruption_reason="EvictionByEvictionAPI")), Certificate)


def test_host_pid_pods_are_never_certified() -> None:
    assert isinstance(judged(ended(host_pid=True)), Unproven)


@pytest.mark.parametrize(
    "node",
    [
        None,
        replace(NODE, is_virtual=True),
        replace(NODE, kubelet_minor=26, kubelet_version="v1.26.9"),
        replace(NODE, kubelet_minor=None),
    ],
    ids=["unreadable", "virtual-kubelet", "1.26", "unknown version"],
)
def test_only_a_real_kubelet_from_1_27_on_is_believed(node: NodeView | None) -> None:
    assert isinstance(judged(ended(), node), Unproven)


def test_kubelet_1_27_is_believed() -> None:
    assert isinstance(judged(ended(), replace(NODE, kubelet_minor=27, kubelet_version="v1.27.0")), Certificate)


def never_started(**changes: Any) -> PodVersion:
    values = {
        "phase": "Failed",
        "required": (terminated(container_id="", finished_at="", reason="ContainerStatusUnknown"),),
        "started_containers": frozenset(),
    }
    return ended(**(values | changes))


def test_pod_that_never_showed_a_container_id_since_birth_never_ran() -> None:
    """An image that was never pulled: Failed, `ContainerStatusUnknown` without containerID (seen on a real kubelet)."""
    verdict = judged(never_started(), ever=False, birth=True)
    assert isinstance(verdict, Certificate)
    assert verdict.kind is CertificateKind.NEVER_RAN


def test_never_ran_needs_the_whole_life_to_have_been_watched() -> None:
    assert isinstance(judged(never_started(), ever=False, birth=False), Unproven)


def test_never_ran_is_refused_once_any_version_showed_a_container_id() -> None:
    assert isinstance(judged(never_started(), ever=True, birth=True), Unproven)


def test_never_ran_needs_the_phase_rule_too() -> None:
    assert isinstance(judged(replace(never_started(), phase="Pending"), ever=False, birth=True), Unproven)


UNKNOWN = terminated("sidecar", container_id="", finished_at="", reason="ContainerStatusUnknown")
WAITING = ContainerView(name="sidecar", phase=ContainerPhase.WAITING, reason="ContainerCreating")


@pytest.mark.parametrize("unstarted", [UNKNOWN, WAITING], ids=["ContainerStatusUnknown", "waiting"])
def test_container_that_never_started_does_not_withhold_the_certificate_of_those_that_ended(
    unstarted: ContainerView,
) -> None:
    """A sidecar whose image was never pulled, a debug container with a wrong image (seen on a real kubelet)."""
    version = ended(phase="Failed", required=(terminated(), unstarted))
    verdict = certify(version, NODE, started=frozenset({"app"}), runs_known=True)
    assert isinstance(verdict, Certificate)
    assert verdict.kind is CertificateKind.ENDED
    assert "1 of 2 containers terminated, sidecar never started, last finished at 2026" in verdict.statement


@pytest.mark.parametrize(
    "other",
    [
        running("sidecar"),
        ContainerView(name="sidecar", phase=ContainerPhase.ABSENT),
        terminated("sidecar", container_id="", finished_at=""),
        terminated("sidecar", container_id="", reason="ContainerStatusUnknown"),
    ],
    ids=["running", "absent", "ended without id", "unknown with an end"],
)
def test_only_an_entry_that_tells_of_no_run_counts_as_never_started(other: ContainerView) -> None:
    version = ended(required=(terminated(), other))
    assert isinstance(certify(version, NODE, started=frozenset({"app"}), runs_known=True), Unproven)


@pytest.mark.parametrize("unstarted", [UNKNOWN, WAITING], ids=["ContainerStatusUnknown", "waiting"])
def test_container_that_showed_a_run_is_not_taken_for_one_that_never_started(unstarted: ContainerView) -> None:
    version = ended(required=(terminated(), unstarted))
    for started, birth in ((frozenset({"app", "sidecar"}), True), (frozenset({"app"}), False)):
        assert isinstance(certify(version, NODE, started=started, runs_known=birth), Unproven)
    shown_now = replace(version, started_containers=frozenset({"app", "sidecar"}))
    assert isinstance(certify(shown_now, NODE, started=frozenset({"app"}), runs_known=True), Unproven)


def test_pod_whose_init_container_ran_ended_and_did_not_never_run() -> None:
    init = terminated("init", finished_at="2026-11-21T09:00:00Z")
    version = never_started(inits=(init,), started_containers=frozenset({"init"}))
    verdict = certify(version, NODE, started=frozenset({"init"}), runs_known=True)
    assert isinstance(verdict, Certificate)
    assert verdict.kind is CertificateKind.ENDED
    assert "0 of 1 containers terminated, app never started, last finished at 2026-11-21T09:00:00Z" in verdict.statement


def test_init_container_is_asked_where_a_container_after_it_never_started() -> None:
    lost = replace(UNKNOWN, name="init")
    absent = ContainerView(name="init", phase=ContainerPhase.ABSENT)
    for init in (lost, running("init"), absent):
        never = never_started(inits=(init,), started_containers=frozenset({"init"}))
        assert isinstance(certify(never, NODE, started=frozenset(), runs_known=True), Unproven)
        assert isinstance(judged(ended(inits=(init,))), Certificate)


def test_pod_that_was_rejected_has_no_entries_and_proves_nothing_even_from_birth() -> None:
    """A kubelet that rejects what runs under the one before it writes the same (Kubelet.rejectPod)."""
    absent = ContainerView(name="app", phase=ContainerPhase.ABSENT)
    refusal = judged(never_started(required=(absent,)), ever=False, birth=True)
    assert isinstance(refusal, Unproven)
    assert refusal.reason is RefusalReason.CONTAINER_ABSENT


@pytest.mark.parametrize(
    ("version", "node", "reason"),
    [
        (pod_version(), NODE, "NotTerminal"),
        (ended(disruption_reason="DeletionByPodGC"), NODE, "PodGarbageCollector"),
        (ended(phase_manager="kube-controller-manager"), NODE, "PodGarbageCollector"),
        (ended(phase_has_statuses=False), NODE, "OtherWriter"),
        (ended(host_pid=True), NODE, "HostPID"),
        (ended(is_peer_pod=True), NODE, "NodeVirtual"),
        (ended(), None, "NodeUnreadable"),
        (ended(), replace(NODE, is_virtual=True), "NodeVirtual"),
        (ended(), replace(NODE, is_out_of_service=True), "NodeOutOfService"),
        (ended(), replace(NODE, created_at_s=NOW_S), "NodeReplaced"),
        (ended(), replace(NODE, kubelet_minor=26), "OldKubelet"),
        (ended(required=()), NODE, "NoContainers"),
        (ended(required=(ContainerView(name="app", phase=ContainerPhase.ABSENT),)), NODE, "ContainerAbsent"),
        (ended(required=(running(),)), NODE, "ContainerNotEnded"),
        (ended(required=(UNKNOWN,)), NODE, "ContainerLost"),
        (ended(required=(terminated(finished_at=""),)), NODE, "EndIncomplete"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_each_refusal_has_its_word(version: PodVersion, node: NodeView | None, reason: str) -> None:
    verdict = judged(version, node)
    assert isinstance(verdict, Unproven)
    assert verdict.reason == reason


def test_unbound_pod_whose_object_is_gone_never_ran() -> None:
    version = pod_version(node_name="", phase="Pending", required=(), started_containers=frozenset())
    assert isinstance(certify_unbound(version, ever_bound=False), Certificate)


@pytest.mark.parametrize(("node_name", "bound"), [("", True), ("n1", False)], ids=["before", "at the end"])
def test_pod_that_was_ever_bound_is_not_certified_by_its_deletion(node_name: str, bound: bool) -> None:
    version = pod_version(node_name=node_name, phase="Pending", required=(), started_containers=frozenset())
    assert isinstance(certify_unbound(version, ever_bound=bound), Unproven)
