"""Split a page of Markdown into sentences, so that a test can name those that nobody reads at once.

    python -m support.sentences PAGE...    prints the words of each page and every sentence that is too long
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORDS_MAX: Final = 35
"""More than this in one sentence needs a second reading."""
_CODE_BLOCK: Final = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_END: Final = re.compile(r"(?<=[.!?:;])\s+(?=[\"'`*(A-Z0-9])")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page: of its paragraphs, list items and table cells; code blocks are none.

    A colon and a semicolon end one too, because a reader may rest there. A code span is one word.
    """
    text = _COMMENT.sub("", _CODE_BLOCK.sub("", text))
    text = re.sub(r"`[^`\n]+`", "Code", _LINK.sub(r"\1", text))
    for part in _parts(text):
        yield from (found for found in (s.strip() for s in _END.split(part)) if found)


def too_long(text: str) -> list[str]:
    """Return the sentences of more than `WORDS_MAX` words."""
    return [s for s in sentences(text) if len(s.split()) > WORDS_MAX]


def _parts(text: str) -> Iterator[str]:
    """Yield what a sentence never goes beyond: a paragraph, an item of a list, a cell of a table, a heading."""
    lines: list[str] = []
    for line in (*text.splitlines(), ""):
        is_row = line.lstrip().startswith("|")
        begins = bool(_ITEM.match(line)) or line.lstrip().startswith("#") or is_row or not line.strip()
        if begins and lines:
            yield " ".join(lines)
            lines = []
        if is_row:
            yield from (cell.strip() for cell in line.strip().strip("|").split("|"))
        elif line.strip():
            lines.append(_ITEM.sub("", line).lstrip("# ").strip())


def main(paths: list[str]) -> int:
    """Print words and long sentences of pages."""
    for path in paths:
        text = Path(path).read_text()
        print(f"{path}: {len(text.split())} words")
        for sentence in too_long(text):
            print(f"  {len(sentence.split())} words: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
