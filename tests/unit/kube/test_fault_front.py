"""Each fault of the way to the API server, seen by the operator's own client: returned as a problem, and caught up with after its end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from kubernetes.aio.client import Configuration

from simulator.operators.entrance import follow
from staticgroup.kube import informer as informing
from staticgroup.kube.informer import Informer
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import STATEFULSETS, Transport, connect
from support.fake_apiserver import FakeApiServer
from support.fault_proxy.kube_front import FRONT_FAULTS, FrontFault, KubeFront
from support.fault_proxy.kube_proxy import KubeFault
from support.fault_proxy.relay import ByteFault
from support.fault_proxy.tripwire import Tripwire
from unit.kube.raw_objects import eventually

RESOURCE = "statefulsets.apps"
CALL_TIMEOUT_S = 1.0
STALL_S = 1.0
KINDS = {
    KubeFault.CONFLICT: KubeProblemKind.CONFLICT,
    KubeFault.THROTTLED: KubeProblemKind.UNAVAILABLE,
    KubeFault.INTERNAL_ERROR: KubeProblemKind.UNAVAILABLE,
    KubeFault.TRUNCATED: KubeProblemKind.UNAVAILABLE,
    ByteFault.SLOW_BYTES: KubeProblemKind.UNAVAILABLE,
    ByteFault.HALF_OPEN: KubeProblemKind.UNAVAILABLE,
    ByteFault.BLACKOUT: KubeProblemKind.UNAVAILABLE,
}
"""What a write returns; the other faults are of watches only."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest_asyncio.fixture
async def front(server: FakeApiServer, folder: Path) -> AsyncIterator[KubeFront]:
    upstream = f"http://127.0.0.1:{server.port}"
    front = KubeFront(upstream, folder, trust=ssl.create_default_context(), tripwire=Tripwire())
    await front.open()
    yield front
    await front.close()


@pytest_asyncio.fixture
async def through(front: KubeFront) -> AsyncIterator[Transport]:
    configuration = Configuration(host=front.url)
    configuration.ssl_ca_cert = str(front.ca_file)
    transport = connect(configuration)
    transport._call_timeout = Transport(transport._client, call_timeout_s=CALL_TIMEOUT_S)._call_timeout
    yield transport
    await transport.close()


@pytest_asyncio.fixture
async def known(through: Transport, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[set[str]]:
    """The names that an informer of the operator passes on."""
    monkeypatch.setattr(informing, "STALL_TIMEOUT_S", STALL_S)
    names: set[str] = set()

    def on_object(raw: Any, *, is_deleted: bool) -> None:
        (names.discard if is_deleted else names.add)(raw["metadata"]["name"])

    informer = Informer(
        through, STATEFULSETS, on_object, scope="shop", outage=through.outage, rng=Random(7),
        clock_s=asyncio.get_running_loop().time, relist_s=60,
    )  # fmt: skip
    following = asyncio.create_task(follow(informer))
    await informer.wait_complete()
    yield names
    assert not following.done(), "no fault ends it"
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def put(server: FakeApiServer, name: str) -> None:
    server.put({"metadata": {"namespace": "shop", "name": name, "uid": f"uid-{name}"}, "spec": {}}, RESOURCE)


@pytest.mark.parametrize("fault", FRONT_FAULTS)
async def test_an_informer_catches_up_with_what_happened_during_a_fault(
    server: FakeApiServer, front: KubeFront, through: Transport, known: set[str], fault: FrontFault
) -> None:
    put(server, "before")
    await eventually(lambda: known == {"before"})
    front.begin(fault)
    put(server, "meanwhile")
    await through.call("list", STATEFULSETS, namespace="shop")  # the fault lasts as long as a call takes under it
    await front.end()
    put(server, "after")
    await eventually(lambda: known == {"before", "meanwhile", "after"})


@pytest.mark.parametrize("fault", FRONT_FAULTS)
async def test_a_write_returns_what_happened_in_time(through: Transport, front: KubeFront, fault: FrontFault) -> None:
    body = {"metadata": {"name": "orders", "namespace": "shop"}}
    front.begin(fault)
    async with asyncio.timeout(5 * CALL_TIMEOUT_S + 2):
        outcome = await through.call("create", STATEFULSETS, namespace="shop", body=body)
    assert isinstance(outcome, KubeProblem) == (fault in KINDS), outcome
    if isinstance(outcome, KubeProblem):
        assert outcome.kind is KINDS[fault]
    await front.end()
    async with asyncio.timeout(60):
        while isinstance(await through.call("list", STATEFULSETS, namespace="shop"), KubeProblem):
            pass
