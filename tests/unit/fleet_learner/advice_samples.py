"""A recommendation that certainly saves, and its advice, for tests."""

from __future__ import annotations

from typing import Any

from fleet_learner.report.advice.groups import advise
from fleet_learner.report.model import Advice, GroupKey
from journal.recommendations import (
    Difference,
    PriceSource,
    Recommendation,
)
from unit.fleet_learner.recommendation_samples import recommendation as usual

KEY = GroupKey(
    kafka_cluster_id="kafka-1", group_id="orders", namespace="shop", static_group="orders", workload="orders"
)
SURE = Difference(value=1_275.0, lower=900.0, upper=1_600.0)


def recommendation(**changes: Any) -> Recommendation:
    """Advise by a measured price on a change that certainly saves."""
    sure = {
        "goal_ms": 90_000, "lower_ms": 80_000, "upper_ms": 120_000, "uncapped_ms": 90_000,
        "price_source": PriceSource.MEASURED, "saved_partition_seconds_per_day": SURE,
    }  # fmt: skip
    return usual(**(sure | changes))


def advice_for(**changes: Any) -> Advice:
    context = {name: changes.pop(name) for name in ("key", "source", "members", "partitions") if name in changes}
    return advise(
        recommendation(**changes), **{"key": KEY, "source": "Fixed", "members": 12, "partitions": 48, **context}
    )
