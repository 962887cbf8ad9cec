"""The pure parts of the fleet learner's demo: its checks, its choice of a group, and its file server."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fleet_learner.recommendations.canary import waves_of
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.simulated.truth import draw_groups
from support.fleet_demo.figures import Bill, Figures, Fleet, Orders, Recommendations, counted, differences, table
from support.fleet_demo.ground import serve, url_of
from support.fleet_demo.group import first_wave_name
from support.fleet_demo.phases import invented, settings_of
from support.recommendations import recommendation

PODS = ("orders-7-0", "orders-7-1", "orders-7-2")
AS_EXPECTED = Figures(
    fleet=Fleet(
        groups_simulated=20, days=5, produced=1_000, ingested=1_000, set_aside=0, copies=0, groups=20, outages=300,
        absorbed=200, rebalances=100, rebalances_if_dynamic=500, start_ms=5_000, join_ms=20_000,
    ),
    recommendations=Recommendations(records=20, changes=5, released=1, waves={1: 1, 100: 19}),
    orders=Orders(
        group_id="orders-7", kafka_cluster_id="cluster", pods=PODS, structural_ms=140_000, recommended_ms=105_000,
        goal_ms=40_000, wave=1, message="set session.timeout.ms to 105000 ms", shown_ms=105_000,
        in_force_source="Fleet", injected_ms=105_000, shown_after_s=8.0, condition="RecommendationUsed",
        next_pod="orders-7-2", before_ms=dict.fromkeys(PODS, 140_000),
        next_pod_ms=dict.fromkeys(PODS, 140_000) | {"orders-7-2": 105_000},
        started_with_ms=105_000, rolled_ms=dict.fromkeys(PODS, 105_000), rebalances_next_pod=0, rebalances_roll=0,
    ),
    bill=Bill(
        groups=1, members=3, absorbed=4, rebalances=1, members_lost=0, silent_partition_ms=9_000, measured=4,
        not_known=0,
    ),
    stages_s={"set up": 60.0, "ingest": 10.0},
    took_s=75.5,
)  # fmt: skip


def test_a_run_that_went_as_expected_differs_in_nothing() -> None:
    assert differences(AS_EXPECTED) == []


def _fleet(**changes: Any) -> Figures:
    return replace(AS_EXPECTED, fleet=replace(AS_EXPECTED.fleet, **changes))


def _orders(**changes: Any) -> Figures:
    return replace(AS_EXPECTED, orders=replace(AS_EXPECTED.orders, **changes))


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        (_fleet(ingested=999), "999 taken in"),
        (_fleet(set_aside=1), "1 set aside"),
        (_fleet(copies=1), "1 met twice"),
        (_fleet(groups=19), "19 are in the report"),
        (_fleet(rebalances_if_dynamic=100), "nothing was saved"),
        (_fleet(rebalances=0), "nothing was saved"),
        (_fleet(join_ms=0), "a part is missing"),
        (replace(AS_EXPECTED, bill=replace(AS_EXPECTED.bill, absorbed=3)), "3 absorbed"),
        (replace(AS_EXPECTED, bill=replace(AS_EXPECTED.bill, members_lost=1)), "1 members lost"),
        (_orders(recommended_ms=None), "keep 140000 ms"),
        (_orders(recommended_ms=140_000), "keep 140000 ms"),
        (_orders(injected_ms=140_000), "injects 140000 ms"),
        (_orders(in_force_source="Structural"), "comes from Structural"),
        (_orders(before_ms={}), "at the start"),
        (_orders(next_pod_ms=dict.fromkeys(PODS, 140_000)), "after orders-7-2 was replaced"),
        (_orders(next_pod_ms=dict.fromkeys(PODS, 105_000)), "after orders-7-2 was replaced"),
        (_orders(rolled_ms=AS_EXPECTED.orders.next_pod_ms), "after all were replaced"),
        (_orders(started_with_ms=140_000), "started with 140000 ms"),
        (_orders(rebalances_next_pod=1), "1 rebalances"),
        (_orders(rebalances_roll=2), "2 in the rollout"),
    ],
)
def test_each_step_that_did_not_happen_is_said(figures: Figures, word: str) -> None:
    assert word in " ".join(differences(figures))


def test_the_table_shows_timeouts_before_and_after() -> None:
    console = Console(width=120, record=True)
    console.print(table(AS_EXPECTED))
    text = console.export_text()
    assert "140 s of each member" in text
    assert "orders-7-0 140 s, orders-7-1 140 s, orders-7-2 105 s" in text
    assert "1,000, 100 per second" in text
    assert "75.5 s" in text


def test_changes_are_counted_against_what_is_in_force() -> None:
    """A record that keeps the value, or has none, is no change."""
    records = [
        recommendation(group_id="a"),
        recommendation(group_id="b", recommended_ms=120_000, released=False, wave=10),
        recommendation(group_id="c", recommended_ms=None, released=False),
    ]
    found = counted(records)
    assert (found.records, found.changes, found.released, found.waves) == (3, 1, 1, {10: 1, 100: 2})


@pytest.mark.parametrize("kafka_cluster_id", ["5L6g3nShT-eMCtK--X86sw", "kafka-1", "A"])
def test_the_group_is_the_first_of_the_first_wave(kafka_cluster_id: str) -> None:
    """The name is chosen so that the hash assigns the first wave."""
    others = [(each.kafka_cluster_id, each.group_id) for each in invented(60, 7)]
    name = first_wave_name(kafka_cluster_id, others)
    number = int(name.removeprefix("orders-"))
    waves = [
        waves_of([*others, (kafka_cluster_id, f"orders-{each}")], salt=MODEL_VERSION)[
            kafka_cluster_id, f"orders-{each}"
        ]
        for each in range(1, number + 1)
    ]
    assert waves[-1] == 1
    assert 1 not in waves[:-1]


def test_the_fleet_ends_now_and_has_the_real_group_in_it() -> None:
    """A recommendation is found by the Kafka cluster's id and the group id."""
    settings = settings_of(
        4, 3, kafka_cluster_id="5L6g3nShT", group_id="orders-7", structural_ms=140_000, end_ms=1_800_000_000_123
    )
    assert settings.end_ms == 1_800_000_000_123
    real = draw_groups(settings)[0]
    assert (real.kafka_cluster_id, real.group_id, real.session_timeout_ms) == ("5L6g3nShT", "orders-7", 140_000)
    assert sum(group.kafka_cluster_id == "5L6g3nShT" for group in draw_groups(settings)) == 1


def test_recommendations_are_served_as_soon_as_they_are_there(tmp_path: Path) -> None:
    """404 while nothing is published, then the bytes, from a folder that did not exist at the start."""
    folder = tmp_path / "recommendations"
    server = serve(folder, "127.0.0.1")
    address = f"{url_of(server)}/run=1/shard=007.jsonl"
    read: Callable[[], bytes] = lambda: urllib.request.urlopen(address).read()  # noqa: E731
    try:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            read()
        (folder / "run=1").mkdir(parents=True)
        (folder / "run=1" / "shard=007.jsonl").write_bytes(b"{}\n")
        assert read() == b"{}\n"
    finally:
        server.shutdown()
        server.server_close()
