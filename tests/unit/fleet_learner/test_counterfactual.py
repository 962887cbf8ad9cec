"""One timeline replayed in Kafka's coordinator with static and with dynamic members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.days.counterfactual import GroupSetup, Membership, Rebalancing, Replayed, Stop, replay
from fleet_learner.estimates.cost import CostRates, evictions_per_day
from fleet_learner.estimates.laws import LognormalLaw

MINUTE = 60_000
EAGER = GroupSetup(members=4, partitions=12, rebalancing=Rebalancing.EAGER, session_timeout_ms=45_000)
KINDS = list(Rebalancing)


@dataclass(frozen=True)
class Comparison:
    """The same timeline in both worlds."""

    static: Replayed
    dynamic: Replayed

    @property
    def rebalances_avoided(self) -> int:
        return self.dynamic.rebalances - self.static.rebalances


def compare(setup: GroupSetup, stops: Sequence[Stop]) -> Comparison:
    """Replay with static members and with dynamic ones, which have no reason for a long session timeout."""
    dynamic = replace(setup, session_timeout_ms=45_000)
    return Comparison(replay(setup, stops, Membership.STATIC), replay(dynamic, stops, Membership.DYNAMIC))


def expected_rebalances(law: LognormalLaw, prices: CostRates, timeout_ms: float, stops: int) -> float:
    """The closed form for stops that do not overlap: 2 for each eviction, none for a restart in time."""
    return 2.0 * stops * float(evictions_per_day(law, prices, np.array([timeout_ms]))[0]) / prices.stops_per_day


def apart(gaps_ms: list[int], members: int = 4, **how: bool) -> list[Stop]:
    """One stop every hour, so that nothing merges."""
    return [
        Stop(member=index % members, down_ms=index * 60 * MINUTE + 7 * index,
             back_ms=index * 60 * MINUTE + 7 * index + gap, **how)
        for index, gap in enumerate(gaps_ms, start=1)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_in_time_costs_a_static_member_nothing_and_a_dynamic_one_two(kind: Rebalancing) -> None:
    """KIP-345: the reason for static membership. Cooperative members join once more for what they give up (KIP-429)."""
    found = compare(replace(EAGER, rebalancing=kind), apart([20_000] * 5))
    assert found.static.rebalances == 0
    expected = {Rebalancing.EAGER: 10, Rebalancing.CONSUMER: 10, Rebalancing.COOPERATIVE: 15}[kind]
    assert found.dynamic.rebalances >= expected
    assert kind is Rebalancing.COOPERATIVE or found.dynamic.rebalances == expected
    assert found.rebalances_avoided == found.dynamic.rebalances


@pytest.mark.parametrize("kind", [Rebalancing.EAGER, Rebalancing.CONSUMER])
def test_a_restart_too_late_costs_a_static_member_two(kind: Rebalancing) -> None:
    """One at the expiry, one at the return."""
    found = replay(replace(EAGER, rebalancing=kind), apart([90_000] * 5), Membership.STATIC)
    assert (found.rebalances, found.evictions) == (10, 5)


def test_the_place_of_a_static_member_is_idle_while_it_is_away() -> None:
    """3 partitions for 20 s, five times, and nothing else: the coordinator does nothing."""
    found = replay(EAGER, apart([20_000] * 5), Membership.STATIC)
    assert found.idle_partition_ms == 5 * 3 * 20_000


@pytest.mark.parametrize("kind", [Rebalancing.EAGER, Rebalancing.CONSUMER])
@pytest.mark.parametrize("timeout_ms", [20_000, 30_000, 60_000])
def test_evictions_agree_with_the_closed_form(kind: Rebalancing, timeout_ms: int) -> None:
    """|simulated − 2·n·P(gap > T − u)| < 3 standard errors for what the evictions ask for.

    A KIP-848 group has exactly these rebalances. A classic group has fewer: a member that returns during the rebalance
    of its expiry, at most a heartbeat interval, is part of it.
    """
    law = LognormalLaw(mean=math.log(25_000), deviation=0.5)
    rng = np.random.Generator(np.random.Philox(key=[41, timeout_ms]))
    gaps = np.exp(law.mean + law.deviation * rng.standard_normal(400)).astype(int)
    setup = replace(EAGER, rebalancing=kind, session_timeout_ms=timeout_ms)
    found = replay(setup, apart(gaps.tolist()), Membership.STATIC)
    prices = CostRates(stops_per_day=1.0, member_partitions=3.0, eviction_partition_seconds=1.0)
    expected = expected_rebalances(law, prices, timeout_ms, len(gaps))
    share = expected / 2 / len(gaps)
    error = 2 * math.sqrt(len(gaps) * share * (1 - share))
    assert abs(2 * found.evictions - expected) < 3 * error
    interval = EAGER.heartbeat_interval_ms
    joined_late = int(((gaps > timeout_ms - interval) & (gaps <= timeout_ms + interval)).sum())
    fewest = 2 * found.evictions - (joined_late if kind is Rebalancing.EAGER else 0)
    assert fewest <= found.rebalances <= 2 * found.evictions


def test_overlapping_stops_share_their_rebalances() -> None:
    """All members of a dynamic group leave within a second: far fewer than two rebalances each (a reason for
    replay)."""
    stops = [Stop(member=index, down_ms=MINUTE + 300 * index, back_ms=2 * MINUTE + 300 * index) for index in range(3)]
    found = compare(EAGER, stops)
    assert 2 <= found.dynamic.rebalances < 6
    assert found.static.evictions == 3


def test_a_crashed_dynamic_member_stops_a_classic_group_until_its_session_ends() -> None:
    """No leave: the new process asks for a rebalance, which waits for the ghost until 45 s after its last heartbeat.

    One rebalance instead of two, but all 12 partitions rest for about 40 s (ClassicGroup waits for every member of the
    generation before).
    """
    crashed = compare(replace(EAGER, session_timeout_ms=60_000), apart([5_000], is_clean=False))
    clean = compare(replace(EAGER, session_timeout_ms=60_000), apart([5_000]))
    assert (crashed.dynamic.rebalances, clean.dynamic.rebalances) == (1, 2)
    assert 12 * 34_000 < crashed.dynamic.idle_partition_ms < 12 * 41_000
    assert clean.dynamic.idle_partition_ms < 12 * 7_000
    assert crashed.static == clean.static


def test_a_crashed_dynamic_member_of_a_kip_848_group_holds_up_only_its_own_partitions() -> None:
    """The group goes on; the ghost's three partitions idle until it is fenced."""
    setup = replace(EAGER, rebalancing=Rebalancing.CONSUMER, session_timeout_ms=60_000)
    crashed = compare(setup, apart([5_000], is_clean=False)).dynamic
    assert crashed.rebalances == 2
    assert 3 * 34_000 < crashed.idle_partition_ms < 3 * 50_000


