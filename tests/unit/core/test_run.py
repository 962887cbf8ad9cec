"""Which run of a container was seen, and what it takes to believe that this very run has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.certificate import STATUS_UNKNOWN
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, NodeView, PodVersion
from staticgroup.core.evidence.run import ContainerRun, RunEnd, every_end, followed, holders
from unit.core.builders import NODE, NOW_S

from .crashes import ENDED_S, backs_off, crashed, over, runs, shows


def seen(*versions: PodVersion, node: NodeView | None = NODE, now_s: float = NOW_S) -> tuple[ContainerRun, ...]:
    known: tuple[ContainerRun, ...] = ()
    for version in versions:
        known = followed(known, version, node, now_s=now_s)
    return known


def end_of(*containers: ContainerView) -> RunEnd | None:
    """The end that is known of the one container after these versions."""
    (run,) = seen(*(shows(container) for container in containers))
    return run.end


# the very run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [crashed(), backs_off(), backs_off(restarts=1), runs(run="b", restarts=1, after="a")],
    ids=["terminated", "backs off", "next one is made", "next one runs"],
)
def test_end_of_the_run_that_was_seen_running_is_believed(end: ContainerView) -> None:
    found = end_of(runs(), end)
    assert found == RunEnd(container_id="containerd://app-a", finished_at_s=ENDED_S, received_at_s=NOW_S)


@pytest.mark.parametrize(
    "container",
    [crashed(), backs_off(), runs(run="b", restarts=1, after="a")],
    ids=["terminated", "backs off", "next one runs"],
)
def test_end_of_a_run_that_nobody_saw_is_no_end(container: ContainerView) -> None:
    """As after a restart of the operator: what ran before is not known."""
    assert end_of(container) is None


def test_end_of_another_run_than_the_one_that_was_seen_is_no_end() -> None:
    assert end_of(runs(), crashed(run="x")) is None
    assert end_of(runs(), runs(run="c", restarts=1, after="x")) is None


@pytest.mark.parametrize(
    "container",
    [crashed(restarts=1), backs_off(restarts=2), runs(run="c", restarts=2, after="a"), runs(run="b", restarts=0, after="a")],
    ids=["terminated", "backs off", "runs", "runs uncounted"],
)
def test_restart_that_the_end_does_not_explain_hides_a_run(container: ContainerView) -> None:
    assert end_of(runs(), container) is None


def test_container_that_the_kubelet_cannot_find_has_not_ended() -> None:
    lost = over(reason=STATUS_UNKNOWN)
    assert end_of(runs(), crashed(last_end=lost)) is None
    assert end_of(runs(), backs_off(last_end=lost, restarts=1)) is None


def test_end_of_a_run_says_nothing_of_one_that_the_kubelet_has_lost() -> None:
    """The lost one may be the member; its successor is refused because of it, and crashes again and again."""
    for later in ((), (crashed(run="b", restarts=1), runs(run="c", restarts=2, after="b"))):
        found = end_of(runs(), runs(run="b", restarts=1, was_lost=True), *later, crashed(run="c" if later else "b", restarts=2 if later else 1))
        assert found is not None
        assert "lost to the kubelet" in found.doubt
    before = end_of(runs(), crashed(), runs(run="b", restarts=1, after="a"), runs(run="c", restarts=2, was_lost=True))
    assert before is not None
    assert before.doubt == "", "who was there before the run that was lost began is dead"


def test_end_without_its_time_is_no_end() -> None:
    assert end_of(runs(), crashed(last_end=over(finished_at_s=None))) is None


def test_run_that_is_seen_again_after_its_end_has_not_ended() -> None:
    assert end_of(runs(), crashed(), runs()) is None


def test_end_stays_known_while_the_next_run_goes_on_and_after_runs_that_nobody_saw() -> None:
    known = end_of(runs(), crashed())
    assert known is not None
    assert end_of(runs(), crashed(), runs(run="b", restarts=1, after="a")) == known
    assert end_of(runs(), crashed(), runs(run="d", restarts=3, after="c")) == known
    assert end_of(runs(), crashed(), backs_off(run="c", restarts=2)) == known


def test_end_of_a_later_run_replaces_that_of_an_earlier_one() -> None:
    second = runs(run="b", restarts=1, after="a")
    later = end_of(runs(), second, crashed(run="b", restarts=1, last_end=over(run="b", finished_at_s=NOW_S)))
    assert later is not None
    assert later.container_id == "containerd://app-b"


def test_end_is_received_when_it_is_heard_of_first() -> None:
    known = seen(shows(runs()), shows(crashed()))
    (again,) = followed(known, shows(runs(run="b", restarts=1, after="a")), NODE, now_s=NOW_S + 20)
    assert again.end is not None
    assert again.end.received_at_s == NOW_S


def test_run_behind_an_entry_that_is_gone_may_have_been_followed_by_others() -> None:
    absent = ContainerView(name="app", phase=ContainerPhase.ABSENT, may_hold_id=True)
    assert end_of(runs(), absent, crashed()) is None


# every container that may hold an id -------------------------------------------------------------------------------


def test_container_that_holds_no_id_is_not_followed() -> None:
    assert seen(shows(runs(may_hold_id=False))) == ()
    assert every_end(seen(shows(runs(), runs("proxy", may_hold_id=False)), shows(crashed(), runs("proxy", may_hold_id=False))))


def test_container_that_once_may_have_held_an_id_is_followed_whatever_it_shows_later() -> None:
    later = (crashed(), runs("proxy", may_hold_id=False))
    assert every_end(seen(shows(runs(), runs("proxy")), shows(*later))) == ()


def test_no_end_is_every_end_while_one_container_goes_on() -> None:
    assert every_end(seen(shows(runs(), runs("second")), shows(crashed(), runs("second")))) == ()
    assert len(every_end(seen(shows(runs(), runs("second")), shows(crashed(), crashed("second"))))) == 2


def test_no_container_that_may_hold_an_id_is_no_end() -> None:
    assert every_end(()) == ()


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


def test_next_run_that_starts_later_than_it_is_heard_of_shows_a_clock_ahead() -> None:
    told = runs(run="b", restarts=1, after="a", started_at_s=NOW_S + 2)
    assert "clock of node n1 is ahead" in doubt(shows(told))
    (run,) = seen(shows(runs()), shows(crashed()), shows(told))
    assert run.end is not None
    assert "clock of node n1 is ahead" in run.end.doubt


def test_run_that_started_later_than_it_was_heard_of_shows_a_clock_ahead_when_it_ends() -> None:
    """Its end may be written so late that nothing about it looks odd."""
    early = shows(runs(started_at_s=NOW_S + 15))
    known = seen(early, now_s=NOW_S)
    known = followed(known, shows(runs(started_at_s=NOW_S + 15), phase_written_at_s=NOW_S + 30), NODE, now_s=NOW_S + 30)
    late = crashed(last_end=over(finished_at_s=NOW_S + 315))
    (run,) = followed(known, shows(late, phase_written_at_s=NOW_S + 320), NODE, now_s=NOW_S + 320)
    assert run.end is not None
    assert "clock of node n1 is ahead" in run.end.doubt


def test_doubt_of_one_run_is_none_of_the_next() -> None:
    second = runs(run="b", restarts=1, after="a")
    known = seen(shows(runs(started_at_s=NOW_S + 15)), shows(second))
    (run,) = followed(known, shows(crashed(run="b", restarts=1, last_end=over(run="b"))), NODE, now_s=NOW_S)
    assert run.end is not None
    assert (run.end.container_id, run.end.doubt) == ("containerd://app-b", "")


def test_clock_that_was_ahead_once_stays_doubted() -> None:
    ahead = crashed(last_end=over(finished_at_s=NOW_S + 5))
    known = seen(shows(runs()), shows(ahead))
    (again,) = followed(known, shows(ahead, phase_written_at_s=NOW_S + 60), NODE, now_s=NOW_S + 60)
    assert again.end is not None
    assert "ahead" in again.end.doubt


def test_end_whose_writing_has_no_time_is_doubted() -> None:
    assert "does not tell when" in doubt(shows(crashed(), phase_written_at_s=None))


def test_end_that_is_heard_of_late_is_doubted() -> None:
    assert doubt(shows(crashed()), now_s=ENDED_S + 30) == ""
    assert "30 s late" in doubt(shows(crashed()), now_s=ENDED_S + 30.5)


# which id a container may hold ----------------------------------------------------------------------------------------


def named(*found: ContainerRun) -> list[str]:
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


# when it first ran -------------------------------------------------------------------------------------------------------


def test_first_run_of_a_container_that_was_seen_is_dated_once() -> None:
    first = seen(shows(runs()))
    assert [run.first_began_at_s for run in first] == [NOW_S - 300]
    later = seen(shows(runs()), shows(runs(run="b", restarts=1, after="a")))
    assert [run.first_began_at_s for run in later] == [NOW_S - 300]
    assert [run.first_began_at_s for run in seen(shows(crashed()), shows(runs(run="b", restarts=1, after="a")))] == [NOW_S]
