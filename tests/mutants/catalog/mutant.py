"""One mutant: a name, one file, exact texts with their replacements, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MutantNotApplicable(Exception):
    """A mutant's text is not in the source exactly once; the mutant must follow the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One deliberate fault.

    Parameters
    ----------
    path: file, seen from `operator/staticgroup`.
    changes: (old text, new text) pairs; each old text occurs exactly once.
    tests: pytest arguments; at least one of these tests must fail.
    """

    name: str
    path: str
    changes: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def apply(self, operator: Path) -> None:
        """Change the copy.

        Raises
        ------
        MutantNotApplicable: the source has moved on.
        """
        file = operator / "staticgroup" / self.path
        text = file.read_text(encoding="utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise MutantNotApplicable(f"{self.path} holds {text.count(old)} times: {old.strip()!r}")
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")


def mutant(name: str, path: str, tests: tuple[str, ...], *changes: tuple[str, str]) -> Mutant:
    """Make a mutant, with its changes one after the other."""
    return Mutant(name=name, path=path, changes=changes, tests=tests)
