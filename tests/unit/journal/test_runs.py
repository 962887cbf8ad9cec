"""Ends and starts of containers are recorded once, by the kubelet's clock, however versions of the pod arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.runs import RECENT_MS, PodProgress, RunChange, ended_with_pod, run_changes
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion, RunView
from unit.core.builders import pod_version

NOW_MS = 1_800_000_000_000


def container(*runs: RunView, name: str = "app") -> ContainerView:
    return ContainerView(name=name, phase=ContainerPhase.RUNNING, runs=runs)


def pod(*runs: RunView, **changes: Any) -> PodVersion:
    return pod_version(0, "u0", **({"required": (container(*runs),)} | changes))


def up(n: int, at_ms: int = NOW_MS) -> RunView:
    return RunView(restart_count=n, started_at_s=at_ms / 1000)


def over(n: int, at_ms: int = NOW_MS, reason: str = "Error") -> RunView:
    end = EndView(container_id="", finished_at_s=at_ms / 1000, reason=reason)
    return RunView(restart_count=n, started_at_s=at_ms / 1000 - 1, end=end)


def recorded(*versions: PodVersion) -> list[tuple[str, int, str]]:
    """Return (up or down, restartCount, reason) of everything that is new in these versions, one second apart."""
    known: PodProgress | None = None
    changes: list[RunChange] = []
    for n, version in enumerate(versions):
        known, more = run_changes(known, version, NOW_MS + 1_000 * n)
        changes += more
    return [("up" if c.is_up else "down", c.restart_count, c.reason) for c in changes]


def test_restart_in_place_is_an_end_and_a_start_with_the_kubelets_times() -> None:
    """The version between the two runs may never be seen: lastState shows the end."""
    first, _ = run_changes(None, pod(up(0)), NOW_MS)
    _, changes = run_changes(first, pod(over(0, NOW_MS + 5_000), up(1, NOW_MS + 7_000)), NOW_MS + 9_000)
    assert [(c.is_up, c.restart_count, c.source_time_ms) for c in changes] == [
        (False, 0, NOW_MS + 5_000),
        (True, 1, NOW_MS + 7_000),
    ]
    assert {(c.lo_ms, c.hi_ms, c.observed_at_ms) for c in changes} == {(None, None, NOW_MS + 9_000)}


def test_no_change_is_recorded_twice() -> None:
    versions = (pod(up(0)), pod(over(0), up(1)), pod(up(0)), pod(over(0), up(1)), pod(over(0), up(1)))
    assert recorded(*versions) == [("up", 0, ""), ("down", 0, "Error"), ("up", 1, "")]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 4), max_size=12))
def test_any_order_of_versions_gives_every_start_and_end_at_most_once(order: list[int]) -> None:
    """A relist and a watch may show versions late or twice."""
    life = [pod(up(0)), pod(over(0)), pod(over(0), up(1)), pod(over(0), over(1)), pod(over(1), up(2))]
    found = [(kind, n) for kind, n, _ in recorded(*(life[i] for i in order))]
    assert len(found) == len(set(found))


def test_of_a_pod_seen_for_the_first_time_only_the_last_hour_counts() -> None:
    """A restarted operator records what it missed and does not repeat the life of every pod."""
    old, recent = NOW_MS - RECENT_MS - 1, NOW_MS - RECENT_MS
    assert recorded(pod(over(3, old), up(4, recent))) == [("up", 4, "")]
    assert recorded(pod(over(3, old), up(4, old)), pod(over(4), up(5))) == [("down", 4, "Error"), ("up", 5, "")]


def test_crash_loop_shows_the_run_between_two_versions() -> None:
    """CrashLoopBackOff: the state is waiting, lastState shows the newest run."""
    assert recorded(pod(up(0)), pod(over(1))) == [("up", 0, ""), ("up", 1, ""), ("down", 1, "Error")]


def test_reason_is_the_pods_end_only_when_the_process_ended_after_it_was_asked_for() -> None:
    """A process that crashed before its pod was deleted has not ended because of that, whenever its status is seen."""
    asked = NOW_MS - 10_000
    for at_ms, reason in ((asked - 1, "Error"), (asked, "Deleted"), (NOW_MS, "Deleted")):
        assert recorded(pod(up(0)), pod(over(0, at_ms), deletion_asked_at_s=asked / 1000))[-1] == ("down", 0, reason)
    assert recorded(pod(up(0)), pod(over(0), deletion_asked_at_s=asked / 1000, reason="Evicted"))[-1] == ("down", 0, "Evicted")
    assert recorded(pod(up(0)), pod(over(0, reason="OOMKilled")))[-1] == ("down", 0, "OOMKilled")
    assert recorded(pod(up(0)), pod(over(0, reason="")))[-1] == ("down", 0, "Unknown")


def test_end_without_a_time_lies_between_two_versions() -> None:
    first, _ = run_changes(None, pod(up(0)), NOW_MS)
    ended = RunView(restart_count=0, started_at_s=NOW_MS / 1000, end=EndView(container_id="", finished_at_s=None))
    _, (change,) = run_changes(first, pod(ended), NOW_MS + 4_000)
    assert (change.source_time_ms, change.lo_ms, change.hi_ms) == (None, NOW_MS, NOW_MS + 4_000)


def test_pod_that_vanished_running_ended_between_the_version_before_its_last_and_now() -> None:
    """Its last version is that of the DELETED event itself, which may come long after the end."""
    known, _ = run_changes(None, pod(up(0)), NOW_MS)
    known, _ = run_changes(known, pod(up(0)), NOW_MS + 1_000)
    (change,) = ended_with_pod(known, NOW_MS + 1_001)
    assert (change.is_up, change.restart_count, change.reason) == (False, 0, "Deleted")
    assert (change.source_time_ms, change.lo_ms, change.hi_ms) == (None, NOW_MS, NOW_MS + 1_001)


def test_pod_that_ended_before_it_vanished_ended_once() -> None:
    known, _ = run_changes(None, pod(up(0)), NOW_MS)
    known, _ = run_changes(known, pod(over(0)), NOW_MS)
    assert ended_with_pod(known, NOW_MS) == ()


def test_containers_are_recorded_apart() -> None:
    _, changes = run_changes(None, replace(pod(), required=(container(up(0)), container(over(0), up(1), name="proxy"))), NOW_MS)
    assert [(c.container.name, c.is_up, c.restart_count) for c in changes] == [
        ("app", True, 0),
        ("proxy", True, 0),
        ("proxy", False, 0),
        ("proxy", True, 1),
    ]
