"""When a group's own session timeout is set, when it counts as set, and from when on members hold it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core import protocols
from staticgroup.core.group import STATIC_MEMBER_AWAY_EPOCH, GroupType, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.next_pods.choice import plan_timeout
from staticgroup.core.next_pods.group_config import (
    BEATS,
    READ_BACK_WITHIN_S,
    RETRY_AFTER_S,
    GroupConfigRecord,
    asked,
    held_over_ms,
    obstacle,
    plan_group_config,
)
from staticgroup.core.next_pods.measured import LOWER_AFTER_S
from staticgroup.core.next_pods.shared_setting import SharedSetting, settled
from staticgroup.core.next_pods.timeouts import TimeoutPlan
from support.bounds import altered, broker_bounds

from .builders import NOW_S, group, spec, workload

SETTING, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
TARGET_MS = 115_000
"""30 + 20 + 20 + 5 s and headroom, rounded up to 5 s."""
BOUNDS = broker_bounds(
    consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, consumer_heartbeat_ms=5_000,
    limits={SETTING: (45_000, 300_000), BEAT: (5_000, 15_000)},
)  # fmt: skip
DENIED = KafkaProblem(kind=KafkaProblemKind.NOT_AUTHORIZED, message="lacks ALTER_CONFIGS", missing_acl="ALTER_CONFIGS on Group 'orders'")


def timeout(bounds: Any) -> TimeoutPlan:
    wish = spec().session_timeout
    return plan_timeout(wish, workload(2), protocols.CONSUMER, bounds, writes_group=True)


def kip848(*members: MemberView) -> Any:
    return group(*members, group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5)


def planned(bounds: Any = BOUNDS, record: GroupConfigRecord | None = None, *, now_s: float = NOW_S, of: Any = None) -> Any:
    return plan_group_config(timeout(bounds), protocols.CONSUMER, bounds, of or kip848(), record, now_s)


def written(now_s: float = NOW_S, problem: KafkaProblem | None = None, bounds: Any = BOUNDS) -> GroupConfigRecord:
    write, _ = planned(bounds)
    return asked(write, problem, now_s)


def test_other_value_than_the_target_is_set() -> None:
    write, record = planned()
    assert (write.values, write.before_ms, record) == ({SETTING: TARGET_MS}, 45_000, None)


def test_streams_group_has_its_own_setting() -> None:
    """KIP-1071: streams.session.timeout.ms, in the bounds of group.streams."""
    bounds = broker_bounds(streams_min_ms=45_000, streams_max_ms=60_000, streams_session_ms=45_000)
    t = plan_timeout(spec().session_timeout, workload(2), protocols.STREAMS, bounds, writes_group=True)
    streams = group(group_type=GroupType.STREAMS, group_epoch=5, assignment_epoch=5)
    write, _ = plan_group_config(t, protocols.STREAMS, bounds, streams, None, NOW_S)
    assert write.values == {"streams.session.timeout.ms": 60_000}
    assert "raise group.streams.max.session.timeout.ms on the brokers to at least 75000" in t.message


def test_target_that_holds_is_not_set_again() -> None:
    assert planned(altered(BOUNDS, {SETTING: TARGET_MS})) == (None, None)


def test_stored_values_outside_new_bounds_are_repaired_with_it_in_one_request() -> None:
    """Seen: an alter of one key fails 40 naming the other one; both in one request pass."""
    broken = replace(BOUNDS, stored={SETTING: 500_000, BEAT: 300})
    write, _ = planned(broken)
    assert write.values == {SETTING: TARGET_MS, BEAT: 5_000}
    only_clamped = replace(altered(BOUNDS, {SETTING: TARGET_MS}), stored={SETTING: TARGET_MS, BEAT: 300})
    write, _ = planned(only_clamped)
    assert write.values == {SETTING: TARGET_MS, BEAT: 5_000}


def test_write_is_awaited_before_it_is_repeated_and_then_told_as_not_shown() -> None:
    record = written()
    assert planned(record=record, now_s=NOW_S + 1) == (None, record)
    none, late = planned(record=record, now_s=NOW_S + READ_BACK_WITHIN_S)
    assert none is None
    assert "was set to 115000 and reads 45000 ms" in late.problem.message
    assert planned(record=late, now_s=NOW_S + RETRY_AFTER_S - 1)[0] is None
    assert planned(record=late, now_s=NOW_S + RETRY_AFTER_S)[0] is not None


def test_refusal_is_not_asked_again_for_five_minutes_but_another_value_is_at_once() -> None:
    record = written(problem=DENIED)
    assert planned(record=record, now_s=NOW_S + RETRY_AFTER_S - 1) == (None, record)
    assert planned(record=record, now_s=NOW_S + RETRY_AFTER_S)[0] is not None
    raised = broker_bounds(consumer_min_ms=120_000, consumer_max_ms=300_000, consumer_session_ms=120_000)
    write, _ = planned(replace(raised, stored={SETTING: 45_000}, limits={SETTING: (120_000, 300_000)}), record, now_s=NOW_S + 1)
    assert write.values == {SETTING: 120_000}


def test_raised_value_holds_after_a_heartbeat_of_everybody() -> None:
    holds = altered(BOUNDS, {SETTING: TARGET_MS})
    _, record = planned(holds, written(), now_s=NOW_S + 1)
    assert record.held_at_s == NOW_S + 1
    until_s = NOW_S + 1 + BEATS * 5
    assert held_over_ms(record, 5_000, until_s - 0.1) == 45_000
    assert held_over_ms(record, 5_000, until_s) is None


def test_who_was_away_keeps_the_shorter_one_until_it_is_back() -> None:
    """Two-speed timeouts: raised from 6 to 30 s after a member fell silent, it was gone after 6 s (lab-kafka 2.4)."""
    away = MemberView(member_id="m0", instance_id="i0", member_epoch=STATIC_MEMBER_AWAY_EPOCH)
    holds = altered(BOUNDS, {SETTING: TARGET_MS})
    _, record = planned(holds, written(), now_s=NOW_S + 1, of=kip848(away))
    later_s = NOW_S + 60
    _, record = planned(holds, record, now_s=later_s, of=kip848(away))
    assert held_over_ms(record, 5_000, later_s) == 45_000
    back = MemberView(member_id="m1", instance_id="i0", member_epoch=5)
    _, record = planned(holds, record, now_s=later_s + 1, of=kip848(back))
    assert held_over_ms(record, 5_000, later_s + 1) is None


def test_second_raise_remembers_the_shortest_that_may_still_be_held() -> None:
    first = GroupConfigRecord(write=written().write, asked_at_s=NOW_S, held_at_s=NOW_S)
    holds = altered(BOUNDS, {SETTING: 100_000})
    write, _ = plan_group_config(
        timeout(holds), protocols.CONSUMER, holds, kip848(), first, NOW_S + 1
    )  # fmt: skip
    assert write.before_ms == 45_000


def test_lowered_value_shortens_nobody_who_is_away_and_is_in_force_at_once() -> None:
    holds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=300_000, limits={SETTING: (45_000, 300_000)}
    )
    record = GroupConfigRecord(write=written(bounds=holds).write, asked_at_s=NOW_S, held_at_s=NOW_S)
    assert held_over_ms(record, 5_000, NOW_S) is None


def test_nothing_is_set_while_the_group_or_its_bounds_cannot_be_read() -> None:
    problem = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    assert planned(of=problem)[0] is None
    assert plan_group_config(timeout(BOUNDS), protocols.CONSUMER, None, kip848(), None, NOW_S) == (None, None)


def test_stored_settings_of_another_protocol_stand_in_the_way_and_are_not_written() -> None:
    broken = replace(BOUNDS, stored={"share.session.timeout.ms": 300, BEAT: 300}, limits=dict(BOUNDS.limits) | {"share.session.timeout.ms": (45_000, 60_000)})
    assert planned(broken) == (None, None)
    assert obstacle(protocols.CONSUMER, broken).startswith("share.session.timeout.ms=300 that is stored on the group lies outside")
    assert "set it to 45000, or delete it" in obstacle(protocols.CONSUMER, broken)
    assert obstacle(protocols.CONSUMER, replace(BOUNDS, stored={BEAT: 300})) == ""


def test_same_value_is_written_again_after_the_time_that_others_have_earned() -> None:
    record = replace(written(), held_at_s=NOW_S + 1)
    for age_s, is_written in ((599, False), (600, True)):
        write, _ = plan_group_config(
            timeout(BOUNDS), protocols.CONSUMER, BOUNDS, kip848(), record, NOW_S + age_s, again_after_s=600
        )
        assert (write is not None) is is_written


def waits(changes: int) -> float:
    return SharedSetting(held_ms=1, changes=changes).raise_again_after_s


def test_waits_grow_up_to_an_hour() -> None:
    assert [waits(n) for n in (0, 2, 3, 4, 5, 6, 99)] == [0, 0, 600, 1_200, 2_400, 3_600, 3_600]


def follows(before: SharedSetting, holds_ms: int, *, now_s: float = NOW_S, record: GroupConfigRecord | None = None) -> Any:
    holds = altered(BOUNDS, {SETTING: holds_ms})
    return settled(timeout(holds), protocols.CONSUMER, holds, before, record, (), now_s)


def test_what_a_neighbour_lowers_too_is_no_quarrel() -> None:
    t, found = follows(SharedSetting(held_ms=300_000, changes=2, found_ms=280_000), 150_000)
    assert (t.group_target_ms, found.changes, found.found_ms) == (150_000, 2, 150_000)
    t, found = follows(SharedSetting(held_ms=300_000), 150_000)
    assert (found.changes, found.found_ms) == (0, None)


def test_value_that_the_operator_wrote_is_its_own_after_days() -> None:
    record = replace(written(), held_at_s=NOW_S)
    t, found = follows(SharedSetting(held_ms=60_000, changes=2), TARGET_MS, record=record)
    assert (t.group_target_ms, found.changes) == (TARGET_MS, 2)


def test_who_sets_what_is_wanted_agrees() -> None:
    _, found = follows(SharedSetting(held_ms=300_000, changes=7, found_ms=300_000), TARGET_MS)
    assert found == SharedSetting(held_ms=TARGET_MS)


def test_refused_step_down_can_be_tried_again() -> None:
    before = SharedSetting(held_ms=300_000, lower_since_s=NOW_S - LOWER_AFTER_S, lower_ms=TARGET_MS)
    t, found = follows(before, 300_000)
    assert (t.group_target_ms, found) == (150_000, before)
    again, _ = follows(found, 300_000, now_s=NOW_S + 300)
    assert again.group_target_ms == 150_000


def test_step_down_ends_at_the_most_that_was_wanted_in_the_day() -> None:
    before = SharedSetting(held_ms=200_000, lower_since_s=NOW_S - LOWER_AFTER_S, lower_ms=180_000)
    t, _ = follows(before, 200_000)
    assert t.group_target_ms == 180_000


def test_brokers_that_clamp_a_stored_value_quarrel_with_nobody() -> None:
    holds = replace(altered(BOUNDS, {SETTING: 300_000}), stored={SETTING: 900_000})
    _, found = settled(timeout(holds), protocols.CONSUMER, holds, SharedSetting(held_ms=900_000), None, (), NOW_S)
    assert (found.changes, found.held_ms) == (0, 300_000)
    insisted = SharedSetting(held_ms=900_000, changes=3, found_ms=900_000)
    t, _ = settled(timeout(holds), protocols.CONSUMER, holds, insisted, None, (), NOW_S)
    assert t.group_target_ms == 300_000
