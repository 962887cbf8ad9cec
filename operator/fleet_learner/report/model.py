"""The content of a report as plain values; pages, JSON and Parquet files are ways to write it.

The one idea: the code that builds a `Report` decides and counts; the code that prints it only prints. All instants
are Unix milliseconds in UTC, all costs are partition-milliseconds without consumption, as in the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .curves import CostPoint, HazardPoint, SurvivalPoint, Timeline, WhatIf, Window
from .units import DAY_MS

MODEL_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """One consumer group of the fleet; `group_id` alone is unique only within its Kafka cluster."""

    kafka_cluster_id: str
    group_id: str
    namespace: str = ""
    static_group: str = ""
    workload: str = ""

    @property
    def owner(self) -> str:
        """Return the owner: namespace, StaticGroup and workload, as far as they are known."""
        named = (self.namespace, f"StaticGroup {self.static_group}" if self.static_group else "",
                 f"workload {self.workload}" if self.workload else "")  # fmt: skip
        return " / ".join(each for each in named if each) or "owner unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a group, or of the whole fleet, within the window.

    Parameters
    ----------
    restarts: outages that began in the window, with any end.
    absorbed_restarts: of those, the ones after which the member was back under its instance id without a rebalance.
    rebalances: steps of the generation (classic) or of the group epoch (KIP-848).
    rebalances_if_dynamic: rebalances of the same timeline with dynamic members; None without a replay.
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

    @property
    def absorbed_share(self) -> float | None:
        """Share of absorbed restarts; None without restarts."""
        return self.absorbed_restarts / self.restarts if self.restarts else None


def lost_per_watched_day(groups: Iterable[tuple[Counts, int]]) -> int | None:
    """Add up the losses of each group on the days on which it was watched; other days count neither way.

    Parameters
    ----------
    groups: the counts of each, and how long it was watched, milliseconds.

    Returns
    -------
    Partition-milliseconds; None if no group was watched.
    """
    watched = [(counts, covered_ms) for counts, covered_ms in groups if covered_ms > 0]
    if not watched:
        return None
    return round(sum(counts.lost_partition_ms * DAY_MS / covered_ms for counts, covered_ms in watched))


class Verdict(StrEnum):
    """The kind of an advice.

    CHANGE: set another timeout. WIDEN: no timeout satisfies the bounds. DYNAMIC: static membership costs more than it
    saves.
    KEEP: leave it. NOT_KNOWN: the evidence is insufficient, and the advice names what is missing.
    """

    CHANGE = "Change"
    WIDEN = "Widen"
    DYNAMIC = "Dynamic"
    KEEP = "Keep"
    NOT_KNOWN = "NotKnown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The saving of an advice per week, with its 90 % interval: 0 < low ≤ best ≤ high."""

    low_partition_ms: int
    best_partition_ms: int
    high_partition_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do about one group, or about one Kafka cluster.

    Parameters
    ----------
    action: one sentence, complete on its own.
    why: some sentences with the figures behind it.
    reasons: reason codes of the recommendation, in its own spelling.
    setting: the setting that changes; "" without a change.
    now_ms, then_ms: its values; `then_ms` only with a change, `now_ms` where it is known.
    goal_ms: the goal, if `then_ms` is only a step towards it; None: `then_ms` is the goal.
    goal_low_ms, goal_high_ms: the range of the best timeout inside the bounds, which contains the goal.
    saving: only of a change that certainly saves.
    later_ms: how much later a dead member is noticed, negative if sooner; only if both values are known.
    who: who carries it out, and when.
    command: a command or a line of configuration; "" without one.
    would_tell: the missing evidence, only of NOT_KNOWN.
    price_source: measured, stated or assumed; "" if unknown.
    """

    verdict: Verdict
    action: str
    why: str
    reasons: tuple[str, ...] = ()
    setting: str = ""
    now_ms: int | None = None
    then_ms: int | None = None
    goal_ms: int | None = None
    goal_low_ms: int | None = None
    goal_high_ms: int | None = None
    saving: Saving | None = None
    later_ms: int | None = None
    who: str = ""
    command: str = ""
    would_tell: tuple[str, ...] = ()
    price_source: str = ""

    @property
    def is_action(self) -> bool:
        """Return whether there is something to do."""
        return self.verdict in {Verdict.CHANGE, Verdict.WIDEN, Verdict.DYNAMIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group in one line.

    Parameters
    ----------
    session_timeout_ms: in force; None when unknown.
    coverage: share of the window in which an operator watched the group, 0 to 1; covered_ms: the same as time.
    lost_partition_ms_by_day: one value per day of the window, in order.
    """

    key: GroupKey
    protocol: str
    members: int
    partitions: int | None
    session_timeout_ms: int | None
    coverage: float
    covered_ms: int
    counts: Counts
    advice: Advice
    lost_partition_ms_by_day: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """The details of one group, for its page.

    Parameters
    ----------
    waiting_partitions: ν, partitions that stand still while the group keeps an absent member.
    eviction_partition_ms: κ, partition-milliseconds lost by a needless eviction.
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
class Before:
    """The window before the report's, of the same length.

    Parameters
    ----------
    coverage: share of group-time with a watching operator, 0 to 1; covered_ms: the same as group-time.
    """

    window: Window
    counts: Counts
    coverage: float
    covered_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRow:
    """What rebalances cost one group by Kafka's own record, `__consumer_offsets`; also of unmanaged groups.

    Parameters
    ----------
    covered_days: days of the topic that show this group.
    rebalances: by cause; empty if they are not counted.
    low_silent_partition_ms, silent_partition_ms, high_silent_partition_ms: partition time without progress, and its
        interval.
    is_measured: whether any silence could be measured; else the standstill is not known.
    interrupted_members: members that stood still without being the cause.
    delayed_records: None if end offsets were not sampled.
    help: what would help, in words; "" if unknown.
    """

    key: GroupKey
    covered_days: float
    rebalances: Mapping[str, int] = field(default_factory=dict)
    low_silent_partition_ms: int = 0
    silent_partition_ms: int = 0
    high_silent_partition_ms: int = 0
    interrupted_members: int = 0
    is_measured: bool = True
    delayed_records: int | None = None
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The configured prices of partition time and delayed messages; None: no price.

    Parameters
    ----------
    currency: written after each sum, such as EUR.
    """

    currency: str
    price_per_partition_hour: float | None = None
    price_per_delayed_message: float | None = None


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
    """The method behind one figure of the report, with its source."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report.

    Parameters
    ----------
    created_ms: the report's present (`--as-of`), never the clock of the machine that printed it.
    run_id: name of the run behind the report.
    rows: all groups, those with something to do and the greatest saving first.
    pages: the groups with a page, in the order of `rows`.
    coverage: share of group-time with a watching operator, 0 to 1; covered_ms: the same as group-time.
    lost_partition_ms_per_day: of all groups, each over its watched days; None if no group was watched.
    before: the window before; None: no history yet.
    bill: by Kafka's own record; empty without a configured log.
    money: None: nothing is written in money.
    stop_source: source of the time for which a rebalance stops a partition: stated or assumed.
    """

    created_ms: int
    run_id: str
    window: Window
    counts: Counts
    groups: int
    kafka_clusters: int
    members: int
    coverage: float
    covered_ms: int
    lost_partition_ms_per_day: int | None
    days: tuple[DayCost, ...]
    clusters: tuple[ClusterAdvice, ...]
    rows: tuple[GroupRow, ...]
    pages: tuple[GroupPage, ...]
    drift: tuple[ImageDrift, ...]
    quality: tuple[QualityCheck, ...]
    methods: tuple[Method, ...]
    before: Before | None = None
    bill: tuple[BillRow, ...] = ()
    money: Money | None = None
    stop_source: str = "assumed"
