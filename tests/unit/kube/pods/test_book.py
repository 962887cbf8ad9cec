"""What the book makes of the versions of a pod: live, ended or a suspect, and which of it decisions can see."""

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import NodeView
from unit.core.builders import pod_version
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.raw_objects import NODE, born, composed, ended, finished, pod, running


def test_graceful_end_is_certified_ended() -> None:
    book = make_book()
    see(book, pod(), 1)
    see(book, finished(), 2)
    last = see(book, finished(), 3, deleted=True)
    assert (last.state, last.object_present) == (PodState.DEAD, False)
    assert last.certificate is not None
    assert (last.certificate.kind, last.certificate.resource_version) == (CertificateKind.ENDED, 2)


def test_force_deleted_running_pod_is_a_suspect() -> None:
    book = make_book()
    see(book, pod(), 1)
    assert see(book, pod(), 2, deleted=True).state is PodState.SUSPECT


def test_vanish_without_a_certificate_shows_its_reason_once() -> None:
    book = make_book()
    see(book, pod(), 1)
    first = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    again = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    assert (first.refusal_reason, again.refusal_reason) == ("NotTerminal", "")
    see(book, pod("web-1", uid="other"), 3)
    (absent,) = book.take_absent("", {}, 4)
    assert absent.refusal_reason == "NotTerminal"
    assert book.take(at_version(finished("web-2", uid="good"), 5), is_deleted=True, in_order=True).refusal_reason == ""


def test_end_of_a_pod_that_belongs_to_no_staticgroup_is_not_reported() -> None:
    book = make_book(is_managed=lambda namespace, name: False)
    assert book.take(at_version(pod(), 2), is_deleted=True, in_order=True).refusal_reason == ""


def test_stale_terminated_status_of_a_crash_loop_is_no_certificate() -> None:
    """lab-kubernetes 11: deletionTimestamp, phase Running and a stale terminated state come first."""
    book = make_book()
    stale = pod(phase="Running", statuses=[ended(reason="Error")], deletionTimestamp="2026-01-01T00:00:30Z")
    assert see(book, stale, 1).state is PodState.LIVE
    assert see(book, stale, 2, deleted=True).state is PodState.SUSPECT


def test_image_never_pulled_is_certified_only_when_known_from_birth() -> None:
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    seen = see(book, unpulled, 2)
    assert seen.certificate is not None
    assert seen.certificate.kind is CertificateKind.NEVER_RAN
    assert see(make_book(), unpulled, 2).state is PodState.LIVE


def test_what_ran_in_the_pods_of_a_workload_is_remembered_once_for_all_of_them() -> None:
    """A hundred thousand pods with sidecars may not cost a set each."""
    book = make_book()
    statuses = [running(), running("side"), running("third")]
    for number in range(3):
        see(book, pod(f"web-{number}", uid=f"u{number}", statuses=statuses), 10 + number)
    shared = [found.started_containers for found in book.index.in_scope("")]
    assert shared[0] == {"app", "side", "third"}
    assert shared[0] is shared[1] is shared[2]


def test_list_ahead_of_the_watch_ends_the_knowledge_from_birth() -> None:
    """The skipped versions may have shown a container."""
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    assert see(book, unpulled, 5, listed=True).state is PodState.LIVE
    assert see(book, pod(), 3).started_containers == {"app"}


def test_sidecar_still_running_withholds_the_certificate() -> None:
    raw = finished()
    raw["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    raw["status"]["initContainerStatuses"] = [running("proxy")]
    assert see(make_book(), raw, 1).state is PodState.LIVE
    raw["status"]["initContainerStatuses"] = [ended("proxy")]
    assert see(make_book(), raw, 1).state is PodState.DEAD


BY_ANNOTATION = "metadata.annotations['staticgroup.io/instance-id']"


def test_ids_are_fixed_when_they_are_in_every_version_that_was_folded() -> None:
    book = make_book()
    assert see(book, composed(born()), 1).ids_are_fixed
    assert see(book, composed(pod()), 2).ids_are_fixed
    debugged = composed(pod())
    debugged["spec"]["ephemeralContainers"] = [composed(pod(), reads=BY_ANNOTATION)["spec"]["containers"][0]]
    assert not see(book, debugged, 3).ids_are_fixed
    assert not see(book, composed(pod()), 4).ids_are_fixed


def test_ids_that_were_not_fixed_in_one_version_are_not_fixed_in_whatever_order_the_versions_come() -> None:
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1), (1, 3, 2)):
        book = make_book()
        for n in order:
            last = see(book, composed(pod(), reads=BY_ANNOTATION if n == 2 else "metadata.name"), n)
        assert not last.ids_are_fixed


