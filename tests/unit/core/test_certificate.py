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


def never_started(**changes: Any) -> PodVersion:
    values = {
        "phase": "Failed", "started_containers": frozenset(),
        "required": (terminated(container_id="", finished_at="", reason="ContainerStatusUnknown"),),
    }  # fmt: skip
    return ended(**(values | changes))


def beside(last: ContainerView) -> PodVersion:
    return ended(required=(terminated(), last))


ABSENT = ContainerView(name="app", phase=ContainerPhase.ABSENT)
UNKNOWN = terminated("sidecar", container_id="", finished_at="", reason="ContainerStatusUnknown")
WAITING = ContainerView(name="sidecar", phase=ContainerPhase.WAITING, reason="ContainerCreating")
REFUSALS: dict[str, tuple[PodVersion, NodeView | None, str, str]] = {
    # A crash-looping pod shows `terminated` for the run before; only the phase rule tells (seen on a real kubelet).
    **{f"phase {p!r}": (ended(phase=p), NODE, "NotTerminal", "phase") for p in ("Running", "Pending", "Unknown", "")},
    "still running": (pod_version(), NODE, "NotTerminal", "phase"),
    # `all([])` is true; an absent entry is not a terminated one.
    "empty status list": (ended(required=(ABSENT,)), NODE, "ContainerAbsent", "absent"),
    "no container is named": (ended(required=()), NODE, "NoContainers", ""),
    "one container runs": (beside(running("sidecar")), NODE, "ContainerNotEnded", ""),
    "one container waits": (
        beside(ContainerView(name="debug", phase=ContainerPhase.WAITING)), NODE, "ContainerNotEnded", "",
    ),
    "no containerID": (beside(terminated("sidecar", container_id="")), NODE, "EndIncomplete", ""),
    "no finishedAt": (beside(terminated("sidecar", finished_at="")), NODE, "EndIncomplete", ""),
    "ContainerStatusUnknown": (beside(terminated("sidecar", reason="ContainerStatusUnknown")), NODE, "ContainerLost", ""),
    "lost": (ended(required=(UNKNOWN,)), NODE, "ContainerLost", ""),
    # PodGC sets Failed on pods of vanished nodes (KEP-3329); no kubelet has spoken.
    "PodGC": (ended(disruption_reason="DeletionByPodGC"), NODE, "PodGarbageCollector", "garbage collector"),
    "hostPID": (ended(host_pid=True), NODE, "HostPID", ""),
    "peer pod": (ended(is_peer_pod=True), NODE, "NodeVirtual", ""),
    "node unreadable": (ended(), None, "NodeUnreadable", ""),
    "virtual kubelet": (ended(), replace(NODE, is_virtual=True), "NodeVirtual", ""),
    "node replaced": (ended(), replace(NODE, created_at_s=NOW_S), "NodeReplaced", ""),
    "kubelet 1.26": (ended(), replace(NODE, kubelet_minor=26, kubelet_version="v1.26.9"), "OldKubelet", ""),
    "unknown kubelet": (ended(), replace(NODE, kubelet_minor=None), "OldKubelet", ""),
}  # fmt: skip


@pytest.mark.parametrize(("version", "node", "reason", "clause"), REFUSALS.values(), ids=REFUSALS.keys())
def test_each_refusal_has_its_word(version: PodVersion, node: NodeView | None, reason: str, clause: str) -> None:
    verdict = judged(version, node)
    assert isinstance(verdict, Unproven)
    assert verdict.reason == reason
    assert clause in verdict.clause


