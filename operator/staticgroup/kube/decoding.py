"""Decode what an API server sends.

pydantic's parser takes half of the time and memory of the standard library's. It takes no more than 200 levels, though, and an API
server more: what preserves unknown fields, such as the pods of a StrimziPodSet, or tells fields by their paths (managedFields) is as
deep as its owner likes. What is too deep for the one is read by the other.
Source: jiter, `recursion limit exceeded`; sigs.k8s.io/json, which takes 10,000 levels.
"""

import json
from typing import Final

from pydantic_core import from_json

NO_JSON: Final = ValueError
"""What is no JSON. The parser refuses half of a surrogate pair, too, for which API servers send U+FFFD (seen on 1.36.3)."""
_TOO_DEEP: Final = "recursion limit"


class TooDeep(ValueError):
    """JSON that is nested more deeply than anybody here reads: some 900 levels."""


def decoded(text: bytes | bytearray) -> object:
    """Decode JSON; raises NO_JSON or TooDeep.

    Notes
    -----
    Of texts only the keys of objects are kept by the parser for the next time: a value may be a Secret's, and goes with whoever read it.
    """
    try:
        return from_json(text, cache_strings="keys")
    except NO_JSON as error:
        if _TOO_DEEP not in str(error):
            raise
    try:
        return json.loads(text)
    except RecursionError:
        raise TooDeep from None
