"""The newest end of a run of each container, and what it takes to believe it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.certificate import STATUS_UNKNOWN
from staticgroup.core.evidence.chain import ContainerEnd, RunEnd, followed, holders
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, NodeView, PodVersion
from unit.core.builders import NODE, NOW_S
from unit.core.plans import present

from .crashes import ENDED_S, backs_off, crashed, over, runs, shows


def seen(*versions: PodVersion, node: NodeView | None = NODE, now_s: float = NOW_S) -> tuple[ContainerEnd, ...]:
    known: tuple[ContainerEnd, ...] = ()
    for version in versions:
        known = followed(known, version, node, now_s=now_s)
    return known


def end_of(*containers: ContainerView) -> RunEnd | None:
    """The end that is known of the one container after these versions."""
    (run,) = seen(*(shows(container) for container in containers))
    return run.end


# the newest end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [crashed(), backs_off(), backs_off(restarts=1), runs(run="b", restarts=1, after="a")],
    ids=["terminated", "backs off", "next one is made", "next one runs"],
)
def test_end_that_a_version_shows_is_taken_whether_its_run_was_seen_or_not(end: ContainerView) -> None:
    """A kubelet starts a run only after the one before it has ended, so whatever ran before is over too."""
    found = RunEnd(container_id="containerd://app-a", finished_at_s=ENDED_S, received_at_s=NOW_S)
    assert end_of(runs(), end) == end_of(end) == found


def test_container_that_the_kubelet_or_runtime_has_lost_has_not_ended() -> None:
    for reason in (STATUS_UNKNOWN, "Unknown"):
        lost = over(reason=reason)
        assert end_of(runs(), crashed(last_end=lost)) is None
        assert end_of(runs(), backs_off(last_end=lost, restarts=1)) is None


def test_end_without_its_time_or_its_run_is_no_end() -> None:
    assert end_of(runs(), crashed(last_end=over(finished_at_s=None))) is None
    assert end_of(runs(), crashed(last_end=EndView(container_id="", finished_at_s=ENDED_S))) is None


def test_end_of_an_earlier_run_never_takes_the_place_of_a_later_one() -> None:
    later = crashed(run="b", restarts=1, last_end=over(run="b", finished_at_s=NOW_S))
    known = present(end_of(runs(), later))
    assert known.container_id == "containerd://app-b"
    assert end_of(runs(), later, crashed()) == known


def test_end_stays_known_while_its_container_shows_none() -> None:
    known = end_of(crashed())
    absent = ContainerView(name="app", phase=ContainerPhase.ABSENT, may_hold_id=True)
    assert known is not None
    assert end_of(crashed(), runs(run="b", restarts=1)) == end_of(crashed(), absent) == known


def test_end_is_received_when_it_is_heard_of_first() -> None:
    known = seen(shows(runs()), shows(crashed()))
    (again,) = followed(known, shows(runs(run="b", restarts=1, after="a")), NODE, now_s=NOW_S + 20)
    assert again.end is not None
    assert again.end.received_at_s == NOW_S


# every container that may hold an id -------------------------------------------------------------------------------


def test_container_that_holds_no_id_is_not_followed() -> None:
    assert seen(shows(runs(may_hold_id=False))) == ()
    assert [run.container for run in seen(shows(runs(), runs("proxy", may_hold_id=False)))] == ["app"]


def test_container_that_once_may_have_held_an_id_is_followed_whatever_it_shows_later() -> None:
    later = (crashed(), runs("proxy", may_hold_id=False))
    assert [(run.container, run.end is not None) for run in seen(shows(runs(), runs("proxy")), shows(*later))] == [("app", True), ("proxy", False)]


# whose word it is ----------------------------------------------------------------------------------------------------


def doubt(version: PodVersion, node: NodeView | None = NODE, now_s: float = NOW_S) -> str:
    (run,) = seen(shows(runs()), version, node=node, now_s=now_s)
    assert run.end is not None
    return run.end.doubt


def test_plain_end_is_not_doubted() -> None:
    assert doubt(shows(crashed())) == ""


@pytest.mark.parametrize(
    ("version", "word"),
    [
        (shows(crashed(), host_pid=True), "hostPID"),
        (shows(crashed(), shares_processes=True), "one process namespace"),
        (shows(crashed(), phase_has_statuses=False), "not by the kubelet alone"),
        (shows(crashed(), phase_manager="kube-controller-manager"), "not by the kubelet alone"),
    ],
    ids=["hostPID", "shareProcessNamespace", "phase of another", "garbage collector"],
)
def test_end_of_a_container_that_is_not_that_of_its_processes_or_not_told_by_its_kubelet_is_doubted(
    version: PodVersion, word: str
) -> None:
    assert word in doubt(version)


@pytest.mark.parametrize(
    "node",
    [None, replace(NODE, kubelet_minor=26), replace(NODE, is_virtual=True), replace(NODE, is_out_of_service=True)],
    ids=["unreadable", "old", "virtual", "out of service"],
)
def test_kubelet_is_trusted_as_with_certificates(node: NodeView | None) -> None:
    assert doubt(shows(crashed()), node)


# clocks --------------------------------------------------------------------------------------------------------------


def test_clock_of_the_node_may_be_ahead_by_the_second_in_which_all_are_told() -> None:
    at = over(finished_at_s=NOW_S + 1)
    assert doubt(shows(crashed(last_end=at))) == ""


def test_end_that_the_operator_hears_of_before_it_happens_shows_a_clock_ahead() -> None:
    at = over(finished_at_s=NOW_S + 2)
    assert "clock of node n1 is ahead" in doubt(shows(crashed(last_end=at), phase_written_at_s=NOW_S + 60))


def test_end_that_was_written_before_it_happened_shows_a_clock_ahead() -> None:
    at = over(finished_at_s=NOW_S + 2)
    assert "clock of node n1 is ahead" in doubt(shows(crashed(last_end=at)), now_s=NOW_S + 20)


def test_clock_that_was_ahead_once_stays_doubted() -> None:
    ahead = crashed(last_end=over(finished_at_s=NOW_S + 5))
    known = seen(shows(runs()), shows(ahead))
    (again,) = followed(known, shows(ahead, phase_written_at_s=NOW_S + 60), NODE, now_s=NOW_S + 60)
    assert again.end is not None
    assert "ahead" in again.end.doubt


def test_end_whose_writing_has_no_time_is_doubted() -> None:
    assert "does not say when" in doubt(shows(crashed(), phase_written_at_s=None))


# which id a container may hold ----------------------------------------------------------------------------------------


def named(*found: ContainerEnd) -> list[str]:
    return [run.container for run in found]


def test_container_is_asked_for_the_ids_that_it_carries_and_for_what_its_client_makes_of_them() -> None:
    known = seen(shows(runs(only_ids=frozenset({"web-0"})), runs("second", only_ids=frozenset({"web-0b"})), runs("third")))
    assert named(*holders(known, "web-0")) == ["app", "third"]
    assert named(*holders(known, "web-0-1")) == ["app", "third"]
    assert named(*holders(known, "web-0b")) == ["second", "third"]


def test_id_that_one_version_allows_to_a_container_none_takes_back() -> None:
    known = seen(shows(runs(only_ids=frozenset({"a"}))), shows(runs(only_ids=frozenset({"b"}))), shows(runs(may_hold_id=False)))
    assert named(*holders(known, "a")) == named(*holders(known, "b")) == ["app"]
    assert named(*holders(known, "c")) == []
    assert named(*holders(seen(shows(runs(only_ids=frozenset({"a"}))), shows(runs())), "c")) == ["app"]
    assert named(*holders(seen(shows(runs()), shows(runs(only_ids=frozenset({"a"})))), "c")) == ["app"]
