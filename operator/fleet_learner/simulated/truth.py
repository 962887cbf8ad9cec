"""Draw a fleet of consumer groups and everything that happens to its pods: the truth behind a simulated journal.

The one idea: each group is drawn from a key of its own (Philox, seed and number of the group), so a group is the same
regardless of other draws, order and process. Stops have the causes of real pods: rollouts that replace one pod after
the other, crashes, drained and lost nodes, scale-downs. Gaps are a mixture of lognormal laws with a slow tail, and
stops of one rollout resemble each other. A container that runs is not a member yet: a JVM joins the group 10 to 60 s
after its start, librdkafka after 0.2 to 3 s. No I/O, no clock. Figures: docs/reference/fleet-learner.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

DAY_MS = 86_400_000
START_MS = 1_790_985_600_000
"""2026-10-03T00:00:00Z."""
SETTLE_MS = 15_000
"""Least time from a member's return to its next stop."""


class GroupKind(StrEnum):
    """Name how a group rebalances."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"
    STREAMS = "streams"


class Cause(StrEnum):
    """Name why a member stopped; the value is the reason in its record."""

    ROLLOUT = "Deleted"
    CRASH = "Error"
    MEMORY = "OOMKilled"
    DRAIN = "Evicted"
    NODE_LOST = "Unknown"
    SCALE_DOWN = "Completed"


CAUSES = tuple(Cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGroup:
    """Describe an existing eager group, with its real names and sizes and a simulated past.

    Parameters
    ----------
    session_timeout_ms, timeout_source: in force; as the operator reports them.
    new_image_share: of its rollouts; the others restart the running image.
    median_ms: of the usual restart gap.
    """

    kafka_cluster_id: str
    namespace: str
    name: str
    group_id: str
    members: int
    partitions: int
    session_timeout_ms: int
    timeout_source: str
    rollouts_per_day: float
    new_image_share: float
    median_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The settings of a simulated fleet.

    Parameters
    ----------
    seed: of everything.
    groups, days: size and length.
    k8s_clusters: each with one active operator.
    start_ms: Unix milliseconds.
    outages_per_operator: number of times in which an operator is not watching.
    real_group: replaces the first group; None: all groups are invented.
    every_group: fields of `Group` with the same value in all groups; None: each is drawn.
    """

    seed: int = 1
    groups: int = 500
    days: int = 30
    k8s_clusters: int = 3
    start_ms: int = START_MS
    outages_per_operator: int = 4
    real_group: RealGroup | None = None
    every_group: Mapping[str, Any] | None = None

    @property
    def end_ms(self) -> int:
        """Return the end of the simulated time, Unix milliseconds."""
        return self.start_ms + self.days * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hold the truth of one group; rates are per day and, for crashes and drains, per member.

    Parameters
    ----------
    new_image_share: of the rollouts.
    median_ms, deviation: of the usual time from a stop to the start of the next container, and of its logarithm.
    join_ms, join_deviation: median time from that start until the member has joined, and deviation of its logarithm.
    ready_ms: from that start until the pod is ready and the StatefulSet controller replaces the next one.
    correlation: share of the variance of ln gap that is common to the stops of a rollout.
    slow_share, slow_factor: share of gaps that take so many times longer (image pulls).
    slow_image_ms, slow_image_factor: from then on new images start slower; end of time and 1: never.
    rebalance_ms: how long a rebalance interrupts consumption, including restoring state.
    """

    index: int
    k8s_cluster: int
    kafka_cluster_id: str
    namespace: str
    name: str
    group_id: str
    kind: GroupKind
    members: int
    partitions: int
    session_timeout_ms: int
    timeout_source: str
    heartbeat_interval_ms: int
    rollouts_per_day: float
    new_image_share: float
    crashes_per_day: float
    drains_per_day: float
    scale_downs_per_day: float
    median_ms: float
    deviation: float
    join_ms: float
    join_deviation: float
    ready_ms: int
    correlation: float
    slow_share: float
    slow_factor: float
    slow_image_ms: int
    slow_image_factor: float
    rebalance_ms: int
    scope: str

    @property
    def protocol(self) -> str:
        """Return the protocol as the journal names it."""
        return "Consumer" if self.kind is GroupKind.CONSUMER else "Classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """Hold a group's rollouts: (r,) each, in time; `image` counts the group's images from 0."""

    start_ms: NDArray[np.int64]
    end_ms: NDArray[np.int64]
    image: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Hold a group's stops: (n,) each, in the order of `down_ms`.

    Parameters
    ----------
    cause: index into CAUSES.
    down_ms, up_ms, back_ms: Unix milliseconds: its process ends, the next container starts, the group has the member
        back; a scaled-down member comes up when its place is wanted again.
    rollout: number of the rollout that caused it; -1: none.
    image: number of the image that the stopped process ran.
    """

    member: NDArray[np.int64]
    cause: NDArray[np.int64]
    down_ms: NDArray[np.int64]
    up_ms: NDArray[np.int64]
    back_ms: NDArray[np.int64]
    rollout: NDArray[np.int64]
    image: NDArray[np.int64]

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Stops:
        """Return the chosen stops."""
        return Stops(**{name: getattr(self, name)[index] for name in self.__slots__})


