"""The fake API server of each test."""

from collections.abc import AsyncIterator

import pytest

from support.fake_apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server
