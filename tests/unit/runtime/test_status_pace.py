"""Many statuses that change with every pod are written in turns; a status that a user waits for is written at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.group import LeaveOutcome
from staticgroup.runtime.memory.pace import BURST, WAIT_MAX_S, WRITES_PER_S, Pace, can_wait
from staticgroup.runtime.work_queue import Key

from .operator_world import UNREACHABLE, OperatorWorld, static_group


def keys(count: int) -> list[Key]:
    return [("shop", f"g{n}") for n in range(count)]


def test_few_writes_never_wait() -> None:
    pace = Pace()
    assert all(pace.turn(key, 100.0) <= 100.0 for key in keys(BURST))
    for second in range(100):
        assert pace.turn(("shop", "orders"), 200.0 + second) <= 200.0 + second


def test_many_writers_take_turns_at_the_rate_and_none_twice() -> None:
    pace, written = Pace(), dict.fromkeys(keys(20), 0)
    now_s, end_s = 1000.0, 1300.0
    while now_s < end_s:
        for key in written:
            if pace.turn(key, now_s) <= now_s:
                written[key] += 1
        now_s += 0.25
    assert sum(written.values()) <= 300 * WRITES_PER_S + BURST + 1
    assert sum(written.values()) >= 300 * WRITES_PER_S * 0.9
    assert max(written.values()) - min(written.values()) <= 2


def test_turn_that_was_given_stays_however_often_it_is_asked_for() -> None:
    pace = Pace()
    for key in keys(BURST + 3):
        pace.turn(key, 100.0)
    due_s = pace.turn(("shop", "late"), 100.0)
    assert due_s > 100.0
    assert [pace.turn(("shop", "late"), 100.0 + n / 10) for n in range(5)] == [due_s] * 5
    assert pace.turn(("shop", "late"), due_s) == due_s
    assert pace.turn(("shop", "late"), due_s) > due_s


def test_no_writer_waits_longer_than_the_limit_however_many_there_are() -> None:
    pace = Pace()
    assert max(pace.turn(key, 100.0) for key in keys(5000)) == 100.0 + WAIT_MAX_S
    for key in keys(5000):
        pace.forget(key)
    assert (
        pace.turn(("shop", "after"), 100.0 + 2 * WAIT_MAX_S + BURST / WRITES_PER_S)
        <= 100.0 + 2 * WAIT_MAX_S + BURST / WRITES_PER_S
    )


def test_write_that_cannot_wait_takes_the_turn_that_was_given() -> None:
    pace = Pace()
    for key in keys(BURST + 1):
        pace.turn(key, 100.0)
    first = pace.turn(("shop", "a"), 100.0)
    pace.take(("shop", "a"), 100.0)
    assert pace.turn(("shop", "a"), 100.0) > first


async def test_roll_to_another_session_timeout_waits_and_the_new_number_does_not() -> None:
    world = await OperatorWorld().started()
    before = world.status
    world.declare(static_group(sessionTimeout={"seconds": 300}))
    await world.round()
    assert not can_wait(before, world.status)
    before = world.status
    world.end(2)
    world.start(2, "next-2", session_timeouts_ms=(300_000,))
    await world.round()
    assert before.session_timeout is not None
    assert (before.session_timeout.longest_seconds, world.timeout.longest_seconds) == (110, 300)
    assert can_wait(before, world.status)


async def test_what_somebody_waits_for_cannot() -> None:
    world = await OperatorWorld().started()
    assert not can_wait(None, world.status)
    before = world.status
    world.kafka.problems["describe"] = UNREACHABLE
    await world.round()
    assert not can_wait(before, world.status)
    world.kafka.problems.clear()
    await world.round()
    before = world.status
    world.scale(2)
    world.end(2)
    await world.round()
    assert world.kafka.leaves[0][1] is LeaveOutcome.REMOVED
    assert not can_wait(before, world.status)
    before = world.status
    world.declare(static_group(generation=2))
    await world.round()
    assert not can_wait(before, world.status)
    assert can_wait(world.status, world.status)


@pytest.mark.parametrize("is_suspended", [False, True])
async def test_round_whose_status_waits_comes_back_at_its_turn_and_is_no_failure(is_suspended: bool) -> None:
    world = await OperatorWorld().started()
    if is_suspended:
        world.declare(static_group(generation=2, mode="Suspended"))
        await world.round()
    for key in keys(BURST + 5):
        world.reconciler.memories.pace.turn(key, world.now_s)
    writes = len(world.kube.status_writes)
    world.end(1)
    outcome = await world.round()
    assert (len(world.kube.status_writes), outcome.failed) == (writes, False)
    assert world.reconciler.memories.unstored_since_s(0.0) is not None
    assert outcome.requeue_after_s is not None
    assert 0 < outcome.requeue_after_s <= WAIT_MAX_S
    world.now_s += outcome.requeue_after_s
    await world.round()
    assert len(world.kube.status_writes) == writes + 1
    assert world.reconciler.memories.unstored_since_s(0.0) is None
    assert world.reconciler.metrics.registry.get_sample_value("staticgroup_rounds_total", {"result": "failed"}) is None


async def test_status_of_an_unread_group_that_waits_is_written_at_its_turn_and_not_after_a_back_off() -> None:
    """Its Secret is there now, and the group may still not be read: who corrected it waits for the condition."""
    world = await OperatorWorld().started()
    world.kafka.problems["describe"] = UNREACHABLE
    await world.round()
    for key in keys(BURST + 5):
        world.reconciler.memories.pace.turn(key, world.now_s)
    writes = len(world.kube.status_writes)
    world.kafka.problems["describe"] = replace(UNREACHABLE, message="something else")
    outcome = await world.round()
    assert (len(world.kube.status_writes), outcome.failed) == (writes, False)
    assert outcome.requeue_after_s is not None
    world.now_s += outcome.requeue_after_s
    outcome = await world.round()
    assert (len(world.kube.status_writes), outcome.failed) == (writes + 1, True)
