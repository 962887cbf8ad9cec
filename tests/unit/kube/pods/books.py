"""Make books and show them raw pods."""

from typing import Any

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.kube.pods.book import PodBook
from staticgroup.kube.translate import pod_version
from support.narrowing import of_type
from unit.kube.raw_objects import NODE, at


def at_version(raw: dict[str, Any], resource_version: int) -> PodVersion:
    found = of_type(PodVersion, pod_version(at(raw, resource_version)))
    return found


def make_book(nodes: dict[str, NodeView] | None = None, **rest: Any) -> PodBook:
    known = {"node-a": NODE} if nodes is None else nodes
    return PodBook(node_of=known.get, now_s=lambda: 50.0, is_managed=rest.pop("is_managed", lambda ns, n: True), **rest)


def see(book: PodBook, raw: dict[str, Any], resource_version: int, *, deleted: bool = False, listed: bool = False) -> KnownPod:
    change = book.take(at_version(raw, resource_version), is_deleted=deleted, in_order=not listed)
    return change.pod
