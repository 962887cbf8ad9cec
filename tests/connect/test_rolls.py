"""Rolling restarts of real Connect workers on loopback, with and without the agent; in pods: e2e/test_connect.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.connect import ticks
from support.connect.rolls import NAMES, TASK_COUNT, assert_quiet, record_roll, roll, running
from support.connect.workers import GroupSettings
from support.devcluster.kafka_broker import Brokers

pytestmark = [pytest.mark.broker, pytest.mark.long]

STOCK_DELAY_MS = 15_000


def test_three_rolls_of_static_workers_are_quiet(brokers: Brokers, tmp_path: Path) -> None:
    settings = GroupSettings(group_id="static", static=True, session_timeout_ms=30_000, rebalance_delay_ms=0)
    with running(brokers.bootstrap, settings, tmp_path) as group:
        led = 0
        for name in NAMES:
            measured = roll(group, name, brokers.group_log, task_count=TASK_COUNT)
            record_roll("Connect, static", measured)
            assert_quiet(measured, generations=1 if measured.led else 0)
            led += measured.led
        assert led == 1
        assert ticks.twice(group.lines()) == []


def test_a_roll_of_workers_as_they_come_idles_their_tasks(brokers: Brokers, tmp_path: Path) -> None:
    settings = GroupSettings(group_id="stock", static=False, rebalance_delay_ms=STOCK_DELAY_MS)
    with running(brokers.bootstrap, settings, tmp_path) as group:
        follower = next(name for name in NAMES if name != group.leader())
        measured = roll(group, follower, brokers.group_log, task_count=TASK_COUNT)
        record_roll(f"Connect as it comes, delay {STOCK_DELAY_MS // 1000} s", measured)
        assert not measured.led
        assert measured.generations >= 2
        assert measured.own_down_s > STOCK_DELAY_MS / 1000
