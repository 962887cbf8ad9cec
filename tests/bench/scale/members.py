"""Static members of classic groups over the wire: they join, and come back under their ids after a restart.

One idea: a member needs its connection only while it joins. Its session outlasts the whole run, so that it needs no
heartbeats, which would measure this program instead of the operator.
Source: ConsumerProtocol (version 0 of subscription and assignment), KIP-345.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from coordinator_model.wire.codec import Api, decode, encode, request_type, response_type

from .coordinator import MEMBER_CLIENT_ID, PARTITIONS, SESSION_MS, TOPIC

JOIN_VERSION, SYNC_VERSION = 9, 5
REBALANCE_IN_PROGRESS = 27
ATTEMPTS_MAX = 20
_PATIENCE_S = 60.0


class MemberConnection:
    """One connection to the broker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    async def call(self, api: Api, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Ask once, and wait for the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        self._correlation_id += 1
        kind = request_type(api, version)
        head = {
            "request_api_key": int(api), "request_api_version": version, "correlation_id": self._correlation_id,
            "client_id": MEMBER_CLIENT_ID,
        }  # fmt: skip
        frame = encode(kind.__header_schema__, head) + encode(kind, body)
        writer.write(struct.pack(">i", len(frame)) + frame)
        async with asyncio.timeout(_PATIENCE_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            answer = await reader.readexactly(size)
        kind_of_answer = response_type(api, version)
        _, offset = decode(kind_of_answer.__header_schema__, answer)
        found, _ = decode(kind_of_answer, answer, offset)
        if found["error_code"] not in (0, REBALANCE_IN_PROGRESS):
            raise RuntimeError(f"{api.name}: error {found['error_code']}")
        return found

    def close(self) -> None:
        """Hang up; the member stays until its session is over."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def subscription() -> bytes:
    """Return what a member of the consumer protocol subscribes to."""
    topic = TOPIC.encode()
    return struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", -1)


def assignment(partitions: Sequence[int]) -> bytes:
    """Return the partitions of one member."""
    topic = TOPIC.encode()
    head = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


async def join(connection: MemberConnection, group_id: str, instance_id: str) -> None:
    """Join a group as a static member, or come back to it, and take the assignment."""
    member_id = ""
    for _ in range(ATTEMPTS_MAX):
        asked = {
            "group_id": group_id, "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS,
            "member_id": member_id, "group_instance_id": instance_id, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription()}],
        }  # fmt: skip
        joined = await connection.call(Api.JOIN_GROUP, JOIN_VERSION, asked)
        member_id = joined["member_id"]
        if joined["error_code"] == 0 and await _sync(connection, group_id, instance_id, joined):
            return
    raise RuntimeError(f"{instance_id} finds no end of rebalances of {group_id}")


async def _sync(connection: MemberConnection, group_id: str, instance_id: str, joined: dict[str, Any]) -> bool:
    """Take the assignment, and give all of them as the leader; False when another rebalance has begun."""
    assignments: list[dict[str, Any]] = []
    if joined["leader"] == joined["member_id"] and not joined["skip_assignment"]:
        count = len(joined["members"])  # every partition has a member, or the operator would rebalance the group
        assignments = [
            {"member_id": each["member_id"], "assignment": assignment(range(number, PARTITIONS, count))}
            for number, each in enumerate(joined["members"])
        ]
    body = {
        "group_id": group_id, "generation_id": joined["generation_id"], "member_id": joined["member_id"],
        "group_instance_id": instance_id, "protocol_type": "consumer", "protocol_name": "range",
        "assignments": assignments,
    }  # fmt: skip
    return bool((await connection.call(Api.SYNC_GROUP, SYNC_VERSION, body))["error_code"] == 0)


async def form(port: int, groups: Sequence[tuple[str, Sequence[str]]], *, lanes: int) -> None:
    """Let every group be formed by its members.

    Parameters
    ----------
    groups: group ids, each with the instance ids of its members.
    lanes: groups that form at once.
    """
    waiting = list(reversed(groups))

    async def lane() -> None:
        connections: list[MemberConnection] = []
        while waiting:
            group_id, ids = waiting.pop()
            while len(connections) < len(ids):
                connections.append(MemberConnection(port))
            await asyncio.gather(*(join(c, group_id, i) for c, i in zip(connections, ids, strict=False)))
        for connection in connections:
            connection.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(lanes, len(groups))):
            tasks.create_task(lane())
