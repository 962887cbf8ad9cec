"""Write the journal that a simulated fleet's operators would have written.

The one idea: the truth (`truth`) is the pods' history; here static membership reacts (a restart is absorbed if the
member is back within its timeout minus the age of its last heartbeat; otherwise it is expelled, with two rebalances),
and an operator observes with a delay, in whole seconds of the kubelet's clock, with bounds instead of times for polled
facts, and with unwatched times, whose events are lost. Every line is a record of `journal.records`; the same settings
give the same bytes.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from journal import records as journal

from .truth import CAUSES, Cause, FleetSettings, Group, GroupKind, Rollouts, Stops, draw_groups, draw_stops, group_rng

WATCH_DELAY_MS = 400
POLL_MS = 5_000
REMOVAL_DELAY_MS = 2_000
BLIND_MS_MEDIAN = 600_000
Fact = tuple[int, int, str, str, str | None, dict[str, Any]]
"""(observed_at_ms, group index, noun, id, instance id, data without the observation)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Kafka's reaction to a group's stops: arrays of (n,), and (r,) for the rebalances.

    Parameters
    ----------
    is_removed: the operator removed the member, which was not going to return.
    is_absorbed: it returned within its session, without a rebalance.
    rebalance_ms: begin of each rebalance, ascending, after merging overlapping ones.
    """

    is_removed: NDArray[np.bool_]
    is_absorbed: NDArray[np.bool_]
    rebalance_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Hold the life of one Kubernetes cluster's operators.

    Parameters
    ----------
    blind_from_ms, blind_to_ms: unwatched times, ascending, not overlapping; a new process follows each.
    """

    k8s_cluster_uid: str
    blind_from_ms: tuple[int, ...]
    blind_to_ms: tuple[int, ...]

    def process_at(self, time_ms: int) -> int:
        """Return the number of earlier processes, which is the number of the watching one."""
        return bisect.bisect_right(self.blind_from_ms, time_ms)

    def next_look_ms(self, time_ms: int) -> int:
        """Return the time itself, or the end of the unwatched time that contains it."""
        index = self.process_at(time_ms) - 1
        return max(time_ms, self.blind_to_ms[index]) if index >= 0 else time_ms


def kafka_outcome(settings: FleetSettings, group: Group, stops: Stops) -> Outcome:
    """Apply static membership to a group's stops.

    Returns
    -------
    Outcome
        Merging: a rebalance that is triggered during another one is part of it (KIP-345, KIP-848).
    """
    rng = group_rng(settings.seed, group.index, 2)
    number = stops.member.size
    is_removed = stops.cause == CAUSES.index(Cause.SCALE_DOWN)
    window = group.session_timeout_ms - rng.integers(0, group.heartbeat_interval_ms, number)
    is_absorbed = ~is_removed & (stops.back_ms - stops.down_ms <= window)
    is_expelled = ~is_removed & ~is_absorbed
    asked = np.concatenate(
        [
            stops.down_ms[is_removed] + REMOVAL_DELAY_MS,
            stops.back_ms[is_removed],
            (stops.down_ms + window)[is_expelled],
            stops.back_ms[is_expelled],
        ]
    )
    asked = np.sort(asked[asked < settings.end_ms])
    return Outcome(is_removed=is_removed, is_absorbed=is_absorbed, rebalance_ms=_merged(asked, group.rebalance_ms))


def _merged(asked_ms: NDArray[np.int64], duration_ms: int) -> NDArray[np.int64]:
    kept: list[int] = []
    for moment in asked_ms.tolist():
        if not kept or moment >= kept[-1] + duration_ms:
            kept.append(moment)
    return np.array(kept, dtype=np.int64)


def draw_operator(settings: FleetSettings, k8s_cluster: int) -> Operator:
    """Draw the unwatched times of a Kubernetes cluster."""
    rng = group_rng(settings.seed, k8s_cluster, 3)
    begin = np.sort(rng.integers(settings.start_ms, settings.end_ms, settings.outages_per_operator))
    length = (BLIND_MS_MEDIAN * np.exp(rng.standard_normal(begin.size))).astype(np.int64) + 20_000
    kept = np.concatenate(([True], begin[1:] > np.maximum.accumulate(begin + length)[:-1] + 60_000))[: begin.size]
    digits = rng.integers(0, 2**16, 8)
    uid = "{:04x}{:04x}-{:04x}-{:04x}-{:04x}-{:04x}{:04x}{:04x}".format(*digits.tolist())
    return Operator(
        k8s_cluster_uid=uid,
        blind_from_ms=tuple(begin[kept].tolist()),
        blind_to_ms=tuple((begin + length)[kept].tolist()),
    )


