"""What processes of pods did lately: each told once, whatever comes again, and nothing kept of pods that just run."""

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
        end = {"startedAt": moment(ended_ago_s + 60), "finishedAt": moment(ended_ago_s), "reason": "Error", "exitCode": 1}
        entry["lastState"] = {"terminated": end}
    return entry


class Heard:
    def __init__(self) -> None:
        self.now_s, self.is_holder = NOW_S, True
        stores = Stores()
        stores.put_group(KEY, static_group())
        self.runs = RecentRuns(stores=stores, may_write=lambda: self.is_holder, now_s=lambda: self.now_s)

    def hear(self, entry: Json, *, name: str = "web-0") -> None:
        raw = at(pod(statuses=[entry]), 7)
        raw["metadata"] |= {"namespace": "shop", "name": name}
        version = pod_version(raw)
        assert isinstance(version, PodVersion)
        self.runs.pod_seen(raw, version)

    @property
    def told(self) -> list[tuple[int, bool]]:
        return [(change.restart_count, change.is_up) for change in self.runs.of(KEY)]


def test_pod_that_ran_all_along_tells_and_costs_nothing() -> None:
    heard = Heard()
    heard.hear(running(86_400, 3, ended_ago_s=90_000))
    assert heard.told == []
    assert heard.runs._told == {}


def test_restart_is_told_once_however_often_its_versions_come() -> None:
    heard = Heard()
    for _ in range(3):
        heard.hear(running(5, 1, ended_ago_s=10))
        heard.now_s += 1
    assert heard.told == [(0, True), (0, False), (1, True)]
    heard.runs.taken(KEY)
    heard.hear(running(5, 1, ended_ago_s=10))
    assert heard.told == []


def test_pods_of_nobody_are_not_heard() -> None:
    heard = Heard()
    heard.hear(running(5, 1, ended_ago_s=10), name="other-0")
    assert heard.runs._pending == {}
    assert heard.runs._told == {}


def test_what_was_told_is_forgotten_when_no_version_can_tell_it_any_more() -> None:
    heard = Heard()
    heard.hear(running(5, 1, ended_ago_s=10))
    heard.now_s += 3_700
    heard.hear(running(5, 1, ended_ago_s=10))
    heard.now_s += 60
    heard.hear(running(-3_755, 2, ended_ago_s=-3_750))
    assert {run[2:] for run in heard.runs._told} == {(1, True), (1, False), (2, True)}


def test_standby_keeps_the_last_minutes_only() -> None:
    heard = Heard()
    heard.is_holder = False
    heard.hear(running(5, 1, ended_ago_s=10))
    heard.now_s += PENDING_AGE_MS / 1000 + 1
    heard.hear(running(-300, 2, ended_ago_s=-299))
    assert heard.told == [(1, False), (2, True)]


def test_fault_costs_the_watch_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    heard.runs.stores = None  # type: ignore[assignment]
    heard.hear(running(5, 1, ended_ago_s=10))
    assert "the runs of a pod could not be read" in caplog.text
