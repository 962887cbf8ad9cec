"""Watches and LISTs that an API server, or something before it, has spoiled: asked again at a pace, and never the end of a stream."""

from __future__ import annotations

import asyncio

from staticgroup.kube.outage import RETRY_MAX_S
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import following
from unit.kube.raw_objects import eventually, pod


async def test_watches_that_are_refused_as_too_old_one_after_the_other_are_asked_for_at_a_pace(server: FakeApiServer) -> None:
    """An API server whose watch cache lags behind its LISTs answers each new watch with 410, as an event (HTTP 200).

    Every time all pods are listed anew, so without a pause that grows the operator is what keeps the server busy.
    """
    server.put(pod())
    server.gone_as_event = True
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    async with following(server, sleep=sleep, chunk_size=500, reconnect_delay_s=0.2) as world:
        server.compacted = 10**9
        server.end_watches()
        await eventually(lambda: len(world.gaps) >= 8)
        pauses = [s for s in slept if s <= RETRY_MAX_S]
        assert max(pauses) > RETRY_MAX_S / 2, pauses
        server.compacted = server.resource_version
        await eventually(world.watch)
