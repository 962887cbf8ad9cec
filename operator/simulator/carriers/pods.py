"""What the pod watch has brought of each pod, as one short text, and the product's own book of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, NodeView, PodVersion
from staticgroup.kube.pods.book import PodBook

NAMESPACE: Final = "shop"
POD: Final = "web-0"
SCOPE: Final = "3fa9c1d2"
ID: Final = f"{POD}.{SCOPE}"
BORN_S: Final = 1_000.0

Seen = tuple[tuple[int, str], ...]
"""By uid, ascending: what the watch or a LIST has shown of it, a letter each; see `after`."""
RUNS, LOST, ENDED, LISTED_ENDED, DELETED, ABSENT, BACK = "rldDgab"


def uid_of(number: int) -> str:
    """Return the uid of a pod by its number."""
    return f"u{number}"


def number_of(uid: str) -> int:
    """Return the number of a pod by its uid."""
    return int(uid[1:])


def after(seen: Seen, number: int, letter: str) -> Seen:
    """Add what was shown of one pod; what was shown before is not shown twice."""
    known = dict(seen)
    before = known.get(number, "")
    if (
        before.endswith(letter)
        or (letter == RUNS and before and before[-1] in "rlb")
        or (letter == LISTED_ENDED and before[-1:] == ENDED)
    ):
        return seen
    known[number] = before + letter
    return tuple(sorted(known.items()))


def is_there(text: str) -> bool:
    """True while the object exists, as far as was shown."""
    return bool(text) and text[-1] not in (DELETED, ABSENT)


def listed(seen: Seen, objects: Iterable[tuple[int, str]]) -> Seen:
    """Return what is known after a complete LIST.

    Parameters
    ----------
    objects: number and letters (RUNS, LOST, ENDED) of each pod that exists.
    """
    there = dict(objects)
    for number, text in seen:
        if number not in there and is_there(text):
            seen = after(seen, number, ABSENT)
    for number, letter in there.items():
        seen = after(seen, number, _as_listed(dict(seen).get(number, ""), letter))
    return seen


def _as_listed(before: str, letter: str) -> str:
    if letter.endswith(ENDED):
        return (LOST if LOST in letter and LOST not in before else "") + LISTED_ENDED
    is_back = bool(before) and (not is_there(before) or before[-1] in (ENDED, LISTED_ENDED))
    return BACK if is_back and letter == RUNS else letter


def contradicts(seen: Seen, objects: Iterable[tuple[int, str]]) -> bool:
    """True when a LIST shows alive what had ended or was gone: etcd was restored."""
    known = dict(seen)
    return any(_as_listed(known.get(number, ""), letter) == BACK for number, letter in objects)


@cache
def book_of(seen: Seen, are_reused: bool = False) -> PodBook:
    """Feed the product's book with all that was shown."""
    now_s = BORN_S
    book = PodBook(
        node_of=lambda name: node(name) if name else None,
        now_s=lambda: now_s,
        is_managed=lambda _namespace, _name: True,
    )
    version_no = 0
    for number, text in seen:
        for at, letter in enumerate(text):
            version_no += 10
            now_s = BORN_S + at
            if letter == ABSENT:
                others = {uid_of(n): version_no for n, _ in seen if n != number}
                book.take_absent("", others, version_no)
                continue
            version = _version(number, text[: at + 1], version_no, are_reused)
            book.take(version, is_deleted=letter == DELETED, in_order=letter not in (LISTED_ENDED, BACK))
    return book


def node(name: str) -> NodeView:
    """Return the facts of a node that is as it should be."""
    return NodeView(
        name=name, uid=f"node-{name}", kubelet_version="v1.36.3", kubelet_minor=36, machine=name
    )


def node_of(number: int) -> str:
    """Return the node that a pod is bound to: each has one of its own."""
    return f"n{number}"


def _version(number: int, text: str, version_no: int, are_reused: bool) -> PodVersion:
    shown = [letter for letter in text if letter not in (DELETED, ABSENT)]
    letter = shown[-1] if shown else RUNS
    has_ended = letter in (ENDED, LISTED_ENDED)
    is_lost = LOST in text and letter != BACK
    view = ContainerView(
        name="app",
        phase=ContainerPhase.TERMINATED if has_ended else ContainerPhase.RUNNING,
        container_id=f"containerd://{number}{'x' if is_lost else ''}",
        finished_at="2027-01-15T08:00:00Z" if has_ended else "",
        may_hold_id=True,
        restart_count=int(is_lost),
        was_lost=is_lost,
        last_end=EndView(container_id=f"containerd://{number}", finished_at_s=BORN_S, reason="Error")
        if has_ended
        else None,
    )
    return PodVersion(
        namespace=NAMESPACE, name=POD, uid=uid_of(number), resource_version=version_no, owner_name="web",
        node_name=node_of(number),
        phase="Failed" if has_ended else "Running", phase_manager="kubelet", phase_has_statuses=True,
        phase_written_at_s=BORN_S,
        created_at_s=100.0, scheduled_at_s=100.0, required=(view,), started_containers=frozenset({"app"}),
        instance_ids=frozenset({ID}), ids_are_fixed=True, addresses=(address_of(number, are_reused=are_reused),),
    )  # fmt: skip


def address_of(number: int, *, are_reused: bool) -> str:
    """Return the address of a pod; those of one seat get the same one where addresses are reused."""
    return "10.0.0.1" if are_reused else f"10.0.0.{number}"


class FakeStore:
    """What `SightGatherer` asks of the pod store, of one moment.

    Parameters
    ----------
    watch: name of the watch; "" while it is not whole. passed: whether it has passed a consistent read behind the
        description.
    """

    def __init__(self, seen: Seen, *, watch: str, passed: bool, are_reused: bool = False) -> None:
        self._book = book_of(seen, are_reused)
        self._watch, self._passed = watch, passed

    @property
    def ends(self) -> int:
        """Count the certificates that the watch has brought in this process."""
        return self._book.ends

    def watch(self, namespace: str) -> str:
        """Return the name of the watch."""
        return self._watch

    async def reach_present(self, namespace: str) -> bool:
        """Say whether it has passed a read that begins now."""
        return self._passed and bool(self._watch)

    def doubtful(self) -> Iterator[KnownPod]:
        """Iterate over the suspects."""
        return self._book.doubtful()

    def get(self, uid: str) -> KnownPod | None:
        """Return one pod."""
        return self._book.index.get(uid)

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[KnownPod, ...]:
        """Return every pod of the seat."""
        return self._book.index.chain(namespace, pod_names, instance_ids)

    def carriers(self, instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod that carried an id."""
        return self._book.index.carriers(instance_ids)
