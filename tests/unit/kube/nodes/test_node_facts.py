"""What of pods, nodes and answers of the API server the evidence of nodes rests on, as it is read."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.kube.nodes.ledger import NodeLedger
from staticgroup.kube.translate import node_view, pod_version
from staticgroup.kube.transport import NAMESPACES, connect
from support.fake_apiserver import FakeApiServer
from unit.kube.nodes.test_node_records import raw
from unit.kube.raw_objects import at, pod

JAN_1_S = 1_767_225_600.0


def version(made: dict[str, Any]) -> PodVersion:
    found = pod_version(at(made, 7))
    assert isinstance(found, PodVersion)
    return found


def test_a_pod_tells_whether_it_mirrors_a_static_one() -> None:
    assert not version(pod()).is_mirror
    assert version(pod(annotations={"kubernetes.io/config.mirror": "8f3c"})).is_mirror


def test_a_pod_tells_when_it_was_scheduled() -> None:
    made = pod()
    assert version(made).scheduled_at_s is None
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]
    assert version(made).scheduled_at_s == JAN_1_S + 5
    made["status"]["conditions"][0]["status"] = "False"
    assert version(made).scheduled_at_s is None


def test_a_pod_tells_the_longest_grace_of_its_probes() -> None:
    made = pod()
    assert version(made).probe_grace_s == 0
    made["spec"]["containers"][0] |= {"livenessProbe": {"terminationGracePeriodSeconds": 60}, "readinessProbe": {"periodSeconds": 1}}
    made["spec"]["initContainers"] = [{"name": "sidecar", "startupProbe": {"terminationGracePeriodSeconds": 900}}]
    assert version(made).probe_grace_s == 900


def test_a_node_tells_its_container_runtime_and_when_it_was_written() -> None:
    made = raw(containerRuntimeVersion="containerd://2.1.4")
    made["metadata"]["managedFields"] = [
        {"manager": "kubelet", "time": "2026-01-01T00:10:00Z"}, {"manager": "kubectl", "time": "2026-01-01T00:20:00Z"}, {"manager": "old"},
    ]  # fmt: skip
    found, silent = node_view(made), node_view(raw())
    assert isinstance(found, NodeView)
    assert isinstance(silent, NodeView)
    assert (found.runtime, found.written_at_s) == ("containerd", JAN_1_S + 1200)
    assert (silent.runtime, silent.written_at_s) == ("", 0.0)


async def test_each_answer_tells_how_far_the_clock_of_the_api_server_is_ahead(server: FakeApiServer) -> None:
    """Its Date says so; a ledger then concludes nothing while that is much."""
    transport = connect(server.configuration())
    try:
        assert transport.clock_ahead_s == 0.0
        await transport.call("list", NAMESPACES)
        assert abs(transport.clock_ahead_s) <= 5
        transport._now_s = lambda: 1_000.0
        await transport.call("list", NAMESPACES)
        assert transport.clock_ahead_s > 1e9
        ledger = NodeLedger(now_s=lambda: 1_000.0, clock_apart_s=lambda: transport.clock_ahead_s)
        assert ledger.fleet().clocks_apart
    finally:
        await transport.close()
