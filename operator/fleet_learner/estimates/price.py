"""Say what a rebalance costs a group, and how anybody knows.

The one idea: a price that nobody measured or stated is a guess, and a guess may not turn an advice around. It travels
with its source, so that whoever compares costs can see whether he may.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.recommendations import PriceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Hold for how long a partition that a rebalance stops is without a consumer.

    Parameters
    ----------
    seconds: the best estimate, > 0.
    lower_seconds, upper_seconds: its 90 % interval; equal to it when the price is stated or assumed.
    source: where it is from.
    rebalances: that it was measured at; 0 when it was not.
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
        """Say whether costs may be compared by it."""
        return self.source is not PriceSource.ASSUMED
