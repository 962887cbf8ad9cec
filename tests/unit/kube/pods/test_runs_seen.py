"""The book keeps the newest end of a run of each container, and says at once that one has ended."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.chain import RunEnd
from staticgroup.kube.pods.book import PodBook
from support.narrowing import some
from unit.core import crashes
from unit.core.crashes import shows
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.raw_objects import composed, pod

Json = dict[str, Any]
ENDED_S = 1767225660.0


def entry(state: Json, *, restarts: int = 0, run: str = "a", last: Json | None = None) -> Json:
    return {"name": "app", "containerID": f"containerd://{run}", "restartCount": restarts, "state": state, "lastState": last or {}}


def runs(run: str = "a", **rest: Any) -> Json:
    return composed(pod(statuses=[entry({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, run=run, **rest)]))


def end(run: str = "a") -> Json:
    return {"terminated": {"reason": "Error", "finishedAt": "2026-01-01T00:01:00Z", "containerID": f"containerd://{run}"}}


def known_end(book: PodBook) -> RunEnd | None:
    found = some(book.index.get("uid-0"))
    (container,) = found.ends
    return container.end


def test_end_of_a_run_survives_packing_and_later_versions() -> None:
    book = make_book()
    see(book, runs(), 1)
    see(book, composed(pod(statuses=[entry(end())])), 2)
    see(book, runs("b", restarts=1, last=end()), 3)
    found = some(known_end(book))
    assert (found.container_id, found.finished_at_s, found.received_at_s) == ("containerd://a", ENDED_S, 50.0)


def test_end_that_comes_together_with_the_next_run_is_visible() -> None:
    """The container runs before and after, and nothing else about the pod has changed."""
    book = make_book()
    see(book, runs(), 1)
    change = book.take(at_version(runs(), 2), is_deleted=False, in_order=True)
    assert (change.is_visible, change.is_end) == (False, False)
    change = book.take(at_version(runs("b", restarts=1, last=end()), 3), is_deleted=False, in_order=True)
    assert (change.is_visible, change.is_end) == (True, True), "a member must be released before its process is back"
    change = book.take(at_version(runs("b", restarts=1, last=end()), 4), is_deleted=False, in_order=True)
    assert (change.is_visible, change.is_end) == (False, False)


def test_end_of_one_of_two_containers_is_visible_before_it_is_started_again() -> None:
    """The other one goes on, nothing is counted yet, and the pod was not Ready before."""
    book = make_book()
    book.take(shows(crashes.runs(), crashes.runs("helper"), resource_version=1), is_deleted=False, in_order=True)
    ended = shows(crashes.crashed(), crashes.runs("helper"), resource_version=2)
    change = book.take(ended, is_deleted=False, in_order=True)
    assert (change.is_visible, change.is_end) == (True, True)


def test_older_version_changes_nothing_of_the_runs() -> None:
    book = make_book()
    see(book, runs(), 1)
    see(book, runs("b", restarts=1, last=end()), 5)
    see(book, runs(), 3)
    assert known_end(book) is not None
