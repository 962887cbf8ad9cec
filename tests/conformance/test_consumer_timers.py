"""Rows N15 to N17: session and rebalance timers of KIP-848 members."""

from __future__ import annotations

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.consumer.group import TargetMetadataValue

from .consumer_bench import EPOCH, GROUP, TARGET_EPOCH, TOMBSTONES, ConsumerBench


def test_N15_static_member_that_does_not_return_expires() -> None:
    """GMMT.testSessionTimeoutExpirationStaticMember: the timer runs on from the last regular heartbeat."""
    bench = ConsumerBench()
    assert bench.join("m1", "x").member_epoch == 2
    bench.beat("m1", -2, "x")
    bench.advance(44_999)
    assert not bench.last.records
    bench.advance(2)
    assert bench.types() == [*TOMBSTONES, EPOCH, TARGET_EPOCH]
    assert bench.last.records[-1].value == TargetMetadataValue(3, 0)
    assert (bench.group.group_epoch, bench.group.state) == (3, "Empty")


def test_N16_session_timer_lifecycle(pair: ConsumerBench) -> None:
    """GMMT.testSessionTimeoutLifecycle, testSessionTimeoutExpiration."""
    key = ("consumer-session", GROUP, "m1")
    pair.advance(20_000)
    pair.beat("m1", 10, "x")
    assert pair.coordinator.timers.deadline_ms(key) == pair.now_ms + 45_000
    pair.advance(25_001)
    assert pair.types() == [*TOMBSTONES, EPOCH]
    assert list(pair.group.members) == ["m1"]
    pair.beat("m1", -1, "x")
    assert pair.coordinator.timers.deadline_ms(key) is None


def test_N16_on_loaded_every_member_has_a_fresh_timer(pair: ConsumerBench) -> None:
    """GMMT.testOnLoadedSessionTimeoutExpiration; also A7: a fail-over gives up to twice the session."""
    pair.advance(44_000)
    pair.fail_over()
    pair.advance(44_999)
    assert pair.last.records == ()
    pair.advance(1)
    assert pair.group.is_empty


def test_N17_rebalance_timer_lifecycle() -> None:
    """GMMT.testRebalanceTimeoutLifecycle: from the order to revoke until its acknowledgement."""
    bench = ConsumerBench(image=TopicImage({"foo": 3}))
    assert bench.join("m1", topics=("foo",), rebalance_timeout_ms=180_000).assignment == (("foo", (0, 1, 2)),)
    bench.join("m2", topics=("foo",), rebalance_timeout_ms=90_000)
    key = ("consumer-rebalance", GROUP, "m1")
    answer = bench.beat("m1", 2, None, (("foo", (0, 1, 2)),), rebalance_timeout_ms=12_000)
    assert (answer.member_epoch, answer.assignment) == (2, (("foo", (0, 1)),))
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 12_000
    answer = bench.beat("m1", 2, None, (("foo", (0, 1)),))
    assert (answer.member_epoch, answer.assignment) == (3, None)
    assert bench.coordinator.timers.deadline_ms(key) is None
    assert bench.beat("m2", 3).assignment == (("foo", (2,)),)


def test_N17_rebalance_timer_expiration() -> None:
    """GMMT.testRebalanceTimeoutExpiration: a member that does not revoke in time is fenced although it beats."""
    bench = ConsumerBench(image=TopicImage({"foo": 3}))
    bench.join("m1", topics=("foo",), rebalance_timeout_ms=10_000)
    bench.join("m2", topics=("foo",), rebalance_timeout_ms=10_000)
    bench.beat("m1", 2, None, (("foo", (0, 1, 2)),))
    bench.advance(9_999)
    bench.beat("m1", 2, None, (("foo", (0, 1, 2)),))
    bench.advance(2)
    assert bench.types() == [*TOMBSTONES, EPOCH]
    assert (list(bench.group.members), bench.group.group_epoch) == (["m2"], 4)
    assert bench.beat("m1", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