def group_rng(seed: int, index: int, purpose: int) -> np.random.Generator:
    """Return the random generator of one group and purpose, independent of other draws."""
    return np.random.Generator(np.random.Philox(key=[seed, (index << 8) | purpose]))


def draw_groups(settings: FleetSettings) -> list[Group]:
    """Draw the fleet's groups.

    Returns
    -------
    list[Group]
        In the order of their index; the first n of a larger fleet with the same seed are the same.
    """
    groups = [_draw_group(settings, index) for index in range(settings.groups)]
    if settings.real_group is not None:
        groups[0] = replace(_draw_group(settings, 0, GroupKind.EAGER), **asdict(settings.real_group))
    return [replace(each, **settings.every_group) for each in groups] if settings.every_group else groups


def _draw_group(settings: FleetSettings, index: int, given_kind: GroupKind | None = None) -> Group:
    rng = group_rng(settings.seed, index, 0)
    drawn_kind = list(GroupKind)[int(rng.choice(4, p=[0.4, 0.25, 0.2, 0.15]))]
    kind = given_kind or drawn_kind
    members = int(np.clip(round(6 * math.exp(0.7 * rng.standard_normal())), 2, 100))
    partitions = members * int(rng.integers(1, 7))
    consumer_timeouts, classic_timeouts = [45_000, 45_000, 60_000], [10_000, 30_000, 45_000, 45_000, 60_000, 120_000]
    timeouts = consumer_timeouts if kind is GroupKind.CONSUMER else classic_timeouts
    is_slow = rng.random() < 0.06
    slow_after = int(rng.uniform(0.4, 0.7) * settings.days * DAY_MS)
    rebalance_s = {
        GroupKind.EAGER: rng.uniform(2, 6),
        GroupKind.COOPERATIVE: rng.uniform(0.2, 1),
        GroupKind.CONSUMER: rng.uniform(0.1, 0.5),
        GroupKind.STREAMS: rng.uniform(15, 60),
    }[kind]
    joining = group_rng(settings.seed, index, 5)
    is_jvm = kind is GroupKind.STREAMS or joining.random() < 0.6
    low_ms, high_ms = (10_000, 60_000) if is_jvm else (200, 3_000)
    namespace, name = f"team-{int(rng.integers(0, 20)):02d}", f"{kind.value}-{index:05d}"
    return Group(
        index=index,
        k8s_cluster=index % settings.k8s_clusters,
        kafka_cluster_id=f"kafka-{index % (2 * settings.k8s_clusters):02d}",
        namespace=namespace,
        name=name,
        group_id=f"{namespace}.{name}",
        kind=kind,
        members=members,
        partitions=partitions,
        session_timeout_ms=timeouts[int(rng.integers(0, len(timeouts)))],
        timeout_source="Broker" if kind is GroupKind.CONSUMER else "Fixed",
        heartbeat_interval_ms=5_000 if kind is GroupKind.CONSUMER else 3_000,
        rollouts_per_day=float(np.clip(0.6 * math.exp(0.7 * rng.standard_normal()), 0.05, 4)),
        new_image_share=0.7,
        crashes_per_day=float(0.02 * math.exp(rng.standard_normal())),
        drains_per_day=0.03,
        scale_downs_per_day=0.1 if rng.random() < 0.3 else 0.0,
        median_ms=float(25_000 * math.exp(0.5 * rng.standard_normal())),
        deviation=float(rng.uniform(0.25, 0.6)),
        join_ms=float(math.exp(joining.uniform(math.log(low_ms), math.log(high_ms)))),
        join_deviation=float(joining.uniform(0.05, 0.2)),
        ready_ms=int(joining.uniform(5_000, 40_000)),
        correlation=float(rng.uniform(0.1, 0.5)),
        slow_share=float(rng.uniform(0.0, 0.02)),
        slow_factor=6.0,
        slow_image_ms=settings.start_ms + slow_after if is_slow else settings.end_ms,
        slow_image_factor=2.0 if is_slow else 1.0,
        rebalance_ms=int(1000 * rebalance_s),
        scope=f"{int(rng.integers(0, 2**32)):08x}",
    )


