"""What would have to be seen before an advice can be given, in words that say what to do and how much of it."""

from __future__ import annotations

import math

from staticgroup.api.recommendation import Difference, PriceSource, Recommendation

from .carrier import bill_command
from .units import amount, count, percent

COVERAGE_MIN = 0.5
"""Of the window: with less nothing is recommended."""
FEW_STOPS = 2
"""Effective stops below which a group has nothing to say for itself."""
_TIMES_MAX = 10
"""Beyond so many times the stops seen, more of them are no way to find out."""


def is_priced(recommendation: Recommendation) -> bool:
    """Say whether costs may be compared: somebody measured or stated what a rebalance costs."""
    return recommendation.price_source in {PriceSource.MEASURED, PriceSource.STATED}


def price_is_missing(recommendation: Recommendation) -> str:
    """Say how to learn what a rebalance costs."""
    return (
        "What one rebalance costs it. Measure it with the command below, as somebody with the right READ on the topic "
        f"__consumer_offsets: {bill_command(recommendation.group_id)}"
    )


def watch_longer(coverage: float) -> str:
    """Say that an operator has to be there."""
    return (
        f"A longer time with a running operator: it watched {percent(coverage)} of the window, and "
        f"{percent(COVERAGE_MIN)} is the least."
    )


def more_restarts(recommendation: Recommendation) -> str:
    """Say how many restarts are missing."""
    missing = max(1, math.ceil(FEW_STOPS - recommendation.evidence.stops_effective))
    return f"{count(missing, 'more restart')} that an operator sees from beginning to end; each deploy brings some."


def narrower(saved: Difference, stops: int) -> str:
    """Say about how many restarts would part the saving's interval from zero: it narrows with the root of their number."""
    if saved.upper <= 0:
        return "Nothing more: it is known that the change does not pay."
    half = saved.value - saved.lower if saved.value > 0 else saved.upper - saved.value
    times = (half / saved.value) ** 2 if saved.value else math.inf
    if stops and times <= _TIMES_MAX:
        more = max(1, math.ceil(stops * (times - 1)))
        return f"About {count(more, 'more restart')}, if they are like those that were seen."
    return f"More than {amount(_TIMES_MAX)} times the restarts that were seen: the difference is small either way."


def present_timeout() -> str:
    """Say how the timeout in force becomes known."""
    return (
        "The timeout in force: the operator reads it from the pods' environment, or from the annotation "
        "staticgroup.io/session-timeout-ms."
    )
