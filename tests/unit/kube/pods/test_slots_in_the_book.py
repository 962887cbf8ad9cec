"""Under which watch a Deployment's pod was alive and ended, and how pods are found by the Deployment's name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.ids.naming import seat_name
from staticgroup.kube.pods.book import PodBook
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.raw_deployments import OTHER_SCOPE, SCOPE, annotation_of, deployed, over
from unit.kube.raw_objects import NODE, Json

HAS = {SCOPE: "uid-0 has web-41 1"}


def living(**changes: Any) -> Json:
    return deployed(**({"notes": HAS, "waits": False} | changes))


def is_end_watched(book: PodBook, uid: str = "uid-0") -> bool:
    pod = book.index.get(uid)
    assert pod is not None
    return pod.state is PodState.DEAD and pod.ended_under == book.watch_no


def gap(book: PodBook) -> None:
    book.watch_no += 1  # as PodStore.gap_opened does


# the end of a pod


def test_an_end_that_the_watch_brings_of_a_pod_that_it_showed_alive_is_watched() -> None:
    book = make_book()
    assert see(book, deployed(), 1).alive_under == book.watch_no
    see(book, living(), 2)
    assert see(book, over(living()), 3).state is PodState.DEAD
    assert is_end_watched(book)
    see(book, over(living()), 4, deleted=True)
    assert is_end_watched(book)


def test_a_list_may_show_the_pod_alive_and_the_watch_its_end() -> None:
    book = make_book()
    see(book, living(), 2, listed=True)
    see(book, over(living()), 3)
    assert is_end_watched(book)


def test_a_pod_that_a_list_shows_as_ended_is_not_watched_to_its_end() -> None:
    book = make_book()
    assert see(book, over(living()), 3, listed=True).state is PodState.DEAD
    assert not is_end_watched(book)
    see(book, over(living()), 3)  # the watch begins at the LIST, and may show it again
    see(book, over(living()), 4, deleted=True)
    assert not is_end_watched(book)


def test_the_end_is_not_watched_where_a_list_brings_it_of_a_pod_that_lived_before() -> None:
    book = make_book()
    see(book, living(), 2)
    assert see(book, over(living()), 3, listed=True).state is PodState.DEAD
    assert not is_end_watched(book)


def test_an_end_whose_first_sight_the_watch_brings_is_not_watched() -> None:
    """As where a process resumes behind all that its pod did: what had the slot meanwhile is not known."""
    book = make_book()
    assert see(book, over(living()), 3).state is PodState.DEAD
    assert not is_end_watched(book)


def test_a_gap_between_life_and_end_breaks_it() -> None:
    book = make_book()
    see(book, living(), 2)
    gap(book)
    see(book, over(living()), 3)
    assert not is_end_watched(book)


def test_after_a_gap_a_list_that_shows_it_alive_begins_it_anew() -> None:
    book = make_book()
    see(book, living(), 2)
    gap(book)
    see(book, living(), 2, listed=True)  # nothing has happened to it
    see(book, over(living()), 3)
    assert is_end_watched(book)


def test_a_gap_after_the_end_breaks_it_for_good() -> None:
    book = make_book()
    see(book, living(), 2)
    see(book, over(living()), 3)
    gap(book)
    assert not is_end_watched(book)
    see(book, over(living()), 3, listed=True)
    see(book, over(living()), 3)
    see(book, over(living()), 5, deleted=True)
    assert not is_end_watched(book)


@pytest.mark.parametrize("is_gap_between", [True, False])
def test_an_end_that_a_list_shows_and_that_is_certified_later_is_watched_only_without_a_gap(is_gap_between: bool) -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, living(), 2)
    if is_gap_between:
        gap(book)
    assert see(book, over(living()), 3, listed=True).state is PodState.LIVE  # nobody knows its node's kubelet
    nodes["node-a"] = NODE
    assert see(book, over(living()), 4).state is PodState.DEAD
    assert is_end_watched(book) is not is_gap_between


def test_a_replayed_end_is_counted_once_and_under_the_watch_that_brought_it() -> None:
    book = make_book()
    for raw, version in ((living(), 2), (over(living()), 3), (living(), 2), (over(living()), 3)):
        see(book, raw, version)
    assert (is_end_watched(book), book.ends) == (True, 1)
    gap(book)
    see(book, living(), 2)
    see(book, over(living()), 3)
    assert not is_end_watched(book)


def test_an_older_version_that_proves_the_end_does_not_make_it_watched() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, living(), 2)
    see(book, over(living()), 6)
    gap(book)
    nodes["node-a"] = NODE
    see(book, over(living()), 5)
    assert not is_end_watched(book)


def test_an_older_version_of_its_life_does_not_count_for_the_watch_that_shows_it() -> None:
    book = make_book({})
    see(book, living(), 2)
    see(book, over(living()), 3)
    gap(book)
    assert see(book, living(), 2).alive_under == book.watch_no - 1


def test_a_pod_that_is_deleted_before_it_was_bound_has_ended_by_the_watch() -> None:
    book = make_book()
    unbound = deployed(node="")
    see(book, unbound, 1)
    gone = see(book, unbound, 2, deleted=True)
    assert (gone.state, gone.object_present, is_end_watched(book)) == (PodState.DEAD, False, True)


def test_a_pod_that_is_deleted_by_force_has_not_ended() -> None:
    book = make_book()
    see(book, living(), 2)
    gone = see(book, living(), 3, deleted=True)
    assert (gone.state, gone.ended_under, gone.slots[0].given) == (PodState.SUSPECT, 0, "web-41")


def test_a_pod_that_is_back_was_watched_by_nobody() -> None:
    """An API server that went back in time shows a pod alive whose end was seen: what it showed since is not known."""
    book = make_book()
    see(book, living(), 2)
    see(book, over(living()), 3)
    see(book, over(living()), 4, deleted=True)
    back = see(book, living(), 9)
    assert (back.state, back.ended_under, is_end_watched(book)) == (PodState.LIVE, 0, False)
    assert back.slots[0].given == "web-41"


_LIFE: list[tuple[int, Json, bool]] = [
    (1, deployed(node=""), False),
    (2, deployed(), False),
    (3, deployed(notes={SCOPE: "uid-0 waits 1 web-41"}), False),
    (4, deployed(notes=HAS), False),
    (5, living(), False),
    (6, over(living()), False),
    (7, over(living()), True),
]


def _facts(pod: KnownPod) -> tuple[Any, ...]:
    slots = tuple((s.scope, s.given, s.is_waiting, s.has_started) for s in pod.slots)
    return pod.state, pod.object_present, pod.instance_ids, slots, pod.workload_name


@given(st.lists(st.tuples(st.sampled_from(_LIFE), st.sampled_from(["watch", "list", "gap first"])), max_size=12))
def test_in_any_order_a_watched_end_came_by_a_watch_that_had_shown_its_life(
    steps: list[tuple[tuple[int, Json, bool], str]],
) -> None:
    """Versions in any order, twice and late, by LISTs and watches, with gaps between."""
    book = make_book()
    shown_alive_by: set[int] = set()
    for (resource_version, raw, is_deleted), how in steps:
        if how == "gap first":
            gap(book)
        if how == "list" and is_deleted:
            continue
        before = book.index.get("uid-0")
        was_watched = before is not None and is_end_watched(book)
        see(book, raw, resource_version, deleted=is_deleted, listed=how == "list")
        if resource_version <= 5 and (before is None or resource_version >= before.resource_version):
            shown_alive_by.add(book.watch_no)
        if is_end_watched(book) and not was_watched:
            assert book.watch_no in shown_alive_by
            assert how != "list"
            assert resource_version >= 6


@given(st.permutations(_LIFE))
def test_in_any_order_the_same_is_known_of_the_slot(order: list[tuple[int, Json, bool]]) -> None:
    straight, mixed = make_book(), make_book()
    for resource_version, raw, is_deleted in _LIFE:
        see(straight, raw, resource_version, deleted=is_deleted)
    for resource_version, raw, is_deleted in order:
        see(mixed, raw, resource_version, deleted=is_deleted)
    expected, found = straight.index.get("uid-0"), mixed.index.get("uid-0")
    assert expected is not None
    assert found is not None
    if found.state is expected.state:
        assert _facts(found) == _facts(expected)
    assert found.slots[0].given == "web-41"


# what is noted


def test_a_slot_that_was_given_is_never_taken_back() -> None:
    book = make_book()
    see(book, deployed(notes=HAS), 2)
    assert see(book, deployed(notes={SCOPE: "uid-0 waits 2 web-7"}), 3).slots[0].given == "web-41"
    assert see(book, deployed(), 4).slots[0].given == "web-41"


def test_an_older_version_adds_the_slot_that_it_shows_as_given() -> None:
    book = make_book()
    see(book, deployed(), 4)
    assert see(book, deployed(notes=HAS), 3).slots[0].given == "web-41"


def test_the_note_and_the_wait_have_times_of_their_own() -> None:
    now = [50.0]
    book = PodBook(node_of={"node-a": NODE}.get, now_s=lambda: now[0], is_managed=lambda ns, n: True)

    def times(raw: Json, resource_version: int) -> tuple[float, float]:
        now[0] += 10
        (slot,) = see(book, raw, resource_version).slots
        return slot.noted_s, slot.changed_s

    assert times(deployed(node=""), 1) == (0, 60)  # who knows how old it is
    assert times(deployed(), 2) == (0, 70)
    assert times(deployed(notes={SCOPE: "uid-0 waits 1 -"}), 3) == (80, 70)
    assert times(deployed(notes={SCOPE: "uid-0 waits 1 -"}, labels={"a": "b"}), 4) == (80, 70)
    assert times(deployed(notes={SCOPE: "uid-0 waits 2 web-41"}), 5) == (100, 70)  # it still waits since then
    assert times(deployed(notes={SCOPE: "uid-0 has web-41 3"}), 6) == (110, 70)
    assert times(deployed(notes={SCOPE: "uid-0 has web-41 4"}), 7) == (120, 70)
    assert times(living(notes={SCOPE: "uid-0 has web-41 4"}), 8) == (120, 130)


def test_only_what_decisions_read_is_visible() -> None:
    book = make_book()
    see(book, deployed(notes={SCOPE: "uid-0 waits 1 -"}), 2)

    def is_visible(raw: Json, resource_version: int) -> bool:
        found = at_version(raw, resource_version)
        return book.take(found, is_deleted=False, in_order=True).is_visible

    assert not is_visible(deployed(notes={SCOPE: "uid-0 waits 2 -"}), 3)
    assert is_visible(deployed(notes={SCOPE: "uid-0 waits 3 web-41"}), 4)
    assert is_visible(deployed(notes={SCOPE: "uid-0 has web-41 4"}), 5)
    assert not is_visible(deployed(notes={SCOPE: "uid-0 has web-41 5"}), 6)
    assert is_visible(living(notes={SCOPE: "uid-0 has web-41 5"}), 7)


def test_the_time_by_which_it_ought_to_have_ended_is_known_while_it_is_being_deleted() -> None:
    book = make_book()
    assert see(book, living(), 2).ends_by_s is None
    deleting = living(deletionTimestamp="2026-01-01T00:00:30Z", deletionGracePeriodSeconds=30)
    assert see(book, deleting, 3).ends_by_s == 1767225630.0  # 2026-01-01T00:00:30Z is when the grace is over
    by_force = living(deletionTimestamp="2026-01-01T00:00:05Z", deletionGracePeriodSeconds=0)
    assert see(book, by_force, 4).ends_by_s == 1767225605.0


# how pods are found


def test_pods_are_found_by_the_deployments_name_also_when_their_object_is_gone() -> None:
    book = make_book()
    see(book, living(), 2)
    see(book, deployed("web-7c9d-zzzzz", uid="uid-1", owner="web-7c9d"), 3)
    see(book, over(living()), 4)
    see(book, over(living()), 5, deleted=True)
    assert [pod.uid for pod in book.index.of_workload("shop", "web")] == ["uid-1", "uid-0"]
    assert book.index.of_workload("shop", "web-6d4b75cb6d") == ()
    assert book.index.of_workload("other", "web") == ()


def test_a_pod_that_is_forgotten_is_not_found_any_more() -> None:
    book = make_book(gone_max=0)
    see(book, living(), 2)
    see(book, living(), 3, deleted=True)
    book.purge()
    assert (book.index.of_workload("shop", "web"), len(book.index)) == ((), 0)


def test_a_lost_pod_is_reported_by_the_name_of_its_deployment() -> None:
    asked: list[tuple[str, str]] = []
    book = make_book(is_managed=lambda namespace, name: asked.append((namespace, name)) or True)  # type: ignore[func-returns-value]
    see(book, living(), 2)
    see(book, living(), 3, deleted=True)
    assert asked == [("shop", "web")]


def test_copies_are_no_strays_in_their_namespace_and_carry_no_id() -> None:
    book = make_book()
    see(book, living(), 2)
    see(book, deployed("web-copy", uid="uid-9", owner=None, notes=HAS), 3)
    carried = [("shop", f"web-41.{SCOPE}")]
    assert [pod.uid for pod in book.index.carriers([f"web-41.{SCOPE}"])] == ["uid-0"]
    assert book.index.strays("shop", "web", carried) == ()


def test_a_pod_of_another_deployment_or_namespace_that_carries_the_id_is_a_stray() -> None:
    book = make_book()
    see(book, living(), 2)
    see(book, living(uid="uid-1", name="api-1-x", workload="api", notes={SCOPE: "uid-1 has web-41"}), 3)
    see(book, living(uid="uid-2", namespace="test", notes={SCOPE: "uid-2 has web-41"}), 4)
    found = book.index.strays_anywhere("shop", "web", {f"web-41.{SCOPE}"})
    assert [pod.uid for pod in found] == ["uid-1", "uid-2"]


def test_the_slot_is_the_seat_of_each_static_group_on_its_own() -> None:
    book = make_book()
    notes = {SCOPE: "uid-0 has web-41 1", OTHER_SCOPE: "uid-0 waits 1 web-7"}
    pod = see(book, deployed(scopes=(SCOPE, OTHER_SCOPE), notes=notes), 2)
    assert (seat_name(pod, SCOPE), seat_name(pod, OTHER_SCOPE)) == ("web-41", pod.pod_name)
    assert seat_name(pod, "") == pod.pod_name
    assert (pod.slot_of("00000000"), annotation_of(SCOPE)) == (None, f"staticgroup.io/slot-{SCOPE}")