def draw_stops(settings: FleetSettings, group: Group) -> tuple[Stops, Rollouts]:
    """Draw all stops of a group's members.

    Returns
    -------
    tuple[Stops, Rollouts]
        No member stops again before it is back for `SETTLE_MS`; earlier stops are dropped.
    """
    rng = group_rng(settings.seed, group.index, 1)
    rolled, rollouts = _rolled(settings, group, rng)
    others = [_single(settings, group, rng, cause) for cause in CAUSES if cause is not Cause.ROLLOUT]
    joined = {name: np.concatenate([getattr(each, name) for each in (rolled, *others)]) for name in Stops.__slots__}
    joins_ms = group.join_ms * np.exp(
        group.join_deviation * group_rng(settings.seed, group.index, 6).standard_normal(joined["up_ms"].size)
    )
    stops = Stops(**{**joined, "back_ms": joined["up_ms"] + joins_ms.astype(np.int64)})
    stops = stops.take(np.lexsort((stops.cause, stops.down_ms, stops.member)))
    stops = stops.take(_not_overlapping(stops))
    stops = stops.take((stops.down_ms < settings.end_ms) & (stops.down_ms >= settings.start_ms))
    stops = stops.take(np.lexsort((stops.member, stops.down_ms)))
    # A rollout's own stops end processes of the previous image, for all of its pods.
    images = np.concatenate(([0], rollouts.image))
    ran = images[np.where(stops.rollout >= 0, stops.rollout, np.searchsorted(rollouts.start_ms, stops.down_ms))]
    return Stops(
        member=stops.member,
        cause=stops.cause,
        down_ms=stops.down_ms,
        up_ms=stops.up_ms,
        back_ms=stops.back_ms,
        rollout=stops.rollout,
        image=ran,
    ), rollouts


