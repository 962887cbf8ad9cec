"""Restart an application again and again: the deploys that must no longer be noticed.

The one idea: what a restart cost is counted by the brokers (rebalances, leaves, expired sessions) and by the clients
(acknowledged records without a consumer), never by the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import record, spread
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.scene.witnesses import is_operators
from support.waiting import until
from support.workload.process import Program, ranges_of
from support.workload.ranges import Ranges, missing, size

pytestmark = pytest.mark.e2e

NewPlay = Callable[..., Play]
PROTOCOLS = ("classic", "consumer")
SESSION_S = 60
RATE_PER_S = 600
DEPARTURES = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED)


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


def away_ms(consumers: PodLines) -> list[int]:
    """Return for each restart how long the id's partitions had no owner: from `closed` to the next `assigned`."""
    found = []
    for name in {voice.pod_name for voice in consumers.voices()}:
        voices = sorted(consumers.voices(name), key=lambda voice: voice.lines[0]["at_ms"])
        for before, after in pairwise(voices):
            found.append(after.of_kind("assigned")[0]["at_ms"] - before.of_kind("closed")[-1]["at_ms"])
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rolling_restarts_under_load_are_not_noticed(new_play: NewPlay, protocol: str) -> None:
    pods, rolls = 5, by_length(short=1, long=3)
    game = new_play(protocol=protocol)
    session = game.outlast_restarts(SESSION_S)
    with collected_lines(game.stage.cluster, game.name) as consumers, load(game) as producer:
        game.start(pods, static=session)
        assert game.rebalances(game.since_ms) > 0  # so the brokers' log does tell of rebalances
        quiet_since_ms = now_ms()
        took_s = []
        for _ in range(rolls):
            began_ms = now_ms()
            game.roll()
            game.await_joined(pods)
            took_s.append((now_ms() - began_ms) / 1000)
        assert producer.terminate() == 0
        until(lambda: not lost(producer, consumers), deadline_s=30, what="all acknowledged records are consumed")

        assert len(game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=quiet_since_ms)) == pods * rolls
        rebalances = game.rebalances(quiet_since_ms)
        departures = game.events(*DEPARTURES, since_ms=quiet_since_ms)
        acked = sum(size(r) for r in ranges_of(producer.lines, "acked").values())
        record(
            f"rolling restarts, {protocol}", rolls=rolls, pods=pods, rebalances=rebalances, departures=len(departures),
            operator_leave_groups=len([e for e in departures if is_operators(e)]), records_acked=acked,
            records_lost=sum(size(r) for r in lost(producer, consumers).values()), roll_s=spread(took_s),
            away_ms=spread(away_ms(consumers)),
            delay_ms_max=max(line["delay_ms_max"] or 0 for line in consumers.lines("consumed")),
        )  # fmt: skip
        assert rebalances == 0
        assert departures == []
        assert acked > RATE_PER_S * sum(took_s) * 0.8
        assert len(away_ms(consumers)) == pods * rolls
        assert [line for line in consumers.lines("error") if line["fatal"]] == []
