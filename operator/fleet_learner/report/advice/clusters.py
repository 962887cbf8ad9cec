"""Advice for brokers: caps that keep groups from a timeout that is certainly better for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from journal.recommendations import Recommendation, Setting
from journal.recommendations import RecommendationReason as Reason

from ..model import Advice, ClusterAdvice, Verdict
from ..units import count, duration
from .unknowns import is_priced

BROKER_MAXIMUM = {
    Setting.SESSION_TIMEOUT: "group.max.session.timeout.ms",
    Setting.CONSUMER_SESSION_TIMEOUT: "group.consumer.max.session.timeout.ms",
    Setting.STREAMS_SESSION_TIMEOUT: "group.streams.max.session.timeout.ms",
}
"""The broker setting that caps each timeout; source: `GroupCoordinatorConfig`."""
_OTHERWISE = {Reason.USE_DYNAMIC, Reason.LOW_COVERAGE, Reason.INFEASIBLE, Reason.CANARY_ROLLED_BACK, Reason.TOO_FEW}


def advise_clusters(recommendations: Iterable[Recommendation]) -> tuple[ClusterAdvice, ...]:
    """Return the brokers' caps to raise, for all groups of each Kafka cluster that certainly need it.

    Returns
    -------
    tuple[ClusterAdvice, ...]
        One per Kafka cluster and setting, the one with the most groups first.
    """
    capped: dict[tuple[str, str], list[Recommendation]] = defaultdict(list)
    for each in recommendations:
        if each.setting in BROKER_MAXIMUM and _is_surely_capped(each):
            capped[(each.kafka_cluster_id, BROKER_MAXIMUM[each.setting])].append(each)
    made = [_advice(cluster, setting, groups) for (cluster, setting), groups in capped.items()]
    return tuple(sorted(made, key=lambda c: (-c.groups, c.kafka_cluster_id, c.advice.action)))


def _is_surely_capped(each: Recommendation) -> bool:
    """Return whether even the low end of the best timeout lies above the cap, by a known price."""
    if Reason.BROKER_CAP not in each.reasons or _OTHERWISE & set(each.reasons) or not is_priced(each):
        return False
    cap_ms = each.bounds_maximum_ms
    return cap_ms is not None and each.uncapped_ms is not None and each.lower_ms is not None and each.lower_ms > cap_ms


def _advice(cluster: str, setting: str, groups: list[Recommendation]) -> ClusterAdvice:
    best_ms = max(each.uncapped_ms or 0 for each in groups)
    now_ms = max(each.bounds_maximum_ms or 0 for each in groups)
    return ClusterAdvice(
        kafka_cluster_id=cluster,
        groups=len(groups),
        advice=Advice(
            verdict=Verdict.CHANGE,
            action=f"Raise {setting} to {best_ms} on cluster {cluster}.",
            why=f"{count(len(groups), 'group')} would be best with up to {duration(best_ms)}; "
            f"the cap in force is {duration(now_ms)}.",
            reasons=(Reason.BROKER_CAP.value,),
            setting=setting,
            now_ms=now_ms,
            then_ms=best_ms,
            who="The team that runs the brokers: it is a static setting, in every broker's file, and needs their "
            "restart.",
            command=f"{setting}={best_ms}",
        ),
    )
