"""Make names safe for terminals and shells: Kafka allows any character in a group id, even a line feed.

The one idea: a character that would move the cursor, begin a line or reverse the text is shown as an escape, as Python
and bash write it.
"""

from __future__ import annotations

import shlex
import unicodedata
from typing import Final

_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of invisible characters: control, format, surrogate, line and paragraph separators."""


def printable(text: str) -> str:
    """Return a text as one line without effect on a terminal; applying it twice changes nothing."""
    return "".join(_escaped(c) if unicodedata.category(c) in _ACTING else c for c in text)


def shell_word(text: str) -> str:
    """Return a text as one word of a command for bash, zsh or any shell of POSIX 2024; it is printable."""
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(f"\\{c}" if c in "\\'" else printable(c) for c in text) + "'"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
