"""Whether members consume: topics that nobody reads, the one rebalance for them, and members that leave on closing.

* Static members that come back with another subscription cause no rebalance, and neither does a leader that is static
  and restarted when partitions are added: what is new stays unread for ever (KAFKA-12759). Members are static because
  of this operator, so it mends that, with exactly one rebalance for each such change.
* A static member that closes stays until its session ends, so its successor comes back without a rebalance. Some
  clients are set to leave all the same (spring-cloud-stream and Kafka Streams by CloseOptions, KIP-1092;
  @platformatic/kafka always), and then every restart costs two rebalances. What was seen last counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ..api.resources.memory import UNREAD_TOPICS_MAX, LeftOnCloseMemory
from ..api.resources.staticgroup import Mode, OnTopicChange, StaticGroupSpec
from ..api.schema import INT32_MAX
from .evidence.chain import KnownPod, PodState
from .group import GroupType, GroupView
from .members.memory import Members
from .seats import SeatTable, Standing
from .snapshot import History, Snapshot, UnreadTopics

SETTLED_S: Final = 60.0
"""How long a group is at rest, with everybody in it, before it is rebalanced."""
STUCK_AFTER_S: Final = 60.0
"""A rebalance takes seconds; it may take until the slowest member polls again, at most its max.poll.interval.ms."""
PACE_S: Final = 1800.0
"""So far apart are two rebalances of which the first has not given every topic its readers: the longest session."""
STREAMS_ASSIGNOR: Final = "stream"
"""Of Kafka Streams: its leader reads what every member says of itself, and a member that says nothing ends it."""
MARGIN_S: Final = 10.0
"""So much earlier than its session could end a member is gone that has left: two heartbeats, and the clocks."""


class RebalanceGuard(StrEnum):
    """Names of what holds the rebalance back."""

    NOT_AT_REST = "NotAtRest"
    NOT_ASKED_FOR = "NotAskedFor"
    DONE_BEFORE = "DoneBefore"
    DONE_LATELY = "DoneLately"
    OTHERS_IN_GROUP = "OthersInGroup"
    KAFKA_STREAMS = "KafkaStreams"
    NOT_KNOWN = "NotKnown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """Make a classic group rebalance once, see `kafka.rebalance`."""

    group_id: str
    assignor: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """What a round makes of unread topics.

    Parameters
    ----------
    unread: to be remembered; None when every topic that is subscribed is read.
    action: None when the group is not rebalanced now.
    held_by: why not; None when it is, or nothing is unread.
    requeue_after_s: when it can be otherwise without an event; None: then only by one.
    """

    unread: UnreadTopics | None = None
    action: Rebalance | None = None
    held_by: RebalanceGuard | None = None
    requeue_after_s: float | None = None


def plan_topics(
    spec: StaticGroupSpec, snapshot: Snapshot, group: GroupView, table: SeatTable, before: UnreadTopics | None,
    now_s: float,
) -> TopicPlan:  # fmt: skip
    """Decide whether the group is rebalanced because of topics that nobody reads."""
    # Step 1: what is unread. During a rebalance that is not known, and what was remembered stays.
    if group.group_type is not GroupType.CLASSIC or group.topics is None or snapshot.partitions is None:
        if before is None or group.group_type is not GroupType.CLASSIC:
            return TopicPlan()
        return TopicPlan(unread=replace(before, rest_since_s=None), held_by=RebalanceGuard.NOT_KNOWN)
    topics = unread_topics(group, snapshot.partitions)
    if not topics:
        return TopicPlan()

    # Step 2: since when, and since when the group has been at rest.
    unread = before or UnreadTopics(topics=topics, since_s=now_s)
    if unread.topics != topics:  # another change: the last rebalance counts for the pace
        unread = replace(unread, topics=topics, since_s=now_s)
    rest_since_s = None
    if is_at_rest(snapshot, table):
        rest_since_s = unread.rest_since_s if unread.rest_since_s is not None else now_s
    unread = replace(unread, rest_since_s=rest_since_s)

    # Step 3: whether now.
    held_by = _held_by(spec, group, table, unread, now_s)
    if held_by is None:
        action = Rebalance(group_id=group.group_id, assignor=group.assignor, topics=topics)
        return TopicPlan(unread=unread, action=action)
    left_s = None
    if held_by is RebalanceGuard.NOT_AT_REST and rest_since_s is not None:
        left_s = max(1.0, rest_since_s + SETTLED_S - now_s)
    return TopicPlan(unread=unread, held_by=held_by, requeue_after_s=left_s)


def rebalancing_since_s(group: GroupView, before_s: float | None, now_s: float) -> float | None:
    """Return since when a group with members is rebalancing, seconds since the Unix epoch; None when it is not."""
    if group.is_settled or not group.members:
        return None
    return now_s if before_s is None else before_s


def unread_topics(group: GroupView, partitions: Mapping[str, int]) -> tuple[str, ...]:
    """Return the subscribed topics of which not every partition is assigned, in order, the first 20.

    Parameters
    ----------
    partitions: how many each topic has; one that is not there does not exist, or may not be described.
    """
    return tuple(sorted(t for t, count in group.topics or () if partitions.get(t, 0) > count))[:UNREAD_TOPICS_MAX]


def is_at_rest(snapshot: Snapshot, table: SeatTable) -> bool:
    """True when nobody could keep the others waiting: every wanted pod is Ready and in the group, and nobody else."""
    workload = snapshot.workload
    if workload is None or workload.is_deleting or workload.is_rolling or workload.ready_replicas < workload.replicas:
        return False
    others = (*table.foreign, *table.dynamic, *table.departed)
    return bool(table.wanted) and not others and all(s.standing is Standing.JOINED for s in table.wanted)


def with_rebalance(unread: UnreadTopics | None, now_s: float) -> UnreadTopics | None:
    """Return what is remembered once a rebalance was begun, or may have been."""
    return unread and replace(unread, rebalanced_for=unread.topics, rebalanced_at_s=now_s)


def _held_by(
    spec: StaticGroupSpec, group: GroupView, table: SeatTable, unread: UnreadTopics, now_s: float
) -> RebalanceGuard | None:
    """Return what holds the rebalance back; None when nothing does."""
    if group.assignor == STREAMS_ASSIGNOR:
        return RebalanceGuard.KAFKA_STREAMS
    if spec.mode is not Mode.MANAGE or spec.on_topic_change is not OnTopicChange.REBALANCE:
        return RebalanceGuard.NOT_ASKED_FOR
    if set(unread.topics) <= set(unread.rebalanced_for):
        return RebalanceGuard.DONE_BEFORE
    if unread.rebalanced_at_s is not None and now_s - unread.rebalanced_at_s < PACE_S:
        return RebalanceGuard.DONE_LATELY
    if table.foreign or table.dynamic:
        return RebalanceGuard.OTHERS_IN_GROUP
    if unread.rest_since_s is None or now_s - unread.rest_since_s < SETTLED_S or not group.assignor:
        return RebalanceGuard.NOT_AT_REST
    return None


def seen_to_close(
    snapshot: Snapshot, group: GroupView, before: History, after: Members, now_s: float
) -> LeftOnCloseMemory | None:
    """Return what is remembered of members that left when they closed; None when the last one seen to close stayed.

    Parameters
    ----------
    after: the members as described now.
    """
    pods = {pod.uid: pod for pod in snapshot.known}
    removed = {record.instance_id for record in before.removals}
    found = before.left_on_close
    for instance_id, was in sorted(before.members.attributions.items()):
        now = after.attributions.get(instance_id)
        if now is not None and now.member == was.member:
            has_stayed = bool(was.carriers) and not now.carriers  # its pod has ended since, and it is still described
            found = None if has_stayed else found
            continue
        if now is not None:  # its successor holds the seat, and may have taken it over from it
            continue
        pod = pods.get(next(iter(was.carriers))) if len(was.carriers) == 1 else None
        if pod is None or instance_id in removed or not _is_early(pod, _session_s(pod, snapshot, group), now_s):
            continue
        count = min(found.count + 1 if found is not None else 1, INT32_MAX)
        at = datetime.fromtimestamp(int(now_s), tz=UTC)  # whole seconds, as metav1.Time keeps them
        found = LeftOnCloseMemory(instance_id=instance_id, pod_name=pod.pod_name, at=at, count=count)
    return found


def _session_s(pod: KnownPod, snapshot: Snapshot, group: GroupView) -> float:
    """Return the shortest time after its last heartbeat for which a member stays; 0.0: it is not known."""
    if group.group_type is GroupType.CLASSIC:
        return min(pod.session_timeouts_ms, default=0) / 1000
    return (snapshot.bounds.of(group.group_type).group_ms or 0) / 1000


def _is_early(pod: KnownPod, session_s: float, now_s: float) -> bool:
    """True when a member is gone whose pod ends now, or ended so lately that its session cannot be over."""
    if pod.state is PodState.LIVE:
        return pod.is_deleting and pod.runs
    return pod.state is PodState.DEAD and now_s - pod.since_s < session_s - MARGIN_S
