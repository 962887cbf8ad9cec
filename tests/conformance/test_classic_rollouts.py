"""Rollouts as the proposal describes them: how many generations each costs."""

from __future__ import annotations

from conformance.classic_bench import ClassicBench
from coordinator_model.base.errors import ErrorCode

NAMES = ("web-0", "web-1", "web-2")


def settle(bench: ClassicBench) -> None:
    """Let every member that learns of a rebalance rejoin, until the group is stable."""
    while bench.group.state != "Stable":
        if bench.group.state == "PreparingRebalance":
            for member in list(bench.group.members.values()):
                if member.join_ticket is None:
                    bench.join(member.group_instance_id, member.member_id)
        bench.complete_round()


def dynamic_group(bench: ClassicBench) -> list[str]:
    joins = [bench.join_dynamic() for _ in NAMES]
    while any(j.waits for j in joins):
        bench.advance(3_000)
    settle(bench)
    return [j.joined.member_id for j in joins]


def test_rolling_restart_of_static_members_costs_nothing(bench: ClassicBench) -> None:
    """KIP-345, rolling bounce: no generation, and each member gets back its partitions."""
    ids = bench.stable(*NAMES)
    for round_ in range(3):
        for name, first in zip(NAMES, ids, strict=True):
            bench.advance(3_000)
            for member in list(bench.group.members.values()):
                bench.heartbeat(member.member_id, member.group_instance_id)
            new = bench.bounce(name)
            assert bench.sync(new, instance_id=name).synced.assignment == f"assigned-{first}".encode(), round_
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)


def test_the_same_restart_of_dynamic_members_costs_two_generations_each(bench: ClassicBench) -> None:
    """What static membership is for: every departure and every arrival rebalances."""
    for member_id in dynamic_group(bench):
        assert bench.leave((member_id, None)) == [ErrorCode.NONE]
        settle(bench)
        bench.join_dynamic()
        settle(bench)
    assert bench.group.generation_id == 1 + 2 * len(NAMES)


def test_roll_from_dynamic_to_static_costs_at_most_two_generations_each(bench: ClassicBench) -> None:
    """KIP-345, upgrade: the roll that sets the ids still rebalances; the next one does not."""
    for name, member_id in zip(NAMES, dynamic_group(bench), strict=True):
        bench.leave((member_id, None))
        settle(bench)
        bench.join(name)
        settle(bench)
    after_the_roll = bench.group.generation_id
    assert after_the_roll <= 1 + 2 * len(NAMES)
    assert set(bench.group.static_members) == set(NAMES)
    for name in NAMES:
        bench.bounce(name)
    assert bench.group.generation_id == after_the_roll


def test_roll_from_static_to_dynamic_leaves_ghosts_until_they_are_removed(bench: ClassicBench) -> None:
    """KIP-345, downgrade: the former ids stay for their sessions; a batch removes them at once."""
    ids = bench.stable(*NAMES, session_timeout_ms=1_800_000)
    for _ in NAMES:
        bench.join_dynamic()
        for name, member_id in zip(NAMES, ids, strict=True):
            bench.join(name, member_id)
        settle(bench)
    assert len(bench.group.members) == 2 * len(NAMES)
    before = bench.group.generation_id
    ghosts = [(member_id, name) for name, member_id in zip(NAMES, ids, strict=True)]
    assert bench.leave(*ghosts) == [ErrorCode.NONE] * len(NAMES)
    settle(bench)
    assert (bench.group.generation_id, bench.group.static_members) == (before + 1, {})


def test_parallel_scale_up_costs_one_generation_serial_one_each() -> None:
    """KIP-345, scale-up: no special handling; all that join within one join phase share a generation."""
    parallel, serial = ClassicBench(), ClassicBench()
    for bench in (parallel, serial):
        bench.stable("web-0")
    for name in NAMES[1:]:
        parallel.join(name)
        serial.join(name)
        settle(serial)
    settle(parallel)
    assert (parallel.group.generation_id, serial.group.generation_id) == (2, 3)


def test_mixed_group_rebalances_for_its_dynamic_members_only(bench: ClassicBench) -> None:
    """KIP-345: static and dynamic members share a group."""
    bench.stable("web-0", "web-1")
    dynamic = bench.join_dynamic()
    settle(bench)
    assert bench.group.generation_id == 2
    bench.bounce("web-1")
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 2)
    bench.leave((dynamic.joined.member_id, None))
    settle(bench)
    assert bench.group.generation_id == 3
