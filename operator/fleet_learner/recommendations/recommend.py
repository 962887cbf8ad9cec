"""Turn a group's history into a recommendation.

The one idea: estimate the law of the gaps, price every timeout, take the cheapest, and let the policy decide the size
of the next step. If dynamic membership would be cheaper, that is the answer. Without a known price of a rebalance,
costs are not compared: the shortest timeout that absorbs nearly all restarts is taken. Every number has an interval.
Pure: the same history gives the same record.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from journal import recommendations as api
from journal.recommendations import RecommendationReason as Reason
from journal.recommendations import Setting

from ..estimates.class_sums import class_model
from ..estimates.cost import (
    Draws,
    cheapest,
    cost_per_day,
    dynamic_cost_per_day,
    evictions_per_day,
    ghost_seconds_per_day,
    timeout_grid_ms,
    under_laws,
)
from ..estimates.gap_law import ClassModel, GapSample, LawEstimate, estimate_law
from ..estimates.laws import Law
from ..estimates.tolerance import SHARE_ABSORBED, absorbing, expelled_share
from . import policy
from .canary import CanaryState, Wave, is_released, is_withdrawn
from .group_history import GroupHistory
from .saving import INTERVAL, saving

MODEL_VERSION = "2.0"
HORIZON_MS = 1_800_000
"""Kafka's default of group.max.session.timeout.ms: no classic group can wait longer."""
COVERAGE_MIN = 0.5
DYNAMIC_MARGIN = 0.95
ABSORBED_AT_LEAST = 0.99
"""Share of restarts that a shorter timeout must absorb under the data's laws; else the timeout is not lowered."""
SETTINGS: Mapping[str, Setting] = {
    "Classic": Setting.SESSION_TIMEOUT,
    "Consumer": Setting.CONSUMER_SESSION_TIMEOUT,
    "Streams": Setting.STREAMS_SESSION_TIMEOUT,
    "Connect": Setting.CONNECT_DELAY,
    "Unknown": Setting.SESSION_TIMEOUT,
}


def recommend_fleet(
    histories: Iterable[GroupHistory], *, now_ms: int, valid_ms: int, canary: CanaryState, seed: int = 0
) -> list[api.Recommendation]:
    """Recommend for every group, each class learning from its own groups.

    Parameters
    ----------
    now_ms: Unix milliseconds, of the run's `--as-of`.
    valid_ms: how long the records hold.

    Returns
    -------
    list[Recommendation]
        In the order of (Kafka cluster, group), for input in any order.
    """
    ordered = sorted(histories, key=lambda each: (each.kafka_cluster_id, each.group_id))
    classes: dict[str, list[GapSample]] = {}
    for each in ordered:
        classes.setdefault(each.workload_class, []).append(each.sample)
    models = {name: class_model(samples) for name, samples in classes.items()}
    return [
        recommend(each, models[each.workload_class], now_ms=now_ms, valid_ms=valid_ms, canary=canary, seed=seed)
        for each in ordered
    ]


def recommend(
    history: GroupHistory, model: ClassModel, *, now_ms: int, valid_ms: int, canary: CanaryState, seed: int = 0
) -> api.Recommendation:
    """Recommend for one group.

    Parameters
    ----------
    model: of its class.
    canary: which waves may act.
    seed: of the draws; each group has a key of its own.

    Returns
    -------
    Recommendation
    """
    estimate = estimate_law(history.sample, model, horizon_ms=HORIZON_MS)
    rng = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32("/".join(_key(history)).encode())]))
    laws = None if estimate is None else estimate.drawn(rng)
    goal_ms, uncapped_ms, reasons, note = _goal(history, estimate)
    current_ms = history.state.current_ms
    interval, probability = _certainty(history, laws, goal_ms, uncapped_ms)
    chosen = policy.next_timeout(
        goal_ms, history.bounds, history.state, now_ms=now_ms,
        probability_better=1.0 if probability is None else probability,
    )  # fmt: skip
    reasons = tuple(
        dict.fromkeys((*reasons, *chosen.reasons, *_of_canary(history.wave, canary, is_change=chosen.is_change)))
    )
    return api.Recommendation(
        kafka_cluster_id=history.kafka_cluster_id,
        group_id=history.group_id,
        protocol=history.protocol,
        setting=SETTINGS[history.protocol],
        current_ms=current_ms,
        recommended_ms=chosen.timeout_ms,
        goal_ms=chosen.goal_ms,
        lower_ms=interval[0],
        upper_ms=interval[1],
        uncapped_ms=uncapped_ms,
        released=is_released(history.wave, canary),
        wave=history.wave,
        probability_cheaper=probability if history.price.is_known else None,
        price_source=history.price.source,
        evidence=_evidence(history, estimate),
        before=_effects(history, estimate, laws, current_ms),
        after=_effects(history, estimate, laws, chosen.timeout_ms),
        saved_partition_seconds_per_day=saving(history, estimate, laws, from_ms=current_ms, to_ms=chosen.timeout_ms,
                                               is_dynamic=Reason.USE_DYNAMIC in reasons),
        bounds_minimum_ms=history.bounds.minimum_ms,
        bounds_maximum_ms=history.bounds.maximum_ms,
        reasons=reasons,
        message=_message(history, chosen, reasons, uncapped_ms, note),
        valid_until_ms=now_ms + valid_ms,
    )  # fmt: skip


