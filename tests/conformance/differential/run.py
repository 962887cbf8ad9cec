"""Run many histories side by side on the same brokers; repeat and shrink what differs."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.differential.cluster import SHARDS, Cluster, connected, group_on
from conformance.differential.duo import MAX_SIZE, Difference
from conformance.differential.history import History, Op, draw
from conformance.differential.play import Player
from conformance.differential.sides import ModelSide, RealSide
from conformance.wire.targets import TOPICS, model_settings
from support.devcluster.kafka_broker import Brokers

OVERRIDES: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0", "group.max.size": str(MAX_SIZE), "group.consumer.max.size": str(MAX_SIZE),
    "group.consumer.session.timeout.ms": "600000", "group.consumer.assignors": "range,uniform",
}
"""Time must not decide anything; groups are small so that they are full at times."""
PARK_S = (0.06, 0.4, 0.8)
"""A waiting request is given so long to arrive; a difference counts when it is there in each of these runs."""
SHRINK_RUNS = 80
PROGRESS_EVERY = 20
Report = Callable[[str], None]
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


async def compare_all(brokers: Brokers, seeds: Sequence[int], run_id: str, report: Report = print) -> Sequence[Verdict]:
    """Play the histories of these seeds against brokers and the model; run_id makes group names unique."""
    verdicts: list[Verdict] = []
    async with connected(brokers) as cluster:
        shards: asyncio.Queue[int] = asyncio.Queue()
        for shard in range(SHARDS):
            shards.put_nowait(shard)

        async def one(seed: int) -> None:
            shard = await shards.get()
            try:
                verdicts.append(await _judge(draw(seed), Place(cluster, shard, run_id)))
            finally:
                shards.put_nowait(shard)
            if len(verdicts) % PROGRESS_EVERY == 0 or len(verdicts) == len(seeds):
                differ = sum(bool(verdict.difference) for verdict in verdicts)
                report(f"histories: {len(verdicts)} of {len(seeds)}, {differ} differ, {cluster.moves} fail-overs")

        await asyncio.gather(*map(one, seeds))
    return sorted(verdicts, key=lambda verdict: verdict.history.seed)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history is played: a shard of the brokers, in groups of its own."""

    cluster: Cluster
    shard: int
    run_id: str

    def new_group(self, seed: int) -> str:
        """Return the name of a group that does not exist yet."""
        return group_on(self.shard, f"history-{self.run_id}-{seed}-{next(_serial)}")


async def _judge(history: History, place: Place) -> Verdict:
    seen: Counter[str] = Counter()
    found = await _differs(history, place, seen)
    if found is None:
        return Verdict(history, len(history.ops), seen=seen)
    smallest, (difference, transcript) = await _shrink(history, found, place)
    return Verdict(smallest, len(history.ops), difference, tuple(transcript))


async def _differs(history: History, place: Place, seen: Counter[str]) -> tuple[str, list[str]] | None:
    """Play a history; a difference must come again with more patience before it counts."""
    found: tuple[str, list[str]] | None = None
    for park_s in PARK_S:
        seen.clear()
        found = await _play(history, place, park_s, seen)
        if found is None:
            return None
    return found


async def _play(
    history: History, place: Place, park_s: float, seen: Counter[str] | None = None
) -> tuple[str, list[str]] | None:
    model, real = ModelSide(model_settings(OVERRIDES), TOPICS), RealSide(place.cluster, place.shard)
    player = Player(history, model, real, place.new_group(history.seed), park_s)
    try:
        await player.run()
    except Difference as difference:
        return str(difference), player.transcript
    finally:
        if seen is not None:
            seen.update(player.seen)
    return None


async def _shrink(
    history: History, found: tuple[str, list[str]], place: Place
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
            again = await _play(candidate, place, PARK_S[1])
            if again is not None:
                history, found, shorter = candidate, again, True
            else:
                start += size
        if not shorter or size == 1:
            size //= 2
    return history, found


def summary(verdicts: Sequence[Verdict]) -> str:
    """Say how many histories differ and how, what was done and what was answered how often."""
    lines = []
    for verdict in verdicts:
        if verdict.difference:
            history = verdict.history
            lines.append(f"=== seed {history.seed}, {history.family}, static {history.static}; again with")
            lines.append(f"    python -m conformance.differential {history.seed} 1")
            lines += verdict.transcript
    seen = sum((verdict.seen for verdict in verdicts), Counter())
    for heading, chosen in (("steps", True), ("answers and states", False)):
        counts = (f"{w.removeprefix('step ')} {n}" for w, n in sorted(seen.items()) if _is_step(w) == chosen)
        lines.append(f"{heading}: {', '.join(counts)}")
    differing = sum(bool(verdict.difference) for verdict in verdicts)
    idle, drawn = seen["idle"], sum(verdict.steps for verdict in verdicts)
    lines.append(f"{len(verdicts)} histories, {drawn} steps ({idle} of them had nobody to act), {differing} differ")
    return "\n".join(lines)


def _is_step(word: str) -> bool:
    return word == "idle" or word.startswith("step ")
