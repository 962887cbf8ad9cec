"""Restart an application again and again: the deploys that must no longer be noticed.

The one idea: what a restart cost is counted by the brokers (rebalances, leaves, expired sessions) and by the clients
(acknowledged records without a consumer), never by the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import record, spread
from support.scene.load import RATE_PER_S, load, lost
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.scene.witnesses import is_operators
from support.waiting import until
from support.workload.process import ranges_of
from support.workload.ranges import size

pytestmark = pytest.mark.e2e

NewPlay = Callable[..., Play]
PROTOCOLS = ("classic", "consumer")
SESSION_S = 60
DEPARTURES = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED)


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
