"""The book folds versions to the same incarnations, however they arrive."""

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.evidence.pod import NodeView
from unit.core.builders import pod_version
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.raw_objects import NODE, born, composed, ended, finished, pod, running


def test_graceful_end_is_certified_ended() -> None:
    book = make_book()
    see(book, pod(), 1)
    see(book, finished(), 2)
    last = see(book, finished(), 3, deleted=True)
    assert (last.state, last.object_present) == (IncarnationState.DEAD, False)
    assert last.certificate is not None
    assert (last.certificate.kind, last.certificate.resource_version) == (CertificateKind.ENDED, 2)


def test_force_deleted_running_pod_is_a_suspect() -> None:
    book = make_book()
    see(book, pod(), 1)
    assert see(book, pod(), 2, deleted=True).state is IncarnationState.SUSPECT


def test_vanish_without_a_certificate_tells_its_reason_once() -> None:
    book = make_book()
    see(book, pod(), 1)
    first = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    again = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    assert (first.refusal_reason, again.refusal_reason) == ("NotTerminal", "")
    see(book, pod("web-1", uid="other"), 3)
    (absent,) = book.take_absent("", {}, 4)
    assert absent.refusal_reason == "NotTerminal"
    assert book.take(at_version(finished("web-2", uid="good"), 5), is_deleted=True, in_order=True).refusal_reason == ""


def test_end_of_a_pod_that_belongs_to_no_staticgroup_is_not_told() -> None:
    book = make_book(is_managed=lambda namespace, name: False)
    assert book.take(at_version(pod(), 2), is_deleted=True, in_order=True).refusal_reason == ""


def test_stale_terminated_status_of_a_crash_loop_is_no_certificate() -> None:
    """lab-kubernetes 11: deletionTimestamp, phase Running and a stale terminated state come first."""
    book = make_book()
    stale = pod(phase="Running", statuses=[ended(reason="Error")], deletionTimestamp="2026-01-01T00:00:30Z")
    assert see(book, stale, 1).state is IncarnationState.LIVE
    assert see(book, stale, 2, deleted=True).state is IncarnationState.SUSPECT


def test_image_never_pulled_is_certified_only_when_known_from_birth() -> None:
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    seen = see(book, unpulled, 2)
    assert seen.certificate is not None
    assert seen.certificate.kind is CertificateKind.NEVER_RAN
    assert see(make_book(), unpulled, 2).state is IncarnationState.LIVE


def test_what_ran_in_the_pods_of_a_workload_is_remembered_once_for_all_of_them() -> None:
    """A hundred thousand pods with sidecars may not cost a tuple each."""
    book = make_book()
    statuses = [running(), running("side"), running("third")]
    for number in range(3):
        see(book, pod(f"web-{number}", uid=f"u{number}", statuses=statuses), 10 + number)
    shared = [r._started for r in book.records.in_scope("")]
    assert shared[0] == ("app", "side", "third")
    assert shared[0] is shared[1] is shared[2]


def test_list_ahead_of_the_watch_ends_the_knowledge_from_birth() -> None:
    """The skipped versions may have shown a container."""
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    assert see(book, unpulled, 5, listed=True).state is IncarnationState.LIVE
    assert see(book, pod(), 3).started_containers == {"app"}


def test_sidecar_still_running_withholds_the_certificate() -> None:
    raw = finished()
    raw["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    raw["status"]["initContainerStatuses"] = [running("proxy")]
    assert see(make_book(), raw, 1).state is IncarnationState.LIVE
    raw["status"]["initContainerStatuses"] = [ended("proxy")]
    assert see(make_book(), raw, 1).state is IncarnationState.DEAD


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


def test_ids_of_an_incarnation_that_is_only_remembered_are_not_fixed() -> None:
    book = make_book()
    entry = replace(see(make_book(), composed(born()), 1), resource_version=1)
    book.merge([replace(entry, ids_are_fixed=False)], complete_until=lambda namespace: 0)
    assert not see(book, composed(pod()), 2).ids_are_fixed


def test_terminal_version_waits_for_the_facts_of_its_node() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(), 2)
    assert see(book, finished(), 3, deleted=True).state is IncarnationState.SUSPECT
    nodes["node-a"] = NODE
    changes = book.take_node("node-a")
    assert [(c.record.state, c.record.object_present) for c in changes] == [(IncarnationState.DEAD, False)]
    assert book.take_node("node-a") == []


def test_version_that_waited_for_its_node_over_a_gap_is_no_sight_of_its_object_after_it() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(), 2)
    book.next_era("")
    nodes["node-a"] = NODE
    assert [c.record.seen_in for c in book.take_node("node-a")] == [0]
    see(book, finished(), 2, listed=True)
    assert [r.seen_in for r in book.records.in_scope("")] == [1]


