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


@pytest.mark.parametrize(
    ("stops", "protocol", "rebalances"),
    [
        pytest.param([(0, 1000, 1020, "Deleted")], "Classic", 2, id="clean restart"),
        pytest.param([(0, 1000, 1020, "Deleted")], "Consumer", 2, id="every step of a group that has epochs"),
        pytest.param([(0, 1000, 1020, "Deleted")], "Streams", 2, id="streams"),
        pytest.param(
            [(m, 1000 + 100 * m, 1030 + 100 * m, "Deleted") for m in range(4)], "Classic", 8, id="rolling update"
        ),
        pytest.param([(0, 1000, 1010, "OOMKilled")], "Classic", 1, id="killed and back at once"),
        pytest.param([(0, 1000, None, "Deleted")], "Classic", 1, id="gone for good"),
        pytest.param([(0, 1000, None, "Deleted"), (0, 2000, 2020, "Deleted")], "Classic", 1, id="away, not stopped"),
    ],
)
def test_rebalances_of_a_day(stops: list[tuple[int, int, int | None, str]], protocol: str, rebalances: int) -> None:
    """KIP-345, motivation: a dynamic member leaves when it is closed, and joins as a new one.

    Of a killed one the join phase waits for the member id that died (ClassicGroup, PREPARING_REBALANCE).
    """
    assert rebalances_of_day(day(*stops, protocol=protocol), StopDurations()) == rebalances


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
