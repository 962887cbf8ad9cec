"""Records which part did what at which virtual second, so that a history can be read, compared and kept.

The text depends on the history alone, so a trace of the same seed is the same file, and golden files work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Parameters
    ----------
    at_s: virtual seconds.
    who: the acting part, such as `kubelet/n1`, `operator-a` or `user`.
    what: a short text, the same for the same kind of event.
    facts: what distinguishes this event from others of its kind.
    """

    at_s: float
    who: str
    what: str
    facts: tuple[tuple[str, Any], ...] = ()

    def line(self) -> str:
        """Render as one aligned line."""
        facts = "  ".join(f"{key}={_text(value)}" for key, value in self.facts)
        return f"{self.at_s:9.3f}  {self.who:<16} {self.what:<30} {facts}".rstrip()


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, set | frozenset):
        return ",".join(sorted(str(v) for v in value))
    if isinstance(value, list | tuple):
        return ",".join(str(v) for v in value)
    return str(value)


@dataclass(slots=True)
class Trace:
    """Collect entries in order.

    Attributes
    ----------
    entries: everything so far.
    listeners: called with each entry as it is added.
    """

    entries: list[Entry] = field(default_factory=list)
    listeners: list[Callable[[Entry], None]] = field(default_factory=list)

    def add(self, at_s: float, who: str, what: str, **facts: Any) -> None:
        """Note one event.

        Parameters
        ----------
        at_s: virtual seconds.
        facts: shown as key=value in the given order; None is left out.
        """
        entry = Entry(at_s, who, what, tuple((k, v) for k, v in facts.items() if v is not None))
        self.entries.append(entry)
        for listener in self.listeners:
            listener(entry)

    def select(self, *, who: str = "", what: str = "") -> Iterator[Entry]:
        """Iterate over the entries whose actor and event begin with the given texts."""
        return (e for e in self.entries if e.who.startswith(who) and e.what.startswith(what))

    def text(self) -> str:
        """Render everything, one line for each entry."""
        return "".join(f"{entry.line()}\n" for entry in self.entries)

    def digest(self) -> str:
        """Hash the text, to compare two runs."""
        return hashlib.sha256(self.text().encode()).hexdigest()
