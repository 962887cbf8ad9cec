"""What kopf receives from the informers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from staticgroup.runtime.process.session import InformerAnswer, Json


async def changes() -> AsyncGenerator[Json, None]:
    owners = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    yield {"type": "MODIFIED", "object": {"metadata": {"name": "orders", "managedFields": owners}, "spec": {}}}


async def test_events_come_without_who_owns_which_field() -> None:
    """managedFields are as long as the object, and kopf decodes each event anew."""
    lines = [json.loads(line) async for line in InformerAnswer(changes=changes()).iter_chunked(1)]
    assert lines[0] == {"type": "MODIFIED", "object": {"metadata": {"name": "orders"}, "spec": {}}}