class _Writer:
    """Turn one group's truth into facts."""

    def __init__(self, settings: FleetSettings, group: Group, operator: Operator) -> None:
        self.settings = settings
        self.group = group
        self.operator = operator
        self.rng = group_rng(settings.seed, group.index, 4)
        self.facts: list[Fact] = []
        self.polled_ms: dict[str, int] = {}

    def observe(self, noun: str, fact_id: str, true_ms: int, instance_id: str | None = None, **data: Any) -> None:
        """Add a fact from the pod watch, by the source's clock; after an unwatched time it is seen late, if at all."""
        observed = true_ms + int(self.rng.integers(50, WATCH_DELAY_MS))
        late = self.operator.next_look_ms(observed)
        if late != observed and noun not in {"member.up", "timeout.changed"}:
            return  # only a lasting state can still be seen later
        source = {"source_time_ms": true_ms // 1000 * 1000}
        self._add(noun, fact_id, late, instance_id, source | data)

    def poll(self, noun: str, fact_id: str, true_ms: int, instance_id: str | None = None, **data: Any) -> None:
        """Add a fact that is known to lie between two reads."""
        observed = max(true_ms + int(self.rng.integers(1, POLL_MS)), self.polled_ms.get(noun, 0) + 1)
        if noun == "group.rebalanced":
            self.polled_ms[noun] = observed  # reads are in order, so an epoch is never seen before an earlier one
        if self.operator.next_look_ms(observed) != observed:
            return
        bounds = {"time_lo_ms": max(observed - POLL_MS, self.settings.start_ms), "time_hi_ms": observed}
        self._add(noun, fact_id, observed, instance_id, bounds | data)

    def _add(self, noun: str, fact_id: str, observed_ms: int, instance_id: str | None, data: dict[str, Any]) -> None:
        if observed_ms < self.settings.end_ms:
            self.facts.append((observed_ms, self.group.index, noun, fact_id, instance_id, data))


def group_facts(settings: FleetSettings, group: Group, operator: Operator) -> list[Fact]:
    """List all facts of one group, unordered."""
    stops, rollouts = draw_stops(settings, group)
    outcome = kafka_outcome(settings, group, stops)
    writer = _Writer(settings, group, operator)
    uid = f"sg-{group.scope}"
    writer.observe(
        "timeout.changed",
        f"{uid}/1/timeout-changed/{group.session_timeout_ms}",
        settings.start_ms,
        session_timeout_ms_before=None,
        session_timeout_ms_after=group.session_timeout_ms,
        timeout_source=group.timeout_source,
    )
    _write_rollouts(writer, group, rollouts, outcome, uid)
    _write_members(writer, group, stops, rollouts, outcome)
    _write_rebalances(writer, group, outcome)
    return writer.facts


def _write_rollouts(writer: _Writer, group: Group, rollouts: Rollouts, outcome: Outcome, uid: str) -> None:
    for index, (start, end) in enumerate(zip(rollouts.start_ms.tolist(), rollouts.end_ms.tolist(), strict=True)):
        revision = _revision(group, index)
        seen = int(np.count_nonzero((outcome.rebalance_ms >= start) & (outcome.rebalance_ms <= end)))
        writer.observe(
            "rollout.started", f"{uid}/{revision}/rollout-started", start, rollout_id=revision, replicas=group.members
        )
        writer.observe(
            "rollout.finished",
            f"{uid}/{revision}/rollout-finished",
            end,
            rollout_id=revision,
            replicas=group.members,
            rebalances=seen,
        )


def _write_members(writer: _Writer, group: Group, stops: Stops, rollouts: Rollouts, outcome: Outcome) -> None:
    image_of = rollouts.image.tolist()
    pods = [0] * group.members
    restarts = [0] * group.members
    joins = [0] * group.members
    revisions = [-1] * group.members
    columns = (stops.member, stops.cause, stops.down_ms, stops.up_ms, stops.back_ms, stops.rollout, stops.image)
    flags = (outcome.is_removed, outcome.is_absorbed)
    for member, cause_code, down, up, back, rollout, image, is_removed, is_absorbed in zip(
        *(column.tolist() for column in (*columns, *flags)), strict=True
    ):
        cause = CAUSES[cause_code]
        pod_name = f"{group.name}-{member}"
        instance_id = f"{pod_name}.{group.scope}"
        common = {
            "pod_name": pod_name,
            "node_name": f"node-{(group.index * 7 + member + int(pods[member])) % 97:02d}",
            "session_timeout_ms": group.session_timeout_ms,
        }
        pod_uid, count = _pod_uid(group, member, int(pods[member])), int(restarts[member])
        down_data = common | {
            "pod_uid": pod_uid,
            "restart_count": count,
            "image_digest": _image(group, image),
            "rollout_id": _revision(group, revisions[member]),
            "reason": cause.value,
        }
        record: Callable[..., None] = writer.poll if cause is Cause.NODE_LOST else writer.observe
        record("member.down", f"{pod_uid}/{count}/down", down, instance_id, **down_data)
        if is_removed:
            _write_removal(writer, group, instance_id, pod_uid, down, f"{instance_id}-{joins[member]:08x}")
        is_same_pod = cause in {Cause.CRASH, Cause.MEMORY}
        restarts[member] = count + 1 if is_same_pod else 0
        pods[member] += 0 if is_same_pod else 1
        pod_uid, count = _pod_uid(group, member, int(pods[member])), int(restarts[member])
        new_image = image if rollout < 0 else image_of[rollout]
        revisions[member] = max(revisions[member], rollout)
        up_data = down_data | {
            "pod_uid": pod_uid, "restart_count": count, "image_digest": _image(group, new_image),
            "rollout_id": _revision(group, revisions[member]), "reason": "",
        }  # fmt: skip
        writer.observe("member.up", f"{pod_uid}/{count}/up", up, instance_id, **up_data)
        before = f"{instance_id}-{joins[member]:08x}"
        joins[member] += 1
        now = f"{instance_id}-{joins[member]:08x}"
        writer.poll(
            "member.rejoined", f"{now}/{instance_id}/rejoined", back, instance_id,
            member_id=now, previous_member_id=None if is_removed else before, group_epoch=None, absorbed=is_absorbed,
            members=group.members, partitions_total=group.partitions,
        )  # fmt: skip


def _write_removal(writer: _Writer, group: Group, instance_id: str, pod_uid: str, down_ms: int, member_id: str) -> None:
    writer.observe(
        "member.departed", f"{pod_uid}/departed", down_ms + 1_000, instance_id, pod_uid=pod_uid, certificate="E1"
    )
    writer.poll(
        "member.removed", f"{member_id}/removed", down_ms + REMOVAL_DELAY_MS, instance_id, member_id=member_id,
        attempt=1, certificates=[f"{pod_uid} E1"], reason="scaled down", outcome="Removed",
    )  # fmt: skip
    replicas = group.members
    writer.observe(
        "workload.scaled", f"{pod_uid}/scaled", down_ms - 500, replicas_before=replicas, replicas_after=replicas - 1
    )


def _write_rebalances(writer: _Writer, group: Group, outcome: Outcome) -> None:
    share = max(group.partitions // group.members, 1)
    is_incremental = group.kind in {GroupKind.COOPERATIVE, GroupKind.CONSUMER}
    for number, moment in enumerate(outcome.rebalance_ms.tolist(), start=2):
        is_consumer = group.kind is GroupKind.CONSUMER
        writer.poll(
            "group.rebalanced",
            f"{group.group_id}/{number if is_consumer else moment}/rebalanced",
            moment,
            group_epoch=number if is_consumer else None,
            state_before="Stable",
            members=group.members,
            partitions_total=group.partitions,
            partitions_moved=share if is_incremental else min(2 * share, group.partitions),
        )


def cluster_facts(settings: FleetSettings, k8s_cluster: int, groups: list[Group]) -> Iterator[tuple[str, str]]:
    """Write the journal of one Kubernetes cluster.

    Yields
    ------
    tuple[str, str]
        (partitionkey, line) in the order in which the operator wrote them; `seq` counts for each process from 0.
    """
    operator = draw_operator(settings, k8s_cluster)
    own = [group for group in groups if group.k8s_cluster == k8s_cluster]
    facts = [fact for group in own for fact in group_facts(settings, group, operator)]
    facts += _beats(settings, operator, len(own))
    facts.sort(key=lambda fact: (fact[0], fact[1], fact[3]))
    by_index = {group.index: group for group in own}
    seq: dict[int, int] = {}
    for observed_ms, index, noun, fact_id, instance_id, data in facts:
        process = operator.process_at(observed_ms)
        number = seq[process] = seq.get(process, -1) + 1
        observation = {
            "operator_id": f"operator-{operator.k8s_cluster_uid[:8]}-{process}",
            "seq": number,
            "observed_at_ms": observed_ms,
            "watch_scope": "",
            "source_time_ms": None,
            "time_lo_ms": None,
            "time_hi_ms": None,
        }
        yield _line(by_index.get(index), operator, noun, fact_id, instance_id, observation | data)


def _beats(settings: FleetSettings, operator: Operator, static_groups: int) -> list[Fact]:
    interval = journal.BEAT_INTERVAL_MS
    times = np.arange(settings.start_ms + 7_000, settings.end_ms, interval)
    facts: list[Fact] = []
    for moment in times.tolist():
        if operator.next_look_ms(moment) != moment:
            continue
        process = operator.process_at(moment)
        fact_id = f"{operator.k8s_cluster_uid}/operator-{operator.k8s_cluster_uid[:8]}-{process}/{moment}/beat"
        data = {
            "static_groups": static_groups, "watch_epoch": str(process), "interval_ms": interval,
            "unreachable_groups": [], "unreachable_total": 0,
        }  # fmt: skip
        facts.append((moment, -1, "coverage.beat", fact_id, None, data))
    return facts


_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_ORDERED = {each.noun: tuple(each.model_fields) for each in journal.DATA_TYPES}


def _line(
    group: Group | None, operator: Operator, noun: str, fact_id: str, instance_id: str | None, data: dict[str, Any]
) -> tuple[str, str]:
    """Write one record like `journal.write`, without a model for each of a million records."""
    if group is None:
        key = subject = f"{operator.k8s_cluster_uid}/{data['operator_id']}"
        source = f"/k8s/{operator.k8s_cluster_uid}/operator/{data['operator_id']}"
    else:
        key = f"{group.kafka_cluster_id}/{group.group_id}"
        subject = key if instance_id is None else f"{key}/{instance_id}"
        source = f"/k8s/{operator.k8s_cluster_uid}/ns/{group.namespace}/staticgroup/{group.name}"
        data = data | {
            "kafka_cluster_id": group.kafka_cluster_id, "group_id": group.group_id, "namespace": group.namespace,
            "static_group": group.name, "workload": group.name, "protocol": group.protocol,
        }  # fmt: skip
        if instance_id is not None:
            data["instance_id"] = instance_id
    envelope = {
        "specversion": "1.0",
        "id": fact_id,
        "source": source,
        "type": f"{journal.TYPE_PREFIX}{noun}{journal.TYPE_SUFFIX}",
        "subject": subject,
        "time": journal.timestamp(data["observed_at_ms"]),
        "datacontenttype": "application/json",
        "dataschema": f"urn:staticgroup:journal:{noun}:1",
        "partitionkey": key,
        "data": {name: data[name] for name in _ORDERED[noun]},
    }
    return key, _ENCODE(envelope)


def journal_lines(settings: FleetSettings) -> Iterator[tuple[str, str]]:
    """Write the journals of the whole fleet, one Kubernetes cluster after the other.

    Yields
    ------
    tuple[str, str]
        (partitionkey, line).
    """
    groups = draw_groups(settings)
    for k8s_cluster in range(settings.k8s_clusters):
        yield from cluster_facts(settings, k8s_cluster, groups)


def planted_slow_images(settings: FleetSettings) -> list[tuple[str, str, int, float]]:
    """List the slow images to find: (Kafka cluster id, group id, since Unix ms, times slower)."""
    return [
        (group.kafka_cluster_id, group.group_id, group.slow_image_ms, group.slow_image_factor)
        for group in draw_groups(settings)
        if group.slow_image_factor > 1
    ]


def _revision(group: Group, rollout: int) -> str:
    return f"{group.name}-{(rollout + 1) * 2654435761 % 2**32:08x}"


def _image(group: Group, image: int) -> str:
    return f"sha256:{group.scope}{image:056x}"


def _pod_uid(group: Group, member: int, pod: int) -> str:
    return f"{group.scope}-{member:04x}-4000-8000-{pod:012x}"
