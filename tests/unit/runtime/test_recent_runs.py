"""Recent ends and starts of processes: each is reported once, and nothing is kept of pods that just run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.runtime.returns.recent_runs import PENDING_AGE_MS, RecentRuns
from staticgroup.runtime.stores import Stores
from unit.kube.raw_objects import Json, at, pod

from .operator_world import KEY, static_group

NOW_S = 1_800_000_000.0


def moment(ago_s: float) -> str:
    return datetime.fromtimestamp(NOW_S - ago_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(ago_s: float, count: int = 0, *, ended_ago_s: float | None = None) -> Json:
    entry: Json = {"name": "app", "restartCount": count, "state": {"running": {"startedAt": moment(ago_s)}}}
    if ended_ago_s is not None:
        end = {
            "startedAt": moment(ended_ago_s + 60),
            "finishedAt": moment(ended_ago_s),
            "reason": "Error",
            "exitCode": 1,
        }
        entry["lastState"] = {"terminated": end}
    return entry


class SeenPods:
    def __init__(self) -> None:
        self.now_s, self.is_holder = NOW_S, True
        stores = Stores()
        stores.put_group(KEY, static_group())
        self.runs = RecentRuns(stores=stores, may_write=lambda: self.is_holder, now_s=lambda: self.now_s)

    def see(self, entry: Json, *, name: str = "web-0") -> None:
        raw = at(pod(statuses=[entry]), 7)
        raw["metadata"] |= {"namespace": "shop", "name": name}
        version = pod_version(raw)
        assert isinstance(version, PodVersion)
        self.runs.pod_seen(raw, version)

    @property
    def changes(self) -> list[tuple[int, bool]]:
        return [(change.restart_count, change.is_up) for change in self.runs.taken(KEY)]


def test_pod_that_ran_all_along_shows_and_costs_nothing() -> None:
    seen = SeenPods()
    seen.see(running(86_400, 3, ended_ago_s=90_000))
    assert seen.changes == []
    assert seen.runs._noted == {}


def test_restart_is_noted_once_however_often_its_versions_come() -> None:
    seen = SeenPods()
    for _ in range(3):
        seen.see(running(5, 1, ended_ago_s=10))
        seen.now_s += 1
    assert seen.changes == [(0, True), (0, False), (1, True)]
    seen.see(running(5, 1, ended_ago_s=10))
    assert seen.changes == []


def test_pods_without_a_workload_are_not_noted() -> None:
    seen = SeenPods()
    seen.see(running(5, 1, ended_ago_s=10), name="other-0")
    assert seen.runs._pending == {}
    assert seen.runs._noted == {}


def test_what_was_noted_is_forgotten_when_no_version_can_show_it_any_more() -> None:
    seen = SeenPods()
    seen.see(running(5, 1, ended_ago_s=10))
    seen.now_s += 3_700
    seen.see(running(5, 1, ended_ago_s=10))
    seen.now_s += 60
    seen.see(running(-3_755, 2, ended_ago_s=-3_750))
    assert {run[2:] for run in seen.runs._noted} == {(1, True), (1, False), (2, True)}


def test_standby_keeps_the_last_minutes_only() -> None:
    seen = SeenPods()
    seen.is_holder = False
    seen.see(running(5, 1, ended_ago_s=10))
    seen.now_s += PENDING_AGE_MS / 1000 + 1
    seen.see(running(-300, 2, ended_ago_s=-299))
    assert seen.changes == [(1, False), (2, True)]


def test_fault_costs_the_watch_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen = SeenPods()
    seen.runs.stores = None  # type: ignore[assignment]
    seen.see(running(5, 1, ended_ago_s=10))
    assert "the runs of a pod could not be read" in caplog.text
