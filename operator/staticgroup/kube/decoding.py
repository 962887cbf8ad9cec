"""Decode what an API server sends.

pydantic's parser takes half of the time and memory of the standard library's, but at most 200 levels, where an API
server takes 10,000. Unknown fields that are preserved (the pods of a StrimziPodSet) and managedFields can be that deep.
The operator reads nothing below 20 levels, so what is too deep is cut away, and no such object breaks a LIST or a
watch.
Source: jiter, `recursion limit exceeded`; sigs.k8s.io/json, which takes 10,000 levels.
"""

import re
from typing import Final

from pydantic_core import from_json

NO_JSON: Final = ValueError
"""Not JSON. The parser also refuses half of a surrogate pair; API servers send U+FFFD instead (seen on 1.36.3)."""
LEVELS_MAX: Final = 100
"""Objects and lists inside each other that are kept of a text that is too deep."""
_TOO_DEEP: Final = "recursion limit"
# Everything between two brackets at once, or one bracket. Each byte is read once, whatever the text is.
_PIECE: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|\[\]|\{\})++|([\[{])|([\]}])', re.DOTALL)
_OPENS, _CLOSES = 1, 2


def decoded(text: bytes | bytearray) -> object:
    """Decode JSON; of what is nested too deeply for the parser, null stands for all below LEVELS_MAX. Raises NO_JSON.

    The parser caches only the keys of objects: a value may be a Secret's, and must not outlive its reader.
    """
    try:
        return from_json(text, cache_strings="keys")
    except NO_JSON as error:
        if _TOO_DEEP not in str(error):
            raise
    return from_json(_cut(text), cache_strings="keys")


def _cut(text: bytes | bytearray) -> bytes:
    """Put null in place of each object and list inside LEVELS_MAX others."""
    kept: list[bytes | bytearray] = []
    start, level = 0, 0
    for piece in _PIECE.finditer(text):
        if piece.lastindex == _OPENS:
            level += 1
            if level == LEVELS_MAX + 1:
                kept += [text[start : piece.start()], b"null"]
                start = len(text)
        elif piece.lastindex == _CLOSES:
            if level == LEVELS_MAX + 1:
                start = piece.end()
            level -= 1
    return b"".join([*kept, text[start:]])
