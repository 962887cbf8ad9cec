"""The coordinator model as a broker in its own process, which counts what it is asked.

`python -m bench.scale.coordinator`: serves Kafka on a free port, which it prints; each line on standard input is
answered with the figures as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.wire.codec import Api, Body
from coordinator_model.wire.groups import Peer
from coordinator_model.wire.listener import Listener

MEMBER_CLIENT_ID = "bench-member"
"""Of the members; whatever else asks is the operator."""
TOPIC = "orders"
PARTITIONS = 12
SESSION_MS = 6 * 3_600_000
"""Longer than the default half hour, after which all members were gone before the operator had seen 100,000 of them."""
INITIAL_DELAY_MS = 500
"""Members of one group begin closer together than this, so that a group forms in one rebalance."""


class CountingListener(Listener):
    """A listener that counts all calls but those of members, and records removed members with their times.

    Attributes
    ----------
    leaves: (monotonic seconds, group id, instance id) of each member that a LeaveGroup removed.
    """

    def __init__(self) -> None:
        settings = BrokerSettings(
            group_initial_rebalance_delay_ms=INITIAL_DELAY_MS, group_max_session_timeout_ms=SESSION_MS
        )
        super().__init__(settings, topics={TOPIC: PARTITIONS}, observe=self._see, complain=_complain)
        self.calls: Counter[str] = Counter()
        self.leave_requests = 0
        self.leaves: list[tuple[float, str, str]] = []

    async def _body(self, api: Api, version: int, body: Body, peer: Peer) -> Body:
        if peer.client_id != MEMBER_CLIENT_ID:
            self.calls[api.name] += 1
        return await super()._body(api, version, body, peer)

    def _see(self, request: m.Request, answer: m.Response) -> None:
        if not isinstance(request, m.LeaveGroupRequest) or not isinstance(answer, m.LeaveGroupResponse):
            return
        self.leave_requests += 1
        now_s = time.monotonic()
        for member in answer.members:
            if answer.error_code is ErrorCode.NONE and member.error_code is ErrorCode.NONE:
                self.leaves.append((now_s, request.group_id, member.group_instance_id or ""))

    def figures(self) -> Body:
        """Return what was counted so far."""
        return {"calls": dict(self.calls), "leave_requests": self.leave_requests, "leaves": self.leaves}


def _complain(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def _serve() -> None:
    listener = CountingListener()
    _, port = await listener.start("127.0.0.1", 0)
    print(json.dumps({"port": port}), flush=True)
    asked = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    while await asked.readline():
        print(json.dumps(listener.figures()), flush=True)
    await listener.stop()


if __name__ == "__main__":
    asyncio.run(_serve())
