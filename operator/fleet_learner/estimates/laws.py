"""Laws of the restart gap: survival and its integral, all that a cost needs.

The one idea: an estimated curve, a fitted law and the truth of a simulation answer the same two questions, so the cost
of a timeout is written once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

TIME_MS_MIN = 1e-6


class Law(Protocol):
    """Answer for any times, in milliseconds; times below 0 count as 0."""

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(gap > time)."""

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return ∫₀ᵗ P(gap > u) du = E[min(gap, t)]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LognormalLaw:
    """The law of exp(N(mean, deviation²)) milliseconds; arrays of shape (b, 1, 1) make b laws at once."""

    mean: NDArray[np.float64] | float
    deviation: NDArray[np.float64] | float

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(gap > time)."""
        return ndtr((self.mean - _log(time_ms)) / self.deviation)

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return E[min(gap, t)]: t·S(t) plus the partial expectation of a lognormal law."""
        time = np.maximum(np.asarray(time_ms, dtype=np.float64), 0.0)
        below = ndtr((_log(time) - self.mean) / self.deviation - self.deviation)
        return time * self.at(time) + np.exp(self.mean + np.square(self.deviation) / 2) * below


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoLaw:
    """Pareto's law from `least_ms` on: S(t) = (least/t)^index; index ≠ 1."""

    least_ms: float
    index: float

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(gap > time)."""
        return (self.least_ms / np.maximum(np.asarray(time_ms, dtype=np.float64), self.least_ms)) ** self.index

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return E[min(gap, t)]."""
        time = np.maximum(np.asarray(time_ms, dtype=np.float64), 0.0)
        ratio = np.maximum(time / self.least_ms, 1.0)
        return np.minimum(time, self.least_ms) + self.least_ms * (ratio ** (1.0 - self.index) - 1.0) / (
            1.0 - self.index
        )


@dataclass(frozen=True, slots=True)
class NeverLaw:
    """The gap of a member that does not return by itself."""

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return 1."""
        return np.ones_like(np.asarray(time_ms, dtype=np.float64))

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return the time itself."""
        return np.maximum(np.asarray(time_ms, dtype=np.float64), 0.0)


@dataclass(frozen=True, slots=True)
class MixtureLaw:
    """A mixture of laws with the given weights, which add up to 1."""

    weights: Sequence[float]
    laws: Sequence[Law]

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(gap > time)."""
        return sum((w * law.at(time_ms) for w, law in zip(self.weights, self.laws, strict=True)), start=np.float64(0.0))

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return E[min(gap, t)]."""
        return sum(
            (w * law.integral_ms(time_ms) for w, law in zip(self.weights, self.laws, strict=True)),
            start=np.float64(0.0),
        )


@dataclass(frozen=True, slots=True)
class TabulatedLaw:
    """Any survival function, tabulated once and interpolated linearly.

    Parameters
    ----------
    survival: takes times in milliseconds, (points,); may return (b, points) for b laws at once, whose answers then
        begin with that axis.
    horizon_ms: the last time of the table; beyond it the survival stays.
    points: times of the table; their distance grows with time, 2 % of it at most with 500 points to half an hour.
    """

    survival: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    horizon_ms: float
    points: int = 500
    _times: NDArray[np.float64] = field(init=False, repr=False)
    _values: NDArray[np.float64] = field(init=False, repr=False)
    _areas: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        times = _table_times(self.horizon_ms, self.points)
        values = np.asarray(self.survival(times), dtype=np.float64)
        steps = (values[..., 1:] + values[..., :-1]) / 2 * np.diff(times)
        areas = np.concatenate((np.zeros((*values.shape[:-1], 1)), np.cumsum(steps, axis=-1)), axis=-1)
        object.__setattr__(self, "_times", times)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_areas", areas)

    def at(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(gap > time)."""
        index, share, _, _ = self._place(time_ms)
        return self._values[..., index] * (1.0 - share) + self._values[..., index + 1] * share

    def integral_ms(self, time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return E[min(gap, t)]: exact for the broken line between the table's times."""
        index, share, into, beyond = self._place(time_ms)
        here, after = self._values[..., index], self._values[..., index + 1]
        inside = self._areas[..., index] + into * (here + (after - here) * share / 2)
        return inside + beyond * self._values[..., -1].reshape(self._values.shape[:-1] + (1,) * np.ndim(time_ms))

    def _place(self, time_ms: NDArray[np.float64] | float) -> tuple[NDArray[np.float64], ...]:
        """Find each time's cell, its share of the cell, the time into it, and the time beyond the table."""
        time = np.maximum(np.asarray(time_ms, dtype=np.float64), 0.0)
        inside = np.minimum(time, self._times[-1])
        index = np.minimum(np.searchsorted(self._times, inside, side="right") - 1, self._times.size - 2)
        into = inside - self._times[index]
        return index, into / (self._times[index + 1] - self._times[index]), into, time - inside


@lru_cache(maxsize=16)
def _table_times(horizon_ms: float, points: int) -> NDArray[np.float64]:
    times = np.concatenate(([0.0], np.geomspace(min(100.0, horizon_ms / 2), horizon_ms, points)))
    times.setflags(write=False)
    return times


def _log(time_ms: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.log(np.maximum(np.asarray(time_ms, dtype=np.float64), TIME_MS_MIN))
