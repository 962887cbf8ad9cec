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
    """One line of the table.

    Parameters
    ----------
    by: id of the first test that failed; for a broken run, why it says nothing.
    """

    name: str
    fate: Fate
    by: str
    took_s: float

    def text(self) -> str:
        """Return the line."""
        return f"{self.fate:8}  {self.took_s:5.1f} s  {self.name:62}  {self.by}"
