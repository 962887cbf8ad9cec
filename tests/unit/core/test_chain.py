"""What is known of one pod: its versions folded into one value."""

from __future__ import annotations

from dataclasses import replace

from staticgroup.core.evidence.chain import KnownPod, PodState, fold, vanish

from .builders import NODE, NOW_S, ended, id_of, known_pod, pod_version, terminated

DEAD, LIVE, SUSPECT = PodState.DEAD, PodState.LIVE, PodState.SUSPECT


def folded(*versions: object, birth: bool = True) -> KnownPod:
    known: KnownPod | None = None
    for version in versions:
        known = fold(known, version, NODE, from_birth=birth, now_s=NOW_S)
    assert known is not None
    return known


def test_graceful_end_folds_to_dead_and_stays_dead_when_the_object_goes() -> None:
    life = folded(pod_version(), pod_version(resource_version=105, is_deleting=True), ended())
    assert life.state is DEAD
    gone = vanish(life, now_s=NOW_S + 1)
    assert (gone.state, gone.object_present) == (DEAD, False)
    assert gone.certificate == life.certificate


def test_force_delete_makes_a_suspect_that_names_what_was_last_seen() -> None:
    gone = vanish(folded(pod_version()), now_s=NOW_S)
    assert gone.state is SUSPECT
    assert "phase is Running" in gone.refusal
    assert gone.refusal_reason == "NotTerminal"


def test_run_of_each_container_is_remembered_over_versions() -> None:
    """The statuses of a container that the kubelet lost show none of its runs any more."""
    both = pod_version(started_containers=frozenset({"app", "sidecar"}))
    life = folded(both, pod_version(resource_version=105, started_containers=frozenset({"app"})))
    assert life.started_containers == {"app", "sidecar"}
    lost = terminated("sidecar", container_id="", finished_at="", reason="ContainerStatusUnknown")
    assert fold(life, ended(required=(terminated(), lost)), NODE, from_birth=True, now_s=NOW_S).state is LIVE
    alone = folded(pod_version(), ended(required=(terminated(), lost)))
    assert (alone.state, alone.refusal, alone.refusal_reason) == (DEAD, "", "")


def test_pod_whose_end_nobody_saw_says_so() -> None:
    unseen = vanish(known_pod(refusal=""), now_s=NOW_S)
    assert (unseen.refusal_reason, unseen.refusal) == ("EndUnseen", "its object vanished uncertified: its end was not seen")


def test_certificate_is_never_taken_back_by_a_later_version() -> None:
    assert folded(pod_version(), ended(), pod_version(resource_version=120)).state is DEAD


def test_certificate_given_before_a_taint_outlives_it_and_none_is_given_under_it() -> None:
    """What a kubelet has proven stays proven when its node is tainted out-of-service later; a new end proves nothing."""
    taint = replace(NODE, is_out_of_service=True)
    before = fold(folded(pod_version(), ended()), ended(resource_version=120), taint, from_birth=True, now_s=NOW_S)
    under = fold(folded(pod_version()), ended(), taint, from_birth=True, now_s=NOW_S)
    assert (before.state, under.state) == (DEAD, LIVE)
    assert vanish(under, now_s=NOW_S).state is SUSPECT


def test_failed_of_the_out_of_service_path_of_podgc_ends_as_a_suspect() -> None:
    """A crash's stale `terminated`, then PodGC's Failed without a reason, then its deletion with grace 0."""
    crashed = pod_version(required=(terminated(),))
    failed = ended(phase="Failed", phase_manager="kube-controller-manager")
    gone = vanish(folded(pod_version(), crashed, failed), now_s=NOW_S)
    assert gone.state is SUSPECT
    assert "written by kube-controller-manager" in gone.refusal


def test_ids_only_accumulate_so_an_edited_annotation_cannot_hide_a_pod() -> None:
    life = folded(pod_version(), pod_version(resource_version=101, instance_ids=frozenset({"other"})))
    assert life.instance_ids == {id_of(2), "other"}


def test_pod_that_is_seen_again_after_its_absence_is_alive() -> None:
    back = fold(
        vanish(folded(pod_version()), now_s=NOW_S), pod_version(resource_version=130), NODE, from_birth=False,
        now_s=NOW_S,
    )
    assert (back.state, back.object_present) == (LIVE, True)


def test_unbound_pod_is_certified_only_when_the_watch_delivered_its_deletion() -> None:
    """Where only the absence is known, it may have been bound and have run unseen."""
    last = pod_version(node_name="", phase="Pending", required=(), started_containers=frozenset())
    assert vanish(folded(last), now_s=NOW_S).state is SUSPECT
    assert vanish(folded(last), last=last, now_s=NOW_S).state is DEAD
    assert vanish(folded(pod_version(), last), last=last, now_s=NOW_S).state is SUSPECT


def test_ids_are_fixed_only_while_they_were_so_in_all_versions() -> None:
    fixed = pod_version(ids_are_fixed=True)
    assert folded(fixed, replace(fixed, resource_version=101)).ids_are_fixed
    edited = pod_version(resource_version=101)
    assert not folded(fixed, edited).ids_are_fixed
    assert not folded(edited, replace(fixed, resource_version=102)).ids_are_fixed
    assert not folded(fixed, edited, replace(fixed, resource_version=102)).ids_are_fixed