def gaps_ms(
    group: Group,
    number: int,
    shared: NDArray[np.float64],
    factor: NDArray[np.float64] | float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw restart gaps.

    Parameters
    ----------
    shared: (number,) standard normal, equal for stops of one rollout.
    factor: on the gaps, because of a slow image.

    Returns
    -------
    (number,) int64, milliseconds, at least 500.
    """
    own = rng.standard_normal(number)
    mixed = math.sqrt(group.correlation) * shared + math.sqrt(1 - group.correlation) * own
    gaps = group.median_ms * np.exp(group.deviation * mixed) * factor
    gaps = np.where(rng.random(number) < group.slow_share, gaps * group.slow_factor, gaps)
    return np.maximum(gaps, 500).astype(np.int64)


def _rolled(settings: FleetSettings, group: Group, rng: np.random.Generator) -> tuple[Stops, Rollouts]:
    """Replace pods one after the other, from the highest ordinal down, as a StatefulSet's RollingUpdate does."""
    wanted = int(rng.poisson(group.rollouts_per_day * settings.days))
    starts = np.sort(rng.integers(settings.start_ms, settings.end_ms, wanted))
    image = np.cumsum(rng.random(wanted) < group.new_image_share)
    members = np.arange(group.members)[::-1]
    shared: NDArray[np.float64] = np.repeat(rng.standard_normal(wanted), group.members)
    factor: NDArray[np.float64] = np.repeat(
        np.where(starts >= group.slow_image_ms, group.slow_image_factor, 1.0), group.members
    )
    gaps = gaps_ms(group, wanted * group.members, shared, factor, rng).reshape(wanted, group.members)
    steps = gaps + group.ready_ms
    offset = np.cumsum(steps, axis=1) - steps
    ends = starts + offset[:, -1] + gaps[:, -1] if wanted else starts
    # Kubernetes merges a rollout into one that has not ended yet, so such a rollout is dropped.
    kept: NDArray[np.bool_] = np.ones(wanted, dtype=bool)
    free_from = 0
    for index in range(wanted):
        kept[index] = starts[index] >= free_from
        free_from = int(ends[index]) + group.ready_ms if kept[index] else free_from
    down = (starts[:, None] + offset)[kept]
    number = int(kept.sum())
    stops = Stops(
        member=np.tile(members, number),
        cause=np.zeros(down.size, dtype=np.int64),
        down_ms=down.ravel(),
        up_ms=(down + gaps[kept]).ravel(),
        back_ms=(down + gaps[kept]).ravel(),
        rollout=np.repeat(np.arange(number), group.members),
        image=np.zeros(down.size, dtype=np.int64),
    )
    return stops, Rollouts(start_ms=starts[kept], end_ms=ends[kept], image=image[kept])


def _single(settings: FleetSettings, group: Group, rng: np.random.Generator, cause: Cause) -> Stops:
    rate = {
        Cause.CRASH: group.crashes_per_day * group.members,
        Cause.MEMORY: 0.2 * group.crashes_per_day * group.members,
        Cause.DRAIN: group.drains_per_day * group.members,
        Cause.NODE_LOST: 0.002 * group.members,
        Cause.SCALE_DOWN: group.scale_downs_per_day,
    }[cause]
    number = int(rng.poisson(rate * settings.days))
    down = rng.integers(settings.start_ms, settings.end_ms, number)
    factor = np.where(down >= group.slow_image_ms, group.slow_image_factor, 1.0)
    gaps = gaps_ms(group, number, rng.standard_normal(number), factor, rng)
    member = rng.integers(0, group.members, number)
    if cause is Cause.NODE_LOST:
        gaps = gaps + 120_000 + (780_000 * rng.standard_exponential(number)).astype(np.int64)
    elif cause is Cause.SCALE_DOWN:
        gaps = gaps + (DAY_MS * rng.standard_exponential(number)).astype(np.int64)
        member = np.full(number, group.members - 1)
    elif cause in {Cause.CRASH, Cause.MEMORY}:
        gaps = np.maximum(gaps // 4, 500)  # the same pod on the same node: without scheduling or pulling
    return Stops(
        member=member,
        cause=np.full(number, CAUSES.index(cause)),
        down_ms=down,
        up_ms=down + gaps,
        back_ms=down + gaps,
        rollout=np.full(number, -1),
        image=np.zeros(number, dtype=np.int64),
    )


def _not_overlapping(stops: Stops) -> NDArray[np.bool_]:
    """Keep the stops, sorted by member and time, that begin after the last kept stop's return has settled."""
    kept = np.ones(stops.member.size, dtype=bool)
    last_member, free_from = -1, 0
    for index, (member, down, back) in enumerate(
        zip(stops.member.tolist(), stops.down_ms.tolist(), stops.back_ms.tolist(), strict=True)
    ):
        if member != last_member:
            last_member, free_from = member, 0
        kept[index] = down >= free_from
        if kept[index]:
            free_from = back + SETTLE_MS
    return kept
