"""The order in which Java reads a small hash map, where Kafka lets it decide between equals.

Source: java.util.HashMap (16 buckets up to 12 entries; a bucket is read in the order of insertion), String.hashCode.
"""

from __future__ import annotations

_BUCKETS = 16


def bucket(text: str) -> int:
    """Return the bucket of a string in a map of at most 12 entries; lower ones are read first."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code ^ code >> 16) & (_BUCKETS - 1)
