"""Rows I and A of the catalogue for KIP-848 groups, and the checks of commits.

GMMT is Kafka's GroupMetadataManagerTest; all members start stable at epoch 10 on foo (6 partitions) and bar (3).
"""

from __future__ import annotations

import pytest

from conformance.answers import expect
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.offset_messages import OffsetCommitRequest, OffsetCommitResponse
from coordinator_model.base.settings import BrokerSettings

from .consumer_bench import CURRENT, FIRST, GROUP, SECOND, UNIFORM, ConsumerBench, broker_settings

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID


def test_I02_unreleased_until_the_session_is_over() -> None:
    """ConsumerGroupHeartbeatRequestTest.testStaticMemberRemovedAfterSessionTimeoutExpiry…."""
    sessions = {"consumer_session_timeout_ms": 5_001, "consumer_min_session_timeout_ms": 5_001}
    bench = ConsumerBench(broker_settings(consumer_assignors=UNIFORM, **sessions), image=TopicImage())
    assert bench.join("m1", "x", topics=("foo",)).member_epoch == 2
    bench.coordinator.image = TopicImage({"foo": 3})
    assert bench.beat("m1", 2, "x").member_epoch == 3
    assert bench.join("m1-again", "x", topics=("foo",)).error_code is UNRELEASED
    bench.advance(5_001)
    answer = bench.join("m1-again", "x", topics=("foo",))
    assert (answer.error_code, answer.member_epoch) == (NONE, 5)


def test_I03_all_return_with_another_assignor() -> None:
    """ConsumerGroupHeartbeatRequestTest.testStaticMembersRejoinWithDifferentServerAssignor:
    the last epoch is higher.
    """
    bench = ConsumerBench(broker_settings(consumer_assignors=UNIFORM))
    for n in range(3):
        bench.join(f"m{n}", f"x{n}", assignor="uniform")
    bench.settle(*((f"m{n}", f"x{n}") for n in range(3)))
    before = bench.group.group_epoch
    for n in range(3):
        bench.beat(f"m{n}", -2, f"x{n}")
    last = [bench.join(f"n{n}", f"x{n}", assignor="range").member_epoch for n in range(3)]
    assert last[-1] > before


def test_A1_late_release_after_removal_and_return(pair: ConsumerBench) -> None:
    """A removal and the pod's own late -2 or heartbeat: the second gets FENCED or UNKNOWN, no member goes twice."""
    assert pair.leave(("m2", "y")) == [NONE]
    assert pair.beat("m2", -2, "y").error_code is UNKNOWN
    assert pair.beat("m2", 10, "y").error_code is UNKNOWN
    assert pair.join("m2-again", "y").error_code is NONE
    assert pair.beat("m2", -1, "y").error_code is FENCED
    assert pair.leave(("m2", "y"), ("m2", None)) == [FENCED, UNKNOWN]
    assert set(pair.group.members) == {"m1", "m2-again"}


def test_A2_release_on_behalf_of_a_crashed_member(pair: ConsumerBench) -> None:
    """-2 by a third party, then the restart: no UNRELEASED, same partitions, same epoch."""
    assert pair.join("m2-again", "y").error_code is UNRELEASED
    assert pair.beat("m2", -2, "y", client_id="operator").error_code is NONE
    back = pair.join("m2-again", "y")
    assert (back.error_code, back.member_epoch, back.assignment) == (NONE, 10, SECOND)
    assert pair.group.group_epoch == 10


def test_A3_group_with_an_absent_member_is_reconciling(pair: ConsumerBench) -> None:
    """A gate on Stable would wait for a member that is only away."""
    assert pair.describe().group_state == "Stable"
    pair.beat("m2", -2, "y")
    described = pair.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 10, 10)
    assert [(m.instance_id, m.member_epoch, m.assignment) for m in described.members] == [
        ("x", 10, FIRST),
        ("y", -2, SECOND),
    ]


def test_A5_lost_join_answer_blocks_a_static_member() -> None:
    """apache/kafka#23542: the holder itself is refused with its own member id; a dynamic member is not."""
    bench = ConsumerBench()
    bench.join("m1", "x")
    assert bench.join("m1", "x").error_code is UNRELEASED
    bench.beat("m1", -2, "x")
    assert bench.join("m1", "x").error_code is NONE
    bench.join("m2")
    assert bench.join("m2").error_code is NONE


def test_A5_with_the_proposed_rejoin_in_place() -> None:
    """apache/kafka#23542 as a switch: in place, without tombstones; the instance id cannot be changed."""
    bench = ConsumerBench(BrokerSettings(static_self_rejoin="in_place"))
    bench.join("m1", "x")
    again = bench.join("m1", "x")
    assert (again.error_code, again.member_epoch, bench.last.records) == (NONE, 2, ())
    assert bench.join("m2", "x").error_code is UNRELEASED
    assert bench.join("m1", "z").error_code is ErrorCode.INVALID_REQUEST
    bench.beat("m1", -2, "x")
    back = bench.join("m1", "x")
    assert (back.member_epoch, bench.types()) == (2, [CURRENT])
    assert back.assignment == again.assignment


