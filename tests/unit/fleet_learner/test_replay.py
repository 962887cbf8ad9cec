"""A day of stops replayed with dynamic members in the coordinator model."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_learner.days.facts import StopDurations
from fleet_learner.days.replay import rebalances_of_day

pytest.importorskip("numpy")


def day(*stops: tuple[int, int, int | None, str], protocol: str = "Classic") -> dict[str, Any]:
    """A day of (member, down, up, reason), times in seconds."""
    return {
        "protocol": protocol, "members": 4, "partitions": 8,
        "stops": [
            {"member_key": 1000 + member, "down_ms": 1000 * down, "back_ms": None if up is None else 1000 * up,
             "reason": reason, "event_id": str(index)}
            for index, (member, down, up, reason) in enumerate(stops)
        ],
    }  # fmt: skip


def counted(*stops: tuple[int, int, int | None, str], protocol: str = "Classic") -> int:
    return rebalances_of_day(day(*stops, protocol=protocol), StopDurations())


def test_a_clean_restart_is_two_rebalances() -> None:
    """KIP-345, motivation: a dynamic member leaves when it is closed, and joins as a new one."""
    assert counted((0, 1000, 1020, "Deleted")) == 2


def test_a_rolling_update_is_two_rebalances_a_member() -> None:
    assert counted(*((m, 1000 + 100 * m, 1030 + 100 * m, "Deleted") for m in range(4))) == 8


def test_a_killed_member_that_is_back_at_once_costs_one_long_rebalance() -> None:
    """The join phase waits for the member id that died, until its session ends (ClassicGroup, PREPARING_REBALANCE)."""
    assert counted((0, 1000, 1010, "OOMKilled")) == 1


def test_a_member_that_does_not_return_costs_one() -> None:
    assert counted((0, 1000, None, "Deleted")) == 1


def test_a_member_that_is_away_cannot_stop_again() -> None:
    twice = counted((0, 1000, None, "Deleted"), (0, 2000, 2020, "Deleted"))
    assert twice == counted((0, 1000, None, "Deleted"))


@pytest.mark.parametrize("protocol", ["Consumer", "Streams"])
def test_every_step_of_a_group_that_has_epochs_is_counted(protocol: str) -> None:
    assert counted((0, 1000, 1020, "Deleted"), protocol=protocol) == 2


@pytest.mark.parametrize("protocol", ["Classic", "Consumer"])
def test_a_group_of_any_size_is_counted(protocol: str) -> None:
    """More members make a rebalance longer, but cause no other one."""
    of_four = day((0, 1000, 1020, "Deleted"), (1, 2000, 2020, "OOMKilled"), protocol=protocol)
    few = rebalances_of_day(of_four, StopDurations())
    assert rebalances_of_day({**of_four, "members": 2**62, "partitions": 2**62}, StopDurations()) == few


def test_a_cooperative_group_of_thousands_is_counted_in_a_moment_and_as_a_smaller_one() -> None:
    """Which members join again needs a simulation of quadratic cost: one group would delay a fleet."""
    stops = day(*((m, 1000 + 100 * m, 1030 + 100 * m, "Deleted") for m in range(40)))["stops"]
    of = {"protocol": "Classic", "stops": stops}
    few, many = (
        rebalances_of_day({**of, "members": n, "partitions": n}, StopDurations(classic_is_cooperative=True))
        for n in (60, 5_000)
    )
    assert many == pytest.approx(few, rel=0.25)
