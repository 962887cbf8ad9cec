"""Keep a set of ordinals as merged ranges, whose cost does not depend on how many ordinals they hold.

The one idea: a StatefulSet may ask for two thousand million pods from any start, so ordinals are never counted out;
what is remembered of them is a short text, and when it would get too long the narrowest gaps are filled.
Source: KEP-3335 (`spec.ordinals.start`; both it and `spec.replicas` are int32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

INT32_MAX: Final = 2**31 - 1
ORDINALS_TEXT_MAX: Final = 1024
"""Characters of `Ordinals.text`: what the schema of `status.memory.issued.ordinals` takes."""


@dataclass(frozen=True, slots=True)
class Ordinals:
    """Hold ordinals as ranges that ascend, are not empty and neither overlap nor touch.

    Parameters
    ----------
    bounds: First and last ordinal of each range, in that form; `of` and `parse` bring any ranges into it.

    Notes
    -----
    A set whose text would be longer than ORDINALS_TEXT_MAX also holds the ordinals of its narrowest gaps. For the
    ordinals that were given an id this is the safe direction. Whether an id is ours follows from the schemes that make
    it and not by this set, and an ordinal in it that was never used has no carrier: its chain is empty, and an empty
    chain proves nothing.
    """

    bounds: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *runs: range) -> Self:
        """Unite ranges of step 1, in any order, overlapping or empty; the class says when the result holds more."""
        merged: list[range] = []
        for run in sorted((r for r in runs if r), key=lambda r: r.start):
            if merged and run.start <= merged[-1].stop:
                merged[-1] = range(merged[-1].start, max(merged[-1].stop, run.stop))
            else:
                merged.append(run)
        while len(merged) > 1 and len(_text(merged)) > ORDINALS_TEXT_MAX:
            _fill_narrowest_gap(merged)
        return cls(tuple((run.start, run.stop - 1) for run in merged))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `text` wrote, or what somebody wrote in its place.

        Parameters
        ----------
        text: Such as `0-4,7`; empty for none. Ranges may be in any order; `2147483640-2147483647` is as cheap as `0-1`.

        Raises
        ------
        ValueError: When a part is neither a number nor two numbers with a dash.
        """
        runs = []
        for part in text.split(",") if text else ():
            ends = part.split("-")
            if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
                raise ValueError(f"not an ordinal range: {part!r}")
            numbers = [int(end) for end in ends]
            runs.append(range(min(numbers), max(numbers) + 1))
        return cls.of(*runs)

    @property
    def runs(self) -> tuple[range, ...]:
        """The ranges, ascending."""
        return tuple(range(first, last + 1) for first, last in self.bounds)

    @property
    def text(self) -> str:
        """Write the ranges as `0-4,7`; empty for none."""
        return _text(self.runs)

    @property
    def words(self) -> str:
        """Write the ranges for people: `0-4, 7, 9 and above`, where the last one has no end."""
        return ", ".join(f"{r.start} and above" if r.stop > INT32_MAX else _text([r]) for r in self.runs)

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __contains__(self, ordinal: int) -> bool:
        return any(first <= ordinal <= last for first, last in self.bounds)


def _text(runs: Sequence[range]) -> str:
    return ",".join(str(r.start) if r.stop - r.start == 1 else f"{r.start}-{r.stop - 1}" for r in runs)


def _fill_narrowest_gap(runs: list[range]) -> None:
    """Merge the two neighbours that are closest to each other, the lower ones among equals."""
    after = min(range(1, len(runs)), key=lambda n: runs[n].start - runs[n - 1].stop)
    runs[after - 1 : after + 1] = [range(runs[after - 1].start, runs[after].stop)]
