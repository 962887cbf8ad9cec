"""Everything a report shows, as plain values: the page, the JSON and the Parquet files are three ways to write it down.

The one idea: whoever builds a `Report` has decided and counted everything; whoever prints it only prints. All instants
are Unix milliseconds in UTC, all costs are partition-milliseconds without consumption, as in the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

MODEL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time a report is about.

    Parameters
    ----------
    start_ms, end_ms: the half-open interval, Unix milliseconds.
    """

    start_ms: int
    end_ms: int

    @property
    def days(self) -> float:
        """Length in days."""
        return (self.end_ms - self.start_ms) / 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """One consumer group of the fleet; `group_id` alone is unique only within its Kafka cluster."""

    kafka_cluster_id: str
    group_id: str
    namespace: str = ""
    static_group: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What happened to a group, or to the whole fleet, within the window.

    Parameters
    ----------
    restarts: outages that began in the window, whatever became of them.
    absorbed_restarts: rejoins under a known instance id without a rebalance.
    rebalances: steps of the generation (classic) or of the group epoch (KIP-848).
    rebalances_if_dynamic: rebalances of the same timeline with dynamic members; None when it was not replayed.
    rebalance_cost_partition_ms: partitions stopped × how long, over all rebalances.
    ghost_wanted_partition_ms: partitions kept for a member that was away, within its session timeout.
    ghost_late_partition_ms: the same beyond the session timeout.
    ghost_fault_partition_ms: partitions kept for a member that was never to return.
    """

    restarts: int = 0
    absorbed_restarts: int = 0
    removals: int = 0
    rebalances: int = 0
    rebalances_if_dynamic: int | None = None
    rebalance_cost_partition_ms: int = 0
    ghost_wanted_partition_ms: int = 0
    ghost_late_partition_ms: int = 0
    ghost_fault_partition_ms: int = 0

    @property
    def lost_partition_ms(self) -> int:
        """All partition time without consumption."""
        waiting = self.ghost_wanted_partition_ms + self.ghost_late_partition_ms + self.ghost_fault_partition_ms
        return self.rebalance_cost_partition_ms + waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do about one group, or about one Kafka cluster.

    Parameters
    ----------
    action: one sentence in the imperative, complete without the rest of the page.
    why: one or two sentences with the figures behind it.
    reasons: reason codes of the recommendation, in its own spelling.
    is_action: false when the sentence says to leave things as they are.
    """

    action: str
    why: str
    reasons: tuple[str, ...] = ()
    is_action: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group in one line.

    Parameters
    ----------
    session_timeout_ms, recommended_timeout_ms: None when unknown, or when no timeout is recommended.
    goal_timeout_ms: where the recommended one is a step to; the best one lies between low and high.
    avoidable_partition_ms_per_day: expected cost now less expected cost after the advice; None when not estimated.
    coverage: share of the window in which an operator watched the group, 0 to 1.
    lost_partition_ms_by_day: one value per day of the window, the first day first.
    """

    key: GroupKey
    protocol: str
    members: int
    partitions: int
    session_timeout_ms: int | None
    recommended_timeout_ms: int | None
    goal_timeout_ms: int | None
    timeout_low_ms: int | None
    timeout_high_ms: int | None
    avoidable_partition_ms_per_day: int | None
    coverage: float
    counts: Counts
    advice: Advice
    lost_partition_ms_by_day: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalPoint:
    """One step of a Kaplan-Meier curve: the share of stops that last longer than `gap_ms`, with its band."""

    gap_ms: int
    survival: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint:
    """What one session timeout costs per day, split into evictions that were not needed and waiting in vain."""

    timeout_ms: int
    eviction_partition_ms: int
    waiting_partition_ms: int
    evictions_per_day: float

    @property
    def total_partition_ms(self) -> int:
        """Both kinds of cost."""
        return self.eviction_partition_ms + self.waiting_partition_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardPoint:
    """The chance per second that a member returns, given that it is still away after `gap_ms`."""

    gap_ms: int
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A rollout: from its start to its end, or to the end of the window."""

    start_ms: int
    end_ms: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rollouts, restarts and generations of one group on one axis.

    Parameters
    ----------
    generations: (instant, generation or group epoch) at each step.
    absorbed_ms, evicted_ms, removed_ms: instants of restarts that were absorbed, that led to an eviction, and of
        removals by the operator.
    timeout_changes: (instant, new session timeout in milliseconds).
    """

    window: Window
    rollouts: tuple[Span, ...] = ()
    generations: tuple[tuple[int, int], ...] = ()
    absorbed_ms: tuple[int, ...] = ()
    evicted_ms: tuple[int, ...] = ()
    removed_ms: tuple[int, ...] = ()
    timeout_changes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """One line of a what-if table: the same group under another timeout, or with dynamic members."""

    label: str
    timeout_ms: int | None
    evictions_per_day: float
    rebalances_per_day: float
    lost_partition_ms_per_day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """Everything about one group that is worth acting on.

    Parameters
    ----------
    waiting_partitions: ν, partitions that stand still for each second a place is kept.
    eviction_partition_ms: κ, partition-milliseconds lost by an eviction that was not needed.
    method: how the timeout was found, in words.
    """

    row: GroupRow
    survival: tuple[SurvivalPoint, ...]
    cost: tuple[CostPoint, ...]
    hazard: tuple[HazardPoint, ...]
    waiting_partitions: float
    eviction_partition_ms: int
    timeline: Timeline
    what_if: tuple[WhatIf, ...]
    samples: int
    censored: int
    method: str

    @property
    def indifference_per_second(self) -> float | None:
        """ν/κ: below this chance of return per second, waiting costs more than evicting; None without κ."""
        return self.waiting_partitions / (self.eviction_partition_ms / 1000) if self.eviction_partition_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAdvice:
    """Something to change on a Kafka cluster, for all its groups that need it."""

    kafka_cluster_id: str
    groups: int
    advice: Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """The cost of one day, whole fleet."""

    day_ms: int
    rebalance_partition_ms: int
    waiting_partition_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDrift:
    """A workload whose restarts changed with an image."""

    key: GroupKey
    image_digest: str
    since_ms: int
    median_before_ms: int
    median_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCheck:
    """One check of the data and its result.

    Parameters
    ----------
    verdict: "good", "warning" or "bad".
    """

    name: str
    value: str
    verdict: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How one figure of the report comes about, with its source."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report.

    Parameters
    ----------
    created_ms: instant the report speaks about as "now" (`--as-of`), never the clock of the machine that printed it.
    run_id: name of the run whose tables it was made from.
    rows: all groups, the greatest avoidable cost first.
    pages: the groups worth acting on, in the order of `rows`.
    coverage: share of group-time with a watching operator, 0 to 1.
    lost_partition_ms_per_day: of all groups, each over the days on which it was watched; None: none was.
    """

    created_ms: int
    run_id: str
    window: Window
    counts: Counts
    groups: int
    kafka_clusters: int
    members: int
    coverage: float
    lost_partition_ms_per_day: int | None
    avoidable_partition_ms_per_day: int
    days: tuple[DayCost, ...]
    clusters: tuple[ClusterAdvice, ...]
    rows: tuple[GroupRow, ...]
    pages: tuple[GroupPage, ...]
    drift: tuple[ImageDrift, ...]
    quality: tuple[QualityCheck, ...]
    methods: tuple[Method, ...]
