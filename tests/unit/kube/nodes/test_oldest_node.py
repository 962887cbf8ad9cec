"""Which Node says whether every kubelet can read what pods of a Deployment need."""

from __future__ import annotations

from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.problem import problem_of
from unit.kube.nodes import test_node_store as nodes
from unit.kube.raw_objects import Json


def node(name: str, version: str = "v1.36.3") -> Json:
    raw = nodes.node(name, version=version)
    raw["metadata"]["uid"] = f"uid-{name}"
    return raw


def oldest(*versions: tuple[str, str]) -> str:
    store = NodeStore(on_change=lambda name: None)
    for name, version in versions:
        store.changed(node(name, version), is_deleted=False)
    found = store.oldest()
    return found.name if found is not None else ""


def test_the_oldest_kubelet_counts_whatever_the_order() -> None:
    assert oldest(("a", "v1.36.3"), ("b", "v1.9.1"), ("c", "v1.35.0")) == "b"
    assert oldest(("b", "v1.34.0"), ("a", "v1.36.3")) == "b"


def test_a_kubelet_of_an_unknown_version_counts_as_older() -> None:
    assert oldest(("a", "v1.30.0"), ("b", "odd")) == "b"


def test_a_virtual_node_counts_before_all_others_whatever_version_it_shows() -> None:
    store = NodeStore(on_change=lambda name: None)
    virtual = node("v", "v1.99.0")
    virtual["metadata"]["labels"] = {"type": "virtual-kubelet"}
    for raw in (node("a", "v1.30.0"), virtual):
        store.changed(raw, is_deleted=False)
    found = store.oldest()
    assert found is not None
    assert (found.name, found.is_virtual) == ("v", True)


def test_of_nodes_that_are_gone_or_may_not_be_read_none_counts() -> None:
    store = NodeStore(on_change=lambda name: None)
    assert store.oldest() is None
    store.changed(node("a"), is_deleted=False)
    store.changed(node("b", "v1.30.0"), is_deleted=False)
    store.changed(node("b", "v1.30.0"), is_deleted=True)
    found = store.oldest()
    assert found is not None
    assert found.name == "a"
    store.readable(problem_of(403, verb="list", resource="nodes", namespace=""))
    assert store.oldest() is None
