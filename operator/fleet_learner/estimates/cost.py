"""Price session timeouts, and find the cheapest.

The one idea: while a member is away its partitions idle (ν each second); when it is expelled although it would have
come back, the group pays two needless rebalances (κ). Waiting pays as long as the chance per second that the member
returns beats ν/κ, so the optimum is where the return hazard falls below ν/κ. With nothing known about the hazard,
T = κ/ν costs at most twice the best (rent or buy: waiting is rent, expelling is buying).

    C(T) = λ · [κ · P(gap > T − u) + ν · E min(gap, T − u)],   u uniform on 0..heartbeat interval

The session timer runs since the last heartbeat, not since the stop, hence u. Unit of every cost: partition-seconds
without consumption, per day. Connect's `scheduled.rebalance.max.delay.ms` is the same problem with tasks for
partitions and without u: the delay runs since the worker left.
Sources: Karlin et al. 1990 (rent or buy); `ConsumerGroup`/`ClassicGroup` session timers of Kafka's coordinator, KIP-415
(Connect's delay).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .laws import Law

HEARTBEAT_NODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRates:
    """Hold the prices of one group.

    Parameters
    ----------
    stops_per_day: λ of the whole group.
    member_partitions: ν, partitions of one member: lost per second while its place is kept.
    eviction_partition_seconds: κ of one avoidable eviction; see `eviction_cost`.
    heartbeat_interval_ms: of the clients; 0 for Connect's delay.
    dead_share: share of stops that do not end by themselves, in 0..1.
    operator_availability: chance that the operator removes such a member, in 0..1.
    operator_delay_ms: how long that takes.
    """

    stops_per_day: float
    member_partitions: float
    eviction_partition_seconds: float
    heartbeat_interval_ms: float = 3_000.0
    dead_share: float = 0.0
    operator_availability: float = 0.0
    operator_delay_ms: float = 5_000.0

    @property
    def rent_or_buy_ms(self) -> float:
        """Return κ/ν: the timeout without any knowledge of the gaps, at most twice as expensive as the best."""
        return 1000.0 * self.eviction_partition_seconds / max(self.member_partitions, 1e-9)


def eviction_cost(*, rebalance_seconds: float, stopped_partitions: float, rebalances: int = 2) -> float:
    """Price one avoidable eviction in partition-seconds.

    Parameters
    ----------
    rebalance_seconds: how long one rebalance interrupts a stopped partition, including restoring state.
    stopped_partitions: all partitions of the group (eager), or those that move (cooperative, KIP-848).
    rebalances: one at the expiry and one at the return.
    """
    return rebalances * rebalance_seconds * stopped_partitions


def timeout_grid_ms(minimum_ms: float, maximum_ms: float) -> NDArray[np.float64]:
    """List the timeouts to choose from, ascending.

    Both ends, and between them steps of 5 s, above 2 min of 15 s, above 5 min of 1 min: a cost curve is flat where it
    is wide.
    """
    if maximum_ms <= minimum_ms:
        return np.array([float(minimum_ms)])
    fine = np.arange(5_000.0, 120_000.0, 5_000.0)
    coarse = np.concatenate((np.arange(120_000.0, 300_000.0, 15_000.0), np.arange(300_000.0, maximum_ms, 60_000.0)))
    steps = np.concatenate((fine, coarse))
    inner = steps[(steps > minimum_ms) & (steps < maximum_ms)]
    return np.concatenate(([minimum_ms], inner, [maximum_ms]))


def windows_ms(timeouts_ms: NDArray[np.float64], heartbeat_interval_ms: float) -> NDArray[np.float64]:
    """Spread T − u over equally likely u: (nodes, g)."""
    nodes = HEARTBEAT_NODES if heartbeat_interval_ms > 0 else 1
    shares = (np.arange(nodes) + 0.5) / nodes
    return np.maximum(np.asarray(timeouts_ms, dtype=np.float64)[None, :] - shares[:, None] * heartbeat_interval_ms, 0.0)


def evictions_per_day(law: Law, rates: CostRates, timeouts_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count avoidable evictions.

    Returns
    -------
    (g,) float64, or (b, g) for b laws at once: λ·(1−dead)·P(gap > T − u).
    """
    windows = windows_ms(timeouts_ms, rates.heartbeat_interval_ms)
    return rates.stops_per_day * (1.0 - rates.dead_share) * law.at(windows).mean(axis=-2)


