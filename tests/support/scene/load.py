"""A steady load on a group's topic, and what of it nobody consumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.scene.play import Play
from support.scene.pod_lines import PodLines
from support.workload.process import Program, ranges_of
from support.workload.ranges import Ranges, missing

RATE_PER_S = 600


@contextmanager
def load(game: Play) -> Iterator[Program]:
    """Have a producer write to every partition meanwhile."""
    producer = Program(
        "producer", {"BOOTSTRAP": game.stage.brokers.bootstrap, "TOPIC": game.name, "RATE_PER_S": str(RATE_PER_S)}
    )
    try:
        producer.wait_for_kind("acked")
        yield producer
    finally:
        if producer.is_running:
            producer.terminate()


def lost(producer: Program, consumers: PodLines) -> dict[int, Ranges]:
    """Return the acknowledged offsets that were not consumed, by partition; empty when nothing is lost."""
    consumed = ranges_of(consumers.lines("consumed"), "consumed")
    acked = ranges_of(producer.lines, "acked")
    return {p: left for p, offsets in acked.items() if (left := missing(offsets, consumed.get(p, [])))}
