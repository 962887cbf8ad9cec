"""What the tests of the commands that give a word share: an API server that they speak to, and what was said to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from staticgroup.kube.transport import connect
from staticgroup.runtime.process import kube_client
from support.fake_apiserver import FakeApiServer

SUSPECTS = "podendconfirmations.staticgroup.io"
GAPS = "watchgapconfirmations.staticgroup.io"
GROUPS = "staticgroups.staticgroup.io"


@asynccontextmanager
async def api_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    """Serve an empty API server to every command that is called meanwhile."""
    async with FakeApiServer().serving() as server:

        async def connected() -> Any:
            return connect(server.configuration())

        monkeypatch.setattr(kube_client, "connected", connected)
        yield server


def said(server: FakeApiServer, words: str) -> list[dict[str, Any]]:
    """Return the words of one resource that were given."""
    return [o for (resource, _, _), o in server.objects.items() if resource == words]


async def refused(command: Awaitable[int], server: FakeApiServer, words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that says nothing, and return why."""
    assert await command == 1
    assert said(server, words) == []
    told = capsys.readouterr()
    assert told.out == ""
    return told.err