def test_A6_raised_timeout_does_not_reach_the_absent(pair: ConsumerBench) -> None:
    """A changed group setting counts from each member's next heartbeat."""
    pair.beat("m2", -2, "y")
    assert pair.alter(consumer_session_timeout_ms="60000") is NONE
    pair.beat("m1", 10, "x")
    pair.beat("m2", -2, "y")
    pair.advance(45_000)
    assert list(pair.group.members) == ["m1"]
    pair.advance(15_000)
    assert pair.group.is_empty


def test_A7_fail_over_during_a_bounce(pair: ConsumerBench) -> None:
    """What was acknowledged is in the log: the absent member is still away and may come back."""
    pair.beat("m2", -2, "y")
    pair.advance(40_000)
    pair.fail_over()
    assert pair.epochs == {"m1": 10, "m2": -2}
    pair.advance(40_000)
    back = pair.join("m2-again", "y")
    assert (back.member_epoch, back.assignment) == (10, SECOND)


def five(settings: BrokerSettings | None = None) -> ConsumerBench:
    bench = ConsumerBench(settings or broker_settings(consumer_assignors=UNIFORM), image=TopicImage({"foo": 10}))
    for n in range(5):
        bench.join(f"m{n}", f"x{n}", topics=("foo",))
    bench.settle(*((f"m{n}", f"x{n}") for n in range(5)))
    return bench


def test_A8_scale_down_in_one_batch_costs_one_epoch() -> None:
    bench = five()
    before = bench.group.group_epoch
    assert bench.leave(("m3", "x3"), ("m4", "x4")) == [NONE, NONE]
    assert bench.group.group_epoch == before + 1
    shares = bench.settle(*((f"m{n}", f"x{n}") for n in range(3)))
    assert sorted(len(p) for t in shares.values() for _, p in t) == [3, 3, 4]


def test_A9_one_by_one_costs_one_epoch_each() -> None:
    bench = five()
    before = bench.group.group_epoch
    assert bench.leave(("m3", "x3")) + bench.leave(("m4", "x4")) == [NONE, NONE]
    assert bench.group.group_epoch == before + 2


def test_A10_late_removal_does_not_reach_the_returned() -> None:
    """3 to 2 to 3: the removal names the member that was seen; one that has come back since is another."""
    bench = five()
    bench.beat("m4", -2, "x4")
    assert bench.join("m4-again", "x4", topics=("foo",)).error_code is NONE
    assert bench.leave(("m4", "x4")) == [FENCED]
    assert bench.leave(("m4", None)) == [UNKNOWN]
    assert "m4-again" in bench.group.members


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_I12_new_member_ids_leave_every_partition_where_it_was(assignor: str) -> None:
    """Server RangeAssignorTest (static members): after a roll, a forced rebalance moves nothing."""
    bench = ConsumerBench()
    names = {"m9": "x0", "m5": "x1", "m1": "x2"}
    for member_id, instance_id in names.items():
        bench.join(member_id, instance_id, topics=("foo",), assignor=assignor)
    before = {names[m]: share for m, share in bench.settle(*names.items()).items()}
    for n, (member_id, instance_id) in enumerate(sorted(names.items())):
        bench.beat(member_id, -2, instance_id)
        bench.join(f"again-{n}", instance_id, topics=("foo",), assignor=assignor)
    epoch = bench.group.group_epoch
    bench.coordinator.image = TopicImage({"foo": 6, "bar": 3}, {("foo", 0): frozenset({"rack"})})
    again = {m.member_id: m.instance_id for m in bench.group.members.values()}
    after = {again[m]: share for m, share in bench.settle(*again.items()).items()}
    assert bench.group.group_epoch == epoch + 1
    assert after == before


def test_older_epoch_will_do_for_what_a_returned_member_has_held_since(pair: ConsumerBench) -> None:
    """KIP-1251, by a bounce and a newcomer that is given what the returned member holds no longer."""

    def commit(partition: int) -> ErrorCode:
        request = OffsetCommitRequest(
            api_version=10, group_id=GROUP, generation_id_or_member_epoch=10, member_id="m2-again",
            offsets=(("foo", partition, 8),),
        )
        return expect(OffsetCommitResponse, pair.send(request)).error_code

    pair.beat("m2", -2, "y")
    pair.join("m2-again", "y", assignor="range")
    pair.join("m3", "z", assignor="range")
    pair.beat("m2-again", 10, "y", (("bar", ()), ("foo", (3,))))
    assert pair.epochs["m2-again"] == 11
    assert (commit(3), commit(5)) == (NONE, ErrorCode.STALE_MEMBER_EPOCH)
