"""Building a report: sentences that can be carried out, curves that agree with the estimators, the right groups first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleet_learner.estimates.cost import CostRates, cheapest, cost_per_day
from fleet_learner.estimates.kaplan_meier import kaplan_meier
from fleet_learner.report import build
from fleet_learner.report.advice import advise, advise_clusters, avoidable_ms_per_day
from fleet_learner.report.model import Counts, GroupKey, Timeline, Window
from staticgroup.api.recommendation import Effects, Estimate, EstimateMethod, Evidence, Recommendation, Setting
from staticgroup.api.recommendation import RecommendationReason as Reason

DAY_MS = 86_400_000
WINDOW = Window(start_ms=0, end_ms=30 * DAY_MS)
RATES = CostRates(stops_per_day=36, member_partitions=4, eviction_partition_seconds=384)


def exactly(value: float) -> Estimate:
    return Estimate(value=value, lower=value, upper=value)


def effects(evictions: float, ghost_seconds: float, cost: float) -> Effects:
    return Effects(
        evictions_per_day=exactly(evictions),
        ghost_seconds_per_day=exactly(ghost_seconds),
        cost_partition_seconds_per_day=exactly(cost),
    )


def recommendation(**changes: Any) -> Recommendation:
    values: dict[str, Any] = {
        "kafka_cluster_id": "kafka-1",
        "group_id": "orders",
        "protocol": "Classic",
        "setting": Setting.SESSION_TIMEOUT,
        "current_ms": 45_000,
        "recommended_ms": 90_000,
        "goal_ms": 105_000,
        "released": True,
        "evidence": Evidence(
            stops=1080, stops_effective=900.0, censored=3, method=EstimateMethod.KAPLAN_MEIER, coverage=0.997,
            from_ms=0, to_ms=30 * DAY_MS,
        ),
        "before": effects(4.9, 1_300, 5_777),
        "after": effects(0.6, 1_600, 4_502),
        "bounds_minimum_ms": 9_000,
        "bounds_maximum_ms": 1_800_000,
        "reasons": (Reason.COST_OPTIMUM,),
        "valid_until_ms": 40 * DAY_MS,
    }  # fmt: skip
    return Recommendation(**(values | changes))


def history(group_id: str = "orders", **changes: Any) -> build.GroupHistory:
    values: dict[str, Any] = {
        "key": GroupKey(kafka_cluster_id="kafka-1", group_id=group_id),
        "protocol": "Classic",
        "members": 12,
        "partitions": 48,
        "counts": Counts(restarts=1080, rebalances=30, rebalances_if_dynamic=2160, rebalance_cost_partition_ms=1_000),
        "covered_ms": 9 * DAY_MS,
        "span_ms": 10 * DAY_MS,
        "lost_partition_ms_by_day": (1, 2),
    }
    return build.GroupHistory(**(values | changes))


def test_a_longer_timeout_is_a_sentence_with_both_numbers_and_what_they_do() -> None:
    advice = advise(recommendation())
    assert advice.action == "Raise session.timeout.ms of orders from 45000 to 90000 (1 min 30 s)."
    assert advice.why == (
        "4.9 evictions a day that were not needed become 0.6, 21 min 40 s a day of waiting become 26 min 40 s; "
        "1,280 partition-s a day less is lost. From 1,080 stops, watched for 99.7 % of the time."
    )
    assert advice.is_action


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"recommended_ms": 30_000}, "Lower session.timeout.ms of orders from 45000 to 30000 (30 s)."),
        ({"current_ms": None}, "Set session.timeout.ms of orders to 90000 (1 min 30 s)."),
        (
            {"setting": Setting.CONNECT_DELAY, "protocol": "Connect", "current_ms": 300_000},
            "Lower scheduled.rebalance.max.delay.ms of orders from 300000 to 90000 (1 min 30 s).",
        ),
        (
            {"recommended_ms": None, "reasons": (Reason.USE_DYNAMIC,)},
            "Use dynamic members in orders: leave group.instance.id unset.",
        ),
        (
            {"recommended_ms": None, "reasons": (Reason.INFEASIBLE,)},
            "Widen the bounds of orders: no session.timeout.ms satisfies all of them.",
        ),
    ],
)
def test_each_kind_of_answer_is_an_action(changes: dict[str, Any], action: str) -> None:
    advice = advise(recommendation(**changes))
    assert advice.action == action
    assert advice.is_action


@pytest.mark.parametrize("reason", [Reason.TOO_FEW, Reason.SMALL_CHANGE, Reason.TOO_SOON, Reason.NEW_IMAGE_FREEZE])
def test_a_value_that_stays_is_no_action_and_says_why(reason: Reason) -> None:
    advice = advise(recommendation(recommended_ms=45_000, reasons=(reason,)))
    assert advice.action == "Keep session.timeout.ms at 45 s."
    assert not advice.is_action
    assert advice.why != "It is the best one."


def test_what_keeps_a_change_from_going_further_is_said() -> None:
    why = advise(recommendation(reasons=(Reason.BROKER_CAP, Reason.STEP_LIMITED), uncapped_ms=120_000)).why
    assert "one step on the way to 1 min 45 s" in why
    assert "The broker allows no more; 2 min would be best." in why


def test_a_brokers_cap_is_one_sentence_for_all_groups_of_its_cluster() -> None:
    """GroupCoordinatorConfig: group.consumer.max.session.timeout.ms defaults to 60 s."""
    capped = {
        "setting": Setting.CONSUMER_SESSION_TIMEOUT, "protocol": "Consumer", "reasons": (Reason.BROKER_CAP,),
        "bounds_maximum_ms": 60_000,
    }  # fmt: skip
    made = advise_clusters(
        [
            recommendation(group_id="a", uncapped_ms=90_000, **capped),
            recommendation(group_id="b", uncapped_ms=120_000, **capped),
            recommendation(group_id="c", uncapped_ms=300_000),
            recommendation(group_id="d", uncapped_ms=75_000, **{**capped, "kafka_cluster_id": "kafka-2"}),
        ]
    )
    assert [(c.kafka_cluster_id, c.groups) for c in made] == [("kafka-1", 2), ("kafka-2", 1)]
    assert made[0].advice.action == "Raise group.consumer.max.session.timeout.ms to 120000 on cluster kafka-1."
    assert "cap in force is 1 min" in made[0].advice.why


def test_what_is_avoidable_is_never_negative_and_unknown_without_both_effects() -> None:
    assert avoidable_ms_per_day(recommendation()) == 1_275_000
    assert avoidable_ms_per_day(recommendation(after=effects(1, 1, 9_999))) == 0
    assert avoidable_ms_per_day(recommendation(before=None)) is None


def test_dynamic_members_save_what_they_would_not_lose() -> None:
    advised = recommendation(reasons=(Reason.USE_DYNAMIC,))
    assert avoidable_ms_per_day(advised, 777_000) == 5_000_000
    assert advise(advised, 777_000).why == (
        "Its rebalances cost less than waiting for members does, at every timeout that is allowed. 5,780 partition-s a "
        "day are lost now, 777 partition-s would be. If it must stay static, take the shortest timeout, 9 s."
    )


def test_groups_with_an_action_and_the_greatest_gain_come_first() -> None:
    names = ("small", "kept", "great", "silent")
    made = {
        ("kafka-1", "small"): recommendation(group_id="small", after=effects(1, 1, 5_000)),
        ("kafka-1", "kept"): recommendation(group_id="kept", recommended_ms=45_000),
        ("kafka-1", "great"): recommendation(group_id="great", after=effects(1, 1, 10)),
    }
    rows = build.group_rows([history(name) for name in names], made)
    assert [row.key.group_id for row in rows] == ["great", "small", "kept", "silent"]
    assert [row.key.group_id for row in build.worth_acting_on(rows, limit=1)] == ["great"]
    assert rows[3].advice.why == "No recommendation was made for this group."


def detail() -> build.GroupDetail:
    rng = np.random.Generator(np.random.Philox(key=7))
    gaps = np.round(np.exp(rng.normal(np.log(25_000), 0.5, 1080)))
    return build.GroupDetail(
        gaps_ms=gaps, is_returned=np.arange(1080) % 100 != 0, rates=RATES, timeline=Timeline(window=WINDOW)
    )


def test_a_page_prices_what_the_estimators_price() -> None:
    known = detail()
    row = build.group_rows([history()], {("kafka-1", "orders"): recommendation()})[0]
    page = build.group_page(row, known, recommendation())
    curve = kaplan_meier(known.gaps_ms, known.is_returned)
    grid = np.array([p.timeout_ms for p in page.cost], dtype=np.float64)
    expected = cost_per_day(curve, RATES, grid)
    assert np.allclose([p.total_partition_ms / 1000 for p in page.cost], expected, rtol=1e-6, atol=0.01)
    assert {45_000, 90_000} <= {p.timeout_ms for p in page.cost}
    best = page.cost[int(cheapest(expected))].timeout_ms
    assert min(page.cost, key=lambda p: p.total_partition_ms).timeout_ms == best
    assert page.samples == 1080
    assert page.censored == 11
    assert page.indifference_per_second == pytest.approx(4 / 384)


def test_the_curve_is_thinned_but_keeps_its_ends_and_its_band() -> None:
    known = detail()
    curve = kaplan_meier(known.gaps_ms, known.is_returned)
    points = build.survival_points(curve, 50)
    assert len(points) <= 50
    assert points[0].gap_ms == round(curve.times_ms[0])
    assert points[-1].gap_ms == round(curve.times_ms[-1])
    assert all(0 <= p.lower <= p.survival <= p.upper <= 1 for p in points)


def test_the_what_if_table_holds_now_the_recommended_and_dynamic_members() -> None:
    known = detail()
    lines = build.what_if(kaplan_meier(known.gaps_ms, known.is_returned), RATES, recommendation())
    labels = [line.label for line in lines]
    assert "45 s, now" in labels
    assert "1 min 30 s, recommended" in labels
    assert lines[-1].timeout_ms is None
    assert lines[-1].rebalances_per_day == 72
    evictions = [line.evictions_per_day for line in lines[:-1]]
    assert evictions == sorted(evictions, reverse=True)


def test_a_group_without_a_single_return_has_a_page_without_curves() -> None:
    never = replace(detail(), gaps_ms=np.array([1_000.0]), is_returned=np.array([False]))
    row = build.group_rows([history()], {("kafka-1", "orders"): recommendation()})[0]
    page = build.group_page(row, never, recommendation())
    assert page.survival == ()
    assert page.hazard == ()


def test_the_fleet_is_the_sum_of_its_groups() -> None:
    histories = [history("a"), history("b", covered_ms=0)]
    made = build.build_report(
        created_ms=1, run_id="1", window=WINDOW, histories=histories, recommendations={}, details={}, days=()
    )
    assert (made.groups, made.members, made.kafka_clusters) == (2, 24, 1)
    assert made.counts.restarts == 2160
    assert made.counts.rebalances_if_dynamic == 4320
    assert made.coverage == 0.45
    assert made.pages == ()


def test_dynamic_members_are_compared_only_when_every_group_was_replayed() -> None:
    histories = [history("a"), history("b", counts=Counts(rebalances=1))]
    made = build.build_report(
        created_ms=1, run_id="1", window=WINDOW, histories=histories, recommendations={}, details={}, days=()
    )
    assert made.counts.rebalances_if_dynamic is None
