"""Missing evidence before an advice is possible, with what to do and how much of it."""

from __future__ import annotations

import math

from fleet_learner.recommendations.policy import PROBABILITY_MIN
from journal.recommendations import Difference, PriceSource, Recommendation

from ..units import amount, count, percent
from .carrier import bill_command

COVERAGE_MIN = 0.5
"""Least watched share of the window for a recommendation."""
FEW_STOPS = 2
"""With fewer effective stops a group's own data are too few."""
_TIMES_MAX = 10
"""More than so many times the seen stops are not worth waiting for."""


def is_priced(recommendation: Recommendation) -> bool:
    """Return whether costs may be compared: the price of a rebalance was measured or stated."""
    return recommendation.price_source in {PriceSource.MEASURED, PriceSource.STATED}


def price_is_missing(recommendation: Recommendation) -> str:
    """Return how to learn the cost of a rebalance."""
    return (
        f"What one rebalance costs it: {bill_command(recommendation.group_id)}, by somebody with the right READ on "
        "the topic __consumer_offsets; with the log under offsets_logs in the configuration each run measures it."
    )


def watch_longer(coverage: float) -> str:
    """Return that an operator has to be running."""
    return (
        f"A longer time with a running operator: it watched {percent(coverage)} of the window, and "
        f"{percent(COVERAGE_MIN)} is the least."
    )


def more_restarts(recommendation: Recommendation) -> str:
    """Return how many restarts are missing."""
    missing = max(1, math.ceil(FEW_STOPS - recommendation.evidence.stops_effective))
    return f"{count(missing, 'more restart')} that an operator sees from beginning to end; each deploy brings some."


def narrower(saved: Difference, stops: int) -> str:
    """Return about how many restarts would exclude zero: the interval narrows with the root of their number."""
    if saved.upper <= 0:
        return "Nothing more: it is known that the change does not pay."
    half = saved.value - saved.lower if saved.value > 0 else saved.upper - saved.value
    wider = half / abs(saved.value) if abs(saved.value) * _TIMES_MAX > half else math.inf
    if stops and wider * wider <= _TIMES_MAX:
        more = max(1, math.ceil(stops * (wider * wider - 1)))
        return f"About {count(more, 'more restart')}, if they are like those that were seen."
    return f"More than {amount(_TIMES_MAX)} times the restarts that were seen: the difference is small either way."


def more_agreement(recommendation: Recommendation) -> str:
    """Return the required and the present certainty of a change."""
    share = percent(PROBABILITY_MIN)
    asked = f"More restarts: a change is made when {share} of the laws that they allow agree that it is better"
    chance = recommendation.probability_cheaper
    return f"{asked}; so far {percent(chance)} do." if chance is not None else f"{asked}."


def present_timeout() -> str:
    """Return how the timeout in force becomes known."""
    return (
        "The timeout in force: the operator reads it from the pods' environment, or from the annotation "
        "staticgroup.io/session-timeout-ms."
    )