def test_object_that_only_a_status_names_was_seen_by_nobody_here() -> None:
    book = make_book()
    see(book, pod(), 2)
    known = book.records.get("uid-0")
    assert known is not None
    entry = replace(known.incarnation(), uid="uid-1", resource_version=1)
    book.merge([entry], complete_until=lambda namespace: 0)
    merged = book.records.get("uid-1")
    assert merged is not None
    assert (merged.seen_in, merged.state) == (-1, IncarnationState.LIVE)
    book.merge([replace(entry, uid="uid-2")], complete_until=lambda namespace: 5)
    gone = book.records.get("uid-2")
    assert gone is not None
    assert gone.state is IncarnationState.SUSPECT


def test_when_a_pod_was_made_is_learnt_of_one_that_was_known_as_a_seat_only() -> None:
    """A status tells of who sits where, and not since when, and what a node shows says nothing of a pod that may be older than it."""
    told = replace(see(make_book(), pod(), 1), created_at_s=0.0, resource_version=0)
    book = make_book()
    book.merge([told], complete_until=lambda namespace: 0)
    assert see(book, pod(), 2).created_at_s == at_version(pod(), 2).created_at_s > 0
    late = make_book()
    see(late, pod(), 3)
    late.merge([told], complete_until=lambda namespace: 3)
    assert see(late, pod(), 4, deleted=True).created_at_s > 0


def test_old_kubelet_never_certifies() -> None:
    book = make_book({"node-a": replace(NODE, kubelet_minor=26, kubelet_version="v1.26.0")})
    assert see(book, finished(), 2).state is IncarnationState.LIVE
    assert book.take_node("node-a") == []


def test_unbound_pod_is_certified_when_its_deletion_was_delivered_and_not_when_a_list_lacks_it() -> None:
    book = make_book()
    see(book, born(), 1)
    assert see(book, born(), 2, deleted=True).state is IncarnationState.DEAD
    other = make_book()
    see(other, born(), 1)
    assert [c.record.state for c in other.take_absent("", {}, 2)] == [IncarnationState.SUSPECT]


def test_restored_object_voids_its_certificate() -> None:
    """A kubelet runs a pod object that comes back with a restored etcd."""
    book = make_book()
    see(book, finished(), 90, deleted=True)
    book.forget_versions(0)
    change = book.take_after_restore(at_version(pod(), 40))
    seen = change.record.incarnation()
    assert (seen.state, seen.certificate, seen.object_present, seen.resource_version) == (IncarnationState.LIVE, None, True, 40)


def test_ledger_of_an_earlier_process_is_kept_and_an_unknown_live_entry_becomes_a_suspect() -> None:
    earlier = make_book()
    live = see(earlier, pod(uid="a"), 1)
    see(earlier, pod(uid="b"), 2)
    suspect = see(earlier, pod(uid="b"), 3, deleted=True)
    dead = see(earlier, finished(uid="c"), 4, deleted=True)
    book = make_book()
    book.merge([live, suspect, dead], complete_until=lambda namespace: 0)
    book.take_absent("", {}, 10)
    chain = {i.uid: i.state for i in book.records.chain("shop", ["web-0"], [])}
    assert chain == {"a": IncarnationState.SUSPECT, "b": IncarnationState.SUSPECT, "c": IncarnationState.DEAD}


def test_ledger_entry_ahead_of_the_watch_is_not_taken_for_gone() -> None:
    """A standby merges what the active replica wrote about a pod that its own watch has yet to show."""
    live = see(make_book(), pod(), 9)
    book = make_book()
    book.merge([live], complete_until=lambda namespace: 8)
    assert see(book, pod(), 9).state is IncarnationState.LIVE
    behind = make_book()
    behind.merge([live], complete_until=lambda namespace: 9)
    assert [i.state for i in behind.records.chain("shop", ["web-0"], [])] == [IncarnationState.SUSPECT]


@pytest.mark.parametrize(
    "changes", [{"restart_count": 1}, {"ids_are_fixed": False}, {"session_timeouts_ms": (7_000,)}], ids=lambda changes: next(iter(changes))
)
def test_whatever_is_remembered_of_a_pod_that_lives_is_worth_a_look(changes: dict[str, Any]) -> None:
    """A helper without an id that is started again so quickly that its pod stays Ready, an ephemeral container that reads an annotation,
    an annotation that is edited before the container starts: a StaticGroup at rest would not hear of it for five minutes.
    """
    book, known = make_book(), {"ids_are_fixed": True, "started_containers": frozenset[str]()}
    book.take(pod_version(resource_version=1, **known), is_deleted=False, in_order=True)
    assert not book.take(pod_version(resource_version=2, **known), is_deleted=False, in_order=True).is_visible
    assert book.take(pod_version(resource_version=3, **(known | changes)), is_deleted=False, in_order=True).is_visible
