"""When a group's own session timeout is set, when it belongs to another writer, and from when on members hold it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import Mode
from staticgroup.core import protocols
from staticgroup.core.group import STATIC_MEMBER_AWAY_EPOCH, BrokerBounds, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.timeouts.group_config import (
    BEATS,
    READ_BACK_WITHIN_S,
    RETRY_AFTER_S,
    GroupConfigPlan,
    GroupConfigRecord,
    plan_group_config,
)
from support.bounds import altered, broker_bounds
from unit.core.plans import present

from .builders import NOW_S, spec, workload
from .timeouts import described, timeout_of

SETTING, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
WANTED_MS, BEAT_MS = 115_000, 5_000
BOUNDS = broker_bounds(
    consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, consumer_heartbeat_ms=BEAT_MS,
    limits={SETTING: (45_000, 300_000), BEAT: (5_000, 15_000)},
)  # fmt: skip
NEW = GroupConfigRecord()
DENIED = KafkaProblem(
    kind=KafkaProblemKind.NOT_AUTHORIZED, message="lacks ALTER_CONFIGS", missing_acl="ALTER_CONFIGS on Group 'orders'"
)
AWAY = MemberView(member_id="m0", instance_id="i0", member_epoch=STATIC_MEMBER_AWAY_EPOCH)


def stores(value_ms: int | None) -> BrokerBounds:
    """Return what is read while so much is stored on the group; None: nothing, and the brokers' default holds."""
    return BOUNDS if value_ms is None else altered(BOUNDS, {SETTING: value_ms})


def planned(
    bounds: BrokerBounds = BOUNDS, record: GroupConfigRecord = NEW, *, now_s: float = NOW_S, of: Any = None,
    wanted_ms: int = WANTED_MS, keeps: str = "",
) -> GroupConfigPlan:  # fmt: skip
    found = of if of is not None else described(protocols.CONSUMER)
    return plan_group_config(protocols.CONSUMER, bounds, found, record, wanted_ms, keeps, BEAT_MS, now_s)


def sent(problem: KafkaProblem | None = None, *, now_s: float = NOW_S) -> GroupConfigRecord:
    """Return what is remembered right after the first write."""
    write = present(planned().write)
    return NEW.sent(write, problem, now_s)


@pytest.mark.parametrize(
    ("stored_ms", "written_ms", "wanted_ms", "target_ms", "own_ms", "is_written"),
    [
        (None, None, 115_000, 115_000, None, True),
        (60_000, None, 115_000, 115_000, None, True),
        (300_000, None, 115_000, 300_000, None, False),  # longer, and there before: it hurts no member
        (115_000, None, 115_000, 115_000, 115_000, False),
        (115_000, 115_000, 151_000, 151_000, 115_000, True),
        (115_000, 115_000, 90_000, 90_000, 115_000, True),
        (60_000, 115_000, 115_000, None, 115_000, False),  # a value of another writer
        (300_000, 115_000, 115_000, None, 115_000, False),
        (300_000, 115_000, 151_000, None, 115_000, False),
        (151_000, 115_000, 151_000, 151_000, 151_000, False),  # another StaticGroup's, or given back
        (None, 115_000, 115_000, 115_000, None, True),  # deleted: given back
    ],
)  # fmt: skip
def test_what_is_set_and_whose_it_is(
    stored_ms: int | None,
    written_ms: int | None,
    wanted_ms: int,
    target_ms: int | None,
    own_ms: int | None,
    is_written: bool,
) -> None:
    found = planned(stores(stored_ms), GroupConfigRecord(written_ms=written_ms), wanted_ms=wanted_ms)
    assert (found.target_ms, found.is_elsewhere) == (target_ms, target_ms is None)
    assert found.record.written_ms == own_ms
    assert (found.write is not None) is is_written
    assert found.write is None or found.write.values == {SETTING: target_ms}


@pytest.mark.parametrize(
    ("stored_ms", "written_ms", "keeps", "note"),
    [
        (
            300_000, 115_000, "",
            f"somebody else has set {SETTING} of the group to 300000 ms after the operator had set it to 115000 ms, "
            "so the operator sets it "
            "no more; delete it from the group's settings, or set it to 115000, and the operator goes on; or set "
            "spec.sessionTimeout.writeGroupConfig to false",
        ),
        (
            300_000, None, "",
            f"{SETTING} of the group is 300000 ms, longer than the 115000 ms that are wanted, and stays so: "
            "it was there before; delete it "
            "from the group's settings, and the operator sets its own",
        ),
        (
            300_000, 300_000, "the workload does not exist",
            f"{SETTING} of the group is 300000 ms, longer than the 115000 ms that are wanted, and stays so: "
            "the workload does not exist",
        ),
        (300_000, 300_000, "", ""),
        (60_000, None, "the workload does not exist", ""),
    ],
)  # fmt: skip
def test_value_that_is_not_what_is_wanted_is_named_with_why_and_what_to_do(
    stored_ms: int, written_ms: int | None, keeps: str, note: str
) -> None:
    assert planned(stores(stored_ms), GroupConfigRecord(written_ms=written_ms), keeps=keeps).note == note


