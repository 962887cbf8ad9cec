"""Sessions and revocations of a streams group, by the clock."""

from __future__ import annotations

from coordinator_model.base.errors import ErrorCode

from .streams_bench import GROUP, beat, coordinator, group, join, send


def test_each_heartbeat_renews_the_session() -> None:
    """testStreamsSessionTimeoutLifecycle."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(beat("m1", 2), 22_500)
    assert broker.timers.deadline_ms(("streams-session", GROUP, "m1")) == 67_500
    assert broker.expire(67_499).records == ()
    broker.handle(beat("m1", -1), 67_499)
    assert len(broker.timers) == 0


def test_session_expiry_removes_and_bumps() -> None:
    """testStreamsSessionTimeoutExpiration."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1_000)
    broker.expire(45_000)
    assert (list(group(broker).members), group(broker).metadata.epoch) == (["m2"], 4)
    back = send(broker, beat("m1", 2), 45_001)
    assert back.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_revokes_in_time_loses_its_timer() -> None:
    """testStreamsRebalanceTimeoutLifecycle."""
    broker = coordinator()
    broker.handle(join("m1", rebalance_timeout_ms=12_000), 0)
    broker.handle(join("m2", "q"), 1)
    answer = send(broker, beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    assert (answer.member_epoch, answer.active_tasks) == (2, (("s", (0, 1)),))
    assert broker.timers.deadline_ms(("streams-rebalance", GROUP, "m1")) == 12_010
    assert send(broker, beat("m1", 2, (("s", (0, 1)),)), 20).member_epoch == 3
    assert broker.timers.deadline_ms(("streams-rebalance", GROUP, "m1")) is None


def test_a_member_that_does_not_revoke_is_fenced() -> None:
    """testStreamsRebalanceTimeoutExpiration."""
    broker = coordinator()
    broker.handle(join("m1", rebalance_timeout_ms=10_000), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    assert broker.expire(10_009).records == ()
    broker.expire(10_010)
    assert (list(group(broker).members), group(broker).metadata.epoch) == (["m2"], 4)


def test_leaving_while_revoking_leaves_no_timer() -> None:
    """streamsGroupFenceMember cancels both timers of the member."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    broker.handle(beat("m1", -1), 11)
    assert broker.timers.keys() == (("streams-session", GROUP, "m2"),)


def test_load_restarts_every_timer_in_full() -> None:
    """testOnLoadedWithStreamsGroup."""
    broker = coordinator()
    log = [*broker.handle(join("m1"), 0).records, *broker.handle(join("m2", "q"), 1).records]
    log += broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 2).records
    loaded = coordinator()
    loaded.replay(log, now_ms=30_000)
    armed = loaded.timers.keys()
    assert {key: loaded.timers.deadline_ms(key) for key in armed} == {
        ("streams-session", GROUP, "m1"): 75_000,
        ("streams-session", GROUP, "m2"): 75_000,
        ("streams-rebalance", GROUP, "m1"): 31_500,
    }
