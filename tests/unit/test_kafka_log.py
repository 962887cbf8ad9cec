"""The reader of broker logs, on lines that real brokers wrote (Kafka 4.4.0 and 3.9.2).

Recorded while real consumers joined, closed, were killed, came back, were duplicated and removed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.devcluster.kafka_jars import RESOURCES
from support.devcluster.kafka_log import GroupEvent, GroupEventKind, GroupLog, LogParser

RECORDED = RESOURCES / "recorded"
K = GroupEventKind


def parse(name: str) -> list[GroupEvent]:
    return list(LogParser(1).parse((RECORDED / name).read_text().splitlines()))


def parse_text(text: str) -> list[GroupEvent]:
    line = f"2026-11-21T09:36:36.190Z INFO [gc-0] org.apache.kafka.coordinator.group.GroupMetadataManager {text}"
    return list(LogParser(1).parse([line]))


def kinds(events: list[GroupEvent], group_id: str) -> Counter[GroupEventKind]:
    return Counter(event.kind for event in events if event.group_id == group_id)


@pytest.mark.parametrize("recording", ["classic-4.4.0.txt", "classic-3.9.2.txt"])
def test_every_event_of_a_classic_group_of_static_members_is_read(recording: str) -> None:
    """Both coordinators, the Java one of Kafka 4 and the Scala one of Kafka 3, log the same events."""
    assert kinds(parse(recording), "classic-st") == {
        K.MEMBER_JOINED: 4, K.REBALANCE_PREPARED: 7, K.STABILIZED: 6, K.STATIC_MEMBER_REPLACED: 3,
        K.REBALANCE_SPARED: 3, K.SESSION_EXPIRED: 3, K.FENCED: 2, K.REMOVED: 1, K.EMPTIED: 1, K.GROUP_LOADED: 1,
    }


@pytest.mark.parametrize(("recording", "joins"), [("classic-4.4.0.txt", 2), ("classic-3.9.2.txt", 0)])
def test_every_event_of_a_classic_group_of_dynamic_members_is_read(recording: str, joins: int) -> None:
    """Kafka 3.9 logs the join of a dynamic member only as the reason of the rebalance."""
    found = kinds(parse(recording), "classic-dyn")
    assert found.pop(K.MEMBER_JOINED, 0) == joins
    assert found == {
        K.REBALANCE_PREPARED: 4, K.STABILIZED: 3, K.REMOVED: 1, K.SESSION_EXPIRED: 1, K.EMPTIED: 1, K.GROUP_LOADED: 1,
    }


def test_every_event_of_a_consumer_group_is_read() -> None:
    """KIP-848: closing and returning bumps no epoch, so there are 8 bumps for 4 joins, 3 expiries and 1 removal."""
    assert kinds(parse("consumer-4.4.0.txt"), "consumer-st") == {
        K.MEMBER_JOINED: 4, K.EPOCH_BUMPED: 8, K.TEMPORARILY_LEFT: 1, K.STATIC_MEMBER_REPLACED: 1, K.JOIN_REFUSED: 2,
        K.SESSION_EXPIRED: 3, K.REMOVED: 1, K.FENCED: 1, K.GROUP_LOADED: 1,
    }


def test_a_member_that_closes_for_good_differs_from_one_that_expires() -> None:
    events = parse("consumer-4.4.0.txt")
    ends = [e for e in events if e.group_id == "consumer-dyn" and e.kind in (K.LEFT, K.SESSION_EXPIRED)]
    assert [(e.kind, e.member_id) for e in ends] == [
        (K.LEFT, "m9WXBPIvTo+voJ9c576zbQ"),
        (K.SESSION_EXPIRED, "pf2OhlKqQay7fAQqNFQYqQ"),
    ]


def test_a_removal_by_leave_group_names_the_member_its_instance_id_and_the_clients_reason() -> None:
    """KIP-800 carries the reason; the classic line names no instance id, it comes from the line about the join."""
    removed = {
        e.group_id: (e.member_id, e.instance_id, e.reason)
        for name in ("classic-4.4.0.txt", "consumer-4.4.0.txt")
        for e in parse(name)
        if e.kind is K.REMOVED and e.instance_id is not None
    }
    reason = "staticgroup ns/name: scaled 2→1"
    assert removed == {
        "classic-st": ("s-1-18897bae-4c29-4b24-bf81-e191a9fb346d", "s-1", reason),
        "consumer-st": ("iLerut6NT1u93tRoyzyUtg", "s-1", reason),
    }


def test_a_removal_on_kafka_3_names_member_instance_id_and_reason() -> None:
    (removed,) = [e for e in parse("classic-3.9.2.txt") if e.kind is K.REMOVED and e.group_id == "classic-st"]
    assert (removed.member_id, removed.instance_id, removed.reason) == (
        "s-1-52536873-028c-47bc-9402-d1fd51fb0756", "s-1", "staticgroup ns/name: scaled 2→1",
    )


def test_a_whole_record_of_a_prepared_rebalance() -> None:
    prepared = [e for e in parse("classic-4.4.0.txt") if e.kind is K.REBALANCE_PREPARED and e.group_id == "classic-st"]
    assert prepared[2] == GroupEvent(
        kind=K.REBALANCE_PREPARED,
        at_ms=1795253787610,  # 2026-11-21T09:36:27.610Z
        node_id=1,
        group_id="classic-st",
        group_generation=2,
        reason="removing member s-1-dc1931ef-2e0c-4ee6-bf0c-19f393f7a883 on heartbeat expiration.",
    )


def test_a_spared_rebalance_belongs_to_the_replacement_on_the_same_thread() -> None:
    """The broker's line about the spared rebalance names neither group nor member."""
    events = parse("classic-4.4.0.txt")
    replaced = [e for e in events if e.kind is K.STATIC_MEMBER_REPLACED]
    spared = [e for e in events if e.kind is K.REBALANCE_SPARED]
    assert [(e.group_id, e.instance_id) for e in spared] == [(e.group_id, e.instance_id) for e in replaced]


