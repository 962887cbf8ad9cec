"""The stored position waits for the ends that no status holds yet, and for each workload by itself."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.core.evidence.chain import Incarnation
from staticgroup.kube.pods.behind import FRESH_S
from staticgroup.kube.pods.book import IncarnationBook
from unit.kube.pods.books import make_book, see
from unit.kube.raw_objects import NODE, born, pod


def test_position_stays_below_an_end_of_a_managed_pod_until_it_is_durable() -> None:
    book = make_book()
    see(book, pod(), 5)
    suspect = see(book, pod(), 7, deleted=True)
    assert book.unwritten.durable_position("", 20) == 6
    assert book.unwritten.mark_durable(suspect)
    assert book.unwritten.durable_position("", 20) == 20


def test_writing_an_outdated_state_does_not_make_the_new_one_durable() -> None:
    book = make_book()
    see(book, born(), 1)
    (absent,) = book.take_absent("", {}, 2)
    suspect = absent.record.incarnation()
    see(book, born(), 3, deleted=True)
    assert not book.unwritten.mark_durable(suspect)
    assert book.unwritten.durable_position("", 20) == 2


def test_unmanaged_ends_do_not_hold_the_position() -> None:
    book = make_book(is_managed=lambda namespace, name: False)
    see(book, pod(), 7, deleted=True)
    assert book.unwritten.durable_position("", 20) == 20


class Moving:
    """A book whose clock moves, with one workload for each name."""

    def __init__(self, **rest: Any) -> None:
        self.now_s = 1000.0
        self.managed = rest.pop("managed", lambda ns, n: True)
        self.book = IncarnationBook(node_of={"node-a": NODE}.get, now_s=lambda: self.now_s, is_managed=self._is_managed)

    def _is_managed(self, namespace: str, pod_name: str) -> bool:
        return bool(self.managed(namespace, pod_name))

    def dies(self, workload: str, resource_version: int) -> Incarnation:
        raw = pod(f"{workload}-0", uid=f"{workload}-{resource_version}")
        return see(self.book, raw, resource_version, deleted=True)


def test_position_waits_for_an_end_that_has_just_been_seen_and_then_leaves_its_workload_behind() -> None:
    world = Moving()
    world.dies("web", 7)
    world.dies("bill", 9)
    assert world.book.unwritten.stored_position("", 20) == (6, {})
    world.now_s += FRESH_S
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6, ("shop", "bill"): 8})
    world.dies("web", 25)
    world.dies("new", 26)
    assert world.book.unwritten.stored_position("", 30) == (25, {("shop", "web"): 6, ("shop", "bill"): 8})
    assert world.book.unwritten.stored_position("other", 30) == (30, {})


def test_workload_whose_end_is_durable_is_behind_no_more() -> None:
    world = Moving()
    suspect = world.dies("web", 7)
    world.now_s += FRESH_S
    assert world.book.unwritten.mark_durable(suspect)
    assert world.book.unwritten.stored_position("", 20) == (20, {})


def test_end_that_nobody_will_write_any_more_leaves_the_list() -> None:
    """Its StaticGroup was deleted, or its namespace."""
    world = Moving()
    world.dies("web", 7)
    world.now_s += FRESH_S
    world.managed = lambda ns, n: False
    assert world.book.unwritten.stored_position("", 20) == (20, {})


def test_staticgroup_that_is_new_leaves_only_its_own_workload_behind() -> None:
    world = Moving(managed=lambda ns, n: False)
    world.dies("web", 7)
    world.now_s += 3600
    world.managed = lambda ns, n: True
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6})


def test_list_that_is_full_keeps_the_position_below_those_that_have_no_room() -> None:
    """The oldest have it: so the position goes as far as it can, and nothing that it passed is missing on the list."""
    world = Moving()
    for n in range(5):
        world.dies(f"w{n}", 10 * (n + 1))
    world.now_s += FRESH_S
    assert world.book.unwritten.stored_position("", 99, room=3) == (39, {("shop", "w0"): 9, ("shop", "w1"): 19, ("shop", "w2"): 29})
    assert world.book.unwritten.stored_position("", 99, room=5)[0] == 99


def test_ends_that_were_seen_in_another_order_than_they_came_in_hold_the_position_all_the_same() -> None:
    """A LIST shows them in the order of their names."""
    world = Moving()
    for resource_version in (30, 20, 10):
        world.dies(f"w{resource_version}", resource_version)
    world.now_s += FRESH_S
    assert world.book.unwritten.stored_position("", 99, room=1) == (19, {("shop", "w10"): 9})


def test_of_thousands_of_workloads_only_those_are_asked_that_decide_the_position() -> None:
    """After a start the pods of all are written nowhere, and each renewal of the Lease asks."""
    world = Moving()
    for n in range(1000):
        world.dies(f"w{n}", n + 1)
    world.now_s += FRESH_S
    asked: list[str] = []

    def managed(namespace: str, pod_name: str) -> bool:
        asked.append(pod_name)
        return True

    world.managed = managed
    position, behind = world.book.unwritten.stored_position("", 9999, room=64)
    assert (position, len(behind)) == (64, 64)
    assert world.book.unwritten.oldest_unwritten_s() == 1000.0
    assert len(asked) == 66


def test_clock_that_goes_back_does_not_keep_the_position() -> None:
    world = Moving()
    world.dies("web", 7)
    world.now_s -= 3600
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6})


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30), st.integers(1, 4))
def test_every_end_up_to_the_stored_position_is_durable_or_above_the_position_of_its_workload(
    steps: list[tuple[int, int, bool]], room: int
) -> None:
    world, version, ends = Moving(), 10, []
    for workload, seconds, is_written in steps:
        version += 1
        world.now_s += seconds
        ends.append((f"w{workload}", version, world.dies(f"w{workload}", version)))
        if is_written:
            world.book.unwritten.mark_durable(ends[-1][2])
        position, behind = world.book.unwritten.stored_position("", version, room=room)
        assert len(behind) <= room
        for name, ended_at, incarnation in ends:
            durable_to = min(position, behind.get(("shop", name), position))
            assert world.book.unwritten.is_durable(incarnation.uid) or ended_at > durable_to
        assert world.book.unwritten.durable_position("", version) == min([position, *behind.values()])
