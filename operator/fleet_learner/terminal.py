"""Names for terminals and shells: Kafka allows any character in a group id, a line feed and the escape character, too.

The one idea: what would move the cursor, begin a line or turn the text around is shown by its escape, as Python and
bash write it.
"""

from __future__ import annotations

import shlex
import unicodedata
from typing import Final

_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is not shown but acts: control, format, surrogate, separators of lines and paragraphs."""


def printable(text: str) -> str:
    """Return a text of one line that does nothing to a terminal; done twice it is the same."""
    return "".join(_escaped(c) if unicodedata.category(c) in _ACTING else c for c in text)


def shell_word(text: str) -> str:
    """Return a text as one word of a command for bash, zsh or any shell of POSIX 2024; it is printable."""
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(f"\\{c}" if c in "\\'" else printable(c) for c in text) + "'"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
