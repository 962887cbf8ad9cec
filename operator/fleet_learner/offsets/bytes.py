"""Take Kafka's primitive types from bytes, each bounded by the remaining bytes.

Why: the bytes come from a topic that anybody with the right may write to. The one idea: every read checks its size
first, so that a wrong length is a `BadRecord` and never an IndexError, a long loop or a large allocation.
Source: `org.apache.kafka.common.protocol.types.Type`, `ByteUtils`, KIP-482 (compact types and tagged fields).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Final, TypeVar

_STRING_MAX: Final = 32767
_T = TypeVar("_T")
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")


class BadRecord(ValueError):
    """The bytes break the layout of their type."""


class Reader:
    """Take one field after the other from bytes, each bounded by the remaining bytes."""

    __slots__ = ("at", "buffer")

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        self.at = 0

    def take(self, size: int) -> bytes:
        """Take so many bytes."""
        end = self.at + size
        if size < 0 or end > len(self.buffer):
            raise BadRecord(f"{size} bytes wanted at {self.at}, {len(self.buffer) - self.at} left")
        part = self.buffer[self.at : end]
        self.at = end
        return part

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self.take(layout.size))[0]
        return number

    def int8(self) -> int:
        """Take a signed byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Take a signed 16-bit number."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Take a signed 32-bit number."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Take a signed 64-bit number."""
        return self._number(_INT64)

    def uuid(self) -> str:
        """Write a topic id as Kafka's `Uuid.toString` does."""
        return base64.urlsafe_b64encode(self.take(16)).decode("ascii").rstrip("=")

    def varint(self) -> int:
        """Take an unsigned varint of 32 bits (`ByteUtils.readUnsignedVarint`)."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise BadRecord(f"a varint of more than 32 bits before {self.at}")

    def text(self, size: int) -> str:
        """Take so many bytes of UTF-8."""
        if size > _STRING_MAX:
            raise BadRecord(f"a string of {size} bytes")
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRecord(f"a string is not UTF-8: {error.reason}") from error

    def string(self) -> str:
        """Take a STRING."""
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        """Take a NULLABLE_STRING."""
        size = self.int16()
        return None if size == -1 else self.text(size)

    def compact_string(self) -> str:
        """Take a COMPACT_STRING."""
        return self.text(self.varint() - 1)

    def compact_nullable_string(self) -> str | None:
        """Take a COMPACT_NULLABLE_STRING."""
        size = self.varint() - 1
        return None if size == -1 else self.text(size)

    def data(self) -> bytes:
        """Take BYTES."""
        return self.take(self.int32())

    def compact_data(self) -> bytes:
        """Take COMPACT_BYTES."""
        return self.take(self.varint() - 1)

    def array(self, item: Callable[[], _T]) -> list[_T]:
        """Take an array that may not be null."""
        return self._items(self.int32(), item)

    def compact_array(self, item: Callable[[], _T]) -> list[_T]:
        """Take a compact array that may not be null."""
        return self._items(self.varint() - 1, item)

    def _items(self, count: int, item: Callable[[], _T]) -> list[_T]:
        # Every item has at least one byte, so a count above the number of remaining bytes is wrong.
        if not 0 <= count <= len(self.buffer) - self.at:
            raise BadRecord(f"an array of {count} items, {len(self.buffer) - self.at} bytes left")
        return [item() for _ in range(count)]

    def tags(self) -> dict[int, bytes]:
        """Take the tagged fields of a flexible structure; newer brokers add to them (KIP-482)."""
        count = self.varint()
        if count > len(self.buffer) - self.at:
            raise BadRecord(f"{count} tagged fields, {len(self.buffer) - self.at} bytes left")
        return dict((self.varint(), self.take(self.varint())) for _ in range(count))

    def finish(self) -> None:
        """Refuse remaining bytes."""
        if self.at != len(self.buffer):
            raise BadRecord(f"{len(self.buffer) - self.at} bytes after the end")