@pytest.mark.parametrize(
    ("changes", "node", "reason", "clause"),
    [
        # PodGCController.gcTerminating fails pods of out-of-service nodes without a condition, over a stale
        # `terminated`; up to 1.26 under the name PodGC. Only managedFields tell.
        *(
            ({"phase_manager": m}, NODE, "PodGarbageCollector", f"written by {m}")
            for m in ("kube-controller-manager", "PodGC")
        ),
        # Kueue's failure recovery patches `phase: Failed` on pods of unreachable nodes, over what a kubelet said before.
        ({"phase_manager": "kueue", "phase_has_statuses": False}, NODE, "OtherWriter", "written by kueue"),
        # The taint is a word that nothing runs there, and PodGC acts on it; the node may run on (KEP-2268).
        ({}, replace(NODE, is_out_of_service=True), "NodeOutOfService", "out of service"),
    ],
    ids=["controller manager", "PodGC of 1.26", "Kueue", "node out of service"],
)
def test_what_is_no_evidence_of_an_end_is_none_of_a_pod_that_never_ran(
    changes: dict[str, Any], node: NodeView, reason: str, clause: str
) -> None:
    failed = ended(**({"phase": "Failed"} | changes))
    for verdict in (judged(failed, node), judged(never_started(**changes), node, ever=False, birth=True)):
        assert isinstance(verdict, Unproven)
        assert (verdict.reason, clause in verdict.clause) == (reason, True)


@pytest.mark.parametrize(
    ("version", "node"),
    [
        (ended(phase="Failed"), NODE),
        # k3s and MicroK8s run kubelet and controllers as one program under one name.
        *((ended(phase_manager=manager), NODE) for manager in ("kubelet", "k3s", "kubelite")),
        (ended(disruption_reason="EvictionByEvictionAPI"), NODE),
        (ended(), replace(NODE, kubelet_minor=27, kubelet_version="v1.27.0")),
    ],
    ids=["Failed", "kubelet", "k3s", "kubelite", "other disruption", "kubelet 1.27"],
)
def test_the_kubelets_word_is_believed(version: PodVersion, node: NodeView) -> None:
    assert isinstance(judged(version, node), Certificate)


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


def test_pod_that_never_showed_a_container_id_since_birth_never_ran() -> None:
    """An image that was never pulled: Failed, `ContainerStatusUnknown` without containerID (seen on a real kubelet)."""
    verdict = judged(never_started(), ever=False, birth=True)
    assert isinstance(verdict, Certificate)
    assert verdict.kind is CertificateKind.NEVER_RAN


@pytest.mark.parametrize(
    ("phase", "ever", "birth"), [("Failed", False, False), ("Failed", True, True), ("Pending", False, True)],
    ids=["its whole life was not watched", "a version showed a container id", "phase rule"],
)  # fmt: skip
def test_never_ran_needs_a_watched_life_no_container_id_and_the_phase_rule(phase: str, ever: bool, birth: bool) -> None:
    assert isinstance(judged(never_started(phase=phase), ever=ever, birth=birth), Unproven)


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
        replace(ABSENT, name="sidecar"),
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
    for init in (replace(UNKNOWN, name="init"), running("init"), replace(ABSENT, name="init")):
        never = never_started(inits=(init,), started_containers=frozenset({"init"}))
        assert isinstance(certify(never, NODE, started=frozenset(), runs_known=True), Unproven)
        assert isinstance(judged(ended(inits=(init,))), Certificate)


def test_pod_that_was_rejected_has_no_entries_and_proves_nothing_even_from_birth() -> None:
    """A kubelet that rejects what runs under the one before it writes the same (Kubelet.rejectPod)."""
    refusal = judged(never_started(required=(ABSENT,)), ever=False, birth=True)
    assert isinstance(refusal, Unproven)
    assert refusal.reason is RefusalReason.CONTAINER_ABSENT


def test_unbound_pod_whose_object_is_gone_never_ran() -> None:
    version = pod_version(node_name="", phase="Pending", required=(), started_containers=frozenset())
    assert isinstance(certify_unbound(version, ever_bound=False), Certificate)


@pytest.mark.parametrize(("node_name", "bound"), [("", True), ("n1", False)], ids=["before", "at the end"])
def test_pod_that_was_ever_bound_is_not_certified_by_its_deletion(node_name: str, bound: bool) -> None:
    version = pod_version(node_name=node_name, phase="Pending", required=(), started_containers=frozenset())
    assert isinstance(certify_unbound(version, ever_bound=bound), Unproven)
