"""One outage is logged twice, however many calls fail in it; tries are spread and never far apart."""

from random import Random

import pytest

from staticgroup.kube.outage import RETRY_MAX_S, Backoff, Outage
from support.clock import Clock


def test_outage_is_logged_once_when_it_begins_and_once_with_its_length_when_it_ends(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage, ends = Outage(clock_s=clock), []
    outage.on_end = lambda: ends.append(clock.now_s)
    for _ in range(100):
        clock.now_s += 2
        outage.missed("no answer")
    assert outage.is_on
    outage.answered()
    outage.answered()
    assert [r.message for r in caplog.records] == [
        "the API server is away; nothing is done until it answers",
        "the API server answers again",
    ]
    assert vars(caplog.records[1])["away_s"] == 200.0
    assert ends == [clock.now_s]
    assert not outage.is_on


def test_calls_that_fail_between_others_that_are_answered_are_no_outage(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """One of three API servers behind a load balancer is down."""
    outage = Outage(clock_s=clock)
    for _ in range(100):
        clock.now_s += 2
        outage.missed("no answer")
        outage.answered()
    assert not outage.is_on
    assert caplog.records == []


def test_time_of_answering_begins_again_after_each_outage(clock: Clock) -> None:
    outage = Outage(clock_s=clock)
    clock.now_s += 500
    assert outage.answering_s() == 500
    outage.missed("no answer")
    assert outage.answering_s() == 0
    clock.now_s += 100
    outage.answered()
    clock.now_s += 7
    assert outage.answering_s() == 7


def test_delays_double_up_to_a_limit_below_five_seconds_and_are_spread() -> None:
    backoff = Backoff(Random(1), first_s=0.2)
    delays = [backoff.next_s() for _ in range(200)]
    assert 0.1 <= delays[0] <= 0.2
    assert 0.2 <= delays[1] <= 0.4
    assert all(RETRY_MAX_S / 2 <= delay <= RETRY_MAX_S < 5 for delay in delays[10:])
    assert len({round(delay, 1) for delay in delays[10:]}) > 10
    backoff.reset()
    assert backoff.next_s() <= 0.2
