"""Mutations of real bytes and JSON for fuzzing: small changes that keep most of the shape, unlike pure noise."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_NASTY = (
    b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff", b"\x7f\xff",
    b"\x80\x80", b"\x00" * 8, b"\x01" * 8,
)  # fmt: skip
"""Lengths as no frame has them: giant varints, INT32_MAX, null, INT32_MIN, null strings, and runs of empty things."""
LARGE_INTS = st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30])


@st.composite
def mutated_bytes(draw: st.DrawFn, original: st.SearchStrategy[bytes]) -> bytes:
    """Draw bytes that were changed in a few places, cut, or lengthened."""
    content = bytearray(draw(original))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.sampled_from(["set", "insert", "overwrite", "delete", "repeat", "cut", "append"])):
            case "set" if content:
                content[at] = draw(st.integers(0, 255))
            case "insert":
                content[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "overwrite":
                nasty = draw(st.sampled_from(_NASTY))
                content[at : at + len(nasty)] = nasty
            case "delete":
                del content[at : at + draw(st.integers(1, 16))]
            case "repeat":
                piece = content[at : at + draw(st.integers(1, 32))]
                content[at:at] = piece * draw(st.integers(1, 20))
            case "cut":
                del content[at:]
            case _:
                content += draw(st.binary(max_size=16))
    return bytes(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | LARGE_INTS | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON of a modest size."""


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON value, as its container and its key or index."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places_in(value[key])


@st.composite
def mutated_json(draw: st.DrawFn, original: Any) -> Any:
    """Draw a JSON value in which a few places hold something else, or nothing, or what another place holds."""
    changed = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        places = list(places_in(changed))
        if not places:
            return draw(json_values)
        holder, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "replace", "delete", "move"])):
            case "replace":
                holder[key] = draw(json_values)
            case "delete":
                del holder[key]
            case _:
                other, place = draw(st.sampled_from(places))
                if isinstance(other, dict) == isinstance(place, str) and (isinstance(other, dict) and place in other):
                    holder[key] = copy.deepcopy(other[place])
    return changed
