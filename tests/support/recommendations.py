"""Complete recommendations for tests from a few values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from journal.recommendations import Recommendation, RecommendationReason, Setting
from journal.recommendations.reader import fleet_timeout
from staticgroup.core.timeouts.desired import Advice

CLUSTER_ID = "kafka-1"
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def recommendation(**changes: Any) -> Recommendation:
    """Recommend 60 s instead of 120 s for the classic group `orders`, for two days."""
    values: dict[str, Any] = {
        "kafka_cluster_id": CLUSTER_ID, "group_id": "orders", "protocol": "Classic", "setting": Setting.SESSION_TIMEOUT,
        "current_ms": 120_000, "recommended_ms": 60_000, "goal_ms": 55_000, "lower_ms": 50_000, "upper_ms": 75_000,
        "uncapped_ms": 55_000, "released": True,
        "evidence": {
            "stops": 312, "stops_effective": 208.5, "censored": 4, "rollouts": 9, "method": "KaplanMeier",
            "coverage": 0.98, "from_ms": NOW_MS - 30 * DAY_MS, "to_ms": NOW_MS,
        },
        "reasons": (RecommendationReason.COST_OPTIMUM, RecommendationReason.STEP_LIMITED),
        "valid_until_ms": NOW_MS + 2 * DAY_MS,
    }  # fmt: skip
    return Recommendation.model_validate(values | changes)


def advice(**changes: Any) -> Advice:
    """Return that recommendation as a round gets it."""
    record = recommendation(**changes)
    return advice_of(record)


def advice_of(record: Recommendation) -> Advice:
    return Advice(record=fleet_timeout(record), valid_until_ms=record.valid_until_ms)


durations_ms = st.none() | st.integers(0, DAY_MS)
records = st.builds(
    recommendation, setting=st.sampled_from(Setting), recommended_ms=durations_ms, goal_ms=durations_ms,
    lower_ms=durations_ms, upper_ms=durations_ms, uncapped_ms=durations_ms, released=st.booleans(),
    reasons=st.lists(st.sampled_from(RecommendationReason), max_size=25).map(tuple),
    valid_until_ms=st.integers(0, 2**53),
)  # fmt: skip
advices = records.map(advice_of)
"""Whatever a record may say within its schema."""
