"""A note is written over one version of one pod, and changes nothing else of it."""

from __future__ import annotations

import pytest

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.gateway import KubeGateway, PodRead
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type
from unit.core.builders import known_pod
from unit.kube.raw_deployments import SCOPE, annotation_of, deployed

NAME = deployed()["metadata"]["name"]


@pytest.fixture
def gateway(transport: Transport, clock: Clock) -> KubeGateway:
    return KubeGateway(transport, instance="operator-0", now_s=clock)


async def seen(gateway: KubeGateway) -> PodVersion:
    return of_type(PodVersion, of_type(PodRead, await gateway.read_pod("shop", NAME)).version)


def known(version: PodVersion, **changes: object) -> KnownPod:
    values = {"pod_name": NAME, "resource_version": version.resource_version}
    return known_pod(0, version.uid, **(values | changes))


async def test_a_note_is_an_annotation_beside_the_others(server: FakeApiServer, gateway: KubeGateway) -> None:
    raw = deployed()
    raw["metadata"]["annotations"]["theirs"] = "stays"
    server.put(raw)
    before = dict(server.objects["pods", "shop", NAME])
    assert await gateway.write_note(known(await seen(gateway)), annotation_of(), "uid-0 waits 1 -") is None
    after = server.objects["pods", "shop", NAME]
    assert after["metadata"]["annotations"] == {"theirs": "stays", annotation_of(): "uid-0 waits 1 -"}
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert [slot.count for slot in (await seen(gateway)).slots] == [1]


async def test_a_note_for_a_version_that_is_not_the_newest_is_refused(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.put(deployed())
    pod = known(await seen(gateway))
    assert await gateway.write_note(pod, annotation_of(), f"uid-0 has web-1 {SCOPE}") is None
    late = of_type(KubeProblem, await gateway.write_note(pod, annotation_of(), "uid-0 has web-2 1"))
    assert late.kind is KubeProblemKind.CONFLICT
    assert (await seen(gateway)).slots[0].given == "web-1"


async def test_a_note_for_a_pod_that_is_gone_is_refused(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.put(deployed())
    pod = known(await seen(gateway))
    server.remove("shop", NAME)
    gone = of_type(KubeProblem, await gateway.write_note(pod, annotation_of(), "uid-0 has web-2 1"))
    assert gone.kind is KubeProblemKind.NOT_FOUND


async def test_a_refused_right_is_a_value(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.put(deployed())
    pod = known(await seen(gateway))
    server.denied.add(("patch", "pods"))
    refused = of_type(KubeProblem, await gateway.write_note(pod, annotation_of(), "uid-0 has web-2 1"))
    assert (refused.kind, refused.verb, refused.resource) == (KubeProblemKind.FORBIDDEN, "patch", "pods")
