"""An assignor's input about one member, and the bytes in which classic consumers exchange it.

Source: ConsumerPartitionAssignor.Subscription, ConsumerProtocol and the schemas ConsumerProtocolSubscription.json and
ConsumerProtocolAssignment.json (v0-3, no flexible versions).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..base.image import TopicImage
from ..base.messages import TopicPartitions

HIGHEST_VERSION = 3


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member as an assignor sees it.

    Parameters
    ----------
    instance_id: None for a dynamic member.
    rack_id: None when the member does not say.
    topics: what it subscribes to; topics that the image does not know are skipped.
    owned: what it owns (client side) or what its target was (server side).
    generation: the generation in which `owned` was valid; -1 when the member does not say (KAFKA-12984).
    """

    instance_id: str | None = None
    rack_id: str | None = None
    topics: Collection[str] = ()
    owned: TopicPartitions = ()
    generation: int = -1


def member_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return the member ids in the order that makes assignments survive new member ids.

    Static members come first, by instance id, then dynamic ones by member id.
    Source: AbstractPartitionAssignor.MemberInfo.compareTo (KIP-345) and the server's RangeAssignor.sortMemberIds.
    """
    return sorted(
        members,
        key=lambda m: (0, instance_id, m) if (instance_id := members[m].instance_id) is not None else (1, m, m),
    )


def subscribers_by_topic(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, list[str]]:
    """Return the subscribers of each existing topic in member order, topics by name."""
    subscribers: dict[str, list[str]] = {}
    for member_id in member_order(members):
        for topic in set(members[member_id].topics):
            if topic in image.partitions:
                subscribers.setdefault(topic, []).append(member_id)
    return dict(sorted(subscribers.items()))


def to_topic_partitions(pairs: Iterable[tuple[str, int]]) -> TopicPartitions:
    """Return (topic, partition) pairs as the messages carry them: sorted, one entry per topic."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(pairs):
        grouped.setdefault(topic, []).append(partition)
    return tuple((topic, tuple(partitions)) for topic, partitions in grouped.items())


def to_pairs(partitions: TopicPartitions) -> list[tuple[str, int]]:
    """Return the (topic, partition) pairs of what a message carries, in its order."""
    return [(topic, partition) for topic, numbers in partitions for partition in numbers]


@dataclass(frozen=True, slots=True)
class DecodedSubscription:
    """What a consumer's JoinGroup metadata says; `owned` is empty below v1, `generation` -1 below v2."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: TopicPartitions = ()
    generation: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class DecodedAssignment:
    """What a consumer's SyncGroup assignment says."""

    version: int
    partitions: TopicPartitions
    user_data: bytes | None = None


def encode_subscription(subscription: DecodedSubscription) -> bytes:
    """Return the metadata bytes of a JoinGroup of protocol type "consumer".

    Source: ConsumerProtocol.serializeSubscription.
    """
    parts = [struct.pack(">hi", subscription.version, len(subscription.topics))]
    parts += [_string(topic) for topic in subscription.topics]
    parts.append(_nullable_bytes(subscription.user_data))
    if subscription.version >= 1:
        parts.append(_partitions(subscription.owned))
    if subscription.version >= 2:
        parts.append(struct.pack(">i", subscription.generation))
    if subscription.version >= 3:
        parts.append(struct.pack(">h", -1) if subscription.rack_id is None else _string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes) -> DecodedSubscription:
    """Decode metadata; a version above 3 is read as 3, and its further bytes are ignored.

    Raises
    ------
    ValueError: the bytes are not a consumer subscription.
    Source: ConsumerProtocol.deserializeSubscription.
    """
    reader = _Reader(data)
    version = reader.version()
    topics = tuple(reader.string() for _ in reader.count())
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack_id = reader.nullable_string() if version >= 3 else None
    return DecodedSubscription(version, topics, user_data, owned, generation, rack_id)


def encode_assignment(assignment: DecodedAssignment) -> bytes:
    """Return the assignment bytes of a SyncGroup of protocol type "consumer".

    Source: ConsumerProtocol.serializeAssignment.
    """
    head = struct.pack(">h", assignment.version)
    return head + _partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(data: bytes) -> DecodedAssignment:
    """Return what assignment bytes say; empty bytes, as for a member without assignment, say nothing is assigned.

    Raises
    ------
    ValueError: the bytes are not a consumer assignment.
    Source: ConsumerProtocol.deserializeAssignment.
    """
    if not data:
        return DecodedAssignment(HIGHEST_VERSION, ())
    reader = _Reader(data)
    return DecodedAssignment(reader.version(), reader.partitions(), reader.nullable_bytes())


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _nullable_bytes(raw: bytes | None) -> bytes:
    return struct.pack(">i", -1) if raw is None else struct.pack(">i", len(raw)) + raw


def _partitions(partitions: TopicPartitions) -> bytes:
    parts = [struct.pack(">i", len(partitions))]
    for topic, numbers in partitions:
        parts += [_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


class _Reader:
    """Reads big-endian Kafka primitives; running out of bytes is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError(f"{count} bytes wanted at {self._at} of {len(self._data)}")
        self._at += count
        return self._data[self._at - count : self._at]

    def int16(self) -> int:
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise ValueError(f"version {version} of the consumer protocol")
        return min(version, HIGHEST_VERSION)

    def count(self) -> range:
        """Return an index range of an array's length; each element takes at least two bytes."""
        count = self.int32()
        if count < 0 or count > len(self._data):
            raise ValueError(f"an array of {count} elements")
        return range(count)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("a null string")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._take(length).decode()

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self._take(length)

    def partitions(self) -> TopicPartitions:
        pairs = []
        for _ in self.count():
            topic = self.string()
            pairs += [(topic, self.int32()) for _ in self.count()]
        return to_topic_partitions(pairs)
