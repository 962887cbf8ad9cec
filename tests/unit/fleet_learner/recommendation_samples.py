"""A recommendation as an operator may read it, of which tests change what they are about, and its advice."""

from __future__ import annotations

from typing import Any

from fleet_learner.report.advice.groups import advise
from fleet_learner.report.model import Advice, GroupKey
from journal.recommendations import (
    Difference,
    Effects,
    Estimate,
    EstimateMethod,
    PriceSource,
    Recommendation,
    RecommendationEvidence,
    Setting,
)
from journal.recommendations import RecommendationReason as Reason

DAY_MS = 86_400_000
KEY = GroupKey(
    kafka_cluster_id="kafka-1", group_id="orders", namespace="shop", static_group="orders", workload="orders"
)
SURE = Difference(value=1_275.0, lower=900.0, upper=1_600.0)


def exactly(value: float) -> Estimate:
    return Estimate(value=value, lower=value, upper=value)


def effects(evictions: float, ghost_seconds: float, cost: float) -> Effects:
    return Effects(
        evictions_per_day=exactly(evictions),
        ghost_seconds_per_day=exactly(ghost_seconds),
        cost_partition_seconds_per_day=exactly(cost),
    )


def saved(value: float) -> Difference:
    return Difference(value=value, lower=value / 2, upper=2 * value)


def recommendation(**changes: Any) -> Recommendation:
    values: dict[str, Any] = {
        "kafka_cluster_id": "kafka-1", "group_id": "orders", "protocol": "Classic", "setting": Setting.SESSION_TIMEOUT,
        "current_ms": 45_000, "recommended_ms": 90_000, "goal_ms": 105_000, "released": True,
        "evidence": RecommendationEvidence(
            stops=1080, stops_effective=900.0, censored=3, method=EstimateMethod.KAPLAN_MEIER, coverage=0.997,
            from_ms=0, to_ms=30 * DAY_MS,
        ),
        "before": effects(4.9, 1_300, 5_777), "after": effects(0.6, 1_600, 4_502), "bounds_minimum_ms": 9_000,
        "bounds_maximum_ms": 1_800_000, "price_source": PriceSource.STATED,
        "saved_partition_seconds_per_day": saved(1_275), "reasons": (Reason.COST_OPTIMUM,),
        "valid_until_ms": 40 * DAY_MS,
    }  # fmt: skip
    return Recommendation(**(values | changes))


def sure(**changes: Any) -> Recommendation:
    """Advise by a measured price on a change that certainly saves."""
    values = {
        "goal_ms": 90_000, "lower_ms": 80_000, "upper_ms": 120_000, "uncapped_ms": 90_000,
        "price_source": PriceSource.MEASURED, "saved_partition_seconds_per_day": SURE,
    }  # fmt: skip
    return recommendation(**(values | changes))


def advice_for(**changes: Any) -> Advice:
    context = {name: changes.pop(name) for name in ("key", "source", "members", "partitions") if name in changes}
    return advise(sure(**changes), **{"key": KEY, "source": "Fixed", "members": 12, "partitions": 48, **context})