def _key(history: GroupHistory) -> tuple[str, str]:
    return history.kafka_cluster_id, history.group_id


def _goal(
    history: GroupHistory, estimate: LawEstimate | None
) -> tuple[float | None, int | None, tuple[Reason, ...], str]:
    """Choose the goal: (goal, goal without bounds, reasons, note)."""
    rates = history.rates
    first = (Reason.CONNECT_DELAY,) if history.protocol == "Connect" else ()
    first = (*first, Reason.SLOWER_RESTARTS) if history.drift is not None else first
    if history.coverage < COVERAGE_MIN:
        return None, None, (*first, Reason.LOW_COVERAGE), "an operator was watching for less than half of the time"
    if estimate is None:
        return _goal_without_restarts(history, first)
    grid = timeout_grid_ms(1_000, HORIZON_MS)
    few = (Reason.TOO_FEW,) if estimate.stops_effective < 2 else ()
    if not history.price.is_known:
        goal = float(grid[int(absorbing(estimate.law, grid, rates.heartbeat_interval_ms))])
        note = f"absorbs {100 * SHARE_ABSORBED:g} % of the restarts; what a rebalance costs this group is not known"
        return goal, int(goal), (*first, Reason.ABSORBS_RESTARTS, *few), note
    goal = float(grid[int(cheapest(cost_per_day(estimate.law, rates, grid)))])
    reasons = (*first, Reason.COST_OPTIMUM, *few)
    reachable = history.bounds.clamped_ms(int(goal))
    if reachable is not None and history.protocol != "Connect":
        static = float(cost_per_day(estimate.law, rates, np.array([float(reachable)]))[0])
        dynamic = dynamic_cost_per_day(estimate.law, rates, leaves_on_close=history.leaves_on_close)
        if dynamic < DYNAMIC_MARGIN * static:
            note = f"dynamic membership would cost {dynamic:.0f} partition-seconds a day instead of {static:.0f}"
            return goal, int(goal), (*reasons, Reason.USE_DYNAMIC), note
    return goal, int(goal), reasons, ""


def _goal_without_restarts(
    history: GroupHistory, first: tuple[Reason, ...]
) -> tuple[float | None, int | None, tuple[Reason, ...], str]:
    """Choose by rent or buy, at most twice the best cost for any gaps; None without a price or partitions."""
    if not history.price.is_known:
        return None, None, (*first, Reason.TOO_FEW), "too few restarts were seen"
    if history.rates.eviction_partition_seconds <= 0 or history.rates.member_partitions <= 0:
        return None, None, (*first, Reason.TOO_FEW), "it has no members, so no timeout is better than another"
    goal = min(history.rates.rent_or_buy_ms, HORIZON_MS)
    return goal, int(goal), (*first, Reason.TOO_FEW), "too few restarts were seen"


def _of_canary(wave: Wave, canary: CanaryState, *, is_change: bool) -> tuple[Reason, ...]:
    """Return the canary's reasons to hold this wave back, also for a group with a withdrawn value in force."""
    if is_withdrawn(wave, canary):
        return (Reason.CANARY_ROLLED_BACK,)
    return (Reason.CANARY_WAITING,) if is_change and not is_released(wave, canary) else ()


def _certainty(
    history: GroupHistory, laws: Law | None, goal_ms: float | None, uncapped_ms: int | None
) -> tuple[tuple[int | None, int | None], float | None]:
    """Return the goal's interval, and the probability that it is better than the timeout in force."""
    bounded_ms = None if goal_ms is None else policy.bounded(goal_ms, history.bounds)[0]
    known = [each for each in (history.state.current_ms, bounded_ms) if each is not None]
    grid = timeout_grid_ms(1_000, HORIZON_MS)
    draws = under_laws(laws, history.rates, np.concatenate((grid, known))) if laws is not None else None
    is_other = len(known) == 2 and known[0] != known[1]
    return (
        _interval(history, laws, draws, grid, uncapped_ms),
        _probability_better(history, laws, draws, known) if is_other else None,
    )


