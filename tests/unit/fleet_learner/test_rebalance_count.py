"""Rebalances counted without simulation equal those of the coordinator model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fleet_learner.days.rebalance_count
from fleet_learner.days.counterfactual import GroupSetup, Membership, Rebalancing, Stop, replay
from fleet_learner.days.rebalance_count import count_rebalances

EAGER = GroupSetup(members=3, partitions=6, rebalancing=Rebalancing.EAGER, session_timeout_ms=45_000)
MINUTE = 60_000
_GAPS_MS = st.one_of(st.integers(1, 12_000), st.integers(20_000, 60_000), st.integers(60_000, 300_000), st.none())
_STOPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 150_000), _GAPS_MS, st.booleans()), min_size=1, max_size=7
)
Steps = list[tuple[int, int, int | None, bool]]


def timeline(steps: Steps) -> list[Stop]:
    """Stops at distances from each other; a member that is away does not stop again."""
    now_ms, away_until_ms, stops = 1_000_000, dict[int, float](), list[Stop]()
    for member, distance_ms, gap_ms, is_clean in steps:
        now_ms += distance_ms
        if now_ms > away_until_ms.get(member, 0):
            back_ms = None if gap_ms is None else now_ms + gap_ms
            away_until_ms[member] = float("inf") if back_ms is None else back_ms
            stops.append(Stop(member=member, down_ms=now_ms, back_ms=back_ms, is_clean=is_clean))
    return stops


@settings(max_examples=150, deadline=None)
@given(_STOPS, st.sampled_from([Rebalancing.EAGER, Rebalancing.CONSUMER]), st.integers(1, 6), st.booleans())
# A member was killed for good before the next one stops: the group does not know it yet.
@example([(2, 13_783, None, False), (0, 697, 207_816, False)], Rebalancing.EAGER, 3, False)
# The last heartbeat of the killed member was before the current rebalance.
@example([(0, 1_563, None, True), (2, 1_154, 51_006, False)], Rebalancing.EAGER, 3, True)
@example([(0, 11_517, 1, False), (0, 5_012, 2, False), (0, 3_740, 10, True)], Rebalancing.EAGER, 1, True)
# Killed in a join phase that waits for another killed member: the group is unstable for a session longer.
@example(
    [(1, 1_399, 45_000, True), (1, 87_904, 3_000, False), (0, 30_652, 5_000, True), (1, 3_000, 837, False),
     (1, 878, 227, False), (1, 51_680, 9_647, True), (0, 7_479, 45_000, True)],
    Rebalancing.EAGER, 2, True,
)  # fmt: skip
def test_the_count_is_that_of_the_replay(steps: Steps, kind: Rebalancing, members: int, leaves: bool) -> None:
    stops = timeline([(member % members, *rest) for member, *rest in steps])
    interval = 5_000 if kind is Rebalancing.CONSUMER else 3_000
    setup = replace(EAGER, rebalancing=kind, members=members, heartbeat_interval_ms=interval, leaves_on_close=leaves)
    assert count_rebalances(setup, stops) == replay(setup, stops, Membership.DYNAMIC).rebalances


def test_a_rolling_update_of_pods_one_by_one_needs_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The common case of any size needs no simulation, so that a month of ten thousand groups is fast."""
    monkeypatch.setattr(fleet_learner.days.rebalance_count, "Replay", None)
    setup = replace(EAGER, members=500, partitions=2_000)
    stops = [Stop(member=m, down_ms=m * MINUTE, back_ms=m * MINUTE + 25_000) for m in range(1, 500)]
    assert count_rebalances(setup, stops) == 2 * len(stops)


def test_a_rolling_update_whose_pods_are_replaced_before_their_members_are_back_needs_none_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod may be ready long before its consumer has joined: stops overlap all the way, and one is killed on top."""
    setup = replace(EAGER, members=30, partitions=90)
    stops = [Stop(member=m, down_ms=m * 31_007, back_ms=m * 31_007 + 52_013) for m in range(1, 30)]
    killed = Stop(member=0, down_ms=2_000_000, back_ms=2_009_000, is_clean=False)
    expected = replay(setup, [*stops, killed], Membership.DYNAMIC).rebalances
    monkeypatch.setattr(fleet_learner.days.rebalance_count, "Replay", None)
    assert count_rebalances(setup, [*stops, killed]) == expected


def test_order_does_not_matter() -> None:
    stops = timeline([(0, 1_000, 30_000, True), (1, 5_000, 40_000, False), (2, 200_000, 20_000, True)])
    assert count_rebalances(EAGER, stops) == count_rebalances(EAGER, stops[::-1])
