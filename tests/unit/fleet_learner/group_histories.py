"""Histories of groups, and their recommendations, for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fleet_learner.estimates.gap_law import GapSample
from fleet_learner.estimates.price import Price
from fleet_learner.recommendations.canary import CanaryState
from fleet_learner.recommendations.group_history import GroupHistory
from fleet_learner.recommendations.policy import GroupState
from fleet_learner.recommendations.recommend import recommend_fleet
from fleet_learner.recommendations.timeout_bounds import TimeoutBounds
from journal import recommendations as api

DAY = 86_400_000
NOW = 1_790_000_000_000
VALID = 7 * DAY
ALL = CanaryState(wave=100, began_ms=0)
STATED, ASSUMED = Price.given(4.0, is_stated=True), Price.given(4.0, is_stated=False)
CLASSIC = TimeoutBounds(broker_minimum_ms=6_000, broker_maximum_ms=1_800_000, heartbeat_interval_ms=3_000)


def sample(number: int, seed: int = 0, median_s: float = 25.0, deviation: float = 0.5) -> GapSample:
    rng = np.random.Generator(np.random.Philox(key=[61, seed]))
    gaps = 1000 * median_s * np.exp(deviation * rng.standard_normal(number))
    return GapSample(gaps_ms=gaps, is_returned=np.ones(number, dtype=bool), cluster=np.arange(number))


def history(name: str = "g", **changes: object) -> GroupHistory:
    base = GroupHistory(
        kafka_cluster_id="k", group_id=name, protocol="Classic", workload_class="classic", members=12, partitions=48,
        wave=50, price=STATED, stopped_share=1.0, sample=sample(1_000), removed=0, blind=0, from_ms=NOW - 28 * DAY,
        to_ms=NOW, coverage=1.0, state=GroupState(current_ms=45_000), bounds=CLASSIC,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def recommended(*histories: GroupHistory, canary: CanaryState = ALL) -> list[api.Recommendation]:
    return recommend_fleet(histories, now_ms=NOW, valid_ms=VALID, canary=canary)


def one(**changes: object) -> api.Recommendation:
    return recommended(history(**changes))[0]
