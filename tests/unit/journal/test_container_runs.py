"""What a Pod's status says about the runs of its containers, in the shapes a kubelet writes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.container_runs import pod_runs
from journal.runs import PodRuns, Run
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from unit.kube.raw_objects import Json, at, pod

START, END, NEXT = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:01:05Z"
TERMINATED: Json = {"startedAt": START, "finishedAt": END, "reason": "OOMKilled", "exitCode": 137}


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read(raw: Json) -> PodRuns:
    version = pod_version(at(raw, 7))
    assert isinstance(version, PodVersion)
    return pod_runs(raw, version)


def runs(entry: Json) -> tuple[Run, ...]:
    (container,) = read(pod(statuses=[{"name": "app"} | entry])).containers
    return container.runs


RUN_0 = Run(restart_count=0, started_ms=ms(START), ended_ms=ms(END), is_over=True, reason="OOMKilled")
RUN_1 = Run(restart_count=1, started_ms=ms(NEXT))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"restartCount": 0, "state": {"running": {"startedAt": START}}}, (Run(restart_count=0, started_ms=ms(START)),)),
        ({"restartCount": 0, "state": {"terminated": TERMINATED}}, (RUN_0,)),
        (
            {
                "restartCount": 1,
                "state": {"running": {"startedAt": NEXT}},
                "lastState": {"terminated": TERMINATED},
            },
            (RUN_0, RUN_1),
        ),
        (
            {
                "restartCount": 0,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": TERMINATED},
            },
            (RUN_0,),
        ),
        ({"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}, ()),
        ({"restartCount": 0, "state": {"running": {"startedAt": START}}, "lastState": {"terminated": TERMINATED}},
         (Run(restart_count=0, started_ms=ms(START)),)),
        ({"state": {"terminated": {"reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}}},
         (Run(restart_count=0, is_over=True, reason="ContainerStatusUnknown"),)),
        ({"state": {"terminated": {"startedAt": "0001-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:00Z"}}},
         (Run(restart_count=0, is_over=True),)),
    ],
    ids=[
        "running", "ended", "restarted in place", "waits to restart", "starting", "lastState without a restart",
        "lost by the kubelet", "times that say nothing",
    ],
)  # fmt: skip
def test_runs_of_one_status_entry(entry: Json, expected: tuple[Run, ...]) -> None:
    assert runs(entry) == expected


def test_facts_of_the_pod() -> None:
    raw = pod(
        "web-3",
        statuses=[
            {"name": "proxy", "restartCount": 0, "state": {}, "imageID": "docker.io/proxy:1"},
            {"name": "app", "restartCount": 0, "state": {}, "imageID": "registry.example/app@sha256:feed"},
        ],
        labels={"controller-revision-hash": "web-abc"},
        annotations={"staticgroup.io/instance-id": "web-3.x", "staticgroup.io/session-timeout-ms": "45000"},
        deletionTimestamp="2026-01-01T00:00:30Z",
        deletionGracePeriodSeconds=20,
    )
    seen = read(raw)
    assert (seen.rollout_id, seen.instance_ids, seen.session_timeout_ms) == ("web-abc", ("web-3.x",), 45_000)
    assert seen.deletion_asked_ms == ms("2026-01-01T00:00:10Z")
    assert not seen.is_evicted
    assert [(c.name, c.is_first, c.image_digest) for c in seen.containers] == [
        ("proxy", False, "docker.io/proxy:1"),
        ("app", True, "sha256:feed"),
    ]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "Evicted"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]},
    ],
    ids=["by the kubelet", "by the API"],
)
def test_eviction(status: Json) -> None:
    """KEP-3329: DisruptionTarget; a node-pressure eviction also sets status.reason."""
    raw = pod()
    raw["status"] |= status
    assert read(raw).is_evicted


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
                        st.sampled_from(["state", "lastState", "running", "terminated", "restartCount", "startedAt", "name"]),
                        inner, max_size=4), max_leaves=8))  # fmt: skip
def test_no_shape_of_a_status_is_an_error(anything: Any) -> None:
    """A fault of the journal must not cost the pod watch an event."""
    version = pod_version(at(pod(), 7))
    assert isinstance(version, PodVersion)
    for raw in (anything, {"status": anything, "metadata": anything}, {"status": {"containerStatuses": [anything]}}):
        assert pod_runs(raw, version).uid == version.uid