def _interval(
    history: GroupHistory, laws: Law | None, draws: Draws | None, grid: NDArray[np.float64], uncapped_ms: int | None
) -> tuple[int | None, int | None]:
    """Return the 5 % to 95 % range of the goal under the laws that the data allow, and the estimate's goal."""
    if laws is None or draws is None or uncapped_ms is None:
        return None, None
    if history.price.is_known:
        best = grid[cheapest(draws.cost[:, : grid.size])]
    else:
        best = grid[absorbing(laws, grid, history.rates.heartbeat_interval_ms)]
    low, high = np.quantile(best, INTERVAL, method="nearest")
    return min(int(low), uncapped_ms), max(int(high), uncapped_ms)


def _probability_better(history: GroupHistory, laws: Law | None, draws: Draws | None, known: list[int]) -> float | None:
    """Return the share of laws under which the goal is better than the timeout in force; `known`: both.

    Better means cheaper, by a known price. Without one, a longer timeout is better if the present one expels too many
    members, and a shorter one if it still expels few.
    """
    if draws is None or laws is None:
        return None
    if history.price.is_known:
        return float((draws.cost[:, -1] < draws.cost[:, -2]).mean())
    expelled = expelled_share(laws, np.array(known, dtype=np.float64), history.rates.heartbeat_interval_ms)
    if known[1] > known[0]:
        return float((expelled[:, 0] > 1.0 - SHARE_ABSORBED).mean())
    return float((expelled[:, 1] <= 1.0 - ABSORBED_AT_LEAST).mean())


def _effects(
    history: GroupHistory, estimate: LawEstimate | None, laws: Law | None, timeout_ms: int | None
) -> api.Effects | None:
    if estimate is None or laws is None or timeout_ms is None:
        return None
    at = np.array([float(timeout_ms)])
    draws = under_laws(laws, history.rates, at)

    def priced(value: NDArray[np.float64], drawn: NDArray[np.float64]) -> api.Estimate:
        centre = float(value[0])
        low, high = np.quantile(drawn[:, 0], INTERVAL)
        return api.Estimate(value=_round(centre), lower=_round(min(low, centre)), upper=_round(max(high, centre)))

    return api.Effects(
        evictions_per_day=priced(evictions_per_day(estimate.law, history.rates, at), draws.evictions),
        ghost_seconds_per_day=priced(ghost_seconds_per_day(estimate.law, history.rates, at), draws.ghost_seconds),
        cost_partition_seconds_per_day=priced(cost_per_day(estimate.law, history.rates, at), draws.cost),
    )


def _round(value: NDArray[np.float64] | float) -> float:
    """Round to the estimate's precision, so that another BLAS yields the same bytes."""
    return round(float(value), 4)


def _evidence(history: GroupHistory, estimate: LawEstimate | None) -> api.RecommendationEvidence:
    method = api.EstimateMethod.RENT_OR_BUY
    if estimate is not None:
        method = api.EstimateMethod.POOLED if estimate.is_pooled else api.EstimateMethod.KAPLAN_MEIER
    sample = history.sample
    return api.RecommendationEvidence(
        stops=history.stops,
        stops_effective=0.0 if estimate is None else _round(estimate.stops_effective),
        censored=int(np.count_nonzero(~sample.is_returned)) + history.removed + history.blind,
        rollouts=int(np.unique(sample.cluster).size),
        method=method,
        coverage=_round(history.coverage),
        workload_class=history.workload_class,
        from_ms=history.from_ms,
        to_ms=history.to_ms,
    )


def _message(
    history: GroupHistory,
    chosen: policy.Decision,
    reasons: tuple[Reason, ...],
    uncapped_ms: int | None,
    note: str,
) -> str:
    """Write what to do, then why, then which broker setting is in the way."""
    setting = SETTINGS[history.protocol].value
    if chosen.timeout_ms is None:
        parts = [f"no {setting} can be recommended"]
    elif chosen.is_change:
        parts = [f"set {setting} to {chosen.timeout_ms} ms"]
    else:
        parts = [f"keep {setting} at {chosen.timeout_ms} ms"]
    if note:
        parts.append(note)
    if Reason.USE_DYNAMIC in reasons:
        parts.append("consider removing group.instance.id, or the shortest timeout allowed")
    if Reason.BROKER_CAP in reasons and uncapped_ms is not None:
        knob = "group.max.session.timeout.ms"
        if history.protocol in {"Consumer", "Streams"}:
            knob = f"group.{history.protocol.lower()}.max.session.timeout.ms"
        parts.append(f"the brokers allow {history.bounds.maximum_ms} ms at most, raise {knob} to {uncapped_ms}")
    if history.drift is not None:
        parts.append(f"restarts take {history.drift.ratio:.1f} times as long as before")
    return "; ".join(parts)[:1024]
