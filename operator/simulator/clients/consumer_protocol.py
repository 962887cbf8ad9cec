"""What classic consumers write into their group metadata, byte by byte as real ones do.

Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json, version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Assignment = dict[str, tuple[int, ...]]


def encode_subscription(topics: Sequence[str]) -> bytes:
    """Encode the topics that a member wants."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(_string(topic) for topic in topics) + struct.pack(">i", -1)


def decode_subscription(content: bytes) -> tuple[str, ...]:
    """Return the topics that a member wants, whatever the version: later ones only append."""
    (count,) = struct.unpack_from(">i", content, 2)
    topics, position = [], 6
    for _ in range(count):
        topic, position = _read_string(content, position)
        topics.append(topic)
    return tuple(topics)


def encode_assignment(assignment: Mapping[str, Sequence[int]]) -> bytes:
    """Encode the partitions that a member gets."""
    content = struct.pack(">hi", 0, len(assignment))
    for topic, partitions in sorted(assignment.items()):
        content += _string(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return content + struct.pack(">i", -1)


def decode_assignment(content: bytes) -> Assignment:
    """Return the partitions that a member gets; nothing for empty bytes."""
    if not content:
        return {}
    (count,) = struct.unpack_from(">i", content, 2)
    assignment: Assignment = {}
    position = 6
    for _ in range(count):
        topic, position = _read_string(content, position)
        (size,) = struct.unpack_from(">i", content, position)
        assignment[topic] = struct.unpack_from(f">{size}i", content, position + 4)
        position += 4 + 4 * size
    return assignment


def assign_range(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> dict[str, Assignment]:
    """Give each member a range of each topic (RangeAssignor).

    Parameters
    ----------
    subscriptions: member → topics, in the order in which members are served: by instance id, then member id.
    partitions: topic → number of partitions; a topic that is missing does not exist.
    """
    result: dict[str, Assignment] = {member: {} for member in subscriptions}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics if topic in partitions}):
        members = [member for member, topics in subscriptions.items() if topic in topics]
        share, extra = divmod(partitions[topic], len(members))
        start = 0
        for position, member in enumerate(members):
            size = share + (position < extra)
            if size:
                result[member][topic] = tuple(range(start, start + size))
            start += size
    return result


def _string(text: str) -> bytes:
    content = text.encode()
    return struct.pack(">h", len(content)) + content


def _read_string(content: bytes, position: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", content, position)
    start = position + 2
    return content[start : start + size].decode(), start + size
