"""What tests of whole operator processes share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.fake_apiserver import FakeApiServer
from unit.runtime.process_world import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        yield Cluster(server)