@pytest.mark.parametrize("is_gone", [False, True])
def test_end_whose_node_is_not_known_counts_once_it_is_and_only_while_the_object_shows_it(is_gone: bool) -> None:
    """A version that is kept for later would outlive a restore of etcd, after which the pod may run again."""
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(), 2)
    if is_gone:
        assert see(book, finished(), 3, deleted=True).state is PodState.SUSPECT
    nodes["node-a"] = NODE
    if not is_gone:
        assert see(book, finished(), 2, listed=True).state is PodState.DEAD


def test_old_kubelet_never_certifies() -> None:
    book = make_book({"node-a": replace(NODE, kubelet_minor=26, kubelet_version="v1.26.0")})
    assert see(book, finished(), 2).state is PodState.LIVE


def test_unbound_pod_is_certified_when_its_deletion_was_delivered_and_not_when_a_list_lacks_it() -> None:
    book = make_book()
    see(book, born(), 1)
    assert see(book, born(), 2, deleted=True).state is PodState.DEAD
    other = make_book()
    see(other, born(), 1)
    assert [c.pod.state for c in other.take_absent("", {}, 2)] == [PodState.SUSPECT]


@pytest.mark.parametrize(
    "changes", [{"restart_count": 1}, {"ids_are_fixed": False}, {"session_timeouts_ms": (7_000,)}], ids=lambda changes: next(iter(changes))
)
def test_whatever_is_remembered_of_a_pod_that_lives_is_visible(changes: dict[str, Any]) -> None:
    """A helper without an id that is started again so quickly that its pod stays Ready, an ephemeral container that reads an annotation,
    an annotation that is edited before the container starts: a quiet StaticGroup would not see it for five minutes.
    """
    book, known = make_book(), {"ids_are_fixed": True, "started_containers": frozenset[str]()}
    book.take(pod_version(resource_version=1, **known), is_deleted=False, in_order=True)
    assert not book.take(pod_version(resource_version=2, **known), is_deleted=False, in_order=True).is_visible
    assert book.take(pod_version(resource_version=3, **(known | changes)), is_deleted=False, in_order=True).is_visible


def test_a_longer_grace_of_an_older_version_counts_whenever_it_comes() -> None:
    """Its kubelet may have received that one."""
    book = make_book()
    book.take(pod_version(resource_version=9, grace_s=30), is_deleted=False, in_order=True)
    asked = pod_version(resource_version=8, grace_s=30, is_deleting=True, deletion_grace_s=3600)
    assert book.take(asked, is_deleted=False, in_order=False).pod.grace_s == 3600


def lost(reason: str = "ContainerStatusUnknown") -> dict[str, Any]:
    """A pod of which the kubelet could not find the run before the present one."""
    ran = {"terminated": {"exitCode": 137, "reason": reason, "startedAt": None, "finishedAt": None}}
    return pod(statuses=[running() | {"restartCount": 1, "lastState": ran}])


@pytest.mark.parametrize("versions", [(1, 2), (2, 1)], ids=["newest", "late"])
def test_pod_of_which_a_run_was_lost_is_doubtful_although_it_is_there(versions: tuple[int, int]) -> None:
    book = make_book()
    see(book, pod(), versions[0])
    assert list(book.doubtful()) == []
    assert see(book, lost(), versions[1]).state is PodState.LIVE
    assert [i.uid for i in book.doubtful()] == ["uid-0"]
    see(book, pod(), 3, deleted=True)
    assert [i.uid for i in book.doubtful()] == ["uid-0"], "once"


def test_doubtful_are_suspects_and_no_pod_that_has_ended() -> None:
    book = make_book()
    see(book, pod("web-0", uid="forced"), 1)
    see(book, pod("web-0", uid="forced"), 2, deleted=True)
    see(book, finished("web-1", uid="ended"), 3, deleted=True)
    see(book, pod("web-2", uid="lives"), 4)
    assert [i.uid for i in book.doubtful()] == ["forced"]


def test_each_certificate_that_the_watch_brings_has_its_number() -> None:
    book = make_book()
    assert see(book, finished("web-0", uid="listed"), 1, listed=True).ended_no == 0
    ends = [see(book, finished(f"web-{n}", uid=f"u{n}"), 10 + n, deleted=True).ended_no for n in (1, 2)]
    assert (ends, book.ends) == ([1, 2], 2)
    assert see(book, finished("web-1", uid="u1"), 30, deleted=True).ended_no == 1, "it ended before"


