"""Run many histories side by side on one broker; repeat and shrink what differs."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.differential.duo import MAX_SIZE, Difference
from conformance.differential.history import History, Op, draw
from conformance.differential.play import Player
from conformance.differential.sides import ModelSide, RealSide
from conformance.wire.client import WireClient
from conformance.wire.targets import TOPICS, create_topics, model_settings, warm_up

OVERRIDES: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": str(MAX_SIZE),
    "group.consumer.max.size": str(MAX_SIZE),
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.assignors": "range,uniform",
}
"""Time must not decide anything; groups are small so that they are full at times."""
AT_ONCE = 16
PARK_S = (0.06, 0.4, 0.8)
"""A waiting request is given so long to arrive; a difference counts when it is there in each of these runs."""
SHRINK_RUNS = 80
_serial = itertools.count()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one history.

    Parameters
    ----------
    transcript: of the smallest history that differs; empty when the sides agree.
    seen: requests by their answer, and states of the group, so that a hollow run is noticed.
    """

    history: History
    steps: int
    difference: str = ""
    transcript: tuple[str, ...] = ()
    seen: Counter[str] = field(default_factory=Counter)


async def compare_all(host: str, port: int, seeds: Iterable[int], run_id: str) -> Sequence[Verdict]:
    """Play the histories of these seeds against a broker and the model; run_id makes group names unique."""
    client = await WireClient.connect(host, port)
    await create_topics(client, TOPICS)
    await warm_up(client)
    places = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> Verdict:
        async with places:
            return await _judge(draw(seed), client, run_id)

    try:
        return await asyncio.gather(*map(one, seeds))
    finally:
        await client.close()


async def _judge(history: History, client: WireClient, run_id: str) -> Verdict:
    seen: Counter[str] = Counter()
    found = await _differs(history, client, run_id, seen)
    if found is None:
        return Verdict(history, len(history.ops), seen=seen)
    smallest, (difference, transcript) = await _shrink(history, found, client, run_id)
    return Verdict(smallest, len(history.ops), difference, tuple(transcript))


async def _differs(
    history: History, client: WireClient, run_id: str, seen: Counter[str]
) -> tuple[str, list[str]] | None:
    """Play a history; a difference must come again with more patience before it counts."""
    found: tuple[str, list[str]] | None = None
    for park_s in PARK_S:
        seen.clear()
        found = await _play(history, client, run_id, park_s, seen)
        if found is None:
            return None
    return found


async def _play(
    history: History, client: WireClient, run_id: str, park_s: float, seen: Counter[str] | None = None
) -> tuple[str, list[str]] | None:
    group = f"history-{run_id}-{history.seed}-{next(_serial)}"
    player = Player(history, ModelSide(model_settings(OVERRIDES), TOPICS), RealSide(client), group, park_s)
    try:
        await player.run()
    except Difference as difference:
        return str(difference), player.transcript
    finally:
        if seen is not None:
            seen.update(player.seen)
    return None


async def _shrink(
    history: History, found: tuple[str, list[str]], client: WireClient, run_id: str
) -> tuple[History, tuple[str, list[str]]]:
    """Leave out steps, in halves and then one by one, as long as the sides still differ."""
    runs = SHRINK_RUNS
    size = max(1, len(history.ops) // 2)
    while size and runs:
        start = 0
        shorter = False
        while start < len(history.ops) and runs:
            ops: tuple[Op, ...] = history.ops[:start] + history.ops[start + size :]
            runs -= 1
            candidate = dataclasses.replace(history, ops=ops)
            again = await _play(candidate, client, run_id, PARK_S[1])
            if again is not None:
                history, found, shorter = candidate, again, True
            else:
                start += size
        if not shorter or size == 1:
            size //= 2
    return history, found