def test_nothing_is_lowered_while_somebody_may_want_it_and_what_is_short_is_raised() -> None:
    own = GroupConfigRecord(written_ms=300_000)
    assert planned(stores(300_000), own, keeps="wait").target_ms == 300_000
    assert planned(stores(None), keeps="wait", wanted_ms=40_000).target_ms == 45_000
    assert planned(stores(60_000), keeps="wait").target_ms == WANTED_MS


def test_default_of_the_brokers_may_be_lowered() -> None:
    long = replace(BOUNDS, sessions=stores(300_000).sessions)
    assert planned(long).target_ms == WANTED_MS


def test_value_that_was_sent_and_not_yet_remembered_is_the_operators() -> None:
    found = planned(stores(WANTED_MS), replace(sent(), written_ms=100_000), wanted_ms=151_000)
    assert (found.target_ms, found.record.written_ms) == (151_000, WANTED_MS)


@pytest.mark.parametrize(
    ("mode", "writes", "target_ms"),
    [(Mode.MANAGE, True, WANTED_MS), (Mode.MANAGE, False, None), (Mode.OBSERVE, True, None)],
)
def test_without_the_opt_in_or_in_mode_observe_nothing_is_set_and_what_was_written_is_forgotten(
    mode: Mode, writes: bool, target_ms: int | None
) -> None:
    t = timeout_of(
        spec().session_timeout, workload(2), protocols.CONSUMER, stores(WANTED_MS),
        record=GroupConfigRecord(written_ms=WANTED_MS), writes=writes, mode=mode,
    )  # fmt: skip
    assert (t.group_config.target_ms, t.group_config.record.written_ms) == (target_ms, target_ms)


def test_somebody_elses_value_is_judged_as_one_that_the_operator_may_not_set() -> None:
    t = timeout_of(
        spec().session_timeout, workload(2), protocols.CONSUMER, stores(60_000),
        record=GroupConfigRecord(written_ms=WANTED_MS), writes=True,
    )  # fmt: skip
    assert (t.desired.source.value, t.desired.basis.value, t.reason.value) == (
        "Broker", "GroupConfig", "BrokerBoundTooLow",
    )
    assert t.message == "a restart may keep a member away for 75000 ms but the group's session ends after 60000 ms"
    assert (t.next_ms, t.chosen_ms) == (60_000, WANTED_MS)


def test_workload_that_does_not_exist_and_others_that_say_nothing_keep_it_from_being_lowered() -> None:
    record = GroupConfigRecord(written_ms=300_000)
    wish = spec().session_timeout
    for view, world in ((None, {}), (workload(2), {"unheard": ("shop/returns",)})):
        t = timeout_of(wish, view, protocols.CONSUMER, stores(300_000), record=record, writes=True, **world)
        assert t.group_config.target_ms == 300_000
    assert t.group_config.note.endswith("stays so: shop/returns in the same group cannot say yet what they want")


def test_streams_group_has_its_own_setting() -> None:
    """KIP-1071: streams.session.timeout.ms, in the bounds of group.streams."""
    bounds = broker_bounds(streams_min_ms=45_000, streams_max_ms=60_000, streams_session_ms=45_000)
    t = timeout_of(spec().session_timeout, workload(2), protocols.STREAMS, bounds, writes=True)
    assert t.group_config.write is not None
    assert t.group_config.write.values == {"streams.session.timeout.ms": 60_000}
    assert "raise group.streams.max.session.timeout.ms on the brokers to at least 75000" in t.message


def test_stored_values_outside_new_bounds_are_repaired_with_it_in_one_request() -> None:
    """Seen: an alter of one key fails 40 naming the other one; both in one request pass."""
    own = GroupConfigRecord(written_ms=500_000)
    write = planned(replace(stores(300_000), stored={SETTING: 500_000, BEAT: 300}), own, wanted_ms=300_000).write
    assert write is not None
    assert write.values == {SETTING: 300_000, BEAT: 5_000}
    write = present(planned(replace(stores(WANTED_MS), stored={SETTING: WANTED_MS, BEAT: 300})).write)
    assert write.values == {SETTING: WANTED_MS, BEAT: 5_000}


