"""The index gives what was put last, and what is kept of pods that are gone is bounded: StaticGroups remember what they need."""

from dataclasses import replace

from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.kube.pods.book import PodIndex
from unit.kube.pods.books import make_book, see
from unit.kube.raw_objects import finished, pod


def known_pod(number: int) -> KnownPod:
    return KnownPod(
        namespace="shop", pod_name=f"web-{number}", uid=f"uid-{number}", instance_ids=frozenset({f"web-{number}"}), node_name="n1",
        state=PodState.LIVE, since_s=1.0, resource_version=number + 1,
    )  # fmt: skip


def test_pod_that_is_put_again_is_found_by_every_id_that_it_ever_carried_and_once() -> None:
    index = PodIndex()
    index.put(known_pod(0))
    index.put(known_pod(1))
    again = replace(known_pod(0), resource_version=9, instance_ids=frozenset({"web-0", "web-1"}))
    index.put(again)
    assert index.get("uid-0") is again
    assert index.chain("shop", ["web-0"], ["web-0", "web-1"]) == (known_pod(1), again)
    assert index.carriers(["web-1"]) == (known_pod(1), again)
    assert index.of_workload("shop", "web") == (known_pod(1), again)
    index.remove(again)
    assert index.carriers(["web-0", "web-1"]) == (known_pod(1),)
    assert list(index.ids()) == [("shop", "web-1")]


def test_of_pods_that_are_gone_the_ended_are_forgotten_first_and_then_the_oldest_suspects() -> None:
    book = make_book(gone_max=10)
    for number in range(8):
        see(book, pod(uid=f"s{number}"), 10 + number, deleted=True)
    for number in range(3):
        see(book, finished(uid=f"d{number}"), 30 + number, deleted=True)
    book.purge()
    assert {r.uid for r in book.index.in_scope("")} == {*(f"s{n}" for n in range(8)), "d2"}
    for number in range(8, 20):
        see(book, pod(uid=f"s{number}"), 40 + number, deleted=True)
    book.purge()
    assert [r.uid for r in book.index.in_scope("")] == [f"s{n}" for n in range(11, 20)]


def test_pods_that_exist_are_never_forgotten() -> None:
    book = make_book(gone_max=2)
    for number in range(5):
        see(book, pod(f"web-{number}", uid=f"u{number}"), 10 + number)
    see(book, finished("web-5", uid="ended"), 20)
    book.purge()
    assert len(book.index) == 6


def test_forgotten_pod_leaves_every_index_and_is_no_suspect_any_more() -> None:
    book = make_book(gone_max=1)
    for number in range(2):
        see(book, pod(uid=f"u{number}"), 10 + number, deleted=True)
    book.purge()
    assert len(book.index) == 0
    assert list(book.doubtful()) == []
    assert list(book.index.ids()) == []
    assert book.index.chain("shop", ["web-0"], ["web-0.1a2b3c4d"]) == ()
    assert list(book.index.of_workload("shop", "web")) == []


def test_pod_whose_object_is_there_again_is_not_counted_among_the_gone() -> None:
    book = make_book(gone_max=1)
    see(book, pod(uid="back"), 1, deleted=True)
    see(book, pod(uid="back"), 2)
    see(book, pod("web-1", uid="gone"), 3, deleted=True)
    book.purge()
    assert {r.uid: r.state for r in book.index.in_scope("")} == {"back": PodState.LIVE, "gone": PodState.SUSPECT}
