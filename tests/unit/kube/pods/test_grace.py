"""What the book keeps of how a kubelet will end a pod, whatever way its versions come, and which Node it ran on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.status.memory import _entry, _incarnation_from
from staticgroup.kube.pods.book import IncarnationBook
from unit.core.builders import incarnation, pod_version

ASKED: dict[str, Any] = {"is_deleting": True, "deletion_grace_s": 3600, "deletion_at_s": 3650.0}
NODE = NodeView(name="n1", uid="node-1", kubelet_minor=36)


def book(**nodes: NodeView) -> IncarnationBook:
    return IncarnationBook(node_of=nodes.get, now_s=lambda: 50.0, is_managed=lambda namespace, name: True)


def kept(known: IncarnationBook) -> Incarnation:
    record = known.records.get("u2")
    assert record is not None
    return record.incarnation()


def version(resource_version: int, **changes: Any) -> Any:
    return pod_version(2, "u2", resource_version, grace_s=30, **changes)


def test_a_longer_grace_of_an_older_version_counts_whenever_it_comes() -> None:
    known = book()
    known.take(version(9), is_deleted=False, in_order=True)
    known.take(version(8, **ASKED), is_deleted=False, in_order=False)
    assert kept(known).grace_s == 3600
    known.take(version(7, is_mirror=True), is_deleted=False, in_order=False)
    assert kept(known).reap_doubt == "MirrorPod"


def test_of_what_two_processes_know_the_longer_grace_and_the_stronger_doubt_count() -> None:
    lost = incarnation(uid="u2", state=IncarnationState.SUSPECT, object_present=False, grace_s=3600, reap_doubt="MirrorPod")
    known = book(n1=NODE)
    known.take(version(9), is_deleted=False, in_order=True)
    known.take(version(10), is_deleted=True, in_order=True)
    known.merge([lost], complete_until=lambda namespace: 0)
    assert (kept(known).grace_s, kept(known).reap_doubt, kept(known).node_uid) == (3600, "MirrorPod", "node-1")
    known.merge([replace(lost, grace_s=5, reap_doubt="EndUnseen")], complete_until=lambda namespace: 0)
    assert (kept(known).grace_s, kept(known).reap_doubt) == (3600, "MirrorPod")


def test_a_deletion_that_a_list_shows_first_may_have_been_asked_for_with_more_patience_before() -> None:
    """Its kubelet may have heard that one."""
    known = book()
    known.take(version(8), is_deleted=False, in_order=True)
    known.take(version(9, **ASKED | {"deletion_grace_s": 10}), is_deleted=False, in_order=False)
    known.take(version(10, **ASKED | {"deletion_grace_s": 0}), is_deleted=True, in_order=True)
    assert kept(known).reap_doubt == "EndUnseen"
    seen = book()
    seen.take(version(8, **ASKED), is_deleted=False, in_order=True)
    seen.take(version(9, **ASKED | {"deletion_grace_s": 10}), is_deleted=False, in_order=False)
    seen.take(version(10, **ASKED | {"deletion_grace_s": 0}), is_deleted=True, in_order=True)
    assert (kept(seen).reap_doubt, kept(seen).grace_s) == ("", 3600)


def test_the_node_object_of_a_pod_is_known_when_it_is_lost_at_the_latest() -> None:
    nodes: dict[str, NodeView] = {}
    known = IncarnationBook(node_of=nodes.get, now_s=lambda: 50.0, is_managed=lambda namespace, name: True)
    known.take(version(8), is_deleted=False, in_order=True)
    assert kept(known).node_uid == ""
    nodes["n1"] = NODE
    known.take_absent("", {}, 20)
    assert kept(known).node_uid == "node-1"


def test_what_a_node_is_judged_by_survives_in_a_status() -> None:
    lost = incarnation(
        uid="u2", state=IncarnationState.SUSPECT, object_present=False, grace_s=3600, reap_doubt="MirrorPod", node_uid="node-1",
        bound_at_s=40.0, created_at_s=30.0,
    )
    back = _incarnation_from("shop", _entry(lost, "shop"))
    facts = ("grace_s", "reap_doubt", "node_uid", "bound_at_s", "created_at_s")
    assert [getattr(back, k) for k in facts] == [getattr(lost, k) for k in facts]