def test_write_is_awaited_before_it_is_repeated_and_then_said_to_be_not_shown() -> None:
    record = sent()
    waiting = planned(record=record, now_s=NOW_S + 1)
    assert (waiting.write, waiting.record.is_open) == (None, True)
    late = planned(record=record, now_s=NOW_S + READ_BACK_WITHIN_S)
    assert late.write is None
    assert late.record.problem is not None
    assert "was set to 115000 and reads 45000 ms" in late.record.problem.message
    assert planned(record=late.record, now_s=NOW_S + RETRY_AFTER_S - 1).write is None
    assert planned(record=late.record, now_s=NOW_S + RETRY_AFTER_S).write is not None


def test_refusal_is_not_asked_again_for_five_minutes_but_another_value_is_at_once() -> None:
    record = sent(DENIED)
    early = planned(record=record, now_s=NOW_S + RETRY_AFTER_S - 1)
    assert (early.write, early.record.problem) == (None, DENIED)
    assert planned(record=record, now_s=NOW_S + RETRY_AFTER_S).write is not None
    assert planned(record=record, now_s=NOW_S + 1, wanted_ms=120_000).write is not None


def test_refusal_is_over_once_the_value_is_there() -> None:
    assert planned(stores(WANTED_MS), sent(DENIED), now_s=NOW_S + 1).record.problem is None


def test_raised_value_holds_after_a_heartbeat_of_every_member() -> None:
    record = planned(stores(WANTED_MS), sent(), now_s=NOW_S + 1).record
    assert record.held_at_s == NOW_S + 1
    until_s = NOW_S + 1 + BEATS * BEAT_MS / 1000
    assert record.slow_ms(BEAT_MS, until_s - 0.1) == 45_000
    assert record.slow_ms(BEAT_MS, until_s) is None


def test_member_that_was_away_keeps_the_shorter_one_until_it_is_back() -> None:
    """Two-speed timeouts: raised from 6 to 30 s after a member fell silent, it was gone after 6 s (lab-kafka 2.4)."""
    holds, away = stores(WANTED_MS), described(protocols.CONSUMER, AWAY)
    record = planned(holds, sent(), now_s=NOW_S + 1, of=away).record
    later_s = NOW_S + 60
    record = planned(holds, record, now_s=later_s, of=away).record
    assert record.slow_ms(BEAT_MS, later_s) == 45_000
    back = MemberView(member_id="m1", instance_id="i0", member_epoch=5)
    record = planned(holds, record, now_s=later_s + 1, of=described(protocols.CONSUMER, back)).record
    assert record.slow_ms(BEAT_MS, later_s + 1) is None


def test_second_raise_remembers_the_shortest_that_may_still_be_held() -> None:
    first = replace(sent(), held_at_s=NOW_S, written_ms=100_000)
    assert present(planned(stores(100_000), first, now_s=NOW_S + 1, wanted_ms=151_000).write).before_ms == 45_000


def test_lowered_value_shortens_no_member_that_is_away_and_is_in_force_at_once() -> None:
    lowered = present(planned(stores(300_000), GroupConfigRecord(written_ms=300_000)).write)
    record = planned(stores(WANTED_MS), NEW.sent(lowered, None, NOW_S), of=described(protocols.CONSUMER, AWAY)).record
    assert record.slow_ms(BEAT_MS, NOW_S) is None


def test_nothing_is_set_while_the_group_or_its_bounds_cannot_be_read() -> None:
    problem = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    assert planned(of=problem).write is None
    t = timeout_of(spec().session_timeout, workload(2), protocols.CONSUMER, BrokerBounds(), writes=True)
    assert (t.group_config.target_ms, t.group_config.write) == (None, None)


def test_stored_settings_of_another_protocol_stand_in_the_way_and_are_not_written() -> None:
    limits = dict(BOUNDS.limits) | {"share.session.timeout.ms": (45_000, 60_000)}
    found = planned(replace(BOUNDS, stored={"share.session.timeout.ms": 300, BEAT: 300}, limits=limits))
    assert found.write is None
    assert found.note.startswith("share.session.timeout.ms=300 that is stored on the group lies outside")
    assert "set it to 45000, or delete it" in found.note
    assert planned(replace(BOUNDS, stored={BEAT: 300})).note == ""
