"""What became of a mutant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One line of the table, and the lines below it.

    Parameters
    ----------
    by: id of the first test that failed, or what the search found where; for a broken run, why it says nothing.
    trace: the shortest way to the broken promise, one sentence a step; only a search has one.
    """

    name: str
    fate: Fate
    by: str
    took_s: float
    trace: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the line, and the trace below it."""
        line = f"{self.fate:8}  {self.took_s:5.1f} s  {self.name:62}  {self.by}"
        return "\n".join([line, *(f"{number:>12}  {step}" for number, step in enumerate(self.trace, start=1))])
