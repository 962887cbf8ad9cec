"""Random histories agree on the model and on a real broker.

CONFORMANCE_HISTORIES is their number, CONFORMANCE_SEED the first seed.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from conformance import results
from conformance.differential import run
from conformance.differential.history import FAMILIES, History, Op, draw
from conformance.differential.run import OVERRIDES, Verdict, compare_all
from conformance.wire.targets import model_settings, real_broker
from support.devcluster.kafka_broker import Brokers

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

COUNT = int(os.environ.get("CONFORMANCE_HISTORIES", "60"))
FIRST = int(os.environ.get("CONFORMANCE_SEED", "0"))
VERSION = "4.4.0"
EXPECTED_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Reconciling")
EXPECTED_ANSWERS = (
    *("JoinGroup NONE", "JoinGroup FENCED_INSTANCE_ID", "JoinGroup UNKNOWN_MEMBER_ID", "SyncGroup NONE"),
    *("Heartbeat NONE", "LeaveGroup NONE", "ConsumerGroupHeartbeat NONE", "OffsetCommit NONE"),
    *("ConsumerGroupHeartbeat UNRELEASED_INSTANCE_ID", "ConsumerGroupHeartbeat FENCED_MEMBER_EPOCH"),
    *("ConsumerGroupHeartbeat FENCED_INSTANCE_ID", "ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID"),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Brokers]:
    """A broker on which time decides nothing."""
    with real_broker(VERSION, "-differential", OVERRIDES) as brokers:
        yield brokers


def compare(broker: Brokers, seeds: range) -> list[Verdict]:
    return list(asyncio.run(compare_all(*broker.address(1), seeds, os.urandom(3).hex())))


def test_random_histories_agree(broker: Brokers) -> None:
    verdicts = compare(broker, range(FIRST, FIRST + COUNT))
    steps = sum(verdict.steps for verdict in verdicts)
    differing = [verdict for verdict in verdicts if verdict.difference]
    results.record_histories(VERSION, len(verdicts), steps, len(differing))
    for verdict in differing:
        print(f"seed {verdict.history.seed}, {verdict.history.family}:")
        print("\n".join(verdict.transcript))
    print(f"{len(verdicts)} histories, {steps} steps, {len(differing)} differ")
    assert not differing
    seen: Counter[str] = sum((verdict.seen for verdict in verdicts), Counter())
    assert [what for what in (*EXPECTED_STATES, *EXPECTED_ANSWERS) if not seen[what]] == []


def test_a_model_with_another_rule_is_noticed_and_the_history_is_shrunk(
    broker: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison can fail: a model whose groups may have one member less differs within a few steps."""
    wrong = model_settings({**OVERRIDES, "group.max.size": "3", "group.consumer.max.size": "3"})
    monkeypatch.setattr(run, "model_settings", lambda _overrides: wrong)
    monkeypatch.setattr(run, "PARK_S", (0.06, 0.06))
    ops = (*(Op("cjoin", slot) for slot in range(4)), Op("csettle"), Op("delete"), Op("cbeat", 1))
    history = History(0, "consumer", (True,) * 5, ops)
    monkeypatch.setattr(run, "draw", lambda _seed: history)
    (verdict,) = compare(broker, range(1))
    assert "GROUP_MAX_SIZE_REACHED" in verdict.difference
    assert sorted(op.slot for op in verdict.history.ops if op.kind == "cjoin") == [0, 1, 2, 3]
    assert len(verdict.history.ops) == 4
    assert verdict.transcript[-3].startswith("  !!")


def test_a_seed_always_gives_the_same_history_of_20_to_60_steps() -> None:
    histories = [draw(seed) for seed in range(90)]
    assert histories == [draw(seed) for seed in range(90)]
    assert {history.family for history in histories} == set(FAMILIES)
    assert all(20 <= len(history.ops) <= 60 for history in histories)
