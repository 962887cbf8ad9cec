"""What kopf receives from the informers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from staticgroup.runtime.process.session import InformerAnswer, Json, Session


async def changes() -> AsyncGenerator[Json, None]:
    owners = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    yield {"type": "MODIFIED", "object": {"metadata": {"name": "orders", "managedFields": owners}, "spec": {}}}


async def test_events_come_without_who_owns_which_field() -> None:
    """managedFields are as long as the object, and kopf decodes each event anew."""
    lines = [json.loads(line) async for line in InformerAnswer(changes=changes()).iter_chunked(1)]
    assert lines[0] == {"type": "MODIFIED", "object": {"metadata": {"name": "orders"}, "spec": {}}}


async def test_watcher_whose_cancellation_was_swallowed_ends_with_its_next_request() -> None:
    """kopf's streaming_block does so when a process ends just as its streams do, and the process would never end."""
    session = Session([])

    async def watch() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await session.request(url="/api/v1")

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher
