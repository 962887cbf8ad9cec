"""What is gone costs little memory, and what a decision may rest on is never dropped."""

import pytest

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.evidence.words import Word
from staticgroup.core.status.memory import to_remember
from staticgroup.kube.pods.book import IncarnationBook
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.raw_objects import NODE, born, finished, pod


def test_purge_drops_the_dead_of_nobody_first_and_then_the_suspects() -> None:
    book = make_book(is_managed=lambda namespace, name: False, gone_max=10)
    for number in range(8):
        see(book, pod(uid=f"s{number}"), 10 + number, deleted=True)
    for number in range(3):
        see(book, finished(uid=f"d{number}"), 30 + number, deleted=True)
    book.purge()
    assert {r.uid for r in book.records.in_scope("")} >= {f"s{n}" for n in range(8)}
    for number in range(8, 20):
        see(book, pod(uid=f"s{number}"), 40 + number, deleted=True)
    book.purge()
    assert len(book.records) <= 10


def test_managed_suspects_are_never_purged() -> None:
    book = make_book(gone_max=4)
    for number in range(20):
        see(book, pod(uid=f"s{number}"), 10 + number, deleted=True)
    book.purge()
    assert len(book.records) == 20


def test_present_incarnation_is_not_forgotten_and_a_vanished_one_leaves_every_index() -> None:
    book = make_book()
    see(book, pod(), 1)
    assert not book.forget("uid-0")
    see(book, pod(), 2, deleted=True)
    assert book.forget("uid-0")
    assert book.records.chain("shop", ["web-0"], ["web-0.1a2b3c4d"]) == ()


def rolled(book: IncarnationBook, number: int, *, name: str = "web-0", instance_id: str = "web-0.s", first: int = 0) -> None:
    """Let a pod of a name live and end gracefully; its versions lie in [first + 10 * number, first + 10 * number + 3]."""
    uid, at_first = f"{name}-{number}", first + 10 * number
    see(book, born(name, uid=uid, instance_id=instance_id), at_first)
    see(book, pod(name, uid=uid, instance_id=instance_id), at_first + 1)
    see(book, finished(name, uid=uid, instance_id=instance_id), at_first + 2)
    see(book, finished(name, uid=uid, instance_id=instance_id), at_first + 3, deleted=True)


@pytest.mark.parametrize("is_managed", [True, False])
def test_memory_stays_flat_over_a_thousand_rolls(is_managed: bool) -> None:
    book = make_book(is_managed=lambda namespace, name: is_managed)
    for number in range(1, 1001):
        for name in ("web-0", "web-1", "web-2"):
            rolled(book, number, name=name, instance_id=f"{name}.s")
    assert sorted(r.uid for r in book.records.in_scope("")) == ["web-0-1000", "web-1-1000", "web-2-1000"]
    assert len(book.gone) == len(book.unwritten.versions) == 3
    assert book._awaiting_node == {}


def test_memory_stays_flat_when_every_roll_carries_another_id() -> None:
    """The newest of every id would be evidence, but ids that change at each roll are not ours to remember."""
    book = make_book()
    for number in range(1, 101):
        rolled(book, number, instance_id=f"web-0.{number}")
    assert sorted(r.uid for r in book.records.in_scope("")) == [f"web-0-{n}" for n in (100, 97, 98, 99)]


def test_dead_incarnation_is_kept_while_it_alone_shows_who_carried_an_id() -> None:
    """After a template edit the old id has no other witness than the last pod that carried it."""
    book = make_book()
    rolled(book, 1, instance_id="web-0.old")
    rolled(book, 2, instance_id="web-0.old")
    for number in range(3, 50):
        rolled(book, number, instance_id="web-0.new")
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-2", "web-0-49"]


def test_suspects_of_managed_names_outlive_every_roll() -> None:
    book = make_book(gone_max=4)
    see(book, pod(uid="lost", instance_id="web-0.s"), 1)
    see(book, pod(uid="lost", instance_id="web-0.s"), 2, deleted=True)
    for number in range(1, 200):
        rolled(book, number)
        book.purge()
    assert [i.uid for i in book.records.chain("shop", ["web-0"], [])] == ["lost", "web-0-199"]


def test_late_delivery_of_a_dropped_incarnation_does_not_bring_it_back() -> None:
    """A replay repeats what the main stream has folded; its pod would stand there as a suspect for good."""
    book = make_book()
    for number in (1, 2, 3):
        rolled(book, number)
    assert not book.take(at_version(pod(uid="web-0-1"), 11), is_deleted=False, in_order=True).is_visible
    book.take(at_version(pod(uid="web-0-1"), 13), is_deleted=True, in_order=True)
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-3"]


def test_after_a_restore_an_old_number_is_not_taken_for_an_old_version() -> None:
    book = make_book()
    for number in (1, 2, 3):
        rolled(book, number)
    book.forget_versions(0)
    see(book, pod(uid="again"), 5)
    assert {i.uid for i in book.records.chain("shop", ["web-0"], [])} == {"again", "web-0-3"}


def test_end_that_is_certified_late_leaves_the_newest_in_place() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(uid="early"), 2, deleted=True)
    nodes["node-a"] = NODE
    rolled(book, 1, instance_id="web-0.1a2b3c4d")
    assert {r.uid: r.state for r in book.records.in_scope("")}["early"] is IncarnationState.SUSPECT
    book.take_node("node-a")
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-1"]


def test_word_stays_beside_the_proven_end_of_a_later_pod_of_the_name() -> None:
    """A removal rests on both, so both are told; the newest dead one alone would hide whose word it was."""
    book = make_book()
    see(book, pod(), 2)
    see(book, pod(), 3, deleted=True)
    see(book, finished(uid="uid-1"), 4)
    see(book, finished(uid="uid-1"), 5, deleted=True)
    word = Word(namespace="shop", pod_name="web-0", pod_uid="uid-0", said_by="alice", statement="seen off", said_at_s=60.0)
    assert [c.record.uid for c in book.hear([word])] == ["uid-0"]
    chain = book.records.chain("shop", ["web-0"], ())
    assert [(i.uid, i.certificate.said_by if i.certificate else "") for i in chain] == [("uid-0", "alice"), ("uid-1", "")]
    assert {i.uid for i in to_remember(chain)} == {"uid-0", "uid-1"}
