"""What the tests of the edge to the API server share: a fake one, a connection to it, and a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from staticgroup.kube.transport import Transport, connect
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from unit.kube.leases import Leases


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


@pytest.fixture
async def transport(server: FakeApiServer) -> AsyncIterator[Transport]:
    made = connect(server.configuration())
    yield made
    await made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(server: FakeApiServer, transport: Transport, clock: Clock) -> Leases:
    return Leases(server, transport, clock)
