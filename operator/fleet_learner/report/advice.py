"""Sentences that say what to do: from a recommendation to something a person can carry out.

The one idea: the first reason that asks for an action other than a number decides the sentence (another way of
membership, bounds that leave nothing, a broker's cap), else the number itself does; a number that stays says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from staticgroup.api.recommendation import Effects, Recommendation, Setting
from staticgroup.api.recommendation import RecommendationReason as Reason

from .axis import amount, count, duration, partition_time, percent
from .model import Advice, ClusterAdvice

BROKER_MAXIMUM = {
    Setting.SESSION_TIMEOUT: "group.max.session.timeout.ms",
    Setting.CONSUMER_SESSION_TIMEOUT: "group.consumer.max.session.timeout.ms",
    Setting.STREAMS_SESSION_TIMEOUT: "group.streams.max.session.timeout.ms",
}
"""The broker setting that caps each timeout; source: `GroupCoordinatorConfig`."""

_KEPT_BECAUSE = {
    Reason.TOO_FEW: "Too few restarts were seen to say more.",
    Reason.LOW_COVERAGE: "Nobody was watching for too much of the time.",
    Reason.SMALL_CHANGE: "The best timeout is too close to the present one to be worth a change.",
    Reason.TOO_SOON: "It was changed a short while ago.",
    Reason.NEW_IMAGE_FREEZE: "A new image is being rolled out, and its restarts are not known yet.",
    Reason.CANARY_WAITING: "Its wave of the canary has not begun.",
    Reason.CANARY_ROLLED_BACK: "The canary was rolled back.",
}


def avoidable_ms_per_day(recommendation: Recommendation, dynamic_ms_per_day: int | None = None) -> int | None:
    """Return the partition-milliseconds per day that the advice is expected to save; None when not known.

    Parameters
    ----------
    dynamic_ms_per_day: what the group would lose with dynamic members, when those are advised.
    """
    if recommendation.before is None or recommendation.after is None:
        return None
    before, after = (e.cost_partition_seconds_per_day.value for e in (recommendation.before, recommendation.after))
    if Reason.USE_DYNAMIC in recommendation.reasons and dynamic_ms_per_day is not None:
        after = dynamic_ms_per_day / 1000
    return max(0, round((before - after) * 1000))


def advise(recommendation: Recommendation, dynamic_ms_per_day: int | None = None) -> Advice:
    """Say what to do about one group.

    Parameters
    ----------
    dynamic_ms_per_day: what the group would lose with dynamic members, partition-milliseconds.

    Returns
    -------
    Advice
        Without an action when the present value is to be kept.
    """
    group, setting = recommendation.group_id, recommendation.setting.value
    reasons = recommendation.reasons
    codes = tuple(reason.value for reason in reasons)
    if Reason.INFEASIBLE in reasons:
        action = f"Widen the bounds of {group}: no {setting} satisfies all of them."
        return Advice(action=action, why=_bounds(recommendation), reasons=codes)
    if Reason.USE_DYNAMIC in reasons:
        action = f"Use dynamic members in {group}: leave group.instance.id unset."
        return Advice(action=action, why=_why_dynamic(recommendation, dynamic_ms_per_day), reasons=codes)
    new_ms, old_ms = recommendation.recommended_ms, recommendation.current_ms
    if new_ms is not None and new_ms != old_ms:
        verb = "Set" if old_ms is None else "Raise" if new_ms > old_ms else "Lower"
        old = f" from {old_ms}" if old_ms is not None else ""
        action = f"{verb} {setting} of {group}{old} to {new_ms} ({duration(new_ms)})."
        return Advice(action=action, why=_why(recommendation), reasons=codes)
    kept = f"Keep {setting} at {duration(old_ms)}." if old_ms is not None else f"Leave {setting} as it is."
    because = next((text for reason, text in _KEPT_BECAUSE.items() if reason in reasons), "It is the best one.")
    return Advice(action=kept, why=because, reasons=codes, is_action=False)


def _why(recommendation: Recommendation) -> str:
    """Say what the change is expected to do, and what keeps it from going further."""
    parts = [_effects(recommendation)]
    reasons, goal_ms = recommendation.reasons, recommendation.goal_ms
    if Reason.STEP_LIMITED in reasons and goal_ms is not None:
        parts.append(f"This is one step on the way to {duration(goal_ms)}.")
    if Reason.BROKER_CAP in reasons and recommendation.uncapped_ms is not None:
        parts.append(f"The broker allows no more; {duration(recommendation.uncapped_ms)} would be best.")
    if Reason.SLOWER_RESTARTS in reasons:
        parts.append("Its restarts became slower lately.")
    if Reason.LOW_COVERAGE in reasons:
        parts.append("Nobody was watching for much of the time, so the figures are rough.")
    if Reason.TOO_FEW in reasons:
        parts.append("Its own restarts are few: similar workloads were asked too.")
    evidence = recommendation.evidence
    parts.append(f"From {count(evidence.stops, 'stop')}, watched for {percent(evidence.coverage)} of the time.")
    return " ".join(part for part in parts if part)


def _why_dynamic(recommendation: Recommendation, dynamic_ms_per_day: int | None) -> str:
    parts = ["Its rebalances cost less than waiting for members does, at every timeout that is allowed."]
    before = recommendation.before
    if before is not None and dynamic_ms_per_day is not None:
        now = partition_time(before.cost_partition_seconds_per_day.value * 1000)
        parts.append(f"{now} a day are lost now, {partition_time(dynamic_ms_per_day)} would be.")
    if recommendation.bounds_minimum_ms is not None:
        parts.append(
            f"If it must stay static, take the shortest timeout, {duration(recommendation.bounds_minimum_ms)}."
        )
    return " ".join(parts)


def _effects(recommendation: Recommendation) -> str:
    before, after = recommendation.before, recommendation.after
    if before is None or after is None:
        return ""
    saved = avoidable_ms_per_day(recommendation) or 0
    return (
        f"{_evictions(before)} evictions a day that were not needed become {_evictions(after)}, "
        f"{_waiting(before)} a day of waiting become {_waiting(after)}; {partition_time(saved)} a day less is lost."
    )


def _evictions(effects: Effects) -> str:
    return amount(effects.evictions_per_day.value)


def _waiting(effects: Effects) -> str:
    return duration(effects.ghost_seconds_per_day.value * 1000)


def _bounds(recommendation: Recommendation) -> str:
    low_ms, high_ms = recommendation.bounds_minimum_ms, recommendation.bounds_maximum_ms
    if low_ms is None or high_ms is None:
        return recommendation.message
    return f"The lower bounds ask for {duration(low_ms)} at least, the upper ones for {duration(high_ms)} at most."


def advise_clusters(recommendations: Iterable[Recommendation]) -> tuple[ClusterAdvice, ...]:
    """Say which brokers' caps to raise, and to what, for all groups of each Kafka cluster that need it.

    Returns
    -------
    tuple[ClusterAdvice, ...]
        One per Kafka cluster and setting, the one with the most groups first.
    """
    capped: dict[tuple[str, str], list[Recommendation]] = defaultdict(list)
    for each in recommendations:
        if Reason.BROKER_CAP in each.reasons and each.setting in BROKER_MAXIMUM and each.uncapped_ms is not None:
            capped[(each.kafka_cluster_id, BROKER_MAXIMUM[each.setting])].append(each)
    made = []
    for (cluster, setting), groups in capped.items():
        best_ms = max(each.uncapped_ms or 0 for each in groups)
        now_ms = max((each.bounds_maximum_ms or 0 for each in groups), default=0)
        made.append(
            ClusterAdvice(
                kafka_cluster_id=cluster,
                groups=len(groups),
                advice=Advice(
                    action=f"Raise {setting} to {best_ms} on cluster {cluster}.",
                    why=f"{count(len(groups), 'group')} would be best with up to {duration(best_ms)}; "
                    f"the cap in force is {duration(now_ms)}.",
                    reasons=(Reason.BROKER_CAP.value,),
                ),
            )
        )
    return tuple(sorted(made, key=lambda c: (-c.groups, c.kafka_cluster_id, c.advice.action)))
