"""Turn a row of the tables into a group's history: the stops that count, the timeout in force, and drift.

The one idea: a history is a function of one row (`features.group_features`), of the configuration and of the window, so
groups are processed one by one, in any task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from journal.recommendations import PriceSource, Recommendation
from staticgroup.api.absences import EndKind
from staticgroup.api.schema import TIMEOUT_MS_MAX

from ..days.facts import DAY_MS, StopDurations
from ..estimates.drift import BASELINE_MIN, Drift, age_weights, rollout_means, slower_since
from ..estimates.gap_law import GapSample
from ..estimates.price import Price
from . import policy
from .canary import CanaryState
from .group_history import GroupHistory
from .timeout_bounds import TimeoutBounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROLLED: Final = "Deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What brokers and clients allow, in milliseconds; Kafka's defaults.

    Source: `GroupCoordinatorConfig` (group.min/max.session.timeout.ms, group.consumer.… and
    group.streams.min/max.session.timeout.ms).
    """

    classic_minimum_ms: int = 6_000
    classic_maximum_ms: int = 1_800_000
    consumer_minimum_ms: int = 45_000
    consumer_maximum_ms: int = 60_000
    streams_minimum_ms: int = 45_000
    streams_maximum_ms: int = 60_000
    classic_heartbeat_ms: int = 3_000
    consumer_heartbeat_ms: int = 5_000
    streams_heartbeat_ms: int = 5_000

    def of(self, protocol: str) -> TimeoutBounds:
        """Return the bounds of one protocol."""
        if protocol == "Consumer":
            found = self.consumer_minimum_ms, self.consumer_maximum_ms, self.consumer_heartbeat_ms
        elif protocol == "Streams":
            found = self.streams_minimum_ms, self.streams_maximum_ms, self.streams_heartbeat_ms
        else:
            found = self.classic_minimum_ms, self.classic_maximum_ms, self.classic_heartbeat_ms
        # Kafka allows a session of weeks; recommendations stop at a day.
        least, most = (min(each, TIMEOUT_MS_MAX) for each in found[:2])
        return TimeoutBounds(broker_minimum_ms=least, broker_maximum_ms=most, heartbeat_interval_ms=found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The inputs of recommendations besides the tables.

    Parameters
    ----------
    bounds: by Kafka cluster id; "" for all others.
    prices: measured ones, by (Kafka cluster id, group id).
    valid_ms: how long a recommendation holds.
    """

    durations: StopDurations
    bounds: Mapping[str, Bounds]
    valid_ms: int
    prices: Mapping[tuple[str, str], Price] = field(default_factory=dict)

    def to_settings(self) -> dict[str, Any]:
        """Return the terms as JSON values, for a plan."""
        bounds = {name: asdict(each) for name, each in sorted(self.bounds.items())}
        prices = [[*key, asdict(price)] for key, price in sorted(self.prices.items())]
        return {"durations": asdict(self.durations), "bounds": bounds, "valid_ms": self.valid_ms, "prices": prices}

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Read the terms of a plan."""
        return cls(
            durations=StopDurations(**_known_durations(settings["durations"])),
            bounds={name: Bounds(**each) for name, each in settings["bounds"].items()},
            valid_ms=settings["valid_ms"],
            prices={(cluster, group): Price(**_sourced(each)) for cluster, group, each in settings.get("prices", [])},
        )

    def price_of(self, kafka_cluster_id: str, group_id: str, protocol: str) -> Price:
        """Return the price of a group: the measured one, else the configuration's for its kind."""
        measured = self.prices.get((kafka_cluster_id, group_id))
        if measured is not None:
            return measured
        durations = self.durations
        stop_ms = durations.eager_ms if self.is_eager(protocol) else durations.cooperative_ms
        return Price.given(stop_ms / 1000, is_stated=self.is_stated(protocol))

    def is_stated(self, protocol: str) -> bool:
        """Return whether the configuration states how long a rebalance of this kind of group stops a partition."""
        return self.durations.is_eager_stated if self.is_eager(protocol) else self.durations.is_cooperative_stated

    def is_eager(self, protocol: str) -> bool:
        """Return whether a rebalance of such a group stops all of its partitions."""
        return protocol == "Classic" and not self.durations.classic_is_cooperative

    def bounds_of(self, kafka_cluster_id: str, protocol: str) -> TimeoutBounds:
        """Return the bounds of a group."""
        return self.bounds.get(kafka_cluster_id, self.bounds.get("", Bounds())).of(protocol)


def _known_durations(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the old flag for both durations in plans of earlier versions: it does not tell which was stated."""
    return {name: value for name, value in values.items() if name != "is_stated"}


def _sourced(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, "source": PriceSource(values["source"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The fleet's state before a run recommends, as published.

    Parameters
    ----------
    canary: which waves may act.
    earlier: gold/recommendation of the previous run; None: there was none.
    """

    canary: CanaryState
    earlier: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowerRestarts:
    """Restarts that became slower: since when, under which image, and the median gaps before and since."""

    since_ms: int
    image_digest: str
    median_before_ms: int
    median_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """A recommendation, and intermediate results.

    Parameters
    ----------
    state: the group's timeout at that time.
    """

    record: Recommendation
    state: policy.GroupState
    slower: SlowerRestarts | None


def history(
    row: Mapping[str, Any], terms: Terms, *, start_ms: int, as_of_ms: int
) -> tuple[GroupHistory, SlowerRestarts | None]:
    """Turn one row of `features.group_features` into the inputs of `recommend`, with drift, if any."""
    protocol = row["protocol"] or "Unknown"
    stops = row["stops"] or []
    ending = usable(stops)
    sample = sample_of(ending, as_of_ms)
    drift, slower = _slower(ending, sample)
    from_ms = max(start_ms, row["first_ms"])
    moved = min(1.0, row["moved"] / row["of_partitions"]) if row["of_partitions"] else 1.0
    return GroupHistory(
        kafka_cluster_id=row["kafka_cluster_id"],
        group_id=row["group_id"],
        protocol=protocol,
        workload_class=protocol,
        members=row["members"],
        # A member has at least one partition: a group of unknown size is not free of charge.
        partitions=row["members"] if row["partitions"] is None else row["partitions"],
        wave=row["wave"],
        price=terms.price_of(row["kafka_cluster_id"], row["group_id"], protocol),
        stopped_share=1.0 if terms.is_eager(protocol) else moved,
        sample=sample,
        removed=sum(s["end_kind"] in {EndKind.REMOVED, EndKind.DEPARTED} for s in stops),
        blind=sum(s["end_kind"] == EndKind.BLIND for s in stops),
        from_ms=from_ms,
        to_ms=as_of_ms,
        coverage=min(1.0, row["covered_ms"] / max(as_of_ms - from_ms, 1)),
        state=_state(row, stops),
        bounds=terms.bounds_of(row["kafka_cluster_id"], protocol),
        drift=drift,
    ), slower


def _state(row: Mapping[str, Any], stops: Sequence[Mapping[str, Any]]) -> policy.GroupState:
    """Return the timeout in force: by the journal's window, else by the previous run."""

    def known(*names: str) -> Any:
        return next((row[name] for name in names if row.get(name) is not None), None)

    changed_ms = known("changed_ms", "earlier_changed_ms")
    # A classic group's timeout does not apply once it became a KIP-848 group: then the brokers' setting does.
    timeouts = (
        ("set_timeout_ms", "set_protocol"),
        ("seen_timeout_ms", "seen_protocol"),
        ("earlier_session_timeout_ms", "earlier_protocol"),
    )
    now = row["protocol"]
    current_ms = known(*(name for name, then in timeouts if now is None or row.get(then) in {None, now}))
    return policy.GroupState(
        # Brokers may be configured to allow more than a recommendation can express.
        current_ms=None if current_ms is None else min(current_ms, TIMEOUT_MS_MAX),
        changed_ms=changed_ms,
        stops_since_change=sum(changed_ms is None or s["down_ms"] >= changed_ms for s in stops),
        image_is_new=_image_is_new(row, stops),
        source=known("timeout_source", "earlier_timeout_source"),
        recommended_ms=known("earlier_recommended_ms"),
        advised_ms=tuple(row.get("earlier_advised_ms") or ()),
    )


def _image_is_new(row: Mapping[str, Any], stops: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the restart times of the running image are still unknown.

    A stop records the image of the process that ended. An image is known once one of its processes has ended, or once
    the rollout that introduced it, the last event, has returned as many members as the group has: with a new image in
    each deploy the former never happens.
    """
    if not stops or row["image_digest"] is None or row["image_digest"] in {s["image_digest"] for s in stops}:
        return False
    last = stops[-1]
    if last["reason"] != _ROLLED or not last["rollout_id"]:
        return True
    brought = sum(
        s["rollout_id"] == last["rollout_id"] and s["reason"] == _ROLLED and s["end_kind"] == EndKind.RETURNED
        for s in stops
    )
    return brought < max(1.0, row["members"] or 0.0)


def usable(stops: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Keep the stops that ended, or may still end, by a return."""
    return [s for s in stops or () if s["end_kind"] in {EndKind.RETURNED, EndKind.OPEN}]


def sample_of(stops: Sequence[Mapping[str, Any]], as_of_ms: int) -> GapSample:
    """Convert stops to arrays; stops of one rollout share a code, each other stop has its own."""
    codes: dict[str, int] = {}
    cluster = [
        codes.setdefault(
            s["rollout_id"] if s["reason"] == _ROLLED and s["rollout_id"] else f"{index} alone", len(codes)
        )
        for index, s in enumerate(stops)
    ]
    ages = np.array([(as_of_ms - s["down_ms"]) / DAY_MS for s in stops], dtype=np.float64)
    return GapSample(
        gaps_ms=np.array([s["gap_ms"] for s in stops], dtype=np.float64),
        is_returned=np.array([s["end_kind"] == EndKind.RETURNED for s in stops], dtype=np.bool_),
        cluster=np.array(cluster, dtype=np.int64),
        weights=age_weights(ages) if stops else None,
    )


def _slower(stops: Sequence[Mapping[str, Any]], sample: GapSample) -> tuple[Drift | None, SlowerRestarts | None]:
    """Compare the later rollouts with the first half of them."""
    rolled = [i for i, s in enumerate(stops) if s["reason"] == _ROLLED and sample.is_returned[i]]
    gaps, codes = sample.gaps_ms[rolled], sample.cluster[rolled]
    _, first = np.unique(codes, return_index=True)
    baseline = max(BASELINE_MIN, first.size // 3)
    drift = slower_since(rollout_means(np.log(np.maximum(gaps, 1.0)), codes), baseline=baseline) if rolled else None
    if drift is None:
        return None, None
    begin = int(np.sort(first)[drift.begin])
    since = stops[rolled[begin]]
    # A stopped process still ran the previous image: the slow image is the first new one after it.
    known = {stops[i]["image_digest"] for i in rolled[:begin]}
    later = (stops[i]["image_digest"] for i in rolled[begin:])
    image = next((each for each in later if each and each not in known), since["image_digest"] or "")
    return drift, SlowerRestarts(
        since_ms=since["down_ms"],
        image_digest=image,
        median_before_ms=round(float(np.median(gaps[:begin]))),
        median_after_ms=round(float(np.median(gaps[begin:]))),
    )
