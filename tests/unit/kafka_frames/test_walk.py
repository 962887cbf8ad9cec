"""One walk for both ends: what a frame may claim. The codecs' own tests feed it every API in every version."""

from __future__ import annotations

import dataclasses
import struct
from typing import ClassVar

import pytest
from kio.index import load_request_schema, load_response_schema

from kafka_frames import BadFrame, check_frame

METADATA, LIST_GROUPS, API_VERSIONS = 3, 16, 18


def listed(count: int, groups: int) -> bytes:
    """Return a ListGroups answer (v0) that claims `count` groups and has `groups`, each without a name."""
    return struct.pack(">hi", 0, count) + struct.pack(">hh", 0, 0) * groups


def test_it_returns_the_offset_after_the_entity() -> None:
    entity = load_response_schema(LIST_GROUPS, 0)
    assert check_frame(entity, b"head" + listed(2, 2) + b"tail", 4) == 4 + len(listed(2, 2))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (listed(2**31 - 1, 2), "claims more elements"),
        (listed(3, 2), "ends early"),
        (listed(-1, 0), "null that may not be"),
        (listed(-2, 0), "negative"),
        (struct.pack(">hihh", 0, 1, -2, 0), "negative"),
        (struct.pack(">hih", 0, 1, 32_000), "ends early"),
        (b"\x00", "ends early"),
    ],
)
def test_a_claim_that_the_frame_cannot_hold_is_refused(frame: bytes, said: str) -> None:
    with pytest.raises(BadFrame, match=said):
        check_frame(load_response_schema(LIST_GROUPS, 0), frame)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"\x00\x00" + b"\xff" * 5, "more than five bytes"),
        (b"\x00\x00\xff\xff\xff\xff\x0f", "claims more elements"),
        (b"\x00\x00\x00", "null that may not be"),
        (b"\x00\x00\x01\x00\x00\x00\x00\x7f", "more tagged fields"),
        (b"\x00\x00\x01\x00\x00\x00\x00\x01\x00\x05\x02", "ends early"),
        (b"\x00\x00\x01\x00\x00\x00\x00\x01\x00\x05\xff\xff\xff\xff\x0f", "claims more elements"),
    ],
)
def test_compact_lengths_and_tagged_fields_are_walked_too(frame: bytes, said: str) -> None:
    """ApiVersions v3: an array, a duration, and tagged fields of which the first is an array."""
    with pytest.raises(BadFrame, match=said):
        check_frame(load_response_schema(API_VERSIONS, 3), frame)


def test_a_null_array_passes_where_the_schema_lets_it() -> None:
    assert check_frame(load_request_schema(METADATA, 4), struct.pack(">ib", -1, 0)) == 5


def test_the_elements_of_a_frame_can_be_bounded() -> None:
    """A frame of a few megabytes can hold more empty names than anybody wants to walk."""
    entity = load_response_schema(LIST_GROUPS, 0)
    assert check_frame(entity, listed(3, 3), max_elements=3) == len(listed(3, 3))
    with pytest.raises(BadFrame, match="more elements than any"):
        check_frame(entity, listed(3, 3), max_elements=2)
    assert check_frame(entity, listed(70_000, 70_000)) == len(listed(70_000, 70_000))


@dataclasses.dataclass
class Odd:
    """An entity with a field of a type that no schema had when this was written."""

    __flexible__: ClassVar[bool] = False
    field: int = dataclasses.field(metadata={"kafka_type": "int128"})


def test_a_field_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(BadFrame, match="int128"):
        check_frame(Odd, bytes(16))


class Uncopied(bytes):
    """A frame of which nobody takes a slice."""

    def __getitem__(self, key: object) -> int:  # type: ignore[override]
        assert not isinstance(key, slice), "a copy of the frame for each tagged field makes a long frame take minutes"
        return super().__getitem__(key)  # type: ignore[index,return-value]


def test_known_tagged_fields_are_walked_without_a_copy() -> None:
    """The same known tag a hundred times, as often as its bytes are there."""
    frame = Uncopied(b"\x00\x00\x01\x00\x00\x00\x00\x64" + b"\x03\x01\x00" * 100)
    assert check_frame(load_response_schema(API_VERSIONS, 3), frame) == len(frame)


def test_a_tagged_field_may_not_reach_past_its_own_size() -> None:
    """Tag 1 is an int64, here said to take one byte, with more than enough of the frame behind it."""
    frame = b"\x00\x00\x01\x00\x00\x00\x00\x01\x01\x01" + bytes(20)
    with pytest.raises(BadFrame, match="ends early"):
        check_frame(load_response_schema(API_VERSIONS, 3), frame)
