"""The evidence about one group, as an estimate needs it."""

from __future__ import annotations

from dataclasses import dataclass

from ..estimates.cost import CostRates, eviction_cost
from ..estimates.drift import Drift
from ..estimates.gap_law import GapSample
from ..estimates.price import Price
from . import policy
from .canary import Wave
from .timeout_bounds import TimeoutBounds

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """Hold the evidence about one group.

    Parameters
    ----------
    protocol: Classic, Consumer, Streams, Connect or Unknown.
    workload_class: workloads of one class learn from each other.
    members, partitions: of the group, on average.
    wave: of the canary.
    price: how long a rebalance stops a partition, with its source.
    stopped_share: share of the partitions that a rebalance stops: 1 if eager, else the moved share.
    sample: stops that ended or may still end by themselves.
    removed, blind: stops that ended by a removal; stops that were not watched to the end.
    from_ms, to_ms: the window, Unix milliseconds.
    coverage: share of the window in which an operator was watching, 0..1.
    leaves_on_close: whether its clients would leave when closed, were they dynamic members.
    """

    kafka_cluster_id: str
    group_id: str
    protocol: str
    workload_class: str
    members: float
    partitions: float
    wave: Wave
    price: Price
    stopped_share: float
    sample: GapSample
    removed: int
    blind: int
    from_ms: int
    to_ms: int
    coverage: float
    state: policy.GroupState
    bounds: TimeoutBounds
    leaves_on_close: bool = True
    drift: Drift | None = None

    @property
    def stops(self) -> int:
        """Count all stops."""
        return self.sample.gaps_ms.size + self.removed + self.blind

    @property
    def rates(self) -> CostRates:
        """Price the group: stops per watched day, partitions of a member, partition-seconds of an eviction."""
        looked_days = max((self.to_ms - self.from_ms) * max(self.coverage, 0.01) / DAY_MS, 1e-3)
        known = self.sample.gaps_ms.size + self.removed
        is_connect = self.protocol == "Connect"
        return CostRates(
            stops_per_day=known / looked_days,
            member_partitions=self.partitions / max(self.members, 1.0),
            eviction_partition_seconds=eviction_cost(
                rebalance_seconds=self.price.seconds, stopped_partitions=self.stopped_share * self.partitions
            ),
            heartbeat_interval_ms=0.0 if is_connect else float(self.bounds.heartbeat_interval_ms or 0),
            dead_share=self.removed / known if known else 0.0,
            operator_availability=self.coverage,
        )