def test_a_fenced_classic_request_finds_its_group_by_the_member_that_holds_the_id() -> None:
    fenced = [e for e in parse("classic-4.4.0.txt") if e.kind is K.FENCED]
    assert [(e.group_id, e.instance_id, e.reason) for e in fenced] == [
        ("classic-st", "s-1", "heartbeat"),
        ("classic-st", "s-0", "leave-group"),
    ]


def test_a_fenced_classic_request_about_unknown_members_has_no_group() -> None:
    (fenced,) = parse_text(
        "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] Request memberId=x for static member with "
        "groupInstanceId=s-0 is fenced by existing memberId=y during operation heartbeat"
    )
    assert (fenced.kind, fenced.group_id, fenced.member_id, fenced.other_member_id) == (K.FENCED, None, "x", "y")


def test_rebalances_are_counted_per_group_and_from_a_time_on() -> None:
    log = GroupLog({1: RECORDED / "classic-4.4.0.txt"})
    after_both_joined_ms = 1795253775211  # 2026-11-21T09:36:15.211Z, generation 2 is stable
    before_the_kill_ms = 1795253787609
    assert log.count_rebalances("classic-st") == 7
    assert log.count_rebalances("classic-st", after_both_joined_ms) == 5
    rolled = [e for e in log.events("classic-st", since_ms=after_both_joined_ms) if e.at_ms <= before_the_kill_ms]
    assert K.REBALANCE_PREPARED not in {e.kind for e in rolled}
    assert len([e for e in rolled if e.kind is K.STATIC_MEMBER_REPLACED]) == 3
    assert log.count_rebalances("classic-dyn") == 4
    assert log.count_rebalances("no-such-group") == 0


def test_epoch_bumps_are_counted_per_group() -> None:
    log = GroupLog({1: RECORDED / "consumer-4.4.0.txt"})
    assert (log.count_epoch_bumps("consumer-st"), log.count_epoch_bumps("consumer-dyn")) == (8, 4)
    assert [e.group_epoch for e in log.events("consumer-dyn", kind=K.EPOCH_BUMPED)] == [2, 3, 4, 5]


def test_an_unknown_wording_of_a_rebalance_is_an_error_not_a_zero() -> None:
    with pytest.raises(ValueError, match="wording"):
        parse_text("[GroupCoordinator id=1] Preparing to rebalance the group g because of the moon")


@pytest.mark.parametrize(
    "text",
    [
        "[GroupId g][MemberId m] Bumped streams group epoch to 7 with metadata hash 5 and validated topic epoch 1.",
        "[GroupId g] Bumped group epoch to 7.",  # Kafka 4.0
        "[GroupId g] Bumped group epoch to 7 with metadata hash 5.",
    ],
)
def test_an_epoch_bump_is_read_in_every_wording(text: str) -> None:
    (event,) = parse_text(f"[GroupCoordinator id=1 topic=__consumer_offsets partition=0] {text}")
    assert (event.kind, event.group_id, event.group_epoch) == (K.EPOCH_BUMPED, "g", 7)


def test_a_clients_reason_cannot_pass_for_an_event_of_another_group() -> None:
    """The reason is free text of a client and stands at the end of its line."""
    (event,) = parse_text(
        "[GroupCoordinator id=1] [Group g] Member m has left group through explicit `LeaveGroup` request; "
        "client reason: Preparing to rebalance group h in state Stable with old generation 1 (reason: x)."
    )
    assert (event.kind, event.group_id) == (K.REMOVED, "g")


def test_lines_of_other_loggers_are_passed_over() -> None:
    line = "2026-11-21T09:36:36.190Z INFO [main] kafka.Other Stabilized group g generation 1 with 1 members."
    assert list(LogParser(1).parse([line, "java.lang.Exception: x", ""])) == []


def test_a_line_that_is_still_being_written_is_read_once_when_it_is_complete(tmp_path: Path) -> None:
    recorded = (RECORDED / "classic-4.4.0.txt").read_bytes()
    cut = recorded.index(b"Preparing to rebalance group classic-st") + 30
    path = tmp_path / "broker.log"
    log = GroupLog({1: path})
    assert log.events() == []  # the file may appear later
    path.write_bytes(recorded[:cut])
    assert log.count_rebalances("classic-st") == 0
    path.write_bytes(recorded)
    assert log.count_rebalances("classic-st") == 7
    assert log.count_rebalances("classic-st") == 7


def test_the_logs_of_several_nodes_are_merged_by_time(tmp_path: Path) -> None:
    lines = (RECORDED / "classic-4.4.0.txt").read_text().splitlines(keepends=True)
    (tmp_path / "odd").write_text("".join(lines[1::2]))
    (tmp_path / "even").write_text("".join(lines[::2]))
    log = GroupLog({2: tmp_path / "odd", 1: tmp_path / "even"})
    times = [event.at_ms for event in log.events()]
    assert times == sorted(times)
    assert {event.node_id for event in log.events()} == {1, 2}
    assert log.count_rebalances("classic-st") == 7


def test_waiting_for_an_event_that_does_not_come_names_what_came() -> None:
    log = GroupLog({1: RECORDED / "consumer-4.4.0.txt"})
    assert log.wait_for_kind(K.JOIN_REFUSED, "consumer-st", timeout_s=0).instance_id == "s-1"
    with pytest.raises(TimeoutError, match="EpochBumped"):
        log.wait_for_kind(K.STABILIZED, "consumer-dyn", timeout_s=0)
