"""Watches of the fake API server: their queues, and what is sent for an item of one."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

from simulator.kubernetes.watch_log import Subscription

Json = dict[str, Any]

_NESTED = re.compile(r'"\{nested (\d+)\}"')


@dataclass(eq=False)
class Watch:
    resource: str
    namespace: str
    is_short: bool
    queue: asyncio.Queue[Json | str | None] = field(default_factory=asyncio.Queue)
    transport: asyncio.Transport | None = None
    subscription: Subscription | None = None


def rendered(item: Json | str, sent: int) -> Json | None:
    """Return what is sent for an item of a queue; None: nothing."""
    if isinstance(item, dict):
        return item
    kind, _, number = item.partition(" ")
    if kind == "BOOKMARK":
        return bookmark(int(number)) if int(number) > sent else None
    if kind == "ERROR":
        return {"type": "ERROR", "object": {"kind": "Status", "code": int(number)}}
    return None


def iter_queue(queue: asyncio.Queue[Any]) -> list[Any]:
    """Empty a queue into a list."""
    items = []
    while not queue.empty():
        items.append(queue.get_nowait())
    return items


def push_front(queue: asyncio.Queue[Any], item: object) -> None:
    rest = iter_queue(queue)
    for each in [item, *rest]:
        queue.put_nowait(each)


def bookmark(resource_version: int) -> Json:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(resource_version)}}}


def as_text(value: Json) -> str:
    """Write JSON; "{nested 1500}" stands for as many objects inside each other, which json.dumps does not write."""
    return _NESTED.sub(lambda found: '{"f:a":' * int(found[1]) + "{}" + "}" * int(found[1]), json.dumps(value))


def as_line(event: Json) -> bytes:
    return as_text(event).encode() + b"\n"
