"""The saving of a change, with its uncertainty.

The one idea: the costs of two timeouts are uncertain in the same way, so their difference is computed under each law
that the data allow, and quantiles are taken of the differences, at both ends of the price's interval. An interval that
contains zero means that it is unknown whether the change saves anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from journal.recommendations import Difference

from ..estimates.cost import under_laws
from ..estimates.laws import Law

if TYPE_CHECKING:
    from ..estimates.gap_law import LawEstimate
    from .group_history import GroupHistory

INTERVAL = (0.05, 0.95)
"""Quantiles, over the laws that the data allow, of every figure with an interval."""
_DYNAMIC_TIMEOUT_MS = 45_000.0  # session.timeout.ms by default


def saving(
    history: GroupHistory,
    estimate: LawEstimate | None,
    laws: Law | None,
    *,
    from_ms: int | None,
    to_ms: int | None,
    is_dynamic: bool,
) -> Difference | None:
    """Compare the timeout in force with the advised one, in partition-seconds per day.

    Parameters
    ----------
    laws: b laws that the data allow.
    from_ms, to_ms: timeouts; None: not known.
    is_dynamic: dynamic members are advised, whatever `to_ms` is.

    Returns
    -------
    Difference | None
        None without a known price, known restarts or known timeouts.
    """
    if estimate is None or laws is None or from_ms is None or to_ms is None or not history.price.is_known:
        return None
    at = np.array([float(from_ms), float(to_ms)])
    value = float(_saved(estimate.law, history, 1.0, at, is_dynamic)[0])
    ends = (history.price.lower_seconds, history.price.upper_seconds)
    drawn = np.stack([_saved(laws, history, end / history.price.seconds, at, is_dynamic) for end in ends])
    quantiles = np.quantile(drawn, INTERVAL, axis=1)
    lower, upper = min(float(quantiles.min()), value), max(float(quantiles.max()), value)
    return Difference(value=round(value, 4), lower=round(lower, 4), upper=round(upper, 4))


def _saved(
    laws: Law, history: GroupHistory, factor: float, at: NDArray[np.float64], is_dynamic: bool
) -> NDArray[np.float64]:
    """Return the difference under each law, with the price times a factor."""
    rates = history.rates
    found = under_laws(laws, rates, at)
    eviction = factor * rates.eviction_partition_seconds
    costs = np.atleast_2d(eviction * found.evictions + rates.member_partitions * found.ghost_seconds)
    if not is_dynamic:
        return costs[:, 0] - costs[:, 1]
    idle = np.zeros(1)
    if not history.leaves_on_close:
        idle = np.ravel(laws.integral_ms(np.array([[_DYNAMIC_TIMEOUT_MS]]))) / 1000.0
    return costs[:, 0] - rates.stops_per_day * (eviction + rates.member_partitions * idle)