@pytest.mark.parametrize("was_deleted", [False, True], ids=["ended", "deleted"])
def test_pod_that_lives_again_has_no_certificate_any_more_and_shows_that_it_is_back(was_deleted: bool) -> None:
    """A uid never comes back and a terminal phase is never left, so the API server went back in time."""
    book = make_book()
    see(book, finished(), 90, deleted=was_deleted)
    change = book.take(at_version(pod(), 91), is_deleted=False, in_order=True)
    seen = change.pod
    assert (change.is_back, seen.state, seen.certificate, seen.object_present, seen.since_s) == (True, PodState.LIVE, None, True, 50.0)
    assert see(book, pod(), 92, deleted=True).state is PodState.SUSPECT


@pytest.mark.parametrize(("raw", "version", "deleted"), [(pod(), 89, False), (pod(), 89, True), (finished(), 91, False), (pod(), 91, True)])
def test_what_everyday_watches_and_lists_repeat_of_an_ended_pod_is_nothing_that_is_back(raw: dict[str, Any], version: int, deleted: bool) -> None:
    book = make_book()
    see(book, finished(), 90)
    change = book.take(at_version(raw, version), is_deleted=deleted, in_order=True)
    assert (change.is_back, change.pod.state) == (False, PodState.DEAD)


def test_after_the_api_server_went_back_in_time_an_old_number_is_not_taken_for_an_old_version() -> None:
    book = make_book()
    see(book, finished("web-0", uid="u0"), 90, deleted=True)
    see(book, finished("pay-0", uid="p0", namespace="bill"), 91, deleted=True)
    book.forget_versions("shop")
    back = book.take(at_version(pod("web-0", uid="u0"), 40), is_deleted=False, in_order=False)
    assert (back.is_back, back.pod.state, back.pod.resource_version) == (True, PodState.LIVE, 40)
    other = book.take(at_version(pod("pay-0", uid="p0", namespace="bill"), 40), is_deleted=False, in_order=False)
    assert (other.is_back, other.pod.state) == (False, PodState.DEAD)


def test_a_list_leaves_alone_what_was_seen_in_a_newer_version_or_in_another_namespace() -> None:
    book = make_book()
    for name, version in (("web-0", 3), ("web-1", 5), ("web-2", 7)):
        see(book, pod(name, uid=name), version)
    see(book, pod("pay-0", uid="pay-0", namespace="bill"), 4)
    assert [c.pod.uid for c in book.take_absent("shop", {"web-0": 3}, 5)] == ["web-1"]
    assert book.contradiction("shop", {"web-0": 3}, 5) == ""
    assert "web-0" in book.contradiction("shop", {}, 5)


def test_deletion_in_the_version_that_was_seen_before_is_believed() -> None:
    """Real API servers give it a version of its own."""
    book = make_book()
    see(book, pod(), 5)
    assert see(book, pod(), 5, deleted=True).state is PodState.SUSPECT


@pytest.mark.parametrize("bound_to", ["", "node-b"], ids=["to none yet", "to another node"])
def test_pod_whose_binding_was_taken_back_may_run_on_its_first_node_whatever_the_second_one_says(bound_to: str) -> None:
    """A restored etcd has forgotten it."""
    book = make_book({"node-a": NODE, "node-b": replace(NODE, name="node-b", uid="node-b")})
    see(book, pod(), 50)
    book.forget_versions("")
    assert see(book, pod(node=bound_to, statuses=[]), 40, listed=True).has_lost_run
    assert [i.uid for i in book.doubtful()] == ["uid-0"]
    last = finished()
    last["spec"]["nodeName"] = "node-b"
    see(book, last, 51)
    assert see(book, last, 52, deleted=True).state is PodState.SUSPECT


@pytest.mark.parametrize("last", [pod(), finished()], ids=["changed", "ended"])
@pytest.mark.parametrize("deleted", [False, True])
def test_list_that_a_replay_has_overtaken_shows_nothing_that_is_back(last: dict[str, Any], deleted: bool) -> None:
    """A process that goes on LISTs beside its replay, which may have seen a pod end before the page is read that shows it."""
    for listed_at, is_back in ((85, False), (90, True)):
        book = make_book()
        see(book, last, 90, deleted=deleted)
        change = book.take(at_version(pod(), 80), is_deleted=False, in_order=False, listed_at=listed_at)
        assert change.is_back is is_back
