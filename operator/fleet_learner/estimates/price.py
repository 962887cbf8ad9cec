"""The price of a rebalance for a group, and its source.

The one idea: a price that was neither measured nor stated is a guess, and a guess may not reverse an advice. A price
carries its source, so that code that compares costs can check whether it may.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.recommendations import PriceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Hold how long a partition that a rebalance stops has no consumer.

    Parameters
    ----------
    seconds: the best estimate, > 0.
    lower_seconds, upper_seconds: its 90 % interval; equal to it when the price is stated or assumed.
    source: measured, stated or assumed.
    rebalances: number of measured rebalances; 0 without a measurement.
    """

    seconds: float
    lower_seconds: float
    upper_seconds: float
    source: PriceSource
    rebalances: int = 0

    @classmethod
    def given(cls, seconds: float, *, is_stated: bool) -> Price:
        """Return a price that was not measured."""
        source = PriceSource.STATED if is_stated else PriceSource.ASSUMED
        return cls(seconds=seconds, lower_seconds=seconds, upper_seconds=seconds, source=source)

    @property
    def is_known(self) -> bool:
        """Return whether costs may be compared by it."""
        return self.source is not PriceSource.ASSUMED
