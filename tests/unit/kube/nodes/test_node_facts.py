"""What of pods and answers of the API server the end of a node is judged by, as it is read."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.kube.transport import NAMESPACES, connect
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type
from unit.kube.raw_objects import at, pod

JAN_1_S = 1_767_225_600.0


def version(made: dict[str, Any]) -> PodVersion:
    found = of_type(PodVersion, pod_version(at(made, 7)))
    return found


def test_a_pod_shows_whether_it_mirrors_a_static_one() -> None:
    assert not version(pod()).is_mirror
    assert version(pod(annotations={"kubernetes.io/config.mirror": "8f3c"})).is_mirror


def test_a_pod_shows_when_it_was_scheduled() -> None:
    made = pod()
    assert version(made).scheduled_at_s is None
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]
    assert version(made).scheduled_at_s == JAN_1_S + 5
    made["status"]["conditions"][0]["status"] = "False"
    assert version(made).scheduled_at_s is None


async def test_each_answer_shows_how_far_the_clock_of_the_api_server_is_ahead(server: FakeApiServer) -> None:
    """Its Date says so; the ends of containers are compared with whichever of both clocks is ahead."""
    transport = connect(server.configuration())
    try:
        assert transport.clock_ahead_s == 0.0
        await transport.call("list", NAMESPACES)
        assert abs(transport.clock_ahead_s) <= 5
        transport._now_s = lambda: 1_000.0
        await transport.call("list", NAMESPACES)
        assert transport.clock_ahead_s > 1e9
    finally:
        await transport.close()