def ghost_seconds_per_day(law: Law, rates: CostRates, timeouts_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count seconds in which the group keeps an absent member.

    Returns
    -------
    (g,) float64, or (b, g): stops that end by themselves wait E min(gap, T−u); the others until the session ends, or
    until the operator removes them.
    """
    windows = windows_ms(timeouts_ms, rates.heartbeat_interval_ms)
    returning = law.integral_ms(windows).mean(axis=-2)
    unaided = windows.mean(axis=0)
    aided = np.minimum(windows, rates.operator_delay_ms).mean(axis=0)
    dead = (1.0 - rates.operator_availability) * unaided + rates.operator_availability * aided
    return rates.stops_per_day * ((1.0 - rates.dead_share) * returning + rates.dead_share * dead) / 1000.0


def cost_per_day(law: Law, rates: CostRates, timeouts_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Price timeouts.

    Parameters
    ----------
    law: of the gaps of stops that end by themselves.
    timeouts_ms: (g,).

    Returns
    -------
    (g,) float64, or (b, g): partition-seconds per day.
    """
    evictions = rates.eviction_partition_seconds * evictions_per_day(law, rates, timeouts_ms)
    return evictions + rates.member_partitions * ghost_seconds_per_day(law, rates, timeouts_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Hold the effects of timeouts under each of several laws: (draws, g) each, per day."""

    evictions: NDArray[np.float64]
    ghost_seconds: NDArray[np.float64]
    cost: NDArray[np.float64]


def under_laws(laws: Law, rates: CostRates, timeouts_ms: NDArray[np.float64]) -> Draws:
    """Evaluate timeouts under b laws at once, whose answers begin with that axis."""
    evictions = evictions_per_day(laws, rates, timeouts_ms)
    ghosts = ghost_seconds_per_day(laws, rates, timeouts_ms)
    cost = rates.eviction_partition_seconds * evictions + rates.member_partitions * ghosts
    return Draws(evictions=evictions, ghost_seconds=ghosts, cost=cost)


def dynamic_cost_per_day(
    law: Law, rates: CostRates, *, leaves_on_close: bool = True, timeout_ms: float = 45_000.0
) -> float:
    """Price dynamic membership.

    Parameters
    ----------
    leaves_on_close: the client leaves when it is closed, as consumers do; Kafka Streams did not, so its old member
        stays until the session ends.
    timeout_ms: session timeout of the dynamic members.

    Returns
    -------
    float
        Every stop costs two rebalances; and the partitions idle until the first of them.
    """
    idle_seconds = 0.0
    if not leaves_on_close:
        idle_seconds = float(law.integral_ms(np.array([[timeout_ms]])).ravel()[0]) / 1000.0
    return rates.stops_per_day * (rates.eviction_partition_seconds + rates.member_partitions * idle_seconds)


def cheapest(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Find the index of the cheapest timeout, the shortest one among equals; (…, g) → (…).

    A longer timeout has to be cheaper by more than a millionth: the cost of a dead member is certain.
    """
    best = costs.min(axis=-1, keepdims=True)
    return np.argmax(costs <= best * (1 + 1e-6) + 1e-12, axis=-1)


def return_hazard(law: Law, time_ms: float, window_ms: float = 10_000.0) -> float:
    """Estimate the chance per second that a member that is still away returns now.

    Parameters
    ----------
    window_ms: width of the interval, centred on `time_ms`.

    Returns
    -------
    float
        Per second; 0 if no member is away any more.
    """
    begin, end = max(time_ms - window_ms / 2, 0.0), time_ms + window_ms / 2
    away = float(law.integral_ms(end)) - float(law.integral_ms(begin))
    return 1000.0 * (float(law.at(begin)) - float(law.at(end))) / away if away > 0 else 0.0