def test_a_killed_static_member_of_a_kip_848_group_is_kept_out_until_its_session_ends() -> None:
    """It did not say -2, so the broker answers UNRELEASED_INSTANCE_ID; the kubelet starts it again after 10, 20, 40 s.

    One expiry and one return, however fast the container was; said in time, the same restart costs nothing.
    """
    setup = replace(EAGER, rebalancing=Rebalancing.CONSUMER)
    killed = replay(setup, apart([1_000], is_clean=False), Membership.STATIC)
    closed = replay(setup, apart([1_000]), Membership.STATIC)
    assert (killed.rebalances, killed.evictions) == (2, 1)
    assert (closed.rebalances, closed.evictions) == (0, 0)


def test_streams_members_do_not_leave_when_closed() -> None:
    """internal.leave.group.on.close=false: a clean close looks like a crash."""
    silent = replace(EAGER, leaves_on_close=False)
    assert compare(silent, apart([5_000])).dynamic == compare(EAGER, apart([5_000], is_clean=False)).dynamic


def test_a_removal_ends_the_wait() -> None:
    """Scaled down: the operator removes the member after 2 s instead of leaving its partitions idle for 10 min."""
    setup = replace(EAGER, session_timeout_ms=600_000)
    waited = replay(setup, [Stop(member=3, down_ms=MINUTE, back_ms=None)], Membership.STATIC)
    removed = replay(
        setup, [Stop(member=3, down_ms=MINUTE, back_ms=None, removed_ms=MINUTE + 2_000)], Membership.STATIC
    )
    assert (waited.rebalances, removed.rebalances) == (1, 1)
    assert waited.idle_partition_ms > 3 * 590_000
    assert removed.idle_partition_ms < 3 * 2_000 + 12 * 3_100


@pytest.mark.parametrize("kind", KINDS)
def test_quiet_time_changes_nothing(kind: Rebalancing) -> None:
    """The same stops with days instead of hours between them: what is cut out had no effect."""
    interval = EAGER.heartbeat_interval_ms
    close, far = (
        [
            Stop(member=index % 4, down_ms=index * distance, back_ms=index * distance + gap)
            for index, gap in enumerate([20_000, 70_000, 44_000, 46_000, 5_000], start=1)
        ]
        for distance in (1_200 * interval, 86_400 * interval)
    )
    assert compare(replace(EAGER, rebalancing=kind), close) == compare(replace(EAGER, rebalancing=kind), far)


def test_no_stops_no_cost() -> None:
    """The formation of the group is not counted."""
    found = compare(EAGER, [])
    assert (found.static.rebalances, found.static.idle_partition_ms, found.rebalances_avoided) == (0, 0, 0)


TIMELINE = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 400), st.integers(0, 120), st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=30, deadline=None)
@given(TIMELINE, st.sampled_from(KINDS), st.sampled_from([10_000, 45_000]))
def test_every_timeline_comes_to_rest(
    timeline: list[tuple[int, int, int, bool]], kind: Rebalancing, timeout: int
) -> None:
    """Overlapping stops of different members, killed and closed, in both worlds: an answer, and the same one again."""
    clock, stops = {member: 0 for member in range(4)}, []
    for member, pause_s, gap_s, is_clean in timeline:
        down = clock[member] + 1000 * pause_s
        clock[member] = down + 1000 * gap_s
        stops.append(Stop(member=member, down_ms=down, back_ms=clock[member], is_clean=is_clean))
    setup = replace(EAGER, rebalancing=kind, session_timeout_ms=timeout)
    found = compare(setup, stops)
    assert found == compare(setup, stops)
    assert 0 <= found.static.evictions <= 4 * len(stops)
    assert found.static.idle_partition_ms >= 0
