"""Random histories of a classic group: it stays consistent, and the log tells what was persisted."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.classic_bench import BOTH, GROUP, RANGE, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.records import RecordType
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.coordinator import GroupCoordinator

from .coordinator_bench import commit

Move = tuple[str, int, int]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "join", "rejoin", "sync", "round", "round", "round", "heartbeat", "leave", "commit", "advance",
                "fail over", "refuse",
            ]
        ),
        st.integers(0, 3),
        st.sampled_from([0, 1, 2_000, 7_000]),
    ),
    min_size=10,
    max_size=40,
)
SIZES = st.integers(0, 3)


def started(size: int) -> ClassicBench:
    """Return a bench whose group is stable with this many static members, or absent for 0."""
    bench = ClassicBench()
    if size:
        bench.stable(*"xyz"[:size])
    return bench


def play(bench: ClassicBench, moves: list[Move]) -> None:
    """Play a history; members are found by their position, so that most moves find one."""
    for move, position, amount in moves:
        group = bench.coordinator.groups.get(GROUP)
        members = list(group.members.values()) if group is not None else []
        member = members[position % len(members)] if members else None
        if move == "join":
            bench.join("xyz"[position % 3] if position else None, protocols=BOTH if amount else RANGE)
        elif move == "advance":
            bench.advance(amount)
        elif move == "round":
            finish_round(bench)
        elif move == "fail over":
            bench.fail_over()
        elif move == "refuse":
            refused = bench.coordinator.write_error is None and amount == 1
            bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS if refused else None
        elif member is not None:
            act(bench, move, member.member_id, member.group_instance_id)


def finish_round(bench: ClassicBench) -> None:
    """Wait for a join phase to end, if one runs, and let all members sync."""
    group = bench.coordinator.groups.get(GROUP)
    if group is not None and group.state == "PreparingRebalance":
        bench.advance(7_000)
    if group is not None and group.state == "CompletingRebalance" and bench.coordinator.write_error is None:
        bench.complete_round()


def act(bench: ClassicBench, move: str, member_id: str, instance_id: str | None) -> None:
    if move == "rejoin":
        bench.join(instance_id, member_id)
    elif move == "sync":
        bench.sync(member_id, instance_id=instance_id, assign=list(bench.group.members), protocol_name=None)
    elif move == "heartbeat":
        bench.heartbeat(member_id, instance_id)
    elif move == "leave":
        bench.leave((member_id, instance_id))
    else:
        commit(bench, member_id, instance_id, bench.group.generation_id)


@settings(derandomize=True, max_examples=250, deadline=None)
@given(SIZES, MOVES)
def test_group_is_consistent_and_the_log_tells_what_was_persisted(size: int, moves: list[Move]) -> None:
    """After any history: counts and maps of the group agree, and replaying the log twice gives the same group."""
    bench = started(size)
    play(bench, moves)
    group = bench.coordinator.groups.get(GROUP)
    if group is not None:
        static = {m.group_instance_id: i for i, m in group.members.items() if m.is_static}
        assert group.static_members == static
        assert group.awaiting_join == sum(m.join_ticket is not None for m in group.members.values())
        assert group.leader in group.members or (group.leader is None and not group.members)
        assert not group.pending_members & set(group.members)
        assert group.state != "Stable" or group.awaiting_join == 0
        tickets = {t for m in group.members.values() for t in (m.join_ticket, m.sync_ticket) if t is not None}
        assert tickets <= set(bench.waiting), "nobody is answered twice"
        # A member that asks again before it was answered is answered once, as in Kafka.
        assert len(bench.waiting) - len(tickets) <= sum(move in ("rejoin", "sync") for move, _, _ in moves)
    first, second = GroupCoordinator(), GroupCoordinator()
    first.replay(bench.log, 0)
    second.replay([r for r in bench.log], 0)
    assert first.groups == second.groups
    last = next((r for r in reversed(bench.log) if r.record_type is RecordType.CLASSIC_GROUP_METADATA), None)
    if last is not None and isinstance(last.value, GroupMetadata):
        loaded = first.groups[GROUP]
        assert loaded.generation_id == last.value.generation_id
        assert [m.member_id for m in last.value.members] == list(loaded.members)
        assert {k[2] for k in first.timers.of_group(GROUP)} == set(loaded.members)
    assert first.offsets == bench.coordinator.offsets


@settings(derandomize=True, max_examples=120, deadline=None)
@given(SIZES, MOVES)
def test_nothing_but_the_known_triggers_ends_a_stable_generation(size: int, moves: list[Move]) -> None:
    """KIP-345: new member, leader's or changed member's rejoin, removal, expiry; never a heartbeat, sync or commit."""
    bench = started(size)
    for move, position, amount in moves:
        before = copy.deepcopy(bench.coordinator.groups.get(GROUP))
        play(bench, [(move, position, amount)])
        group = bench.coordinator.groups.get(GROUP)
        if before is None or before.state != "Stable" or move == "fail over" or group.state == "Stable":
            continue
        assert was_triggered(before, group, move, position), (move, before, group)


def was_triggered(before: ClassicGroup, after: ClassicGroup, move: str, position: int) -> bool:
    """Return whether a move was a reason for the group not to be stable any more."""
    if move == "join":
        return len(after.members) > len(before.members) or after.select_protocol() != before.protocol_name
    if move == "rejoin":
        rejoined = list(before.members.values())[position % len(before.members)]
        return rejoined.member_id == before.leader or rejoined.protocols != RANGE
    removed = len(after.members) < len(before.members)
    return removed if move == "leave" else move == "advance" and (removed or bool(before.pending_sync_members))


def test_histories_reach_what_they_are_about() -> None:
    """The generator above is not hollow: a good part of its histories persist members and fail over with them."""
    reached = {"two generations persisted": 0, "reloaded with members": 0, "an append refused": 0}

    @settings(derandomize=True, max_examples=250, deadline=None, database=None)
    @given(SIZES, MOVES)
    def count(size: int, moves: list[Move]) -> None:
        bench = started(size)
        play(bench, moves)
        generations = {
            r.value.generation_id for r in bench.log if isinstance(r.value, GroupMetadata) and r.value.members
        }
        reached["two generations persisted"] += len(generations) > 1
        reached["reloaded with members"] += bool(generations) and any(move == "fail over" for move, _, _ in moves)
        reached["an append refused"] += ("refuse", 1) in {(move, amount) for move, _, amount in moves}

    count()
    assert all(count >= 40 for count in reached.values()), reached


@settings(derandomize=True, max_examples=100, deadline=None)
@given(SIZES, MOVES)
def test_generation_never_goes_back_between_fail_overs(size: int, moves: list[Move]) -> None:
    bench = started(size)
    highest = 0
    for move in moves:
        play(bench, [move])
        group = bench.coordinator.groups.get(GROUP)
        if group is None or move[0] == "fail over":
            highest = 0 if group is None else group.generation_id
            continue
        assert group.generation_id >= highest
        highest = group.generation_id
