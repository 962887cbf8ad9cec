"""The book closes suspicions by the words it hears, in whatever order words, versions and ledgers arrive."""

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.core.evidence.words import Word
from staticgroup.kube.pods.book import IncarnationBook
from unit.kube.pods.books import at_version
from unit.kube.raw_objects import NODE, finished, pod

SAID_AT_S = 100.0


class Book(IncarnationBook):
    """A book whose clock the test moves."""

    def __init__(self) -> None:
        self.clock_s = 50.0
        super().__init__(node_of={"node-a": NODE}.get, now_s=lambda: self.clock_s, is_managed=lambda ns, n: True)

    def see(self, raw: dict[str, Any], resource_version: int, *, deleted: bool = False, listed: bool = False) -> bool:
        version = at_version(raw, resource_version)
        return self.take(version, is_deleted=deleted, in_order=not listed).is_visible

    @property
    def pod(self) -> Incarnation:
        record = self.records.get(UID)
        assert record is not None
        return record.incarnation()


UID = at_version(pod(), 1).uid


def word(**changes: Any) -> Word:
    version = at_version(pod(), 1)
    values: dict[str, Any] = {
        "namespace": version.namespace, "pod_name": version.name, "pod_uid": UID, "said_by": "alice",
        "statement": "the machine was scrapped", "said_at_s": SAID_AT_S,
    }  # fmt: skip
    return Word(**(values | changes))


@pytest.fixture
def book() -> Book:
    """The pod was force-deleted at 50 s."""
    made = Book()
    made.see(pod(), 1)
    made.see(pod(), 2, deleted=True)
    return made


def test_a_word_closes_a_suspicion_and_is_worth_a_look(book: Book) -> None:
    (change,) = book.hear([word()])
    assert change.is_visible
    assert (book.pod.state, book.pod.since_s) == (IncarnationState.DEAD, SAID_AT_S)
    assert book.hear([word()]) == []


def test_a_living_pod_is_never_confirmed_and_a_word_about_it_is_not_kept_for_later() -> None:
    book = Book()
    book.see(pod(), 1)
    assert book.hear([word()]) == []
    assert book.pod.state is IncarnationState.LIVE
    book.clock_s = SAID_AT_S + 1
    book.see(pod(), 2, deleted=True)
    assert book.pod.state is IncarnationState.SUSPECT


@pytest.mark.parametrize("other", [{"pod_uid": "another"}, {"pod_name": "web-7"}, {"namespace": "market"}])
def test_a_word_about_another_pod_leaves_the_suspect(book: Book, other: dict[str, str]) -> None:
    assert book.hear([word(**other)]) == []
    assert book.pod.state is IncarnationState.SUSPECT


def test_a_word_that_is_deleted_takes_nothing_back(book: Book) -> None:
    book.hear([word()])
    book.hear([])
    assert book.pod.state is IncarnationState.DEAD


def test_a_word_is_no_obstacle_to_the_durable_position_because_it_is_listed_again(book: Book) -> None:
    assert book.unwritten.mark_durable(book.pod)
    book.hear([word()])
    assert book.unwritten.durable_position("", 500) == 500


def test_a_suspicion_that_is_not_durable_stays_so_when_it_is_closed(book: Book) -> None:
    book.hear([word()])
    assert book.unwritten.durable_position("", 500) == 1


def test_the_object_of_a_confirmed_end_that_is_watched_again_lives(book: Book) -> None:
    book.hear([word()])
    book.clock_s = 150.0
    assert book.see(pod(), 9)
    assert (book.pod.state, book.pod.certificate, book.pod.object_present) == (IncarnationState.LIVE, None, True)
    book.see(pod(), 10, deleted=True)
    assert book.pod.state is IncarnationState.SUSPECT
    assert book.hear([word()]) == []
    assert [c.record.uid for c in book.hear([word(), word(said_at_s=151.0)])] == [UID]


def test_the_object_of_a_confirmed_end_that_a_list_shows_in_an_old_version_makes_the_word_void(book: Book) -> None:
    """As after a restore that raises the version counter: the objects keep the versions they had."""
    book.hear([word()])
    book.clock_s = 150.0
    assert book.see(pod(), 1, listed=True)
    assert book.pod.state is IncarnationState.SUSPECT
    assert book.hear([word()]) == []


def test_the_object_of_a_confirmed_end_that_is_restored_lives(book: Book) -> None:
    book.hear([word()])
    book.clock_s = 150.0
    book.take_after_restore(at_version(pod(), 1))
    assert (book.pod.state, book.pod.certificate) == (IncarnationState.LIVE, None)


def test_old_versions_that_a_watch_repeats_leave_the_word(book: Book) -> None:
    book.hear([word()])
    book.see(pod(), 1)
    book.see(pod(), 2, deleted=True)
    assert book.pod.state is IncarnationState.DEAD


def test_a_kubelets_proof_that_comes_late_leaves_the_pod_dead(book: Book) -> None:
    book.hear([word()])
    book.see(finished(), 1, listed=True)
    assert book.pod.state is IncarnationState.DEAD


def entry(**changes: Any) -> Incarnation:
    made = Book()
    made.see(pod(), 1)
    made.see(pod(), 2, deleted=True)
    return replace(made.pod, **changes)


def confirmed_entry() -> Incarnation:
    made = Book()
    made.see(pod(), 1)
    made.see(pod(), 2, deleted=True)
    made.hear([word()])
    return made.pod


def test_a_word_that_was_heard_before_covers_a_suspect_that_is_merged_later() -> None:
    book = Book()
    book.hear([word()])
    book.clock_s = 200.0
    book.merge([entry()], complete_until=lambda namespace: 0)
    assert book.pod.state is IncarnationState.DEAD


def test_a_confirmed_entry_of_a_ledger_is_dead_without_the_word() -> None:
    book = Book()
    book.merge([confirmed_entry()], complete_until=lambda namespace: 0)
    certificate = book.pod.certificate
    assert certificate is not None
    assert (book.pod.state, certificate.kind, certificate.said_by) == (
        IncarnationState.DEAD, CertificateKind.CONFIRMED, "alice",
    )  # fmt: skip


def test_a_confirmed_entry_closes_the_same_suspicion_of_another_replica(book: Book) -> None:
    book.merge([confirmed_entry()], complete_until=lambda namespace: 0)
    assert book.pod.state is IncarnationState.DEAD


def test_a_confirmed_entry_closes_no_later_suspicion_and_no_life() -> None:
    book = Book()
    book.see(pod(), 1)
    book.merge([confirmed_entry()], complete_until=lambda namespace: 0)
    assert (book.pod.state, book.pod.certificate) == (IncarnationState.LIVE, None)
    book.clock_s = SAID_AT_S + 50
    book.see(pod(), 2, deleted=True)
    book.merge([confirmed_entry()], complete_until=lambda namespace: 0)
    assert book.pod.state is IncarnationState.SUSPECT


def test_a_confirmed_entry_whose_object_a_new_process_lists_is_void() -> None:
    book = Book()
    book.merge([confirmed_entry()], complete_until=lambda namespace: 0)
    book.clock_s = 150.0
    book.see(pod(), 1, listed=True)
    assert book.pod.state is IncarnationState.SUSPECT
